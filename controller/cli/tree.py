"""`rukpak tree`: the objects and hooks of a BundleDeployment and what workloads own, with health and drift.

A BundleDeployment among the objects is shown as the first one is, with its own objects below it.

Objects are read with the user's permissions and judged as the controller does; a kind that the user cannot list is
named. Drift is what the installed revision says and the object does not; so it is only known to users who may read the
revision store. Others see which objects drift in the condition `Drifted`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.status import NotReady
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.drift import as_compared, explain
from rukpak.controller.apply.hooks import kinds_of
from rukpak.controller.apply.ownership import Owner, make_body
from rukpak.controller.apply.targets import Target, find_waves, make_targets
from rukpak.controller.building.revision import Revision
from rukpak.controller.cli.changes import open_store
from rukpak.controller.cli.command import attempt, connect, tell
from rukpak.controller.cli.deployments import (
    Deployments,
    Manifest,
    describe_unobserved,
    name_of_reported,
    tell_unserved,
    try_to_list,
)
from rukpak.controller.cli.output import Cell, Color, Painted, dump_as, is_colored, to_table
from rukpak.controller.cli.status import state_of
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind, Resource, read_kinds
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State
from rukpak.controller.observe.records import ObjectKey, key_of, project
from rukpak.controller.untrusted import mapping, mappings, text

STRAY = "part of no revision"
_HEADING = ("OBJECT", "HEALTH", "DRIFT", "MESSAGE")
BranchT = TypeVar("BranchT")
FindDrift = Callable[[Mapping[str, Any]], str]
_LEVELS = 20
"""Depth of objects that own each other; those of Kubernetes have three."""
_NESTED = 10
"""Depth of BundleDeployments that contain each other."""
_FORK, _LAST, _LINE, _NOTHING = "├─ ", "└─ ", "│  ", "   "
CHILD_KINDS: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("apps", "Deployment"): (("apps", "ReplicaSet"),),
    ("apps", "ReplicaSet"): (("", "Pod"),),
    ("apps", "StatefulSet"): (("", "Pod"),),
    ("apps", "DaemonSet"): (("", "Pod"),),
    ("", "ReplicationController"): (("", "Pod"),),
    ("batch", "CronJob"): (("batch", "Job"),),
    ("batch", "Job"): (("", "Pod"),),
}
"""What workloads own: the kinds that their controllers create."""
RUNNING = {
    each.gvk: each
    for each in (
        Resource("batch", "v1", "Job", "jobs", namespaced=True),
        Resource("", "v1", "Pod", "pods", namespaced=True),
    )
}
"""The kinds of hooks that run something."""
_COLORS = {
    State.HEALTHY: Color.GREEN,
    State.PROGRESSING: Color.YELLOW,
    State.TERMINATING: Color.YELLOW,
    State.MISSING: Color.YELLOW,
    State.FAILED: Color.RED,
}
_FAILED = (Reason.FAILED, Reason.PROGRESS_DEADLINE_EXCEEDED)
_STALLING = frozenset(each.value for each in Reason if each.retry.stalls or each in _FAILED)
"""Reasons for which a person must act on an object."""
_OBJECTS_HEADING = ("OBJECT", "HEALTH", "MESSAGE")


def main(options: argparse.Namespace) -> int:
    """Show the tree of a BundleDeployment; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    client = connect(options)
    value, deployment = Deployments(client).read(options.name)
    root = _grow_deployment(ObjectLister(client), options.namespace, deployment)
    print(_show(root, options), end="", flush=True)
    tell_unserved("tree", client, options.namespace, [value])
    return 0


def _show(root: Branch, options: argparse.Namespace) -> str:
    if options.output not in ("", "wide"):
        return dump_as(options.output, root.to_value())
    is_cut = sys.stdout.isatty() and not options.output
    width = shutil.get_terminal_size().columns if is_cut else 0
    return to_table(_HEADING, draw(root, colors=is_colored(options.color)), width=width)


