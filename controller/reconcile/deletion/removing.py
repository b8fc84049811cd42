"""Deletes and releases objects at a teardown as the account that applied them; missing rights never block it.

Objects that the account may not touch are abandoned: they are recorded in the state and named in an Event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.ownership import loses_reference
from controller.apply.prune import Removal, RemovalCause, Remover
from controller.apply.teardown import Teardown
from controller.kube.client import User
from controller.observe.records import ObjectKey, Record
from controller.reconcile.context import Context
from controller.status.notes import notes_on_abandoned
from controller.status.writer import StatusWriter


class TeardownRemover:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(self, remover: Remover, writer: StatusWriter) -> None:
        self._remover, self._writer = remover, writer

    def remove(self, context: Context, teardown: Teardown, cause: RemovalCause, user: User | None) -> list[Removal]:
        """Delete or release the objects of one step of a teardown.

        Of those that the account may not delete, ordinary ones are left to the garbage collector, and those without
        ownerReference are released as that account, or left as they are if it may not change them either.

        Args:
            context: of the pass; records abandoned objects in its state.
            teardown: what to delete now.
            cause: of the removal.
            user: the account; None: the controller.

        Raises: ApiError.
        """
        removals = self._remover.remove(teardown.now, context.name, cause, user)
        denied = [each for each in removals if user and _is_denied(each)]
        if not denied or user is None:
            return removals
        abandoned = [each for each in denied if cause is not RemovalCause.ORPHAN and is_garbage_collected(each.record)]
        kept = [each.record for each in denied if each not in abandoned]
        released = self._remover.remove(kept, context.name, RemovalCause.ORPHAN, user)
        stuck = [each for each in released if _is_denied(each)]
        self._abandon(context, [*abandoned, *stuck])
        why = f'kept because "{user.name}" may not delete it'
        return [
            *(each for each in removals if each not in denied),
            *(each if each.error else replace(each, kept=why) for each in released if each not in stuck),
        ]

    def abandon_denied(self, context: Context, failures: Mapping[ObjectKey, BundleError]) -> None:
        """Abandon the objects that the account may not read, and report each once."""
        denied = {key: each for key, each in failures.items() if each.reason is Reason.FORBIDDEN}
        known = context.state.abandoned
        self._abandon(
            context,
            [Removal(record=Record(key=key), error=each) for key, each in denied.items() if key not in known],
        )

    def _abandon(self, context: Context, removals: list[Removal]) -> None:
        context.state.abandoned |= {each.record.key for each in removals}
        self._writer.record_events(context.deployment, notes_on_abandoned(removals))


def _is_denied(removal: Removal) -> bool:
    return removal.error is not None and removal.error.reason is Reason.FORBIDDEN


def is_garbage_collected(record: Record) -> bool:
    """Whether the garbage collector deletes an object once its BundleDeployment is gone."""
    return bool(record.controller_uid) and not loses_reference(record, orphan=False)
