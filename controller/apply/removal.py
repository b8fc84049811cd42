"""Deletes objects, and releases those that are kept.

Never with an empty apply, which would delete all fields that we own (README.md, Ownership).

Candidates come from the watches and have passed the ownership test. A DELETE has preconditions on UID and
resourceVersion, so that no object is deleted that has changed in the meantime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import groupby
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.controller.apply.order import teardown_order, teardown_position
from rukpak.controller.apply.ownership import CRD, Disposal, RemovalCause, dispose
from rukpak.controller.apply.replies import classify
from rukpak.controller.apply.requests import Pool
from rukpak.controller.apply.rights import MissingRightsError, list_all
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client, Response, User
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import Entry, Record, entries_of, project
from rukpak.controller.untrusted import mappings

_MARKS = (names.OWNER_UID, names.APPLIED_DIGEST)
log = logging.getLogger(__name__)
PAGE = 50
# What the API server and its controllers create in every namespace.
_DEFAULTS = frozenset(
    {("ConfigMap", "kube-root-ca.crt"), ("ConfigMap", "openshift-service-ca.crt"), ("ServiceAccount", "default")}
)
# Of what the content of a namespace is: anything else is an action or a report.
_NEEDED = frozenset({"list", "delete"})
_NOISE = frozenset({"Event", "EndpointSlice", "Endpoints", "Lease", "PodMetrics"})


def delete(client: Client, resource: Resource, record: Record, *, propagation: str = "Background") -> Record | None:
    """Delete the object of a record, also if it has changed since then, except in ownership.

    An object that no longer exists, or was replaced by another one with its name, counts as deleted.

    Returns: the object if it still exists, being deleted.
    Raises: ApiError; a 409 if its ownership has changed.
    """
    path, key = resource.path(record.key.namespace, record.key.name), record.key
    try:
        reply = client.delete(path, uid=record.uid, resource_version=record.resource_version, propagation=propagation)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        if error.status != HTTPStatus.CONFLICT:
            raise
        now = project(client.get(path, metadata=True).value, key.group, key.kind)
        if now.uid == record.uid and _ownership(now) != _ownership(record):
            raise
        if now.uid != record.uid:
            return None
        reply = client.delete(path, uid=now.uid, resource_version=now.resource_version, propagation=propagation)
    # Of an object that is gone the reply is a Status, or its last state.
    left = project(reply.value, key.group, key.kind)
    return replace(left, key=key) if left.deleting and left.uid == record.uid else None


def _ownership(record: Record) -> tuple[str, ...]:
    return (record.owner, record.owner_uid, record.controller_uid, record.prune, record.resource_policy)


def release(client: Client, path: str, owner: str, *, mark: bool = True) -> None:
    """Remove our marks and our managedFields entry from an object, and keep its data.

    A conflict is retried once; an object that does not exist is ignored.

    Args:
        client: acts as the account.
        path: of the object.
        owner: name of the BundleDeployment.
        mark: whether `released-from` is set. Not on an object that was never ours, since another client created it just
            before our first apply: fields that the apply added are kept, without an owner.

    Raises: ApiError.
    """
    ours = _managers(owner)

    def _patch() -> Response:
        live = client.get(path, metadata=True).value
        references = [each for each in mappings(live, "metadata", "ownerReferences") if not _is_ours(each, owner)]
        patch: dict[str, Any] = {
            "resourceVersion": live["metadata"]["resourceVersion"],
            "labels": {names.OWNER_LABEL: None},
            "annotations": {**dict.fromkeys(_MARKS), **({names.RELEASED_FROM: owner} if mark else {})},
            "ownerReferences": references or None,
            # The server ignores an empty list; one with an empty entry clears it (Kubernetes, server-side apply).
            "managedFields": [entry for entry in entries_of(live) if entry.get("manager") not in ours] or [{}],
        }
        return client.merge_patch(path, {"metadata": patch}, manager=ours[0], metadata=True)

    try:
        attempt(_patch, HTTPStatus.NOT_FOUND)
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        attempt(_patch, HTTPStatus.NOT_FOUND)


def is_shared(manifest: Mapping[str, Any], owner: str) -> bool:
    """Whether another manager has set fields of the object, not only of a subresource."""
    ours = _managers(owner)
    return any(entry.get("manager") not in ours and not entry.get("subresource") for entry in entries_of(manifest))


def _managers(owner: str) -> tuple[str, str]:
    return (names.field_manager(owner), names.initial_field_manager(owner))


def _is_ours(reference: Mapping[str, Any], owner: str) -> bool:
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    return (group, reference.get("kind"), reference.get("name")) == (names.GROUP, names.KIND, owner)


def mark_to_take_back(
    client: Client,
    resource: Resource,
    record: Record,
    owner: str,
    *,
    live: Mapping[str, Any] | None = None,
    entries: Sequence[Entry] | None = None,
) -> Mapping[str, Any]:
    """Mark an object as ours to take back, and remove another controller reference, in one write.

    With `live`, the object as it was read, it is not read again. With `entries`, its managedFields become these in the
    same write.

    The mark is `released-from`, which the last write of an adoption removes: whatever happens in between, the object is
    taken back, and it is not deleted before it is ours.

    Returns: the metadata after that.
    Raises: ApiError; a 409 if the object has changed since it was judged.
    """
    path = resource.path(record.key.namespace, record.key.name)
    patch: dict[str, Any] = {
        "resourceVersion": record.resource_version,
        "annotations": {names.RELEASED_FROM: owner},
    }
    if entries is not None:
        patch["managedFields"] = list(entries)
    if record.controller_uid:
        references = mappings(live or client.get(path, metadata=True).value, "metadata", "ownerReferences")
        patch["ownerReferences"] = [each for each in references if not each.get("controller")] or None
    manager = names.field_manager(owner)
    reply = client.merge_patch(path, {"metadata": patch}, manager=manager, metadata=True)
    metadata: Mapping[str, Any] = reply.value["metadata"]
    return metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The result for an object that was to be removed."""

    record: Record
    deleted: bool = False
    """Whether a request has deleted it; one that no longer existed counts, too."""
    remaining: Record | None = None
    """The object if it was deleted and still exists, for example because of a finalizer."""
    kept: str = ""
    """Why it was released; empty: it was deleted, or does not exist."""
    error: BundleError | None = None


