"""Which dropped object has what a refused one needs, so that it makes way (README.md, Making way).

An object is dropped if an older revision names it and the new one does not. Normally it stays until the new revision is
healthy; if the API server refuses an object because of what a dropped one has, such as a node port, neither would ever
change. Which of them has it is found out by dry runs: the refused object is accepted without the value, and with it in
the place of the holder. So an object that would be refused in any case removes nothing.

Not here: deleting holders and trying again (sender.py), and whether a refusal may be about them (replies.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.ownership import (
    DATA_KINDS,
    Disposal,
    Owner,
    RemovalCause,
    dispose,
    find_surplus,
    is_marked_to_stay,
)
from rukpak.controller.apply.replies import classify
from rukpak.controller.apply.targets import TargetSet
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import Record
from rukpak.controller.untrusted import mapping, text

MOST_TRIED = 10
"""Dropped objects that are tried as holders of what one needs; each takes two requests."""
_FIND_ALLOCATED = (
    "kubectl get services --all-namespaces --output=custom-columns="
    "NAMESPACE:.metadata.namespace,NAME:.metadata.name,PORTS:.spec.ports[*].nodePort,HEALTH:.spec.healthCheckNodePort,"
    "ADDRESSES:.spec.clusterIPs"
)
STAND_IN = "rukpak-dry-run"
"""Replaces the first label of a host name that would be taken."""
Path = tuple[str, ...]
Value = tuple[Path, str | int | bool]
"""The path of a field, with `*` for the items of a list, and its value."""

_PORTS = ("spec", "ports", "*", "nodePort")
_SERVICE: tuple[Path, ...] = (
    _PORTS,
    ("spec", "healthCheckNodePort"),
    ("spec", "clusterIP"),
    ("spec", "clusterIPs", "*"),
    ("spec", "loadBalancerIP"),
    ("spec", "externalIPs", "*"),
)
# Each of these is one pool: a port of a health check may be another Service's port.
_ALLOCATED: tuple[tuple[Path, ...], ...] = (
    (_PORTS, ("spec", "healthCheckNodePort")),
    (("spec", "clusterIP"), ("spec", "clusterIPs", "*")),
)
_SEARCHED = 5000
"""Services among which the one with a port or address is looked for."""
_HOSTS: tuple[Path, ...] = (("spec", "rules", "*", "host"), ("spec", "tls", "*", "hosts", "*"))


def _annotations(*keys: str) -> tuple[Path, ...]:
    return tuple(("metadata", "annotations", key) for key in keys)


_HELD: Mapping[tuple[str, str], tuple[Path, ...]] = {
    ("", "Service"): _SERVICE,
    ("networking.k8s.io", "Ingress"): _HOSTS,
    ("networking.k8s.io", "IngressClass"): _annotations("ingressclass.kubernetes.io/is-default-class"),
    # Kubernetes still obeys the annotation of the beta version.
    ("storage.k8s.io", "StorageClass"): _annotations(
        *(f"storageclass.{version}kubernetes.io/is-default-class" for version in ("", "beta."))
    ),
    ("scheduling.k8s.io", "PriorityClass"): (("globalDefault",),),
    # These have nothing that only one of them can have, but a quota may count them.
    ("apps", "Deployment"): (),
    ("apps", "DaemonSet"): (),
    ("autoscaling", "HorizontalPodAutoscaler"): (),
    ("networking.k8s.io", "NetworkPolicy"): (),
    ("policy", "PodDisruptionBudget"): (),
}
"""The kinds of which nothing is lost but what their manifests say, so that they make way by themselves, and their
fields whose values only one object can have. Others are deleted only for an object whose annotation names them."""
# Values that any number of objects may have.
_FREE = frozenset({"", "None", "false"})
_NAMED = re.compile(
    r"(?:(?P<kind>[A-Z][A-Za-z0-9]*)(?:\.(?P<group>[a-z0-9.-]+))?/)?(?:(?P<namespace>[a-z0-9-]+)/)?(?P<name>[^/\s]+)"
)


class Trial(Enum):
    """The result of a dry run."""

    ACCEPTED = "accepted"
    IMMUTABLE = "immutable"
    """Refused only because fields differ that cannot be changed in place: everything else was accepted."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A dropped object of the kind of a refused one."""

    record: Record
    manifest: Mapping[str, Any]
    """As it is on the cluster: the API server may have chosen the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An object that is refused, and what is known about it."""

    body: Mapping[str, Any]
    by_quota: bool
    """Whether a quota counts too many objects of its kind: each of those in its namespace counts."""
    replaces: Collection[ObjectKey] = ()
    """The objects that its annotation names, or whose annotation names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Which dropped objects have what a refused one needs."""

    known: tuple[Record, ...] = ()
    """They are deleted, or are being deleted already."""
    supposed: tuple[Record, ...] = ()
    """A person has to decide about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Tries to apply an object as a dry run: in its own place, or in that of another one of its kind."""

    client: Client
    resource: Resource
    manager: str
    key: ObjectKey

    def read(self, record: Record) -> Candidate | None:
        """Read a dropped object; None if it is gone, or may not be read."""
        try:
            value = self.client.get(self._path(record.key)).value
        except ApiError:
            return None
        return Candidate(record, value) if value["metadata"].get("uid") == record.uid else None

    def send(self, body: Mapping[str, Any], record: Record | None) -> None:
        """Send a dry run. Raises: ApiError."""
        body = in_place_of(body, record) if record else body
        path = self._path(record.key if record else self.key)
        self.client.apply(path, body, manager=self.manager, force=True, dry_run=True)

    def attempt(self, body: Mapping[str, Any], record: Record | None) -> Trial:
        """Return the result of a dry run."""
        try:
            self.send(body, record)
        except ApiError as error:
            refusal = classify(error, self.key, install_namespace="")
            return Trial.IMMUTABLE if refusal.reason is Reason.IMMUTABLE else Trial.REFUSED
        return Trial.ACCEPTED

    def find_holders(self, refused: Refused, dropped: Sequence[Record]) -> Holders:
        """Find out which of some dropped objects have what a refused one needs."""
        candidates = [found for record in dropped[:MOST_TRIED] if (found := self.read(record))]
        return find_holders(refused, candidates, self.attempt) if candidates else NO_HOLDERS

    def list_services(self) -> list[Mapping[str, Any]]:
        """Return the Services that the account may list, everywhere or at least in the namespace of the object."""
        for namespace in ("", self.key.namespace):
            try:
                return list(islice(self.client.list(self.resource.path(namespace)), _SEARCHED))
            except ApiError:
                continue
        return []

    def _path(self, key: ObjectKey) -> str:
        return self.resource.path(key.namespace, key.name)


