"""In which order objects are applied, and taken away again (README.md, Order, Prune and deletion).

Between stages the applier waits; inside one, what stands in a lower rank is sent first, and bundle order is kept.

Not here: what is waited for, and what a failure holds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from controller.kube.resources import BUILT_IN_GROUPS, RBAC
from controller.observe.records import ObjectKey

Item = TypeVar("Item")


class Stage(IntEnum):
    """What has to stand before the next stage begins."""

    DEFINITIONS = 1
    """Namespaces, CustomResourceDefinitions, classes."""
    PREREQUISITES = 2
    """What pods depend on: quotas, accounts, rights, configuration, volumes, Services, Certificates."""
    WORKLOADS = 3
    """Workloads and custom resources, and every kind that is not known."""
    GATES = 4
    """What requests to the API server go through: webhook configurations and APIServices."""


class Position(NamedTuple):
    """A stage and a rank in it; compares as the order of applying."""

    stage: Stage
    rank: int = 0


_NAMESPACES = Position(Stage.DEFINITIONS, 0)
_CRDS = Position(Stage.DEFINITIONS, 1)
_CLASSES = Position(Stage.DEFINITIONS, 2)
# Limits and policies, so that they hold for all that follows; in-process policies need no workload, as webhooks do.
_POLICIES = Position(Stage.PREREQUISITES, 0)
_ACCOUNTS = Position(Stage.PREREQUISITES, 1)
_ROLES = Position(Stage.PREREQUISITES, 2)
# After the roles: the server checks the rights of whoever binds one against its rules.
_BINDINGS = Position(Stage.PREREQUISITES, 3)
_CONFIGURATION = Position(Stage.PREREQUISITES, 4)
_WORKLOADS = Position(Stage.WORKLOADS)
_GATES = Position(Stage.GATES)

_ADMISSION = "admissionregistration.k8s.io"

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


def is_custom(key: ObjectKey) -> bool:
    """Whether a kind is not the API server's own: of a CustomResourceDefinition, or of an aggregated API."""
    return key.group not in BUILT_IN_GROUPS


def teardown_position(key: ObjectKey) -> tuple[bool, Position]:
    """Return the step of a kind in taking away: the highest goes first.

    Custom resources go before everything else, while what serves them still runs; CustomResourceDefinitions and then
    Namespaces go last.
    """
    return is_custom(key), position_of(key)


def teardown_order(items: Iterable[Item], key: Callable[[Item], ObjectKey]) -> list[Item]:
    """Return items in the order in which they are taken away: the reverse of applying, see `teardown_step`.

    Args:
        items: in the order in which they were applied.
        key: which object an item stands for.
    """
    backwards = list(items)[::-1]  # a reverse sort keeps equal items in the order that it is given
    return sorted(backwards, key=lambda item: teardown_position(key(item)), reverse=True)
