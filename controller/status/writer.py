"""Writes status, Events and the finalizer of a BundleDeployment, and nothing else of it.

The watches learn the reply to each write immediately, so that no pass uses an older status.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.reading import read
from rukpak.api.v1alpha2.status import dump
from rukpak.api.v1alpha2.types import BundleDeployment, ObjectMeta, Status
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.events import EventRecorder, Note, Regarding
from rukpak.controller.kube.resources import DEPLOYMENTS, shard_of
from rukpak.controller.observe.deployments import SeenDeployments
from rukpak.controller.status.notes import notes

_CHANGED = "the BundleDeployment has changed"


class StatusWriter:
    """Thread-safe."""

    def __init__(self, client: Client, deployments: SeenDeployments, events: EventRecorder) -> None:
        self._client, self._deployments, self._events = client, deployments, events

    def write_status(self, deployment: BundleDeployment, status: Status) -> BundleDeployment:
        """Write a status unless the cluster has it already, and record Events for what is different.

        The whole is replaced, so that nothing is left of what another client has written, and only in the version of
        the BundleDeployment that was read last: a pass that is behind must not hide what another process has recorded
        since. That version must have the UID and generation of the pass, and belong to the shard. So of two
        controllers, only the one that the label names can write, whatever the watch of the other one shows.

        Returns: the BundleDeployment with the status of the reply. Its spec remains that of this pass: a newer one in
            the reply gets a pass of its own.

        Raises: ApiError; a 409 if the BundleDeployment has changed as above, or the cluster is in another state than
            the pass knows.
        """
        if not self._deployments.synced:
            raise ApiError(HTTPStatus.CONFLICT, "Conflict", "BundleDeployments are being listed again")
        shown = self._deployments.outline(deployment.metadata.name)
        if shown is None or not may_write(deployment, shown, self._deployments.shard):
            raise ApiError(HTTPStatus.CONFLICT, "Conflict", _CHANGED)
        if _are_equal(shown.status, status) and not shown.status_problem:
            return deployment.model_copy(update={"status": status})
        sent = time.monotonic()
        reply = self._replace(shown.metadata, dump(status))
        self._deployments.learn(reply, sent)
        self.record_events(deployment, notes(deployment.status, status))
        return deployment.model_copy(update={"status": read(reply).status})

    def _replace(self, metadata: ObjectMeta, value: Mapping[str, Any]) -> dict[str, Any]:
        path = DEPLOYMENTS.path(name=metadata.name) + "/status"
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
            {"op": "add", "path": "/status", "value": value},
        ]
        try:
            reply: dict[str, Any] = self._client.json_patch(path, operations, manager=names.STATUS_MANAGER).value
        except ApiError as error:
            # A failed test is not distinguished from an invalid status.
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and self._has_changed(metadata):
                raise ApiError(HTTPStatus.CONFLICT, "Conflict", _CHANGED) from error
            raise
        return reply

    def _has_changed(self, metadata: ObjectMeta) -> bool:
        sent = time.monotonic()
        found = self._client.get(DEPLOYMENTS.path(name=metadata.name)).value
        self._deployments.learn(found, sent)  # the watch may be silent
        return bool(found["metadata"]["resourceVersion"] != metadata.resource_version)

    def record_events(self, deployment: BundleDeployment, found: Iterable[Note]) -> None:
        """Queue Events about a BundleDeployment."""
        metadata = deployment.metadata
        regarding = Regarding(name=metadata.name, uid=metadata.uid)
        for note in found:
            self._events.record(regarding, note)

    def with_finalizer(self, deployment: BundleDeployment) -> BundleDeployment:
        """Return the BundleDeployment with our finalizer, adding it if it is missing.

        Raises: ApiError.
        """
        if names.FINALIZER in deployment.metadata.finalizers:
            return deployment
        return self.set_finalizers(deployment, [*deployment.metadata.finalizers, names.FINALIZER])

    def set_finalizers(self, deployment: BundleDeployment, finalizers: list[str]) -> BundleDeployment:
        """Replace the finalizers, unless the BundleDeployment has changed since it was read (409).

        Without finalizers one that is being deleted is gone, and is forgotten.

        Raises: ApiError.
        """
        metadata = {"finalizers": finalizers, "resourceVersion": deployment.metadata.resource_version}
        path = DEPLOYMENTS.path(name=deployment.metadata.name)
        reply = self._client.merge_patch(path, {"metadata": metadata}, manager=names.STATUS_MANAGER).value
        if finalizers or not deployment.metadata.deletion_timestamp:
            self._deployments.learn(reply)
        else:
            self._deployments.learn_gone(deployment.metadata.name, deployment.metadata.uid)
        return deployment.model_copy(update={"metadata": read(reply).metadata})


def may_write(deployment: BundleDeployment, shown: BundleDeployment, shard: str) -> bool:
    """Return whether the controller of a shard may write a status.

    Args:
        deployment: of the pass that makes the status.
        shown: the version of it that was read last.
        shard: that the controller serves.
    """
    now, then = shown.metadata, deployment.metadata
    return (now.uid, now.generation) == (then.uid, then.generation) and shard_of(now.labels) == shard


def _are_equal(one: Status, other: Status) -> bool:
    # Those that are equal as values, as most are, are not converted to JSON.
    return one == other or dump(one) == dump(other)
