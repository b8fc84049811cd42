from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from api.plugins import Limits
from controller.cli.command import MisuseError
from controller.cli.push import pack
from controller.content.archive import write_entries
from controller.content.disk import read_folder
from controller.content.tar import read_tar
from controller.sources.http import read_body
from tests.support.charts import files_of

MOST = 1 << 20


def fill(folder: Path, *, reverse: bool = False) -> Path:
    found = [("a.yaml", b"a"), ("templates/b.yaml", b"b"), ("templates/deep/c", b"c")]
    for name, data in found[::-1] if reverse else found:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "a.yaml").chmod(0o755)
    return folder


def test_equal_folders_are_packed_to_equal_bytes(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one"), fill(tmp_path / "two", reverse=True)
    os.utime(two / "a.yaml", (1, 1))
    (two / "templates/b.yaml").chmod(0o600)
    assert pack(one, MOST) == pack(two, MOST)


def test_an_archive_has_files_by_path_without_owners(tmp_path: Path) -> None:
    packed = gzip.decompress(pack(fill(tmp_path / "one"), MOST))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = [(each.name, each.mode, each.mtime, each.uid, each.uname) for each in archive]
    assert found == [
        ("a.yaml", 0o755, 0, 0, ""),
        ("templates/b.yaml", 0o644, 0, 0, ""),
        ("templates/deep/c", 0o644, 0, 0, ""),
    ]


def test_an_archive_is_judged_as_the_folder_would_be(tmp_path: Path) -> None:
    folder = fill(tmp_path / "one")
    (folder / "inside").symlink_to("templates/deep")
    (folder / "README.md").symlink_to("../../README.md")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("x")
    os.mkfifo(folder / "fifo")
    (folder / os.fsdecode(b"\xff")).write_text("x")
    written = {}
    for way, entries in {
        "folder": read_folder(folder),
        "archive": read_body(io.BytesIO(data := pack(folder, MOST)), len(data), "bundle.tar.gz", 0, Limits()),
        "layer": read_tar(io.BytesIO(data), Limits(), layer=0),
    }.items():
        (tmp_path / way).mkdir()
        refused = write_entries(entries, tmp_path / way, Limits(), "content", records=True)
        written[way] = refused, files_of(tmp_path / way)
    assert written["archive"] == written["layer"] == written["folder"]
    refused, files = written["folder"]
    assert refused.keys() == {"README.md", "\udcff"}
    assert files.keys() == {"a.yaml", "inside/c", "templates/b.yaml", "templates/deep/c"}


def test_links_to_places_on_this_machine_are_refused(tmp_path: Path) -> None:
    (fill(tmp_path / "one") / "link").symlink_to("/etc/passwd")
    with pytest.raises(MisuseError, match="is a link"):
        pack(tmp_path / "one", MOST)


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "one").joinpath("large").write_bytes(os.urandom(MOST))
    with pytest.raises(MisuseError, match="larger than 1 MiB when packed"):
        pack(tmp_path / "one", MOST)


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no such folder"):
        pack(tmp_path / "missing", MOST)
