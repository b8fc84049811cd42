"""PersistentVolumeClaim: whether a pending one waits for a pod, its StorageClass has to tell."""

from __future__ import annotations

from controller.observe.health.subject import Subject, field, text
from controller.observe.health.verdict import HEALTHY, Verdict, failed, healthy, progressing

# Set by the scheduler once a pod that uses the claim has been given a node.
_SELECTED_NODE = "volume.kubernetes.io/selected-node"

UNBOUND = frozenset({"NotBound", "StorageClassUnreadable", "StorageClassNotFound", "WaitForFirstConsumer"})
"""Reasons of verdicts that another StorageClass may change."""

_PENDING = progressing("NotBound", "no volume is bound to it yet")


def persistent_volume_claim(subject: Subject) -> Verdict:
    """Judge a PersistentVolumeClaim."""
    phase = text(subject.manifest, "status", "phase")
    if phase == "Bound":
        return HEALTHY
    if phase == "Lost":
        return failed("Lost", "the volume that it was bound to is gone")
    if _is_claimed(subject) or subject.spec("storageClassName") == "":
        return _PENDING
    return _unbound(subject)


def _is_claimed(subject: Subject) -> bool:
    """Whether nothing is waited for but the volume: a pod has come, or the claim names its volume."""
    selected = field(subject.manifest, "metadata", "annotations", _SELECTED_NODE)
    return bool(selected or subject.spec("volumeName"))


def _unbound(subject: Subject) -> Verdict:
    name = text(subject.manifest, "spec", "storageClassName")
    storage_class = subject.context.storage_class(name or None)
    if storage_class is None:
        message = "it is not bound, and its StorageClass may not be read, so it may just wait for a pod"
        return progressing("StorageClassUnreadable", message, deadline=False)
    if storage_class.volume_binding_mode is None:
        missing = f'there is no StorageClass "{name}"' if name else "there is no default StorageClass"
        return progressing("StorageClassNotFound", missing)
    if storage_class.volume_binding_mode == "WaitForFirstConsumer":
        return healthy("WaitForFirstConsumer", "it is bound when a pod uses it")
    return _PENDING
