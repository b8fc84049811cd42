"""Signatures of commits and annotated tags, by OpenPGP or SSH keys.

The objects are parsed here: `git verify-commit` runs whatever program is configured, and reports what that prints. What
git accepts in several forms is refused here unless it can mean one thing only: one signature, headers once and in
order, no nested tags. A tag is proof for its own name only, so that an old one cannot be served under a new name.

Formats: gitformat-signature(5), git-mktag(1); https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig.
X.509 signatures (S/MIME, gitsign) are not supported. Not here: how objects are fetched (controller/sources/git).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from rukpak.api.plugins import MEBIBYTE, Access, Signer
from rukpak.controller.content.limits import describe_bytes, quote
from rukpak.controller.sources.signatures import SignatureError, UnusableKeysError, openpgp
from rukpak.controller.sources.signatures.programs import run_verifier

OBJECT_BYTES = MEBIBYTE
"""Limit of a commit or tag; most have less than a thousandth."""
COMMIT, TAG = "commit", "tag"
ALGORITHMS = {40: "sha1", 64: "sha256"}
_SIGNATURES = {40: b"gpgsig", 64: b"gpgsig-sha256"}
"""The header with the signature of a commit in a repository with names of that length."""
_ORDER: Mapping[str, re.Pattern[bytes]] = {
    COMMIT: re.compile(rb"tree (?:parent )*author committer (?!.*\b(?:tree|parent|author|committer) )"),
    TAG: re.compile(rb"object type tag tagger (?!.*\b(?:object|type|tag|tagger) )"),
}
_WHEN = re.compile(rb".*> (\d{1,11}) [+-]\d{4}", re.DOTALL)
_BEGIN = re.compile(rb"^-----BEGIN (PGP SIGNATURE|PGP MESSAGE|SSH SIGNATURE|SIGNED MESSAGE)-----\s*$", re.MULTILINE)
"""What git takes for the begin of a signature (gpg-interface.c), and so what a message must not contain."""
_PGP, _SSH, _X509 = b"PGP SIGNATURE", b"SSH SIGNATURE", b"SIGNED MESSAGE"
_SSH_BLOCK = re.compile(rb"-----BEGIN SSH SIGNATURE-----\r?\n[A-Za-z0-9+/=\r\n]+-----END SSH SIGNATURE-----\s*")
_SSH_KEY = re.compile(rb"Good \"git\" signature for .* with \S+ key (SHA256:\S+)\s*")
_MOST_PRINCIPALS = 16
"""Principals of one key: each is tried, since they may be allowed for different things."""
_ALLOWED_SIGNERS = "allowed_signers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys whose signatures are accepted."""

    keyring: bytes = b""
    """OpenPGP keys, for gpgv."""
    allowed_signers: bytes = b""
    """SSH keys, as ssh-keygen(1) has them in "ALLOWED SIGNERS"."""


def read_keys(secret: Mapping[str, bytes]) -> Keys:
    """Return the keys in a Secret: OpenPGP keys of any name, and allowed_signers.

    Raises: UnusableKeysError.
    """
    signers = secret.get(_ALLOWED_SIGNERS, b"").removeprefix(openpgp.BOM).strip()
    keys = Keys(keyring=openpgp.read_keys(secret), allowed_signers=signers)
    if not (keys.keyring or keys.allowed_signers):
        found = "".join(
            f"; {quote(name)} is {form}" for name, text in sorted(secret.items()) if (form := _form_of(text))
        )
        problem = "add OpenPGP keys as *.asc, or SSH keys as allowed_signers"
        raise UnusableKeysError(f"the Secret has no keys; {problem}{found}")
    return keys


def _form_of(text: bytes) -> str:
    text = text.removeprefix(openpgp.BOM).lstrip()
    if text.startswith((b"ssh-", b"ecdsa-sha2-", b"sk-ssh-", b"sk-ecdsa-")):
        return "an SSH key, which belongs into allowed_signers behind the name of its owner"
    if text.startswith(b"---- BEGIN SSH2 PUBLIC KEY"):
        return "an SSH key in the form of RFC 4716; convert it with ssh-keygen -i"
    return "a certificate, and X.509 is not supported" if text.startswith(b"-----BEGIN CERTIFICATE") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedObject:
    """A commit or tag with a signature that is not verified yet."""

    payload: bytes
    """What is signed."""
    signature: bytes
    made_at: int
    """When it says that it was committed or tagged, in seconds since the epoch."""


def read_commit(name: str, data: bytes) -> SignedObject:
    """Parse a commit.

    Args:
        name: of the object.
        data: its content.

    Raises: SignatureError, also if the name is not that of the content.
    """
    headers, body = _split(COMMIT, name, data)
    signatures = [value for key, value in headers if key == _SIGNATURES[len(name)]]
    if not signatures:
        raise SignatureError("the commit is not signed; sign it, or set object: Tag")
    if len(signatures) > 1:
        raise SignatureError("the commit has several signatures; sign it again")
    made_at = next(_time(value) for key, value in headers if key == b"committer")
    return SignedObject(payload=_unsigned(headers, body), signature=signatures[0], made_at=made_at)


