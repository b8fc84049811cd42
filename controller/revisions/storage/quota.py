"""The quota of the revision store: how many bytes a tenant may keep.

All BundleDeployments that act as ServiceAccounts of one namespace share it. Only retired revisions are deleted to make
room, the oldest first; without any, a new one is refused, and what is installed remains.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.revisions.storage.secrets import StoredSecret, make_stored

BYTES = f"{names.GROUP}/bytes"
"""An annotation of the first Secret of a revision: the size of all."""
TENANT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _KeptHead:
    """The first Secret of a kept revision."""

    secret: StoredSecret
    size: int
    """Bytes of the whole revision."""


class Quota:
    """Thread-safe.

    Args:
        tenant_bytes: of all revisions of a tenant.
        list_secrets: returns the metadata of the Secrets of a tenant, a namespace.
        drop: deletes a revision, by the name of its BundleDeployment and its digest.
    """

    def __init__(
        self,
        tenant_bytes: int,
        list_secrets: Callable[[str], Iterable[Mapping[str, Any]]],
        drop: Callable[[str, str], None],
    ) -> None:
        self._tenant_bytes, self._list_secrets, self._drop = tenant_bytes, list_secrets, drop
        self._being_written: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def room(self, tenant: str, head: str, size: int) -> Iterator[None]:
        """Let a revision be written, and until then count it with those that are kept.

        Args:
            tenant: a namespace; empty for the administrator, who has no quota.
            head: name of the first Secret of the revision. One that is kept may be written again.
            size: of the revision, in bytes.

        Raises: BundleError (QuotaExceeded), ApiError.
        """
        if not tenant:
            yield
            return
        with self._lock:
            self._being_written[tenant] += size
            wanted = self._being_written[tenant]
        try:
            kept = self._kept_by(tenant)
            excess = sum(each.size for each in kept) + wanted - self._tenant_bytes
            if excess > 0 and not any(each.secret.name == head for each in kept):
                self._make_room(kept, excess, self._exceeded(tenant, size))
            yield
        finally:
            with self._lock:
                self._being_written[tenant] -= size

    def _kept_by(self, tenant: str) -> list[_KeptHead]:
        """Return the first Secret of each kept revision of a tenant, the oldest first."""
        found = []
        for item in self._list_secrets(tenant):
            text = item["metadata"].get("annotations", {}).get(BYTES, "")
            if text.isascii() and text.isdecimal():
                found.append(_KeptHead(make_stored(item), int(text)))
        return sorted(found, key=lambda each: each.secret.created)

    def _make_room(self, kept: Iterable[_KeptHead], excess: int, refusal: BundleError) -> None:
        """Delete as many retired revisions as necessary; none if all of them are not enough.

        Raises: BundleError (the refusal), ApiError.
        """
        spare = [each for each in kept if each.secret.is_retired]
        if sum(each.size for each in spare) < excess:
            raise refusal
        for each in spare:
            if excess <= 0:
                return
            self._drop(each.secret.deployment, each.secret.digest)
            excess -= each.size

    def _exceeded(self, tenant: str, size: int) -> BundleError:
        message = (
            f"the rendered objects take {size} bytes compressed, which exceeds the quota of {self._tenant_bytes >> 20} "
            f'MiB for all revisions of namespace "{tenant}"; delete BundleDeployments, make the bundle smaller, or ask '
            "the administrator to raise --revision-mebibytes"
        )
        return BundleError(Reason.QUOTA_EXCEEDED, message)
