"""Writes status, Events and the finalizer of a BundleDeployment, and nothing else of it.

The watches learn the reply to each write immediately, so that no pass uses an older status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from api import names
from api.v1alpha2.reading import read
from api.v1alpha2.types import BundleDeployment, Status, dump
from controller.apply.ownership import API_VERSION
from controller.kube.client import Client
from controller.kube.events import EventRecorder, Note, Regarding
from controller.kube.resources import DEPLOYMENTS
from controller.observe.watches import Watches
from controller.status.notes import notes


class StatusWriter:
    """Thread-safe."""

    def __init__(self, client: Client, watches: Watches, events: EventRecorder) -> None:
        self._client, self._watches, self._events = client, watches, events

    def write_status(self, deployment: BundleDeployment, status: Status) -> BundleDeployment:
        """Write a status if it has changed, and record Events for what is different.

        Returns: the BundleDeployment with the status of the reply. Its spec remains that of this pass: a newer one in
            the reply gets a pass of its own.

        Raises: ApiError.
        """
        before, after = dump(deployment.status), dump(status)
        if before == after:
            return deployment
        path = DEPLOYMENTS.path(name=deployment.metadata.name) + "/status"
        body = {"status": _difference(before, after)}
        reply = self._client.merge_patch(path, body, manager=names.STATUS_MANAGER).value
        self._watches.learn_deployment(reply)
        self.record_events(deployment, notes(deployment.status, status))
        return deployment.model_copy(update={"status": read(reply).status})

    def record_events(self, deployment: BundleDeployment, found: Iterable[Note]) -> None:
        """Queue Events about a BundleDeployment."""
        metadata = deployment.metadata
        regarding = Regarding(api_version=API_VERSION, kind=names.KIND, name=metadata.name, uid=metadata.uid)
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

        Without finalizers one that is being deleted is gone, and the watches forget it.

        Raises: ApiError.
        """
        metadata = {"finalizers": finalizers, "resourceVersion": deployment.metadata.resource_version}
        path = DEPLOYMENTS.path(name=deployment.metadata.name)
        reply = self._client.merge_patch(path, {"metadata": metadata}, manager=names.STATUS_MANAGER).value
        if finalizers or not deployment.metadata.deletion_timestamp:
            self._watches.learn_deployment(reply)
        else:
            self._watches.forget_deployment(deployment.metadata.name, deployment.metadata.uid)
        return read(reply)


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) from one value to the other: removed keys are null, at every depth."""
    patch: dict[str, Any] = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old != new:
            patch[key] = _difference(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return patch
