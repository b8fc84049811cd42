"""How far the builds are: which one runs, for how long, and how much is left. Durations are kept for the next time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hack.control_plane.cache import Tell

INTERVAL_SECONDS = 15.0
SHARE_TO_EXTRAPOLATE = 0.25
"""Packages of the standard library, which come first, say little about those of Kubernetes."""


class Durations:
    """The duration of each build on this machine, in one file each.

    Args:
        folder: of the files; created when missing.
        usual: seconds of each build where none is recorded.
    """

    def __init__(self, folder: Path, usual: Mapping[str, float]) -> None:
        self._folder = folder
        self._usual = usual

    def last(self, part: str) -> float | None:
        """Return the seconds that a build took last time, or None."""
        try:
            return float(self._file(part).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def expected(self, part: str) -> float:
        """Return how many seconds a build will probably take."""
        return self.last(part) or self._usual[part]

    def record(self, part: str, seconds: float) -> None:
        """Keep the duration of a build for the next time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file(part).write_text(f"{seconds:.0f}\n", encoding="utf-8")

    def _file(self, part: str) -> Path:
        return self._folder / f".{part}.seconds"


class Progress:
    """Reports the builds that run one after the other.

    Args:
        durations: of earlier builds.
        parts: in the order in which they are built.
        tell: called with each line.
        clock: seconds.
    """

    def __init__(
        self, durations: Durations, parts: Sequence[str], tell: Tell, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._durations = durations
        self._parts = list(parts)
        self._tell = tell
        self._clock = clock
        self._begun = self._told = 0.0

    def begin(self, part: str, names: str) -> None:
        """Report that a build begins, and how long it took last time."""
        self._begun = self._told = self._clock()
        last = self._durations.last(part)
        took = f"took {_spoken(last)} last time" if last else f"takes about {_spoken(self._durations.expected(part))}"
        self._tell(f"building {names} from Go modules, once: {took}{self._then(part)}")

    def report(self, part: str, done: int, total: int) -> None:
        """Report how far a build is, at most every 15 s."""
        now = self._clock()
        if now - self._told < INTERVAL_SECONDS:
            return
        self._told = now
        elapsed = now - self._begun
        left = estimate_left(done, total, elapsed, self._durations.expected(part))
        self._tell(
            f"building {part}: {min(done, total)} of {total} packages after {_spoken(elapsed)}, "
            f"about {_spoken(left)} left{self._then(part)}"
        )

    def end(self, part: str) -> None:
        """Report how long a build took, and keep it for the next time."""
        seconds = self._clock() - self._begun
        self._durations.record(part, seconds)
        self._tell(f"built {part} in {_spoken(seconds)}")

    def _then(self, part: str) -> str:
        later = self._parts[self._parts.index(part) + 1 :]
        seconds = sum(map(self._durations.expected, later))
        return f"; then {', '.join(later)} (about {_spoken(seconds)})" if later else ""


def estimate_left(done: int, total: int, elapsed: float, expected: float) -> float:
    """Return the seconds that are probably left: by the expected duration first, then by the pace so far."""
    share = min(done / total, 1.0) if total else 1.0
    whole = elapsed / share if share >= SHARE_TO_EXTRAPOLATE else max(expected, elapsed)
    return max(whole - elapsed, 0.0)


def _spoken(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
