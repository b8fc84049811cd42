"""Targets: signed objects of git, keys and signatures, provenance files of charts."""

from __future__ import annotations

import hashlib

from hack.fuzzing.target import Target, expect, refusals
from rukpak.controller.sources.signatures import SignatureError, UnusableKeysError
from rukpak.controller.sources.signatures.git import COMMIT, TAG, read_commit, read_tag
from rukpak.controller.sources.signatures.openpgp import read_keys, read_provenance, split_provenance, without_subkeys

_NAME = "0" * 40


def check_signed_object(data: bytes) -> None:
    """Read a commit, and a tag: what is signed has the same headers, and no signature."""
    with refusals(SignatureError):
        signed = read_commit(_name_of(COMMIT, data), data)
        expect(signed.payload.split(b"\n")[0] == data.split(b"\n")[0], "another tree")
        expect(len(signed.payload) + len(signed.signature) < len(data), "more than there was")
        with refusals(SignatureError):
            read_commit(_name_of(COMMIT, signed.payload), signed.payload)
            expect(False, "what is signed has a signature")
    with refusals(SignatureError):
        tag = read_tag(_name_of(TAG, data), data, tag="v1", commit=_NAME)
        expect(tag.payload.startswith(b"object " + _NAME.encode() + b"\ntype commit\ntag v1\n"), "another tag")


def _name_of(kind: str, data: bytes) -> str:
    return hashlib.sha1(b"%s %d\0%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()


def check_keys(data: bytes) -> None:
    """Read OpenPGP keys: what gpgv gets means the same when it is read again."""
    with refusals(UnusableKeysError):
        keyring = read_keys({"a.asc": data})
        expect(read_keys({"a.asc": keyring}) == keyring, "other keys")
        without = without_subkeys(keyring, "")
        expect(read_keys({"a.asc": without}) == without, "no keys without subkeys")


def check_provenance(data: bytes) -> None:
    """Read a provenance file, and a text as if it was signed."""
    with refusals(SignatureError):
        lines, signature = split_provenance(data)
        expect(not any(b"\n" in line for line in lines), "a line that is two")
        expect(signature.startswith(b"-----BEGIN PGP SIGNATURE-----"), "no signature")
    with refusals(SignatureError):
        read_provenance(data)


_COMMIT_WORDS = (
    b"tree " + _NAME.encode() + b"\n",
    b"author t <t@example.org> 1700000000 +0000\n",
    b"committer t <t@example.org> 1700000000 +0000\n",
    b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n",
    b"gpgsig-sha256 ",
    b"mergetag object ",
    b"object " + _NAME.encode() + b"\ntype commit\ntag v1\ntagger t <t@example.org> 1700000000 +0000\n\n",
    b"-----BEGIN SSH SIGNATURE-----\n",
    b"\n ",
)
_KEY_WORDS = (
    b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n",
    b"-----END PGP PUBLIC KEY BLOCK-----\n",
    b"=abcd\n",
    b"\xc6\x01a",
    b"\x99\x00\x01a",
    b"\xc2\xff\x00\x00\x00\x01a",
)
_PROVENANCE_WORDS = (
    b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n",
    b"-----BEGIN PGP SIGNATURE-----\n",
    b"\n...\nfiles:\n  c-1.0.0.tgz: sha256:0\n",
    b"name: c\nversion: 1.0.0\n",
    b"- - a\n",
)
TARGETS = (
    Target(
        name="signed-objects", check=check_signed_object, covers="signed commits and tags of git", words=_COMMIT_WORDS
    ),
    Target(name="pgp-keys", check=check_keys, covers="OpenPGP keys", words=_KEY_WORDS),
    Target(name="provenance", check=check_provenance, covers="provenance files of charts", words=_PROVENANCE_WORDS),
)
