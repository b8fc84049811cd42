"""The objects of a revision as they are on the cluster, which of them change hands, and what they lose then.

They are read with the user's permissions. The rules are those by which the controller decides (apply/ownership.py).

An entry of managedFields that shares a field with ours is removed as a whole, as the controller does with those of Helm
3 and of `kubectl apply` (apply/README.md, Ownership): a rest below an item of a list would keep the item on the object
when a later revision drops it. What only that entry had set keeps its value, without a manager. Functions that take no
client are pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import Any

from api import names
from controller.apply.drift import find_uncovered
from controller.apply.managed_fields import LAST_APPLIED
from controller.apply.ownership import Judgement, Owner, Situation, is_ours, judge
from controller.apply.targets import Target, TargetSet
from controller.cli.command import REQUESTS, attempt
from controller.cli.deployments import MANAGER
from controller.cli.other_tools import HELM_RELEASE, KUSTOMIZATION, RELEASE_NAME, RELEASE_NAMESPACE, Origin
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record, entry_of, project

PROTECTIONS = ("Prevent", "IfNoController", "None")
"""Values of spec.collisionProtection: each allows more than the one before."""
Metadata = Mapping[str, Any]
Exists = Callable[[str, str], bool]
"""Whether a BundleDeployment with a name and UID exists."""
Tree = Mapping[str, Any]
MANAGED_BY = "app.kubernetes.io/managed-by"
MARKS = {
    "annotations": (RELEASE_NAME, RELEASE_NAMESPACE, LAST_APPLIED),
    "labels": (
        MANAGED_BY,
        *(f"{group}/{key}" for group in (KUSTOMIZATION, HELM_RELEASE) for key in ("name", "namespace")),
    ),
}
"""By which Helm and Flux recognize what they may change and delete, and kubectl what it may remove."""
# Those that create objects, whose entries contain all that the server has defaulted.
_CREATORS = ("kubectl-create", "kubectl-replace", "kubectl-client-side-apply", "kubectl-run", "kubectl-expose", "helm")
TRIES = 5
"""Status of a workload may change between reading and writing."""


class Standing(Enum):
    """What becomes of an object."""

    CREATED = "created"
    OURS = "already ours"
    TAKEN = "taken over"
    ADOPTED = "adopted"
    """It has no owner, and spec.collisionProtection allows that; nothing has to be given away."""
    USED = "used"
    """A Namespace, which is not changed."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An object of the revision, and what becomes of it."""

    key: ObjectKey
    standing: Standing
    resource: Resource | None = None
    """None if the cluster does not serve its kind yet."""
    metadata: Metadata | None = None
    """None if it does not exist."""
    problem: str = ""
    """Why it is refused."""
    protection: str = PROTECTIONS[0]
    """The least that spec.collisionProtection must be."""


Assess = Callable[[Target, Record, Metadata], Finding]
"""Returns what becomes of an object that exists."""


def survey(client: Client, discovery: Discovery, targets: TargetSet, assess: Assess) -> list[Finding]:
    """Return the objects that a revision contains, in its order; `assess` decides about each that exists.

    Raises: ApiError.
    """

    def _find(target: Target) -> Finding:
        resource = discovery.resource(target.kind)
        if resource is None or (resource.namespaced and not target.key.namespace):
            return Finding(key=target.key, standing=Standing.CREATED)
        metadata = read_metadata(client, resource, target.key)
        if metadata is None:
            return Finding(key=target.key, standing=Standing.CREATED, resource=resource)
        record = project({"metadata": metadata}, target.key.group, target.key.kind)
        return replace(assess(target, record, metadata), resource=resource, metadata=metadata)

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(_find, (each for each in targets.targets if not each.bare)))


def assess_for_tool(owner: Owner, origin: Origin, exists: Exists) -> Assess:
    """Return how objects are assessed that a tool has installed: those with its marks, or nobody's, are taken over."""

    def _assess(target: Target, record: Record, metadata: Metadata) -> Finding:
        def _judge(protection: str) -> Judgement:
            carries = target.carries_reference
            return judge(record, owner, exists=exists, collision_protection=protection, carries_reference=carries)

        found = _judge(PROTECTIONS[-1])
        if found.situation is Situation.USED:
            return Finding(key=target.key, standing=Standing.USED)
        if found.situation is not Situation.ADOPT:
            return Finding(key=target.key, standing=Standing.OURS)
        if found.owner and not (found.owner == record.marks and origin.has_marked(metadata)):
            problem = f"belongs to {found.owner}, not to {origin}"
            return Finding(key=target.key, standing=Standing.REFUSED, problem=problem)
        least = next(each for each in PROTECTIONS if _judge(each).situation is Situation.ADOPT)
        return Finding(key=target.key, standing=Standing.TAKEN, protection=least)

    return _assess


