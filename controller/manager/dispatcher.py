"""Puts BundleDeployments into the queue: what has changed, for whom, and how soon that brings a pass."""

from __future__ import annotations

from controller.manager.queue import WorkQueue
from controller.reconcile.reconciler import Reconciler
from controller.revisions.service_accounts import RIGHTS_SECONDS
from controller.revisions.source_access import PROGRESS_SECONDS

HEALTH_SECONDS = 0.1
"""How long a change of health alone may wait, so that a rollout of many objects is one pass and not many."""


class Dispatcher:
    """Thread-safe. `reconciler` is set when it is made, since that needs the watches, and these need this."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self.reconciler: Reconciler | None = None

    def deployment_changed(self, name: str) -> None:
        """A BundleDeployment was created, changed or deleted."""
        self._queue.add(name)

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        """Its objects changed; not urgent: only in health."""
        if urgent:
            self._queue.add(name)
        else:
            self._queue.add_after(name, HEALTH_SECONDS)

    def health_explained(self, name: str) -> None:
        """Why one of its objects is not healthy is known now."""
        self.objects_changed(name, urgent=False)

    def ended(self, name: str) -> None:
        """What was under way for it, or what kept it from going on, has ended."""
        self._queue.add(name)

    def progressed(self, name: str) -> None:
        """Its content is being fetched, and status may say how far."""
        self._queue.add_after(name, PROGRESS_SECONDS)

    def secret_changed(self, name: str) -> None:
        """A Secret changed with which one of its sources had failed."""
        if self.reconciler:
            self.reconciler.retry_sources(name)
        self._queue.add(name)

    def rights_changed(self, name: str) -> None:
        """Roles or bindings changed while its account lacked rights."""
        if self.reconciler:
            self.reconciler.retry_rights(name)
        self._queue.add_after(name, RIGHTS_SECONDS)

    def contested_changed(self, name: str) -> None:
        """An object changed that somebody else owns."""
        if self.reconciler:
            self.reconciler.retry_objects(name)
        self._queue.add(name)

    def cluster_changed(self) -> None:
        """An object changed that any of them may be waiting for."""
        for name in self.reconciler.cluster_changed() if self.reconciler else []:
            self._queue.add(name)
