"""The spool: what is in the file is what its digest says.

A local folder as entries: in the order of names, links as links, git's own folder left out."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import EntryKind, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.disk import Spool, read_folder


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_what_is_written_is_hashed_and_read(tmp_path: Path) -> None:
    with Spool(tmp_path, "path") as spool:
        spool.append(b"one")
        spool.append(b"two")
        assert (spool.size, spool.digest) == (6, digest_of(b"onetwo"))
        assert spool.rewind().read() == b"onetwo"


def test_nothing_of_what_was_forgotten_is_left(tmp_path: Path) -> None:
    with Spool(tmp_path, "path") as spool:
        spool.append(b"a long beginning")
        spool.restart()
        spool.append(b"x")
        assert (spool.size, spool.digest) == (1, digest_of(b"x"))
        assert spool.rewind().read() == b"x"


def test_the_file_has_no_name(tmp_path: Path) -> None:
    with Spool(tmp_path, "path") as spool:
        spool.append(b"x")
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rukpak.controller.content.disk.os.write", refuse)
    with Spool(tmp_path, "path") as spool, pytest.raises(BundleError, match="path: the disk") as caught:
        spool.append(b"x")
    assert caught.value.reason is Reason.STORAGE_FULL


def test_what_is_in_a_folder_comes_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "b" / ".git").mkdir(parents=True)
    (tmp_path / "b" / ".git" / "HEAD").write_text("x")
    (tmp_path / "b" / "run").write_text("x")
    (tmp_path / "b" / "run").chmod(0o755)
    (tmp_path / "a").write_text("hello")
    (tmp_path / "c").symlink_to("a")
    found = [(entry.path, entry.kind, entry.size, entry.executable, entry.target) for entry in read_folder(tmp_path)]
    assert found == [
        ("a", EntryKind.FILE, 5, False, ""),
        ("b", EntryKind.DIRECTORY, 0, False, ""),
        ("b/run", EntryKind.FILE, 1, True, ""),
        ("c", EntryKind.SYMBOLIC_LINK, 0, False, "a"),
    ]


def test_it_becomes_content_like_an_archive(tmp_path: Path) -> None:
    folder, copy = tmp_path / "folder", tmp_path / "copy"
    (folder / "x").mkdir(parents=True)
    copy.mkdir()
    (folder / "x" / "a").write_text("hello")
    (folder / "b").symlink_to("x/a")
    write_entries(read_folder(folder), copy, Limits(), "folder")
    assert (copy / "x" / "a").read_text() == (copy / "b").read_text() == "hello"
    assert not (copy / "b").is_symlink()
