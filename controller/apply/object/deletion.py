"""Delete an object that was judged, and no other."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from controller.kube.client import ApiError, Client
from controller.kube.resources import Resource
from controller.observe.records import Record, project


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
    """Return what decides whether an object is deleted."""
    return (record.owner, record.owner_uid, record.controller_uid, record.prune, record.resource_policy)
