"""Reading tar: it agrees with the standard library on honest archives, and survives the others."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.api.plugins import Entry, EntryKind, Limits
from rukpak.controller.content.limits import Rejection
from rukpak.controller.content.tar import read_tar
from tests.support import zstd
from tests.support.archives import BLOCK, Link, Special, Value, extended, pax, pax_record, tarball

LIMITS = Limits()
END = bytes(2 * BLOCK)
FILE = tarball(("f", b"1"))[: 2 * BLOCK]


def entries(data: bytes, limits: Limits | None = None) -> list[tuple[str, EntryKind, bytes, str]]:
    return [_shown(entry) for entry in read_tar(io.BytesIO(data), limits or Limits())]


def _shown(entry: Entry) -> tuple[str, EntryKind, bytes, str]:
    parts: Iterator[bytes] = iter(lambda: entry.data.read(100) if entry.data else b"", b"")
    return entry.path, entry.kind, b"".join(parts), entry.target


def test_compression_is_told_by_content() -> None:
    plain = tarball(("a", b"1"), ("b", b"2"))
    half = len(plain) // 2
    expected = entries(plain)
    assert [path for path, *_ in expected] == ["a", "b"]
    assert entries(gzip.compress(plain)) == expected
    assert entries(gzip.compress(plain[:half]) + gzip.compress(plain[half:])) == expected
    assert entries(zstd.compress(plain)) == expected
    assert entries(zstd.compress(plain[:half]) + zstd.compress(plain[half:])) == expected


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=150).map(
    lambda text: text.replace("/", "_")
)
VALUES = st.one_of(st.binary(max_size=1100), TEXT.map(Link), st.none())


@given(
    items=st.lists(st.tuples(TEXT, VALUES), max_size=6), form=st.sampled_from((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
)
@settings(deadline=None)
def test_what_the_standard_library_writes_is_read_back(items: list[tuple[str, Value]], form: int) -> None:
    found = entries(tarball(*items, form=form))
    assert [(path.rstrip("/"), data, target) for path, _, data, target in found] == [
        (name, value if isinstance(value, bytes) else b"", value.target if isinstance(value, Link) else "")
        for name, value in items
    ]


def test_ustar_names_in_two_parts() -> None:
    name = "/".join(["d" * 60] * 3)
    assert entries(tarball((name, b"1"), form=tarfile.USTAR_FORMAT))[0][0] == name


def test_bodies_that_nobody_reads_are_skipped() -> None:
    found = [entry.path for entry in read_tar(io.BytesIO(tarball(("a", bytes(9999)), ("b", b"1"))), Limits())]
    assert found == ["a", "b"]


def test_an_archive_without_end_marker() -> None:
    assert [path for path, *_ in entries(FILE)] == ["f"]


def test_a_file_that_ends_with_a_slash_is_a_folder() -> None:
    assert entries(tarball(("d/", b"")))[0][1] is EntryKind.DIRECTORY


def judged(data: bytes) -> list[tuple[str, str]]:
    """Return the names of entries, and why they must not be read."""
    return [
        (entry.path, entry.refusal.problem if entry.refusal else "") for entry in read_tar(io.BytesIO(data), LIMITS)
    ]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.CHRTYPE, "is a character device; remove it"),
        (tarfile.BLKTYPE, "is a block device; remove it"),
        (tarfile.FIFOTYPE, "is a fifo; remove it"),
        (b"Z", "is of an unknown type; remove it"),
        (b"V", "is of an unknown type; remove it"),
    ],
)
def test_what_follows_an_entry_that_must_not_be_read_is_read(kind: bytes, what: str) -> None:
    data = tarball(("a", b"1"), ("dev/n", Special(kind)), ("b", b"2"))
    assert judged(data) == [("a", ""), ("dev/n", f'entry "dev/n" {what}'), ("b", "")]


def test_the_body_of_an_entry_of_an_unknown_type_is_skipped() -> None:
    body = lying(slice(156, 157), b"Z", tarball(("z", bytes(5000))))[: BLOCK + 5120]
    assert judged(body + FILE + END) == [("z", 'entry "z" is of an unknown type; remove it'), ("f", "")]


def test_no_data_follows_the_header_of_a_device_whatever_its_size_says() -> None:
    header = lying(slice(156, 157), b"3", lying(slice(124, 136), b"00000005000"))[:BLOCK]
    assert [path for path, _ in judged(header + FILE + END)] == ["f", "f"]


@pytest.mark.parametrize("form", ["gnu", "posix"])
@pytest.mark.parametrize("holes", [1, 60])
def test_sparse_files_of_gnu_tar_are_passed_over(form: str, holes: int, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with (tmp_path / "log" / "lastlog").open("wb") as file:
        for number in range(holes):
            file.seek((number + 1) << 20)
            file.write(b"x" * 5000)
    (tmp_path / "next").write_bytes(b"1")
    command = ["tar", "--sparse", "--create", f"--format={form}", "--file=-", "log/lastlog", "next"]
    made = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
    assert len(made) < holes * 20_000 + 20_000
    problem = 'entry "log/lastlog" is a sparse file; create the archive without sparse files'
    assert judged(made) == [("log/lastlog", problem), ("next", "")]


def repeated_pax_records(count: int) -> bytes:
    """Records that overlap: tarfile makes a key of each tail (2 GiB for a header of 128 KiB)."""
    return extended(b"x", b"2 " * count + b"=") + FILE + END


def lying(field: slice, value: bytes, block: bytes = FILE) -> bytes:
    header = bytearray(block[:BLOCK])
    header[field] = value.ljust(field.stop - field.start, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + block[BLOCK:] + END


DAMAGED = [
    ("what is no archive", b"not an archive at all" * 100, "not a tar archive"),
    ("less than a block", b"x" * 100, "truncated"),
    ("a wrong checksum", b"g" + FILE[1:] + END, "damaged"),
    ("a damaged second header", FILE + b"\1" * BLOCK + END, "damaged"),
    ("a cut header", FILE + FILE[:100], "truncated"),
    ("a cut body", tarball(("f", bytes(4096)))[:2048], "truncated"),
    ("a cut padding", FILE[:-1], "truncated"),
    ("an extended header without an entry", pax(path="x"), "truncated"),
    ("a cut extended header", pax(path="x")[:700], "truncated"),
    ("a cut gzip", gzip.compress(tarball(("f", os.urandom(9999))))[:5000], "damaged or truncated"),
    ("a gzip with a wrong checksum", gzip.compress(tarball(("f", b"1")))[:-8] + bytes(8), "damaged"),
    ("text after a gzip", gzip.compress(tarball(("f", b"1"))[:BLOCK]) + b"tail", "damaged"),
    ("a size that is no number", lying(slice(124, 136), b"zzz"), "damaged"),
    ("a size of digits 8 and 9", lying(slice(124, 136), b"00000000089"), "damaged"),
    ("a negative size", lying(slice(124, 136), b"\xff" * 12), "damaged"),
    ("a size beyond all disks", lying(slice(124, 136), b"\x80" + b"\xff" * 11), "truncated"),
    (
        "a file with the name of a folder, which hides another",
        tarball(("d/", tarball(("f", b"1")))),
        "name of a directory",
    ),
    ("an unknown type", lying(slice(156, 157), b"Z"), "of an unknown type"),
    ("a GNU sparse file", lying(slice(156, 157), b"S"), "sparse file"),
    ("a pax sparse file", pax(GNU_sparse_major="1") + FILE + END, "sparse file"),
    ("a global name", extended(b"g", pax_record("path", "x")) + FILE + END, "global header"),
    ("a pax size that is no number", pax(size="-1") + FILE + END, "damaged"),
    ("a pax record of length 0", extended(b"x", b"0 a=b\n") + FILE + END, "damaged"),
    ("a pax record that is shorter than it says", extended(b"x", b"99 a=b\n") + FILE + END, "damaged"),
    ("a pax record without a key", extended(b"x", b"5 ab\n") + FILE + END, "damaged"),
    ("pax records that overlap", repeated_pax_records(50_000), "damaged"),
    ("a pax length of many digits", extended(b"x", b"1" * 500_000) + FILE + END, "damaged"),
    ("a long name over the budget", extended(b"L", b"", size=2 << 20) + bytes(4 << 20), "limit of 1 MiB"),
    ("long names in a row", extended(b"L", bytes(600_000)) * 2 + FILE + END, "limit of 1 MiB"),
    ("empty extended headers in a row", extended(b"x", b"") * 3000 + FILE + END, "limit of 1 MiB"),
    ("a gzip bomb", gzip.compress(tarball(("f", bytes(8 << 20)))), "limit of 200 times"),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in DAMAGED], ids=map(itemgetter(0), DAMAGED))
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(Rejection, match=message):
        entries(data)


def frame(data: bytes, window: int = 11 << 3) -> bytes:
    """A frame of one block that is not compressed; `window` is an exponent of 2 above 10, and three bits of eighths."""
    return zstd.MAGIC + bytes([0, window]) + (len(data) << 3 | 1).to_bytes(3, "little") + data


def skippable(data: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


CHECKSUM = 201
"""ZSTD_c_checksumFlag."""
SMALL = tarball(("f", b"1" * 999))
FIRST, REST = SMALL[:BLOCK], SMALL[BLOCK:]
ONE = zstd.compress(SMALL)
CHECKED = zstd.compress(SMALL, options={CHECKSUM: 1})
BROKEN, CUT = (
    "^the compressed data is damaged or truncated; publish it again$",
    "^the archive is truncated; publish it again$",
)
TOO_WIDE = "^compressed by zstd with a window of {} MiB, of at most 32 MiB; compress it by zstd -19 or gzip$"
TOO_MANY = "^compressed by zstd in more than 40 frames; compress it in larger ones$"
SINGLE = zstd.MAGIC + b"\xa0" + (33 << 20).to_bytes(4, "little") + b"\x01\0\0"
ZSTD = [
    ("one frame", ONE, ""),
    ("two frames", zstd.compress(FIRST) + zstd.compress(REST), ""),
    (
        "a frame for each 64 bytes",
        b"".join(frame(SMALL[at : at + 64]) for at in range(0, 2048, 64)) + zstd.compress(SMALL[2048:]),
        "",
    ),
    ("an empty frame before", zstd.compress(b"") + ONE, ""),
    ("a frame to skip between", zstd.compress(FIRST) + skippable(b"x" * 99) + zstd.compress(REST), ""),
    ("a frame to skip after", ONE + skippable(b"x" * 99), ""),
    ("a frame of something else after the end", ONE + zstd.compress(b"x" * 9999), ""),
    ("a checksum", CHECKED, ""),
    ("a wrong checksum", CHECKED[:-1] + bytes([CHECKED[-1] ^ 1]), BROKEN),
    ("a cut checksum", CHECKED[:-2], CUT),
    ("no checksum, which the header promises", CHECKED[:-4], CUT),
    ("only the magic number", ONE[:4], CUT),
    ("a cut header", ONE[:5], CUT),
    ("a cut block", ONE[:-5], CUT),
    ("a cut second frame", zstd.compress(FIRST) + zstd.compress(REST)[:-5], CUT),
    ("a cut frame after the end", ONE + zstd.compress(b"x" * 9999)[:-5], CUT),
    ("a cut magic number after the end", ONE + zstd.MAGIC[:3], CUT),
    ("a cut frame to skip", ONE + skippable(b"x" * 99)[:-5], CUT),
    ("text after it", ONE + b"tail", BROKEN),
    ("much text after it", ONE + b"tail" * 9999, BROKEN),
    ("zeros after it", ONE + bytes(512), BROKEN),
    ("gzip after it", ONE + gzip.compress(SMALL), BROKEN),
    ("text instead of the second frame", zstd.compress(FIRST) + b"tail" * 99, BROKEN),
    ("a reserved bit", ONE[:4] + bytes([ONE[4] | 8]) + ONE[5:], BROKEN),
    ("a dictionary that nobody has", zstd.MAGIC + b"\x01\x58\x07" + frame(SMALL)[6:], BROKEN),
    ("a window of 32 MiB", frame(SMALL, 15 << 3), ""),
    ("a window of 36 MiB", frame(SMALL, 15 << 3 | 1), TOO_WIDE.format(36)),
    ("a window of 128 MiB", frame(SMALL, 17 << 3), TOO_WIDE.format(128)),
    ("a window of all its 33 MiB", SINGLE, TOO_WIDE.format(33)),
    ("a second frame with a window of 64 MiB", frame(FIRST) + frame(REST, 16 << 3), BROKEN),
    ("a bomb", zstd.compress(tarball(("f", bytes(8 << 20)))), "limit of 200 times"),
    ("many frames without content", ONE + frame(b"") * 40, TOO_MANY),
    ("many frames to skip", ONE + skippable(b"") * 40, TOO_MANY),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in ZSTD], ids=map(itemgetter(0), ZSTD))
def test_zstd_with(data: bytes, message: str) -> None:
    limits = Limits(entries=10)
    if not message:
        assert entries(data, limits)[0][2] == b"1" * 999
        return
    with pytest.raises(Rejection, match=message):
        entries(data, limits)


def test_every_error_of_zstd_is_one_that_is_translated() -> None:
    """Of damage anywhere: it is read, or refused."""
    for at in range(len(CHECKED)):
        for bit in range(8):
            with suppress(Rejection):
                entries(CHECKED[:at] + bytes([CHECKED[at] ^ 1 << bit]) + CHECKED[at + 1 :])


MEBIBYTE = gzip.compress(b"a" * (1 << 20))


def bomb(kind: bytes) -> bytes:
    """200 MiB of header in 200 KiB: members of gzip, one after the other, are one file."""
    return gzip.compress(extended(kind, b"", size=200 << 20)) + 200 * MEBIBYTE


HEAP = [
    ("a long name", bomb(b"L")),
    ("a long link target", bomb(b"K")),
    ("a pax record", bomb(b"x")),
    ("a global pax record", bomb(b"g")),
    ("pax records that overlap", gzip.compress(repeated_pax_records(500_000))),
]


@pytest.mark.parametrize("data", [case[1] for case in HEAP], ids=map(itemgetter(0), HEAP))
def test_the_heap_stays_small_for_a_bomb_of(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Rejection):
            entries(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20


@given(data=st.binary(max_size=1500), at=st.integers(0, 5000))
@settings(deadline=None)
def test_any_damage_is_refused_or_read_and_nothing_else(data: bytes, at: int) -> None:
    honest = pax(path="n" * 300) + tarball(("a", b"1" * 600), ("b", Link("a")), form=tarfile.GNU_FORMAT)
    with suppress(Rejection):
        assert all(isinstance(path, str) for path, *_ in entries(honest[:at] + data + honest[at + len(data) :]))
