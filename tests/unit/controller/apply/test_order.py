"""In which order kinds are applied, and objects deleted with their BundleDeployment."""

from __future__ import annotations

import random
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.apply.order import (
    Stage,
    Teardown,
    describe_awaited,
    effective_waves,
    is_custom,
    last_wave,
    plan_teardown,
    position_of,
    teardown_order,
)
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import Record, key_of

STAGES = {
    Stage.DEFINITIONS: [
        "v1/Namespace",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        "storage.k8s.io/v1/StorageClass",
        "networking.k8s.io/v1/IngressClass",
        "scheduling.k8s.io/v1/PriorityClass",
        "node.k8s.io/v1/RuntimeClass",
        "gateway.networking.k8s.io/v1/GatewayClass",
        "snapshot.storage.k8s.io/v1/VolumeSnapshotClass",
    ],
    Stage.PREREQUISITES: [
        "v1/ResourceQuota",
        "v1/LimitRange",
        "v1/ServiceAccount",
        "rbac.authorization.k8s.io/v1/Role",
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
        "v1/ConfigMap",
        "v1/Secret",
        "v1/PersistentVolumeClaim",
        "v1/Service",
        "networking.k8s.io/v1/NetworkPolicy",
        "cert-manager.io/v1/Certificate",
    ],
    Stage.WORKLOADS: [
        "apps/v1/Deployment",
        "batch/v1/Job",
        "v1/Pod",
        "networking.k8s.io/v1/Ingress",
        "autoscaling/v2/HorizontalPodAutoscaler",
        "example.com/v1/Cache",
        "example.com/v1/Namespace",
    ],
    Stage.GATES: [
        "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration",
        "apiregistration.k8s.io/v1/APIService",
    ],
}


def _manifest(kind: str, name: str = "a") -> dict[str, Any]:
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


@pytest.mark.parametrize(("stage", "kind"), [(stage, kind) for stage, kinds in STAGES.items() for kind in kinds])
def test_the_stage_of_a_kind(stage: Stage, kind: str) -> None:
    assert position_of(key_of(_manifest(kind))).stage is stage


# As it is to be applied, one object a step.
ORDER = [
    "v1/Namespace",
    "apiextensions.k8s.io/v1/CustomResourceDefinition",
    "gateway.networking.k8s.io/v1/GatewayClass",
    "v1/ResourceQuota",
    "v1/ServiceAccount",
    "rbac.authorization.k8s.io/v1/Role",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    "v1/ConfigMap",
    "apps/v1/Deployment",
    "apiregistration.k8s.io/v1/APIService",
]


def test_objects_are_applied_step_by_step() -> None:
    steps = [position_of(key_of(_manifest(kind))) for kind in ORDER]
    assert steps == sorted(set(steps))


# In deletion: what serves custom resources outlives them.
TEARDOWN = [
    "gateway.networking.k8s.io/v1/Gateway",
    "cert-manager.io/v1/Certificate",
    "gateway.networking.k8s.io/v1/GatewayClass",
    "apiregistration.k8s.io/v1/APIService",
    "apps/v1/Deployment",
    "v1/ConfigMap",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    "rbac.authorization.k8s.io/v1/Role",
    "v1/ServiceAccount",
    "storage.k8s.io/v1/StorageClass",
    "apiextensions.k8s.io/v1/CustomResourceDefinition",
    "v1/Namespace",
]


def test_objects_are_taken_away_in_reverse_custom_resources_first() -> None:
    keys = [key_of(_manifest(kind)) for kind in TEARDOWN]
    shuffled = random.Random(7).sample(keys, len(keys))
    assert [record.key for record in teardown_order(Record(key=key) for key in shuffled)] == keys


def test_inside_a_step_the_last_one_applied_goes_first() -> None:
    manifests = [_manifest("v1/Secret", "z"), _manifest("v1/ConfigMap", "m"), _manifest("v1/Secret", "a")]
    records = [Record(key=key_of(manifest)) for manifest in manifests]
    assert teardown_order(iter(records)) == records[::-1]


