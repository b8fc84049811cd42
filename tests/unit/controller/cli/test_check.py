"""What `rukpak check` finds out about a cluster, and the remedies that it names."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.schema import crd
from controller.cli.check import CHECKS, POLICIES, REVIEWS, WORKLOADS, check_kubernetes
from controller.cli.installation import DEFINITION, compare_definitions
from controller.kube.lease import LEASES
from controller.kube.resources import DEPLOYMENTS
from tests.support.fake_api import FakeApi

NAMESPACE = "rukpak-system"
LEASE = LEASES.path(NAMESPACE, "rukpak")
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
OWN = version("rukpak")
WORKLOAD = {"spec": {"template": {"spec": {"serviceAccountName": "rukpak"}}}}


def installed() -> dict[str, Any]:
    return {**copy.deepcopy(crd()), "status": ESTABLISHED}


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
    Case("an API that is not established", "API", {DEFINITION: crd()}, "failed", "not established"),
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
    Case("stalled ones", "BundleDeployments",
         {DEFINITION: installed(),
          DEPLOYMENTS.path(): listed({"status": {"conditions": [{"type": "Stalled", "status": "True"}]}})}, "warning",
         'stalled: a0; "rukpak status NAME" says why'),
]
# fmt: on


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        yield api


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_found(case: Case, api: FakeApi) -> None:
    api.documents = {path: (value, "") for path, value in case.documents.items()}
    *_, found = CHECKS[case.subject](api.client(), NAMESPACE)
    assert found.level.value == case.level
    assert case.says in found.text


@pytest.mark.parametrize(
    ("release", "level"), [("v1.36.3", "ok"), ("v1.34.0+k3s1", "ok"), ("v1.33.9", "warning"), ("v2.0.0", "warning")]
)
def test_which_versions_of_kubernetes_are_supported(release: str, level: str, api: FakeApi) -> None:
    discovery = {"/api": {"kind": "APIVersions", "versions": []}, "/apis": {"kind": "APIGroupList", "groups": []}}
    served = {"/version": {"gitVersion": release}, **discovery}
    api.documents = {path: (value, "") for path, value in served.items()}
    assert check_kubernetes(api.client()).level.value == level


def test_how_definitions_differ() -> None:
    newer = installed()
    newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"] = {}
    assert compare_definitions(installed()) == ""
    assert compare_definitions(newer) == "has spec.x, which this release does not know"
    stricter = installed()
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = ["status"]
    assert compare_definitions(stricter) == "validates some fields differently"
