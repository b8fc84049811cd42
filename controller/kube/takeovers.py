"""Takes over from shards that nobody serves: whoever holds their Leases knows that their controllers have stopped.

A controller that waits for another shard takes part in the election of that shard, for as long as one BundleDeployment
waits. It wins once the Lease has expired or was released, says so, and releases the Lease as soon as none waits any
more, or after a while: a BundleDeployment that cannot be taken over must not keep the shard from others. A new
controller of that shard continues then; it does not know the BundleDeployments that have moved.
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
Take = Callable[[str, Callable[[], None], Callable[[], None]], Election]
"""Returns the participation in the election with a Lease; calls the functions when it was won, or lost again."""


@dataclass(slots=True)
class _Takeover:
    election: Election
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
        self._lock = threading.Lock()

    def wait(self, shard: str, name: str) -> bool:
        """Wait for the Lease of a shard that holds a BundleDeployment; returns whether this process holds it now."""
        with self._lock:
            found = self._by_shard.get(shard)
            if found is None:
                election = self._take(Shard(shard).lease, lambda: self._won(shard), lambda: self._lost(shard))
                found = self._by_shard[shard] = _Takeover(election)
                election.start()
            found.waiting.add(name)
            is_over = found.won_at is not None and self._clock() - found.won_at > LONGEST_SECONDS
            if not is_over:
                return found.election.leading
            del self._by_shard[shard]
        found.election.stop(0)
        return False

    def end(self, name: str) -> None:
        """Wait no longer for a BundleDeployment; the Lease is released if it was the last one."""
        with self._lock:
            for takeover in self._by_shard.values():
                takeover.waiting.discard(name)
            ended = [shard for shard, takeover in self._by_shard.items() if not takeover.waiting]
            elections = [self._by_shard.pop(shard).election for shard in ended]
        for election in elections:
            election.stop(0)

    def stop(self) -> None:
        """Release all Leases."""
        with self._lock:
            elections = [takeover.election for takeover in self._by_shard.values()]
            self._by_shard.clear()
        for election in elections:
            election.stop(0)

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
