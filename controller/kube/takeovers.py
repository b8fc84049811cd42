"""Takes over from shards that nobody serves: whoever holds their Leases knows that their controllers have stopped.

A controller that waits for another shard takes part in the election of that shard, for as long as one BundleDeployment
waits. It wins once the Lease has expired or was released, says so, and releases the Lease as soon as none waits any
more, or after a while: a BundleDeployment that cannot be taken over must not keep the shard from others. A new
controller of that shard continues then; it does not know the BundleDeployments that have moved.

Each election has threads of its own, and users choose the names of shards: so few take place at the same time, in turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.kube.lease import Election
from controller.kube.shard import Shard

LONGEST_SECONDS = 10.0
"""For so long the Lease of another shard is held at most."""
MOST = 4
"""Elections at the same time."""
TURN_SECONDS = 20.0
"""After so long an election that was not won makes room for another one."""
Take = Callable[[str, Callable[[], None], Callable[[], None]], Election]
"""Returns the participation in the election with a Lease; calls the functions when it was won, or lost again."""


@dataclass(slots=True)
class _Takeover:
    election: Election
    began: float
    won_at: float | None = None
    """When this process won the Lease."""
    waiting: set[str] = field(default_factory=set)
    """Names of BundleDeployments."""


class Takeovers:
    """Thread-safe.

    Args:
        take: see Take.
        notify: gets the names of the BundleDeployments that may be taken over, or must wait again.
        clock: seconds.
    """

    def __init__(self, take: Take, notify: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._take, self._notify, self._clock = take, notify, clock
        self._by_shard: dict[str, _Takeover] = {}
        self._queued: dict[str, set[str]] = {}
        """The shards whose elections must wait, with the names of BundleDeployments."""
        self._lock = threading.Lock()

    def wait(self, shard: str, name: str) -> bool:
        """Wait for the Lease of a shard that holds a BundleDeployment; returns whether this process holds it now."""
        with self._lock:
            found, ended = self._find(shard, name)
            if found:
                found.waiting.add(name)
                if found.won_at is not None and self._clock() - found.won_at > LONGEST_SECONDS:
                    ended.append(self._by_shard.pop(shard))
                    found = None
            is_leading = found is not None and found.election.leading
        self._end(ended)
        return is_leading

    def _find(self, shard: str, name: str) -> tuple[_Takeover | None, list[_Takeover]]:
        """Return the election of a shard, begun now if it is its turn, and those that end for it."""
        ended: list[_Takeover] = []
        if shard not in self._by_shard:
            now = self._clock()
            late = [each for each, it in self._by_shard.items() if it.won_at is None and now - it.began > TURN_SECONDS]
            if len(self._by_shard) >= MOST and late:
                ended.append(self._by_shard.pop(late[0]))
                self._queued[late[0]] = ended[0].waiting
            if len(self._by_shard) >= MOST:
                self._queued.setdefault(shard, set()).add(name)
                return None, ended
            election = self._take(Shard(shard).lease, lambda: self._won(shard), lambda: self._lost(shard))
            self._by_shard[shard] = _Takeover(election, now, waiting=self._queued.pop(shard, set()))
            election.start()
        return self._by_shard[shard], ended

    def end(self, name: str) -> None:
        """Wait no longer for a BundleDeployment; the Lease is released if it was the last one."""
        with self._lock:
            for waiting in (*(each.waiting for each in self._by_shard.values()), *self._queued.values()):
                waiting.discard(name)
            self._queued = {shard: waiting for shard, waiting in self._queued.items() if waiting}
            over = [shard for shard, takeover in self._by_shard.items() if not takeover.waiting]
            ended = [self._by_shard.pop(shard) for shard in over]
        self._end(ended)

    def stop(self) -> None:
        """Release all Leases."""
        with self._lock:
            ended = list(self._by_shard.values())
            self._by_shard.clear()
            self._queued.clear()
        self._end(ended)

    def _end(self, ended: list[_Takeover]) -> None:
        """Release the Leases of elections, and notify those whose turn it is."""
        for takeover in ended:
            takeover.election.stop(0)
        if ended:
            self._notify_queued()

    def _notify_queued(self) -> None:
        with self._lock:
            room = max(MOST - len(self._by_shard), 0)
            names = [name for waiting in list(self._queued.values())[:room] for name in sorted(waiting)]
        for name in names:
            self._notify(name)

    def _won(self, shard: str) -> None:
        with self._lock:
            found = self._by_shard.get(shard)
            waiting = sorted(found.waiting) if found else []
            if found:
                found.won_at = self._clock()
        for name in waiting:
            self._notify(name)

    def _lost(self, shard: str) -> None:
        """The Lease could not be renewed: take part again when the next pass asks for it."""
        with self._lock:
            found = self._by_shard.pop(shard, None)
        for name in sorted(found.waiting) if found else []:
            self._notify(name)
        self._notify_queued()
