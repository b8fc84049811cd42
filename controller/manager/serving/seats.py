"""Who may stay connected: a bounded number in all and of each peer, and whoever is new goes before who is silent.

Nobody can keep others out by saying nothing: where no seat is left, the one that has been silent for the longest time
is cut, of the same peer if that has its share already. Only who is being answered is never cut.

Not here: sockets (server.py).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Guest = TypeVar("Guest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How many may be connected at the same time."""

    total: int
    per_peer: int
    """With one address. A kubelet has a connection for each probe that is under way, so two, and never for long."""


@dataclass(frozen=True, slots=True)
class _Seat:
    peer: str
    is_silent: bool = True


class Seats(Generic[Guest]):
    """Thread-safe."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._taken: OrderedDict[Guest, _Seat] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many are taken."""
        return len(self._taken)

    def take(self, guest: Guest, peer: str) -> tuple[bool, Guest | None]:
        """Seat somebody who has just connected; returns whether there is a seat, and who has to leave for it."""
        with self._lock:
            peers = [each for each, seat in self._taken.items() if seat.peer == peer]
            leaves: Guest | None = None
            if len(peers) >= self._places.per_peer or len(self._taken) >= self._places.total:
                rivals = peers if len(peers) >= self._places.per_peer else self._taken
                leaves = self._find_silent(rivals)
                if leaves is None:
                    return False, None
                del self._taken[leaves]
            self._taken[guest] = _Seat(peer)
            return True, leaves

    def _find_silent(self, guests: Iterable[Guest]) -> Guest | None:
        return next((guest for guest in guests if self._taken[guest].is_silent), None)

    def hear(self, guest: Guest) -> bool:
        """Note that somebody has said what it wants; returns whether it still has its seat."""
        with self._lock:
            if guest not in self._taken:
                return False
            self._taken[guest] = _Seat(self._taken[guest].peer, is_silent=False)
            return True

    def leave(self, guest: Guest) -> None:
        """Free the seat of somebody who goes, if it has one."""
        with self._lock:
            self._taken.pop(guest, None)
