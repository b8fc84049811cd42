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
from rukpak.api.v1alpha2.types import BundleDeployment, Status, dump
from rukpak.controller.apply.ownership import API_VERSION
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.events import EventRecorder, Note, Regarding
from rukpak.controller.kube.resources import DEPLOYMENTS
from rukpak.controller.kube.shard import is_unclaimed
from rukpak.controller.observe.watches import Watches
from rukpak.controller.status.notes import notes

_VERSION, _GENERATION, _REVISION = "/metadata/resourceVersion", "/metadata/generation", "/status/revision"
UNSEEN = {"observedGeneration": Status().observed_generation}
"""The status that the API server gives to a new BundleDeployment."""


class StatusWriter:
    """Thread-safe."""

    def __init__(self, client: Client, watches: Watches, events: EventRecorder) -> None:
        self._client, self._watches, self._events = client, watches, events

    def write_status(self, deployment: BundleDeployment, status: Status, *, version: str = "") -> BundleDeployment:
        """Write a status unless the cluster has it already, and record Events for what is different.

        The whole is replaced, so that nothing is left of what another client has written, and only in the
        BundleDeployment with this UID, generation and recorded revision: a pass that is behind must not hide what
        another process has recorded since. The first status of all is written only if there is still none: another
        shard may have claimed the BundleDeployment.

        Args:
            deployment: of the pass.
            status: to write.
            version: the resourceVersion that the BundleDeployment must still have; empty: any.

        Returns: the BundleDeployment with the status of the reply. Its spec remains that of this pass: a newer one in
            the reply gets a pass of its own.

        Raises: ApiError; a 409 if another BundleDeployment has its name now, or has changed as above, or the cluster is
            in another state than the pass knows.
        """
        if not self._watches.synced:
            raise ApiError(HTTPStatus.CONFLICT, "Conflict", "BundleDeployments are being listed again")
        if self._is_shown(deployment, status):
            return deployment.model_copy(update={"status": status})
        sent = time.monotonic()
        reply = self._replace(deployment, dump(status), self._unchanged(deployment, version))
        self._watches.learn_deployment(reply, sent)
        self.record_events(deployment, notes(deployment.status, status))
        return deployment.model_copy(update={"status": read(reply).status})

    def _is_shown(self, deployment: BundleDeployment, status: Status) -> bool:
        shown = self._watches.outline(deployment.metadata.name)
        if shown is None or shown.metadata.uid != deployment.metadata.uid:
            return _are_equal(deployment.status, status)
        return _are_equal(shown.status, status) and not shown.status_problem

    def _unchanged(self, deployment: BundleDeployment, version: str) -> dict[str, Any]:
        """Return by JSON pointer what must be as it is known, so that no write of another process is overwritten."""
        if version:
            return {_VERSION: version}
        shown = self._watches.outline(deployment.metadata.name)
        if shown is None:
            return {}
        if not is_unclaimed(shown.status):
            # Not the revision of the pass: another client may have changed it, as the watch shows then.
            known = {_REVISION: shown.status.revision} if shown.status.revision else {}
            return {_GENERATION: deployment.metadata.generation, **known}
        # The default of the schema, unless another client has wiped it.
        is_new = "observed_generation" in shown.status.model_fields_set
        return {"/status": UNSEEN} if is_new else {_VERSION: shown.metadata.resource_version}

    def _replace(
        self, deployment: BundleDeployment, value: Mapping[str, Any], unchanged: Mapping[str, Any]
    ) -> dict[str, Any]:
        path = DEPLOYMENTS.path(name=deployment.metadata.name) + "/status"
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": deployment.metadata.uid},
            *({"op": "test", "path": pointer, "value": known} for pointer, known in unchanged.items()),
            {"op": "add", "path": "/status", "value": value},
        ]
        try:
            reply: dict[str, Any] = self._client.json_patch(path, operations, manager=names.STATUS_MANAGER).value
        except ApiError as error:
            # A failed test is not distinguished from an invalid status.
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and self._is_replaced(deployment, unchanged):
                raise ApiError(HTTPStatus.CONFLICT, "Conflict", "the BundleDeployment has changed") from error
            raise
        return reply

    def _is_replaced(self, deployment: BundleDeployment, unchanged: Mapping[str, Any]) -> bool:
        sent = time.monotonic()
        found = self._client.get(DEPLOYMENTS.path(name=deployment.metadata.name)).value
        self._watches.learn_deployment(found, sent)  # the watch may be silent
        metadata, status = found["metadata"], found.get("status") or {}
        now = {
            "/status": found.get("status"),
            _VERSION: metadata["resourceVersion"],
            _GENERATION: metadata.get("generation"),
            _REVISION: status.get("revision"),
        }
        is_changed = any(now[pointer] != known for pointer, known in unchanged.items())
        return bool(found["metadata"]["uid"] != deployment.metadata.uid) or is_changed

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
            self._watches.learn_deployment_gone(deployment.metadata.name, deployment.metadata.uid)
        return deployment.model_copy(update={"metadata": read(reply).metadata})


def _are_equal(one: Status, other: Status) -> bool:
    """Whether two statuses are the same JSON; those that are equal as values, as most are, are not converted to it."""
    return one == other or dump(one) == dump(other)
