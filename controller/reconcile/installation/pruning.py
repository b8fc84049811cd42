"""Prunes the objects that older revisions have left.

Not here: which objects (apply/possession.py), and when (finish.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from api.errors import BundleError
from api.v1alpha2.conditions import Retry
from controller.apply.options import ApplyOptions
from controller.apply.possession import find_surplus, find_terminating
from controller.apply.prune import Removal, RemovalCause, Remover
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.installation.work import Work
from controller.reconcile.ownership.holdings import Holdings
from controller.retries import Retries
from controller.telemetry import DEAF, Observer, Phase

log = logging.getLogger(__name__)


class Pruner:
    """Prunes objects that only older revisions name.

    Args:
        observer: gets the duration of pruning.
    """

    def __init__(
        self, *, watches: Watches, holdings: Holdings, remover: Remover, retries: Retries, observer: Observer = DEAF
    ) -> None:
        self._watches, self._holdings, self._remover = watches, holdings, remover
        self._retries, self._observer = retries, observer

    def prune(self, work: Work, *, is_time: bool) -> tuple[list[Removal], list[Record]]:
        """Prune if it is time.

        Returns: the removals, and the objects of older revisions that are kept for now, or are being deleted.
        Raises: ApiError.
        """
        # Observed after applying: an object of the previous revision may just have been repaired.
        context, options = work.context, work.options
        unreadable = self._holdings.read_unwatched(context, options.older, options.user)
        observed = self._watches.managed(options.owner.name)
        named = (options.wanted.by_key, options.older, observed, options.owner)
        surplus = find_surplus(*named, orphan=options.orphan)
        terminating = find_terminating(*named, orphan=options.orphan)
        removals = self._remove(surplus, unreadable, options) if is_time else []
        terminating += [removal.remaining for removal in removals if removal.remaining]
        done = [removal for removal in removals if not removal.error]
        context.state.ledger.forget(removal.record.key for removal in done)
        self._holdings.forget(removal.record.key for removal in done if not removal.remaining)
        waiting = [*surplus, *(Record(key=key) for key in unreadable)]
        if is_time:
            waiting = [removal.record for removal in removals if removal.error]
        waiting += terminating
        context.state.older = frozenset(record.key for record in waiting)
        return removals, waiting

    def _remove(
        self, surplus: list[Record], unreadable: Mapping[ObjectKey, BundleError], options: ApplyOptions
    ) -> list[Removal]:
        if not (surplus or unreadable):
            self._retries.succeeded(options.owner.name, RemovalCause.PRUNE)
            return []
        if surplus:
            options.confirm()
        started = time.monotonic()
        removals = self._remover.remove(surplus, options.owner.name, RemovalCause.PRUNE, options.user)
        removals += [Removal(record=Record(key=key), error=error) for key, error in unreadable.items()]
        failures = [removal.error for removal in removals if removal.error]
        self._observer.phase_ended(Phase.PRUNE, time.monotonic() - started, succeeded=not failures)
        if failures:  # a transient failure is retried soon, not only with the slow ones
            passing = next((error for error in failures if error.reason.retry is Retry.TRANSIENT), failures[0])
            self._note_failure(passing, options)
        else:
            self._retries.succeeded(options.owner.name, RemovalCause.PRUNE)
        return removals

    def _note_failure(self, error: BundleError, options: ApplyOptions) -> None:
        name, revision = options.owner.name, options.wanted.revision
        last = self._retries.last(name, RemovalCause.PRUNE, revision)
        self._retries.failed(name, RemovalCause.PRUNE, revision, error)
        if last is None or last.message != error.message:
            about = {"BundleDeployment": name, "reason": error.reason.value, "problem": error.message}
            log.warning("objects not pruned", extra=about)
