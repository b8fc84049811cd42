"""What a pass gives to sources: credentials, and a place to say how far they are; and what it does when a Secret fails.

The functions run on the threads of the preparations. Nothing of a Secret is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, Source
from controller.desired import Aid
from controller.observe.secrets import SecretWatches, WatchedSecret
from controller.secrets import SecretReader, reader_of

PROGRESS_SECONDS = 5.0
MEBIBYTE = 1 << 20
_OF_SECRETS = frozenset({Reason.SECRET_NOT_FOUND, Reason.SECRET_INVALID, Reason.SECRET_FORBIDDEN, Reason.UNAUTHORIZED})


@dataclass(slots=True)
class FetchProgress:
    """How far the sources of one BundleDeployment are; a new text at most every 5 s, so that status is not flooded."""

    text: str = ""
    _done: dict[int, tuple[int, int]] = field(default_factory=dict)
    _told: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self, index: int, done: int, total: int) -> bool:
        """Note how far a source is, in bytes; returns whether there is something new to tell."""
        with self._lock:
            self._done[index] = (done, total)
            if time.monotonic() - self._told < PROGRESS_SECONDS:
                return False
            self._told = time.monotonic()
            self.text = ", ".join(_describe(index, *bytes_) for index, bytes_ in sorted(self._done.items()))
            return True


def _describe(index: int, done: int, total: int) -> str:
    of = f" of {total // MEBIBYTE}" if total else ""
    return f"spec.sources[{index}]: {done // MEBIBYTE}{of} MiB"


class Assistant:
    """Helps the sources of BundleDeployments.

    Args:
        wake: asks for a pass over a BundleDeployment.
    """

    def __init__(self, secrets: SecretReader, watches: SecretWatches, wake: Callable[[str], None]) -> None:
        self._secrets, self._watches, self._wake = secrets, watches, wake

    def aid(self, deployment: BundleDeployment, progress: FetchProgress) -> Aid:
        """Return what the sources of a BundleDeployment may use."""

        def report(index: int, done: int, total: int) -> None:
            if progress.update(index, done, total):
                self._wake(deployment.metadata.name)

        return Aid(
            credentials=lambda index, source: self._secrets.credentials(deployment, index, source), progress=report
        )

    def watch_secrets(self, deployment: BundleDeployment, failure: BundleError | None) -> None:
        """Watch the Secrets that a failure may be about, and none once there is no such failure any more."""
        if failure is None or failure.reason not in _OF_SECRETS:
            self.forget(deployment.metadata.name)
            return
        missing = failure.reason is Reason.SECRET_NOT_FOUND
        named = [_watched(deployment, source) for source in deployment.spec.sources]
        self._watches.watch(deployment.metadata.name, {secret: missing for secret in named if secret})

    def forget(self, name: str) -> None:
        """Watch no Secret for a BundleDeployment."""
        self._watches.watch(name, {})


def _watched(deployment: BundleDeployment, source: Source) -> WatchedSecret | None:
    reference = source.secret
    if reference is None:
        return None
    user = reader_of(deployment)
    namespace = reference.namespace or deployment.spec.install_namespace or ""
    return WatchedSecret(namespace, reference.name, user.name if user else "")
