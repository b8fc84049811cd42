"""Which objects of another BundleDeployment change hands.

Which objects of a revision change hands.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.apply.targets import Target
from rukpak.controller.cli.adopt import (
    Finding,
    Standing,
    _read,
    assess_for_giver,
    assess_for_tool,
    find_protection,
    name_giver,
)
from rukpak.controller.cli.other_tools import Origin, Tool
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.records import project
from rukpak.controller.views import FailedError
from rukpak.controller.views.access import Deployments
from tests.support.fake_cluster import FakeCluster

KEY = ObjectKey("", "ConfigMap", "n", "a")
TARGET = Target(key=KEY, kind=GroupVersionKind("", "v1", "ConfigMap"), digest="", carries_reference=True, manifest={})

BELONGS = (
    'already exists and belongs to BundleDeployment "{0}"; remove it from one of the two bundles, or hand it over: '
    "pause {0} and name it in spec.takeOver"
)


def owned(name: str, uid: str) -> dict[str, Any]:
    return {
        "labels": {"core.rukpak.io/bundle-deployment": name},
        "annotations": {"core.rukpak.io/owner-uid": uid},
        "ownerReferences": [
            {
                "apiVersion": "core.rukpak.io/v1alpha2",
                "kind": "BundleDeployment",
                "name": name,
                "uid": uid,
                "controller": True,
            }
        ],
    }


class Case(NamedTuple):
    name: str
    metadata: dict[str, Any]
    standing: Standing
    protection: str = "Prevent"
    problem: str = ""


CASES = [
    Case("an object of the giver", owned("v1", "u1"), Standing.TAKEN),
    Case("one that has been taken over", owned("v2", "u2"), Standing.OURS),
    Case(
        "one of a third",
        owned("v0", "u0"),
        Standing.REFUSED,
        problem=BELONGS.format("v0"),
    ),
    Case(
        "one of an earlier BundleDeployment with the name of the giver",
        owned("v1", "u9"),
        Standing.REFUSED,
        problem=BELONGS.format("v1"),
    ),
    Case(
        "one without an owner",
        {},
        Standing.REFUSED,
        problem="already exists; set spec.collisionProtection to IfNoController to adopt it, or delete it",
    ),
    Case("one without an owner that may be adopted", {}, Standing.ADOPTED, "IfNoController"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_becomes_of_an_object(case: Case) -> None:
    metadata = {"name": "a", "namespace": "n", **case.metadata}
    record = project({"metadata": metadata}, "", "ConfigMap")
    assess = assess_for_giver(Owner("v2", "u2"), Owner("v1", "u1"), case.protection, lambda *_: True)
    found = assess(TARGET, record, metadata)
    assert (found.standing, found.problem) == (case.standing, case.problem)


@pytest.mark.parametrize("named", [[], ["v1"], ["v0"]])
def test_the_giver_is_named_once_beside_others(named: list[str]) -> None:
    spec = {"format": "plain", "sources": [{"kind": "image", "image": {"ref": "a"}}]}
    value = {"metadata": {"name": "v2"}, "spec": {**spec, "takeOver": [{"name": each} for each in named]}}
    made = BundleDeployment.model_validate(name_giver(value, "v1"))
    assert {each.name for each in made.spec.take_over} == {*named, "v1"}
    assert len(made.spec.take_over) == len({*named, "v1"})


def test_a_tool_without_a_name_is_no_giver() -> None:
    deployments = Deployments(FakeCluster().client)
    with pytest.raises(FailedError, match=r'"helm" not found; .* --from helm/RELEASE'):
        _read(deployments, "helm")


HELM = Origin(tool=Tool.HELM, name="r", namespace="n")
KUBECTL = Origin(tool=Tool.KUBECTL)
OWNER = Owner("shop", "u1")
RELEASED = {"annotations": {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}}
CONTROLLED = {"ownerReferences": [{"kind": "Shop", "name": "s", "uid": "u9", "controller": True}]}
OURS = {
    "labels": {"core.rukpak.io/bundle-deployment": "shop"},
    "annotations": {"core.rukpak.io/owner-uid": "u1"},
    "ownerReferences": [{"kind": "BundleDeployment", "name": "shop", "uid": "u1", "controller": True}],
}


class ToolCase(NamedTuple):
    name: str
    origin: Origin
    metadata: dict[str, Any]
    standing: Standing
    protection: str = "Prevent"
    problem: str = ""


TOOL_CASES = [
    ToolCase("an object of the release", HELM, RELEASED, Standing.TAKEN, "None"),
    ToolCase("one without an owner", KUBECTL, {}, Standing.TAKEN, "IfNoController"),
    ToolCase("one without an owner, of which a release has lost its marks", HELM, {}, Standing.TAKEN, "IfNoController"),
    ToolCase("one that is ours", HELM, OURS, Standing.OURS),
    ToolCase("one that was ours", HELM, {"annotations": {"core.rukpak.io/released-from": "shop"}}, Standing.OURS),
    ToolCase(
        "one of a release, which kubectl did not install",
        KUBECTL,
        RELEASED,
        Standing.REFUSED,
        problem='belongs to Helm release "r", not to kubectl',
    ),
    ToolCase(
        "one of a release of that name elsewhere",
        Origin(tool=Tool.HELM, name="r", namespace="other"),
        RELEASED,
        Standing.REFUSED,
        problem='belongs to Helm release "r", not to Helm release other/r',
    ),
    ToolCase(
        "one that another object controls, although the release has marked it",
        HELM,
        {**RELEASED, **CONTROLLED},
        Standing.REFUSED,
        problem='belongs to Shop "s", not to Helm release n/r',
    ),
]


@pytest.mark.parametrize("case", TOOL_CASES, ids=attrgetter("name"))
def test_what_becomes_of_an_object_of_a_tool(case: ToolCase) -> None:
    metadata = {"name": "a", "namespace": "n", **case.metadata}
    record = project({"metadata": metadata}, "", "ConfigMap")
    found = assess_for_tool(OWNER, case.origin, lambda *_: False)(TARGET, record, metadata)
    assert (found.standing, found.protection, found.problem) == (case.standing, case.protection, case.problem)


PROTECTIONS = [("Prevent", "None", "None"), ("None", "IfNoController", "None"), ("Prevent", "Prevent", "Prevent")]


@pytest.mark.parametrize(("asked", "least", "expected"), PROTECTIONS)
def test_the_least_protection_is_set_that_allows_all(asked: str, least: str, expected: str) -> None:
    found = [Finding(key=KEY, standing=Standing.TAKEN, protection=least), Finding(key=KEY, standing=Standing.CREATED)]
    assert find_protection(found, asked) == expected
