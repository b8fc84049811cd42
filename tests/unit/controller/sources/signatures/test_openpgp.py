"""OpenPGP signatures that are accepted, and those that are not, made by gpg."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.signatures import SignatureError, UnusableKeysError
from rukpak.controller.sources.signatures.openpgp import BINARY, TEXT, judge, read_keys, verify
from tests.support.signing import GpgHome, gpg_home

PATH = "spec.sources[0].git"
DATA = b"what is signed\n"
NOW = time.time()

RECORDED_KEY = b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZZIAgBYJKwYBBAHaRw8BAQdAYds9M0paore9QrJygbR/o6XpGfww5BnRV8Dl
AnHGYoy0F3Nob3AgPHNob3BAZXhhbXBsZS5vcmc+iJAEExYIADgWIQRyrCdSzAQg
IE9NKYcYItiYlf4r6wUCZZIAgAIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAK
CRAYItiYlf4r68YUAQDB907BASt9qdfwj6gSEq0GNWh8y6p2Wx8XPfhAFdZ1dwEA
iGj4Eet46zUGXABZQ9+Ltupwh5n15k6OOSXHfJCT8As=
=jpmB
-----END PGP PUBLIC KEY BLOCK-----
"""
RECORDED_SIGNATURE = b"""\
-----BEGIN PGP SIGNATURE-----

iHUEABYIAB0WIQRyrCdSzAQgIE9NKYcYItiYlf4r6wUCZZNSAAAKCRAYItiYlf4r
6+xyAQCthkHgrvUeogKXmVWm1lXWbVLU4Adbp7v5ZC9kGoL5nQD/a7cwmk+i5aEF
4DwHjIUSfSoLcrjGWTJ3R+ITLbUi4wY=
=66FD
-----END PGP SIGNATURE-----
"""


@pytest.fixture
def gpg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpgHome]:
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as home:
        yield home


@pytest.fixture(scope="module")
def rsa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpgHome]:
    """Has one key of RSA, for tests that only sign with it."""
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as home:
        home.make_key("rsa2048")
        yield home


def check(gpg: GpgHome, signature: bytes, access: Access, data: bytes = DATA) -> Signer:
    return verify(data, signature, read_keys({"a.asc": gpg.export()}), access, types=(BINARY,), now=NOW)


@pytest.mark.parametrize(
    "algorithm",
    ["rsa2048", "rsa4096", "dsa2048", "ed25519", "nistp256", "nistp384", "nistp521", "brainpoolP256r1"],
)
def test_a_signature_by_a_key_of_each_type(gpg: GpgHome, access: Access, algorithm: str) -> None:
    fingerprint = gpg.make_key(algorithm)
    assert check(gpg, gpg.sign(DATA), access) == Signer(by="pgp", key=fingerprint, identity="shop <shop@example.org>")


def test_a_signature_that_was_recorded(access: Access) -> None:
    """Where gpg is not installed, it is tried at least that gpgv verifies something, and not everything."""
    keyring = read_keys({"a.asc": RECORDED_KEY})
    signer = verify(DATA, RECORDED_SIGNATURE, keyring, access, types=(BINARY,), now=NOW)
    assert signer == Signer(
        by="pgp", key="72AC2752CC0420204F4D29871822D89895FE2BEB", identity="shop <shop@example.org>"
    )
    with pytest.raises(SignatureError, match="the signature is of something else"):
        verify(DATA + b"x", RECORDED_SIGNATURE, keyring, access, types=(BINARY,), now=NOW)


def test_a_signature_by_a_subkey_names_the_primary_key(gpg: GpgHome, access: Access) -> None:
    primary = gpg.make_key()
    gpg.run("--quick-add-key", primary, "rsa2048", "sign")
    subkey = gpg.fingerprints()[-1]
    assert subkey != primary
    assert check(gpg, gpg.sign(DATA, "--local-user", f"{subkey}!"), access).key == primary


def test_a_signature_of_something_else(gpg: GpgHome, access: Access) -> None:
    gpg.make_key()
    with pytest.raises(SignatureError, match="the signature is of something else"):
        check(gpg, gpg.sign(b"something else"), access)