def _grow_deployment(
    lister: ObjectLister, namespace: str, deployment: BundleDeployment, above: frozenset[str] = frozenset()
) -> Branch:
    """Return a BundleDeployment with what is below it.

    Args:
        lister: of objects.
        namespace: of the controller.
        deployment: to be shown.
        above: UIDs of those that it is shown below.
    """
    revisions = read_revisions(lister.client, namespace, deployment)
    find_drift = make_finder(lister.discovery, deployment, revisions)
    hooks = lister.find_hooks(deployment, _hook_kinds(revisions))
    found = [*lister.find(deployment), *hooks]
    owned = by_owner(_list_owned(lister.client, [each.value for each in found if each.value]))
    known, strays = above | {deployment.metadata.uid}, {name_of_reported(each) for each in deployment.status.strays}

    def _make_branch(each: FoundObject) -> Branch:
        drift = find_drift(each.value) if each.value and each not in hooks else ""
        drift = STRAY if each.name in strays else drift
        if child := _read_child(each, known):
            below = _grow_deployment(lister, namespace, child, known)
            return replace(below, drift="; ".join(filter(None, (drift, below.drift))))
        return each.branch(grow(each.value, owned, _make) if each.value else (), drift)

    unlisted = sorted(strays - {each.name for each in found})  # of a kind that the bundle does not have
    found += [FoundObject(name=name, reason="Unknown") for name in unlisted]
    own = [each for each in found if each not in hooks]
    waves = waves_by_name(own, (revisions or {}).get(deployment.status.revision))
    children = [
        _make_wave(deployment, number, [_make_branch(each) for each in members])
        for number, members in group_by_wave(own, waves)
    ]
    return _make_root(deployment, [*(children or map(_make_branch, own)), *map(_make_branch, hooks)])


def waves_by_name(found: Iterable[FoundObject], revision: Revision | None = None) -> Mapping[str, int]:
    """Return the waves of objects by name, in which they are applied; without those that are not known.

    Args:
        found: objects on the cluster, as far as they have been read.
        revision: that is wanted, if the user may read it: objects that wait for their wave are only there.
    """
    manifests = [*(each.value for each in found if each.value), *(revision.objects if revision else ())]
    return {str(key): wave for key, wave in find_waves(manifests).items()}


def group_by_wave(found: Sequence[FoundObject], waves: Mapping[str, int]) -> list[tuple[int | None, list[FoundObject]]]:
    """Return objects by wave, the lowest one first, and last those whose wave is not known; empty for one wave."""
    groups: dict[int | None, list[FoundObject]] = {}
    for each in found:
        groups.setdefault(waves.get(each.name), []).append(each)
    unknown = groups.pop(None, [])
    if len(groups) <= 1:
        return []
    return [*sorted(groups.items(), key=lambda group: group[0] or 0), *([(None, unknown)] if unknown else [])]


def describe_wave(deployment: BundleDeployment, number: int | None) -> str:
    """Return what a wave is doing: nothing of one whose number is not known, or if none is being applied."""
    current = deployment.status.wave
    if current is None or number is None or number < current.number:
        return ""
    return "Waiting" if number > current.number else "Applying"


def _make_wave(deployment: BundleDeployment, number: int | None, children: Sequence[Branch]) -> Branch:
    name = "Wave unknown" if number is None else f"Wave {number}"
    current, state = deployment.status.wave, describe_wave(deployment, number)
    since = f"since {current.since:%Y-%m-%dT%H:%M:%SZ}" if current and state == "Applying" else ""
    return Branch(name=name, health=state, message=since, children=children)


def _make(value: Mapping[str, Any], children: Sequence[Branch]) -> Branch:
    return judge(value).branch(children)


def _read_child(found: FoundObject, above: frozenset[str]) -> BundleDeployment | None:
    """Return an object that is a BundleDeployment, unless it is above itself or too far below the first one."""
    value = found.value
    if value is None or key_of(value)[:2] != (names.GROUP, names.KIND):
        return None
    deployment, _ = try_to_read(value)
    if deployment and (deployment.metadata.uid in above or len(above) == _NESTED):
        tell(f"warning: {found.name}: its objects are not shown, since BundleDeployments contain each other")
        return None
    return deployment


