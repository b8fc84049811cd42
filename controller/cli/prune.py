"""`rukpak prune`: delete the strays of a BundleDeployment, which no revision names, with the rights of the user.

The controller leaves them alone, since whoever may write an object can forge its marks. So a person decides, who sees
what would be deleted, and may delete it. The API server is asked first, by a dry run of each deletion.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from http import HTTPStatus

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.order import teardown_order
from rukpak.controller.apply.ownership import Disposal, RemovalCause, dispose, find_strays, name_objects
from rukpak.controller.apply.removal import delete
from rukpak.controller.cli.command import FAILED, confirm, connect, tell
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import Record, project
from rukpak.controller.revisions.store import unpack_whole
from rukpak.controller.views import FailedError
from rukpak.controller.views.access import Deployments, open_store, select_owned
from rukpak.controller.views.objects import owner_of

_NEEDED = frozenset({"list", "delete"})
_STAYS = "may hold data or is marked to be kept; delete it with kubectl if nobody needs it"


def main(options: argparse.Namespace) -> int:
    """Delete the strays of a BundleDeployment; return the exit status: 1 if any remains.

    Raises: MisuseError without a terminal for the question; ApiError, ConfigurationError.
    """
    client = connect(options)
    _, deployment = Deployments(client).read(options.name)
    found = _find(client, options.namespace, deployment)
    staying = {stray.key: why for stray, resource in found if (why := _find_hindrance(client, stray, resource))}
    ready = [(stray, resource) for stray, resource in found if stray.key not in staying]
    for key, why in staying.items():
        tell(f"{key}: not deleted: {why}")
    if not ready:
        tell(f"{options.name}: {'no stray can be deleted' if staying else 'no strays'}")
        return FAILED if staying else 0
    if options.dry_run:
        print("".join(f"{stray.key} deleted (dry run)\n" for stray, _ in ready), end="", flush=True)
        return FAILED if staying else 0
    tell(f'This deletes objects that no revision of BundleDeployment "{options.name}" contains:')
    for stray, _ in ready:
        tell(f"  {stray.key}")
    confirm(options, "canceled; nothing was deleted")
    return FAILED if _delete(client, ready) or staying else 0


def _delete(client: Client, strays: Iterable[tuple[Record, Resource]]) -> int:
    failures = 0
    for stray, resource in strays:
        try:
            delete(client, resource, stray)
        except ApiError as error:
            failures += 1
            tell(f"{stray.key}: not deleted: {error.tell_user()}")
        else:
            print(f"{stray.key} deleted", flush=True)
    return failures


# what is a stray


def _find(client: Client, namespace: str, deployment: BundleDeployment) -> list[tuple[Record, Resource]]:
    discovery = Discovery(client)
    observed = _list(client, discovery, deployment)
    # Read after the objects: each was named by then, since a revision is stored before it is applied.
    named = _read_named(client, namespace, discovery, deployment)
    if named is None:
        named = observed.keys() - _shown(deployment)
        if deployment.status.objects.strays > len(deployment.status.strays):
            tell("you may not read the stored revisions: only the strays in status are deleted; then run it again")
    records = find_strays({key: record for key, (record, _) in observed.items()}, named, owner=owner_of(deployment))
    return [observed[record.key] for record in teardown_order(records)]


def _shown(deployment: BundleDeployment) -> set[ObjectKey]:
    return {ObjectKey(each.group, each.kind, each.namespace, each.name) for each in deployment.status.strays}


def _list(
    client: Client, discovery: Discovery, deployment: BundleDeployment
) -> dict[ObjectKey, tuple[Record, Resource]]:
    """Return all objects with the label of a BundleDeployment, of every kind: nobody may watch that of a stray.

    Raises: ApiError.
    """
    found: dict[ObjectKey, tuple[Record, Resource]] = {}
    shown, denied = _shown(deployment), []
    kinds: dict[tuple[str, str], Resource] = {}
    for each in discovery.resources():  # the preferred version of a kind is first
        if each.verbs >= _NEEDED:
            kinds.setdefault((each.group, each.kind), each)
    for resource in kinds.values():
        records = list_records(client, resource, select_owned(deployment.metadata.name))
        if records is None:
            denied.append(resource.kind)
            records = list(_read_shown(client, resource, shown))
        found |= {record.key: (record, resource) for record in records}
    if denied:
        tell(f"not searched, since you may not list them: {', '.join(sorted(denied))}")
    return found


def list_records(client: Client, resource: Resource, selector: str) -> list[Record] | None:
    """Return the objects of a kind in all namespaces whose labels match; None if the user may not list them.

    Raises: ApiError.
    """
    found = partial(client.list, resource.path(), metadata=True, label_selector=selector)
    return attempt(lambda: [project(item, resource.group, resource.kind) for item in found()], HTTPStatus.FORBIDDEN)


def _read_shown(client: Client, resource: Resource, shown: Collection[ObjectKey]) -> Iterator[Record]:
    for key in shown:
        if key[:2] != (resource.group, resource.kind):
            continue
        get = partial(client.get, resource.path(key.namespace, key.name), metadata=True)
        if found := attempt(get, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
            yield project(found.value, *key[:2])


def _read_named(
    client: Client, namespace: str, discovery: Discovery, deployment: BundleDeployment
) -> Collection[ObjectKey] | None:
    """Return what the stored revisions name; None if the user may not read them.

    Raises: FailedError if one cannot be read, or there is none; ApiError.
    """
    name, uid, store = deployment.metadata.name, deployment.metadata.uid, open_store(client, namespace)
    packed = attempt(
        lambda: [store.read_packed(name, digest) for digest in store.digests(name, uid)], HTTPStatus.FORBIDDEN
    )
    if packed is None:
        return None
    revisions = [revision for each in packed if each and (revision := unpack_whole(each))]
    if not revisions or len(revisions) < len(packed):
        raise FailedError(f"{name}: a stored revision is missing or damaged; what it names is not known")
    return name_objects(revisions, discovery.is_namespaced, orphan=owner_of(deployment).orphan)


def _find_hindrance(client: Client, stray: Record, resource: Resource) -> str:
    if dispose(stray, RemovalCause.PRUNE) is not Disposal.DELETE:
        return _STAYS
    try:
        client.delete(resource.path(stray.key.namespace, stray.key.name), uid=stray.uid, dry_run=True)
    except ApiError as error:
        return "" if error.status == HTTPStatus.NOT_FOUND else error.tell_user()
    return ""
