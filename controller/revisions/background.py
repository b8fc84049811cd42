"""Slow work (resolving, fetching, rendering) in a thread pool of its own, and the quarantine of what crashes it.

No reconcile worker waits for slow work. A pass asks for a result by a ticket that identifies the inputs. While the work
is active the pass continues without it and repairs what is installed. A new ticket cancels the work of the previous
one. Tenants take turns, and none gets all threads (sharing.py): sources that never end hold up only the tenant that
names them. Who has used less processor time is served first.

A BundleDeployment whose preparation crashed the process twice is set aside. A file marks each preparation while it is
active. It is removed when the preparation ends, whatever the result, and when the process stops or loses its Lease; a
file that exists at start was left by a crash. Of several marked ones none is known to be the cause: each becomes a
suspect and is rendered while nothing else is (`alone`), so that the next crash shows which.

The files are in the folder of the content store, which outlives a restart of the container but not the pod: another
node may have more memory. A BundleDeployment that is set aside is retried when something relevant changes: the spec,
the annotation that requests it, the release of the controller, or its memory limit.

Not here: preparing (building/builder.py), and holding memory for it (sharing.py).
"""

from __future__ import annotations

import contextvars
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
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
    work: Work[Any]
    context: contextvars.Context
    """Of the pass that asks for it, so that log records carry the id of that pass."""
    cancelled: threading.Event
    future: Future[Any]


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

    def counts(self) -> dict[str, int]:
        """Return how many pieces of work are waiting and active, by these words."""
        with self._lock:
            return {"waiting": self._turns.waiting, "active": self._turns.active}

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
        job = _Job(name, ticket, place.share, work, contextvars.copy_context(), threading.Event(), Future[Any]())
        self._jobs[name, place.purpose] = job
        self._turns.add(place.share, job, later=place.later)
        self._start_ready(job)

    def _start_ready(self, new: _Job | None = None) -> None:
        while not self._stopped and (job := self._turns.begin()):
            job.future.set_running_or_notify_cancel()
            self._pool.submit(job.context.run, self._run, job, waited=job is not new)

    def _run(self, job: _Job, *, waited: bool) -> None:
        if waited:
            self._started(job.name)
        began = time.thread_time()
        try:
            job.future.set_result(job.work(job.cancelled))
        except BundleError as error:
            job.future.set_exception(error.without_frames())
        except (ApiError, CancelledError) as error:
            job.future.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - logged, and in the future
            try:
                log.exception("preparation error", extra={"BundleDeployment": job.name})
                self._observer.bug_found()
            finally:
                # Without the traceback, whose frames hold what was being rendered.
                job.future.set_exception(InternalError(error))
        finally:
            with self._lock:
                self._turns.end(job.share, seconds=time.thread_time() - began)
                self._start_ready()
            self._finished(job.name)


CRASHES = 2
"""After so many crashes a BundleDeployment is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A mark while a BundleDeployment is prepared, a suspicion afterwards; equal if one would repeat the other."""

    name: str = field(compare=False)
    uid: str
    spec_version: str
    """Generation, and the annotation that requests a reconcile."""
    circumstances: str
    alone: bool = field(default=False, compare=False)
    crashes: int = field(default=0, compare=False)


