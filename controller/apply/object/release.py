"""Release an object without deleting it, and mark one that is to be taken back.

Never with an empty apply, which would delete all fields that we own (README.md, Ownership).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from api import names
from controller.kube.client import ApiError, Client
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record, entries_of
from controller.untrusted import mappings

_MARKS = (names.OWNER_UID, names.APPLIED_DIGEST)


def release(client: Client, resource: Resource, key: ObjectKey, owner: str) -> None:
    """Remove our marks and our managedFields entry from an object, keep its data, and set `released-from`.

    A conflict is retried once; an object that does not exist is ignored.

    Raises: ApiError.
    """
    _give_up(client, resource.path(key.namespace, key.name), owner, {names.RELEASED_FROM: owner})


def withdraw(client: Client, path: str, owner: str) -> None:
    """Remove them from an object that was never ours: another client created it just before our first apply.

    Fields that the apply added are kept, without an owner.

    Raises: ApiError.
    """
    _give_up(client, path, owner, {})


def is_shared(manifest: Mapping[str, Any], owner: str) -> bool:
    """Whether another manager has set fields of the object, not only of a subresource."""
    ours = _managers(owner)
    return any(entry.get("manager") not in ours and not entry.get("subresource") for entry in entries_of(manifest))


def _give_up(client: Client, path: str, owner: str, annotations: Mapping[str, str]) -> None:
    for attempt in (1, 2):
        try:
            _patch_given_up(client, path, owner, annotations)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return
            if error.status != HTTPStatus.CONFLICT or attempt == 2:  # noqa: PLR2004 - the last attempt
                raise
        else:
            return


def _managers(owner: str) -> tuple[str, str]:
    return (names.field_manager(owner), names.initial_field_manager(owner))


def _patch_given_up(client: Client, path: str, owner: str, annotations: Mapping[str, str]) -> None:
    metadata = client.get(path, metadata=True).value["metadata"]
    ours = _managers(owner)
    entries = [entry for entry in entries_of({"metadata": metadata}) if entry.get("manager") not in ours]
    patch: dict[str, Any] = {
        "resourceVersion": metadata["resourceVersion"],
        "labels": {names.OWNER_LABEL: None, names.OWNER_SHARD: None},
        "annotations": {**dict.fromkeys(_MARKS), **annotations},
        "ownerReferences": _without_ours(metadata, owner),
        # The server ignores an empty list; one with an empty entry clears it (Kubernetes, server-side apply).
        "managedFields": entries or [{}],
    }
    client.merge_patch(path, {"metadata": patch}, manager=ours[0], metadata=True)


def _without_ours(metadata: Mapping[str, Any], owner: str) -> list[Mapping[str, Any]] | None:
    """Return the owner references of others."""
    return [each for each in mappings(metadata, "ownerReferences") if not _is_ours(each, owner)] or None


def _is_ours(reference: Mapping[str, Any], owner: str) -> bool:
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    return (group, reference.get("kind"), reference.get("name")) == (names.GROUP, names.KIND, owner)


def make_way(client: Client, resource: Resource, record: Record, owner: str) -> str:
    """Mark an object as ours to take back, and remove another controller reference, in one write.

    The mark is `released-from`, which the last write of an adoption removes: whatever happens in between, the object is
    taken back, and it is not deleted before it is ours.

    Returns: the new resourceVersion.
    Raises: ApiError; a 409 if the object has changed since it was judged.
    """
    path = resource.path(record.key.namespace, record.key.name)
    patch: dict[str, Any] = {
        "resourceVersion": record.resource_version,
        "annotations": {names.RELEASED_FROM: owner},
    }
    if record.controller_uid:
        patch["ownerReferences"] = _without_controller(client.get(path, metadata=True).value["metadata"])
    manager = names.field_manager(owner)
    reply = client.merge_patch(path, {"metadata": patch}, manager=manager, metadata=True).value
    version: str = reply["metadata"]["resourceVersion"]
    return version


def _without_controller(metadata: dict[str, Any]) -> list[Mapping[str, Any]] | None:
    return [each for each in mappings(metadata, "ownerReferences") if not each.get("controller")] or None
