"""Read what the watches do not know: objects without our label, and entries whose hash this process never saw.

Requests are few: one LIST for many objects of a kind in a namespace, else one GET each, metadata only. A failed request
is the result of its objects. Objects are read as the account that applies them, so that no user learns about objects
that the account may not read; objects with our label are listed as the controller, which watches them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from api import names
from controller.apply.drift import (
    DELETED,
    RECREATED,
    REPLICAS,
    DriftedObject,
    covers,
    equal_by_value,
    explain,
    has_field,
    without,
)
from controller.apply.ownership import Owner, make_body
from controller.apply.plan import Action, ApplyOptions, Task
from controller.apply.pool import Pool
from controller.apply.replies import conceal_paths_of
from controller.kube.client import ApiError, Client, User
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record, entries_of, entry_of, fields_of, is_scaled, project

LIST_FROM = 4
ReadObjects = Mapping[ObjectKey, Record | ApiError | None]
ComparedObjects = Mapping[ObjectKey, bool | ApiError]


class ObjectReader:
    """Reads metadata of objects; `pool` sends concurrent requests."""

    def __init__(self, client: Client, pool: Pool) -> None:
        self._client, self._pool = client, pool

    def read_all(self, items: Iterable[tuple[ObjectKey, Resource]], user: User | None) -> ReadObjects:
        """Read objects: None for one that does not exist, an ApiError for one that could not be read.

        Raises: CancelledError if the pool was stopped.
        """
        collections: dict[str, list[tuple[ObjectKey, Resource]]] = defaultdict(list)
        for key, resource in items:
            collections[resource.path(key.namespace)].append((key, resource))
        found: dict[ObjectKey, Record | ApiError | None] = {}
        rest: list[tuple[ObjectKey, Resource]] = []
        for path, members in collections.items():
            if len(members) >= LIST_FROM:
                listed, complete = self._list(path, members, user)
                found |= listed
                rest += [] if complete else [item for item in members if item[0] not in listed]
            else:
                rest += members
        read = self._pool.run(partial(self.read, user=user), rest, user)
        found |= zip((key for key, _ in rest), read, strict=True)
        return found

    def _list(
        self, path: str, items: Sequence[tuple[ObjectKey, Resource]], user: User | None
    ) -> tuple[dict[ObjectKey, Record | ApiError | None], bool]:
        """Return the items that one page contains, and whether it is the whole collection."""
        try:
            manifests, more = self._client.acting_as(user).list_page(path, metadata=True)
        except ApiError:
            return {}, False
        first = items[0][0]
        records = (project(manifest, first.group, first.kind) for manifest in manifests)
        keys = {key for key, _ in items}
        listed: dict[ObjectKey, Record | ApiError | None] = {r.key: r for r in records if r.key in keys}
        return (listed, False) if more else ({key: listed.get(key) for key in keys}, True)

    def read(self, item: tuple[ObjectKey, Resource], user: User | None) -> Record | ApiError | None:
        """Read one object on the caller's thread; None if it does not exist, an ApiError if it cannot be read."""
        key, resource = item
        try:
            value = self._client.acting_as(user).get(resource.path(key.namespace, key.name), metadata=True).value
        except ApiError as error:
            return None if error.status == HTTPStatus.NOT_FOUND else error
        return project(value, key.group, key.kind)

    def compare(self, tasks: Sequence[tuple[Task, Resource]], options: ApplyOptions) -> ComparedObjects:
        """Return which objects are as this revision has them, without a known hash (README.md, Drift).

        An ApiError means that an object could not be read: that is no reason to apply it again.
        """
        collections: dict[tuple[str, str], list[tuple[Task, Resource]]] = defaultdict(list)
        for task, resource in tasks:
            collections[resource.group, resource.kind].append((task, resource))
        same: dict[ObjectKey, bool | ApiError] = {}
        client = self._client.acting_as(options.user)
        for items in collections.values():
            wanted = {task.target.key: (task, resource) for task, resource in items}
            found: dict[ObjectKey, bool | ApiError] = dict.fromkeys(wanted, False)
            try:
                for key, manifest in self._owned(items, options.owner):
                    if key in wanted:
                        task, resource = wanted[key]
                        body = make_body(task.target.manifest, options.owner, orphan=options.orphan)
                        found[key] = _is_same(client, manifest, body, resource, options.owner)
            except ApiError as error:
                found = dict.fromkeys(wanted, error.transient and error)
            same |= found
        return same

    def explain_drift(self, task: Task, resource: Resource, options: ApplyOptions) -> DriftedObject | None:
        """Explain the drift of an object that is not repaired, reading each version once; None: its values are ours."""
        key, ledger = task.target.key, options.ledger
        if task.record is None:
            return DriftedObject(key=key, state=DELETED)
        version, known = ledger.explanations.get(key, ("", None))
        if version != task.record.resource_version:
            known = self._read_and_explain(task, resource, options)
            ledger.explanations[key] = (task.record.resource_version, known)
        return known

    def explain_repair(
        self, task: Task, resource: Resource, options: ApplyOptions
    ) -> tuple[DriftedObject, Mapping[str, Any] | None]:
        """Explain on the caller's thread the drift of an object that is repaired now.

        Returns: the drift, and the metadata that was read; None if there is none.
        """
        key = task.target.key
        if task.action is Action.CREATE:
            return DriftedObject(key=key, state=RECREATED if key in options.ledger.recreated else DELETED), None
        client, path = self._client.acting_as(options.user), resource.path(key.namespace, key.name)
        try:
            live = client.get(path, metadata=True).value
        except ApiError:
            return DriftedObject(key=key), None  # it is repaired, whoever modified it
        body = make_body(task.target.manifest, options.owner, orphan=options.orphan)
        return _explain(key, live, body, options), live["metadata"]

    def _read_and_explain(self, task: Task, resource: Resource, options: ApplyOptions) -> DriftedObject | None:
        key = task.target.key
        body = make_body(task.target.manifest, options.owner, orphan=options.orphan)
        try:
            live = self._client.acting_as(options.user).get(resource.path(key.namespace, key.name)).value
        except ApiError as error:
            return DriftedObject(key=key, state=DELETED if error.status == HTTPStatus.NOT_FOUND else "")
        if not live["metadata"].get("deletionTimestamp") and equal_by_value(_compared(body, live), live):
            return None
        return _explain(key, live, body, options)

    def _owned(
        self, items: Sequence[tuple[Task, Resource]], owner: Owner
    ) -> Iterator[tuple[ObjectKey, dict[str, Any]]]:
        """Yield the metadata of one owner's objects of a kind, including managedFields.

        Raises: ApiError, while iterating.
        """
        key, resource = items[0][0].target.key, items[0][1]
        selector = f"{names.OWNER_LABEL}={owner.name}"
        manifests = self._client.list(resource.path(), metadata=True, label_selector=selector)
        return ((project(manifest, key.group, key.kind).key, manifest) for manifest in manifests)


