"""Waiting for memory or places: rendering, git, helm and passes over large revisions wait until there is room.

Sizes of memory are estimates that are never too small (formats/manifests.py). Shares take turns, in the order of the
time for which they have held room (shares.py). No one polls: a request that is granted is called.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes
from controller.sharing.shares import Turns

CANCEL_SECONDS = 0.5
"""Between two checks whether a request that waits was cancelled."""


@dataclass(slots=True, eq=False)
class _Request:
    share: str
    size: int
    granted: Callable[[], None]
    """Called when it is granted, on any thread."""
    holds: bool = False
    since: float = 0.0
    """When it was granted, in monotonic seconds."""


class Admission:
    """Thread-safe.

    Args:
        total: bytes, or places, that may be held at the same time.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._turns: Turns[_Request] = Turns(total)
        self._asked: dict[Hashable, _Request] = {}

    @property
    def held(self) -> int:
        """What is held now."""
        with self._lock:
            return self._turns.active

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        with self._lock:
            return self._turns.waiting

    @contextmanager
    def room(self, share: str, size: int, cancelled: threading.Event) -> Iterator[None]:
        """Hold room for a block, once there is enough. A second block within it may wait forever.

        Args:
            share: that pays for it.
            size: bytes, or places.
            cancelled: ends the wait.

        Raises: BundleError (RenderLimitExceeded if there is never enough memory; RenderFailed if it was cancelled).
        """
        if size > self.total:
            problem = (
                f"takes up to {describe_bytes(size)} of memory, more than the {describe_bytes(self.total)} available"
            )
            remedy = "split the bundle, or give the controller more memory"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"rendering the bundle {problem}; {remedy}")
        event = threading.Event()
        request = _Request(share, size, event.set)
        self._add(request)
        try:
            while not event.wait(CANCEL_SECONDS):
                if cancelled.is_set():
                    raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
            yield
        finally:
            self._remove(request)

    def ask(self, key: Hashable, share: str, size: int, granted: Callable[[], None]) -> bool:
        """Return whether `key` holds room; if not, it does from when `granted` is called.

        Callers must `release` the key. A size above the total waits for all of it.
        """
        with self._lock:
            request = self._asked.get(key)
        if request is None:
            request = self._asked[key] = _Request(share, min(size, self.total), granted)
            self._add(request)
        return request.holds

    def release(self, key: Hashable) -> None:
        """Give back what a key holds or waits for, if anything."""
        with self._lock:
            request = self._asked.pop(key, None)
        if request:
            self._remove(request)

    def _add(self, request: _Request) -> None:
        with self._lock:
            self._turns.add(request.share, request, size=request.size)
        self._grant()

    def _remove(self, request: _Request) -> None:
        with self._lock:
            if request.holds:
                self._turns.end(request.share, request.size, seconds=time.monotonic() - request.since)
            else:
                self._turns.drop(request.share, request)
        self._grant()

    def _grant(self) -> None:
        """Grant what can be granted, and call it without the lock."""
        while request := self._next():
            request.granted()

    def _next(self) -> _Request | None:
        with self._lock:
            if request := self._turns.begin():
                request.holds, request.since = True, time.monotonic()
            return request
