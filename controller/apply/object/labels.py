"""Labels of managed objects that were applied before their BundleDeployment moved to this shard.

Until an object has the label of the shard, no watch of its controller shows it. The label is changed in place, and
neither the applied digest nor the hash of our managedFields entry covers it: this is no drift (observe/records.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

from api import names
from controller.apply.object.pool import Pool
from controller.apply.ownership import Owner, is_ours, loses_reference
from controller.kube.client import ApiError, Client, User
from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource
from controller.kube.shard import Shard
from controller.observe.records import ObjectKey, Record, project

MANAGER = "rukpak-shard"
Relabeled = Mapping[ObjectKey, Record | ApiError]


class Relabeler:
    """Thread-safe; `pool` sends concurrent requests."""

    def __init__(self, client: Client, discovery: Discovery, pool: Pool) -> None:
        self._client, self._discovery, self._pool = client, discovery, pool

    def relabel(self, kind: GroupVersionKind, owner: Owner, user: User | None, *, orphan: bool) -> Relabeled:
        """Give the objects and hooks of an owner the label of its shard where they have another one.

        Returns: for each what it is now, or why it could not be changed; those that are gone are left out.
        Raises: ApiError if they cannot be listed; CancelledError if the pool was stopped.
        """
        resource = self._discovery.resource(kind) or self._discovery.any_version(kind.group, kind.kind)
        found = self._find(resource, owner, orphan=orphan) if resource else []
        if resource is None or not found:
            return {}
        relabel = partial(_relabel, self._client.acting_as(user), resource, owner.shard)
        replies = self._pool.run(relabel, found, user)
        return {record.key: reply for record, reply in zip(found, replies, strict=True) if reply}

    def _find(self, resource: Resource, owner: Owner, *, orphan: bool) -> list[Record]:
        selector = Shard(owner.shard).strange_objects_selector(owner.name)
        manifests = list(self._client.list(resource.path(), metadata=True, label_selector=selector))
        records = (project(manifest, resource.group, resource.kind) for manifest in manifests)
        return [each for each in records if each.is_hook or _is_ours(each, owner, orphan=orphan)]


def _relabel(client: Client, resource: Resource, shard: str, record: Record) -> Record | ApiError | None:
    # The UID is a precondition: a new object of this name is not ours.
    patch = {"metadata": {"uid": record.uid, "labels": {names.OWNER_SHARD: shard or None}}}
    path = resource.path(record.key.namespace, record.key.name)
    try:
        value = client.merge_patch(path, patch, manager=MANAGER, metadata=True).value
    except ApiError as error:
        return None if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT) else error
    return project(value, record.key.group, record.key.kind)


def _is_ours(record: Record, owner: Owner, *, orphan: bool) -> bool:
    return is_ours(record, owner, carries_reference=not loses_reference(record, orphan=orphan))
