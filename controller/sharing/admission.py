"""Memory that is held before it is used: what renders, runs git or works on a large revision waits until there is room.

Sizes are estimates that are never too small (formats/budget.py). Shares take turns, each one's requests in their order.
A share that holds some gets more only while more is free than it holds, so that there is room for whoever comes next,
and while others wait no more than half. A single request that is larger waits until there is enough, and what comes
later waits behind it, so that it gets its turn. Nobody polls: whoever is granted is called.

Not here: what a share is (revisions/service_accounts.py), how large anything is.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes

CANCEL_SECONDS = 0.5
"""Between two looks whether anybody still waits for what waits for memory."""


@dataclass(slots=True, eq=False)
class _Request:
    share: str
    size: int
    granted: Callable[[], None]
    """Called when it holds its memory, on any thread."""
    holds: bool = False


class Admission:
    """Thread-safe.

    Args:
        total: bytes that may be held at the same time.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._lines: OrderedDict[str, list[_Request]] = OrderedDict()
        """By share, whose turn is next first: what waits."""
        self._held: Counter[str] = Counter()
        self._asked: dict[Hashable, _Request] = {}

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        with self._lock:
            return self._held.total()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        with self._lock:
            return sum(map(len, self._lines.values()))

    @contextmanager
    def room(self, share: str, size: int, cancelled: threading.Event) -> Iterator[None]:
        """Hold memory for a block, once there is room. One block within another may wait for ever.

        Args:
            share: who waits.
            size: bytes.
            cancelled: ends the wait.

        Raises: BundleError (RenderLimitExceeded for more than there ever is; RenderFailed where it was cancelled).
        """
        if size > self.total:
            problem = f"takes up to {describe_bytes(size)} of memory, and there are {describe_bytes(self.total)} for it"
            remedy = "split the bundle, or give the controller more memory"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"making the revision {problem}; {remedy}")
        event = threading.Event()
        request = _Request(share, size, event.set)
        self._add(request)
        try:
            while not event.wait(CANCEL_SECONDS):
                if cancelled.is_set():
                    raise BundleError(Reason.RENDER_FAILED, "stopped: the result is not needed any more")
            yield
        finally:
            self._remove(request)

    def ask(self, key: Hashable, share: str, size: int, granted: Callable[[], None]) -> bool:
        """Return whether `key` holds memory, which it does from now on or from when `granted` is called.

        Whoever asks must `release` the key. What is larger than the total waits for all of it.
        """
        with self._lock:
            request = self._asked.get(key)
        if request is None:
            request = self._asked[key] = _Request(share, min(size, self.total), granted)
            self._add(request)
        return request.holds

    def release(self, key: Hashable) -> None:
        """Give back what a key holds, or waits for; nothing if it has not asked."""
        with self._lock:
            request = self._asked.pop(key, None)
        if request:
            self._remove(request)

    def _add(self, request: _Request) -> None:
        with self._lock:
            self._lines.setdefault(request.share, []).append(request)
        self._grant()

    def _remove(self, request: _Request) -> None:
        with self._lock:
            if request.holds:
                self._held[request.share] -= request.size
                self._held += Counter()  # forgets a share that holds nothing
            else:
                self._leave_line(request)
        self._grant()

    def _grant(self) -> None:
        """Grant what may be granted, and tell so outside of the lock."""
        while request := self._next():
            request.granted()

    def _next(self) -> _Request | None:
        with self._lock:
            free = self.total - self._held.total()
            for share, line in self._lines.items():
                request = line[0]
                if self._has_enough(request, free):
                    continue
                if request.size > free:
                    return None  # nobody overtakes it, or it would never have its turn
                self._leave_line(request)
                if share in self._lines:
                    self._lines.move_to_end(share)
                self._held[share] += request.size
                request.holds = True
                return request
        return None

    def _has_enough(self, request: _Request, free: int) -> bool:
        """Whether a share has to leave the rest to others that wait, or come."""
        held = self._held[request.share]
        while_others_wait = len(self._lines) > 1 and held + request.size > self.total // 2
        return held > 0 and (held >= free or while_others_wait)

    def _leave_line(self, request: _Request) -> None:
        line = self._lines[request.share]
        line.remove(request)
        if not line:
            del self._lines[request.share]
