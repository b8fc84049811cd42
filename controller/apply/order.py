"""In which order objects are applied, and deleted when their BundleDeployment is deleted (README.md, Order). Pure.

Waves wait for each other, and stages in a wave; in a stage, lower ranks are sent first, in bundle order.

At a deletion the highest wave goes first. In a wave custom resources go first, while their operator still runs, then
everything else in reverse apply order, then CustomResourceDefinitions, and Namespaces last. A tier starts once the
previous one is gone. Nothing is repaired.
Not here: the requests (removal.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from rukpak.controller.apply.ownership import Owner, has_all_marks, loses_reference
from rukpak.controller.formats.objects import BUILT_IN_GROUPS, ObjectKey
from rukpak.controller.kube.resources import RBAC
from rukpak.controller.observe.records import Record

_ADMISSION = "admissionregistration.k8s.io"
SLOW_AFTER_SECONDS = 5.0
"""After so long status names what a deletion waits for."""
BLOCKED_AFTER_SECONDS = 60.0
"""After so long a person should look at it."""
# What finalizers of Kubernetes itself wait for.
_AWAITED = {
    "foregroundDeletion": "the objects that it owns still exist",
    "kubernetes.io/pvc-protection": "a pod still uses it",
    "kubernetes.io/pv-protection": "a claim is still bound to it",
    "customresourcecleanup.apiextensions.k8s.io": "its custom resources still exist",
}


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


_CLASSES = Position(Stage.DEFINITIONS, 2)
_KINDS: Mapping[Position, Mapping[str, tuple[str, ...]]] = {
    Position(Stage.DEFINITIONS, 0): {"": ("Namespace",)},
    Position(Stage.DEFINITIONS, 1): {"apiextensions.k8s.io": ("CustomResourceDefinition",)},
    _CLASSES: {
        "storage.k8s.io": ("StorageClass", "VolumeAttributesClass"),
        "networking.k8s.io": ("IngressClass",),
        "scheduling.k8s.io": ("PriorityClass",),
        "node.k8s.io": ("RuntimeClass",),
        "resource.k8s.io": ("DeviceClass",),
        "gateway.networking.k8s.io": ("GatewayClass",),
        "snapshot.storage.k8s.io": ("VolumeSnapshotClass",),
        "groupsnapshot.storage.k8s.io": ("VolumeGroupSnapshotClass",),
    },
    # Limits and policies first, so that they apply to the rest; unlike webhooks they need no workload.
    Position(Stage.PREREQUISITES, 0): {
        "": ("ResourceQuota", "LimitRange"),
        "networking.k8s.io": ("NetworkPolicy",),
        "policy": ("PodDisruptionBudget",),
        "flowcontrol.apiserver.k8s.io": ("PriorityLevelConfiguration", "FlowSchema"),
        _ADMISSION: (
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        ),
    },
    Position(Stage.PREREQUISITES, 1): {"": ("ServiceAccount",)},
    Position(Stage.PREREQUISITES, 2): {
        RBAC: ("ClusterRole", "Role"),
        "security.openshift.io": ("SecurityContextConstraints",),
    },
    # After the roles: the server checks the rights of a client that binds one against its rules.
    Position(Stage.PREREQUISITES, 3): {RBAC: ("ClusterRoleBinding", "RoleBinding")},
    Position(Stage.PREREQUISITES, 4): {
        "": ("ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "Service", "Endpoints", "PodTemplate"),
        "discovery.k8s.io": ("EndpointSlice",),
        "storage.k8s.io": ("CSIDriver",),
        "resource.k8s.io": ("ResourceClaim", "ResourceClaimTemplate"),
        "cert-manager.io": ("ClusterIssuer", "Issuer", "Certificate"),
    },
    Position(Stage.GATES): {
        _ADMISSION: ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        "apiregistration.k8s.io": ("APIService",),
    },
}
"""Kinds by position and group; all others are workloads."""
_POSITIONS = {
    (group, kind): position for position, groups in _KINDS.items() for group, kinds in groups.items() for kind in kinds
}


def position_of(key: ObjectKey) -> Position:
    """Return the stage of a kind, and its rank in it."""
    return _POSITIONS.get((key.group, key.kind), Position(Stage.WORKLOADS))


def served_group(key: ObjectKey) -> str:
    """Return the API group that an APIService, named <version>.<group>, adds to the API; empty for other objects."""
    return key.name.partition(".")[2] if (key.group, key.kind) == ("apiregistration.k8s.io", "APIService") else ""


def is_custom(key: ObjectKey) -> bool:
    """Whether a kind is not built in: from a CustomResourceDefinition or an aggregated API."""
    return key.group not in BUILT_IN_GROUPS


def effective_waves(waves: Mapping[ObjectKey, int]) -> dict[ObjectKey, int]:
    """Return the wave in which each object is applied, by the ones that the objects name.

    A Namespace is not applied after its first object, and a CustomResourceDefinition not after the first object of its
    group: each would wait for the other for ever.

    Args:
        waves: of all objects of a bundle, or of those that are left of it.
    """
    if len(set(waves.values())) <= 1:
        return dict(waves)
    by_namespace: dict[str, int] = {}
    by_group: dict[str, int] = {}
    for key, wave in waves.items():
        by_namespace[key.namespace] = min(wave, by_namespace.get(key.namespace, wave))
        by_group[key.group] = min(wave, by_group.get(key.group, wave))

    def _first_content(key: ObjectKey, wave: int) -> int:
        if key[:2] == ("", "Namespace"):
            return by_namespace.get(key.name, wave)
        is_definition = key[:2] == ("apiextensions.k8s.io", "CustomResourceDefinition")
        return by_group.get(key.name.partition(".")[2], wave) if is_definition else wave

    return {key: min(wave, _first_content(key, wave)) for key, wave in waves.items()}


def last_wave(records: Iterable[Record]) -> frozenset[ObjectKey]:
    """Return those of some objects that are deleted first: the ones of the highest wave."""
    waves = effective_waves({record.key: record.wave for record in records})
    highest = max(waves.values(), default=0)
    return frozenset(key for key, wave in waves.items() if wave == highest)


def teardown_position(key: ObjectKey) -> tuple[bool, Position]:
    """Return the step in which a kind is deleted: the highest first, and custom resources before everything else."""
    return is_custom(key), position_of(key)


def teardown_order(records: Iterable[Record]) -> list[Record]:
    """Return records, which are in apply order, in deletion order: the reverse."""
    return sorted(records, key=lambda record: teardown_position(record.key))[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Teardown:
    """The objects that still exist, and which of them are next."""

    remaining: tuple[Record, ...]
    now: tuple[Record, ...]
    """Deleted or released in this pass."""
    awaited: tuple[Record, ...]
    """Already being deleted: the next tier waits for them."""


def plan_teardown(observed: Mapping[ObjectKey, Record], owner: Owner) -> Teardown:
    """Decide which objects are deleted now.

    Args:
        observed: the objects that carry our label and that a kept revision names.
        owner: the BundleDeployment that is being deleted. Under Orphan, its objects are released and kept.
    """
    # --cascade=orphan strips the references before we see the deletion: label and UID suffice then.
    ours = [record for record in observed.values() if has_all_marks(record, owner)]
    current = _releasable(ours) if owner.orphan else _first_to_go(ours)
    return Teardown(
        remaining=tuple(ours),
        now=tuple(record for record in current if not record.deleting),
        awaited=tuple(record for record in current if record.deleting),
    )


def is_orphaned(observed: Iterable[Record], owner: Owner) -> bool:
    """Whether the garbage collector has stripped the owner references from the objects of a BundleDeployment.

    It does so for `--cascade=orphan`, and then removes its finalizer, which may be gone when the controller looks.

    Args:
        observed: the objects that carry our label and that a kept revision names.
        owner: the BundleDeployment that is being deleted.
    """
    marked = [record for record in observed if (record.owner, record.owner_uid) == (owner.name, owner.uid)]
    references = [record.controller_uid for record in marked if not loses_reference(record, orphan=False)]
    return bool(references) and not any(references)


def _releasable(ours: list[Record]) -> list[Record]:
    # Those that never had a reference first: until the others are released, they show `is_orphaned` after a restart.
    first = [record for record in ours if loses_reference(record, orphan=False) and not record.deleting]
    return first or ours


def describe_awaited(record: Record, explanation: str = "") -> str:
    """Name an object that is being deleted and still exists, with what holds it.

    Args:
        record: the object.
        explanation: what is known about it besides its finalizers.
    """
    return f"{record.key} ({explanation or _holder(record)})"


def _holder(record: Record) -> str:
    if record.finalizers:
        known = [_AWAITED[name] for name in record.finalizers if name in _AWAITED]
        return f"finalizer {', '.join(record.finalizers)}{': ' if known else ''}{', '.join(known)}"
    if record.key[:2] == ("", "Pod"):
        return "its containers are being stopped"
    if record.key[:2] == ("", "Namespace"):
        return "its content is being deleted"
    return "no finalizer; the API server has not removed it yet"


def _first_to_go(ours: list[Record]) -> list[Record]:
    last = last_wave(ours)
    candidates = [record for record in ours if record.key in last]
    first = max((_tier(record.key) for record in candidates), default=None)
    return [record for record in candidates if _tier(record.key) == first]


def _tier(key: ObjectKey) -> tuple[bool, Position]:
    # Custom resources, other objects, CustomResourceDefinitions, Namespaces: the highest goes first.
    return is_custom(key), min(position_of(key), _CLASSES)
