"""OpenPGP signatures: of git's objects, and of provenance files of charts. They are verified by gpgv.

gpgv is made for this: it reads a file of keys, trusts all of them, and has no home, agent or network. Of the libraries
for Python, PGPy has had no release since 2022 and leaves it to its caller whether keys have expired or are revoked, and
pysequoia has no wheels for all machines that the controller runs on. What gpgv reads is prepared here, so that it
cannot be understood in two ways: the armor is removed, a signature is one packet, and keys are not secret and are there
once. Its exit status is 0 for revoked and expired keys as well, so its status lines are judged
(doc/DETAILS of GnuPG, "Format of the --status-fd output").

Times are the signer's own claim. A key that has expired since is accepted for what it signed before: otherwise nothing
that is installed could be resolved again. Whoever has stolen it can date a signature back, so such a key has to be
revoked or removed. A key that is revoked, for whatever reason, is not accepted for anything.

Provenance files of charts, which `helm package --sign` writes (https://helm.sh/docs/topics/provenance), are texts in a
frame with their signature: what a chart is and its digest. The text is taken out of its frame here, and its signature
verified like one of a separate file (RFC 9580, section 7), so what was signed is what is read. It is read only after
that. The digest alone would let a repository serve an old chart as a new version, so name and version also have to
match.

Not here: what the signatures of git are of (git.py), and how provenance files are fetched (../chart.py).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import yaml

from rukpak.api.plugins import KIBIBYTE, Access, Signer
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.signatures import SignatureError, UnusableKeysError
from rukpak.controller.sources.signatures.programs import run_verifier

_SIGNATURE, _PUBLIC_KEY, _PUBLIC_SUBKEY = 2, 6, 14
_SECRET = (5, 7)
_OF_KEYS = (_PUBLIC_KEY, _SIGNATURE, 12, 13, _PUBLIC_SUBKEY, 17)
"""Packets of public keys: with trust, user IDs and attributes, and subkeys (RFC 9580, section 5)."""
_NEW, _OLD = 0xC0, 0x80
_TWO_OCTETS, _PARTIAL, _FOUR_OCTETS = 192, 224, 255
"""First octets of the size of a packet, from which on it is longer."""
_KEYS, _PRIVATE_KEYS, _OF_SIGNATURE = b"PGP PUBLIC KEY BLOCK", b"PGP PRIVATE KEY BLOCK", b"PGP SIGNATURE"
_SUFFIXES = (".asc", ".gpg")
"""Ends of names whose values must be keys."""
_KEYBOX = b"KBXf"
BOM = b"\xef\xbb\xbf"
"""A byte order mark, as editors of Windows write it."""
_STRONG = {"8": "SHA256", "9": "SHA384", "10": "SHA512", "12": "SHA3-256", "14": "SHA3-512"}
"""Hash algorithms that are accepted, by number (RFC 9580, section 9.5): not MD5, SHA-1, RIPEMD-160 and SHA-224."""
BINARY, TEXT = "00", "01"
"""Types of signatures of documents (RFC 9580, section 5.2.1)."""
AHEAD_SECONDS = 24 * 3600
"""How far clocks may differ, in seconds."""
_VERDICTS: Mapping[str, str] = {
    "GOODSIG": "",
    "EXPKEYSIG": "",
    "BADSIG": "the signature is of something else; sign it again",
    "EXPSIG": "the signature has expired; sign it again",
    "REVKEYSIG": "the signature is by a key that was revoked; sign it again, with another key",
    "ERRSIG": "the signature cannot be checked; sign it again, with a key that is in the Secret",
}
_NO_KEY = "9"
_PRIMARY = 9
"""Position of the fingerprint of the primary key in VALIDSIG."""
_Line: TypeAlias = tuple[str, list[str]]


def read_keys(secret: Mapping[str, bytes]) -> bytes:
    """Return the public keys of a Secret as a keyring for gpgv; it is empty if there are none.

    Args:
        secret: its data by key: OpenPGP keys under any name, armored or not, and anything else.

    Raises: UnusableKeysError for a value that is named like keys without being such, for secret keys, keyboxes, and for
        two versions of one key: gpgv would take the first one, although the other one may be revoked.
    """
    known = dict[bytes, bytes]()
    for name, data in sorted(secret.items()):
        text = data.removeprefix(BOM)
        if not (name.endswith(_SUFFIXES) or _has_keys(text)):
            continue
        try:
            keys = [key for block in _read_blocks(text) for key in _split_keys(block)]
        except ValueError as error:
            raise UnusableKeysError(f"{quote(name)} {error}") from None
        for body, whole in keys:
            if known.setdefault(body, whole) != whole:
                problem = "has a key that is there already, in another form; remove the older copy"
                raise UnusableKeysError(f"{quote(name)} {problem}")
    return b"".join(known.values())


def _has_keys(text: bytes) -> bool:
    if b"-----BEGIN PGP P" in text or text[8:12] == _KEYBOX:
        return True
    try:
        return text[:1] >= b"\x80" and next(_packets(text))[0] in (_PUBLIC_KEY, *_SECRET)
    except (ValueError, StopIteration, IndexError):
        return False


def _read_blocks(text: bytes) -> list[bytes]:
    if text[8:12] == _KEYBOX:
        raise ValueError("is a keybox, which only GnuPG itself reads; write the keys with gpg --export --armor")
    if b"-----BEGIN " + _PRIVATE_KEYS in text:
        raise ValueError("has a private key; replace it by the public key, and do not use it any more")
    blocks = [text] if text[:1] >= b"\x80" else list(_dearmor(text, _KEYS))
    if not blocks:
        raise ValueError("has no public key; write it with gpg --export --armor")
    for block in filter(None, blocks):
        tags = [tag for tag, _, _ in _packets(block)]
        if any(tag in _SECRET for tag in tags):
            raise ValueError("has a private key; replace it by the public key, and do not use it any more")
        if tags[:1] != [_PUBLIC_KEY] or not set(tags) <= set(_OF_KEYS):
            raise ValueError("has something else than public keys; write it with gpg --export --armor")
    return blocks


def _split_keys(block: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytearray]] = []
    for tag, body, whole in _packets(block):
        if tag == _PUBLIC_KEY:
            found.append((body, bytearray()))
        found[-1][1].extend(whole)
    return [(body, bytes(whole)) for body, whole in found]


def verify(
    data: bytes, signature: bytes, keyring: bytes, access: Access, *, types: Sequence[str], now: float
) -> Signer:
    """Verify an armored, detached signature.

    Args:
        data: what was signed.
        signature: armored.
        keyring: of `read_keys`, with at least one key.
        access: for running gpgv.
        types: of signatures that are accepted: BINARY, TEXT.
        now: seconds since the epoch.

    Raises: SignatureError; BundleError as `run_verifier`.
    """
    packet = _read_signature(signature)
    status = _run(data, packet, keyring, access)
    if signed_with := [values[0] for keyword, values in _status_lines(status) if keyword == "VALIDSIG" and values]:
        has_expired = any(keyword == "EXPKEYSIG" for keyword, _ in _status_lines(status))
        # It also tells when other subkeys have expired.
        status = _run(data, packet, without_subkeys(keyring, signed_with[0]), access) if has_expired else status
    return judge(status, types, now)


def _run(data: bytes, signature: bytes, keyring: bytes, access: Access) -> str:
    files = {"keyring": keyring, "signature": signature}
    command = ["gpgv", "--homedir=/nonexistent", "--status-fd=1", "--keyring=./keyring", "--", "signature", "-"]
    return run_verifier(command, access, files, data).output.decode(errors="replace")


def without_subkeys(keyring: bytes, fingerprint: str) -> bytes:
    """Return a keyring without any subkey but the one with a fingerprint, and without what belongs to the others."""
    kept, is_kept = bytearray(), True
    for tag, body, whole in _packets(keyring):
        if tag in (_PUBLIC_KEY, _PUBLIC_SUBKEY):
            # Of version 4, which gpgv supports (RFC 9580, section 5.5.4.2).
            found = hashlib.sha1(b"\x99" + len(body).to_bytes(4)[2:] + body, usedforsecurity=False).hexdigest()
            is_kept = tag == _PUBLIC_KEY or found == fingerprint.lower()
        kept += whole if is_kept else b""
    return bytes(kept)


def _read_signature(text: bytes) -> bytes:
    whole = text.strip()
    if not (
        whole.startswith(b"-----BEGIN %s-----" % _OF_SIGNATURE) and whole.endswith(b"-----END %s-----" % _OF_SIGNATURE)
    ):
        raise SignatureError("the signature is damaged; sign it again")
    try:
        blocks = list(_dearmor(text, _OF_SIGNATURE))
        packets = [tag for block in blocks for tag, _, _ in _packets(block)]
    except ValueError:
        raise SignatureError("the signature is damaged; sign it again") from None
    if packets != [_SIGNATURE]:
        raise SignatureError("there is not exactly one signature; sign it again, with one key")
    return blocks[0]


def judge(status: str, types: Sequence[str], now: float) -> Signer:
    """Return who has signed, by the status lines of gpgv.

    Args:
        status: its output.
        types: of signatures that are accepted.
        now: seconds since the epoch.

    Raises: SignatureError unless it is one good signature by a key that was valid then.
    """
    lines = list(_status_lines(status))
    verdicts = [(keyword, values) for keyword, values in lines if keyword in _VERDICTS]
    if len(verdicts) != 1:
        raise SignatureError("there is not exactly one signature that gpgv can read; sign it again")
    keyword, values = verdicts[0]
    if keyword == "ERRSIG" and values[5:6] == [_NO_KEY]:
        raise SignatureError(
            f"it is signed with key {quote(values[0])}, which is not in the Secret; add it, if it is known"
        )
    if _VERDICTS[keyword]:
        raise SignatureError(_VERDICTS[keyword])
    valid = [values for keyword, values in lines if keyword == "VALIDSIG"]
    if len(valid) != 1 or len(valid[0]) <= _PRIMARY:
        raise SignatureError(_VERDICTS["ERRSIG"])
    _check_validity(valid[0], types, now)
    if keyword == "EXPKEYSIG":
        _check_expiry(lines, int(valid[0][2]))
    return Signer(by="pgp", key=valid[0][_PRIMARY], identity=" ".join(values[1:]))


def _status_lines(status: str) -> Iterator[_Line]:
    for line in status.split("\n"):
        prefix, keyword, *values = [*line.split(" "), ""]
        if prefix == "[GNUPG:]":
            yield keyword, values[:-1]


def _check_validity(values: Sequence[str], types: Sequence[str], now: float) -> None:
    # Fingerprint, date, time, …, hash algorithm, type of signature, primary key.
    if not values[2].isdecimal() or int(values[2]) > now + AHEAD_SECONDS:
        raise SignatureError(
            "the signature is from the future; correct the clock that it was made with, and sign it again"
        )
    if values[7] not in _STRONG:
        raise SignatureError("the signature has a weak hash algorithm; sign it again, with SHA256 or SHA512")
    if values[8] not in types:
        raise SignatureError("the signature is of another type; sign it again, as a binary document")


def _check_expiry(lines: Sequence[_Line], signed: int) -> None:
    told = {values[0] for keyword, values in lines if keyword == "KEYEXPIRED" and values}
    expired = told - {"0"}  # of a subkey that has no date itself
    if not expired or not all(when.isdecimal() and int(when) > signed for when in expired):
        raise SignatureError("the signature is by a key that had expired; sign it again, with another key")


# armor and packets


def _dearmor(text: bytes, label: bytes) -> Iterator[bytes]:
    # RFC 9580, section 6. The rest of the text is ignored.
    begin, end = b"-----BEGIN " + label + b"-----", b"-----END " + label + b"-----"
    lines = iter([line.strip() for line in text.splitlines()])
    for line in lines:
        if line == begin:
            while next(lines, b""):  # headers, up to an empty line
                pass
            yield _decode(lines, end)


def _decode(lines: Iterator[bytes], end: bytes) -> bytes:
    body = list[bytes]()
    for line in lines:
        if line == end:
            if body and body[-1].startswith(b"="):
                body.pop()  # a checksum
            try:
                return base64.b64decode(b"".join(body), validate=True)
            except binascii.Error:
                break
        body.append(line)
    raise ValueError("is damaged; write it again")


def _packets(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    # RFC 9580, section 4.2.
    position = 0
    while position < len(data):
        begin, (tag, size, start) = position, _header(data, position)
        position = start + size
        if position > len(data):
            raise ValueError("is truncated; write it again")
        yield tag, data[start:position], data[begin:position]


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    first, rest = data[at], data[at + 1 : at + 3]
    tag, start, octets = first & 0x3F, at + 2, 0
    if first & _NEW == _NEW and rest:
        if rest[0] < _TWO_OCTETS:
            return tag, rest[0], start
        if rest[0] < _PARTIAL and rest[1:]:
            return tag, ((rest[0] - _TWO_OCTETS) << 8) + rest[1] + _TWO_OCTETS, start + 1
        octets = 4 if rest[0] == _FOUR_OCTETS else 0
    elif first & _NEW == _OLD:
        tag, start, octets = tag >> 2, at + 1, (1, 2, 4, 0)[first & 3]
    if not octets or start + octets > len(data):
        raise ValueError("is damaged; write it again")
    return tag, int.from_bytes(data[start : start + octets]), start + octets


# provenance files of charts

PROVENANCE_BYTES = 512 * KIBIBYTE
"""Limit of a provenance file, which contains Chart.yaml."""
_TEXT_BEGINS, _SIGNATURE_BEGINS = b"-----BEGIN PGP SIGNED MESSAGE-----", b"-----BEGIN PGP SIGNATURE-----"
_TEXT_HEADER = re.compile(rb"Hash: [A-Za-z0-9, -]+")
_BETWEEN = "\n...\n"
_DAMAGED = "the provenance file was not written by Helm; sign the chart again with helm package --sign"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartArchive:
    """A packaged chart, as it was found."""

    name: str
    version: str
    digest: str
    """As `sha256:…`."""


def verify_provenance(chart: ChartArchive, provenance: bytes, keyring: bytes, access: Access, *, now: float) -> Signer:
    """Verify that a provenance file is signed, and of a chart.

    Args:
        chart: that was found.
        provenance: content of the .prov file.
        keyring: of `read_keys`, with at least one key.
        access: for running gpgv.
        now: seconds since the epoch.

    Raises: SignatureError; BundleError as `run_verifier`.
    """
    text, signature = split_provenance(provenance)
    signer = verify(b"\r\n".join(text), signature, keyring, access, types=(BINARY, TEXT), now=now)
    signed = read_provenance(b"\n".join(text))
    if signed != chart:
        problem = f"the provenance file is of chart {quote(signed.name)} {quote(signed.version)}"
        if (signed.name, signed.version) == (chart.name, chart.version):
            problem = "the provenance file has another digest of the chart"
        raise SignatureError(f"{problem}; publish the chart and its provenance file together")
    return replace(signer, by="provenance")


def split_provenance(provenance: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines of the signed text as they are hashed, and the armored signature, which is not verified yet.

    Raises: SignatureError.
    """
    lines = provenance.strip().split(b"\n")
    bare = [line.rstrip(b" \t\r") for line in lines]
    if bare[0] != _TEXT_BEGINS or bare.count(_SIGNATURE_BEGINS) != 1 or b"" not in bare:
        raise SignatureError(_DAMAGED)
    start, end = bare.index(b""), bare.index(_SIGNATURE_BEGINS)
    text = [line.removeprefix(b"- ") for line in bare[start + 1 : end]]
    is_escaped = all(not line.startswith(b"-") or line.startswith(b"- ") for line in bare[start + 1 : end])
    if start > end or not is_escaped or not all(_TEXT_HEADER.fullmatch(line) for line in bare[1:start]):
        raise SignatureError(_DAMAGED)
    return text, b"\n".join(bare[end:])


def read_provenance(text: bytes) -> ChartArchive:
    """Return the chart that a signed text is of: Chart.yaml, then the digest of one file. Raises: SignatureError."""
    try:
        about, files = (_values(yaml.compose(part, yaml.CSafeLoader)) for part in text.decode().split(_BETWEEN))
        (digest,) = _values(files["files"]).values()
        return ChartArchive(name=_text(about["name"]), version=_text(about["version"]), digest=_text(digest))
    except (ValueError, KeyError, RecursionError, yaml.YAMLError):
        raise SignatureError(_DAMAGED) from None


def _values(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.YAMLError("no mapping")
    return {_text(key): value for key, value in node.value}


def _text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.YAMLError("no text")
    return str(node.value)
