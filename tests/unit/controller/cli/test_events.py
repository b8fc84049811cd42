"""The log of the pods of the controller, filtered for one BundleDeployment. The kubelet is a fake: no pod runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.cli import main
from tests.support.fake_api import FakeApi, Fault

PODS = "/api/v1/namespaces/rukpak-system/pods"
LINES: list[Any] = [
    {
        "time": "2026-01-01T00:00:02",
        "level": "debug",
        "msg": "pass ended",
        "BundleDeployment": "shop",
        "reconcileID": "1",
    },
    {"time": "2026-01-01T00:00:03", "level": "info", "msg": "applied", "object": "v1/ConfigMap a", "reconcileID": "1"},
    {"time": "2026-01-01T00:00:04", "level": "info", "msg": "applied", "object": "v1/ConfigMap b", "reconcileID": "2"},
    {"time": "2026-01-01T00:00:01", "level": "info", "msg": "leading"},
]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A cluster with one pod of the controller, whose log is above."""
    with FakeApi(PODS) as api:
        api.put(PODS, "rukpak-0", kind="Pod")
        text = "".join(f"{json.dumps(line)}\n" for line in LINES) + "Traceback: no JSON\n"
        monkeypatch.setenv("KUBECONFIG", api.kubeconfig(tmp_path / "kubeconfig"))
        api.texts[f"{PODS}/rukpak-0/log"] = text.encode()
        yield api


def test_lines_of_the_passes_of_one_are_shown_as_text(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "shop"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-01-01T00:00:02 DEBUG   pass ended",
        '2026-01-01T00:00:03 INFO    applied object="v1/ConfigMap a"',
    ]


def test_levels_and_time_can_be_limited_and_the_form_chosen(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "shop", "--level=info", "--since=2m", "-f", "-o", "json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [LINES[1]]
    assert api.received[-1].query == {"sinceSeconds": "120", "follow": "true"}


def test_a_controller_outside_of_the_cluster_is_named(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.delete(PODS, "rukpak-0")
    lease = {"metadata": {"name": "rukpak"}, "spec": {"holderIdentity": "laptop_123"}}
    api.documents["/apis/coordination.k8s.io/v1/namespaces/rukpak-system/leases/rukpak"] = (lease, "")
    assert main(["logs", "shop"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(
        'rukpak logs: no pod of the controller in namespace "rukpak-system"; the controller runs outside'
    )
    assert err.endswith('on "laptop": read its log there\n')


@pytest.mark.parametrize("words", [[], ["-f"]], ids=["once", "followed"])
def test_a_log_that_may_not_be_read_is_one_line(
    words: list[str], api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    del api.texts[f"{PODS}/rukpak-0/log"]
    api.documents[PODS] = ({"metadata": {}, "items": [{"metadata": {"name": "rukpak-0", "uid": "1"}}]}, "")
    assert main(["logs", "shop", *words]) == 1
    assert capsys.readouterr().err == "rukpak logs: 404 NotFound: injected 404\n"


def test_what_the_api_server_says_of_a_kubelet_is_shown(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"kind": "Status", "reason": "InternalError", "message": 'Get "https://10.0.0.1:10250": no route to host'}
    pods = {"kind": "PodList", "metadata": {}, "items": list(api.objects[PODS].values())}
    api.faults += [Fault(200, body=json.dumps(pods).encode()), Fault(500, body=json.dumps(said).encode())]
    assert main(["logs", "shop"]) == 1
    assert "no route to host" in capsys.readouterr().err