def _make_root(deployment: BundleDeployment, children: Sequence[Branch]) -> Branch:
    status = deployment.status
    ready, drifted = status.condition("Ready"), status.condition("Drifted")
    unobserved = describe_unobserved(deployment)
    messages = [unobserved or (ready.message if ready else ""), drifted.message if drifted else ""]
    return Branch(
        name=f"{names.KIND} {deployment.metadata.name}",
        health=ready.reason if ready and not unobserved else "Unknown",
        drift=", ".join(
            f"{count} {what}"
            for what, count in (("drifted", status.objects.drifted), ("strays", status.objects.strays))
            if count
        ),
        message="; ".join(filter(None, messages)),
        children=children,
        color=state_of(deployment).color,
    )


def _list_owned(client: Client, values: list[Mapping[str, Any]]) -> Iterator[Manifest]:
    """Yield what workloads may own: all objects of these kinds in their namespaces."""
    kinds_by_namespace: dict[str, set[tuple[str, str]]] = {}
    for value in values:
        key = key_of(value)
        kinds_by_namespace.setdefault(key.namespace, set()).add(key[:2])
    for namespace, kinds in sorted(kinds_by_namespace.items()):
        for group, kind in find_child_kinds(kinds):
            resource = Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=True)
            found = try_to_list(client, resource, namespace)
            if found is None:
                tell(f'warning: {kind}: you cannot list this kind in namespace "{namespace}"')
            yield from found or ()


# drift


def make_finder(
    discovery: Discovery, deployment: BundleDeployment, revisions: Mapping[str, Revision] | None
) -> FindDrift:
    """Return a function that says how an object differs from the installed revision, if the user may read that.

    Args:
        discovery: of the cluster.
        deployment: of the objects.
        revisions: as `read_revisions` returns them.

    Raises: ApiError if discovery fails.
    """
    orphan = deployment.spec.deletion_policy == "Orphan"
    owner = Owner(deployment.metadata.name, deployment.metadata.uid)
    installed = (revisions or {}).get(deployment.status.installed_revision)
    targets: Mapping[ObjectKey, Target] = {}
    if installed:
        targets = make_targets(installed, owner, orphan=orphan, is_namespaced=discovery.is_namespaced).by_key

    def _find(value: Mapping[str, Any]) -> str:
        target = targets.get(key_of(value))
        return describe_drift(value, target, owner, orphan=orphan) if target else ""

    return _find


def read_revisions(client: Client, namespace: str, deployment: BundleDeployment) -> Mapping[str, Revision] | None:
    """Return the installed and the wanted revision by digest; None for users who may not read them.

    Raises: ApiError.
    """
    store, name = open_store(client, namespace), deployment.metadata.name
    digests = sorted({deployment.status.installed_revision, deployment.status.revision} - {""})
    found = attempt(lambda: [store.read(name, digest) for digest in digests], HTTPStatus.FORBIDDEN)
    return None if found is None else {revision.digest: revision for revision in found if revision}


def _hook_kinds(revisions: Mapping[str, Revision] | None) -> set[GroupVersionKind]:
    """Return the kinds that hooks may have: those that run something, and those that the revisions name."""
    named = (kinds_of(revision) for revision in (revisions or {}).values())
    return set(RUNNING).union(*named)