def test_a_signature_by_a_key_that_is_not_in_the_secret(gpg: GpgHome, access: Access) -> None:
    trusted, other = gpg.make_key(), gpg.make_key(name="other")
    keyring = read_keys({"a.asc": gpg.export(trusted)})
    with pytest.raises(SignatureError, match=f'it is signed with key "{other[-16:]}", which is not in the Secret'):
        verify(DATA, gpg.sign(DATA, "--local-user", other), keyring, access, types=(BINARY,), now=NOW)


def test_a_signature_by_a_revoked_key(gpg: GpgHome, access: Access) -> None:
    fingerprint = gpg.make_key()
    signature = gpg.sign(DATA)
    gpg.revoke(fingerprint)
    with pytest.raises(SignatureError, match="by a key that was revoked"):
        check(gpg, signature, access)


def test_a_key_that_has_expired_since_is_accepted_for_what_it_signed_before(gpg: GpgHome, access: Access) -> None:
    fingerprint = gpg.make_key(expires="1y", at="20200101T000000")
    assert check(gpg, gpg.sign(DATA, at="20200601T000000"), access).key == fingerprint


def test_the_dates_of_other_subkeys_do_not_count(gpg: GpgHome, access: Access) -> None:
    """As where somebody makes a new one each year."""
    primary = gpg.make_key(expires="5y", at="20150101T000000")
    for year, expires in ((2016, "1y"), (2018, "1y"), (2019, "never")):
        gpg.run("--quick-add-key", primary, "rsa2048", "sign", expires, at=f"{year}0101T000000")
    first, second, third = gpg.fingerprints()[1:]
    for subkey, date in ((first, "20160601"), (second, "20180601"), (third, "20190601")):
        signature = gpg.sign(DATA, "--local-user", f"{subkey}!", at=f"{date}T000000")
        assert check(gpg, signature, access).key == primary


def test_a_subkey_does_not_outlive_its_primary_key(gpg: GpgHome, access: Access) -> None:
    primary = gpg.make_key(at="20150101T000000")
    gpg.run("--quick-add-key", primary, "rsa2048", "sign", "never", at="20150101T000000")
    signature = gpg.sign(DATA, "--local-user", f"{gpg.fingerprints()[-1]}!", at="20170601T000000")
    gpg.run("--quick-set-expire", primary, "1y", at="20150101T000000")
    with pytest.raises(SignatureError, match="by a key that had expired"):
        check(gpg, signature, access)


def test_a_signature_by_a_key_that_had_expired(gpg: GpgHome, access: Access) -> None:
    fingerprint = gpg.make_key(at="20200101T000000")
    signature = gpg.sign(DATA, at="20210601T000000")
    gpg.run("--quick-set-expire", fingerprint, "1y", at="20200101T000000")
    with pytest.raises(SignatureError, match="by a key that had expired"):
        check(gpg, signature, access)


def test_a_signature_that_has_expired(gpg: GpgHome, access: Access) -> None:
    gpg.make_key(at="20200101T000000")
    with pytest.raises(SignatureError, match="the signature has expired"):
        check(gpg, gpg.sign(DATA, "--default-sig-expire=1d", at="20200601T000000"), access)


def test_a_signature_from_the_future(gpg: GpgHome, access: Access) -> None:
    gpg.make_key()
    with pytest.raises(SignatureError, match="from the future"):
        check(gpg, gpg.sign(DATA, at="20990101T000000"), access)


@pytest.mark.parametrize("algorithm", ["SHA1", "RIPEMD160", "SHA224"])
def test_a_signature_with_a_weak_hash_algorithm(rsa: GpgHome, access: Access, algorithm: str) -> None:
    with pytest.raises(SignatureError, match="weak hash algorithm"):
        check(rsa, rsa.sign(DATA, f"--digest-algo={algorithm}", "--allow-weak-digest-algos"), access)


