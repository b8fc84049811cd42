"""`rukpak version` compares program, controller and API, and shows what it may read of them; `rukpak crd`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from api.v1alpha2.schema import crd
from controller.build.plugins import format_of
from controller.cli import main
from controller.cli.installation import DEFINITION
from controller.formats.manifests import read_documents
from controller.kube.lease import LEASES
from tests.support.charts import packaged_helm
from tests.support.fake_api import FakeApi, Fault

OWN = version("rukpak")


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A cluster of a known version with nothing installed."""
    with FakeApi() as api:
        monkeypatch.setenv("KUBECONFIG", api.kubeconfig(tmp_path / "kubeconfig"))
        api.documents = {
            "/version": ({"gitVersion": "v1.36.3"}, ""),
            "/api": ({"kind": "APIVersions", "versions": []}, ""),
            "/apis": ({"kind": "APIGroupList", "groups": []}, ""),
        }
        yield api


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.partition(":")[2].strip() for line in capsys.readouterr().out.splitlines()][1:]


def test_nothing_is_installed(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert shown(capsys) == [
        'not running; "rukpak check" says what to do',
        'not installed; run "rukpak crd | kubectl apply --server-side -f -"',
        "v1.36.3",
    ]


@pytest.mark.parametrize(
    ("release", "says"), [(OWN, OWN), ("0.0.9", f'0.0.9 on "node", which is not that of the client ({OWN})')]
)
def test_the_controller_says_its_release(
    release: str, says: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"holderIdentity": "node_1", "leaseDurationSeconds": 30, "renewTime": datetime.now(UTC).isoformat()}
    lease = {"metadata": {"annotations": {"core.rukpak.io/version": release}}, "spec": spec}
    api.documents[LEASES.path("rukpak-system", "rukpak")] = (lease, "")
    api.documents[DEFINITION] = (crd(), "")
    assert main(["version"]) == 0
    controller, definition, _ = shown(capsys)
    assert controller.startswith(says)
    assert definition == "v1alpha2, as in the client"


def test_what_may_not_be_read_does_not_hide_the_rest(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.faults = [Fault(403)]
    assert main(["version", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["client"]["version"] == OWN
    assert found["controller"]["error"].startswith("403 Forbidden")
    assert found["kubernetes"] == {"version": "v1.36.3"}


def test_without_a_cluster_its_own_version_is_told_and_why_the_rest_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeApi() as gone:
        monkeypatch.setenv("KUBECONFIG", gone.kubeconfig(tmp_path / "kubeconfig"))
    why = "unknown: the API server did not answer (NewConnectionError); check the kubeconfig and the network"
    assert main(["version"]) == 0
    assert shown(capsys) == [why] * 3

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    assert main(["version"]) == 0
    assert all(line.startswith("unknown: ") for line in shown(capsys))


def test_a_server_that_does_not_answer_is_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeApi() as gone:
        monkeypatch.setenv("KUBECONFIG", gone.kubeconfig(tmp_path / "kubeconfig"))
    assert main(["status"]) == 1
    assert capsys.readouterr().err == (
        "rukpak status: the API server did not answer (NewConnectionError); check the kubeconfig and the network\n"
    )


@pytest.fixture
def fresh_format() -> None:
    """Forget the Helm that other tests have found."""
    format_of.cache_clear()


@pytest.mark.usefixtures("fresh_format")
def test_the_helm_in_use_is_named(helm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--client", f"--helm={helm}", "--output=json"]) == 0
    found = json.loads(capsys.readouterr().out)["client"]["programs"]["helm"]
    assert found.startswith("v3." if helm == packaged_helm() else "v4.")
    assert main(["version", "--client", f"--helm={helm}"]) == 0
    assert capsys.readouterr().out.endswith(f", helm {found})\n")


def test_without_helm_the_rest_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--client", "--helm=/nonexistent"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Client: ")
    assert "helm" not in said


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_definition_is_the_one_of_config(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", "-o", form]) == 0
    (document,) = read_documents(capsys.readouterr().out.encode(), "crd")
    assert document.value == json.loads(json.dumps(crd()))
