"""What a body is, and what is left of the names in it."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from operator import itemgetter
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from api.plugins import Entry, EntryKind, Limits
from api.v1alpha2.conditions import Reason
from controller.content.archive import write_entries
from controller.content.limits import Rejection
from controller.content.zip import Unsupported
from controller.sources.http.source import read_body, strip_components
from tests.support.archives import Link, tarball, zipped

ITEMS = (("top/a.yaml", b"a: 1\n"), ("top/sub/b.yaml", b"b: 1\n"))
PLAIN = tarball(*ITEMS)


def read(data: bytes, name: str = "", strip: int = 0, limits: Limits | None = None) -> dict[str, bytes]:
    entries = read_body(io.BytesIO(data), len(data), name, strip, limits or Limits())
    return {entry.path: entry.data.read(9999) for entry in entries if entry.data}


ARCHIVES = [
    ("tar", PLAIN),
    ("tar without a magic number", PLAIN.replace(b"ustar\x0000", bytes(8))),
    ("GNU tar", tarball(*ITEMS, form=tarfile.GNU_FORMAT)),
    ("tar.gz", gzip.compress(PLAIN)),
    ("tar.zst", zstandard.compress(PLAIN)),
    ("zip", zipped(*ITEMS)),
]


@pytest.mark.parametrize("name", ["download", "a.yaml", "a.tar.gz", "a.zip"])
@pytest.mark.parametrize("data", [case[1] for case in ARCHIVES], ids=map(itemgetter(0), ARCHIVES))
def test_an_archive_is_told_by_its_content_whatever_its_name(data: bytes, name: str) -> None:
    if data == ARCHIVES[1][1]:
        data = with_checksum(data)
    assert read(data, name) == dict(ITEMS)


def with_checksum(data: bytes) -> bytes:
    """Correct the checksums of all headers."""
    out = bytearray(data)
    for start in (0, 1024):
        header = out[start : start + 512]
        header[148:156] = b" " * 8
        out[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    return bytes(out)


@pytest.mark.parametrize("data", [tarball(), zipped()], ids=["tar", "zip"])
def test_an_empty_archive_brings_nothing(data: bytes) -> None:
    assert read(data, "a.yaml") == {}


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json", "A.YAML"])
@pytest.mark.parametrize("data", [b"", b"a: 1\n", b"x" * 600])
def test_one_file_keeps_its_name(data: bytes, name: str) -> None:
    assert read(data, name, strip=3) == {name: data}


PAGES = (b"<!DOCTYPE html><html>Sign in</html>", b"\n<HTML>", b'<?xml version="1.0"?><Error>NoSuchKey</Error>')


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.tgz", "download"])
@pytest.mark.parametrize("data", PAGES)
def test_a_web_page_is_told_as_such(data: bytes, name: str) -> None:
    with pytest.raises(Unsupported, match=f'"{name}" is .*, but a web page; use the address that downloads the file'):
        read(data, name)


@pytest.mark.parametrize("data", [b"<<: {a: b}\n", b"<htmlish>: 1\n"])
def test_yaml_that_begins_like_one_is_none(data: bytes) -> None:
    assert read(data, "a.yaml") == {"a.yaml": data}


@pytest.mark.parametrize("name", ["", "download", "a.tar.gz", "index.html"])
def test_what_is_neither_archive_nor_manifests(name: str) -> None:
    with pytest.raises(Unsupported, match=f'"{name}" is neither a tar archive') as caught:
        read(b"<!doctype html>", name)
    assert caught.value.at("path").reason is Reason.UNSUPPORTED_CONTENT


def test_another_compression_is_not_read() -> None:
    with pytest.raises(Unsupported):
        read(lzma.compress(PLAIN), "a.tar.xz")


def test_what_is_compressed_must_be_an_archive() -> None:
    with pytest.raises(Rejection, match="not a tar archive"):
        read(gzip.compress(b"a: 1\n" * 200), "a.yaml.gz")


# names


def entry(path: str, kind: EntryKind = EntryKind.FILE, target: str = "") -> Entry:
    return Entry(path=path, kind=kind, target=target)


def stripped(count: int, *entries: Entry) -> list[tuple[str, str]]:
    return [(entry.path, entry.target) for entry in strip_components(iter(entries), count, Limits())]


STRIPPED = [
    ("nothing is dropped by 0", 0, entry("./a//b/"), [("./a//b/", "")]),
    ("the first element goes", 1, entry("a/b/c"), [("b/c", "")]),
    ("a dot counts for one, as tar counts", 1, entry("./a/b"), [("a/b", "")]),
    ("two slashes are one", 1, entry("a//b"), [("b", "")]),
    ("what has no more elements is left out", 1, entry("a"), []),
    ("a folder that has no more elements is left out", 1, entry("a/", EntryKind.DIRECTORY), []),
    ("a symbolic link leads where it led", 1, entry("a/b", EntryKind.SYMBOLIC_LINK, "c/d"), [("b", "c/d")]),
    ("a hard link leads to a name", 1, entry("a/b", EntryKind.HARD_LINK, "a/c"), [("b", "c")]),
    ("a hard link to what is left out is left out", 1, entry("a/b", EntryKind.HARD_LINK, "c"), []),
]


@pytest.mark.parametrize(
    ("count", "given", "expect"), [case[1:] for case in STRIPPED], ids=map(itemgetter(0), STRIPPED)
)
def test_what_is_dropped_of_a_name(count: int, given: Entry, expect: list[tuple[str, str]]) -> None:
    assert stripped(count, given) == expect


@pytest.mark.parametrize("path", ["../a/b", "/a/b", "a/../b"])
def test_what_is_dropped_does_not_hide_an_attack(path: str) -> None:
    with pytest.raises(Rejection):
        stripped(1, entry(path))


@pytest.mark.parametrize("path", ["a/b\\c", "a\\b/c", "a\udcff/c", "a\nb/c", f"{'a' * 256}/c", "a/" * 65 + "c"])
@pytest.mark.parametrize("kind", [EntryKind.FILE, EntryKind.DIRECTORY, EntryKind.SYMBOLIC_LINK])
def test_what_is_dropped_does_not_hide_that_a_name_is_refused(path: str, kind: EntryKind) -> None:
    (found,) = strip_components(iter([entry(path, kind)]), 1, Limits())
    assert found.refusal is not None
    assert found.path == path.partition("/")[2]


def test_a_hard_link_to_a_name_that_is_refused_is_refused() -> None:
    (found,) = strip_components(iter([entry("a/b", EntryKind.HARD_LINK, "a\\b/c")]), 1, Limits())
    assert (found.path, found.target, found.refusal is None) == ("b", "c", False)


def test_a_hard_link_does_not_hide_an_attack() -> None:
    with pytest.raises(Rejection, match="leaves its directory"):
        stripped(1, entry("a/b", EntryKind.HARD_LINK, "../a/c"))


def test_what_is_left_out_is_charged() -> None:
    data = tarball(*((f"f{number}", b"") for number in range(20)))
    with pytest.raises(Rejection, match="more entries than the limit of 10"):
        read(data, strip=1, limits=Limits(entries=10))
    with pytest.raises(Rejection, match="exceeds the limit of 1000 bytes per file"):
        read(tarball(("f", bytes(2000))), strip=1, limits=Limits(file_bytes=1000))


def test_an_archive_of_a_forge_becomes_files(tmp_path: Path) -> None:
    data = gzip.compress(
        tarball(
            ("t-1/", None), ("t-1/m/a.yaml", b"1"), ("t-1/m/h", Link("t-1/m/a.yaml", hard=True)), ("t-1/l", Link("m"))
        )
    )
    write_entries(read_body(io.BytesIO(data), len(data), "", 1, Limits()), tmp_path, Limits(), "path")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"m/a.yaml", "m/h", "l/a.yaml", "l/h"}


@given(data=st.binary(max_size=1200), head=st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]))
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_refused_or_read_and_nothing_else(data: bytes, head: bytes) -> None:
    try:
        found = read(head + data, "a.yaml", strip=1)
    except Rejection:
        return
    assert all(isinstance(path, str) for path in found)
