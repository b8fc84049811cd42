"""Places that threads wait for, a share after the other: of few programs that may run at a time, say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from controller.sharing.shares import Turns

CANCEL_SECONDS = 0.1
"""Between two looks whether anybody still waits for what waits for a place."""


@dataclass(slots=True, eq=False)
class _Request:
    holds: bool = False


class Places:
    """Thread-safe.

    Args:
        places: how many there are; a share alone gets half of them.
    """

    def __init__(self, places: int) -> None:
        self._turns = Turns[_Request](places)
        self._changed = threading.Condition()

    @contextmanager
    def place(self, share: str, cancelled: threading.Event) -> Iterator[bool]:
        """Hold a place for a block, once it is the turn of the share; False: `cancelled` was set before that."""
        request = _Request()
        with self._changed:
            self._turns.add(share, request)
            self._begin()
            while not (request.holds or cancelled.is_set()):
                self._changed.wait(CANCEL_SECONDS)
            self._turns.drop(share, request)
        try:
            yield request.holds
        finally:
            if request.holds:
                with self._changed:
                    self._turns.end(share)
                    self._begin()

    def _begin(self) -> None:
        while request := self._turns.begin():
            request.holds = True
        self._changed.notify_all()
