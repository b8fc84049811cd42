"""The timing of a reflector: how long a watch may last and be silent, and the pause after a failure. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.kube.client import PAGE_ITEMS
from controller.kube.errors import UNREACHABLE, ApiError
from controller.retries import Backoff

_BACKOFF = Backoff(first=0.8, longest=30, jitter=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Timing of a reflector, in seconds."""

    watch: tuple[int, int] = (240, 480)
    """Duration of a watch; random, so that many do not end at the same time."""
    slack: float = 15
    """How long a server may be silent beyond the end of a watch."""
    steady: float = 5
    """A watch that ends sooner counts as failed."""
    quiet: float = 150
    """A watch that is silent for longer has lost its server, which sends bookmarks every minute. One that never got an
    event in that time may wait for a version in the future, as after a restore of etcd: list again."""
    backoff: Backoff = _BACKOFF
    away: float = 5
    """Maximum pause while the server does not answer: a longer one saves nothing, and edits are not noticed."""
    asked: float = 5
    """Maximum pause at the request of the server (priority and fairness: one second): one reply must not hide a kind
    for longer."""
    page: int = PAGE_ITEMS
    """Objects in a page, not seconds."""

    def silence(self, seconds: int) -> float:
        """Return how long a watch of so many seconds may be silent."""
        return min(self.quiet, seconds + self.slack)

    def choose_pause(self, failures: int, error: ApiError | None) -> float:
        """Return how long to wait after so many failures in a row, `error` being the last."""
        backoff = self.backoff
        if error is not None and error.reason == UNREACHABLE:
            backoff = replace(backoff, longest=min(backoff.longest, self.away))
        asked = (error.retry_after or 0.0) if error else 0.0
        return max(backoff.choose_delay(failures), min(asked, self.asked))


DEFAULT_PACE = Pace()
