"""The status of each BundleDeployment as this process left it: what a pass continues with if another client changes it.

Status records what cannot be found out again, such as pins, so a status that was wiped or edited is not believed but
written again. One that another process of the controller wrote is believed: it led before, or leads by mistake, and
would write it again, too. A process that has seen no status yet believes what it finds, as far as it can be used.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from api.v1alpha2.types import BundleDeployment, Status
from controller.observe.statuses.validity import only_valid
from controller.observe.statuses.writers import Writers


@dataclass(slots=True)
class _Own:
    uid: str
    generation: int
    status: Status
    """As it was first believed, or written last."""
    writers: Writers
    sent: Status | None = None
    """What is being written, or was written without a reply."""


class OwnStatuses:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: dict[str, _Own] = {}

    def restore(self, deployment: BundleDeployment, writers: Writers) -> BundleDeployment:
        """Return a BundleDeployment with its status as the controller left it, without what cannot be used.

        A status is also believed if it is the first one that this process sees, or if the generation went backwards:
        etcd was restored from a backup then.
        """
        metadata = deployment.metadata
        with self._lock:
            own = self._own.get(metadata.name)
            if own is None or own.uid != metadata.uid or metadata.generation < own.generation:
                own = _Own(metadata.uid, metadata.generation, deployment.status, writers)
                self._own[metadata.name] = own
            own.generation = metadata.generation
            _believe(own, deployment, writers)
            return deployment.model_copy(update={"status": only_valid(own.status)})

    def send(self, deployment: BundleDeployment, status: Status) -> None:
        """Note that a status is about to be written: its event may arrive before the reply."""
        with self._lock:
            if own := self._find(deployment):
                own.sent = status

    def keep(self, deployment: BundleDeployment, writers: Writers) -> None:
        """Note the status in the reply to a write."""
        with self._lock:
            if own := self._find(deployment):
                own.status, own.writers, own.sent = deployment.status, writers, None

    def is_foreign(self, deployment: BundleDeployment, writers: Writers) -> bool:
        """Whether another client changed the newest known status; one of another process of ours is believed."""
        with self._lock:
            own = self._find(deployment)
            return own is not None and not _believe(own, deployment, writers)

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


def _believe(own: _Own, deployment: BundleDeployment, writers: Writers) -> bool:
    """Continue with a status from the cluster if the controller wrote it; returns whether that is so."""
    status = deployment.status
    if deployment.status_problem:
        return False
    if status == own.sent:
        own.sent = None
    elif status != own.status and not (
        only_valid(status) is status and (writers.is_ours_since(own.writers) or _is_move(own.status, status, writers))
    ):
        return False
    own.status, own.writers = status, writers
    return True


def _is_move(known: Status, now: Status, writers: Writers) -> bool:
    """Whether another shard has recorded that it takes the BundleDeployment, or lets it go.

    That drops fields, which managedFields cannot tell from a change of another client within the same second. But no
    such client has our entry set relabeling.
    """
    return now.shard != known.shard and now.relabeling is True and writers.has_set("relabeling")
