"""Which change triggers which passes, and how soon; the threads that run passes, and requeue as their result says."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError

from rukpak.controller.kube.client import ApiError
from rukpak.controller.manager.queue import WorkQueue
from rukpak.controller.observe.following import Topic
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.reconcile.context import Requeue
from rukpak.controller.reconcile.memory import Memories
from rukpak.controller.reconcile.reconciler import Reconciler
from rukpak.controller.revisions.accounts import RIGHTS_SECONDS
from rukpak.controller.revisions.source_access import PROGRESS_SECONDS
from rukpak.controller.telemetry import reconcile_id

HEALTH_SECONDS = 0.1
"""Delay after a change of health alone, so that a rollout of many objects causes one pass."""
log = logging.getLogger(__name__)


# Each pass looks up missing accounts and dependencies itself.
_NOTES: Mapping[Topic, Callable[[Memories, str], None]] = {
    Topic.SOURCES: Memories.sources_changed,
    Topic.CONFIG: Memories.config_changed,
    Topic.CONTESTED: Memories.objects_changed,
    Topic.RIGHTS: Memories.rights_changed,
}


class Dispatcher:
    """Thread-safe. `reconciler` is set after construction: it needs the watches, and these need the dispatcher."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self.reconciler: Reconciler | None = None

    def deployment_changed(self, name: str) -> None:
        """Handle a BundleDeployment that was created, changed or deleted, or the end of what it waited for."""
        self._queue.add(name)

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        """Handle a change of its objects; not urgent if only their health changed."""
        if urgent:
            self._queue.add(name)
        else:
            self._queue.add_after(name, HEALTH_SECONDS)

    def progressed(self, name: str) -> None:
        """Handle progress in fetching its content, for status."""
        self._queue.add_after(name, PROGRESS_SECONDS)

    def followed_changed(self, topic: Topic, name: str) -> None:
        """Handle a change of an object that it follows for a topic: what has failed because of it is tried again."""
        if self.reconciler and (note := _NOTES.get(topic)):
            note(self.reconciler.memories, name)
        if topic is Topic.RIGHTS:
            self._queue.add_after(name, RIGHTS_SECONDS)
        else:
            self._queue.add(name)

    def cluster_restored(self) -> None:
        """Handle that the cluster is in an older state than known; the watches add all BundleDeployments later."""
        if self.reconciler:
            self.reconciler.start_over()

    def cluster_changed(self) -> None:
        """Handle a change of an object that any BundleDeployment may be waiting for."""
        for name in self.reconciler.memories.cluster_changed() if self.reconciler else []:
            self._queue.add(name)


class Workers:
    """The threads that run passes, as many as `queue.workers`.

    A pass raises ApiError if the API server failed it, CancelledError if the process ends; anything else is a bug,
    which the reconciler reports. `on_pass` gets the result as controller-runtime names it, the seconds, and whether a
    bug ended the pass.
    """

    def __init__(
        self,
        queue: WorkQueue,
        reconciler: Reconciler,
        supervisor: Supervisor,
        on_pass: Callable[[str, float, bool], None] = lambda _result, _seconds, _is_bug: None,
    ) -> None:
        self._queue, self._reconciler, self._on_pass = queue, reconciler, on_pass
        self._started = False
        self._threads = [supervisor.thread(Kind.WORKER, f"worker-{n}", self._run) for n in range(queue.workers)]

    def start(self) -> None:
        """Start to take names from the queue; does nothing if started already."""
        if self._started:
            return
        for thread in self._threads:
            thread.start()
        self._started = True  # last, or a probe in between would take a thread that has not begun for one that ended

    def dead(self) -> list[str]:
        """Return the names of threads that ended after `start`."""
        return [thread.name for thread in self._threads if self._started and not thread.is_alive()]

    @property
    def longest_seconds(self) -> float:
        """For how long the longest of the running passes has been running."""
        return max(self._queue.stats().busy, default=0.0)

    def close(self) -> None:
        """Start no other pass."""
        self._queue.close()

    def join(self, seconds: float) -> None:
        """Wait for running passes, up to so many seconds in total; call it after `close`."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(deadline - time.monotonic(), 0))

    def _run(self) -> None:
        while (name := self._queue.get()) is not None:
            reconcile_id.set(uuid.uuid4().hex[:12])
            try:
                self._handle(name)
            except BaseException:
                self._queue.retry(name)  # whatever kills this thread, keep the name
                raise
            finally:
                self._queue.done(name)

    def _handle(self, name: str) -> None:
        started, is_bug = time.monotonic(), False
        try:
            requeue = self._reconciler.reconcile(name)
        except ApiError as error:
            log.warning("pass failed with an API server error", extra={"BundleDeployment": name, "reply": str(error)})
            requeue = Requeue(after=error.retry_after, failed=True)
        except CancelledError:
            return  # this process ends; its successor continues
        except BaseException as error:  # a library's SystemExit is a bug, too, and must not end a worker
            log.exception("Reconciler error", extra={"BundleDeployment": name})
            self._report_bug(name, error)
            requeue, is_bug = Requeue(failed=True), True
        result = "error" if requeue.failed else "success" if requeue.after is None else "requeue_after"
        self._on_pass(result, time.monotonic() - started, is_bug)
        if requeue.failed:
            self._queue.retry(name, requeue.after or 0.0)
            return
        self._queue.forget(name)
        if requeue.after is not None:
            self._queue.add_after(name, requeue.after)

    def _report_bug(self, name: str, bug: BaseException) -> None:
        about = {"BundleDeployment": name}
        try:
            self._reconciler.report_bug(name, bug)
        except ApiError as error:
            log.warning("bug not reported in status", extra={**about, "reply": str(error)})
        except BaseException:  # the same bug, perhaps
            log.exception("bug not reported in status", extra=about)
