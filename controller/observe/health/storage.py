"""PersistentVolumeClaim. Its StorageClass tells whether a pending claim waits for a pod."""

from __future__ import annotations

from controller.observe.health.checks import describe_acceptance
from controller.observe.health.subject import Subject
from controller.observe.health.verdict import HEALTHY, Verdict, failed, healthy, progressing
from controller.untrusted import field, text

# Set by the scheduler once a pod that uses the claim is assigned to a node.
_SELECTED_NODE = "volume.kubernetes.io/selected-node"

UNBOUND = frozenset({"NotBound", "StorageClassUnreadable", "StorageClassNotFound", "WaitForFirstConsumer"})
"""Reasons of verdicts that a change of StorageClasses may alter."""

_PENDING = progressing("NotBound", "no volume bound yet")


def persistent_volume_claim(subject: Subject) -> Verdict:
    """Judge a PersistentVolumeClaim."""
    phase = text(subject.manifest, "status", "phase")
    if phase == "Bound":
        return HEALTHY
    if phase == "Lost":
        return failed("Lost", "the bound volume no longer exists")
    if _is_claimed(subject) or subject.spec("storageClassName") == "":
        return _PENDING
    return _unbound(subject)


def _is_claimed(subject: Subject) -> bool:
    """Whether only the volume is missing: a pod uses the claim, or the claim names its volume."""
    selected = field(subject.manifest, "metadata", "annotations", _SELECTED_NODE)
    return bool(selected or subject.spec("volumeName"))


def _unbound(subject: Subject) -> Verdict:
    name = text(subject.manifest, "spec", "storageClassName")
    storage_class = subject.context.storage_class(name or None)
    if storage_class is None:
        message = "not bound; its StorageClass cannot be read, so it may be waiting for a pod"
        return progressing("StorageClassUnreadable", message, deadline=False, hint=describe_acceptance(subject))
    if storage_class.volume_binding_mode is None:
        missing = f'StorageClass "{name}" does not exist' if name else "no default StorageClass exists"
        return progressing("StorageClassNotFound", missing, hint=describe_acceptance(subject))
    if storage_class.volume_binding_mode == "WaitForFirstConsumer":
        return healthy("WaitForFirstConsumer", "will be bound when a pod uses it")
    return _PENDING
