"""Reconcile workers: they take names from the queue, run a pass, and put the name back as its result says."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError

from controller.kube.client import ApiError
from controller.manager.log import reconcile_id
from controller.manager.queue import WorkQueue
from controller.processes.supervision import Kind, Supervisor
from controller.reconcile.requeue import Requeue

log = logging.getLogger(__name__)


class Workers:
    """A fixed number of threads that reconcile.

    Args:
        reconcile: runs one pass; raises ApiError where it could not go on, CancelledError where the process ends,
            anything else is a bug.
        supervisor: keeps the threads alive.
        on_pass: gets the result of a pass as controller-runtime names it, its seconds, and whether a bug ended it.
    """

    def __init__(
        self,
        queue: WorkQueue,
        reconcile: Callable[[str], Requeue],
        count: int,
        *,
        supervisor: Supervisor,
        on_pass: Callable[[str, float, bool], None] = lambda _result, _seconds, _is_bug: None,
    ) -> None:
        self._queue, self._reconcile, self._on_pass = queue, reconcile, on_pass
        self._started = False
        self._threads = [supervisor.thread(Kind.WORKER, f"worker-{n}", self._run) for n in range(count)]

    def start(self) -> None:
        """Begin to take names from the queue. Once begun it does nothing more."""
        if self._started:
            return
        self._started = True
        for thread in self._threads:
            thread.start()

    def dead(self) -> list[str]:
        """Return the names of the threads that have ended."""
        return [thread.name for thread in self._threads if self._started and not thread.is_alive()]

    def close(self) -> None:
        """Begin no other pass."""
        self._queue.close()

    def join(self, seconds: float) -> None:
        """Wait for passes that are under way, all together at most so many seconds, after `close`."""
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
                self._queue.retry(name)  # whatever ends this thread, the name is not lost
                raise
            finally:
                self._queue.done(name)

    def _handle(self, name: str) -> None:
        started, is_bug = time.monotonic(), False
        try:
            requeue = self._reconcile(name)
        except ApiError as error:
            log.warning("API server refused a pass", extra={"BundleDeployment": name, "reply": str(error)})
            requeue = Requeue(after=error.retry_after, failed=True)
        except CancelledError:
            return  # this process ends, and whoever comes next goes on
        except BaseException:  # SystemExit of a library is a bug, too, and no reason to end a worker
            log.exception("Reconciler error", extra={"BundleDeployment": name})
            requeue, is_bug = Requeue(failed=True), True
        result = "error" if requeue.failed else "success" if requeue.after is None else "requeue_after"
        self._on_pass(result, time.monotonic() - started, is_bug)
        if requeue.failed:
            self._queue.retry(name, requeue.after or 0.0)
            return
        self._queue.forget(name)
        if requeue.after is not None:
            self._queue.add_after(name, requeue.after)