class Remover:
    """Deletes and releases objects.

    Args:
        pool: sends concurrent requests.
        stored: the resource of a (group, kind) at its storage version; None if unknown, as for built-in kinds. At any
            other version, a conversion webhook that is down would block the request.
    """

    def __init__(
        self, client: Client, discovery: Discovery, pool: Pool, stored: Callable[[str, str], Resource | None]
    ) -> None:
        self._client, self._discovery, self._pool, self._stored = client, discovery, pool, stored

    def remove(self, records: Iterable[Record], owner: str, cause: RemovalCause, user: User | None) -> list[Removal]:
        """Remove objects in reverse apply order, except those that are already being deleted.

        Args:
            records: of objects that have passed the ownership test.
            owner: name of the BundleDeployment.
            cause: why they are removed.
            user: the account that deletes and releases; None: the controller. Whether a CustomResourceDefinition or
                Namespace is in use is always read as the controller, which sees all objects.

        Raises: CancelledError if the pool was stopped.
        """
        client = self._client.acting_as(user)
        ordered = teardown_order(record for record in records if not record.deleting)
        served = self._serving({(record.key.group, record.key.kind) for record in ordered})

        def _remove_one(record: Record) -> Removal:
            resource = served[record.key.group, record.key.kind]
            if resource is None:
                return Removal(record=record)
            removal = self._remove(client, record, resource, owner, dispose(record, cause))
            _log(removal, owner, cause)
            return removal

        removals: list[Removal] = []
        for _, step in groupby(ordered, key=lambda record: teardown_position(record.key)):
            removals += self._pool.run(_remove_one, list(step), user)
        lack = list_all((removal.error for removal in removals), owner)
        return [replace(each, error=lack) if isinstance(each.error, MissingRightsError) else each for each in removals]

    def _remove(self, client: Client, record: Record, resource: Resource, owner: str, disposal: Disposal) -> Removal:
        remaining = None
        try:
            kept = self._reason_to_keep(record, owner, disposal)
            if kept:
                release(client, resource.path(record.key.namespace, record.key.name), owner)
            else:
                remaining = delete(client, resource, record)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return Removal(record=record)
            return Removal(record=record, error=classify(error, record.key, install_namespace="").to_error())
        return Removal(record=record, deleted=not kept, remaining=remaining, kept=kept)

    def _serving(self, kinds: Collection[tuple[str, str]]) -> dict[tuple[str, str], Resource | None]:
        # Discovery is refreshed if a kind is missing, since it may be new.
        served = {kind: self._resource(*kind) for kind in kinds}
        if None not in served.values():
            return served
        self._discovery.refresh()
        return {kind: self._resource(*kind) for kind in kinds}

    def _resource(self, group: str, kind: str) -> Resource | None:
        return self._stored(group, kind) or self._discovery.any_version(group, kind)

    def _at_storage_version(self, resource: Resource) -> Resource:
        return self._stored(resource.group, resource.kind) or resource

    def _reason_to_keep(self, record: Record, owner: str, disposal: Disposal) -> str:
        if disposal is Disposal.RELEASE:
            return "kept because of its kind, its annotations or the deletionPolicy"
        if disposal is Disposal.DELETE:
            return ""
        self._discovery.refresh()  # a new kind may have objects
        users = self._instances(record, owner) if record.key[:2] == CRD else self._inhabitants(record.key.name, owner)
        user = next(users, "")
        return f"kept because {user} still exists" if user else ""

    def _instances(self, record: Record, owner: str) -> Iterator[str]:
        plural, _, group = record.key.name.partition(".")
        for resource in self._discovery.resources():
            if (resource.group, resource.plural) == (group, plural):
                for item in self._list(self._at_storage_version(resource).path()):
                    labels = item["metadata"].get("labels") or {}
                    if labels.get(names.OWNER_LABEL) != owner:
                        yield _describe(resource, item)
                return

    def _inhabitants(self, namespace: str, owner: str) -> Iterator[str]:
        seen: set[tuple[str, str]] = set()
        for resource in self._discovery.resources():
            if (resource.group, resource.kind) in seen or not (resource.namespaced and resource.verbs >= _NEEDED):
                continue
            seen.add((resource.group, resource.kind))
            for item in self._list(self._at_storage_version(resource).path(namespace)):
                if _stays(resource, item["metadata"], owner):
                    yield _describe(resource, item)

    def _list(self, path: str) -> Iterator[dict[str, Any]]:
        try:
            yield from self._client.list(path, metadata=True, limit=PAGE)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


def _log(removal: Removal, owner: str, cause: RemovalCause) -> None:
    about = {"BundleDeployment": owner, "object": str(removal.record.key)}
    if removal.deleted:
        log.info("object deleted", extra={**about, "cause": cause.value})
    elif removal.kept:
        log.info("object released", extra={**about, "cause": removal.kept})


def _stays(resource: Resource, metadata: dict[str, Any], owner: str) -> bool:
    if resource.kind in _NOISE or (resource.kind, metadata["name"]) in _DEFAULTS or metadata.get("deletionTimestamp"):
        return False
    labels = metadata.get("labels") or {}
    # Another BundleDeployment is cluster-scoped: unlike an owner in the namespace, the list does not contain it.
    return labels.get(names.OWNER_LABEL, owner) != owner or not metadata.get("ownerReferences")


def _describe(resource: Resource, item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return str(ObjectKey(resource.group, resource.kind, metadata.get("namespace", ""), metadata["name"]))
