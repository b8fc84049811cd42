"""`rukpak version` compares program, controller and API, and shows what it may read of them; `rukpak crd`.

What `rukpak check` finds out about a cluster, and the remedies that it names.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.proxies import VARIABLES
from rukpak.api.v1alpha2.schema import crd
from rukpak.controller.building import entry_points
from rukpak.controller.cli import main
from rukpak.controller.cli.installation import (
    CHECKS,
    DEFINITION,
    POLICIES,
    REVIEWS,
    WORKLOADS,
    Level,
    check_kubernetes,
    check_machine,
    compare_definitions,
)
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.kube.lease import LEASES
from rukpak.controller.kube.resources import DEPLOYMENTS
from tests.support.charts import packaged_helm
from tests.support.fake_api import FakeApi, Fault
from tests.support.installed_plugins import install_plugins

OWN = version("rukpak")
CRD = crd()


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
    api.documents[DEFINITION] = (CRD, "")
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
    entry_points._LOADED.clear()


@pytest.mark.usefixtures("fresh_format")
def test_the_helm_in_use_is_named(helm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--client", f"--helm={helm}", "--output=json"]) == 0
    found = json.loads(capsys.readouterr().out)["client"]["programs"]["helm"]
    assert found.startswith("v3." if helm == packaged_helm() else "v4.")
    assert main(["version", "--client", f"--helm={helm}"]) == 0
    assert capsys.readouterr().out.endswith(f", helm {found})\n")


def test_plug_ins_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["TYPE", "NAME", "PACKAGE", "API", "STATUS"]
    assert ["format", "helm", "rukpak", "0.1.0", "1", "ok"] in lines
    assert len(lines) == 1 + 5 + 3 + 4, "sources, formats and processors"


def test_a_plug_in_that_is_refused_is_listed_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    factory = type("Nothing", (), {})
    install_plugins(monkeypatch, {(entry_points.FORMATS, "acme.example/a"): factory}, api=["2"])
    assert main(["plugins", "-o", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["pluginAPI"] == "1"
    assert shown["items"][-1] == {
        "type": "format", "name": "acme.example/a", "package": "acme-plugins", "version": "1.2", "pluginAPI": ["2"],
        "builtin": False,
        "problem": "was written for version 2 of the contract, and this RukPak has 1; upgrade either",
    }  # fmt: skip


def test_without_helm_the_rest_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--client", "--helm=/nonexistent"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Client: ")
    assert "helm" not in said


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_definition_is_the_one_of_config(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", "-o", form]) == 0
    (document,) = read_documents(capsys.readouterr().out.encode(), "crd")
    assert document.value == json.loads(json.dumps(CRD))


NAMESPACE = "rukpak-system"
PROXY = f"/api/v1/namespaces/{NAMESPACE}/secrets/rukpak-proxy"
LEASE = LEASES.path(NAMESPACE, "rukpak")
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
WORKLOAD = {"spec": {"template": {"spec": {"serviceAccountName": "rukpak"}}}}


def installed() -> dict[str, Any]:
    return {**copy.deepcopy(CRD), "status": ESTABLISHED}


def older() -> dict[str, Any]:
    value = installed()
    del value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["prune"]
    return value


def lease(*, seconds: float = 0, release: str = OWN) -> dict[str, Any]:
    renewed = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
    spec = {"holderIdentity": "node-1_abc", "leaseDurationSeconds": 3600, "renewTime": renewed}
    return {"metadata": {"annotations": {"core.rukpak.io/version": release}}, "spec": spec}


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    values = [{**item, "metadata": {"name": f"a{n}", "uid": str(n)}} for n, item in enumerate(items)]
    return {"metadata": {}, "items": values}


def secret(**values: str) -> dict[str, Any]:
    return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}}


class Case(NamedTuple):
    name: str
    subject: str
    documents: dict[str, Any]
    level: str
    says: str


# fmt: off
CASES = [
    Case("no API", "API", {}, "failed", 'CustomResourceDefinition not installed; run "rukpak crd | kubectl apply'),
    Case("the API", "API", {DEFINITION: installed()}, "ok", f"CustomResourceDefinition of release {OWN}"),
    Case("an older API", "API", {DEFINITION: older()}, "warning", "of another release: lacks spec.prune; run"),
    Case("an API that is not established", "API", {DEFINITION: CRD}, "failed", "not established"),
    Case("no controller", "controller", {}, "failed", 'Lease "rukpak-system/rukpak": no controller holds it; run'),
    Case("a controller", "controller", {LEASE: lease()}, "ok", f'release {OWN} on "node-1"'),
    Case("a controller that stopped", "controller", {LEASE: lease(seconds=36000)}, "failed",
         '"node-1" stopped renewing it'),
    Case("an older controller", "controller", {LEASE: lease(release="0.0.9")}, "warning",
         f"release 0.0.9, but this program is {OWN}"),
    Case("one that does not say its release", "controller", {LEASE: lease(release="")}, "ok", "release unknown"),
    Case("the clock", "clock", {"/version": {"gitVersion": "v1.36.3"}}, "ok", "same time"),
    Case("a controller outside of the cluster", "permissions", {WORKLOADS.path(NAMESPACE): listed()}, "ok",
         "it has those of its user"),
    Case("all rights", "permissions",
         {WORKLOADS.path(NAMESPACE): listed(WORKLOAD), REVIEWS: {"status": {"allowed": True}}}, "ok",
         "ServiceAccount rukpak-system/rukpak has those"),
    Case("no rights", "permissions",
         {WORKLOADS.path(NAMESPACE): listed(WORKLOAD), REVIEWS: {"status": {"allowed": False}}}, "failed",
         "lacks: list bundledeployments.core.rukpak.io, "),
    Case("no policies", "policies", {POLICIES.path(): listed()}, "warning", "none: whoever can write"),
    Case("policies", "policies", {POLICIES.path(): listed({})}, "ok", "a0"),
    Case("a proxy", "proxy", {PROXY: secret(HTTPS_PROXY="http://robot:canary@proxy.example:3128")}, "ok",
         'Secret "rukpak-system/rukpak-proxy": sources over https are read through proxy.example:3128'),
    Case("a proxy that cannot be used", "proxy", {PROXY: secret(HTTPS_PROXY="socks5h://robot:canary@proxy.example")},
         "failed", 'HTTPS_PROXY: a proxy of type "socks5h" is not supported; use an http proxy'),
    Case("stalled ones", "BundleDeployments",
         {DEFINITION: installed(),
          DEPLOYMENTS.path(): listed({"status": {"conditions": [{"type": "Stalled", "status": "True"}]}})}, "warning",
         'stalled: a0; "rukpak status a0" says why'),
]
# fmt: on


@pytest.fixture
def served_api() -> Iterator[FakeApi]:
    with FakeApi() as served_api:
        yield served_api


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_found(case: Case, served_api: FakeApi) -> None:
    served_api.documents = {path: (value, "") for path, value in case.documents.items()}
    *_, found = CHECKS[case.subject](served_api.client(), NAMESPACE)
    assert found.level.value == case.level
    assert case.says in found.text
    assert "canary" not in found.text


@pytest.mark.parametrize("faults", [[], [Fault(403)]], ids=["none", "forbidden"])
def test_without_a_proxy_nothing_is_said_of_it(faults: list[Fault], served_api: FakeApi) -> None:
    served_api.faults = faults
    assert [*CHECKS["proxy"](served_api.client(), NAMESPACE)] == []


def test_the_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert "proxy" not in dict(check_machine(""))
    monkeypatch.setenv("https_proxy", "http://robot:canary@proxy.example:3128")
    assert dict(check_machine(""))["proxy"] == (Level.OK, "sources over https are read through proxy.example:3128")
    monkeypatch.setenv("https_proxy", "socks5h://robot:canary@proxy.example:1080")
    level, text = dict(check_machine(""))["proxy"]
    assert (level, text.partition(";")[0]) == (
        Level.WARNING,
        'HTTPS_PROXY: a proxy of type "socks5h" is not supported',
    )


@pytest.mark.parametrize(
    ("release", "level"), [("v1.36.3", "ok"), ("v1.34.0+k3s1", "ok"), ("v1.33.9", "warning"), ("v2.0.0", "warning")]
)
def test_which_versions_of_kubernetes_are_supported(release: str, level: str, served_api: FakeApi) -> None:
    discovery = {"/api": {"kind": "APIVersions", "versions": []}, "/apis": {"kind": "APIGroupList", "groups": []}}
    served = {"/version": {"gitVersion": release}, **discovery}
    served_api.documents = {path: (value, "") for path, value in served.items()}
    assert check_kubernetes(served_api.client()).level.value == level


def test_how_definitions_differ() -> None:
    newer = installed()
    newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"] = {}
    assert compare_definitions(installed()) == ""
    assert compare_definitions(newer) == "has spec.x, which this release does not know"
    stricter = installed()
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = ["status"]
    assert compare_definitions(stricter) == "validates some fields differently"


def test_check_tells_the_cluster_from_this_machine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kubeconfig = f"--kubeconfig={tmp_path / 'none'}"
    assert main(["check", kubeconfig]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert main(["check", kubeconfig, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    checked = {where: [each["check"] for each in checks] for where, checks in found.items()}
    assert checked == {"cluster": ["API server"], "machine": ["helm", "git", "confinement"]}
    assert set(found["cluster"][0]) == {"check", "level", "message"}
    headings = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    assert [lines[number] for number in headings] == [
        "The cluster:",
        "This machine, for rukpak run and rukpak render:",
    ]
    assert [line.split()[1] for line in lines[headings[1] + 1 :]] == checked["machine"]