def _explain(key: ObjectKey, live: Mapping[str, Any], body: Mapping[str, Any], options: ApplyOptions) -> DriftedObject:
    drift = explain(key, live, body, names.field_manager(options.owner.name))
    if not options.conceals:
        return drift
    conceal = conceal_paths_of(key)
    fields = dict.fromkeys(each._replace(path=conceal(each.path)) for each in drift.fields)
    return replace(drift, fields=tuple(fields))


def _is_same(
    client: Client, manifest: Mapping[str, Any], body: Mapping[str, Any], resource: Resource, owner: Owner
) -> bool | ApiError:
    entry = entry_of(manifest, names.field_manager(owner.name))
    if entry is not None:
        return entry.get("apiVersion") == body["apiVersion"] and covers(fields_of(entry), _compared(body, manifest))
    return not entries_of(manifest) and _has_values(client, body, resource)


def _has_values(client: Client, body: Mapping[str, Any], resource: Resource) -> bool | ApiError:
    """Compare an object by its values, since its managedFields were wiped, which alone is no drift."""
    metadata = body["metadata"]
    try:
        live = client.get(resource.path(metadata.get("namespace", ""), metadata["name"])).value
    except ApiError as error:
        return error.status != HTTPStatus.NOT_FOUND and error
    return equal_by_value(body, live)


def _compared(body: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields to compare: without spec.replicas if an autoscaler scales the object."""
    return without(body, [REPLICAS]) if is_scaled(live) and has_field(body, REPLICAS) else body
