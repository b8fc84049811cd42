"""A BundleDeployment and its objects, wanted beside live: what status, tree and the page show of them. Pure.

An object is judged as the controller judges it, a workload with its pods. What status reports about one counts more:
the controller knows what an apply has led to. Not here: reading the objects (access.py), and how they are shown
(cli/status.py, cli/tree.py, ui/model.py); what a revision would change (dry_run.py, comparison.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import DECISIONS, Reason, Retry
from rukpak.api.v1alpha2.status import HistoryEntry, NotReady, Verified
from rukpak.api.v1alpha2.types import BundleDeployment, Status
from rukpak.controller.apply.drift import DriftedObject, as_compared, explain
from rukpak.controller.apply.ownership import Owner, make_body
from rukpak.controller.apply.targets import Target, find_waves, make_targets
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.health.explain import TEMPLATE, explained, pods_of
from rukpak.controller.observe.health.explain import explain as explain_by_pods
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State, Verdict
from rukpak.controller.observe.records import key_of, project
from rukpak.controller.status.report import FAILED, name_of_reported
from rukpak.controller.untrusted import integer, mapping, mappings, text
from rukpak.controller.views.texts import Color

WAITING = frozenset({each.value for each in Reason if each.retry is Retry.WAIT} | {each.value for each in DECISIONS})
"""Reasons of what waits for something else in the cluster, or for a decision."""
STALLING = frozenset(each.value for each in Reason if each.retry.stalls or each in FAILED)
"""Reasons for which a person must act on an object."""
_COLORS = {
    "healthy": Color.GREEN,
    "ready": Color.GREEN,
    "progressing": Color.YELLOW,
    "terminating": Color.YELLOW,
    "missing": Color.YELLOW,
    "waiting": Color.YELLOW,
    "failed": Color.RED,
    "stalled": Color.RED,
}
"""Colors of the states of objects and BundleDeployments."""
Manifest = Mapping[str, Any]
NO_UID = "00000000-0000-0000-0000-000000000000"
"""UID of a BundleDeployment that does not exist yet."""
_KEPT_METADATA = ("name", "namespace", "uid", "ownerReferences", "creationTimestamp", "deletionTimestamp")
_KEPT_MARKS = (TEMPLATE, names.OWNER_LABEL, names.OWNER_UID, names.HOOK_RUN, names.WAVE)
_LEVELS = 20
"""Depth of objects that own each other; those of Kubernetes have three."""
CHILD_KINDS: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("apps", "Deployment"): (("apps", "ReplicaSet"), ("", "Pod")),
    ("apps", "ReplicaSet"): (("", "Pod"),),
    ("apps", "StatefulSet"): (("", "Pod"),),
    ("apps", "DaemonSet"): (("", "Pod"),),
    ("", "ReplicationController"): (("", "Pod"),),
    ("batch", "CronJob"): (("batch", "Job"), ("", "Pod")),
    ("batch", "Job"): (("", "Pod"),),
}
"""What workloads own, directly or not: the kinds that their controllers create."""


class DeploymentState(Enum):
    """What a BundleDeployment is doing, as people call it; the worst first."""

    STALLED = "stalled"
    """A person must act."""
    PROGRESSING = "progressing"
    WAITING = "waiting"
    """For something else in the cluster, or for a decision."""
    PAUSED = "paused"
    READY = "Ready"


def color_of(state: str) -> Color:
    """Return the color of words that tell the state of an object or a BundleDeployment."""
    return _COLORS.get(state.lower(), Color.NONE)


def state_of(deployment: BundleDeployment) -> DeploymentState:
    """Return the state of a BundleDeployment, which is progressing until the controller has observed its spec."""
    ready = deployment.status.condition("Ready")
    if deployment.problem:
        return DeploymentState.STALLED
    if ready is None or describe_unobserved(deployment):
        return DeploymentState.PROGRESSING
    if deployment.status.condition("Stalled"):
        return DeploymentState.STALLED
    if deployment.spec.paused:
        return DeploymentState.PAUSED
    if ready.status == "True":
        return DeploymentState.READY
    return DeploymentState.WAITING if ready.reason in WAITING else DeploymentState.PROGRESSING


def describe_unobserved(deployment: BundleDeployment) -> str:
    """Return what the controller has not observed yet, so that conditions are about what was before; empty: nothing."""
    if deployment.status.observed_generation == deployment.metadata.generation:
        return ""
    since = deployment.metadata.deletion_timestamp
    what = f"being deleted since {since:%Y-%m-%dT%H:%M:%SZ}, " if since else ""
    if not deployment.status.conditions:
        return f"{what}not yet observed by the controller"
    return f"{what}generation {deployment.metadata.generation} not yet observed by the controller"


def describe_signer(verified: Verified) -> str:
    """Return who has signed the content of a source, and how."""
    who = verified.identity or verified.key
    more = f", key {verified.key}" if verified.identity and verified.key else ""
    issuer = f", issuer {verified.issuer}" if verified.issuer else ""
    return f"signed by {who} ({verified.by}{more}{issuer})"


# what there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a Pod."""

    name: str
    state: str
    """Such as `Running`, or why it waits or has ended."""
    ready: bool = False
    restarts: int = 0
    last: str = ""
    """How it ended before its last restart, such as `OOMKilled (exit code 137)`."""
    ended: str = ""
    """When that was, in RFC 3339."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An object with what it owns; also a BundleDeployment with its objects."""

    uid: str = ""
    """Empty: it does not exist, or was not read."""
    kind: str
    namespace: str = ""
    name: str = ""
    state: str = ""
    """`healthy`, `progressing`, `failed`, `terminating`, `missing` or `waiting`, for its wave; empty: not known."""
    reason: str
    message: str = ""
    drift: str = ""
    """Which fields other clients have changed, and which clients; empty: none, or not known."""
    is_stray: bool = False
    """Whether it has the marks of the BundleDeployment, but is part of no revision."""
    hook: str = ""
    """The event that it is a hook of."""
    containers: Sequence[Container] = field(default_factory=tuple)
    children: Sequence[Node] = field(default_factory=tuple)

    @property
    def title(self) -> str:
        """Its name in messages, such as `Deployment shop/web`."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The part of an object that its place in the tree depends on."""

    value: Manifest
    """Identity, owners, marks and replicas."""
    key: ObjectKey
    verdict: Verdict
    containers: tuple[Container, ...]
    hook: str
    is_troubled: bool
    """Whether it is a workload that is not healthy, which its pods may explain."""


