"""Which objects of a revision change hands."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.apply.ownership import Owner
from controller.apply.targets import Target
from controller.cli.adopted_objects import Finding, Standing, assess_for_tool, find_protection
from controller.cli.other_tools import Origin, Tool
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, project

KEY = ObjectKey("", "ConfigMap", "n", "a")
HELM = Origin(tool=Tool.HELM, name="r", namespace="n")
KUBECTL = Origin(tool=Tool.KUBECTL)
OWNER = Owner("shop", "u1")
TARGET = Target(key=KEY, kind=GroupVersionKind("", "v1", "ConfigMap"), digest="", carries_reference=True, manifest={})
RELEASED = {"annotations": {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}}
CONTROLLED = {"ownerReferences": [{"kind": "Shop", "name": "s", "uid": "u9", "controller": True}]}
OURS = {
    "labels": {"core.rukpak.io/bundle-deployment": "shop"},
    "annotations": {"core.rukpak.io/owner-uid": "u1"},
    "ownerReferences": [{"kind": "BundleDeployment", "name": "shop", "uid": "u1", "controller": True}],
}


class Case(NamedTuple):
    name: str
    origin: Origin
    metadata: dict[str, Any]
    standing: Standing
    protection: str = "Prevent"
    problem: str = ""


CASES = [
    Case("an object of the release", HELM, RELEASED, Standing.TAKEN, "None"),
    Case("one without an owner", KUBECTL, {}, Standing.TAKEN, "IfNoController"),
    Case("one without an owner, of which a release has lost its marks", HELM, {}, Standing.TAKEN, "IfNoController"),
    Case("one that is ours", HELM, OURS, Standing.OURS),
    Case("one that was ours", HELM, {"annotations": {"core.rukpak.io/released-from": "shop"}}, Standing.OURS),
    Case(
        "one of a release, which kubectl did not install",
        KUBECTL,
        RELEASED,
        Standing.REFUSED,
        problem='belongs to Helm release "r", not to kubectl',
    ),
    Case(
        "one of a release of that name elsewhere",
        Origin(tool=Tool.HELM, name="r", namespace="other"),
        RELEASED,
        Standing.REFUSED,
        problem='belongs to Helm release "r", not to Helm release other/r',
    ),
    Case(
        "one that another object controls, although the release has marked it",
        HELM,
        {**RELEASED, **CONTROLLED},
        Standing.REFUSED,
        problem='belongs to Shop "s", not to Helm release n/r',
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_becomes_of_an_object(case: Case) -> None:
    metadata = {"name": "a", "namespace": "n", **case.metadata}
    record = project({"metadata": metadata}, "", "ConfigMap")
    found = assess_for_tool(OWNER, case.origin, lambda *_: False)(TARGET, record, metadata)
    assert (found.standing, found.protection, found.problem) == (case.standing, case.protection, case.problem)


PROTECTIONS = [("Prevent", "None", "None"), ("None", "IfNoController", "None"), ("Prevent", "Prevent", "Prevent")]


@pytest.mark.parametrize(("asked", "least", "expected"), PROTECTIONS)
def test_the_least_protection_is_set_that_allows_all(asked: str, least: str, expected: str) -> None:
    found = [Finding(key=KEY, standing=Standing.TAKEN, protection=least), Finding(key=KEY, standing=Standing.CREATED)]
    assert find_protection(found, asked) == expected
