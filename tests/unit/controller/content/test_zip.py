"""Reading zip: it agrees with the standard library on honest archives, and survives the others."""

from __future__ import annotations

import io
import os
import stat
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Entry, EntryKind, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.limits import Rejection
from rukpak.controller.content.zip import Unsupported, is_zip, read_zip
from tests.support.archives import Crafted, Link, ZipSpecial, ZipValue, crafted, zipped

LIMITS = Limits(ratio_from=1 << 20)


def entries(data: bytes, limits: Limits = LIMITS) -> list[tuple[str, EntryKind, bytes, str]]:
    return [_shown(entry) for entry in read_zip(io.BytesIO(data), limits)]


def _shown(entry: Entry) -> tuple[str, EntryKind, bytes, str]:
    parts: Iterator[bytes] = iter(lambda: entry.data.read(100) if entry.data else b"", b"")
    return entry.path, entry.kind, b"".join(parts), entry.target


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=150).map(
    lambda text: text.replace("/", "_")
)
VALUES = st.one_of(st.binary(max_size=1100), TEXT.map(Link), st.none())


@given(
    items=st.lists(st.tuples(TEXT, VALUES), max_size=6, unique_by=itemgetter(0)),
    method=st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)),
)
@settings(deadline=None)
def test_what_the_standard_library_writes_is_read_back(items: list[tuple[str, ZipValue]], method: int) -> None:
    found = entries(zipped(*items, method=method))
    assert [(path.rstrip("/"), data, target) for path, _, data, target in found] == [
        (name, value if isinstance(value, bytes) else b"", value.target if isinstance(value, Link) else "")
        for name, value in items
    ]


def test_the_kinds_of_entries() -> None:
    found = entries(zipped(("d", None), ("d/f", b"1"), ("l", Link("d/f"))))
    assert [(path, kind) for path, kind, *_ in found] == [
        ("d/", EntryKind.DIRECTORY), ("d/f", EntryKind.FILE), ("l", EntryKind.SYMBOLIC_LINK),
    ]  # fmt: skip


@pytest.mark.parametrize(("mode", "expect"), [(0o755, True), (0o644, False), (0o4744, True)])
def test_what_is_executable(mode: int, expect: bool) -> None:
    (entry,) = read_zip(io.BytesIO(zipped(("f", b"1"), mode=mode)), LIMITS)
    assert entry.executable is expect


def test_an_archive_that_was_written_as_a_stream() -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.data += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("f", b"x" * 1000)
    assert entries(pipe.data)[0][2] == b"x" * 1000


def test_bodies_that_nobody_reads_are_passed_over() -> None:
    data = zipped(("a", os.urandom(200_000)), ("b", b"1"))
    assert [entry.path for entry in read_zip(io.BytesIO(data), LIMITS)] == ["a", "b"]


def test_an_empty_archive() -> None:
    assert entries(zipped()) == []
    assert is_zip(zipped())


def test_a_comment_that_looks_like_an_end() -> None:
    assert len(entries(crafted(Crafted(), comment=zipped(("other", b""))[-22:] + b"x"))) == 1


@pytest.mark.parametrize("name", ["ü".encode(), "日本.yaml".encode()])
def test_a_name_is_utf8_whether_it_says_so_or_not(name: bytes) -> None:
    assert entries(crafted(Crafted(name=name)))[0][0] == name.decode()


GOOD = crafted(Crafted(data=b"x" * 1000, deflate=True), Crafted(name=b"g"))

REFUSED = [
    ("something else", b"PK\x03\x04 and no more of it" * 50, "truncated"),
    ("nothing", b"", "truncated"),
    ("an archive without its end", GOOD[:-10], "truncated"),
    ("bytes behind the end", GOOD + b"x", "truncated"),
    ("a directory that is not where it should be", crafted(Crafted(), offset=3), "damaged|truncated"),
    ("a directory behind its end", crafted(Crafted(), offset=90), "damaged"),
    ("another archive before the end", GOOD[:-22] + zipped(("g", b"2"))[:-22] + GOOD[-22:], "damaged"),
    ("a directory that is longer", crafted(Crafted(), Crafted(name=b"hidden"), count=1), "damaged"),
    ("a directory that is shorter", crafted(Crafted(), count=2), "damaged|truncated"),
    ("a body with another checksum", crafted(Crafted(checksum=1)), 'entry "f" of the archive is damaged'),
    ("a body that is longer", crafted(Crafted(data=b"x" * 999, deflate=True, size=9)), 'entry "f" .* damaged'),
    ("a body that is longer than nothing", crafted(Crafted(size=0)), 'entry "f" .* damaged'),
    ("a body that is shorter", crafted(Crafted(size=9)), 'entry "f" .* damaged'),
    ("a body that ends in the middle", crafted(Crafted(data=b"x" * 999, deflate=True, compressed=3)), "damaged"),
    ("a body that is not deflated", crafted(Crafted(data=b"\xff" * 20, method=8)), 'entry "f" .* damaged'),
    ("a body that reaches into the directory", crafted(Crafted(offset=30)), "damaged"),
    ("a body without its header", crafted(Crafted(local_signature=b"PK\x07\x08")), 'entry "f" .* damaged'),
    ("a header that is longer", crafted(Crafted(local_name=b"n" * 20), Crafted(offset=20)), "damaged"),
    ("an offset behind the file", crafted(Crafted(offset=4_000_000)), "truncated"),
    (
        "bodies that share their bytes",
        crafted(Crafted(data=b"x" * 999), *[Crafted(data=b"x" * 999, absent=True, offset=0)] * 50),
        "overlap",
    ),
    ("a bomb of one body", crafted(Crafted(data=bytes(4 << 20), deflate=True)), "limit of 200 times"),
    (
        "a bomb of many bodies",
        crafted(*[Crafted(name=b"%d" % i, data=bytes(900_000), deflate=True) for i in range(9)]),
        "limit of 200 times",
    ),
    ("a fifo", zipped(("p", ZipSpecial(stat.S_IFIFO))), 'entry "p" is neither a file, a directory nor a link'),
    ("a device", zipped(("p", ZipSpecial(stat.S_IFCHR))), 'entry "p" is neither a file, a directory nor a link'),
    ("a link to a long name", zipped(("l", Link("x" * 2000))), 'entry "l" has a link target that exceeds the limit'),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in REFUSED], ids=map(itemgetter(0), REFUSED))
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(Rejection, match=message) as caught:
        entries(data)
    assert caught.value.at("path").reason is Reason.CONTENT_REJECTED


