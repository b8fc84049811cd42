"""`rukpak push` where it is not clear which source a folder replaces, over a cluster in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.cli import main
from tests.support.deployments import REF, observed
from tests.support.fake_cluster import FakeCluster

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


MISTAKES = {
    "several": Mistake([LOCAL, LOCAL], (), "several sources are of kind configMap; say with --source which one"),
    "none": Mistake([IMAGE], (), "no source is of kind configMap; say with --source which one to replace"),
    "one too many": Mistake([LOCAL], ("--source=1",), "--source: there are only the sources 0 to 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_and_nothing_is_written(
    name: str, folder: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    case = MISTAKES[name]
    put(cluster, *case.sources)
    before = dict(cluster.objects)
    assert main(["push", folder, "shop", *case.words]) == 2
    assert case.said in capsys.readouterr().err
    assert cluster.objects == before
