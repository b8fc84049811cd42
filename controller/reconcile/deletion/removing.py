"""Deleting and releasing objects at a teardown, as the account that applied them; what it has no right to never blocks.

What that is, is kept in the state, and named in an Event.
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
    """Takes away what a teardown says."""

    def __init__(self, remover: Remover, writer: StatusWriter) -> None:
        self._remover, self._writer = remover, writer

    def remove(self, context: Context, teardown: Teardown, cause: RemovalCause, user: User | None) -> list[Removal]:
        """Delete and release what goes now; what an account has no right to never blocks.

        Then ordinary objects are left to the garbage collector. Those without ownerReference are released as that
        account; what it may not even change stays as it is.

        Args:
            context: of the pass; its state has then what is left to others.
            teardown: what goes now.
            cause: why it goes.
            user: as whom; None: as the controller.

        Raises: ApiError.
        """
        removals = self._remover.remove(teardown.now, context.name, cause, user)
        denied = [each for each in removals if user and _is_denied(each)]
        if not denied or user is None:
            return removals
        abandoned = [each for each in denied if cause is not RemovalCause.ORPHAN and goes_by_itself(each.record)]
        kept = [each.record for each in denied if each not in abandoned]
        released = self._remover.remove(kept, context.name, RemovalCause.ORPHAN, user)
        stuck = [each for each in released if _is_denied(each)]
        self._abandon(context, [*abandoned, *stuck])
        why = f'kept, since "{user.name}" may not delete it'
        return [
            *(each for each in removals if each not in denied),
            *(each if each.error else replace(each, kept=why) for each in released if each not in stuck),
        ]

    def give_up(self, context: Context, failures: Mapping[ObjectKey, BundleError]) -> None:
        """Leave what the account may not even read, and say so once: it is the garbage collector's, or stays."""
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


def goes_by_itself(record: Record) -> bool:
    """Whether the garbage collector takes an object once its BundleDeployment is gone."""
    return bool(record.controller_uid) and not loses_reference(record, orphan=False)
