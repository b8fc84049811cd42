from __future__ import annotations

import pytest

from rukpak.controller.observe.health.rules import assess, needs_full_object
from rukpak.controller.observe.health.verdict import Context, State
from tests.unit.controller.observe.health.objects import custom, manifest


@pytest.mark.parametrize(
    ("group", "kind", "full"),
    [
        ("apps", "Deployment", True),
        ("", "Service", True),
        ("", "PersistentVolumeClaim", True),
        ("example.com", "Cache", True),
        ("gateway.networking.k8s.io", "GatewayClass", True),
        ("", "ConfigMap", False),
        ("", "Secret", False),
        ("", "Namespace", False),
        ("rbac.authorization.k8s.io", "ClusterRole", False),
        ("networking.k8s.io", "Ingress", False),
        ("batch", "CronJob", False),
    ],
)
def test_which_kinds_are_watched_in_full(group: str, kind: str, full: bool) -> None:
    assert needs_full_object(group, kind) is full


# As `kubectl api-versions` lists them, and those that are alpha or hold only reviews.
BUILT_IN = """
admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io apps authentication.k8s.io authorization.k8s.io
autoscaling batch certificates.k8s.io coordination.k8s.io discovery.k8s.io events.k8s.io flowcontrol.apiserver.k8s.io
internal.apiserver.k8s.io networking.k8s.io node.k8s.io policy rbac.authorization.k8s.io resource.k8s.io
scheduling.k8s.io storage.k8s.io storagemigration.k8s.io
"""


@pytest.mark.parametrize("group", ["", *BUILT_IN.split()])
def test_a_built_in_kind_without_a_rule_is_healthy_by_existence(group: str) -> None:
    given = manifest(f"{group}/v1 Thing".removeprefix("/"))

    assert not needs_full_object(group, "Thing")
    assert assess(given, Context(reports_status=True)).state is State.HEALTHY


def test_a_check_that_looks_into_a_kind_needs_it_in_full() -> None:
    looking = {
        "group": "networking.k8s.io",
        "kind": "Ingress",
        "healthy": [{"field": {"path": "status.x", "in": ["1"]}}],
    }
    always = {"kind": "ConfigMap", "always": "Healthy"}

    assert needs_full_object("networking.k8s.io", "Ingress", [looking])
    assert not needs_full_object("", "ConfigMap", [looking, always])


def test_the_version_of_a_kind_does_not_matter() -> None:
    crd = manifest("apiextensions.k8s.io/v1beta9 CustomResourceDefinition", status={"conditions": []})

    assert assess(crd, Context()).reason == "Installing"


def test_a_kind_of_the_same_name_in_another_group_has_no_rule() -> None:
    assert assess(manifest("example.com/v1 Deployment"), Context()).state is State.HEALTHY


def test_what_is_being_deleted_says_whose_finalizers_it_waits_for() -> None:
    deleted = custom(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/a", "example.com/b"])

    verdict = assess(deleted, Context())

    assert (verdict.reason, verdict.message) == ("Terminating", "finalizers: example.com/a, example.com/b")


def test_a_stalled_object_gives_its_own_reason_and_message() -> None:
    verdict = assess(custom("Stalled=True/BadSpec/no such zone"), Context())

    assert (verdict.state, verdict.reason, verdict.message) == (State.FAILED, "BadSpec", "no such zone")


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("Ready=False/not a reason!", "NotReady"),
        ("Ready=Unknown", "NotReady"),
        ("Stalled=True", "Stalled"),
        ("Reconciling=True", "Reconciling"),
    ],
)
def test_a_reason_that_is_none_is_replaced(condition: str, reason: str) -> None:
    assert assess(custom(condition), Context()).reason == reason


def test_of_two_conditions_of_a_type_the_first_counts() -> None:
    assert assess(custom("Ready=True", "Ready=False"), Context()).state is State.HEALTHY


def test_a_stalled_that_is_for_another_generation_does_not_count() -> None:
    stalled = {"type": "Stalled", "status": "True", "observedGeneration": 1}
    given = manifest("example.com/v1 Cache", status={"conditions": [stalled]}, generation=2)

    assert assess(given, Context()).state is State.HEALTHY


@pytest.mark.parametrize(
    "status",
    [{"observedGeneration": 3}, {"conditions": [{"type": "Synced", "status": "False"}]}],
    ids=["a generation", "any condition"],
)
def test_a_custom_resource_that_reports_anything_is_believed(status: dict[str, object]) -> None:
    given = manifest("example.com/v1 Cache", status=status, generation=3)

    assert assess(given, Context(reports_status=True)).state is State.HEALTHY


def test_an_unreported_status_has_no_deadline_and_names_the_remedy() -> None:
    verdict = assess(manifest("example.com/v1 Cache", status={}), Context(reports_status=True))

    assert not verdict.deadline
    assert "spec.healthChecks" in verdict.text


def test_without_a_schema_nothing_is_doubted() -> None:
    assert assess(manifest("example.com/v1 Cache"), Context(reports_status=None)).state is State.HEALTHY
