"""The order in which kinds are applied and deleted (README.md, Order, Prune and deletion).

Stages wait for each other; in a stage, lower ranks are sent first, in bundle order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from controller.kube.resources import BUILT_IN_GROUPS, RBAC
from controller.observe.records import ObjectKey

Item = TypeVar("Item")
_ADMISSION = "admissionregistration.k8s.io"


class Stage(IntEnum):
    """What must be applied before the next stage starts."""

    DEFINITIONS = 1
    """Namespaces, CustomResourceDefinitions, classes."""
    PREREQUISITES = 2
    """What pods depend on: quotas, accounts, RBAC, configuration, volumes, Services, Certificates."""
    WORKLOADS = 3
    """Workloads, custom resources and every unknown kind."""
    GATES = 4
    """What requests to the API server pass through: webhook configurations and APIServices."""


class Position(NamedTuple):
    """A stage and a rank in it, in apply order."""

    stage: Stage
    rank: int = 0


_NAMESPACES = Position(Stage.DEFINITIONS, 0)
_CRDS = Position(Stage.DEFINITIONS, 1)
_CLASSES = Position(Stage.DEFINITIONS, 2)
# Limits and policies first, so that they apply to the rest; unlike webhooks they need no workload.
_POLICIES = Position(Stage.PREREQUISITES, 0)
_ACCOUNTS = Position(Stage.PREREQUISITES, 1)
_ROLES = Position(Stage.PREREQUISITES, 2)
# After the roles: the server checks the rights of a client that binds one against its rules.
_BINDINGS = Position(Stage.PREREQUISITES, 3)
_CONFIGURATION = Position(Stage.PREREQUISITES, 4)
_WORKLOADS = Position(Stage.WORKLOADS)
_GATES = Position(Stage.GATES)
_STEPS: Mapping[tuple[str, str], Position] = {
    ("", "Namespace"): _NAMESPACES,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _CRDS,
    ("storage.k8s.io", "StorageClass"): _CLASSES,
    ("storage.k8s.io", "VolumeAttributesClass"): _CLASSES,
    ("networking.k8s.io", "IngressClass"): _CLASSES,
    ("scheduling.k8s.io", "PriorityClass"): _CLASSES,
    ("node.k8s.io", "RuntimeClass"): _CLASSES,
    ("resource.k8s.io", "DeviceClass"): _CLASSES,
    ("gateway.networking.k8s.io", "GatewayClass"): _CLASSES,
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass"): _CLASSES,
    ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotClass"): _CLASSES,
    ("", "ResourceQuota"): _POLICIES,
    ("", "LimitRange"): _POLICIES,
    ("networking.k8s.io", "NetworkPolicy"): _POLICIES,
    ("policy", "PodDisruptionBudget"): _POLICIES,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _POLICIES,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _POLICIES,
    (_ADMISSION, "ValidatingAdmissionPolicy"): _POLICIES,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _POLICIES,
    (_ADMISSION, "MutatingAdmissionPolicy"): _POLICIES,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _POLICIES,
    ("", "ServiceAccount"): _ACCOUNTS,
    (RBAC, "ClusterRole"): _ROLES,
    (RBAC, "Role"): _ROLES,
    ("security.openshift.io", "SecurityContextConstraints"): _ROLES,
    (RBAC, "ClusterRoleBinding"): _BINDINGS,
    (RBAC, "RoleBinding"): _BINDINGS,
    ("", "ConfigMap"): _CONFIGURATION,
    ("", "Secret"): _CONFIGURATION,
    ("", "PersistentVolume"): _CONFIGURATION,
    ("", "PersistentVolumeClaim"): _CONFIGURATION,
    ("", "Service"): _CONFIGURATION,
    ("", "Endpoints"): _CONFIGURATION,
    ("", "PodTemplate"): _CONFIGURATION,
    ("discovery.k8s.io", "EndpointSlice"): _CONFIGURATION,
    ("storage.k8s.io", "CSIDriver"): _CONFIGURATION,
    ("resource.k8s.io", "ResourceClaim"): _CONFIGURATION,
    ("resource.k8s.io", "ResourceClaimTemplate"): _CONFIGURATION,
    ("cert-manager.io", "ClusterIssuer"): _CONFIGURATION,
    ("cert-manager.io", "Issuer"): _CONFIGURATION,
    ("cert-manager.io", "Certificate"): _CONFIGURATION,
    (_ADMISSION, "MutatingWebhookConfiguration"): _GATES,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _GATES,
    ("apiregistration.k8s.io", "APIService"): _GATES,
}


def position_of(key: ObjectKey) -> Position:
    """Return the stage of a kind, and its rank in it."""
    return _STEPS.get((key.group, key.kind), _WORKLOADS)


def served_group(key: ObjectKey) -> str:
    """Return the API group that an APIService, named <version>.<group>, adds to the API; empty for other objects."""
    return key.name.partition(".")[2] if (key.group, key.kind) == ("apiregistration.k8s.io", "APIService") else ""


def is_custom(key: ObjectKey) -> bool:
    """Whether a kind is not built in: from a CustomResourceDefinition or an aggregated API."""
    return key.group not in BUILT_IN_GROUPS


def teardown_position(key: ObjectKey) -> tuple[bool, Position]:
    """Return the step in which a kind is deleted: the highest first, and custom resources before everything else."""
    return is_custom(key), position_of(key)


def teardown_order(items: Iterable[Item], key: Callable[[Item], ObjectKey]) -> list[Item]:
    """Return items in deletion order, the reverse of apply order.

    Args:
        items: in apply order.
        key: returns the object of an item.
    """
    backwards = list(items)[::-1]  # a reverse sort keeps the order of equal items
    return sorted(backwards, key=lambda item: teardown_position(key(item)), reverse=True)