def test_a_signature_of_a_text_whose_ends_of_lines_mean_nothing(gpg: GpgHome, access: Access) -> None:
    gpg.make_key()
    signature = gpg.sign(DATA, "--textmode")
    with pytest.raises(SignatureError, match="of another type"):
        check(gpg, signature, access)
    keyring = read_keys({"a.asc": gpg.export()})
    assert verify(DATA, signature, keyring, access, types=(TEXT,), now=NOW).by == "pgp"


def test_a_signature_with_ends_of_lines_of_windows(gpg: GpgHome, access: Access) -> None:
    gpg.make_key()
    assert check(gpg, gpg.sign(DATA).replace(b"\n", b"\r\n"), access).by == "pgp"


def test_one_of_several_signatures_is_not_enough(gpg: GpgHome, access: Access) -> None:
    one, other = gpg.make_key(), gpg.make_key(name="other")
    signature = gpg.sign(DATA, "--local-user", one, "--local-user", other)
    with pytest.raises(SignatureError, match="there is not exactly one signature"):
        check(gpg, signature, access)
    with pytest.raises(SignatureError, match="there is not exactly one signature"):
        check(gpg, gpg.sign(DATA) + gpg.sign(DATA), access)


def test_a_signed_message_is_no_signature_of_something_else(gpg: GpgHome, access: Access) -> None:
    """What is signed would be in the message."""
    gpg.make_key()
    message = gpg.run("--sign", "--armor", stdin=DATA)
    for label in (b"PGP MESSAGE", b"PGP SIGNATURE"):
        with pytest.raises(SignatureError, match=r"damaged|not exactly one"):
            check(gpg, message.replace(b"PGP MESSAGE", label), access, b"something else")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + b"more",
        lambda text: b"more" + text,
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(b"=", b"!"),
        lambda text: text.replace(b"-----END", b"-----FIN"),
        lambda text: b"",
    ],
    ids=["text after it", "text before it", "cut", "not base64", "without an end", "empty"],
)
def test_a_damaged_signature(rsa: GpgHome, access: Access, change: object) -> None:
    assert callable(change)
    with pytest.raises(SignatureError, match="the signature is damaged"):
        check(rsa, change(rsa.sign(DATA)), access)


def armored(packets: bytes) -> bytes:
    text = base64.b64encode(packets)
    return b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n%s\n-----END PGP PUBLIC KEY BLOCK-----\n" % text


def test_keys_as_people_store_them(gpg: GpgHome) -> None:
    one, other = gpg.make_key(), gpg.make_key("rsa2048", name="other")
    binary = gpg.run("--export", one) + gpg.run("--export", other)
    assert read_keys({"a.asc": gpg.export(one, other)}) == binary
    assert read_keys({"a.asc": b"of shop\n" + gpg.export(one), "b.asc": gpg.export(other)}) == binary
    assert read_keys({"a.asc": (gpg.export(one) + gpg.export(other)).replace(b"\n", b"\r\n")}) == binary
    assert read_keys({"a.gpg": binary, "b": b"x"}) == binary
    assert read_keys({"a.pub": b"x", "b": b"\x99", "c": b"\xff\xfe\x00", "d": b""}) == b""
    assert read_keys({"author1": gpg.export(one), "author2": gpg.run("--export", other)}) == binary, "as for Flux"
    assert read_keys({"a.asc": b"\xef\xbb\xbf" + gpg.export(one, other)}) == binary, "with a byte order mark"
    assert read_keys({"a.asc": gpg.export(one, other), "b.asc": gpg.export(other), "c": gpg.export(one)}) == binary
    # What https://github.com/USER.gpg has for a user without keys.
    none = b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nNote: This user hasn't uploaded any GPG keys.\n\n\n=twTO\n"
    none += b"-----END PGP PUBLIC KEY BLOCK-----\n"
    assert read_keys({"a.gpg": binary, "b.gpg": none}) == binary
    assert read_keys({"b.gpg": none}) == b""