NO_HOLDERS = Holders()
Try = Callable[[Mapping[str, Any], Record | None], Trial]
"""Tries to apply an object as a dry run: in its own place, or in that of another object."""


def find_dropped(
    key: ObjectKey,
    wanted: Collection[ObjectKey],
    older: Collection[ObjectKey],
    observed: Mapping[ObjectKey, Record],
    owner: Owner,
) -> list[Record]:
    """Return the objects of a kind that older revisions name and the wanted one does not, also those being deleted.

    Args:
        key: of an object of that kind.
        wanted: the objects of the wanted revision.
        older: those of older revisions.
        observed: the objects that carry our label.
        owner: the BundleDeployment.
    """
    same = {each: record for each, record in observed.items() if each[:2] == key[:2]}
    surplus = (wanted, older, same, owner)
    return [*find_surplus(*surplus, deleting=True), *find_surplus(*surplus)]


def may_be_deleted(record: Record) -> bool:
    """Whether a dropped object may be deleted for another one: never data, and nothing that is marked to stay."""
    is_pruned = dispose(record, RemovalCause.PRUNE) is Disposal.DELETE
    return is_pruned and record.key[:2] not in DATA_KINDS and not is_marked_to_stay(record)


def find_holders(refused: Refused, candidates: Sequence[Candidate], attempt: Try) -> Holders:
    """Find out which dropped objects have what a refused one needs.

    Args:
        refused: the object.
        candidates: dropped objects of its kind.
        attempt: sends dry runs.
    """
    shared = {each.record.key: _find_shared(refused, each) for each in candidates}
    suspects = [each for each in candidates if shared[each.record.key] is not None]
    needed = frozenset().union(*(shared[each.record.key] or () for each in suspects))
    if suspects and not refused.by_quota and attempt(without_values(refused.body, needed), None) is not Trial.ACCEPTED:
        suspects = []  # the refusal is about something else, too
    tried = [
        (each, attempt(without_values(refused.body, needed - (shared[each.record.key] or frozenset())), each.record))
        for each in suspects
    ]
    found = [each.record for each, trial in tried if trial is Trial.ACCEPTED]
    unclear = [each.record for each, trial in tried if trial is Trial.IMMUTABLE]
    if not found and (len(unclear) == 1 or refused.by_quota):
        found = unclear
    named = [each for each in candidates if each.record.key in refused.replaces and each.record not in found]
    found += [each.record for each in named if attempt(refused.body, each.record) is not Trial.REFUSED]
    if found:
        return Holders(known=tuple(found[:1] if refused.by_quota else found))
    others = [each for each in candidates if each not in suspects and each not in named]
    guessed = [
        each.record
        for each in others
        if _is_comparable(refused, each) and attempt(refused.body, each.record) is Trial.ACCEPTED
    ]
    return Holders(supposed=(*unclear, *guessed))


