"""Fair shares: of what is limited no tenant gets so much that nothing is left for the next one.

A share is the install namespace of a BundleDeployment, apart for those with an account and those without one: whoever
has rights in one namespace has one share, however many BundleDeployments he writes there. Of a number of places a share
may hold as many as are left free: half of them alone, a third of them beside one other, and so on. One that holds
none yet gets one as long as any is free.

Not here: what a place is. A thread that fetches is revisions/background.py's, a pass manager/queue.py's, a watch
observe/object_follower.py's.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Generic, TypeVar

from api.v1alpha2.types import BundleDeployment

Item = TypeVar("Item")


def share_of(deployment: BundleDeployment) -> str:
    """Return the share of a BundleDeployment that is completed with the account that counts.

    Who may name an account in a namespace is guarded by policy; who may name none is an administrator. So nobody can
    choose a share of somebody else, or a new one for each BundleDeployment.
    """
    spec = deployment.spec
    if spec.service_account_name:
        return share_of_accounts(spec.install_namespace or "")
    return f"controller/{spec.install_namespace or deployment.status.install_namespace}"


def share_of_accounts(namespace: str) -> str:
    """Return the share of the BundleDeployments that act as ServiceAccounts of a namespace."""
    return f"account/{namespace}"


class Shares:
    """Counts the places that each share holds. Not thread-safe: its user has a lock.

    Args:
        places: how many there are; of a single one nothing can be left for others.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """How many places are taken."""
        return self._held.total()

    def take(self, share: str) -> bool:
        """Take a place if the share may have one more; returns whether it may."""
        if self._held[share] >= self._places - self.held:
            return False
        self._held[share] += 1
        return True

    def give_back(self, share: str) -> None:
        """Free a place that was taken."""
        self._held[share] -= 1
        self._held += Counter()  # forgets a share that holds nothing


class Turns(Generic[Item]):
    """Items that wait for a place; shares take turns, one item each. Not thread-safe: its user has a lock.

    Args:
        places: items under way at the same time.
    """

    def __init__(self, places: int) -> None:
        self._shares = Shares(places)
        self._lines: OrderedDict[str, tuple[dict[Item, None], dict[Item, None]]] = OrderedDict()
        """By share, whose turn is next first: what waits, and what waits behind all that."""

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return sum(len(items) for line in self._lines.values() for items in line)

    @property
    def active(self) -> int:
        """How many items are under way."""
        return self._shares.held

    def add(self, share: str, item: Item, *, later: bool = False) -> None:
        """Let an item wait for its turn; `later`: behind the others of its share."""
        self._lines.setdefault(share, ({}, {}))[later][item] = None

    def drop(self, share: str, item: Item) -> None:
        """Let an item wait no more; nothing if it does not."""
        if line := self._lines.get(share):
            for items in line:
                items.pop(item, None)
            self._forget_if_empty(share)

    def clear(self) -> None:
        """Let nothing wait any more."""
        self._lines.clear()

    def begin(self) -> Item | None:
        """Return the item whose turn it is, which is under way from now on; None if none may begin."""
        for share in self._lines:
            if self._shares.take(share):
                return self._next(share)
        return None

    def end(self, share: str) -> None:
        """Note that an item of a share is under way no more."""
        self._shares.give_back(share)

    def _next(self, share: str) -> Item:
        items = next(items for items in self._lines[share] if items)
        item = next(iter(items))
        del items[item]
        self._lines.move_to_end(share)
        self._forget_if_empty(share)
        return item

    def _forget_if_empty(self, share: str) -> None:
        if not any(self._lines[share]):
            del self._lines[share]
