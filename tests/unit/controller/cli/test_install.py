"""The BundleDeployment that the flags of `rukpak install` describe.

`rukpak push` where it is not clear which source a folder replaces, over a cluster in memory.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.plugins import Limits
from controller.cli import main
from controller.cli.command import MisuseError
from controller.cli.install import make_deployment, pack
from controller.cli.verbs import make_parser
from controller.content.archive import write_entries
from controller.content.disk import read_folder
from controller.content.tar import read_tar
from controller.sources.http import read_body
from tests.support.charts import files_of
from tests.support.deployments import REF, observed
from tests.support.fake_cluster import FakeCluster


class Case(NamedTuple):
    name: str
    words: list[str]
    source: dict[str, Any]
    spec: dict[str, Any]


CASES = [
    Case("an image", ["--image=q.io/a:1"], {"kind": "image", "image": {"ref": "q.io/a:1"}}, {"format": "plain"}),
    Case(
        "with a scheme",
        ["--image=oci://q.io/a:1"],
        {"kind": "image", "image": {"ref": "q.io/a:1"}},
        {"format": "plain"},
    ),
    Case(
        "a repository",
        ["--git=https://a/b", "--ref=main", "--directory=d", "--secret=login"],
        {
            "kind": "git",
            "git": {
                "repository": "https://a/b",
                "ref": "main",
                "directory": "d",
                "auth": {"secret": {"name": "login"}},
            },
        },
        {"format": "plain"},
    ),
    Case(
        "a file, with the other fields of the spec",
        ["--http=https://a/b.tgz", "--sha256=abc", "--format=helm", "-n", "shop", "--approval=Manual"],
        {"kind": "http", "http": {"url": "https://a/b.tgz", "sha256": "abc"}},
        {"format": "helm", "installNamespace": "shop", "approval": "Manual"},
    ),
    Case(
        "a chart",
        ["--chart=web", "--repository=https://a/b", "--version=~1.2", "--format=helm"],
        {"kind": "chart", "chart": {"repository": "https://a/b", "name": "web", "version": "~1.2"}},
        {"format": "helm"},
    ),
    Case(
        "an account",
        ["--image=q.io/a:1", "-n=shop", "--service-account=deployer"],
        {"kind": "image", "image": {"ref": "q.io/a:1"}},
        {"format": "plain", "installNamespace": "shop", "serviceAccountName": "deployer"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_flags_become_fields(case: Case) -> None:
    made = make_deployment(make_parser("install").read(["shop", *case.words]))
    assert made["metadata"] == {"name": "shop"}
    assert made["spec"] == {**case.spec, "sources": [case.source]}


def test_config_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("values: {replicas: 2}")
    made = make_deployment(make_parser("install").read(["shop", "--image=q.io/a:1", f"--config={path}"]))
    assert made["spec"]["config"] == {"values": {"replicas": 2}}


MISTAKES = {
    "no source": (["shop"], "specify one of --image, --git, --http and --chart"),
    "two sources": (["shop", "--image=a", "--git=b"], "specify one of --image, --git, --http and --chart"),
    "a flag of another source": (["shop", "--image=a", "--ref=main"], "--ref does not apply to --image"),
    "a flag of two other sources": (["shop", "--image=a", "--sha256=b"], "--sha256 does not apply to --image"),
    "a chart without a repository": (["shop", "--chart=web"], "--chart requires --repository"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found_before_a_cluster_is_asked(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, says = MISTAKES[name]
    assert main(["install", *words]) == 2
    assert says in capsys.readouterr().err


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
