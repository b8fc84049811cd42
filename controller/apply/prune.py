"""Delete managed objects, or keep and release them (README.md, Prune and deletion).

Candidates come from the watches and have passed the ownership test. A DELETE has preconditions on UID and
resourceVersion, so that no object is deleted that has changed in the meantime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from itertools import groupby
from typing import Any

from api import names
from api.errors import BundleError
from controller.apply.failures.missing_rights import MissingRightsError, list_all
from controller.apply.failures.replies import classify
from controller.apply.object.deletion import delete
from controller.apply.object.pool import Pool
from controller.apply.object.release import release
from controller.apply.order import teardown_order, teardown_position
from controller.apply.ownership import is_marked_to_stay
from controller.kube.client import ApiError, Client, User
from controller.kube.discovery import Discovery
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record

log = logging.getLogger(__name__)

_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
_NAMESPACE = ("", "Namespace")
_DATA = frozenset({_CRD, ("", "PersistentVolumeClaim")})
PAGE = 50
# What the API server and its controllers create in every namespace.
_DEFAULTS = frozenset(
    {("ConfigMap", "kube-root-ca.crt"), ("ConfigMap", "openshift-service-ca.crt"), ("ServiceAccount", "default")}
)
_NOISE = frozenset({"Event", "EndpointSlice", "Endpoints", "Lease", "PodMetrics"})


class Disposal(Enum):
    """What is done with an object that is no longer wanted."""

    DELETE = "delete"
    RELEASE = "release"
    DELETE_UNUSED = "delete unless in use"
    """CustomResourceDefinitions at teardown, Namespaces always."""


class RemovalCause(Enum):
    """Why objects are removed."""

    PRUNE = "prune"
    TEARDOWN = "teardown"
    ORPHAN = "teardown with deletionPolicy Orphan"


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


def dispose(record: Record, cause: RemovalCause) -> Disposal:
    """Decide what is done with an object of ours that is removed. Pure."""
    group_kind = (record.key.group, record.key.kind)
    if cause is RemovalCause.ORPHAN or is_marked_to_stay(record):
        return Disposal.RELEASE
    if group_kind == _NAMESPACE:
        return Disposal.DELETE_UNUSED
    if group_kind == _CRD and cause is RemovalCause.TEARDOWN:
        return Disposal.DELETE_UNUSED
    if group_kind in _DATA and record.prune != "true":
        return Disposal.RELEASE
    return Disposal.DELETE


class Remover:
    """Deletes and releases objects, in order; those of one step at the same time.

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
        ordered = teardown_order([record for record in records if not record.deleting], key=lambda record: record.key)
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
        lack = list_all(removal.error for removal in removals)
        return [replace(each, error=lack) if isinstance(each.error, MissingRightsError) else each for each in removals]

    def _remove(self, client: Client, record: Record, resource: Resource, owner: str, disposal: Disposal) -> Removal:
        remaining = None
        try:
            kept = self._reason_to_keep(record, owner, disposal)
            if kept:
                release(client, resource, record.key, owner)
            else:
                remaining = delete(client, resource, record)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return Removal(record=record)
            return Removal(record=record, error=_failure(error, record.key))
        return Removal(record=record, deleted=not kept, remaining=remaining, kept=kept)

    def _serving(self, kinds: Collection[tuple[str, str]]) -> dict[tuple[str, str], Resource | None]:
        """Return the resource of each kind; discovery is refreshed if one is missing, since it may be new."""
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
        users = self._instances(record, owner) if record.key[:2] == _CRD else self._inhabitants(record.key.name, owner)
        user = next(users, "")
        return f"kept because {user} still exists" if user else ""

    def _instances(self, record: Record, owner: str) -> Iterator[str]:
        """Yield custom resources that are not this BundleDeployment's."""
        plural, _, group = record.key.name.partition(".")
        for resource in self._discovery.resources():
            if (resource.group, resource.plural) == (group, plural):
                for item in self._list(self._at_storage_version(resource).path()):
                    labels = item["metadata"].get("labels") or {}
                    if labels.get(names.OWNER_LABEL) != owner:
                        yield _describe(resource, item)
                return

    def _inhabitants(self, namespace: str, owner: str) -> Iterator[str]:
        """Yield the objects of a namespace that neither the server created nor an owner in it deletes."""
        seen: set[tuple[str, str]] = set()
        for resource in self._discovery.resources():
            group_kind = (resource.group, resource.kind)
            if (
                not resource.namespaced
                or "list" not in resource.verbs
                or "delete" not in resource.verbs
                or group_kind in seen
            ):
                continue
            seen.add(group_kind)
            for item in self._list(self._at_storage_version(resource).path(namespace)):
                if _stays(resource, item["metadata"], owner):
                    yield _describe(resource, item)

    def _list(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield metadata; nothing for a kind that is no longer served."""
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


def _failure(error: ApiError, key: ObjectKey) -> BundleError:
    failure = classify(error, key, install_namespace="")
    if failure.missing:
        return MissingRightsError(failure.message, failure.account, failure.missing)
    return BundleError(failure.reason, failure.message, retry_after=failure.retry_after)


def _stays(resource: Resource, metadata: dict[str, Any], owner: str) -> bool:
    if resource.kind in _NOISE or (resource.kind, metadata["name"]) in _DEFAULTS or metadata.get("deletionTimestamp"):
        return False
    labels = metadata.get("labels") or {}
    # Another BundleDeployment is cluster-scoped: unlike an owner in the namespace, the list does not contain it.
    return labels.get(names.OWNER_LABEL, owner) != owner or not metadata.get("ownerReferences")


def _describe(resource: Resource, item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return str(ObjectKey(resource.group, resource.kind, metadata.get("namespace", ""), metadata["name"]))