def assess_for_giver(owner: Owner, giver: Owner, protection: str, exists: Exists) -> Assess:
    """Return how objects are assessed that one BundleDeployment takes over from another.

    Args:
        owner: the one that takes.
        giver: the other.
        protection: spec.collisionProtection of the one that takes.
        exists: whether a BundleDeployment exists.
    """

    def _assess(target: Target, record: Record, _: Metadata) -> Finding:
        carries = target.carries_reference
        if is_ours(record, owner, carries_reference=carries):
            return Finding(key=target.key, standing=Standing.OURS)
        if (record.owner, record.owner_uid) == (giver.name, giver.uid):
            return Finding(key=target.key, standing=Standing.TAKEN)
        found = judge(record, owner, exists=exists, collision_protection=protection, carries_reference=carries)
        if found.situation is Situation.COLLISION:
            problem = found.message.removeprefix(f"{record.key}: ")
            return Finding(key=target.key, standing=Standing.REFUSED, problem=problem)
        is_used = found.situation is Situation.USED
        return Finding(key=target.key, standing=Standing.USED if is_used else Standing.ADOPTED)

    return _assess


def find_protection(findings: Iterable[Finding], asked: str) -> str:
    """Return the spec.collisionProtection that is needed: what is asked for, or else the least that allows all."""
    return max((asked, *(each.protection for each in findings)), key=PROTECTIONS.index)


def read_metadata(client: Client, resource: Resource, key: ObjectKey) -> Mapping[str, Any] | None:
    """Return the metadata of an object; None if it does not exist.

    Raises: ApiError.
    """
    path = resource.path(key.namespace, key.name)
    found = attempt(lambda: client.get(path, metadata=True), HTTPStatus.NOT_FOUND)
    return found.value["metadata"] if found else None


def make_change(metadata: Mapping[str, Any], owner: str, origin: Origin) -> dict[str, Any] | None:
    """Return the merge patch that removes entries and marks, bound to the resourceVersion; None if there are none.

    Args:
        metadata: of an object that the BundleDeployment has applied.
        owner: name of the BundleDeployment.
        origin: what has installed the object.
    """
    ours = _fields_of(entry_of({"metadata": metadata}, names.field_manager(owner)))
    entries = metadata.get("managedFields") or []
    kept = [entry for entry in entries if not _is_dropped(entry, ours, origin)]
    marks = {kind: dict.fromkeys(_marks(metadata, kind, ours)) for kind in MARKS}
    if len(kept) == len(entries) and not any(marks.values()):
        return None
    change = {"resourceVersion": metadata["resourceVersion"], "managedFields": kept}
    return {"metadata": {**change, **{kind: found for kind, found in marks.items() if found}}}


def find_left(
    before: Mapping[str, Any], after: Mapping[str, Any], owner: str, origin: Origin, rendered: Mapping[str, Any] | None
) -> list[str]:
    """Return the paths of fields that the tool has set and the BundleDeployment does not: they stay as they are.

    Args:
        before: metadata of the object before it was adopted.
        after: the same afterwards.
        owner: name of the BundleDeployment.
        origin: what has installed the object.
        rendered: the object as the tool has rendered it, if that is known.
    """
    ours = _fields_of(entry_of({"metadata": after}, names.field_manager(owner)))
    found = dict.fromkeys(
        path
        for entry in before.get("managedFields") or []
        if _is_dropped(entry, ours, origin) and not _is_defaulted(entry)
        for path in _paths(_fields_of(entry), ours, "")
    )
    for recorded in filter(None, (rendered, _last_applied(before))):
        found |= dict.fromkeys(find_uncovered(ours, _without_nulls(recorded)))
    return [path for path in found if not _is_mark(path)]


def other_managers(metadata: Mapping[str, Any], owner: str, origin: Origin) -> list[str]:
    """Return the managers that stay, with the fields of ours that they have set, too: these stay when we drop them."""
    ours = _fields_of(entry_of({"metadata": metadata}, names.field_manager(owner)))
    managers = (names.field_manager(owner), names.initial_field_manager(owner))
    others = (each for each in metadata.get("managedFields") or [] if each.get("manager") not in managers)
    return sorted(
        {
            str(entry.get("manager"))
            for entry in others
            if not entry.get("subresource")
            and not origin.is_manager(str(entry.get("manager")))
            and _overlap(_fields_of(entry), ours)
        }
    )


def _is_dropped(entry: Mapping[str, Any], ours: Tree, origin: Origin) -> bool:
    is_theirs = not entry.get("subresource") and origin.is_manager(str(entry.get("manager", "")))
    return is_theirs and _overlap(_fields_of(entry), ours)


