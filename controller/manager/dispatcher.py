"""Adds BundleDeployments to the queue when something changes that concerns them."""

from __future__ import annotations

from controller.manager.queue import WorkQueue
from controller.reconcile.reconciler import Reconciler
from controller.revisions.accounts.service_accounts import RIGHTS_SECONDS
from controller.revisions.source_access import PROGRESS_SECONDS

HEALTH_SECONDS = 0.1
"""Delay after a change of health alone, so that a rollout of many objects causes one pass."""


class Dispatcher:
    """Thread-safe. `reconciler` is set after construction: it needs the watches, and these need the dispatcher."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self.reconciler: Reconciler | None = None

    def deployment_changed(self, name: str) -> None:
        """Handle a BundleDeployment that was created, changed or deleted."""
        self._queue.add(name)

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        """Handle a change of its objects; not urgent if only their health changed."""
        if urgent:
            self._queue.add(name)
        else:
            self._queue.add_after(name, HEALTH_SECONDS)

    def health_explained(self, name: str) -> None:
        """Handle a new explanation of why one of its objects is unhealthy."""
        self.objects_changed(name, urgent=False)

    def ended(self, name: str) -> None:
        """Handle the end of background work for it, or of what blocked it."""
        self._queue.add(name)

    def progressed(self, name: str) -> None:
        """Handle progress in fetching its content, for status."""
        self._queue.add_after(name, PROGRESS_SECONDS)

    def secret_changed(self, name: str) -> None:
        """Handle a change of a Secret with which one of its sources failed, or of local content."""
        if self.reconciler:
            self.reconciler.retry_sources(name)
        self._queue.add(name)

    def config_changed(self, name: str) -> None:
        """Handle a change of a ConfigMap or Secret that its config comes from."""
        if self.reconciler:
            self.reconciler.config_changed(name)
        self._queue.add(name)

    def rights_changed(self, name: str) -> None:
        """Handle a change of roles or bindings while its account lacked permissions."""
        if self.reconciler:
            self.reconciler.retry_rights(name)
        self._queue.add_after(name, RIGHTS_SECONDS)

    def contested_changed(self, name: str) -> None:
        """Handle a change of an object that it wants and another owner has."""
        if self.reconciler:
            self.reconciler.retry_objects(name)
        self._queue.add(name)

    def cluster_restored(self) -> None:
        """Handle that the cluster is in an older state than known; the watches add all BundleDeployments later."""
        if self.reconciler:
            self.reconciler.start_over()

    def cluster_changed(self) -> None:
        """Handle a change of an object that any BundleDeployment may be waiting for."""
        for name in self.reconciler.cluster_changed() if self.reconciler else []:
            self._queue.add(name)
