"""`rukpak health`: objects in a file or on the cluster, judged by the rules or by expressions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.cli import health, main
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.health.expressions import MISSING
from tests.support.fake_cluster import WORKLOADS, FakeCluster

CACHE: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Cache",
    "metadata": {"name": "c", "namespace": "shop"},
    "status": {"phase": "Up", "conditions": [{"type": "Ready", "status": "False", "reason": "Starting"}]},
}
UP, DOWN = "status.phase == 'Up'", "self.status.phase == 'Down'"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cache.yaml"
    path.write_text(json.dumps(CACHE))
    return str(path)


CASES = [
    ([], 1, "Progressing Starting"),
    (["--expr", UP], 0, "Healthy Healthy"),
    (["--expr", DOWN], 1, "Progressing HealthCheckNotMet"),
    (["--failed", UP, "--expr", UP], 1, "Failed HealthCheckFailed"),
    (["--in-progress", UP, "--failed", UP], 1, "Progressing HealthCheckProgressing"),
    (["--expr", "status.gone"], 1, "Progressing HealthCheckNotMet"),
]


@pytest.mark.parametrize(("flags", "status", "judged"), CASES)
def test_an_object_in_a_file_is_judged(
    file: str, capsys: pytest.CaptureFixture[str], flags: list[str], status: int, judged: str
) -> None:
    assert main(["health", "-f", file, *flags, "-o", "json"]) == status
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["object"], f"{found['health']} {found['reason']}") == ("Cache shop/c", judged)


def test_a_wrong_expression_is_misuse_and_told_with_its_place(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "-f", file, "--in-progress", "statu.phase"]) == 2
    assert "--in-progress: line 1, column 6: undeclared reference to 'statu.phase'" in capsys.readouterr().err


def test_without_the_extra_it_is_told_that_expressions_were_not_checked(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    assert main(["health", "-f", file, "--expr", "statu.phase"]) == 1
    printed = capsys.readouterr()
    assert printed.err == f"warning: not checked: {MISSING}\n"
    assert MISSING in printed.out
    assert main(["health", "-f", file]) == 1  # the rules need no extra
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [[], ["a/b", "-f", "c"], ["web"]])
def test_misuse_is_told(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "connect", lambda _options: FakeCluster().client)
    assert main(["health", *arguments]) == 2


def test_what_is_no_object_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("---\nreplicas: 3\n")
    assert main(["health", "-f", str(path)]) == 2
    assert "values.yaml:2: not an object" in capsys.readouterr().err


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster(WORKLOADS)
    monkeypatch.setattr(health, "connect", lambda _options: made.client)
    monkeypatch.setattr(health, "Discovery", lambda _client: made.discovery)
    metadata = {"name": "web", "namespace": "shop", "generation": 1}
    made.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1}})
    return made


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("kind", ["deployment", "Deployment", "deployments", "deployments.apps"])
def test_an_object_on_the_cluster_is_found_as_kubectl_finds_it(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", f"{kind}/web", "-n", "shop"]) == 1
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == [
        "Deployment", "shop/web", "Progressing", "NoObservedGeneration"
    ]  # fmt: skip


def test_a_workload_on_the_cluster_is_judged_with_its_pods(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = Resource("", "v1", "Pod", "pods", namespaced=True, verbs=frozenset({"list"}))
    cluster.served.append(pods)
    labels = {"app": "web"}
    metadata = {"name": "web", "namespace": "shop", "generation": 1}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    cluster.put({**web, "status": {"observedGeneration": 1}})
    ended = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"containerStatuses": [{"name": "c", "restartCount": 5, "state": ended}]}
    about = {"name": "web-1", "namespace": "shop", "labels": labels}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": about, "status": status})
    assert main(["health", "deployment/web", "-n", "shop"]) == 1
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == [
        "Deployment", "shop/web", "Failed", "CrashLoopBackOff"
    ]  # fmt: skip


@pytest.mark.usefixtures("cluster")
def test_what_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "deployment/gone", "-n", "shop"]) == 1
    assert 'Deployment "gone" not found in namespace "shop"' in capsys.readouterr().err
    assert main(["health", "gadget/web"]) == 1
    assert 'the cluster does not serve "gadget"' in capsys.readouterr().err
