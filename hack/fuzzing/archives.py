"""Targets: reading archives, compared with the standard library, and unpacking them."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from hack.fuzzing.target import Target, expect, refusals, scratch
from rukpak.api.plugins import ContentTree, Entry, EntryKind, Limits, Readable
from rukpak.controller.content.archive import read_body, write_entries
from rukpak.controller.content.tar import is_compressed, read_tar
from rukpak.controller.content.zip import read_zip
from rukpak.controller.formats.helm.chart import find_chart, gather_chart

LIMITS = Limits(total_bytes=1 << 16, file_bytes=1 << 16, entries=50, ratio_from=1 << 14, header_bytes=1 << 14)
_BLOCK = 512
_CHECKSUM = slice(148, 156)
_LAYER_END = b"\n--- next layer ---\n"
_MODES = {stat.S_IFDIR: (0o755,), stat.S_IFREG: (0o644, 0o755)}

Listing = list[tuple[str, EntryKind, bytes]]


# as they are read


def check_tar(data: bytes) -> None:
    """Read a tar archive, also with corrected checksums, which random changes of a header would not pass."""
    for archive in {data, correct_checksums(data)}:
        listed = _listing(read_tar(io.BytesIO(archive), LIMITS))
        if listed is not None and not is_compressed(archive) and not _has_odd_prefix(archive):
            _expect_equal(listed, _tarfile_listing(archive))


def check_zip(data: bytes) -> None:
    """Read a zip archive."""
    listed = _listing(read_zip(io.BytesIO(data), LIMITS))
    if listed is not None and all(path.isascii() for path, *_ in listed):  # zipfile reads other names as code page 437
        _expect_equal(listed, _zipfile_listing(data))


def _listing(entries: Iterable[Entry]) -> Listing | None:
    """Return the entries of an archive; None if it is refused."""
    found: Listing = []
    with refusals():
        for entry in entries:
            body = read_all(entry.data) if entry.data else entry.target.encode(errors="surrogateescape")
            found.append((entry.path, entry.kind, body))
        return found
    return None


def read_all(body: Readable) -> bytes:
    return b"".join(iter(lambda: body.read(1 << 14), b""))


def _expect_equal(ours: Listing, theirs: Listing | None) -> None:
    """If two readers interpret an archive differently, a scanner that uses one of them can be bypassed."""
    if theirs is not None:
        expect(
            [_normal(entry) for entry in ours] == [_normal(entry) for entry in theirs], f"{ours} is read as {theirs}"
        )


def _normal(entry: tuple[str, EntryKind, bytes]) -> tuple[str, EntryKind, bytes]:
    path, kind, body = entry
    kind = EntryKind.DIRECTORY if path.endswith("/") and not body else kind
    return path.rstrip("/"), kind, body if kind is EntryKind.FILE else b""


def _has_odd_prefix(archive: bytes) -> bool:
    """Whether a header may have the field `prefix` without the magic of ustar: GNU tar ignores it, tarfile does not."""
    blocks = (archive[start : start + _BLOCK] for start in range(0, len(archive), _BLOCK))
    return any(block[257:263] != b"ustar\0" and block[345:346] not in (b"", b"\0") for block in blocks)


def _tarfile_listing(data: bytes) -> Listing | None:
    """Return the entries that `tarfile` reads; None if it fails, or stops before the end."""
    kinds = {tarfile.DIRTYPE: EntryKind.DIRECTORY, tarfile.SYMTYPE: EntryKind.SYMBOLIC_LINK}
    kinds[tarfile.LNKTYPE] = EntryKind.HARD_LINK
    with (
        suppress(tarfile.TarError, ValueError, EOFError, OverflowError, OSError),
        tarfile.open(fileobj=io.BytesIO(data), mode="r:", errorlevel=2, ignore_zeros=False) as archive,
    ):
        found: Listing = []
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            found.append((member.name, kinds.get(member.type, EntryKind.FILE), file.read() if file else b""))
        end = archive.offset
        return found if not data[end : end + _BLOCK].strip(b"\0") else None
    return None


def _zipfile_listing(data: bytes) -> Listing | None:
    """Return the entries that `zipfile` reads; None if it fails."""
    with suppress(zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, ValueError, OSError):
        archive = zipfile.ZipFile(io.BytesIO(data))
        return [(item.filename, _zip_kind(item), archive.read(item)) for item in archive.infolist()]
    return None


def _zip_kind(item: zipfile.ZipInfo) -> EntryKind:
    mode = item.external_attr >> 16 if item.create_system in (3, 19) else 0
    if item.filename.endswith("/") or stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.SYMBOLIC_LINK if stat.S_ISLNK(mode) else EntryKind.FILE


def correct_checksums(data: bytes) -> bytes:
    """Return a tar archive with correct checksums in all headers."""
    archive, position = bytearray(data), 0
    while position + _BLOCK <= len(archive):
        header = archive[position : position + _BLOCK]
        if not header.strip(b"\0"):
            break
        header[_CHECKSUM] = b" " * 8
        archive[position + _CHECKSUM.start : position + _CHECKSUM.stop] = b"%06o\0 " % sum(header)
        size = _octal(bytes(header[124:136]))
        position += _BLOCK + size + -size % _BLOCK
    return bytes(archive)


def _octal(field: bytes) -> int:
    with suppress(ValueError):
        return max(0, int(field.strip(b" \0") or b"0", 8))
    return 0


# as they are unpacked


def check_archive(data: bytes) -> None:
    """Unpack the archive of an http source."""
    _unpack(lambda: read_body(io.BytesIO(data), len(data), "a", 0, LIMITS))
    _unpack(lambda: read_body(io.BytesIO(data), len(data), "a.yaml", 1, LIMITS))


def check_layers(data: bytes) -> None:
    """Unpack the layers of an image, with whiteouts, on top of each other."""
    layers = [correct_checksums(layer) for layer in data.split(_LAYER_END)]
    _unpack(
        lambda: (
            entry for number, layer in enumerate(layers) for entry in read_tar(io.BytesIO(layer), LIMITS, layer=number)
        )
    )


def check_chart_archive(data: bytes) -> None:
    """Find a chart in a content tree, and collect its files, with dependencies unpacked."""
    with scratch() as folder:
        root = folder / "content"
        root.mkdir()
        (root / "chart.tgz").write_bytes(data)
        with refusals():
            chart = find_chart(ContentTree(root=root, destinations=("",)), LIMITS)
            gather_chart(root, chart, folder / "chart", LIMITS)
            _check_tree(folder / "chart")


def _unpack(read: Callable[[], Iterator[Entry]]) -> None:
    with scratch() as around:
        folder = around / "out"
        folder.mkdir()
        with refusals():
            write_entries(read(), folder, LIMITS, "spec.sources[0].http")
        found = list(around.iterdir())
        expect(found == [folder], f"something was written outside: {found}")
        _check_tree(folder)


def _check_tree(folder: Path) -> None:
    """Check that there are only folders and regular files, within the limits, also after a refusal."""
    total = count = 0
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            found = (Path(where) / name).lstat()
            modes = _MODES.get(stat.S_IFMT(found.st_mode), ())
            expect(stat.S_IMODE(found.st_mode) in modes, f"{name!r} is of mode {found.st_mode:o}")
            total, count = total + (stat.S_ISREG(found.st_mode) and found.st_size), count + 1
    expect(count <= LIMITS.entries, f"{count} entries")
    expect(total <= LIMITS.total_bytes, f"{total} bytes")


_ZIP_WORDS = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"\xff\xff\xff\xff", b"a/", b"../")
_TAR_WORDS = (b"ustar\x0000", b"ustar  \0", b"././@LongLink", b"18 path=../escape\n", b" size=", b" linkpath=", b"../")
_LAYER_WORDS = (*_TAR_WORDS, b".wh.", b".wh..wh..opq", _LAYER_END)

TARGETS = (
    Target(name="tar", check=check_tar, covers="tar archives, against tarfile", words=_TAR_WORDS),
    Target(name="zip", check=check_zip, covers="zip archives, against zipfile", words=_ZIP_WORDS),
    Target(
        name="archives", check=check_archive, covers="archives of any kind, unpacked", words=_ZIP_WORDS + _TAR_WORDS
    ),
    Target(name="layers", check=check_layers, covers="layers of images with whiteouts, unpacked", words=_LAYER_WORDS),
    Target(name="chart-archives", check=check_chart_archive, covers="packed charts, unpacked", words=_TAR_WORDS),
)
