"""The status of each BundleDeployment as this process left it: what a pass continues with if another client changes it.

Status records what cannot be found out again, such as pins, so a status that was wiped or edited is not believed but
written again. Only the process that leads writes status; another process starts with what it finds.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from api.v1alpha2.types import BundleDeployment, Status


@dataclass(slots=True)
class _Own:
    uid: str
    generation: int
    status: Status
    """As it was read first, or written last."""
    sent: Status | None = None
    """What is being written, or was written without a reply."""


class OwnStatuses:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: dict[str, _Own] = {}

    def restore(self, deployment: BundleDeployment) -> BundleDeployment:
        """Return a BundleDeployment with its status as this process left it.

        A status is believed if it is the first one that this process sees, or if the generation went backwards: etcd
        was restored from a backup then.
        """
        metadata = deployment.metadata
        with self._lock:
            own = self._own.get(metadata.name)
            if own is None or own.uid != metadata.uid or metadata.generation < own.generation:
                self._own[metadata.name] = _Own(metadata.uid, metadata.generation, deployment.status)
                return deployment
            own.generation = metadata.generation
            if deployment.status == own.sent:
                own.status, own.sent = own.sent, None
            return deployment.model_copy(update={"status": own.status})

    def send(self, deployment: BundleDeployment, status: Status) -> None:
        """Note that a status is about to be written: its event may arrive before the reply."""
        with self._lock:
            if own := self._find(deployment):
                own.sent = status

    def keep(self, deployment: BundleDeployment) -> None:
        """Note the status in the reply to a write."""
        with self._lock:
            if own := self._find(deployment):
                own.status, own.sent = deployment.status, None

    def is_foreign(self, deployment: BundleDeployment) -> bool:
        """Whether the newest known status is not as this process left it."""
        with self._lock:
            own = self._find(deployment)
            if own is None or deployment.status == own.sent:
                return False
            if deployment.status != own.status:
                return True
            own.status = deployment.status  # equal: one of the two is garbage now
            return bool(deployment.status_problem)

    def _find(self, deployment: BundleDeployment) -> _Own | None:
        own = self._own.get(deployment.metadata.name)
        return own if own and own.uid == deployment.metadata.uid else None

    def forget(self, name: str) -> None:
        """Forget a BundleDeployment that is gone."""
        with self._lock:
            self._own.pop(name, None)

    def clear(self) -> None:
        """Forget all, and believe what the cluster says."""
        with self._lock:
            self._own.clear()