def make_outline(value: Manifest) -> Outline:
    """Return what the tree needs of an object, judged as the controller does before it knows the pods."""
    metadata, verdict = mapping(value, "metadata"), assess(value, Context())
    kept = {key: member for key, member in metadata.items() if key in _KEPT_METADATA}
    for name in ("labels", "annotations"):
        kept[name] = {key: member for key, member in mapping(metadata, name).items() if key in _KEPT_MARKS}
    outline = {
        "apiVersion": value.get("apiVersion"),
        "kind": value.get("kind"),
        "metadata": kept,
        "spec": {"replicas": integer(value, "spec", "replicas")},
    }
    run = text(metadata, "annotations", names.HOOK_RUN)
    return Outline(
        value=outline,
        key=key_of(value),
        verdict=verdict,
        containers=tuple(_containers(value)) if value.get("kind") == "Pod" else (),
        hook=run.partition(" ")[0],
        is_troubled=verdict.state is not State.HEALTHY and bool(pods_of(value, verdict)),
    )


def _containers(pod: Manifest) -> Iterator[Container]:
    for group in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for each in mappings(pod, "status", group):
            state = next(
                ((kind, about) for kind, about in mapping(each, "state").items() if isinstance(about, dict)), None
            )
            ended = mapping(each, "lastState", "terminated")
            yield Container(
                name=text(each, "name"),
                state=_describe_container(*state) if state else "Unknown",
                ready=each.get("ready") is True,
                restarts=integer(each, "restartCount") or 0,
                last=_describe_container("terminated", ended) if ended else "",
                ended=text(ended, "finishedAt"),
            )


def _describe_container(kind: str, about: Mapping[str, Any]) -> str:
    code = integer(about, "exitCode")
    ended = f" (exit code {code})" if code else ""
    return f"{text(about, 'reason') or kind.capitalize()}{ended}"


def make_nodes(
    deployment: BundleDeployment, outlines: Iterable[Outline], find_drift: Callable[[str], str] = lambda _uid: ""
) -> list[Node]:
    """Return the objects and hooks of a BundleDeployment with what they own, after those that are missing.

    Args:
        deployment: of the objects.
        outlines: of all objects that may belong to it or be owned by one that does.
        find_drift: returns the drift of the object with a UID.
    """
    found = {text(each.value, "metadata", "uid"): each for each in outlines}
    owned = by_owner(each.value for each in found.values())
    reported = {name_of_reported(each): each for each in deployment.status.not_ready}
    # Status has the worst first.
    failed = {name_of_reported(each) for each in deployment.status.not_ready[: deployment.status.objects.failed]}
    strays = {name_of_reported(each) for each in deployment.status.strays}
    make = partial(_make_node, found)

    def _make_root(uid: str, each: Outline) -> Node:
        name = str(each.key)
        is_stray = not each.hook and name in strays
        node = replace(
            make(each.value, grow(each.value, owned, make)),
            drift="" if each.hook or is_stray else find_drift(uid),
            is_stray=is_stray,
        )
        report = reported.get(name)
        return _as_reported(node, report, is_failed=name in failed) if report else node

    roots = [
        _make_root(uid, each)
        for uid, each in found.items()
        # A ReplicaSet has the annotations of its Deployment, but not this.
        if text(each.value, "metadata", "labels", names.OWNER_LABEL) == deployment.metadata.name
        and (is_owned(each.value, deployment) or is_hook(each.value, deployment))
    ]
    named = {str(each.key) for each in found.values()}
    missing = [_missing(each, is_failed=name in failed) for name, each in reported.items() if name not in named]
    return [*missing, *roots]


