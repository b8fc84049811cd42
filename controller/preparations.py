"""Slow work (resolving, fetching, rendering) on a pool of its own, so that no reconcile worker ever waits for it.

A pass asks for the result of a piece of work and names its inputs by a ticket; while the work goes on the pass goes on
without it, and repairs what is installed. Work whose ticket nobody asks for any more is cancelled.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Job:
    ticket: str
    cancelled: threading.Event
    future: Future[Any]


class Preparations:
    """Runs at most one piece of work of each purpose for each BundleDeployment.

    Args:
        workers: pieces of work at the same time.
        finished: called with the name of a BundleDeployment whose work has ended, on the thread of the work.
    """

    def __init__(self, workers: int, finished: Callable[[str], None]) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="prepare")
        self._finished = finished
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def take(
        self, name: str, ticket: str, work: Callable[[threading.Event], Result], *, purpose: str = ""
    ) -> Result | None:
        """Return the result of `work`, or None while it goes on; the first call with a ticket starts it.

        A result is handed out once; what `work` raises is raised here. After `stop` nothing is started.
        """
        with self._lock:
            if self._stopped:
                return None
            job = self._jobs.get((name, purpose))
            if job is None or job.ticket != ticket:
                if job is not None:
                    job.cancelled.set()
                self._jobs[name, purpose] = self._start(name, ticket, work)
            elif job.future.done():
                del self._jobs[name, purpose]
                result: Result = job.future.result()
                return result
        return None

    def begin(self, name: str, ticket: str, work: Callable[[threading.Event], Any], *, purpose: str) -> None:
        """Start work that a pass is going to ask for, unless something of this purpose goes on already."""
        with self._lock:
            if not self._stopped and (name, purpose) not in self._jobs:
                self._jobs[name, purpose] = self._start(name, ticket, work)

    def goes_on(self, name: str) -> bool:
        """Return whether any work for a BundleDeployment is under way."""
        with self._lock:
            return any(key[0] == name and not job.future.done() for key, job in self._jobs.items())

    def _start(self, name: str, ticket: str, work: Callable[[threading.Event], Any]) -> _Job:
        cancelled = threading.Event()
        # In the context of the pass that asks for it: what is logged carries its id.
        job = _Job(ticket, cancelled, self._pool.submit(contextvars.copy_context().run, work, cancelled))
        job.future.add_done_callback(lambda _: self._finished(name))
        return job

    def cancel(self, name: str, *purposes: str) -> None:
        """Stop what goes on for a BundleDeployment and some purposes (none named: all), since nobody needs it now."""
        with self._lock:
            for key in [key for key in self._jobs if key[0] == name and (not purposes or key[1] in purposes)]:
                self._jobs.pop(key).cancelled.set()

    def stop(self) -> None:
        """Cancel everything and start nothing more."""
        with self._lock:
            self._stopped = True
            for job in self._jobs.values():
                job.cancelled.set()
            self._jobs.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