@pytest.mark.parametrize("name", ["pubring.kbx", "keys", "a.gpg"])
def test_a_keybox_is_named(name: str) -> None:
    """GnuPG has written its keys so since 2.1; gpgv alone cannot tell which of them are meant."""
    box = b"\x00\x00\x00\x20\x01\x01\x00\x02KBXf" + b"\x00" * 20
    with pytest.raises(UnusableKeysError, match=f'^"{name}" is a keybox'):
        read_keys({name: box})


def test_a_private_key_is_told_whatever_its_name() -> None:
    with pytest.raises(UnusableKeysError, match=r'^"identity" has a private key'):
        read_keys({"identity": b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "has no public key"),
        (b"ssh-ed25519 AAAA", "has no public key"),
        (b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n", "is damaged"),
        (armored(b"\xc6"), "is damaged"),
        (armored(b"\xc6\xe0abc"), "is damaged"),
        (armored(b"\x9babc"), "is damaged"),
        (armored(b"\x06\x01a"), "is damaged"),
        (armored(b"\xc6\x05abc"), "is truncated"),
        (armored(b"\xc2\x01a"), "has something else than public keys"),
        (armored(b"\xc6\x01a\xcb\x01a"), "has something else than public keys"),
        (armored(b"\xc5\x01a"), "has a private key"),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----", "has a private key"),
        (armored(b"\xc6\x01a\xc6\x01a\xcd\x01u"), "has a key that is there already"),
    ],
)
def test_keys_that_cannot_be_used(text: bytes, problem: str) -> None:
    with pytest.raises(UnusableKeysError, match=f'^"a.asc" {problem}'):
        read_keys({"a.asc": text})


def test_a_key_beside_an_older_copy_that_was_not_revoked(gpg: GpgHome) -> None:
    fingerprint = gpg.make_key()
    older = gpg.export()
    gpg.revoke(fingerprint)
    with pytest.raises(UnusableKeysError, match=r'^"b.asc" has a key that is there already'):
        read_keys({"a.asc": older, "b.asc": gpg.export()})


GOOD = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG A1 shop\n"
VALID = "[GNUPG:] VALIDSIG F1 2020-01-01 1577836800 0 4 0 22 8 00 F0\n"


@pytest.mark.parametrize(
    "status",
    [
        "",
        "gpgv: Good signature from shop\n",
        GOOD,
        VALID,
        GOOD + GOOD + VALID,
        GOOD + VALID + VALID,
        GOOD + "[GNUPG:] BADSIG A1 shop\n" + VALID,
        GOOD + VALID.replace("1577836800", "-1"),
        GOOD + VALID.replace(" F0", ""),
        GOOD.replace("GOODSIG", "EXPKEYSIG") + VALID,
        GOOD.replace("GOODSIG", "EXPKEYSIG") + "[GNUPG:] KEYEXPIRED x\n" + VALID,
        GOOD.replace("GOODSIG", "EXPKEYSIG") + "[GNUPG:] KEYEXPIRED 1577836800\n" + VALID,
        "[GNUPG:] ERRSIG A1 22 8 00 1577836800 4 F1\n",
    ],
)
def test_a_status_of_gpgv_that_is_no_proof(status: str) -> None:
    with pytest.raises(SignatureError):
        judge(status, (BINARY,), NOW)


def test_a_status_of_gpgv_that_is_proof() -> None:
    assert judge(GOOD + VALID, (BINARY,), NOW) == Signer(by="pgp", key="F0", identity="shop")
    later = GOOD.replace("GOODSIG", "EXPKEYSIG") + "[GNUPG:] KEYEXPIRED 1577836801\n" + VALID
    assert judge(later, (BINARY,), NOW).key == "F0"


def test_gpgv_is_not_installed(access: Access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    signature = armored(b"\xc2\x01a").replace(b"PUBLIC KEY BLOCK", b"SIGNATURE")
    with pytest.raises(BundleError, match=r"spec.sources\[0\].git.verify: no gpgv on PATH; install it") as error:
        verify(DATA, signature, b"x", access, types=(BINARY,), now=NOW)
    assert error.value.reason is Reason.VERIFICATION_UNAVAILABLE