def read_tag(name: str, data: bytes, *, tag: str, commit: str) -> SignedObject:
    """Parse an annotated tag.

    Args:
        name: of the object.
        data: its content.
        tag: its name, without refs/tags/, as the spec has it.
        commit: that the server says it names.

    Raises: SignatureError, also if the name is not that of the content, or if it is a tag of something else.
    """
    headers, body = _split(TAG, name, data)
    found = dict(headers)
    if found[b"tag"] != tag.encode():
        raise SignatureError(f"the tag was made as {quote(found[b'tag'].decode(errors='replace'))}; use its own name")
    if found[b"type"] != COMMIT.encode() or found[b"object"] != commit.encode():
        raise SignatureError("the tag is not one of the commit itself; tag the commit")
    begins = list(_BEGIN.finditer(body))
    if not begins:
        raise SignatureError("the tag is not signed; sign it, or set object: Commit")
    if len(begins) > 1:
        raise SignatureError("the tag has several signatures; sign it again")
    start = begins[0].start()
    payload = _unsigned(headers, body[:start])
    return SignedObject(payload=payload, signature=body[start:], made_at=_time(found[b"tagger"]))


def verify(signed: SignedObject, keys: Keys, access: Access, *, now: float) -> Signer:
    """Verify the signature of a commit or tag.

    Args:
        signed: the object.
        keys: that are accepted.
        access: for running a program.
        now: seconds since the epoch.

    Raises: SignatureError; BundleError as `run_verifier`.
    """
    begin = _BEGIN.match(signed.signature)
    kind = begin[1] if begin else b""
    if kind == _PGP:
        if not keys.keyring:
            raise SignatureError("it is signed with OpenPGP, and the Secret has no such key; add it as *.asc")
        types = (openpgp.BINARY,)
        return openpgp.verify(signed.payload, signed.signature, keys.keyring, access, types=types, now=now)
    if kind == _SSH:
        if not keys.allowed_signers:
            raise SignatureError("it is signed with an SSH key, and the Secret has none; add it to allowed_signers")
        return _verify_ssh(signed, keys.allowed_signers, access, now)
    if kind == _X509:
        raise SignatureError(
            "it is signed with X.509 (S/MIME or gitsign), which is not supported; sign it with OpenPGP or SSH"
        )
    raise SignatureError("it has a signature of an unknown type; sign it with OpenPGP or SSH")


# objects


_Headers = list[tuple[bytes, bytes]]


def _split(kind: str, name: str, data: bytes) -> tuple[_Headers, bytes]:
    if len(data) > OBJECT_BYTES:
        raise SignatureError(f"the {kind} exceeds the limit of {describe_bytes(OBJECT_BYTES)}; make it smaller")
    content = b"%s %d\0%s" % (kind.encode(), len(data), data)
    if hashlib.new(ALGORITHMS[len(name)], content, usedforsecurity=False).hexdigest() != name:
        raise SignatureError(f"the {kind} is not what its name says; repair the repository")
    head, empty, body = data.partition(b"\n\n")
    found: list[tuple[bytes, list[bytes]]] = []
    for line in head.split(b"\n"):
        key, blank, value = line.partition(b" ")
        if not (empty and blank and (key or found)) or b"\0" in line:
            raise SignatureError(f"the {kind} has a header that git does not write; make it again")
        if key:
            found.append((key, [value]))
        else:
            found[-1][1].append(value)
    headers = [(key, b"\n".join(values)) for key, values in found]
    if not _ORDER[kind].match(b"".join(key + b" " for key, _ in headers)):
        raise SignatureError(f"the {kind} has headers twice, or in another order than git writes them; make it again")
    return headers, b"\n" + body


def _unsigned(headers: _Headers, rest: bytes) -> bytes:
    # Signatures are made before these headers are added.
    kept = [(key, value) for key, value in headers if key not in _SIGNATURES.values()]
    return b"".join(b"%s %s\n" % (key, value.replace(b"\n", b"\n ")) for key, value in kept) + rest


def _time(value: bytes) -> int:
    found = _WHEN.fullmatch(value)
    if not found:
        raise SignatureError("it does not say when it was made; make it again")
    return int(found[1])


# SSH


def _verify_ssh(signed: SignedObject, allowed_signers: bytes, access: Access, now: float) -> Signer:
    if not _SSH_BLOCK.fullmatch(signed.signature):
        raise SignatureError("the signature is damaged; sign it again")
    if signed.made_at > now + openpgp.AHEAD_SECONDS:
        raise SignatureError("it is from the future; correct the clock that it was made with, and sign it again")
    files = {"allowed": allowed_signers + b"\n", "signature": signed.signature}
    when = datetime.fromtimestamp(signed.made_at, UTC)
    options = ["-f", "allowed", "-s", "signature", f"-Overify-time={when:%Y%m%d%H%M%S}"]
    found = run_verifier(["ssh-keygen", "-Y", "find-principals", *options], access, files, b"")
    principals = found.output.decode(errors="replace").splitlines() if not found.status else []
    for principal in principals[:_MOST_PRINCIPALS]:
        command = ["ssh-keygen", "-Y", "verify", "-n", "git", "-I", principal, *options]
        result = run_verifier(command, access, files, signed.payload)
        key = _SSH_KEY.fullmatch(result.output)
        if not result.status and key:
            return Signer(by="ssh", key=key[1].decode(), identity=principal)
    if principals:
        raise SignatureError("the signature is of something else, or its key is not for git; sign it again")
    raise SignatureError(
        "it is signed with an SSH key that allowed_signers does not have, or not for that time; add it, if it is known"
    )