def _find_shared(refused: Refused, candidate: Candidate) -> frozenset[Value] | None:
    """Return the values that both have; None if there are none, or the candidate does not make way by itself.

    Where a quota counts them, no value is needed.
    """
    kind = candidate.record.key[:2]
    if kind not in _HELD:
        return None
    if refused.by_quota:
        return frozenset() if _is_comparable(refused, candidate) else None
    return (held_by(refused.body, kind) & held_by(candidate.manifest, kind)) or None


def find_allocated(
    body: Mapping[str, Any], key: ObjectKey, services: Iterable[Mapping[str, Any]], wanted: Container[ObjectKey]
) -> str:
    """Return which Services have a port or address that another one needs, and what to do.

    Args:
        body: the Service that is refused.
        key: of it.
        services: those that may be read.
        wanted: the objects of its revision.
    """
    needed = _allocated_to(body)
    for each in services:
        metadata = mapping(each, "metadata")
        found = ObjectKey("", "Service", text(metadata, "namespace"), text(metadata, "name"))
        if found == key or needed.isdisjoint(_allocated_to(each)):
            continue
        if found in wanted:
            return f"{found} of the same bundle has it: choose another value in one of the two"
        owner = text(metadata, "labels", names.OWNER_LABEL)
        whose = f' of {names.KIND} "{owner}"' if owner else ""
        return f"{found}{whose} has it: choose another value, or change or delete that one"
    return f'choose another value, or find the Service that has it with "{_FIND_ALLOCATED}"'


def _allocated_to(manifest: Mapping[str, Any]) -> frozenset[tuple[int, str]]:
    return frozenset(
        (number, str(value))
        for number, paths in enumerate(_ALLOCATED)
        for path in paths
        for value in _values(manifest, path)
    )


def _is_comparable(refused: Refused, candidate: Candidate) -> bool:
    return not refused.by_quota or candidate.record.key.namespace == text(refused.body, "metadata", "namespace")


def held_by(manifest: Mapping[str, Any], kind: tuple[str, str]) -> frozenset[Value]:
    """Return the values of an object that only one of its kind can have."""
    return frozenset((path, value) for path in _HELD.get(kind, ()) for value in _values(manifest, path))


def _values(value: Any, path: Path) -> Iterator[str | int | bool]:
    if not path:
        if isinstance(value, str | int) and value and value not in _FREE:
            yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list | tuple) else ():
            yield from _values(item, path[1:])
    elif isinstance(value, Mapping):
        yield from _values(value.get(path[0]), path[1:])


