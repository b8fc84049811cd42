"""Signatures of files by minisign (https://jedisct1.github.io/minisign/, "Signature format").

A file is signed itself, or its BLAKE2b digest, as minisign does since 0.10 of 2021. The trusted comment is signed
together with the signature, by the same key. It is verified as well, but what it says about the file is not used.
"""

from __future__ import annotations

import base64
import hashlib
import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from rukpak.api.plugins import KIBIBYTE, Signer
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.verdicts import UnusableKeysError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SIGNATURE_BYTES = 16 * KIBIBYTE
"""Limit of a signature file; comments have at most 9 KiB (minisign.h)."""
_WHOLE, _HASHED = b"Ed", b"ED"
_ID_BYTES, _KEY_BYTES, _SIGNED_BYTES = 8, 32, 64
_UNTRUSTED, _TRUSTED = "untrusted comment:", "trusted comment: "
_DAMAGED = "it is not a minisign signature; sign the file again"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key of minisign."""

    text: str
    """As minisign writes it, without comment."""
    id: bytes
    key: Ed25519PublicKey


def read_key(text: str) -> PublicKey:
    """Parse a public key: its line that starts with RW, or the whole file.

    Raises: UnusableKeysError.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - only needed here

    *comment, line = [line.strip() for line in text.strip().splitlines()] or [""]
    is_key = not comment or (len(comment) == 1 and comment[0].startswith(_UNTRUSTED))
    try:
        data = base64.b64decode(line, validate=True) if is_key else b""
    except ValueError:
        data = b""
    if len(data) != len(_WHOLE) + _ID_BYTES + _KEY_BYTES or not data.startswith(_WHOLE):
        raise UnusableKeysError('is not a public key of minisign, which starts with "RW"; correct it')
    key = Ed25519PublicKey.from_public_bytes(data[-_KEY_BYTES:])
    return PublicKey(text=line, id=data[len(_WHOLE) : -_KEY_BYTES], key=key)


def verify(file: BinaryIO, signature: bytes, key: PublicKey) -> Signer:
    """Verify the signature of a file, which is read from the disk, not held in memory.

    Args:
        file: at its start.
        signature: content of the .minisig file.
        key: that is accepted.

    Raises: SignatureError.
    """
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only needed here

    algorithm, key_id, signed, comment, signed_comment = read_signature(signature)
    if key_id != key.id:
        raise SignatureError("the file is signed with another key; sign it with the one of publicKey, or correct that")
    try:
        _verify_file(file, algorithm, signed, key)
        key.key.verify(signed_comment, signed + comment)
    except InvalidSignature:
        raise SignatureError(
            "the signature is of something else, or its comment was changed; sign the file again"
        ) from None
    return Signer(by="minisign", key=key.text)


def _verify_file(file: BinaryIO, algorithm: bytes, signed: bytes, key: PublicKey) -> None:
    """Raises: InvalidSignature."""
    if not file.seek(0, os.SEEK_END):  # which cannot be mapped
        key.key.verify(signed, hashlib.blake2b().digest() if algorithm == _HASHED else b"")
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as content:
        key.key.verify(signed, hashlib.blake2b(content).digest() if algorithm == _HASHED else content)


def read_signature(text: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Return algorithm, key ID, signature, trusted comment and its signature; nothing is verified yet.

    Raises: SignatureError.
    """
    lines = [line.rstrip("\r") for line in text.decode(errors="surrogateescape").rstrip("\r\n").split("\n")]
    try:
        untrusted, first, trusted, second = lines
        found, signed_comment = (base64.b64decode(line, validate=True) for line in (first, second))
    except ValueError:
        raise SignatureError(_DAMAGED) from None
    algorithm, key_id, signed = found[:2], found[2 : 2 + _ID_BYTES], found[2 + _ID_BYTES :]
    is_known = algorithm in (_WHOLE, _HASHED) and len(signed) == len(signed_comment) == _SIGNED_BYTES
    if not (is_known and untrusted.startswith(_UNTRUSTED) and trusted.startswith(_TRUSTED)):
        raise SignatureError(_DAMAGED)
    comment = trusted.removeprefix(_TRUSTED).encode(errors="surrogateescape")
    return algorithm, key_id, signed, comment, signed_comment
