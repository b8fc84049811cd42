"""Slow work (resolving, fetching, rendering) in a thread pool of its own, so that no reconcile worker waits for it.

A pass asks for a result by a ticket that identifies the inputs. While the work is active the pass continues without it
and repairs what is installed. A new ticket cancels the work of the previous one. Tenants take turns, and none gets all
threads (sharing.py): sources that never end hold up only the tenant that names them. Who has used less processor
time is served first.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from rukpak.api.errors import BundleError
from rukpak.controller.kube.client import ApiError
from rukpak.controller.sharing import Turns
from rukpak.controller.telemetry import DEAF, InternalError, Observer

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Work = Callable[[threading.Event], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a piece of work is queued."""

    share: str = ""
    """See sharing.py."""
    purpose: str = ""
    """A BundleDeployment has one piece of work at a time for each purpose."""
    later: bool = False
    """Whether it is queued behind all other work of its share."""


_USUAL = Place()


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    name: str
    ticket: str
    share: str
    run: Callable[[], Any]
    cancelled: threading.Event
    future: Future[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of pieces of work."""

    waiting: int
    active: int


class BackgroundWork:
    """Runs at most one piece of work of each purpose for each BundleDeployment. Thread-safe.

    Args:
        workers: pieces of work at the same time.
        finished: called with the name of a BundleDeployment whose work has finished, on the thread of the work.
        started: called likewise when work starts that was queued.
        observer: learns of bugs.
    """

    def __init__(
        self,
        workers: int,
        finished: Callable[[str], None],
        started: Callable[[str], None] = lambda _name: None,
        observer: Observer = DEAF,
    ) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="prepare")
        self._finished, self._started, self._observer = finished, started, observer
        self._turns: Turns[_Job] = Turns(workers)
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def take(self, name: str, ticket: str, work: Work[Result], place: Place = _USUAL) -> Result | None:
        """Return the result of `work`, once, or None while it is queued or active; the first call starts it.

        Raises: what `work` raises: BundleError, ApiError, CancelledError; InternalError, once it is logged, for
            anything else. After `stop` it returns None and starts nothing.
        """
        with self._lock:
            if self._stopped:
                return None
            job = self._jobs.get((name, place.purpose))
            if job is None or job.ticket != ticket:
                if job is not None:
                    self._cancel(job)
                self._start(name, ticket, work, place)
            elif job.future.done():
                del self._jobs[name, place.purpose]
                result: Result = job.future.result()
                return result
        return None

    def begin(self, name: str, ticket: str, work: Work[Any], place: Place = _USUAL) -> None:
        """Start work that a pass will ask for, unless there is already work for this purpose."""
        with self._lock:
            if not self._stopped and (name, place.purpose) not in self._jobs:
                self._start(name, ticket, work, place)

    def is_busy(self, name: str) -> bool:
        """Return whether any work for a BundleDeployment is queued or active."""
        with self._lock:
            return any(key[0] == name and not job.future.done() for key, job in self._jobs.items())

    def is_queued(self, name: str, purpose: str = "") -> bool:
        """Return whether the work for a purpose is queued."""
        with self._lock:
            job = self._jobs.get((name, purpose))
            return job is not None and not (job.future.running() or job.future.done())

    def counts(self) -> Counts:
        """Return how many pieces of work are queued and active."""
        with self._lock:
            return Counts(waiting=self._turns.waiting, active=self._turns.active)

    def cancel(self, name: str, *purposes: str) -> None:
        """Cancel the work of a BundleDeployment for some purposes; without any, for all."""
        with self._lock:
            for key in [key for key in self._jobs if key[0] == name and (not purposes or key[1] in purposes)]:
                self._cancel(self._jobs.pop(key))

    def stop(self) -> None:
        """Cancel everything, and start nothing from now on."""
        with self._lock:
            self._stopped = True
            for job in self._jobs.values():
                self._cancel(job)
            self._jobs.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _cancel(self, job: _Job) -> None:
        job.cancelled.set()
        self._turns.drop(job.share, job)

    def _start(self, name: str, ticket: str, work: Work[Any], place: Place) -> None:
        cancelled, future = threading.Event(), Future[Any]()
        # In the context of the pass that asks for it, so that log records carry the id of that pass.
        context = contextvars.copy_context()
        job = _Job(name, ticket, place.share, lambda: context.run(self._work, name, work, cancelled), cancelled, future)
        self._jobs[name, place.purpose] = job
        self._turns.add(place.share, job, later=place.later)
        self._start_ready(job)

    def _start_ready(self, new: _Job | None = None) -> None:
        while not self._stopped and (job := self._turns.begin()):
            job.future.set_running_or_notify_cancel()
            self._pool.submit(self._run, job, waited=job is not new)

    def _work(self, name: str, work: Work[Result], cancelled: threading.Event) -> Result:
        try:
            return work(cancelled)
        except (BundleError, ApiError, CancelledError):
            raise
        except BaseException as error:
            log.exception("preparation error", extra={"BundleDeployment": name})
            self._observer.bug_found()
            bug = InternalError(error)
        raise bug  # without the traceback, whose frames hold what was being rendered

    def _run(self, job: _Job, *, waited: bool) -> None:
        if waited:
            self._started(job.name)
        began = time.thread_time()
        try:
            result = job.run()
        except BaseException as error:  # noqa: BLE001 - `take` raises it
            job.future.set_exception(error.without_frames() if isinstance(error, BundleError) else error)
        else:
            job.future.set_result(result)
        with self._lock:
            self._turns.end(job.share, seconds=time.thread_time() - began)
            self._start_ready()
        self._finished(job.name)
