"""Questions about a BundleDeployment that more than one part of a pass asks. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from api.v1alpha2.conditions import ConditionType
from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Owner, is_ours, loses_reference
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, Record
from controller.revisions.finder import requested_at


def owner_of(deployment: BundleDeployment) -> Owner:
    """Return whose its objects are."""
    return Owner(deployment.metadata.name, deployment.metadata.uid)


def own_records(observed: Mapping[ObjectKey, Record], deployment: BundleDeployment) -> list[Record]:
    """Return the records of objects that are really its own: operators copy labels to children."""
    owner, orphan = owner_of(deployment), deployment.spec.deletion_policy == "Orphan"
    return [r for r in observed.values() if is_ours(r, owner, carries_reference=not loses_reference(r, orphan=orphan))]


def recorded_kinds(deployment: BundleDeployment) -> list[GroupVersionKind]:
    """Return the kinds of which it may have objects, as status says."""
    return [GroupVersionKind.parse(text) for text in deployment.status.managed_kinds]


def is_current(deployment: BundleDeployment) -> bool:
    """Whether status says that this very spec is installed in full, with nothing left to do."""
    status = deployment.status
    installed = any(
        c.type == ConditionType.INSTALLED
        and c.status == "True"
        and c.observed_generation == deployment.metadata.generation
        for c in status.conditions
    )
    settled = bool(status.managed_state) and status.revision == status.installed_revision
    obeyed = status.last_handled_reconcile_at == requested_at(deployment)
    return installed and settled and obeyed and not deployment.spec.paused


def is_same_wish(deployment: BundleDeployment, now: BundleDeployment | None) -> bool:
    """Whether a pass may go on writing: nobody has changed, paused or deleted the BundleDeployment since it began."""
    return (
        now is not None
        and now.metadata.uid == deployment.metadata.uid
        and now.metadata.generation == deployment.metadata.generation
        and now.metadata.deletion_timestamp is None
    )
