"""What sources and formats may use: credentials, memory, and a place to report progress.

They run on the threads of background.py. Of a Secret only name and version are remembered, to watch it after a failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from api.errors import BundleError
from api.plugins import MEBIBYTE, Credentials, LocalContent
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, Source
from controller.build.request import BuildContext
from controller.observe.following import NamedWatches, WatchedObject
from controller.revisions.credentials import SecretReader
from controller.revisions.quarantine import Quarantine, subject_of
from controller.sharing import Admission, share_of

PROGRESS_SECONDS = 5.0
KIBIBYTE = 1024
# Failures that a changed Secret can resolve: forges answer 404 to unknown users, and it has certificates and host keys.
_OF_SECRETS = frozenset(
    {
        Reason.SECRET_NOT_FOUND,
        Reason.SECRET_INVALID,
        Reason.SECRET_FORBIDDEN,
        Reason.UNAUTHORIZED,
        Reason.NOT_FOUND,
        Reason.TLS_VERIFICATION_FAILED,
        Reason.HOST_KEY_UNKNOWN,
        Reason.HOST_KEY_MISMATCH,
        Reason.INSECURE_REFUSED,
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        Reason.NAMESPACE_NOT_FOUND,
    }
)


@dataclass(slots=True)
class SourceProgress:
    """What one piece of work reports about its sources. Thread-safe.

    Attributes:
        ticket: of the work.
        clock: monotonic seconds.
        text: the progress of the sources; changes at most every 5 s, so that status is not flooded.
    """

    ticket: str = ""
    clock: Callable[[], float] = time.monotonic
    text: str = ""
    _done: dict[int, tuple[int, int]] = field(default_factory=dict)
    _reported_at: float = 0.0
    _read: dict[int, dict[WatchedObject, str]] = field(default_factory=dict)
    _local: dict[int, dict[WatchedObject, str]] = field(default_factory=dict)
    _refused: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._reported_at = self.clock()

    def advance(self, index: int, done: int, total: int) -> bool:
        """Record the progress of a source, in bytes; returns whether there is a new text."""
        with self._lock:
            self._done[index] = (done, total)
            if self.clock() - self._reported_at < PROGRESS_SECONDS:
                return False
            self._reported_at = self.clock()
            self.text = ", ".join(_describe(index, *amounts) for index, amounts in sorted(self._done.items()))
            return True

    def note_secret(self, index: int, secret: WatchedObject, version: str) -> None:
        """Record the version of a Secret that was read for a source."""
        with self._lock:
            self._read.setdefault(index, {})[secret] = version

    def note_local(self, index: int, watched: WatchedObject, version: str | None) -> None:
        """Record the version of a ConfigMap with content that was read for a source, to follow it; None: not to."""
        with self._lock:
            found = self._local.setdefault(index, {})
            found.pop(watched, None)
            if version is not None:
                found[watched] = version

    def note_end(self, index: int, failure: BundleError | None) -> None:
        """Record the result of a source."""
        with self._lock:
            if failure and failure.reason in _OF_SECRETS:
                self._refused.add(index)
            else:
                self._refused.discard(index)

    def to_follow(self) -> dict[WatchedObject, str]:
        """Return the Secrets of the sources that fail now, and local content, each with the version that was read."""
        with self._lock:
            secrets = [self._read.get(index, {}) for index in self._refused]
            return {each: version for read in (*secrets, *self._local.values()) for each, version in read.items()}


def _describe(index: int, done: int, total: int) -> str:
    size, unit = (MEBIBYTE, "MiB") if max(done, total) >= MEBIBYTE else (KIBIBYTE, "KiB")
    of = f" of {total // size}" if total else ""
    return f"spec.sources[{index}]: {done // size}{of} {unit}"


class SourceAccess:
    """Gives each piece of work what its sources may use. Thread-safe.

    Args:
        wake: requests a pass over a BundleDeployment.
        admission: of memory.
        quarantine: marks each preparation.
    """

    def __init__(
        self,
        secrets: SecretReader,
        watches: NamedWatches,
        wake: Callable[[str], None],
        admission: Admission,
        quarantine: Quarantine,
    ) -> None:
        self._secrets, self._watches, self._wake = secrets, watches, wake
        self._admission, self._quarantine = admission, quarantine

    def build_context(self, deployment: BundleDeployment, progress: SourceProgress) -> BuildContext:
        """Return what the sources and the format of a BundleDeployment may use."""

        def _read(index: int, source: Source) -> Credentials | None:
            return self._secrets.credentials(
                deployment, index, source, lambda secret, version: progress.note_secret(index, secret, version)
            )

        def _report(index: int, done: int, total: int) -> None:
            if progress.advance(index, done, total):
                self._wake(deployment.metadata.name)

        def _read_local(index: int, name: str) -> LocalContent:
            place = f"spec.sources[{index}].configMap"
            return self._secrets.local_content(
                deployment, name, place, lambda watched, version: progress.note_local(index, watched, version)
            )

        subject, tenant = subject_of(deployment), share_of(deployment)

        @contextmanager
        def _room(size: int, cancelled: threading.Event) -> Iterator[None]:
            is_suspect = self._quarantine.is_suspect(subject)
            needs = self._admission.total if is_suspect else size
            alone = self._quarantine.alone(subject) if is_suspect else nullcontext()
            with self._admission.room(tenant, needs, cancelled), alone:
                yield

        return BuildContext(
            credentials=_read,
            config_map=_read_local,
            progress=_report,
            ended=progress.note_end,
            tenant=tenant,
            room=_room,
            guard=lambda: self._quarantine.guard(subject),
        )

    def watch_secrets(self, name: str, found: Iterable[SourceProgress], *, share: str = "") -> None:
        """Watch the Secrets of sources that fail, and local content, and nothing else, at the expense of a share."""
        secrets: dict[WatchedObject, str] = {}
        for progress in found:
            secrets |= progress.to_follow()
        self._watches.watch(name, secrets, share=share)
