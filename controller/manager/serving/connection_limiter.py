"""How many may be connected: a bounded number in all and of each peer; a new one goes before one that is silent.

Nobody can keep others out by saying nothing: where the limit is reached, the connection that has been silent longest is
closed, of the same peer if that has reached its own limit. One that is being answered is never closed.

Not here: sockets (connection.py).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

ConnectionT = TypeVar("ConnectionT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many may be connected at the same time."""

    total: int
    per_peer: int
    """With one address. A kubelet has a connection for each probe that is under way, so two, and never for long."""


@dataclass(frozen=True, slots=True)
class _Admitted:
    peer: str
    is_silent: bool = True


class ConnectionLimiter(Generic[ConnectionT]):
    """Thread-safe."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._admitted: OrderedDict[ConnectionT, _Admitted] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many are admitted."""
        return len(self._admitted)

    def admit(self, connection: ConnectionT, peer: str) -> tuple[bool, ConnectionT | None]:
        """Admit a new connection; returns whether there was room, and which one has to be closed for it."""
        with self._lock:
            of_peer = [each for each, admitted in self._admitted.items() if admitted.peer == peer]
            evicted: ConnectionT | None = None
            if len(of_peer) >= self._limits.per_peer or len(self._admitted) >= self._limits.total:
                rivals = of_peer if len(of_peer) >= self._limits.per_peer else self._admitted
                evicted = self._find_silent(rivals)
                if evicted is None:
                    return False, None
                del self._admitted[evicted]
            self._admitted[connection] = _Admitted(peer)
            return True, evicted

    def _find_silent(self, connections: Iterable[ConnectionT]) -> ConnectionT | None:
        return next((each for each in connections if self._admitted[each].is_silent), None)

    def mark_heard(self, connection: ConnectionT) -> bool:
        """Note that its request is there; returns whether the connection is still admitted."""
        with self._lock:
            if connection not in self._admitted:
                return False
            self._admitted[connection] = _Admitted(self._admitted[connection].peer, is_silent=False)
            return True

    def release(self, connection: ConnectionT) -> None:
        """Make room, if the connection is still admitted."""
        with self._lock:
            self._admitted.pop(connection, None)
