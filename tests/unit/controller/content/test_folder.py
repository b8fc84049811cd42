"""A local folder as entries: in the order of names, links as links, git's own folder left out."""

from __future__ import annotations

from pathlib import Path

from api.plugins import EntryKind, Limits
from controller.content.archive import write_entries
from controller.content.disk import read_folder


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
