"""Folders that are packed, and `rukpak push` where it is not clear which source a folder replaces."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.plugins import Limits
from rukpak.controller.cli import main
from rukpak.controller.cli.content import pack
from rukpak.controller.content.archive import read_body, write_entries
from rukpak.controller.content.disk import read_folder
from rukpak.controller.content.tar import read_tar
from rukpak.controller.views import MisuseError
from tests.support.charts import files_of
from tests.support.deployments import REF, observed
from tests.support.fake_cluster import FakeCluster

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
    assert pack(str(one), MOST) == pack(str(two), MOST)


def test_an_archive_has_files_by_path_without_owners(tmp_path: Path) -> None:
    packed = gzip.decompress(pack(str(fill(tmp_path / "one")), MOST))
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
        "archive": read_body(io.BytesIO(data := pack(str(folder), MOST)), len(data), "bundle.tar.gz", 0, Limits()),
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
        pack(str(tmp_path / "one"), MOST)


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "one").joinpath("large").write_bytes(os.urandom(MOST))
    with pytest.raises(MisuseError, match="larger than 1 MiB when packed"):
        pack(str(tmp_path / "one"), MOST)


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="No such file"):
        pack(str(tmp_path / "missing"), MOST)


def test_a_file_of_manifests_is_packed_and_an_archive_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1")
    packed = pack(str(tmp_path / "a.yaml"), MOST)
    (tmp_path / "a.tgz").write_bytes(packed)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["a.yaml"]
    assert pack(str(tmp_path / "a.tgz"), MOST) == packed


LOCAL = {"kind": "configMap", "configMap": {"names": ["old"]}}
IMAGE = {"kind": "image", "image": {"ref": REF}}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    return str(tmp_path / "bundle")


def put(cluster: FakeCluster, *sources: dict[str, Any]) -> None:
    spec = {"sources": [{**source, "destination": f"d{number}"} for number, source in enumerate(sources)]}
    cluster.put(observed(spec={**spec, "installNamespace": "shop"}))


class Mistake(NamedTuple):
    sources: list[Any]
    words: tuple[str, ...]
    said: str


SOURCE_MISTAKES = {
    "several": Mistake([LOCAL, LOCAL], (), "several sources are of kind configMap; say with --source which one"),
    "none": Mistake([IMAGE], (), "no source is of kind configMap; say with --source which one to replace"),
    "one too many": Mistake([LOCAL], ("--source=1",), "--source: there are only the sources 0 to 0"),
}


@pytest.mark.parametrize("name", SOURCE_MISTAKES)
def test_a_mistake_is_told_and_nothing_is_written(
    name: str, folder: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    case = SOURCE_MISTAKES[name]
    put(cluster, *case.sources)
    before = dict(cluster.objects)
    assert main(["push", folder, "shop", *case.words]) == 2
    assert case.said in capsys.readouterr().err
    assert cluster.objects == before
