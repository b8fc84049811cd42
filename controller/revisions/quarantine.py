"""A crash is remembered: a BundleDeployment whose preparation ended the process twice is set aside.

While something is prepared a file says so. It is gone when that has ended, however it did, and when the process is
told to stop or loses its Lease; one that is there at the start was left by a crash. Where several are there, none of
them is to blame yet: each is a suspect, and is rendered while nothing else is (`alone`), so that the next crash tells.

The files are in the folder of the content store, which outlives a restart of the container and not the pod: another
node may have more memory. Whoever is set aside is tried again when something that decides has changed: the spec, the
annotation that asks for it, the release of the controller, the memory that it may use.

Not here: what is prepared (build/builder.py), and what holds memory for it (sharing/admission.py).
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment

log = logging.getLogger(__name__)
CRASHES = 2
"""After so many a BundleDeployment is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is prepared, and all that decides how that ends."""

    name: str
    uid: str
    spec_version: str
    """Generation, and the annotation that asks for everything anew."""


def subject_of(deployment: BundleDeployment) -> Subject:
    """Return what is prepared for a BundleDeployment."""
    metadata = deployment.metadata
    spec_version = f"{metadata.generation} {metadata.annotations.get(names.RECONCILE_REQUESTED_AT, '')}"
    return Subject(name=metadata.name, uid=metadata.uid, spec_version=spec_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What is known of one BundleDeployment: a mark while it is prepared, a suspicion afterwards."""

    name: str
    uid: str
    spec_version: str
    circumstances: str
    alone: bool = False
    crashes: int = 0

    def is_about(self, subject: Subject, circumstances: str) -> bool:
        """Whether what crashed would be tried once more in the same way."""
        return (self.uid, self.spec_version, self.circumstances) == (subject.uid, subject.spec_version, circumstances)


class Quarantine:
    """Thread-safe.

    Args:
        folder: of this process alone; made when missing. None: nothing is remembered.
        circumstances: the release and the memory limit: where they differ a crash is forgotten.
    """

    def __init__(self, folder: Path | None, circumstances: str) -> None:
        self._circumstances = circumstances
        self._marks = folder and folder / "preparing"
        self._suspicions = folder and folder / "suspects"
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self._records: dict[str, _Record] = {}
        with suppress(OSError):  # of a disk that is full or read-only: preparing needs it, and says so
            for made in (self._marks, self._suspicions):
                if made:
                    made.mkdir(parents=True, exist_ok=True)
            self._records = {record.uid: record for record in _read_all(self._suspicions)}
            self._learn_from(_read_all(self._marks))
            self._take_marks_away()

    def check(self, subject: Subject) -> None:
        """Refuse what crashed too often.

        Raises: BundleError (Quarantined).
        """
        record = self._record(subject)
        if record and record.crashes >= CRASHES:
            problem = f"the controller died {record.crashes} times while it prepared the bundle"
            remedy = "make the bundle smaller, or raise the controller's memory limit; then change the spec, or set"
            message = f"{problem}; {remedy} the annotation {names.RECONCILE_REQUESTED_AT}"
            raise BundleError(Reason.QUARANTINED, message)

    def is_suspect(self, subject: Subject) -> bool:
        """Whether a crash may have been its doing: it is to be rendered alone."""
        return self._record(subject) is not None

    @contextmanager
    def guard(self, subject: Subject) -> Iterator[None]:
        """Remember for a block that something is prepared; once that has ended nobody suspects it any more.

        Raises: BundleError (Quarantined).
        """
        self.check(subject)
        with self._lock:
            self._running[subject.uid] = self._running.get(subject.uid, 0) + 1
            if self._running[subject.uid] == 1:
                self._write(self._marks, self._mark(subject))
        try:
            yield
        finally:
            with self._lock:
                self._running[subject.uid] -= 1
                if not self._running[subject.uid]:
                    del self._running[subject.uid]
                    _remove(self._marks, subject.uid)
                    self._forgive(subject)

    @contextmanager
    def alone(self, subject: Subject) -> Iterator[None]:
        """Remember for a block within `guard` that nothing else runs that could be to blame."""
        with self._lock:
            self._write(self._marks, replace(self._mark(subject), alone=True))
        try:
            yield
        finally:
            with self._lock:
                self._write(self._marks, self._mark(subject))

    def end(self) -> None:
        """Say that this process ends in order: what is still being prepared is not to blame."""
        with self._lock, suppress(OSError):
            self._take_marks_away()
            self._marks = None

    def _take_marks_away(self) -> None:
        for file in list(self._marks.iterdir()) if self._marks else []:
            file.unlink(missing_ok=True)

    def _record(self, subject: Subject) -> _Record | None:
        record = self._records.get(subject.uid)
        return record if record and record.is_about(subject, self._circumstances) else None

    def _mark(self, subject: Subject) -> _Record:
        return _Record(
            name=subject.name, uid=subject.uid, spec_version=subject.spec_version, circumstances=self._circumstances
        )

    def _forgive(self, subject: Subject) -> None:
        """Drop a suspicion, unless it is a sure one: what is set aside was not tried."""
        record = self._records.get(subject.uid)
        if record and (record.crashes < CRASHES or not record.is_about(subject, self._circumstances)):
            del self._records[subject.uid]
            _remove(self._suspicions, subject.uid)

    def _learn_from(self, marks: list[_Record]) -> None:
        """Suspect who was being prepared when the process before this one died."""
        sure = [mark for mark in marks if mark.alone] or (marks if len(marks) == 1 else [])
        for mark in sure or marks:
            before = self._records.get(mark.uid)
            is_same = before and (before.spec_version, before.circumstances) == (mark.spec_version, mark.circumstances)
            known = before.crashes if before and is_same else 0
            record = replace(mark, alone=False, crashes=known + 1 if sure else max(known, 1))
            self._records[mark.uid] = record
            self._write(self._suspicions, record)
            about = {"BundleDeployment": mark.name, "crashes": record.crashes}
            log.warning("the process before this one died while this was prepared", extra=about)

    @staticmethod
    def _write(folder: Path | None, record: _Record) -> None:
        """Write a record, whole or not at all; a disk that takes none is no reason to stop."""
        if folder is None:
            return
        path = folder / _file_name(record.uid)
        # Not synced: what a process has written outlives it, and who crashes a whole node is not found out here.
        with suppress(OSError):
            Path(f"{path}.new").write_text(json.dumps(asdict(record)), encoding="utf-8")
            Path(f"{path}.new").replace(path)


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