def _make_node(found: Mapping[str, Outline], value: Mapping[str, Any], children: Sequence[Node]) -> Node:
    each = found[text(value, "metadata", "uid")]
    below = flatten(children) if each.is_troubled else ()
    pods = (found[node.uid].value for node in below if node.kind == "Pod")
    explanation = explain_by_pods(pods, lambda pod: found[text(pod, "metadata", "uid")].verdict)
    verdict = explained(each.verdict, explanation, kind=each.key.kind) if explanation else each.verdict
    return Node(
        uid=text(value, "metadata", "uid"),
        kind=each.key.kind,
        namespace=each.key.namespace,
        name=each.key.name,
        state=verdict.state.value.lower(),
        reason=verdict.reason,
        message=verdict.message,
        hook=each.hook,
        containers=each.containers,
        children=children,
    )


def _as_reported(node: Node, report: NotReady, *, is_failed: bool) -> Node:
    state = "failed" if is_failed else "progressing" if node.state in ("healthy", "failed") else node.state
    return replace(node, state=state, reason=report.reason, message=report.message)


def _missing(report: NotReady, *, is_failed: bool) -> Node:
    state = "failed" if is_failed else "waiting" if report.reason in WAITING else "missing"
    return Node(
        kind=report.kind,
        namespace=report.namespace,
        name=report.name,
        state=state,
        reason=report.reason,
        message=report.message,
    )


def make_unlisted(kinds: Iterable[tuple[str, str]]) -> list[Node]:
    """Return what is shown instead of the objects of kinds that could not be listed, with why."""
    return [Node(kind=kind, reason="Unknown", message=why) for kind, why in kinds]


def owner_of(deployment: BundleDeployment) -> Owner:
    """Return the owner of the objects of a BundleDeployment, which need not exist."""
    metadata = deployment.metadata
    return Owner(metadata.name, metadata.uid or NO_UID, orphan=deployment.spec.deletion_policy == "Orphan")


def is_owned(item: Mapping[str, Any], deployment: BundleDeployment) -> bool:
    """Return whether an object is one of a BundleDeployment."""
    # Operators copy labels to their children, but not this annotation.
    return (item["metadata"].get("annotations") or {}).get(names.OWNER_UID) == deployment.metadata.uid


def is_hook(item: Mapping[str, Any], deployment: BundleDeployment) -> bool:
    """Return whether an object is a hook of a BundleDeployment."""
    run = (item["metadata"].get("annotations") or {}).get(names.HOOK_RUN, "")
    return bool(run) and run.split(" ")[-1] == deployment.metadata.uid


def find_line(nodes: Iterable[Node], uid: str) -> list[Node]:
    """Return the object with a UID after its owners, the outermost first; empty if there is none."""
    for node in nodes:
        if node.uid == uid:
            return [node]
        if below := find_line(node.children, uid):
            return [node, *below]
    return []


