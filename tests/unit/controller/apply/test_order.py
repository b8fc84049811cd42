from __future__ import annotations

import random
from typing import Any

import pytest

from controller.apply.order import Stage, is_custom, position_of, teardown_order
from controller.observe.records import ObjectKey, key_of

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
    assert teardown_order(shuffled, key=lambda key: key) == keys


def test_inside_a_step_the_last_one_applied_goes_first() -> None:
    manifests = [_manifest("v1/Secret", "z"), _manifest("v1/ConfigMap", "m"), _manifest("v1/Secret", "a")]
    assert teardown_order(iter(manifests), key=key_of) == manifests[::-1]


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
