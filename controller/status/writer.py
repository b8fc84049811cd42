"""Writing what a pass has found: status, Events and the finalizer of a BundleDeployment, and nothing else of it.

What the reply to a write says is learnt at once, so that no pass plans on an older status.
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
        """Write a status, if it has changed; returns the BundleDeployment with what the server made of it.

        The spec stays the one that this pass is about: another one that the reply may bring has its own pass.

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

    def record_events(self, deployment: BundleDeployment, texts: Iterable[Note]) -> None:
        """Say something in Events, soon."""
        metadata = deployment.metadata
        regarding = Regarding(api_version=API_VERSION, kind=names.KIND, name=metadata.name, uid=metadata.uid)
        for note in texts:
            self._events.record(regarding, note)

    def with_finalizer(self, deployment: BundleDeployment) -> BundleDeployment:
        """Return the BundleDeployment with our finalizer, which is set where it is missing.

        Raises: ApiError.
        """
        if names.FINALIZER in deployment.metadata.finalizers:
            return deployment
        return self.set_finalizers(deployment, [*deployment.metadata.finalizers, names.FINALIZER])

    def set_finalizers(self, deployment: BundleDeployment, finalizers: list[str]) -> BundleDeployment:
        """Replace the finalizers, unless somebody has changed the BundleDeployment meanwhile (409).

        One that is being deleted goes with the last of them, and is not known any more from then on.

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
    """Return the merge patch (RFC 7386) that makes one of the other: what is gone is null, at every depth."""
    patch: dict[str, Any] = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old != new:
            patch[key] = _difference(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return patch
