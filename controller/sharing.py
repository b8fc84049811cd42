"""Fair shares: no tenant takes so much of a limited resource that nothing is left for the next one.

A share may take more of a resource only while more is free than it has taken: alone it gets half, with one other share
a third, and so on. A share that has nothing yet gets some as long as any is free. Who waits is served in the order of
the time that the shares have used, so that long items of one do not cost others more than its part.

Threads and passes wait for memory or places: rendering, git, helm and passes over large revisions wait until there
is room (`Admission`). Sizes of memory are estimates that are never too small (formats/manifests.py). No one polls: a
request that is granted is called. Not here: what is shared.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.content.limits import describe_bytes

Item = TypeVar("Item")
LEAD_SECONDS = 0.1
"""How much more time a share may have used before it waits for others: those of little cost alternate."""
MOST_LEAD_SECONDS = 10.0
"""No share waits for others to use more time than this, whatever it has used."""


def share_of(deployment: BundleDeployment) -> str:
    """Return the share of a BundleDeployment that is completed with its default account, as messages name it.

    A share is an install namespace, separately for BundleDeployments with and without an account: anyone with rights in
    one namespace has one share, however many BundleDeployments they create. Admission policies guard who may name an
    account of a namespace, and only administrators may name none. So no one can choose a share of another tenant. Those
    without an account share by namespace, too: a share each would put every tenant behind hundreds of them.
    """
    spec = deployment.spec
    if spec.service_account_name:
        return share_of_accounts(spec.install_namespace or "")
    return f'namespace "{spec.install_namespace or deployment.status.install_namespace}" (no serviceAccountName)'


def share_of_accounts(namespace: str) -> str:
    """Return the share of the BundleDeployments that act as ServiceAccounts of a namespace."""
    return f'namespace "{namespace}"'


class Shares:
    """Counts what each share has taken. Not thread-safe: its user needs a lock.

    Args:
        total: places, or bytes. A single place cannot be shared.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """What all shares have taken."""
        return self._taken.total()

    def allows(self, share: str, size: int = 1, *, others_wait: bool = False) -> bool:
        """Whether a share may have more as soon as there is room: while others wait, at most half of the total."""
        own = self._taken[share]
        is_too_much = others_wait and own + size > (self.total + 1) // 2
        return own == 0 or (own < self.total - self.taken and not is_too_much)

    def take(self, share: str, size: int = 1, *, others_wait: bool = False) -> bool:
        """Take some if there is room and the share may have more; returns whether it did."""
        if size > self.total - self.taken or not self.allows(share, size, others_wait=others_wait):
            return False
        self._taken[share] += size
        return True

    def give_back(self, share: str, size: int = 1) -> None:
        """Free what a share has taken."""
        self._taken[share] -= size
        self._taken += Counter()  # forgets shares that have nothing


class Turns(Generic[Item]):
    """Items that wait for their turn: shares take turns, one item each. Not thread-safe: its user needs a lock.

    A share that has used more time than others waits until they have caught up, or have nothing to do (start-time fair
    queuing). An item that is too large for now is not overtaken, or it would never get its turn.

    Args:
        total: the sizes of all active items together.
    """

    def __init__(self, total: int) -> None:
        self._shares = Shares(total)
        self._lines: OrderedDict[str, tuple[dict[Item, int], dict[Item, int]]] = OrderedDict()
        """The sizes of waiting items by share, next share first; the second dictionary waits behind the first."""
        self._virtual = 0.0
        """The seconds that each share would have used if all had always had something to do."""
        self._used: dict[str, float] = {}
        """The same for a share that has used more."""
        self._ahead: set[str] = set()
        """Shares that have used so much more that they wait for others."""

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return sum(len(items) for line in self._lines.values() for items in line)

    @property
    def active(self) -> int:
        """The sizes of all active items together."""
        return self._shares.taken

    def add(self, share: str, item: Item, *, size: int = 1, later: bool = False) -> None:
        """Queue an item; `later`: behind all other items of its share."""
        self._lines.setdefault(share, ({}, {}))[later][item] = size

    def drop(self, share: str, item: Item) -> None:
        """Remove an item that waits, if it does."""
        if line := self._lines.get(share):
            for items in line:
                items.pop(item, None)
            self._forget_if_empty(share)

    def clear(self) -> None:
        """Remove all items that wait."""
        self._lines.clear()

    def begin(self) -> Item | None:
        """Return the next item, which is active from now on; None if no item may start."""
        others_wait = len(self._lines) > 1
        for share in self._in_order():
            line = self._lines[share]
            items = line[0] or line[1]
            item, size = next(iter(items.items()))
            if not self._shares.allows(share, size, others_wait=others_wait):
                continue
            if not self._shares.take(share, size, others_wait=others_wait):
                return None
            del items[item]
            self._lines.move_to_end(share)
            self._forget_if_empty(share)
            self._catch_up(self._used.get(share, 0.0))
            return item
        return None

    def end(self, share: str, size: int = 1, *, seconds: float = 0.0) -> None:
        """Note that an item of a share is no longer active, and how much time it has used."""
        self._shares.give_back(share, size)
        used = self._used.get(share, self._virtual) + seconds
        if used > self._virtual:
            self._used[share] = min(used, self._virtual + MOST_LEAD_SECONDS)
            if self._is_ahead(share):
                self._ahead.add(share)

    def _in_order(self) -> Iterator[str]:
        # Ten thousand shares wait when the controller starts: usually, only the first one is looked at.
        yield from (share for share in self._lines if share not in self._ahead)
        yield from sorted((share for share in self._lines if share in self._ahead), key=self._used.__getitem__)

    def _is_ahead(self, share: str) -> bool:
        return self._used.get(share, 0.0) - self._virtual >= LEAD_SECONDS

    def _catch_up(self, used: float) -> None:
        if used > self._virtual:
            self._virtual = used
            self._used = {share: used for share, used in self._used.items() if used > self._virtual}
            self._ahead = {share for share in self._ahead if self._is_ahead(share)}

    def _forget_if_empty(self, share: str) -> None:
        if not any(self._lines[share]):
            del self._lines[share]


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
        while request := self._next():
            request.granted()

    def _next(self) -> _Request | None:
        with self._lock:
            if request := self._turns.begin():
                request.holds, request.since = True, time.monotonic()
            return request
