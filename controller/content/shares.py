"""How much disk content may take while it is received, unpacked and rendered: in one piece of work, and by one tenant.

The limits of one source (limits.py) bound what one archive does. Here all sources of one BundleDeployment have one
budget together, and all BundleDeployments of one tenant have at most a share of the disk, so that nobody fills it for
the others. What is stored and not in use is not counted: the store bounds it, and lets it go for what is new.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from api.errors import BundleError
from api.plugins import Limits
from api.v1alpha2.conditions import Reason
from controller.content.disk import walk
from controller.content.limits import describe_bytes

BLOCK = 4096
"""What a file or folder takes besides its bytes."""


def budget_of(limits: Limits) -> int:
    """Return the bytes that one BundleDeployment may take within its limits."""
    return limits.compressed_bytes + limits.total_bytes + limits.entries * BLOCK


class DiskShares:
    """Who takes how much of the disk now. Thread-safe.

    Args:
        total: bytes that all may take at the same time.
        share: bytes that one tenant may.
    """

    def __init__(self, total: int = sys.maxsize, share: int = sys.maxsize) -> None:
        self._total, self._share = total, share
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def of_store(cls, store_bytes: int, limits: Limits) -> DiskShares:
        """Return the shares beside a store: as much again, half of it for one tenant, and never less than one budget.

        Less than one budget would refuse for ever what is within its limits.
        """
        return cls(max(store_bytes, budget_of(limits)), max(store_bytes // 2, budget_of(limits)))

    @contextmanager
    def use(self, tenant: str, limits: Limits) -> Iterator[Use]:
        """Hand out what one piece of work uses; at its end all of it is given back.

        Args:
            tenant: whose share it is, as a message names it: `namespace "shop"`.
            limits: of all sources together.
        """
        use = Use(self, tenant, limits)
        try:
            yield use
        finally:
            use.close()

    def taken(self) -> int:
        """Return the bytes that are taken now."""
        with self._lock:
            return self._taken.total()

    def take(self, tenant: str, size: int) -> None:
        """Count bytes that are about to be written.

        Raises: BundleError (StorageFull), and then they are not counted.
        """
        with self._lock:
            if self._taken[tenant] + size > self._share:
                raise _full(f"what is being fetched for {tenant}", "its share of the disk, ", self._share)
            if self._taken.total() + size > self._total:
                raise _full("what is being fetched for all BundleDeployments", "", self._total)
            self._taken[tenant] += size

    def give_back(self, tenant: str, size: int) -> None:
        """Count bytes as free again."""
        with self._lock:
            self._taken[tenant] -= size
            if not self._taken[tenant]:
                del self._taken[tenant]


class Use:
    """What one piece of work uses of its limits and of its tenant's share. Thread-safe: sources work in parallel."""

    def __init__(self, shares: DiskShares, tenant: str, limits: Limits) -> None:
        self._shares, self._tenant, self._limits = shares, tenant, limits
        self._nodes = self._bytes = self._taken = 0
        self._received: Counter[int] = Counter()
        self._lock = threading.Lock()

    def add_node(self) -> None:
        """Count a file or folder that is about to be made.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            self._take(BLOCK)
            self._nodes += 1
            if self._nodes > self._limits.entries:
                raise _rejected(f"{self._limits.entries} files and folders")

    def add_file(self, size: int) -> None:
        """Count the bytes of a file that are about to be written.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            self._take(size)
            self._bytes += size
            if self._bytes > self._limits.total_bytes:
                raise _rejected(describe_bytes(self._limits.total_bytes))

    def add_stored(self, folder: Path) -> None:
        """Count content that was stored already: it cannot go while it is in use.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        for item in walk(folder):
            self.add_node()
            if not item.is_folder:
                self.add_file((folder / item.path).stat().st_size)

    def receive(self, source: int, size: int) -> None:
        """Count what came so far for a source, packed as it is.

        Args:
            source: its index.
            size: all of its bytes; fewer than before count as before.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            more = size - self._received[source]
            if more <= 0:
                return
            self._take(more)
            self._received[source] = size
            if self._received.total() > self._limits.compressed_bytes:
                raise _rejected(f"{describe_bytes(self._limits.compressed_bytes)} before they are unpacked")

    def occupy(self, size: int) -> None:
        """Count bytes of scratch, of which there is no budget but the share.

        Raises: BundleError (StorageFull).
        """
        with self._lock:
            self._take(size)

    def close(self) -> None:
        """Give all of it back."""
        with self._lock:
            self._shares.give_back(self._tenant, self._taken)
            self._taken = 0

    def _take(self, size: int) -> None:
        self._shares.take(self._tenant, size)
        self._taken += size


def _rejected(budget: str) -> BundleError:
    message = (
        f"spec.sources: together they bring more than the budget of {budget}; make them smaller, or leave some out"
    )
    return BundleError(Reason.CONTENT_REJECTED, message)


def _full(what: str, share: str, size: int) -> BundleError:
    message = (
        f"spec.sources: {what} takes more than {share}{describe_bytes(size)}; it is tried again, and has room when "
        "less is fetched at the same time; make it smaller, or let the administrator raise --store-mebibytes"
    )
    return BundleError(Reason.STORAGE_FULL, message)
