from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api import names
from controller.apply.drift import Path, find_autoscalers, find_ignored_fields, only, united, without
from controller.observe.records import ObjectKey, key_of

REPLICAS = ("spec", "replicas")


def workload(*, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations or {}},
        "spec": {"replicas": 3, **spec},
    }


def rule(*paths: str, **changes: str) -> dict[str, Any]:
    return {"group": "apps", "kind": "Deployment", "paths": list(paths), **changes}


def ignoring(text: str) -> dict[str, Any]:
    return workload(annotations={names.IGNORE_FIELDS: text})


class Case(NamedTuple):
    name: str
    manifest: dict[str, Any]
    rules: list[dict[str, Any]]
    paths: tuple[Path, ...]


CASES = [
    Case("nothing is ignored by default", workload(), [], ()),
    Case("a rule for the kind", workload(), [rule("spec.replicas")], (REPLICAS,)),
    Case("a rule for the object", workload(), [rule("spec.replicas", name="web")], (REPLICAS,)),
    Case("a rule for another object", workload(), [rule("spec.replicas", name="api")], ()),
    Case("a rule for another kind", workload(), [rule("spec.replicas", kind="StatefulSet")], ()),
    Case("a rule for another group", workload(), [rule("spec.replicas", group="")], ()),
    Case("a field that the object does not set", workload(), [rule("spec.paused")], ()),
    Case("the annotation", ignoring("spec.replicas"), [], (REPLICAS,)),
    Case("the annotation and a rule say the same", ignoring("spec.replicas"), [rule("spec.replicas")], (REPLICAS,)),
    Case(
        "several paths, a key that holds a comma among them",
        workload(annotations={names.IGNORE_FIELDS: 'metadata.labels["a,b"], spec.replicas', "x": "y"})
        | {"metadata": {**ignoring('metadata.labels["a,b"], spec.replicas')["metadata"], "labels": {"a,b": "1"}}},
        [],
        (("metadata", "labels", "a,b"), REPLICAS),
    ),
    Case("a field in one that is left already", workload(), [rule("spec", "spec.replicas")], (("spec",),)),
    Case("what says which object it is", workload(), [rule("metadata.name", "kind", "metadata")], ()),
    Case("a field below a scalar", workload(), [rule("spec.replicas.x")], ()),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_fields_are_left_to_others(case: Case) -> None:
    found = find_ignored_fields(case.manifest, case.rules, {})
    assert (found.paths, found.warnings) == (case.paths, ())


def test_a_path_that_is_none_is_told() -> None:
    (warning,) = find_ignored_fields(ignoring("spec..replicas"), [], {}).warnings
    assert warning.startswith(f"Deployment shop/web: annotation {names.IGNORE_FIELDS}: 'spec..replicas' is not a field")


@pytest.mark.parametrize(("text", "accepted"), [("ignore", True), ("Ignore", True), ("repair", False), ("", False)])
def test_an_object_may_have_its_drift_accepted(text: str, accepted: bool) -> None:
    assert find_ignored_fields(workload(annotations={names.DRIFT: text}), [], {}).accepts_drift is accepted


# autoscalers


def autoscaler(**reference: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "auto", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", **reference}},
    }


SCALED_OBJECT = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "auto", "namespace": "shop"},
    "spec": {"scaleTargetRef": {"name": "web"}},
}


@pytest.mark.parametrize("manifest", [autoscaler(), SCALED_OBJECT], ids=["HorizontalPodAutoscaler", "KEDA"])
def test_replicas_that_an_autoscaler_of_the_bundle_sets_are_left_to_it(manifest: dict[str, Any]) -> None:
    found = find_ignored_fields(workload(), [], find_autoscalers([manifest]))
    assert found.paths == (REPLICAS,)
    kind = manifest["kind"]
    assert found.warnings == (
        f"Deployment shop/web: spec.replicas is ignored, since {kind} shop/auto scales it; remove it from the bundle",
    )


@pytest.mark.parametrize("name", ["api", ""])
def test_what_it_does_not_scale_is_not(name: str) -> None:
    assert find_ignored_fields(workload(), [], find_autoscalers([autoscaler(name=name)])).paths == ()


def test_a_rule_says_it_without_a_warning() -> None:
    assert find_ignored_fields(workload(), [rule("spec.replicas")], find_autoscalers([autoscaler()])).warnings == ()


@pytest.mark.parametrize("spec", [{}, {"scaleTargetRef": None}, {"scaleTargetRef": {"name": 5}}, None])
def test_an_autoscaler_of_odd_shape_scales_nothing(spec: Any) -> None:
    assert find_autoscalers([{**autoscaler(), "spec": spec}]) == {}


def test_an_autoscaler_scales_in_its_namespace() -> None:
    assert find_autoscalers([autoscaler()]) == {
        ObjectKey("apps", "Deployment", "shop", "web"): key_of(autoscaler()),
    }


# parts of objects


def test_an_object_comes_apart_and_together_again() -> None:
    manifest = workload(paused=True, strategy={"type": "Recreate"})
    before, paths = copy.deepcopy(manifest), [REPLICAS, ("spec", "strategy", "type")]
    rest, part = without(manifest, paths), only(manifest, paths)
    assert manifest == before
    assert rest["spec"] == {"paused": True}
    assert part == {"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}}
    assert united(rest, part) == manifest


def test_a_map_that_held_nothing_else_goes() -> None:
    assert "spec" not in without(workload(), [REPLICAS])


def test_a_map_that_was_empty_stays() -> None:
    assert without(workload(template={}), [REPLICAS])["spec"] == {"template": {}}
