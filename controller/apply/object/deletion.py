"""Delete an object that was judged, and no other."""

from __future__ import annotations

from http import HTTPStatus

from controller.kube.client import ApiError, Client
from controller.kube.resources import Resource
from controller.observe.records import Record, project


def delete(client: Client, resource: Resource, record: Record, *, propagation: str = "Background") -> None:
    """Delete the object of a record, also if it has changed since then, except in ownership.

    An object that no longer exists, or was replaced by another one with its name, counts as deleted.

    Raises: ApiError; a 409 if its ownership has changed.
    """
    path = resource.path(record.key.namespace, record.key.name)
    try:
        client.delete(path, uid=record.uid, resource_version=record.resource_version, propagation=propagation)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return
        if error.status != HTTPStatus.CONFLICT:
            raise
        now = project(client.get(path, metadata=True).value, record.key.group, record.key.kind)
        if now.uid == record.uid and _ownership(now) != _ownership(record):
            raise
        if now.uid == record.uid:
            client.delete(path, uid=now.uid, resource_version=now.resource_version, propagation=propagation)


def _ownership(record: Record) -> tuple[str, ...]:
    """Return what decides whether an object is deleted."""
    return (record.owner, record.owner_uid, record.controller_uid, record.prune, record.resource_policy)
