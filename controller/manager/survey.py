"""Finds the shards that no controller serves, for the metric of the default shard, which takes back what they have.

While BundleDeployments of other shards exist, the Leases of these are read now and then. As in leader election, a Lease
counts from when this process saw it change: clocks are not compared. The default shard holds a Lease itself while it
takes over from that shard (kube/lease.py), which does not count.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from rukpak.api.bounds import clamp
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.lease import LEASES, LONGEST_DURATION
from rukpak.controller.kube.shard import Shard, is_shard_name

log = logging.getLogger(__name__)

PERIOD_SECONDS = 15.0
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A Lease that is held."""

    renewed: str
    seconds: float
    """How long it lasts."""
    at: float
    """When this process first saw it so, in monotonic seconds."""


class ShardSurvey:
    """Thread-safe.

    Args:
        client: for the Leases.
        namespace: of the Leases.
        count: returns the number of BundleDeployments of each other shard.
        identity: of this process, as the holder of Leases.
        patience: seconds until that, longer than a controller needs to start again.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        count: Callable[[], Mapping[str, int]],
        *,
        identity: str = "",
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._namespace, self._count = client, namespace, count
        self._identity, self._patience, self._clock = identity, patience, clock
        self._seen: dict[str, _Seen] = {}
        self._served: frozenset[str] = frozenset()
        self._unserved_since: dict[str, float] = {}
        self._stopped = threading.Event()
        self._denied = ""

    def run(self, found: Callable[[Collection[str], Collection[str]], None]) -> None:
        """Read Leases until `stop`.

        Args:
            found: gets after each look what it returned.
        """
        while not self._stopped.is_set():
            found(*self.look())
            self._stopped.wait(PERIOD_SECONDS)

    def stop(self) -> None:
        """Let `run` return."""
        self._stopped.set()

    def look(self) -> tuple[Collection[str], Collection[str]]:
        """Read the Leases of the shards of BundleDeployments; no request without such.

        Returns: the shards that nobody serves now, and those of them that nobody has served for a while.
        """
        shards, now = self._count(), self._clock()
        self._served = frozenset(shard for shard in shards if self._is_served(shard))
        unserved = shards.keys() - self._served
        self._unserved_since = {shard: self._unserved_since.get(shard, now) for shard in unserved}
        abandoned = {shard for shard, since in self._unserved_since.items() if now - since >= self._patience}
        return unserved, abandoned

    def unserved(self) -> dict[str, int]:
        """Return the number of BundleDeployments of each shard that no controller serves."""
        served = self._served
        return {shard: number for shard, number in self._count().items() if shard not in served}

    def _is_served(self, shard: str) -> bool:
        if not is_shard_name(shard):  # no controller accepts it
            return False
        try:
            spec = self._client.get(LEASES.path(self._namespace, Shard(shard).lease)).value.get("spec") or {}
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            self._note(error)
            # Not known: no alert about what an administrator cannot fix there, and nothing is taken.
            return shard not in self._unserved_since
        if spec.get("holderIdentity") in (None, "", self._identity):
            return False
        renewed, now = f"{spec['holderIdentity']} {spec.get('renewTime')}", self._clock()
        known = self._seen.get(shard)
        if known is None or known.renewed != renewed:
            seconds = clamp(spec.get("leaseDurationSeconds"), 0.0, LONGEST_DURATION) or 0.0
            known = self._seen[shard] = _Seen(renewed, seconds, now)
        return now - known.at <= known.seconds + PERIOD_SECONDS

    def _note(self, error: ApiError) -> None:
        if str(error) != self._denied:
            self._denied = str(error)
            log.warning("Lease of a shard cannot be read; apply config/rbac", extra={"error": str(error)})