def flatten(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield objects and all that they own."""
    for node in nodes:
        yield node
        yield from flatten(node.children)


# what owns what


def find_owned_resources(keys: Iterable[ObjectKey]) -> Iterator[tuple[str, Resource]]:
    """Yield what workloads may own, as namespaces and kinds: all objects of these kinds in their namespaces."""
    owned = {(key.namespace, child) for key in keys for child in CHILD_KINDS.get(key[:2], ())}
    for namespace, (group, kind) in sorted(owned):
        yield namespace, Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=True)


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
    make: Callable[[Mapping[str, Any], Sequence[Node]], Node],
    above: frozenset[str] = frozenset(),
) -> list[Node]:
    """Return what an object owns, without the ReplicaSets of earlier rollouts.

    Args:
        value: the object.
        owned: as `by_owner` returns it.
        make: returns the node of an object from that and what it owns.
        above: UIDs of its owners: anybody can write an object that owns itself, or a long line of owners.
    """
    found: list[Node] = []
    uid = text(value, "metadata", "uid")
    for child in sorted(owned.get(uid, ()), key=lambda item: text(item, "metadata", "name")):
        if uid in above or len(above) == _LEVELS:
            break
        children = grow(child, owned, make, above | {uid})
        if children or not _is_left(child):
            found.append(make(child, children))
    return found


def _is_left(value: Mapping[str, Any]) -> bool:
    return value["kind"] == "ReplicaSet" and not mapping(value, "spec").get("replicas")


# waves


def find_waves_by_title(live: Iterable[Manifest], revision: Revision | None = None) -> Mapping[str, int]:
    """Return the waves in which objects are applied, by their titles; without those that are not known.

    Args:
        live: objects on the cluster, as far as they have been read.
        revision: that is wanted, if the user may read it: objects that wait for their wave are only there.
    """
    manifests = [*live, *(revision.objects if revision else ())]
    return {str(key): wave for key, wave in find_waves(manifests).items()}


def group_by_wave(found: Sequence[Node], waves: Mapping[str, int]) -> list[tuple[int | None, list[Node]]]:
    """Return objects by wave, the lowest one first, and last those whose wave is not known; empty for one wave."""
    groups: dict[int | None, list[Node]] = {}
    for each in found:
        groups.setdefault(waves.get(each.title), []).append(each)
    ordered = sorted(groups.items(), key=lambda group: (group[0] is None, group[0] or 0))
    return ordered if len(groups.keys() - {None}) > 1 else []


def add_waiting(
    deployment: BundleDeployment, found: Sequence[Node], revision: Revision | None, waves: Mapping[str, int]
) -> list[Node]:
    """Return objects after those of later waves that do not exist yet, which wait and are not missing.

    Args:
        deployment: of the objects.
        found: objects, also missing ones.
        revision: that is wanted; None: not known.
        waves: as `find_waves_by_title` returns them.
    """
    current = deployment.status.wave
    if current is None or revision is None:
        return list(found)
    known = {each.title for each in found}
    wanted = {str(key_of(manifest)): key_of(manifest) for manifest in revision.objects}
    waiting = [
        Node(
            kind=key.kind,
            namespace=key.namespace,
            name=key.name,
            state="waiting",
            reason=Reason.WAITING_FOR_WAVE.value,
            message=f"applied after wave {current.number}",
        )
        for title, key in wanted.items()
        if title not in known and waves.get(title, current.number) > current.number
    ]
    return [*waiting, *found]


def describe_wave(deployment: BundleDeployment, number: int | None) -> str:
    """Return what a wave is doing: nothing of one whose number is not known, or if none is being applied."""
    current = deployment.status.wave
    if current is None or number is None or number < current.number:
        return ""
    return "Waiting" if number > current.number else "Applying"


# revisions


def describe_sources(entry: HistoryEntry) -> str:
    """Return what the sources of an entry were resolved to: tag or version, or else the digest of the content.

    Beside the digest of the revision, that of a content with a tag or version says no more to people.
    """
    return re.sub(r"(:[^@, ]+)@[0-9a-f]{12}\b", r"\1", entry.sources)


def describe_place(revision: str, status: Status) -> str:
    """Return what a revision of the history is now: installed, desired, or only kept."""
    if revision == status.installed_revision:
        return "installed"
    return "desired" if revision == status.revision else "kept"


# drift


def find_targets(
    discovery: Discovery, deployment: BundleDeployment, revisions: Mapping[str, Revision] | None
) -> Mapping[ObjectKey, Target]:
    """Return what the installed revision asks for, by object; nothing if the user may not read it.

    Args:
        discovery: of the cluster.
        deployment: of the objects.
        revisions: as `read_revisions` returns them.

    Raises: ApiError if discovery fails.
    """
    installed = (revisions or {}).get(deployment.status.installed_revision)
    if installed is None:
        return {}
    return make_targets(installed, owner_of(deployment), discovery.is_namespaced).by_key


def describe_drift(value: Mapping[str, Any], target: Target | None, owner: Owner) -> str:
    """Return which fields of an object other clients have modified, and which ones; empty if none has. Pure.

    Takes what `find_drift` does.
    """
    found = find_drift(value, target, owner)
    return found.describe_fields() if found else ""


def find_drift(value: Mapping[str, Any], target: Target | None, owner: Owner) -> DriftedObject | None:
    """Find which fields of an object other clients have modified, and which ones; None if it is as we left it. Pure.

    Args:
        value: the object.
        target: what its revision asks for; None: nothing, or that is not known.
        owner: its BundleDeployment.
    """
    if target is None:
        return None
    record = project(value, target.key.group, target.key.kind)
    if record.applied_digest != target.digest or record.wiped or target.ignored.accepts_drift:
        return None
    body = as_compared(make_body(target.manifest, owner), value)
    return explain(target.key, value, body, names.field_manager(owner.name))