def without_values(body: Mapping[str, Any], values: Iterable[Value]) -> Mapping[str, Any]:
    """Return an object without some of its values; host names are replaced, since without one it would get them all."""
    for path, value in values:
        body = _without(body, path, value)
    return body


def _without(value: Any, path: Path, unwanted: str | int | bool) -> Any:
    first, rest = path[0], path[1:]
    if first == "*":
        items = value if isinstance(value, list | tuple) else ()
        kept = [_changed(item, rest, unwanted) for item in items]
        return [item for item in kept if item is not None]
    if not isinstance(value, Mapping) or first not in value:
        return value
    changed = _changed(value[first], rest, unwanted)
    return {**value, first: changed} if changed is not None else {k: v for k, v in value.items() if k != first}


def _changed(value: Any, path: Path, unwanted: str | int | bool) -> Any:
    if path:
        return _without(value, path, unwanted)
    if value != unwanted:
        return value
    is_host = isinstance(value, str) and "." in value and not value.replace(".", "").isdigit() and ":" not in value
    return f"{STAND_IN}.{str(value).partition('.')[2]}" if is_host else None


def in_place_of(body: Mapping[str, Any], record: Record) -> dict[str, Any]:
    """Return an object as it would be applied in the place of another one, and only if that still exists."""
    metadata = {**body["metadata"], "name": record.key.name, "uid": record.uid}
    if record.key.namespace:
        metadata["namespace"] = record.key.namespace
    return {**body, "metadata": metadata}


def read_replaced(manifest: Mapping[str, Any], key: ObjectKey) -> frozenset[ObjectKey]:
    """Return the objects that the annotation of an object names: `name`, or `Kind.group/namespace/name`.

    Parts that it leaves out are those of the object itself.
    """
    written = text(manifest, "metadata", "annotations", names.REPLACES).split(",")
    matches = filter(None, (_NAMED.fullmatch(part.strip()) for part in written))
    return frozenset(found for match in matches for found in _read_one(match, key))


def _read_one(match: re.Match[str], key: ObjectKey) -> Iterator[ObjectKey]:
    namespace, name = match["namespace"], match["name"]
    if not match["kind"]:
        yield key._replace(namespace=namespace or key.namespace, name=name)
        return
    # Whether another kind is namespaced is not known here.
    for each in {namespace} if namespace else {key.namespace, ""}:
        yield ObjectKey(match["group"] or "", match["kind"], each, name)


def find_replaced(wanted: TargetSet, before: TargetSet | None) -> dict[ObjectKey, frozenset[ObjectKey]]:
    """Return by object which dropped ones it replaces: those that it names, and in the other direction, at a rollback.

    Args:
        wanted: the targets of the wanted revision.
        before: those of the revision before.
    """
    found: dict[ObjectKey, set[ObjectKey]] = defaultdict(set)
    for target in wanted.targets:
        found[target.key].update(read_replaced(target.manifest, target.key))
    for target in before.targets if before else ():
        for key in read_replaced(target.manifest, target.key):
            found[key].add(target.key)
    dropped = {key: frozenset(each for each in keys if each not in wanted.by_key) for key, keys in found.items()}
    return {key: keys for key, keys in dropped.items() if keys and key in wanted.by_key}


def describe_supposed(record: Record, key: ObjectKey, *, makes_way: bool) -> str:
    """Return what a person can do about a dropped object that has, or seems to have, what another one needs.

    `makes_way`: whether dropped objects may be deleted for others, as far as the BundleDeployment is concerned.
    """
    what = f"{record.key}, which this revision does not contain, seems to have it"
    if not (makes_way and may_be_deleted(record)):
        return f"{what}, and is kept: delete it yourself"
    name = record.key.name if record.key.namespace == key.namespace else f"{record.key.namespace}/{record.key.name}"
    return f'{what}: delete it, or set the annotation {names.REPLACES}: "{name}" on this object in the bundle'