def describe_drift(value: Mapping[str, Any], target: Target, owner: Owner, *, orphan: bool) -> str:
    """Return which fields of an object other clients have modified, and which ones; empty if none has. Pure.

    Args:
        value: the object.
        target: what its revision asks for.
        owner: its BundleDeployment.
        orphan: whether the deletionPolicy is Orphan.
    """
    record = project(value, target.key.group, target.key.kind)
    if record.applied_digest != target.digest or record.wiped or target.ignored.accepts_drift:
        return ""
    body = as_compared(make_body(target.manifest, owner, orphan=orphan), value)
    return explain(target.key, value, body, names.field_manager(owner.name)).describe_fields()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """An object and what it owns."""

    name: str
    """Such as `Deployment shop/web`."""
    health: str
    message: str = ""
    drift: str = ""
    """The field that another client has modified; empty: none, or not known."""
    children: Sequence[Branch] = field(default_factory=tuple)
    color: Color = Color.NONE

    def to_value(self) -> dict[str, Any]:
        """Return it as data."""
        kind, _, name = self.name.partition(" ")
        namespace, _, own = name.rpartition("/")
        return {
            "kind": kind,
            "namespace": namespace,
            "name": own,
            "health": self.health,
            "message": self.message,
            "drift": self.drift,
            "children": [child.to_value() for child in self.children],
        }


def draw(branch: Branch, *, colors: bool = False) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for an object and each below it: its name in the tree, health, drift and message."""
    for name, each in _list_branches(branch, "", ""):
        yield name, Painted(each.health, each.color) if colors else each.health, each.drift, each.message


def _list_branches(branch: Branch, name: str, margin: str) -> Iterator[tuple[str, Branch]]:
    yield f"{name}{branch.name}", branch
    for index, child in enumerate(branch.children):
        is_last = index == len(branch.children) - 1
        lead, below = (_LAST, _NOTHING) if is_last else (_FORK, _LINE)
        yield from _list_branches(child, f"{margin}{lead}", f"{margin}{below}")


def find_child_kinds(kinds: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the kinds of objects that objects of some kinds own, directly or not."""
    found: list[tuple[str, str]] = []
    waiting = list(kinds)
    while waiting:
        children = [child for child in CHILD_KINDS.get(waiting.pop(), ()) if child not in found]
        found += children
        waiting += children
    return sorted(set(found))