@pytest.mark.parametrize("value", [ZipSpecial(stat.S_IFIFO), ZipSpecial(stat.S_IFCHR), Link("x" * 2000)])
def test_what_follows_an_entry_that_must_not_be_read_is_read(value: ZipValue) -> None:
    found = list(read_zip(io.BytesIO(zipped(("a", b"1"), ("n", value), ("b", b"2"))), LIMITS))
    assert [(entry.path, entry.refusal is not None) for entry in found] == [("a", False), ("n", True), ("b", False)]
    assert found[1].refusal
    assert found[1].refusal.problem.startswith('entry "n" ')


UNSUPPORTED = [
    ("encryption", crafted(Crafted(flags=1)), 'entry "f" is encrypted'),
    ("strong encryption", crafted(Crafted(flags=0x41)), 'entry "f" is encrypted'),
    ("bzip2", zipped(("f", b"1"), method=zipfile.ZIP_BZIP2), "method 12"),
    ("lzma", zipped(("f", b"1"), method=zipfile.ZIP_LZMA), "method 14"),
    ("zip64", crafted(Crafted(), offset=0xFFFFFFFF), "zip64"),
    ("an entry of zip64", crafted(Crafted(size=0xFFFFFFFF)), "zip64"),
    ("several disks", crafted(Crafted(), disk=1), "split into several parts"),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in UNSUPPORTED], ids=map(itemgetter(0), UNSUPPORTED))
def test_what_is_not_read(data: bytes, message: str) -> None:
    with pytest.raises(Unsupported, match=message) as caught:
        entries(data)
    assert caught.value.at("path").reason is Reason.UNSUPPORTED_CONTENT


NAMES = [
    ("../f", "leaves its directory"), ("/f", "absolute"), ("a\\..\\f", "backslash"), ("a\nb", "control"),
    ("a/" * 70 + "f", "deeper"), ("n" * 300, "exceeds the limit"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "message"), NAMES)
def test_names_are_judged_by_the_writer(name: str, message: str, tmp_path: Path) -> None:
    data = io.BytesIO(crafted(Crafted(name=name.encode())))
    with pytest.raises(BundleError, match=message):
        write_entries(read_zip(data, LIMITS), tmp_path, LIMITS, "path")


def test_a_name_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    data = io.BytesIO(crafted(Crafted(name=b"\xff.yaml")))
    with pytest.raises(BundleError, match="not UTF-8"):
        write_entries(read_zip(data, LIMITS), tmp_path, LIMITS, "path")


def test_names_that_differ_in_case_only_are_kept_apart(tmp_path: Path) -> None:
    data = zipped(("A.yaml", b"1"), ("a.yaml", b"2"), ("l", Link("A.yaml")))
    write_entries(read_zip(io.BytesIO(data), LIMITS), tmp_path, LIMITS, "path")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"A.yaml": b"1", "a.yaml": b"2", "l": b"1"}


def test_the_heap_does_not_grow_with_the_directory() -> None:
    data = zipped(*((f"{number:05}", b"") for number in range(5000)), method=zipfile.ZIP_STORED)
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_zip(io.BytesIO(data), LIMITS))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 5000
    assert peak < len(data) + (1 << 19)  # BytesIO's own copy, and nothing to speak of


@given(data=st.binary(max_size=300), at=st.integers(0, 900))
@settings(deadline=None)
def test_any_damage_is_refused_or_read_and_nothing_else(data: bytes, at: int) -> None:
    honest = zipped(("a", b"1" * 300), ("b/c", os.urandom(100)), ("l", Link("a")))
    with suppress(Rejection):
        assert all(isinstance(path, str) for path, *_ in entries(honest[:at] + data + honest[at + len(data) :]))


@given(data=st.binary(max_size=2000))
@settings(deadline=None)
def test_any_bytes_are_refused_or_read_and_nothing_else(data: bytes) -> None:
    with suppress(Rejection):
        entries(b"PK\x03\x04" + data + crafted()[-22:])
