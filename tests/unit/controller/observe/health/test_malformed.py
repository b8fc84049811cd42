"""Whatever stands in an object, judging it gives a verdict and never raises."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.controller.observe.health.explain import explain, explain_namespace
from rukpak.controller.observe.health.rules import _RULES, assess, matching
from rukpak.controller.observe.health.verdict import Context, Verdict
from tests.unit.controller.observe.health.objects import Manifest

REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
KINDS = [*_RULES, ("", "Namespace"), ("", "ConfigMap"), ("example.com", "Cache")]

# Keys that rules look for, so that junk stands where they look.
KEYS = st.sampled_from(
    [
        "observedGeneration",
        "generation",
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "availableReplicas",
        "conditions",
        "type",
        "status",
        "reason",
        "message",
        "phase",
        "containerStatuses",
        "initContainerStatuses",
        "state",
        "waiting",
        "terminated",
        "lastState",
        "restartCount",
        "exitCode",
        "ready",
        "loadBalancer",
        "ingress",
        "parents",
        "parentRef",
        "name",
        "annotations",
        "finalizers",
        "deletionTimestamp",
        "paused",
        "suspend",
        "updateStrategy",
        "rollingUpdate",
        "partition",
        "desiredNumberScheduled",
        "progressDeadlineSeconds",
        "storageClassName",
    ]
)
WORDS = st.sampled_from(["True", "False", "Ready", "Stalled", "Available", "Failed", "Pending", "Running", "OnDelete"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | WORDS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
CONDITION = st.dictionaries(st.sampled_from(["type", "status", "reason", "message", "observedGeneration"]), SCALARS)
STATUS = JSON | st.dictionaries(KEYS, JSON) | st.fixed_dictionaries({"conditions": st.lists(CONDITION | JSON)})
CONTEXT = Context(binding_mode=lambda _name: "WaitForFirstConsumer", reports_status=True)
CHECKS = (
    {"group": "example.com", "kind": "Cache", "failed": [{"field": {"path": "status.phase", "in": ["Failed"]}}]},
    {
        "group": "example.com",
        "kind": "Cache",
        "progressing": [{"condition": {"type": "Stalled", "status": "True", "reasons": ["X"]}}],
        "healthy": [{"field": {"path": "status.replicas", "equalsPath": "spec.replicas"}}],
    },
)


@st.composite
def objects(draw: st.DrawFn) -> Manifest:
    group, kind = draw(st.sampled_from(KINDS))
    parts = draw(st.fixed_dictionaries({}, optional={"metadata": STATUS, "spec": STATUS, "status": STATUS}))
    return {"apiVersion": f"{group}/v1".removeprefix("/"), "kind": kind, **parts}


def assert_fits(verdict: Verdict) -> None:
    assert REASON.fullmatch(verdict.reason)
    assert len(verdict.message) <= 300
    assert verdict.message.isprintable()


@settings(deadline=None, database=None)
@given(objects())
def test_no_object_can_make_a_rule_raise(subject: Manifest) -> None:
    assert_fits(assess(subject, CONTEXT))
    assert_fits(assess(subject, Context(checks=matching(CHECKS, subject))))


@settings(deadline=None, database=None)
@given(st.lists(objects(), max_size=3))
def test_no_pod_can_make_its_explanation_raise(pods: list[Manifest]) -> None:
    for verdict in (explain(pods), *map(explain_namespace, pods)):
        if verdict:
            assert_fits(verdict)


@settings(deadline=None, database=None)
@given(JSON, JSON)
def test_what_is_no_object_is_still_judged(api_version: Any, kind: Any) -> None:
    assert_fits(assess({"apiVersion": api_version, "kind": kind}, CONTEXT))