def by_owner(values: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return objects by the UID of the object that controls them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for value in values:
        for reference in mappings(value, "metadata", "ownerReferences"):
            if reference.get("controller"):
                found.setdefault(text(reference, "uid"), []).append(value)
    return found


def grow(
    value: Mapping[str, Any],
    owned: Mapping[str, Sequence[Mapping[str, Any]]],
    make: Callable[[Mapping[str, Any], Sequence[BranchT]], BranchT],
    above: frozenset[str] = frozenset(),
) -> list[BranchT]:
    """Return what an object owns, without the ReplicaSets of earlier rollouts.

    Args:
        value: the object.
        owned: as `by_owner` returns it.
        make: returns the branch of an object from that and what it owns.
        above: UIDs of its owners: anybody can write an object that owns itself, or a long line of owners.
    """
    found: list[BranchT] = []
    uid = text(value, "metadata", "uid")
    for child in sorted(owned.get(uid, ()), key=lambda item: text(item, "metadata", "name")):
        if uid in above or len(above) == _LEVELS:
            break
        children = grow(child, owned, make, above | {uid})
        if children or not _is_left(child):
            found.append(make(child, children))
    return found


def _is_left(value: Mapping[str, Any]) -> bool:
    """Whether a ReplicaSet only remembers an earlier rollout."""
    return value["kind"] == "ReplicaSet" and not mapping(value, "spec").get("replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObject:
    """An object of a BundleDeployment, or a kind that cannot be listed."""

    name: str
    """Such as `Deployment shop/web`."""
    reason: str
    message: str = ""
    value: Mapping[str, Any] | None = None
    """None: it is missing, or was not read."""
    color: Color = Color.NONE

    def branch(self, children: Sequence[Branch], drift: str = "") -> Branch:
        """Return it as a part of a tree."""
        return Branch(
            name=self.name, health=self.reason, message=self.message, drift=drift, children=children, color=self.color
        )

    def as_reported(self, report: NotReady) -> FoundObject:
        """Return it as the controller reports it, which knows what an apply has led to."""
        color = Color.RED if report.reason in _STALLING or self.color is Color.RED else Color.YELLOW
        return replace(self, reason=report.reason, message=report.message, color=color)


class ObjectLister:
    """Lists the objects of BundleDeployments."""

    def __init__(self, client: Client) -> None:
        self.client, self.discovery = client, Discovery(client)

    def lines(self, value: Manifest) -> list[str]:
        """Return a table of the objects of a BundleDeployment.

        Raises: ApiError.
        """
        deployment, _ = try_to_read(value)
        found = self.find(deployment) if deployment else []
        if not found or deployment is None:
            return []
        lines = ["All objects:"]
        for number, members in group_by_wave(found, waves_by_name(found)) or [(None, found)]:
            if number is not None:
                state = describe_wave(deployment, number)
                lines += [f"  Wave {number}{f' ({state.lower()})' if state else ''}:"]
            rows = [(each.name, each.reason, each.message) for each in members]
            lines += [f"  {line}" for line in to_table(_OBJECTS_HEADING, rows).splitlines()]
        return lines

    def find(self, deployment: BundleDeployment) -> list[FoundObject]:
        """Return the objects of a BundleDeployment, those that are missing first.

        Raises: ApiError.
        """
        reported = {name_of_reported(each): each for each in deployment.status.not_ready}
        found: dict[str, FoundObject] = {}
        for kind in read_kinds(deployment.status.managed_kinds):
            for each in self._list(kind, deployment):
                report = reported.get(each.name)
                found[each.name] = each.as_reported(report) if report else each
        missing = {
            name: FoundObject(name=name, reason=each.reason).as_reported(each)
            for name, each in reported.items()
            if name not in found
        }
        return [*(missing | found).values()]

    def find_hooks(self, deployment: BundleDeployment, kinds: Iterable[GroupVersionKind]) -> list[FoundObject]:
        """Return the hooks of a BundleDeployment that exist; without those of kinds that the user cannot list.

        Raises: ApiError.
        """
        if not (deployment.status.revision or deployment.status.installed_revision):
            return []  # no revision, no hooks
        found: list[FoundObject] = []
        selector = f"{names.OWNER_LABEL}={deployment.metadata.name}"
        for kind in sorted(kinds):
            resource = RUNNING.get(kind) or self.discovery.resource(kind)
            items = try_to_list(self.client, resource, "", selector) if resource else None
            found += [_judge_hook(each) for each in items or () if is_hook(each, deployment)]
        return found

    def _list(self, kind: GroupVersionKind, deployment: BundleDeployment) -> Iterator[FoundObject]:
        resource = self.discovery.resource(kind)
        if resource is None:
            yield FoundObject(name=kind.kind, reason="Unknown", message="the cluster does not serve this kind")
            return
        items = try_to_list(self.client, resource, "", f"{names.OWNER_LABEL}={deployment.metadata.name}")
        if items is None:
            yield FoundObject(name=kind.kind, reason="Unknown", message="you cannot list this kind")
        yield from (judge(item) for item in items or () if is_owned(item, deployment))


def is_owned(item: Mapping[str, Any], deployment: BundleDeployment) -> bool:
    """Return whether an object is one of a BundleDeployment."""
    # Operators copy labels to their children, but not this annotation.
    return (item["metadata"].get("annotations") or {}).get(names.OWNER_UID) == deployment.metadata.uid


def is_hook(item: Mapping[str, Any], deployment: BundleDeployment) -> bool:
    """Return whether an object is a hook of a BundleDeployment."""
    run = (item["metadata"].get("annotations") or {}).get(names.HOOK_RUN, "")
    return bool(run) and run.split(" ")[-1] == deployment.metadata.uid


def _judge_hook(value: Mapping[str, Any]) -> FoundObject:
    """Return a hook with its health, and of which event it is."""
    found, event = judge(value), value["metadata"]["annotations"][names.HOOK_RUN].partition(" ")[0]
    return replace(found, message=": ".join(filter(None, (f"{event} hook", found.message))))


def judge(value: Mapping[str, Any]) -> FoundObject:
    """Return an object with its health."""
    verdict = assess(value, Context())
    color = _COLORS[verdict.state]
    return FoundObject(
        name=str(key_of(value)), reason=verdict.reason, message=verdict.message, value=value, color=color
    )
