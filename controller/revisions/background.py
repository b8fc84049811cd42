"""Slow work (resolving, fetching, rendering) on a pool of its own, so that no reconcile worker ever waits for it.

A pass asks for the result of a piece of work and names its inputs by a ticket; while the work goes on the pass goes on
without it, and repairs what is installed. Work whose ticket nobody asks for any more is cancelled. Tenants take turns,
and none gets all threads (sharing/shares.py): sources that never end hold up whoever names them, and nobody else.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from controller.sharing.shares import Turns

Result = TypeVar("Result")
Work = Callable[[threading.Event], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a piece of work waits for its turn."""

    share: str = ""
    """See sharing/shares.py."""
    purpose: str = ""
    """Of each purpose a BundleDeployment has one piece of work at a time."""
    later: bool = False
    """Whether it may wait for all other work of its share."""


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
    """Pieces of work at one moment."""

    waiting: int
    active: int


class BackgroundWork:
    """Runs at most one piece of work of each purpose for each BundleDeployment.

    Args:
        workers: pieces of work at the same time.
        finished: called with the name of a BundleDeployment whose work has ended, on the thread of the work.
        begun: called so when work begins that had to wait for its turn.
    """

    def __init__(
        self, workers: int, finished: Callable[[str], None], begun: Callable[[str], None] = lambda _name: None
    ) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="prepare")
        self._finished, self._begun = finished, begun
        self._turns: Turns[_Job] = Turns(workers)
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def take(self, name: str, ticket: str, work: Work[Result], place: Place = _USUAL) -> Result | None:
        """Return the result of `work`, or None while it goes on; the first call with a ticket starts it.

        A result is handed out once; what `work` raises is raised here. After `stop` nothing is started.
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
        """Start work that a pass is going to ask for, unless something of this purpose goes on already."""
        with self._lock:
            if not self._stopped and (name, place.purpose) not in self._jobs:
                self._start(name, ticket, work, place)

    def goes_on(self, name: str) -> bool:
        """Return whether any work for a BundleDeployment is under way, or waits for its turn."""
        with self._lock:
            return any(key[0] == name and not job.future.done() for key, job in self._jobs.items())

    def waits(self, name: str, purpose: str = "") -> bool:
        """Return whether work waits for its turn."""
        with self._lock:
            job = self._jobs.get((name, purpose))
            return job is not None and not (job.future.running() or job.future.done())

    def counts(self) -> Counts:
        """Return how much waits and how much is under way."""
        with self._lock:
            return Counts(waiting=self._turns.waiting, active=self._turns.active)

    def cancel(self, name: str, *purposes: str) -> None:
        """Stop what goes on for a BundleDeployment and some purposes (none named: all), since nobody needs it now."""
        with self._lock:
            for key in [key for key in self._jobs if key[0] == name and (not purposes or key[1] in purposes)]:
                self._cancel(self._jobs.pop(key))

    def stop(self) -> None:
        """Cancel everything and start nothing more."""
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
        # In the context of the pass that asks for it: what is logged carries its id.
        context = contextvars.copy_context()
        job = _Job(name, ticket, place.share, lambda: context.run(work, cancelled), cancelled, future)
        self._jobs[name, place.purpose] = job
        self._turns.add(place.share, job, later=place.later)
        self._begin_what_may(job)

    def _begin_what_may(self, new: _Job | None = None) -> None:
        """Begin all whose turn it is; who was not begun at once is told of it."""
        while not self._stopped and (job := self._turns.begin()):
            job.future.set_running_or_notify_cancel()
            self._pool.submit(self._run, job, waited=job is not new)

    def _run(self, job: _Job, *, waited: bool) -> None:
        if waited:
            self._begun(job.name)
        try:
            result = job.run()
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result raises it
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
        with self._lock:
            self._turns.end(job.share)
            self._begin_what_may()
        self._finished(job.name)
