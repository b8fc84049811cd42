"""How much disk space content may use while it is fetched, unpacked and rendered, per BundleDeployment and per tenant.

limits.py bounds one archive. Here all sources of a BundleDeployment share one limit, and all BundleDeployments of a
tenant share a part of the disk, so that no tenant fills it for the others. Stored content that is not in use does not
count: the store bounds it, and deletes it to make room.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from api.errors import BundleError
from api.plugins import Limits
from api.v1alpha2.conditions import Reason
from controller.content.disk import walk
from controller.content.index import read_refused
from controller.content.limits import describe_bytes

BLOCK = 4096
"""Bytes that a file or folder uses in addition to its content."""


def budget_of(limits: Limits) -> int:
    """Return the bytes of disk that one BundleDeployment may use within its limits."""
    return limits.compressed_bytes + limits.total_bytes + limits.entries * BLOCK


class DiskShares:
    """How much of the disk each tenant uses now, at most `share` bytes each and `total` together. Thread-safe."""

    def __init__(self, total: int = sys.maxsize, share: int = sys.maxsize) -> None:
        self._total, self._share = total, share
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def of_store(cls, store_bytes: int, limits: Limits) -> DiskShares:
        """Return shares as large as a store, half of it for one tenant, and never less than `budget_of`.

        With less, content within its limits would be refused forever.
        """
        return cls(max(store_bytes, budget_of(limits)), max(store_bytes // 2, budget_of(limits)))

    @contextmanager
    def use(self, tenant: str, limits: Limits) -> Iterator[Use]:
        """Count what one fetch and rendering uses; at the end all of it is free again.

        Args:
            tenant: as a message names it: `namespace "shop"`.
            limits: for all sources together.
        """
        use = Use(self, tenant, limits)
        try:
            yield use
        finally:
            use.close()

    def taken(self) -> int:
        """Return the bytes that are in use now."""
        with self._lock:
            return self._taken.total()

    def take(self, tenant: str, size: int) -> None:
        """Count bytes that are about to be written.

        Raises: BundleError (StorageFull); then they are not counted.
        """
        with self._lock:
            if self._taken[tenant] + size > self._share:
                raise _full(f"fetches for {tenant} exceed its share of the disk", self._share)
            if self._taken.total() + size > self._total:
                raise _full("fetches for all BundleDeployments exceed their part of the disk", self._total)
            self._taken[tenant] += size

    def give_back(self, tenant: str, size: int) -> None:
        """Count bytes as free again."""
        with self._lock:
            self._taken[tenant] -= size
            if not self._taken[tenant]:
                del self._taken[tenant]


class Use:
    """What one fetch and rendering uses of its limits and of its tenant's share. Thread-safe."""

    def __init__(self, shares: DiskShares, tenant: str, limits: Limits) -> None:
        self._shares, self._tenant, self._limits = shares, tenant, limits
        self._nodes = self._bytes = self._taken = 0
        self._received: Counter[int] = Counter()
        self._lock = threading.Lock()

    def add_node(self) -> None:
        """Count a file or folder that is about to be created.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            self._take(BLOCK)
            self._nodes += 1
            if self._nodes > self._limits.entries:
                raise _rejected(f"{self._limits.entries} files and directories")

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
        """Count content that is in the store already: it cannot be deleted while it is in use.

        Args:
            folder: of the content, beside its index.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        refused: Collection[str] = ()
        with suppress(OSError, ValueError, KeyError):  # assembling the tree finds that out, too, and says so
            refused = read_refused(folder.parent)
        for _ in refused:
            self.add_node()
        for item in walk(folder):
            self.add_node()
            if not item.is_folder:
                self.add_file((folder / item.path).stat().st_size)

    def receive(self, source: int, size: int) -> None:
        """Count what a source has received so far, before unpacking.

        Args:
            source: its index.
            size: the sum so far; a smaller one than before is ignored.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            more = size - self._received[source]
            if more <= 0:
                return
            self._take(more)
            self._received[source] = size
            if self._received.total() > self._limits.compressed_bytes:
                raise _rejected(f"{describe_bytes(self._limits.compressed_bytes)} before unpacking")

    def occupy(self, size: int) -> None:
        """Count bytes in a scratch folder, which only the share limits.

        Raises: BundleError (StorageFull).
        """
        with self._lock:
            self._take(size)

    def close(self) -> None:
        """Count all of it as free again."""
        with self._lock:
            self._shares.give_back(self._tenant, self._taken)
            self._taken = 0

    def _take(self, size: int) -> None:
        self._shares.take(self._tenant, size)
        self._taken += size


def _rejected(limit: str) -> BundleError:
    message = f"spec.sources: together the sources exceed the limit of {limit}; make them smaller, or remove some"
    return BundleError(Reason.CONTENT_REJECTED, message)


def _full(problem: str, size: int) -> BundleError:
    message = (
        f"spec.sources: {problem}, {describe_bytes(size)}; will be retried when other fetches have finished; make the "
        "content smaller, or ask the administrator to raise --store-mebibytes"
    )
    return BundleError(Reason.STORAGE_FULL, message)
