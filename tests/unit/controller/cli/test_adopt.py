"""Which objects of another BundleDeployment change hands."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Owner
from controller.apply.targets import Target
from controller.cli.adopt import _read, name_giver
from controller.cli.adopted_objects import Standing, assess_for_giver
from controller.cli.command import FailedError
from controller.cli.deployments import Deployments
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, project
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
        problem="already exists; delete it, or set spec.collisionProtection to IfNoController to adopt it",
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