@pytest.mark.parametrize(
    ("group", "custom"),
    [
        ("", False),
        ("apps", False),
        ("networking.k8s.io", False),
        ("gateway.networking.k8s.io", True),
        ("example.com", True),
    ],
)
def test_which_groups_are_custom(group: str, custom: bool) -> None:
    assert is_custom(ObjectKey(group, "Thing", "", "a")) is custom


OWNER = Owner("foo", "uid-foo")
WITHOUT_REFERENCE = {("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")}


def ours(group: str, kind: str, name: str, *, deleting: bool = False, finalizers: tuple[str, ...] = ()) -> Record:
    of_cluster = (group, kind) in WITHOUT_REFERENCE
    return Record(
        key=ObjectKey(group, kind, "" if of_cluster else "shop", name),
        owner="foo",
        owner_uid="uid-foo",
        controller_uid="" if of_cluster else "uid-foo",
        deleting=deleting,
        finalizers=finalizers,
    )


WIDGET = ours("example.com", "Widget", "w")
WORKLOAD = ours("apps", "Deployment", "operator")
CONFIG = ours("", "ConfigMap", "c")
DEFINITION = ours("apiextensions.k8s.io", "CustomResourceDefinition", "widgets.example.com")
NAMESPACE = ours("", "Namespace", "shop")
GOING = replace(WIDGET, deleting=True, finalizers=("example.com/hold",))


def teardown(*records: Record, orphan: bool = False) -> Teardown:
    return plan_teardown({record.key: record for record in records}, replace(OWNER, orphan=orphan))


class Case(NamedTuple):
    name: str
    records: tuple[Record, ...]
    now: tuple[Record, ...]
    awaited: tuple[Record, ...] = ()


# fmt: off
TIERS = [
    Case("custom resources go first, while their operator still runs",
         (NAMESPACE, DEFINITION, WORKLOAD, CONFIG, WIDGET), (WIDGET,)),
    Case("while one of them goes nothing else does", (WORKLOAD, DEFINITION, GOING), (), (GOING,)),
    Case("then everything else together", (NAMESPACE, DEFINITION, WORKLOAD, CONFIG), (WORKLOAD, CONFIG)),
    Case("then what defines kinds", (NAMESPACE, DEFINITION), (DEFINITION,)),
    Case("Namespaces go last", (NAMESPACE,), (NAMESPACE,)),
    Case("a custom kind that is called Namespace is a custom resource",
         (NAMESPACE, ours("example.com", "Namespace", "x")), (ours("example.com", "Namespace", "x"),)),
    Case("nothing is left", (), ()),
]
# fmt: on


@pytest.mark.parametrize("case", TIERS, ids=attrgetter("name"))
def test_what_goes_now(case: Case) -> None:
    made = teardown(*case.records)
    assert (set(made.now), set(made.awaited)) == (set(case.now), set(case.awaited))
    assert set(made.remaining) == set(case.records)


def test_what_never_had_a_reference_is_released_before_what_shows_that_it_was_stripped() -> None:
    assert set(teardown(NAMESPACE, DEFINITION, WORKLOAD, WIDGET, orphan=True).now) == {NAMESPACE, DEFINITION}
    assert set(teardown(WORKLOAD, WIDGET, orphan=True).now) == {WORKLOAD, WIDGET}


def test_a_deletion_that_stripped_the_references_leaves_ours_to_be_released() -> None:
    stripped = replace(WORKLOAD, controller_uid="")
    assert teardown(stripped, orphan=True).now == (stripped,)
    assert not teardown(stripped).remaining


FOREIGN = [
    pytest.param(replace(CONFIG, owner_uid="", controller_uid="rs"), id="a child that copied our label"),
    pytest.param(replace(CONFIG, owner_uid="uid-before"), id="an object of one that had our name before"),
    pytest.param(replace(CONFIG, controller_uid="rs"), id="an object that another controls"),
]


@pytest.mark.parametrize("record", FOREIGN)
def test_what_is_not_ours_is_left_alone(record: Record) -> None:
    assert not teardown(record).remaining


