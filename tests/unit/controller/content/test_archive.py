"""Writing entries: what stands in the destination afterwards, and what never gets there."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Entry, EntryKind, Limits, Refusal
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.limits import Rejection
from rukpak.controller.content.tar import read_tar
from tests.support.archives import Link, Special, Value, tarball

LIMITS = Limits(file_bytes=1000, total_bytes=3000, entries=40, path_bytes=100, path_depth=6)
PATH = "spec.sources[1]"


def write(
    destination: Path,
    *layers: list[tuple[str, Value]],
    limits: Limits = LIMITS,
    oci: bool = True,
    records: bool = False,
) -> dict[str, Refusal]:
    def entries() -> Iterator[Entry]:
        for number, items in enumerate(layers):
            yield from read_tar(io.BytesIO(tarball(*items)), limits, layer=number if oci else None)

    destination.mkdir(exist_ok=True)
    return write_entries(entries(), destination, limits, PATH, records=records)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(destination: Path) -> dict[str, bytes | None]:
    """All that is there; None is a folder. Fails on anything that is neither folder nor file."""
    found: dict[str, bytes | None] = {}
    for path in sorted(destination.rglob("*")):
        assert path.is_dir() or path.is_file()
        assert not path.is_symlink()
        found[str(path.relative_to(destination))] = path.read_bytes() if path.is_file() else None
    return found


@dataclass
class Written:
    name: str
    layers: list[list[tuple[str, Value]]]
    expect: dict[str, bytes | None]


def cyclic() -> list[tuple[str, Value]]:
    return [("a/f", b"1"), ("a/up", Link("..")), ("a/self", Link("self")), ("x", Link("y")), ("y", Link("x"))]


# fmt: off
WRITTEN = [
    Written("files and folders", [[("a/x", b"1"), ("./a/y", b"2"), ("d/", None)]],
         {"a": None, "a/x": b"1", "a/y": b"2", "d": None}),
    Written("an empty file", [[("x", b"")]], {"x": b""}),
    Written("the root itself", [[("./", None), ("x", b"1")]], {"x": b"1"}),
    Written("paths that differ in case", [[("a", b"1"), ("A", b"2")]], {"a": b"1", "A": b"2"}),
    Written("the last of two equal paths", [[("a", b"1"), ("a", b"2")]], {"a": b"2"}),
    Written("a folder in place of a file", [[("a", b"1"), ("a/b", b"2")]], {"a": None, "a/b": b"2"}),
    Written("a file in place of a folder", [[("a/b", b"1"), ("a", b"2")]], {"a": b"2"}),
    Written("a file in place of a link", [[("x", b"1"), ("l", Link("x")), ("l", b"2")]], {"x": b"1", "l": b"2"}),
    Written("a link in place of a folder", [[("x", b"1"), ("l/f", b"2"), ("l", Link("x"))]], {"x": b"1", "l": b"1"}),
    Written("a link to a file", [[("d/x", b"1"), ("d/l", Link("x")), ("m", Link("d/x"))]],
         {"d": None, "d/x": b"1", "d/l": b"1", "m": b"1"}),
    Written("a link before its target", [[("l", Link("x")), ("x", b"1")]], {"x": b"1", "l": b"1"}),
    Written("a link to a link", [[("x", b"1"), ("l", Link("m")), ("m", Link("x"))]], {"x": b"1", "l": b"1", "m": b"1"}),
    Written("a link to a folder with a link", [[("d/e/x", b"1"), ("d/l", Link("e/x")), ("c", Link("d"))]],
         {"d": None, "d/e": None, "d/e/x": b"1", "d/l": b"1", "c": None, "c/e": None, "c/e/x": b"1", "c/l": b"1"}),
    Written("a link through a link", [[("d/x", b"1"), ("c", Link("d")), ("l", Link("c/x"))]],
         {"d": None, "d/x": b"1", "c": None, "c/x": b"1", "l": b"1"}),
    Written("a link up and down inside", [[("a/b/l", Link("../../x")), ("x", b"1")]],
         {"a": None, "a/b": None, "a/b/l": b"1", "x": b"1"}),
    Written("no dangling link", [[("l", Link("nowhere")), ("m", Link("x/y")), ("x", b"1"), ("n", Link(""))]],
         {"x": b"1"}),
    Written("no link that leads into itself", [cyclic()], {"a": None, "a/f": b"1"}),
    Written("a hard link", [[("x", b"1"), ("l", Link("x", hard=True))]], {"x": b"1", "l": b"1"}),
    Written("a hard link before its target", [[("l", Link("x", hard=True)), ("x", b"1")]], {"x": b"1", "l": b"1"}),
    Written("a hard link keeps what it linked", [[("x", b"1"), ("l", Link("x", hard=True)), ("x", b"2")]],
         {"x": b"2", "l": b"1"}),
    Written("a hard link to itself", [[("x", b"1"), ("x", Link("x", hard=True))]], {"x": b"1"}),
    Written("a hard link below its target", [[("a", b"1"), ("a/b", Link("a", hard=True))]], {"a": None, "a/b": b"1"}),
    Written("a hard link above its target", [[("a/b", b"1"), ("a", Link("a/b", hard=True))]], {"a": b"1"}),
    Written("a hard link to a symbolic one", [[("d/x", b"1"), ("d/l", Link("x")), ("m", Link("d/l", hard=True))]],
         {"d": None, "d/x": b"1", "d/l": b"1", "m": b"1"}),
    Written("absolute links of a layer", [[("d/x", b"1"), ("d/l", Link("/d/x")), ("h", Link("/d/x", hard=True))]],
         {"d": None, "d/x": b"1", "d/l": b"1", "h": b"1"}),
    Written("an entry below a link, not through it", [[("s/x", b"1"), ("l", Link("s")), ("l/y", b"2")]],
         {"s": None, "s/x": b"1", "l": None, "l/y": b"2"}),
    Written("no whited-out file", [[("m/a", b"1"), ("m/b", b"1")], [("m/.wh.b", b"")]], {"m": None, "m/a": b"1"}),
    Written("no whited-out folder", [[("m/a", b"1"), ("x", b"1")], [(".wh.m", b"")]], {"x": b"1"}),
    Written("no whited-out link", [[("x", b"1"), ("l", Link("x"))], [(".wh.l", b"")]], {"x": b"1"}),
    Written("what a whiteout's own layer brings", [[("m/a", b"1")], [("m/c", b"2"), (".wh.m", b"")]],
         {"m": None, "m/c": b"2"}),
    Written("an opaque folder", [[("o/x", b"1"), ("o/d/z", b"1")], [("o/y", b"2"), ("o/.wh..wh..opq", b"")]],
         {"o": None, "o/y": b"2"}),
    Written("an opaque folder, marked first", [[("o/x", b"1")], [("o/.wh..wh..opq", b""), ("o/y", b"2")]],
         {"o": None, "o/y": b"2"}),
    Written("a file of a later layer", [[("f", b"1")], [("f", b"2")]], {"f": b"2"}),
    Written("a folder of a later layer", [[("f", b"1")], [("f/g", b"2")]], {"f": None, "f/g": b"2"}),
    Written("a whiteout of nothing", [[("x", b"1")], [(".wh.y", b""), ("no/.wh..wh..opq", b"")]], {"x": b"1"}),
    Written("no bookkeeping of aufs", [[(".wh..wh.plnk/1", b""), (".wh..wh.aufs", b""), ("x", b"1")]],
         {".wh..wh.plnk": None, ".wh..wh.plnk/1": b"", "x": b"1"}),
]
# fmt: on


@pytest.mark.parametrize("case", WRITTEN, ids=attrgetter("name"))
def test_what_is_written(case: Written, tmp_path: Path) -> None:
    write(tmp_path / "out", *case.layers)
    assert read(tmp_path / "out") == case.expect


@dataclass
class Refused:
    name: str
    items: list[tuple[str, Value]]
    message: str
    limits: Limits = field(default=LIMITS)
    oci: bool = True


CHAIN: list[tuple[str, Value]] = [(f"l{i}", Link(f"l{i + 1}")) for i in range(60)]
DOUBLING: list[tuple[str, Value]] = [("0/f", b"")]
DOUBLING += [(f"{i}/{side}", Link(f"../{i - 1}")) for i in range(1, 6) for side in "ab"]

# fmt: off
REFUSED = [
    Refused("a path that leaves", [("a/../../x", b"")], 'entry "a/../../x" leaves its directory'),
    Refused("an absolute path", [("/x", b"")], 'entry "/x" has an absolute path'),
    Refused("a control character", [("a\nb", b"")], 'entry "a\\nb" has a backslash or a control character'),
    Refused("a backslash", [("a\\..\\b", b"")], 'entry "a\\\\..\\\\b" has a backslash'),
    Refused("a name that is not UTF-8", [("a\udcff", b"")], "is not UTF-8"),
    Refused("a name that is too long", [("a" * 101, b"")], "exceeds the limit of 100 bytes"),
    Refused("an element that is too long", [("a" * 256, b"")], "(255 per element)", Limits()),
    Refused("a path that is too deep", [("1/2/3/4/5/6/7", b"")], "nested deeper than the limit of 6"),
    Refused("the root as a file", [("./.", b"1")], "names the root of the tree as a file"),
    Refused("a file over its budget", [("z", bytes(1001))], 'entry "z" exceeds the limit of 1000 bytes per file'),
    Refused("too many bytes", [(f"f{i}", bytes(1000)) for i in range(4)],
         'entry "f3" makes the content exceed the limit of 3 KiB'),
    Refused("too many bytes that replace each other", [("f", bytes(1000))] * 4, "exceed the limit of 3 KiB"),
    Refused("too many entries", [(f"f{i}", b"") for i in range(41)], "more entries than the limit of 40"),
    Refused("too many equal entries", [("f", b"")] * 41, "more entries than the limit of 40"),
    Refused("too many folders that no entry names", [(f"{i}/2/3/4/5/f", b"") for i in range(10)], "more entries"),
    Refused("a link out", [("l", Link("../../etc"))], 'entry "l" links to "../../etc", outside the tree'),
    Refused("a link out by a detour", [("a/l", Link("../b/../../etc"))], "outside the tree"),
    Refused("a link out through a link", [("d/", None), ("d/r", Link("..")), ("l", Link("d/r/../x"))],
         'entry "l" links to "d/r/../x", outside'),
    Refused("a link out of a layer", [("l", Link("../x"))], "outside the tree"),
    Refused("a link with a long target", [("l", Link("a/" * 51))], "has a link target that exceeds the limit"),
    Refused("an absolute link", [("l", Link("/etc/passwd"))], 'links to "/etc/passwd", outside the tree', oci=False),
    Refused("a hard link out", [("l", Link("../x", hard=True))], "outside the tree"),
    Refused("an absolute hard link", [("l", Link("/etc/passwd", hard=True))], "outside the tree", oci=False),
    Refused("copies over the budget", [("f", bytes(1000)), *((f"l{i}", Link("f")) for i in range(3))],
         "exceed the limit of 3 KiB"),
    Refused("hard links over the budget", [("f", bytes(1000)), *((f"l{i}", Link("f", hard=True)) for i in range(3))],
         "exceed the limit of 3 KiB"),
    Refused("folders of links that double", DOUBLING, "more entries than the limit of 40"),
    Refused("a copy that is too deep", [("a/b/c/d/e/f", b""), ("1/2", Link("../a"))], '"1/2/b/c/d/e/f" is nested'),
    Refused("a long chain of links", CHAIN, "more than 40 links", Limits()),
    Refused("a whiteout of the parent", [("a/.wh...", b"")], "is a whiteout without a name"),
    Refused("a whiteout that leaves", [("../.wh.x", b"")], "leaves its directory"),
    Refused("a fifo", [("n", Special(tarfile.FIFOTYPE))], 'entry "n" is a fifo'),
    Refused("a character device", [("n", Special(tarfile.CHRTYPE))], 'entry "n" is a character device'),
    Refused("a block device", [("n", Special(tarfile.BLKTYPE))], 'entry "n" is a block device'),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_is_refused(case: Refused, tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        write(tmp_path / "out", case.items, limits=case.limits, oci=case.oci)
    assert caught.value.reason is Reason.CONTENT_REJECTED
    assert caught.value.message.startswith(f"{PATH}: ")
    assert case.message in caught.value.message
    assert names(tmp_path) == ["out"]


@dataclass
class Left:
    name: str
    layers: list[list[tuple[str, Value]]]
    expect: dict[str, bytes | None]
    """What is written."""
    refused: dict[str, str]
    """Part of why, by path."""
    limits: Limits = field(default=LIMITS)


DEVICE, FIFO = Special(tarfile.CHRTYPE), Special(tarfile.FIFOTYPE)
UNIT = "systemd/dev-disk-by\\x2dlabel.swap"
BASE: list[tuple[str, Value]] = [("dev/console", DEVICE), ("initctl", FIFO), (UNIT, b""), ("a\udcff", b"1"),
                                 ("mtab", Link("../../proc/mounts")), ("m/a", b"1")]  # fmt: skip
LONG = "n" * 300

# fmt: off
LEFT = [
    Left("the entries of a usual base", [BASE], {"dev": None, "systemd": None, "m": None, "m/a": b"1"},
         {"dev/console": "a character device", "initctl": "a fifo", UNIT: "has a backslash", "a\udcff": "not UTF-8",
          "mtab": "outside the tree"}),
    Left("a file that a device replaces", [[("x", b"1")], [("x", DEVICE)]], {}, {"x": "a character device"}),
    Left("a folder that a device replaces", [[("x/y", b"1")], [("x", DEVICE)]], {}, {"x": "a character device"}),
    Left("nothing of a device that a file replaces", [[("x", DEVICE)], [("x", b"1")]], {"x": b"1"}, {}),
    Left("nothing of a device that a folder replaces", [[("x", DEVICE)], [("x/y", b"1")]], {"x": None, "x/y": b"1"},
         {}),
    Left("nothing of a device in place of a link", [[("x", Link("../y"))], [("x", FIFO)]], {}, {"x": "a fifo"}),
    Left("nothing that is whited out", [BASE, [("dev/.wh.console", b""), (".wh.initctl", b""), (".wh.mtab", b""),
         ("systemd/.wh.dev-disk-by\\x2dlabel.swap", b""), (".wh.a\udcff", b"")]],
         {"dev": None, "systemd": None, "m": None, "m/a": b"1"}, {}),
    Left("nothing in a folder that is whited out", [BASE, [(".wh.dev", b""), (".wh.systemd", b"")]],
         {"m": None, "m/a": b"1"},
         {"initctl": "a fifo", "a\udcff": "not UTF-8", "mtab": "outside the tree"}),
    Left("nothing in an opaque folder", [[(UNIT, b""), ("systemd/n", DEVICE)], [("systemd/.wh..wh..opq", b"")]],
         {"systemd": None}, {}),
    Left("nothing below a name that is whited out", [[("a\\b/c.yaml", b""), ("a\\b/", None)], [(".wh.a\\b", b"")]],
         {}, {}),
    Left("what is below a name that is not allowed", [[("d/a\\b/", None), ("d/a\\b/x/y/c.yaml", b"1")]], {"d": None},
         {"d/a\\b": "has a backslash", "d/a\\b/c.yaml": "has a backslash"}),
    Left("what is below a name that is not allowed, named first", [[("a\\b/x/c.yaml", b"1"), ("a\\b/", None)]], {},
         {"a\\b": '"a\\\\b/" has a backslash', "a\\b/c.yaml": "has a backslash"}),
    Left("a link to what must not be read", [[("dev/null", DEVICE), ("d/l", Link("../dev/null"))]],
         {"dev": None, "d": None}, {"dev/null": "a character device", "d/l": 'entry "dev/null" is a character device'}),
    Left("a link before what must not be read", [[("l", Link("n")), ("n", FIFO)]], {},
         {"l": '"n" is a fifo', "n": "fifo"}),
    Left("a link through what must not be read", [[("out", Link("../x")), ("l", Link("out/y"))]], {},
         {"out": "outside the tree", "l": 'entry "out" links to "../x"'}),
    Left("a link in what must not be read", [[("n", DEVICE), ("l", Link("n/..")), ("m", Link("n/x"))]], {},
         {"n": "device", "l": "device", "m": "device"}),
    Left("a hard link to what must not be read", [[("n", DEVICE), ("l", Link("n", hard=True))]], {},
         {"n": "device", "l": '"n" is a character device'}),
    Left("a hard link to a name that is not allowed", [[("a\\b", b"1"), ("l", Link("a\\b", hard=True))]], {},
         {"a\\b": "backslash", "l": "backslash"}),
    Left("a hard link out", [[("d/l", Link("../x", hard=True))]], {"d": None}, {"d/l": "outside the tree"}),
    Left("what a folder contains, by a link to it", [[("d/n", DEVICE), ("d/f", b"1"), ("c", Link("d"))]],
         {"d": None, "d/f": b"1", "c": None, "c/f": b"1"}, {"d/n": "device", "c/n": "device"}),
    Left("a link out through a link", [[("d/r", Link("..")), ("l", Link("d/r/../x")), ("f", b"1")]],
         {"d": None, "f": b"1"}, {"l": 'entry "l" links to "d/r/../x"'}),
    Left("a link with a long target", [[("l", Link("a/" * 51))]], {}, {"l": "link target that exceeds"}),
    Left("a chain of links", [[*CHAIN, ("l60", b"1")]],
         {f"l{i}": b"1" for i in range(42, 61)}, {f"l{i}": "more than 40 links" for i in range(42)}, Limits()),
    Left("a name that is too long", [[(f"d/{LONG}.yaml", b"1")]], {"d": None},
         {f"d/{LONG[:120]}/{LONG[:115]}.yaml": "(255 per element)"}, Limits()),
    Left("a path that is too long", [[("d/" + "e/" * 50 + "f.yaml", b"1")]],
         dict.fromkeys("/".join(["d", *"e" * depth]) for depth in range(50)),
         {"/".join(["d", *"e" * 50, *end]): "exceeds the limit of 100 bytes" for end in ([], ["f.yaml"])},
         Limits(path_bytes=100)),
    Left("a path that is too deep", [[("1/2/3/4/5/6/7/8", b"1")]],
         dict.fromkeys("/".join("123456"[:depth]) for depth in range(1, 7)),
         {"1/2/3/4/5/6/7/8": "nested deeper", "1/2/3/4/5/6/7": "nested deeper"}),
    Left("a copy that is too deep", [[("a/b/c/d/e/f", b""), ("1/2", Link("../a"))]],
         {"/".join("abcde"[:depth]): None for depth in range(1, 6)} | {"a/b/c/d/e/f": b""}
         | {"/".join("12bcde"[:depth]): None for depth in range(1, 7)},
         {"1/2/b/c/d/e/f": "nested deeper"}),
    Left("a whiteout without a name", [[("a/.wh...", b""), ("a/b", b"1")]], {"a": None, "a/b": b"1"},
         {"a/.wh...": "a whiteout without a name"}),
    Left("no whiteout of what must not be read", [[("x", b"1")], [(".wh.x", FIFO)]], {"x": b"1"}, {".wh.x": "a fifo"}),
]
# fmt: on


@pytest.mark.parametrize("case", LEFT, ids=attrgetter("name"))
def test_what_is_left_out_and_recorded(case: Left, tmp_path: Path) -> None:
    refused = write(tmp_path / "out", *case.layers, limits=case.limits, records=True)
    assert read(tmp_path / "out") == case.expect
    assert refused.keys() == case.refused.keys()
    for path, told in case.refused.items():
        assert told in refused[path].problem
        assert refused[path].reason is Reason.CONTENT_REJECTED


OF_ALL = ("leaves its directory", "absolute path", "names the root", "exceed", "more entries")


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_names_that_lead_elsewhere_and_limits_are_about_all_of_the_content(case: Refused, tmp_path: Path) -> None:
    is_recorded = any(told in case.message for told in ("UTF-8", "limit of 100 bytes", "(255 per element)", "target"))
    if is_recorded or not any(told in case.message for told in OF_ALL):
        assert write(tmp_path / "out", case.items, limits=case.limits, oci=case.oci, records=True)
        return
    with pytest.raises(BundleError) as caught:
        write(tmp_path / "out", case.items, limits=case.limits, oci=case.oci, records=True)
    assert case.message in caught.value.message


OVER: list[tuple[str, list[tuple[str, Value]], str]] = [
    ("entries", [("n", DEVICE)] * 41, "more entries than the limit of 40"),
    ("paths", [(f"a\\{number}", b"") for number in range(41)], "more entries than the limit of 40"),
    ("copies", [("d/n", DEVICE), *((f"l{i}", Link("d")) for i in range(20))], "more entries than the limit of 40"),
    ("a large body", [("a\\b", bytes(1001))], "exceeds the limit of 1000 bytes per file"),
    ("bodies", [("a\\b", bytes(1000))] * 4, "exceed the limit of 3 KiB"),
]


@pytest.mark.parametrize(("items", "message"), [case[1:] for case in OVER], ids=[case[0] for case in OVER])
def test_what_is_left_out_counts(items: list[tuple[str, Value]], message: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=message) as caught:
        write(tmp_path / "out", items, records=True)
    assert caught.value.reason is Reason.CONTENT_REJECTED


def test_long_names_that_are_left_out_take_little_memory(tmp_path: Path) -> None:
    entries = (Entry(path=f"{number}\\{'x' * 900_000}.yaml", target="y" * 900_000) for number in range(200))
    tracemalloc.start()
    try:
        refused = write_entries(entries, tmp_path, Limits(), PATH, records=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(refused) == 200
    assert all(path.endswith(".yaml") for path in refused)
    assert peak < 16 << 20


def test_what_is_told_of_what_is_left_out_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rukpak.controller.content.limits._REFUSED_TEXT", 1 << 20)
    folder = "/".join(["d" * 200] * 4)
    entries = (Entry(path=f"{folder}/{number}\\{'x' * 100}", target="y" * 900_000) for number in range(40_000))
    with pytest.raises(BundleError, match="too many entries that cannot be used; remove some"):
        write_entries(entries, tmp_path, Limits(), PATH, records=True)


def test_names_of_many_elements_that_are_left_out_take_no_quadratic_time(tmp_path: Path) -> None:
    entries = (Entry(path=f"{'a/' * 400}{number}\\/{'b/' * 400}c") for number in range(2000))
    started = time.process_time()
    refused = write_entries(entries, tmp_path, Limits(), PATH, records=True)
    assert len(refused) == 2  # the depth is their limit, and all end so
    assert time.process_time() - started < 10


def test_owner_setuid_and_group_bits_are_dropped_and_executable_stays(tmp_path: Path) -> None:
    write_entries(read_tar(io.BytesIO(tarball(("x", b"1"), mode=0o6777)), LIMITS), tmp_path, LIMITS, PATH)
    mode = (tmp_path / "x").stat().st_mode
    assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH)
    assert mode & stat.S_IXUSR


def test_a_body_that_is_shorter_than_its_size(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match='entry "x" is truncated'):
        write_entries([Entry(path="x", size=5, data=io.BytesIO(b"1"))], tmp_path, LIMITS, PATH)


def test_a_body_that_is_longer_than_its_size(tmp_path: Path) -> None:
    class Generous:
        def read(self, size: int, /) -> bytes:
            return bytes(size + 10)

    write_entries([Entry(path="x", size=5, data=Generous())], tmp_path, LIMITS, PATH)
    assert (tmp_path / "x").stat().st_size == 5


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(BundleError) as caught:
        write_entries([Entry(path="x", size=1, data=io.BytesIO(b"1"))], tmp_path, LIMITS, PATH)
    assert caught.value.reason is Reason.STORAGE_FULL


def test_a_generator_learns_of_a_refusal_and_has_the_last_word(tmp_path: Path) -> None:
    def entries() -> Iterator[Entry]:
        try:
            yield Entry(path="../x")
        except Rejection:
            raise BundleError(Reason.DIGEST_MISMATCH, "it belonged to another source anyway") from None

    with pytest.raises(BundleError) as caught:
        write_entries(entries(), tmp_path, LIMITS, PATH)
    assert caught.value.reason is Reason.DIGEST_MISMATCH


def test_whiteouts_take_no_quadratic_time(tmp_path: Path) -> None:
    files = [Entry(path=f"d/{i}", layer=1) for i in range(10_000)]
    opaque = [Entry(path="d", kind=EntryKind.OPAQUE, layer=1) for _ in range(39_999)]
    started = time.process_time()
    write_entries([*files, *opaque], tmp_path, Limits(), PATH)  # 400 million steps, if each looked at all
    assert len(names(tmp_path / "d")) == 10_000
    assert time.process_time() - started < 15


NAMES = st.sampled_from(
    ["a", "b", "..", ".", "", "/", "a/b", "b/a", "../a", "a/../..", ".wh.a", ".wh..wh..opq", "ä", "a\x00"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@st.composite
def any_entry(draw: st.DrawFn) -> Entry:
    data = draw(st.binary(max_size=4))
    return Entry(
        path=draw(PATHS),
        kind=draw(st.sampled_from(EntryKind)),
        size=len(data),
        data=io.BytesIO(data),
        target=draw(PATHS),
        layer=draw(st.integers(0, 2)),
    )


@given(entries=st.lists(any_entry(), max_size=12))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_content_that_is_not_refused_nothing_is_left_out(
    entries: list[Entry], tmp_path_factory: pytest.TempPathFactory
) -> None:
    strict, recording = tmp_path_factory.mktemp("strict", numbered=True), tmp_path_factory.mktemp("out", numbered=True)
    try:
        write_entries(entries, strict, LIMITS, PATH)
    except BundleError:
        return
    for entry in entries:
        if isinstance(entry.data, io.BytesIO):
            entry.data.seek(0)
    assert write_entries(entries, recording, LIMITS, PATH, records=True) == {}
    assert read(recording) == read(strict)


@given(entries=st.lists(any_entry(), max_size=12), records=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_ever_written_outside_whatever_the_entries(
    entries: list[Entry], records: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    around = tmp_path_factory.mktemp("around", numbered=True)
    (around / "out").mkdir()
    with suppress(BundleError):
        refused = write_entries(entries, around / "out", LIMITS, PATH, records=records)
        assert not refused.keys() & read(around / "out").keys()
    assert names(around) == ["out"]
    read(around / "out")
