"""Limits on connections, in total and for each peer, that silent peers cannot use to keep others out.

When a limit is reached, a new connection replaces the one that has been silent for the longest time: of the same peer
if that has reached its own limit. A connection whose request has arrived is never closed for another.

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
    """Numbers of simultaneous connections."""

    total: int
    per_peer: int
    """Of one address. A kubelet has one short connection for each running probe, so two."""


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
        """Return the number of admitted connections."""
        return len(self._admitted)

    def admit(self, connection: ConnectionT, peer: str) -> tuple[bool, ConnectionT | None]:
        """Admit a new connection; return whether there was room, and the connection to close for it, if any."""
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
        """Note that the request of a connection has arrived; return whether the connection is still admitted."""
        with self._lock:
            if connection not in self._admitted:
                return False
            self._admitted[connection] = _Admitted(self._admitted[connection].peer, is_silent=False)
            return True

    def release(self, connection: ConnectionT) -> None:
        """Remove a connection, if it is still admitted."""
        with self._lock:
            self._admitted.pop(connection, None)