def _is_defaulted(entry: Mapping[str, Any]) -> bool:
    return entry.get("operation") == "Update" and str(entry.get("manager")).startswith(_CREATORS)


def _fields_of(entry: Mapping[str, Any] | None) -> Tree:
    fields: Tree = (entry or {}).get("fieldsV1") or {}
    return fields


def _overlap(left: Tree, right: Tree) -> bool:
    """Whether two trees share a field or an item of a list; that both have put something into a map does not count."""
    for name in left.keys() & right.keys() - {"."}:
        if not name.startswith("f:") or not left[name] or not right[name] or _overlap(left[name], right[name]):
            return True
    return False


def _paths(theirs: Tree, ours: Tree, path: str) -> Iterator[str]:
    """Yield the paths of the fields of a tree that the other lacks; an item of a list is one."""
    for name, child in theirs.items():
        if name == ".":
            continue
        mine = ours.get(name)
        step = _join(path, name)
        if mine is None and (not child or not name.startswith("f:")):
            yield step
        elif mine is None or mine:
            yield from _paths(child, mine or {}, step)


def _join(path: str, name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind != "f":
        item = json.loads(rest)
        shown = ",".join(f"{key}={json.dumps(value)}" for key, value in item.items()) if kind == "k" else rest
        return f"{path}[{shown}]"
    if not rest.replace("-", "").replace("_", "").isalnum():
        return f'{path}["{rest}"]'
    return f"{path}.{rest}" if path else rest


def _marks(metadata: Mapping[str, Any], kind: str, ours: Tree) -> Iterator[str]:
    claimed = (ours.get("f:metadata") or {}).get(f"f:{kind}") or {}
    found = metadata.get(kind) or {}
    for name in MARKS[kind]:
        is_set = found.get(name) == "Helm" if name == MANAGED_BY else name in found
        if is_set and f"f:{name}" not in claimed:
            yield name


def _is_mark(path: str) -> bool:
    return any(path == f'metadata.{kind}["{name}"]' for kind, found in MARKS.items() for name in found)


def _last_applied(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    text = (metadata.get("annotations") or {}).get(LAST_APPLIED)
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """What became of an object."""

    key: ObjectKey
    problem: str = ""
    """Why it was not tidied."""
    left: tuple[str, ...] = ()
    """Paths of fields that only the tool has set."""
    managers: tuple[str, ...] = ()
    """Other field managers that have set fields of ours, too."""


@dataclass(frozen=True, slots=True)
class Tidier:
    """Removes from objects what another tool has left on them."""

    client: Client
    """Acts as the user."""
    discovery: Discovery
    owner: Owner
    """To whom the objects belong now."""
    origin: Origin
    rendered: Mapping[ObjectKey, Mapping[str, Any]]
    """Objects as the tool has rendered them, as far as that is known."""

    def tidy(self, findings: Iterable[Finding]) -> list[Tidied]:
        """Tidy objects, and return what became of each.

        Raises: ApiError if the server cannot answer.
        """
        with ThreadPoolExecutor(REQUESTS) as pool:
            return list(pool.map(self._tidy, findings))

    def _tidy(self, finding: Finding) -> Tidied:
        for _ in range(TRIES):
            try:
                return self._try(finding)
            except ApiError as error:
                if error.status == HTTPStatus.FORBIDDEN:
                    return Tidied(key=finding.key, problem=str(error))
                if error.status != HTTPStatus.CONFLICT:
                    raise
        return Tidied(key=finding.key, problem="is changed all the time")

    def _try(self, finding: Finding) -> Tidied:
        """Tidy an object.

        Raises: ApiError; a 409 if it has changed meanwhile.
        """
        key = finding.key
        resource = finding.resource or self.discovery.any_version(key.group, key.kind)
        metadata = read_metadata(self.client, resource, key) if resource else None
        if resource is None or metadata is None:
            return Tidied(key=key, problem="does not exist")
        record = project({"metadata": metadata}, key.group, key.kind)
        if (record.owner, record.owner_uid) != (self.owner.name, self.owner.uid):
            return Tidied(key=key, problem=f"does not belong to {self.owner.name}")
        left = find_left(finding.metadata or metadata, metadata, self.owner.name, self.origin, self.rendered.get(key))
        change = make_change(metadata, self.owner.name, self.origin)
        if change:
            path = resource.path(key.namespace, key.name)
            metadata = self.client.merge_patch(path, change, manager=MANAGER, metadata=True).value["metadata"]
        return Tidied(key=key, left=tuple(left), managers=tuple(other_managers(metadata, self.owner.name, self.origin)))
