"""Deletes the revisions whose BundleDeployment is gone, because its finalizer was removed: no pass does that.

It does so when a process starts to lead, every ten hours, and shortly after a BundleDeployment vanished during its
teardown.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from api import names
from controller.kube.client import ApiError, Client
from controller.kube.resources import DEPLOYMENTS, SECRETS
from controller.revisions.store import MANAGER, SELECTOR, deployment_of, unless

log = logging.getLogger(__name__)
PERIOD_SECONDS = 36_000.0
FAILED_SECONDS = 300.0
LULL_SECONDS = 5.0
"""Delay before a requested sweep, so that deletions at the same time share it."""


def remove_orphans(client: Client, namespace: str) -> None:
    """Delete the revisions of deleted BundleDeployments, even if a new one has the same name.

    They are found by type and name; missing labels are restored.

    Args:
        client: of the cluster.
        namespace: of the revision store.

    Raises: ApiError.
    """
    secrets = list(client.list(SECRETS.path(namespace), metadata=True, field_selector=SELECTOR))
    # After the Secrets, and from the API server, to include those that no watch has reported yet.
    owners = {
        each["metadata"]["name"]: each["metadata"].get("uid", "")
        for each in client.list(DEPLOYMENTS.path(), metadata=True)
    }
    for secret in secrets:
        metadata = secret["metadata"]
        owner = deployment_of(metadata["name"])
        if owner and _is_of(metadata, owner, owners):
            _restore_label(client, namespace, metadata, owner)
        elif owner:
            _remove(client, namespace, metadata)


def _is_of(metadata: Mapping[str, Any], name: str, owners: Mapping[str, str]) -> bool:
    """Whether the BundleDeployment of a Secret exists. Older releases recorded no UID."""
    uid = (metadata.get("annotations") or {}).get(names.OWNER_UID, "")
    return name in owners and uid in ("", owners[name])


def _restore_label(client: Client, namespace: str, metadata: Mapping[str, Any], name: str) -> None:
    if (metadata.get("labels") or {}).get(names.REVISION_LABEL) == name:
        return
    labels = {"metadata": {"labels": {names.REVISION_LABEL: name}}}
    with unless(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        client.merge_patch(SECRETS.path(namespace, metadata["name"]), labels, manager=MANAGER)


def _remove(client: Client, namespace: str, metadata: Mapping[str, Any]) -> None:
    """Delete a Secret, unless it has changed since it was listed."""
    path = SECRETS.path(namespace, metadata["name"])
    with unless(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        client.delete(path, uid=metadata["uid"], resource_version=metadata["resourceVersion"])


class Sweeper:
    """Calls `sweep` repeatedly, on the thread that calls `run`; `died` gets its exceptions other than ApiError."""

    def __init__(
        self,
        sweep: Callable[[], None],
        died: Callable[[Exception], None],
        *,
        lull: float = LULL_SECONDS,
        period: float = PERIOD_SECONDS,
    ) -> None:
        self._sweep, self._died, self._lull, self._period = sweep, died, lull, period
        self._requested, self._stopped = threading.Event(), threading.Event()

    def request(self) -> None:
        """Request a sweep; returns immediately."""
        self._requested.set()

    def stop(self) -> None:
        """Start no other sweep, and let `run` return."""
        self._stopped.set()
        self._requested.set()

    def run(self) -> None:
        """Sweep until `stop`."""
        while True:
            self._requested.clear()
            if self._stopped.is_set():
                return
            seconds = self._period if self._try() else FAILED_SECONDS
            if self._requested.wait(seconds):
                self._stopped.wait(self._lull)

    def _try(self) -> bool:
        try:
            self._sweep()
        except ApiError as error:
            log.warning("failed to delete revisions of removed BundleDeployments", extra={"reply": str(error)})
            return False
        except Exception as error:  # noqa: BLE001 - the next sweep must run
            self._died(error)
            return False
        return True