PROTECTED = ours("", "PersistentVolumeClaim", "data", deleting=True, finalizers=("kubernetes.io/pvc-protection",))
HELD = [
    pytest.param(GOING, "", "Widget shop/w (finalizer example.com/hold)", id="a finalizer"),
    pytest.param(replace(GOING, finalizers=("a", "b")), "", "Widget shop/w (finalizer a, b)", id="two finalizers"),
    pytest.param(
        PROTECTED,
        "",
        "PersistentVolumeClaim shop/data (finalizer kubernetes.io/pvc-protection: a pod still uses it)",
        id="a finalizer of Kubernetes",
    ),
    pytest.param(
        replace(WORKLOAD, finalizers=("foregroundDeletion",)),
        "",
        "Deployment shop/operator (finalizer foregroundDeletion: the objects that it owns still exist)",
        id="an owner",
    ),
    pytest.param(NAMESPACE, "", "Namespace shop (its content is being deleted)", id="a Namespace"),
    pytest.param(NAMESPACE, "Remaining: pods", "Namespace shop (Remaining: pods)", id="an explained Namespace"),
    pytest.param(ours("", "Pod", "a"), "", "Pod shop/a (its containers are being stopped)", id="a pod"),
    pytest.param(
        CONFIG, "", "ConfigMap shop/c (no finalizer; the API server has not removed it yet)", id="only the API server"
    ),
]


@pytest.mark.parametrize(("record", "explanation", "text"), HELD)
def test_what_holds_a_deletion_is_named(record: Record, explanation: str, text: str) -> None:
    assert describe_awaited(record, explanation) == text


# waves

SHOP = ObjectKey("", "Namespace", "", "shop")
FOOS = ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", "foos.example.com")
MAP, FOO = ObjectKey("", "ConfigMap", "shop", "a"), ObjectKey("example.com", "Foo", "shop", "foo")
OTHER, NODE = ObjectKey("", "ConfigMap", "other", "a"), ObjectKey("", "Node", "", "shop")


class Waves(NamedTuple):
    name: str
    written: dict[ObjectKey, int]
    effective: dict[ObjectKey, int]


WAVES = [
    Waves("one wave", {MAP: 3, FOO: 3, SHOP: 3}, {MAP: 3, FOO: 3, SHOP: 3}),
    Waves("as it is written", {MAP: 2, FOO: -1}, {MAP: 2, FOO: -1}),
    Waves("a namespace before its content", {SHOP: 0, MAP: 1}, {SHOP: 0, MAP: 1}),
    Waves("a namespace with its first content", {SHOP: 5, MAP: 1, FOO: 2}, {SHOP: 1, MAP: 1, FOO: 2}),
    Waves("whatever is in others", {SHOP: 5, OTHER: 1}, {SHOP: 5, OTHER: 1}),
    Waves("no other kind of its name", {NODE: 5, MAP: 1}, {NODE: 5, MAP: 1}),
    Waves("a definition with its first instance", {FOOS: 1, FOO: 0}, {FOOS: 0, FOO: 0}),
    Waves("a definition before its instances", {FOOS: -7, FOO: 0}, {FOOS: -7, FOO: 0}),
]


@pytest.mark.parametrize("case", WAVES, ids=attrgetter("name"))
def test_the_wave_of_an_object(case: Waves) -> None:
    assert effective_waves(case.written) == case.effective


@pytest.mark.parametrize(
    ("waves", "expected"),
    [({}, set()), ({MAP: 0, FOO: 0}, {MAP, FOO}), ({MAP: 0, FOO: 1}, {FOO}), ({MAP: -2, FOO: -1}, {FOO}),
     ({SHOP: 9, MAP: 0, OTHER: 1}, {OTHER}), ({FOOS: 9, FOO: 2}, {FOOS, FOO})],
)  # fmt: skip
def test_the_highest_wave_is_deleted_first(waves: dict[ObjectKey, int], expected: set[ObjectKey]) -> None:
    assert last_wave(Record(key=key, wave=wave) for key, wave in waves.items()) == expected