class Quarantine:
    """Thread-safe.

    Args:
        find_folder: returns a folder of this process alone, which is created if missing; None while it cannot be used:
            until then nothing is remembered.
        circumstances: the release and the memory limit: a crash under other ones is forgotten.
    """

    def __init__(self, find_folder: Callable[[], Path | None], circumstances: str) -> None:
        self._find_folder, self._circumstances = find_folder, circumstances
        self._marks: Path | None = None
        self._suspicions: Path | None = None
        self._is_open = False
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self._records: dict[str, _Record] = {}
        self._open()

    def _open(self) -> None:
        # The disk may not have been available before.
        with self._lock:
            folder = None if self._is_open else self._find_folder()
            if folder is None:
                return
            self._is_open = True
            self._marks, self._suspicions = folder / "preparing", folder / "suspects"
            with suppress(OSError):  # a full or read-only disk: the preparation reports it
                for made in (self._marks, self._suspicions):
                    made.mkdir(parents=True, exist_ok=True)
                self._records = {record.uid: record for record in _read_all(self._suspicions)}
                self._learn_from(_read_all(self._marks))
                self._remove_marks()

    def is_suspect(self, deployment: BundleDeployment) -> bool:
        """Whether a BundleDeployment may have caused a crash, and must be rendered alone."""
        return self._find(self._mark(deployment)) is not None

    @contextmanager
    def guard(self, deployment: BundleDeployment) -> Iterator[None]:
        """Mark a preparation for the block that runs it; a block that ends clears the suspicion.

        Raises: BundleError (Quarantined) if it crashed too often.
        """
        self._open()
        mark = self._mark(deployment)
        _refuse_crashing(self._find(mark))
        with self._lock:
            self._running[mark.uid] = self._running.get(mark.uid, 0) + 1
            if self._running[mark.uid] == 1:
                self._write(self._marks, mark)
        try:
            yield
        finally:
            with self._lock:
                self._running[mark.uid] -= 1
                if not self._running[mark.uid]:
                    del self._running[mark.uid]
                    _remove(self._marks, mark.uid)
                    self._forgive(mark)

    @contextmanager
    def alone(self, deployment: BundleDeployment) -> Iterator[None]:
        """Mark, for a block within `guard`, that no other preparation is active and could cause a crash."""
        mark = self._mark(deployment)
        with self._lock:
            self._write(self._marks, replace(mark, alone=True))
        try:
            yield
        finally:
            with self._lock:
                self._write(self._marks, mark)

    def end(self) -> None:
        """Remove all marks, since the process stops: active preparations are not the cause."""
        with self._lock, suppress(OSError):
            self._is_open = True  # and nothing is marked any more
            self._remove_marks()
            self._marks = None

    def _remove_marks(self) -> None:
        for file in list(self._marks.iterdir()) if self._marks else []:
            file.unlink(missing_ok=True)

    def _find(self, mark: _Record) -> _Record | None:
        record = self._records.get(mark.uid)
        return record if record == mark else None

    def _mark(self, deployment: BundleDeployment) -> _Record:
        metadata = deployment.metadata
        requested = metadata.annotations.get(names.RECONCILE_REQUESTED_AT, "")
        return _Record(
            name=metadata.name,
            uid=metadata.uid,
            spec_version=f"{metadata.generation} {requested}",
            circumstances=self._circumstances,
        )

    def _forgive(self, mark: _Record) -> None:
        record = self._find(mark)
        if mark.uid in self._records and (record is None or record.crashes < CRASHES):
            del self._records[mark.uid]
            _remove(self._suspicions, mark.uid)

    def _learn_from(self, marks: list[_Record]) -> None:
        sure = [mark for mark in marks if mark.alone] or (marks if len(marks) == 1 else [])
        for mark in sure or marks:
            before = self._find(mark)
            known = before.crashes if before else 0
            record = replace(mark, alone=False, crashes=known + 1 if sure else max(known, 1))
            self._records[mark.uid] = record
            self._write(self._suspicions, record)
            about = {"BundleDeployment": mark.name, "crashes": record.crashes}
            log.warning("previous process crashed during preparation", extra=about)

    @staticmethod
    def _write(folder: Path | None, record: _Record) -> None:
        # Whole or not at all; a disk that does not take it is ignored.
        if folder is None:
            return
        path = folder / _file_name(record.uid)
        # Not synced: written data outlives the process, and crashes of the whole node are not covered.
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            Path(f"{path}.new").write_text(json.dumps(asdict(record)), encoding="utf-8")
            Path(f"{path}.new").replace(path)


def _refuse_crashing(record: _Record | None) -> None:
    if record and record.crashes >= CRASHES:
        problem = f"the controller crashed {record.crashes} times while it prepared this bundle"
        remedy = "make the bundle smaller or raise the controller's memory limit, then change the spec or set the"
        message = f"{problem}; {remedy} annotation {names.RECONCILE_REQUESTED_AT}"
        raise BundleError(Reason.QUARANTINED, message)


def _file_name(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:32]


def _remove(folder: Path | None, uid: str) -> None:
    if folder:
        with suppress(OSError):
            (folder / _file_name(uid)).unlink(missing_ok=True)


def _read_all(folder: Path | None) -> list[_Record]:
    found = []
    for file in sorted(folder.iterdir()) if folder else []:
        try:
            if file.suffix:
                raise ValueError(file.name)  # noqa: TRY301 - it was being written
            found.append(_Record(**json.loads(file.read_bytes())))
        except (OSError, ValueError, TypeError):
            file.unlink(missing_ok=True)
    return found
