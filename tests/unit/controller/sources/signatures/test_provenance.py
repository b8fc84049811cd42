"""Provenance files of charts that are accepted, and those that are not, made by Helm itself."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from rukpak.api.plugins import Access, Signer
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.openpgp import ChartArchive, read_keys, verify_provenance
from tests.support import charts
from tests.support.signing import GpgHome, gpg_home, sign_chart

PATH = "spec.sources[0].chart"
NOW = time.time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    gpg: GpgHome
    keyring: bytes
    archive: ChartArchive
    provenance: bytes


@pytest.fixture(scope="module")
def gpg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpgHome]:
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as home:
        home.make_key("rsa2048")
        yield home


@pytest.fixture(scope="module")
def signed(gpg: GpgHome, tmp_path_factory: pytest.TempPathFactory) -> Signed:
    more = "description: '- it begins with a dash'\nannotations: {a: 'x  '}\n"
    files = charts.chart_of({"templates/a.yaml": "a: 1\n"}, more=more)
    folder = charts.write(tmp_path_factory.mktemp("s") / "chart", files) / "c"
    archive = sign_chart(gpg, folder)
    chart = ChartArchive(name="c", version="1.0.0", digest=f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}")
    provenance = archive.with_name(f"{archive.name}.prov").read_bytes()
    return Signed(gpg=gpg, keyring=read_keys({"a.asc": gpg.export()}), archive=chart, provenance=provenance)


def check(signed: Signed, access: Access) -> Signer:
    return verify_provenance(signed.archive, signed.provenance, signed.keyring, access, now=NOW)


def clearsign(gpg: GpgHome, text: bytes, *options: str) -> bytes:
    return gpg.run("--clearsign", *options, stdin=text)


def test_a_chart_that_helm_has_signed(signed: Signed, access: Access) -> None:
    expected = Signer(by="provenance", key=signed.gpg.fingerprints()[0], identity="shop <shop@example.org>")
    assert check(signed, access) == expected
    assert check(replace(signed, provenance=signed.provenance.replace(b"\n", b"\r\n")), access) == expected


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"digest": "sha256:" + "0" * 64}, "the provenance file has another digest of the chart"),
        ({"version": "1.0.1"}, 'the provenance file is of chart "c" "1.0.0"'),
        ({"name": "d"}, 'the provenance file is of chart "c" "1.0.0"'),
    ],
    ids=["another archive", "an old chart as a new version", "another chart"],
)
def test_a_provenance_file_of_something_else(
    signed: Signed, access: Access, change: dict[str, str], problem: str
) -> None:
    with pytest.raises(SignatureError, match=problem):
        check(replace(signed, archive=replace(signed.archive, **change)), access)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"version: 1.0.0", b"version: 1.0.1"),
        lambda text: text.replace(b"\n...\n", b"\n...\nmore: x\n"),
        lambda text: text.replace(b"version: 1.0.0", b"version: 1.0.0\nx: y"),
    ],
    ids=["another version", "more files", "another line"],
)
def test_a_text_that_was_changed(signed: Signed, access: Access, change: object) -> None:
    assert callable(change)
    changed = change(signed.provenance)
    assert changed != signed.provenance
    with pytest.raises(SignatureError, match="the signature is of something else"):
        check(replace(signed, provenance=changed), access)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: b"<!doctype html>",
        lambda text: b"files: {}\n...\n" + text,
        lambda text: text + text,
        lambda text: text.replace(b"\nHash:", b"\nfiles:"),
        lambda text: text.replace(b"-----BEGIN PGP SIGNATURE-----", b""),
        lambda text: text.replace(b"\n...\n", b"\n-----BEGIN x\n"),
        lambda text: text.replace(b"-----END PGP SIGNATURE-----", b""),
        lambda text: b"-----BEGIN PGP SIGNED MESSAGE-----\n-----BEGIN PGP SIGNATURE-----\n\n",
        lambda text: text.rstrip() + b"\nmore",
    ],
    ids=[
        "empty",
        "a web page",
        "text before it",
        "twice",
        "another header",
        "without a signature",
        "a dash that is not escaped",
        "without an end",
        "without text",
        "text after it",
    ],
)
def test_a_file_that_is_none_of_helm(signed: Signed, access: Access, change: object) -> None:
    assert callable(change)
    with pytest.raises(SignatureError, match=r"the provenance file was not written by Helm|the signature is damaged"):
        check(replace(signed, provenance=change(signed.provenance)), access)


ABOUT, FILES = b"name: c\nversion: 1.0.0\n", b"files:\n  c-1.0.0.tgz: sha256:%s\n" % (b"0" * 64)


def test_a_text_that_gpg_has_signed_is_read_as_one_of_helm(signed: Signed, access: Access) -> None:
    """Lines that begin with a dash are escaped, and blanks at the end of a line are not signed."""
    archive = replace(signed.archive, digest="sha256:" + "0" * 64)
    text = (
        ABOUT
        + b"keywords:\n- a   \n-----BEGIN x: y\n".replace(b"-----BEGIN x: y\n", b"- '-----BEGIN'\n")
        + b"\n...\n"
        + FILES
    )
    provenance = clearsign(signed.gpg, text)
    assert b"\n- - a" in provenance
    assert check(replace(signed, archive=archive, provenance=provenance), access).by == "provenance"


@pytest.mark.parametrize(
    "text",
    [
        ABOUT,
        ABOUT + b"\n...\n",
        ABOUT + b"\n...\nfiles: {}\n",
        ABOUT + b"\n...\nfiles: x\n",
        ABOUT + b"\n...\n- files\n",
        ABOUT + b"\n...\n" + FILES + b"  d-1.0.0.tgz: sha256:0\n",
        b"name: c\n\n...\n" + FILES,
        b"- name\n\n...\n" + FILES,
        ABOUT + b"\n...\n" + FILES + b"\n...\n" + FILES,
        ABOUT + b"x: {\n\n...\n" + FILES,
        b"[" * 100_000 + b"\n...\n" + FILES,
        b"\xff\n...\n" + FILES,
    ],
)
def test_a_signed_text_that_is_none_of_helm(signed: Signed, access: Access, text: bytes) -> None:
    with pytest.raises(SignatureError, match="the provenance file was not written by Helm"):
        check(replace(signed, provenance=clearsign(signed.gpg, text)), access)


def test_a_weak_hash_algorithm(signed: Signed, access: Access) -> None:
    provenance = clearsign(signed.gpg, ABOUT + b"\n...\n" + FILES, "--digest-algo=SHA1")
    with pytest.raises(SignatureError, match="weak hash algorithm"):
        check(replace(signed, provenance=provenance), access)
