"""Objects on the cluster are written by anybody: whatever they contain, their records, owners and causes are found."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.observe.definitions import make_definition
from rukpak.controller.observe.deployments import dependency_of, find_hindrance, make_seen, needs_pass, party_of
from rukpak.controller.observe.health.explain import explain, explain_namespace, explained, pods_of
from rukpak.controller.observe.health.rules import assess, matching
from rukpak.controller.observe.health.verdict import HEALTHY, Context, Verdict
from rukpak.controller.observe.records import entries_of, entry_of, fields_of, is_scaled, key_of, project
from tests.support.nonsense import DEPLOYMENT, IDENTITY, LIVE, nonsense_in, objects_like

Item = dict[str, Any]
CHECKS = ({"group": "example.com", "kind": "Cache", "failed": [{"field": {"path": "spec.size", "in": ["1"]}}]},)
PODS = [each for each in LIVE if each["kind"] == "Pod"]
NAMESPACES = [each for each in LIVE if each["kind"] == "Namespace"]
DEFINITIONS = [each for each in LIVE if each["kind"] == "CustomResourceDefinition"]
KEPT = {*IDENTITY, ("metadata", "uid"), ("metadata", "resourceVersion")}


def judged(item: Item) -> Verdict:
    return assess(item, Context(checks=matching(CHECKS, item), reports_status=True))


@given(objects_like(*LIVE))
def test_any_object_has_a_record(item: Item) -> None:
    verdict = judged(item)
    record = project(item, item["apiVersion"].rpartition("/")[0], item["kind"], verdict, pods_of(item, verdict))
    assert record.key == key_of(item)
    assert hash(record) == hash(record)
    is_scaled(entries_of(item))
    fields_of(entry_of(item, "rukpak/web"))


@given(st.lists(objects_like(*PODS), max_size=3), objects_like(*NAMESPACES), objects_like(*LIVE))
def test_any_pods_and_namespaces_explain_an_object_or_nothing(pods: list[Item], namespace: Item, item: Item) -> None:
    for explanation in (explain(pods), explain_namespace(namespace)):
        explained(judged(item), explanation or HEALTHY, kind="Job")


@given(objects_like(*DEFINITIONS))
def test_any_definition_is_read(item: Item) -> None:
    assert make_definition(item).name == "web"


@given(nonsense_in(DEPLOYMENT, KEPT))
def test_any_deployment_is_read_or_told_to_be_unreadable(item: Item) -> None:
    seen = make_seen(item)
    needs_pass(seen, make_seen(DEPLOYMENT))
    if deployment := seen.deployment:
        dependency_of(deployment)
        party_of(deployment)
        find_hindrance(deployment)


def test_the_deployment_without_nonsense_can_be_read() -> None:
    deployment = make_seen(DEPLOYMENT).deployment
    assert deployment is not None
    assert (deployment.problem, deployment.status_problem) == ("", "")
