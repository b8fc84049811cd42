"""Signatures of minisign that are accepted, and those that are not.

Those of PUBLISHED were made by minisign, and are in the documentation of several of its libraries; the others are made
here in the same way.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from rukpak.api.plugins import Signer
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.minisign import PublicKey, read_key, verify
from rukpak.controller.sources.signatures.verdicts import UnusableKeysError
from tests.support.signing import Minisign

CONTENT = b"what is signed\n"

KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
PUBLISHED = {
    "the file": b"""untrusted comment: signature from minisign secret key
RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=
trusted comment: timestamp:1555779966\tfile:test
QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==
""",
    "its digest": b"""untrusted comment: signature from minisign secret key
RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=
trusted comment: timestamp:1633700835\tfile:test\tprehashed
wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==
""",
}


def check(folder: Path, content: bytes, signature: bytes, key: PublicKey) -> Signer:
    (folder / "file").write_bytes(content)
    with (folder / "file").open("rb") as file:
        return verify(file, signature, key)


@pytest.mark.parametrize("content", [CONTENT, b"", b"x" * 3_000_000], ids=["short", "empty", "long"])
@pytest.mark.parametrize("algorithm", [b"Ed", b"ED"], ids=["the file", "its digest"])
def test_a_signature(tmp_path: Path, content: bytes, algorithm: bytes) -> None:
    signer = Minisign()
    signature = signer.sign(content, algorithm)
    expected = Signer(by="minisign", key=signer.public)
    assert check(tmp_path, content, signature, read_key(signer.public)) == expected
    assert check(tmp_path, content, signature.replace(b"\n", b"\r\n"), read_key(signer.public)) == expected
    assert (
        check(
            tmp_path,
            content,
            signature.replace(b"untrusted comment: s", b"untrusted comment: x"),
            read_key(signer.public),
        )
        == expected
    )


@pytest.mark.parametrize("signature", PUBLISHED.values(), ids=PUBLISHED)
def test_a_signature_that_minisign_has_made(tmp_path: Path, signature: bytes) -> None:
    assert check(tmp_path, b"test", signature, read_key(KEY)) == Signer(by="minisign", key=KEY)
    with pytest.raises(SignatureError, match="the signature is of something else"):
        check(tmp_path, b"tests", signature, read_key(KEY))


def test_the_file_of_a_key_is_read_as_well() -> None:
    public = Minisign().public
    assert read_key(f"untrusted comment: minisign public key 1\n{public}\n") == read_key(f" {public}\n")


@pytest.mark.parametrize("algorithm", [b"Ed", b"ED"])
def test_another_file(tmp_path: Path, algorithm: bytes) -> None:
    signer = Minisign()
    with pytest.raises(SignatureError, match="the signature is of something else"):
        check(tmp_path, CONTENT + b"x", signer.sign(CONTENT, algorithm), read_key(signer.public))


def test_a_signature_of_the_digest_that_claims_to_be_of_the_file(tmp_path: Path) -> None:
    signer = Minisign()
    claimed = base64.b64encode(b"Ed" + base64.b64decode(signer.sign(CONTENT).split(b"\n")[1])[2:])
    signature = signer.sign(CONTENT).split(b"\n")
    signature[1] = claimed
    with pytest.raises(SignatureError, match="the signature is of something else"):
        check(tmp_path, CONTENT, b"\n".join(signature), read_key(signer.public))


def test_another_key(tmp_path: Path) -> None:
    signer, other = Minisign(), Minisign()
    with pytest.raises(SignatureError, match="the signature is of something else"):
        check(tmp_path, CONTENT, other.sign(CONTENT), read_key(signer.public))
    with pytest.raises(SignatureError, match="the file is signed with another key"):
        check(tmp_path, CONTENT, signer.sign(CONTENT, key_id=b"x" * 8), read_key(signer.public))


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0], lines[1], lines[2] + b"x", lines[3]],
        lambda lines: [lines[0], lines[1], lines[2], base64.b64encode(b"x" * 64)],
        lambda lines: [lines[0], lines[1], lines[2], base64.b64encode(base64.b64decode(lines[1])[10:])],
    ],
    ids=["changed", "with another signature", "with the signature of the file"],
)
def test_a_trusted_comment_that_is_not_signed(tmp_path: Path, change: object) -> None:
    signer = Minisign()
    assert callable(change)
    with pytest.raises(SignatureError, match="or its comment was changed"):
        check(tmp_path, CONTENT, b"\n".join(change(signer.sign(CONTENT).split(b"\n")[:4])), read_key(signer.public))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: b"<!doctype html>",
        lambda text: text + text,
        lambda text: b"\n".join(text.split(b"\n")[:2]),
        lambda text: b"\n".join(text.split(b"\n")[1:]),
        lambda text: text.replace(b"trusted comment: t", b"comment: t"),
        lambda text: text.replace(b"\nRU", b"\n!U"),
        lambda text: text.replace(b"\nRU", b"\nRV"),
        lambda text: text.replace(b"\ntrusted", b"AAAA\ntrusted"),
        lambda text: text.rstrip(b"\n") + b"AAAA\n",
    ],
    ids=[
        "empty",
        "a web page",
        "twice",
        "without a trusted comment",
        "without an untrusted comment",
        "without the name of the comment",
        "not base64",
        "another algorithm",
        "a signature that is too long",
        "a signature of the comment that is too long",
    ],
)
def test_a_file_that_is_no_signature(tmp_path: Path, change: object) -> None:
    signer = Minisign()
    assert callable(change)
    with pytest.raises(SignatureError, match="it is not a minisign signature"):
        check(tmp_path, CONTENT, change(signer.sign(CONTENT)), read_key(signer.public))


@pytest.mark.parametrize(
    "text",
    ["", "RW", "ssh-ed25519 AAAA", "RW" + "A" * 56, "RX" + "A" * 54, "RW" + "Ä" * 54, "a\nb", "RW" + "!" * 54],
)
def test_a_key_that_is_none(text: str) -> None:
    with pytest.raises(UnusableKeysError, match="is not a public key of minisign"):
        read_key(text)
