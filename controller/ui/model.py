"""What the page shows, as values made of objects. Pure: no request, no clock, no markup.

Texts are untrusted and stay as they are: the page sets them as text, never as markup. Not here: how they are watched
(watching.py), and what a value looks like (`static/`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import DECISIONS, Reason, Retry
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.status import NotReady
from rukpak.api.v1alpha2.types import BundleDeployment, Condition, HistoryEntry, Pending, SourcePin
from rukpak.controller.apply.leftovers import LAST_APPLIED
from rukpak.controller.cli.comparison import mask
from rukpak.controller.cli.deployments import Manifest, describe_unobserved, name_of_reported
from rukpak.controller.cli.events import count_of, last_seen
from rukpak.controller.cli.output import to_yaml
from rukpak.controller.cli.rollback import find_previous
from rukpak.controller.cli.status import describe_signer, state_of
from rukpak.controller.cli.tree import STRAY, grow, is_hook, is_owned
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State, Verdict
from rukpak.controller.observe.records import ObjectKey, key_of
from rukpak.controller.status.report import describe_changes, short
from rukpak.controller.untrusted import integer, mapping, mappings, text

Json = dict[str, Any]

# overview


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A BundleDeployment in the overview; times are in RFC 3339."""

    name: str
    state: str
    """A `rukpak.controller.cli.status.State`."""
    ready: str = "Unknown"
    reason: str = ""
    message: str = ""
    format: str = ""
    namespace: str = ""
    revision: str = ""
    healthy: int = 0
    total: int = 0
    drifted: int = 0
    paused: bool = False
    pending: bool = False
    deleting: bool = False
    changed: str = ""
    """When something about it changed last."""


def make_row(value: Manifest) -> Row:
    """Return the row of a BundleDeployment, also of one that this release cannot read."""
    deployment, problem = try_to_read(value)
    if deployment is None:
        metadata = mapping(value, "metadata")
        message, created = f"cannot be read: {problem}", text(metadata, "creationTimestamp")
        return Row(
            name=text(metadata, "name"), state="stalled", reason="CannotBeRead", message=message, changed=created
        )
    status, spec, ready = deployment.status, deployment.spec, deployment.status.condition("Ready")
    unobserved = describe_unobserved(deployment)
    message = unobserved or (ready.message if ready else "")
    return Row(
        name=deployment.metadata.name,
        state=state_of(deployment).value.lower(),
        ready=ready.status if ready and not unobserved else "Unknown",
        reason=Reason.INVALID_CONFIG.value if deployment.problem else ready.reason if ready else "",
        message=f"cannot be read: {deployment.problem}" if deployment.problem else message,
        format=spec.format,
        namespace=spec.install_namespace or status.install_namespace,
        revision=status.display.revision,
        healthy=status.objects.healthy,
        total=status.objects.total,
        drifted=status.objects.drifted,
        paused=spec.paused,
        pending=status.pending is not None,
        deleting=deployment.metadata.deletion_timestamp is not None,
        changed=_last_change(deployment),
    )


def _last_change(deployment: BundleDeployment) -> str:
    times = [each.last_transition_time for each in deployment.status.conditions]
    times += [each.installed_at for each in deployment.status.history if each.installed_at]
    return _time(max(times, default=deployment.metadata.creation_timestamp))


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


# objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a Pod."""

    name: str
    state: str
    """Such as `Running`, or why it waits or has ended."""
    ready: bool = False
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An object with what it owns."""

    uid: str
    """Empty: it does not exist."""
    kind: str
    namespace: str
    name: str
    state: str
    """`healthy`, `progressing`, `failed`, `terminating` or `missing`."""
    reason: str
    message: str = ""
    drift: str = ""
    """Which fields another client has changed, and which one."""
    hook: str = ""
    """The event that it is a hook of."""
    containers: Sequence[Container] = field(default_factory=tuple)
    children: Sequence[Node] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The part of an object that its place in the tree depends on."""

    value: Manifest
    """Identity, owners and replicas."""
    key: ObjectKey
    verdict: Verdict
    containers: tuple[Container, ...]
    hook: str
    label: str
    """The BundleDeployment that its label names: a ReplicaSet has the annotations of its Deployment, but not this."""


def make_outline(value: Manifest) -> Outline:
    """Return what the tree needs of an object, judged as the controller does."""
    metadata = mapping(value, "metadata")
    kept = {
        key: metadata[key] for key in ("name", "namespace", "uid", "ownerReferences", "annotations") if key in metadata
    }
    annotations = mapping(metadata, "annotations")
    kept["annotations"] = {key: annotations[key] for key in (names.OWNER_UID, names.HOOK_RUN) if key in annotations}
    outline = {
        "apiVersion": value.get("apiVersion"),
        "kind": value.get("kind"),
        "metadata": kept,
        "spec": {"replicas": integer(value, "spec", "replicas")},
    }
    run = text(annotations, names.HOOK_RUN)
    return Outline(
        value=outline,
        key=key_of(value),
        verdict=assess(value, Context()),
        containers=tuple(_containers(value)) if value.get("kind") == "Pod" else (),
        hook=run.partition(" ")[0],
        label=text(metadata, "labels", names.OWNER_LABEL),
    )


def _containers(pod: Manifest) -> Iterator[Container]:
    for group in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for each in mappings(pod, "status", group):
            state = next(
                ((kind, about) for kind, about in mapping(each, "state").items() if isinstance(about, dict)), None
            )
            yield Container(
                name=text(each, "name"),
                state=_describe_container(*state) if state else "Unknown",
                ready=each.get("ready") is True,
                restarts=integer(each, "restartCount") or 0,
            )


def _describe_container(kind: str, about: Mapping[str, Any]) -> str:
    code = integer(about, "exitCode")
    ended = f" (exit code {code})" if code else ""
    return f"{text(about, 'reason') or kind.capitalize()}{ended}"


def make_nodes(
    deployment: BundleDeployment, outlines: Iterable[Outline], find_drift: Callable[[str], str]
) -> list[Node]:
    """Return the objects and hooks of a BundleDeployment with what they own, and those that are missing.

    Args:
        deployment: of the objects.
        outlines: of all objects that may belong to it or be owned by one that does.
        find_drift: returns the drift of the object with a UID.
    """
    found = {text(each.value, "metadata", "uid"): each for each in outlines}
    owned: dict[str, list[Manifest]] = {}
    for each in found.values():
        for reference in mappings(each.value, "metadata", "ownerReferences"):
            if reference.get("controller"):
                owned.setdefault(text(reference, "uid"), []).append(dict(each.value))
    reported = {name_of_reported(each): each for each in deployment.status.not_ready}
    strays = {name_of_reported(each) for each in deployment.status.strays}

    def _make(value: Mapping[str, Any], children: Sequence[Node]) -> Node:
        return _node(found[text(value, "metadata", "uid")], children)

    def _make_root(uid: str, each: Outline) -> Node:
        name, report = str(each.key), reported.get(str(each.key))
        drift = "" if each.hook else STRAY if name in strays else find_drift(uid)
        return _node(each, grow(each.value, owned, _make), drift=drift, report=report)

    roots = [
        _make_root(uid, each)
        for uid, each in found.items()
        if each.label == deployment.metadata.name
        and (is_owned(each.value, deployment) or is_hook(each.value, deployment))
    ]
    named = {str(each.key) for each in found.values()}
    missing = [_missing(each) for name, each in reported.items() if name not in named]
    return sorted([*missing, *roots], key=lambda node: (node.namespace, node.kind, node.name))


def _node(each: Outline, children: Sequence[Node], drift: str = "", report: NotReady | None = None) -> Node:
    # A report knows what an apply has led to; the object alone does not.
    is_reported = report is not None and each.verdict.state is State.HEALTHY
    return Node(
        uid=text(each.value, "metadata", "uid"),
        kind=each.key.kind,
        namespace=each.key.namespace,
        name=each.key.name,
        state=_reported_state(report) if report and is_reported else each.verdict.state.value.lower(),
        reason=report.reason if report else each.verdict.reason,
        message=report.message if report else each.verdict.message,
        drift=drift,
        hook=each.hook,
        containers=each.containers,
        children=children,
    )


def _reported_state(report: NotReady) -> str:
    return "failed" if report.reason in _FAILING else "progressing"


def _missing(report: NotReady) -> Node:
    state = "failed" if report.reason in _FAILING else "missing"
    return Node(
        uid="",
        kind=report.kind,
        namespace=report.namespace,
        name=report.name,
        state=state,
        reason=report.reason,
        message=report.message,
    )


# the pipeline

_DEADLINES = (Reason.FAILED, Reason.PROGRESS_DEADLINE_EXCEEDED)
_FAILING = frozenset(each.value for each in Reason if each.retry.stalls or each in _DEADLINES)
_WAITING = frozenset({each.value for each in Reason if each.retry is Retry.WAIT} | {each.value for each in DECISIONS})
_OF_CONTENT = frozenset(
    {
        Reason.DIGEST_MISMATCH,
        Reason.UNSUPPORTED_CONTENT,
        Reason.CONTENT_REJECTED,
        Reason.CONTENT_CONFLICT,
        Reason.STORAGE_FULL,
        Reason.STORAGE_BROKEN,
    }
)
_OF_REVISION = frozenset(
    {
        Reason.NO_CONTENT,
        Reason.DOWNGRADE,
        Reason.INVALID_BUNDLE,
        Reason.INVALID_CONFIG,
        Reason.RENDER_FAILED,
        Reason.PROCESSOR_FAILED,
        Reason.RENDER_LIMIT_EXCEEDED,
        Reason.QUARANTINED,
        Reason.UNKNOWN_FORMAT,
        Reason.UNKNOWN_PROCESSOR,
        Reason.CONFIG_NOT_FOUND,
        Reason.CONFIG_FORBIDDEN,
        Reason.DEPENDENCY_NOT_READY,
        Reason.DEPENDENCY_CYCLE,
        Reason.PAUSED_WITH_CHANGES,
        Reason.PINNED_WITH_CHANGES,
        Reason.AWAITING_APPROVAL,
        Reason.REVISION_NOT_KEPT,
        Reason.ROLLED_BACK,
        *DECISIONS,
    }
)
"""Reasons of Installed that are about which revision to apply, not about its objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step from the sources to health."""

    title: str
    state: str
    """`done`, `working`, `waiting`, `failed` or `none`, if it was not reached."""
    reason: str = ""
    message: str = ""
    time: str = ""
    facts: Sequence[str] = ()


def make_steps(deployment: BundleDeployment) -> list[Step]:
    """Return how far a BundleDeployment has come, and where it is held up."""
    status = deployment.status
    unpacked, installed, healthy = (status.condition(kind) for kind in ("Unpacked", "Installed", "Healthy"))
    pins, is_installed = status.sources or status.installed_sources, bool(status.installed_revision)
    in_content = unpacked if unpacked and unpacked.reason in _OF_CONTENT else None
    in_sources = unpacked if unpacked and not in_content else None
    in_revision = installed if installed and installed.reason in _OF_REVISION else None
    in_objects = installed if installed and not in_revision else None
    resolved = max((each.resolved_at for each in pins), default=None)
    installed_at = next(
        (each.installed_at for each in status.history if each.revision == status.installed_revision), None
    )
    return [
        _step("Sources", in_sources, is_done=bool(pins), time=_time(resolved), facts=list(_describe_pins(pins))),
        _step("Content", in_content, is_done=bool(status.revision), facts=[deployment.spec.format]),
        _step("Revision", in_revision, is_done=bool(status.revision), facts=_describe_revision(deployment)),
        _step(
            "Objects", in_objects, is_done=is_installed, time=_time(installed_at), facts=_describe_objects(deployment)
        ),
        _step("Health", healthy, is_done=False, facts=[name_of_reported(each) for each in status.not_ready[:3]]),
    ]


def _step(title: str, condition: Condition | None, *, is_done: bool, time: str = "", facts: Sequence[str]) -> Step:
    """Return a step about which a condition says something, or else only whether it is done."""
    if condition is None or condition.reason == Reason.NOT_INSTALLED:
        return Step(title=title, state="done" if is_done else "none", time=time, facts=tuple(facts))
    is_true = condition.status == "True"
    return Step(
        title=title,
        state="done" if is_true else _state_of_reason(condition.reason),
        reason=condition.reason,
        message="" if is_true else condition.message,
        time=time or _time(condition.last_transition_time),
        facts=tuple(facts),
    )


def _state_of_reason(reason: str) -> str:
    if reason in _WAITING:
        return "waiting"
    return "failed" if reason in _FAILING else "working"


def _describe_pins(pins: Iterable[SourcePin]) -> Iterator[str]:
    for pin in pins:
        yield f"{pin.kind} {pin.reference or pin.resolved.partition('@')[0]} @ {short(pin.digest)}"
        if pin.verified:
            yield describe_signer(pin.verified)


def _describe_revision(deployment: BundleDeployment) -> list[str]:
    status = deployment.status
    facts = [short(status.revision)] if status.revision else []
    if status.installed_revision and status.installed_revision != status.revision:
        facts.append(f"installed: {short(status.installed_revision)}")
    if status.pending:
        facts.append(f"waiting: {short(status.pending.revision)}")
    if status.pinned:
        facts.append(f"pinned: {short(status.pinned.revision)}")
    return facts


def _describe_objects(deployment: BundleDeployment) -> list[str]:
    objects, wave = deployment.status.objects, deployment.status.wave
    kinds = ("progressing", "failed", "drifted", "retained", "strays")
    counts = [f"{count} {kind}" for kind in kinds if (count := getattr(objects, kind))]
    counts = [f"{objects.healthy} of {objects.total} healthy", *counts] if objects.total else counts
    return [*counts, f"applying wave {wave.number}"] if wave else counts


# one BundleDeployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A condition or an Event, on the line of time."""

    time: str
    kind: str
    """`condition` or `event`."""
    title: str
    reason: str = ""
    message: str = ""
    tone: str = "quiet"
    """`good`, `bad` or `quiet`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One BundleDeployment."""

    row: Row
    steps: Sequence[Step] = ()
    objects: Sequence[Node] = ()
    moments: Sequence[Moment] = ()
    history: Sequence[Json] = ()
    pending: Json | None = None
    notes: Sequence[str] = ()
    """Warnings, and what could not be read."""
    acts: Sequence[str] = ()
    """The verbs that make sense now."""


def make_detail(value: Manifest, objects: Sequence[Node], events: Iterable[Manifest], notes: Iterable[str]) -> Detail:
    """Return what the page of one BundleDeployment shows.

    Args:
        value: the BundleDeployment.
        objects: of it, as `make_nodes` returns them.
        events: about it.
        notes: what could not be read of the cluster.
    """
    row = make_row(value)
    deployment, _ = try_to_read(value)
    if deployment is None:
        return Detail(row=row, notes=tuple(notes))
    status = deployment.status
    return Detail(
        row=row,
        steps=make_steps(deployment),
        objects=objects,
        moments=_make_moments(status.conditions, events),
        history=[_make_entry(each, deployment) for each in status.history],
        pending=_make_pending(deployment, status.pending) if status.pending else None,
        notes=[*status.warnings, *notes],
        acts=_list_acts(deployment),
    )


_GOOD_IF_TRUE = ("Unpacked", "Installed", "Healthy", "Ready")


def _make_moments(conditions: Iterable[Condition], events: Iterable[Manifest]) -> list[Moment]:
    found = [
        Moment(
            time=_time(each.last_transition_time),
            kind="condition",
            title=f"{each.type} is {each.status}",
            reason=each.reason,
            message=each.message,
            tone=_tone_of(each),
        )
        for each in conditions
    ]
    for event in events:
        count = count_of(event)
        found.append(
            Moment(
                time=f"{last_seen(event)[:19]}Z",
                kind="event",
                title=f"{text(event, 'type')}{f' (x{count})' if count > 1 else ''}",
                reason=text(event, "reason"),
                message=text(event, "note"),
                tone="bad" if text(event, "type") == "Warning" else "quiet",
            )
        )
    return sorted(found, key=lambda each: each.time, reverse=True)


def _tone_of(condition: Condition) -> str:
    if condition.type in _GOOD_IF_TRUE:
        is_bad = condition.status == "False" and _state_of_reason(condition.reason) == "failed"
        return "good" if condition.status == "True" else "bad" if is_bad else "quiet"
    return "bad" if condition.type == "Stalled" else "quiet"


def _make_entry(entry: HistoryEntry, deployment: BundleDeployment) -> Json:
    status = deployment.status
    states = {status.revision: "desired", status.installed_revision: "installed"}
    return {
        "revision": entry.revision,
        "short": short(entry.revision),
        "state": states.get(entry.revision, "kept"),
        "outcome": entry.outcome or "",
        "installed": _time(entry.installed_at),
        "sources": entry.sources,
        "message": entry.message,
        "previous": entry.revision == find_previous(status),
    }


def _make_pending(deployment: BundleDeployment, pending: Pending) -> Json:
    return {
        "revision": pending.revision,
        "short": short(pending.revision),
        "since": _time(pending.since),
        "account": pending.service_account_name,
        "changes": describe_changes(pending.changes),
        "permissions": list(pending.permissions.added),
        "more": pending.permissions.truncated,
        "sources": [
            f"{pin.kind} {pin.resolved}{f', {describe_signer(pin.verified)}' if pin.verified else ''}"
            for pin in pending.sources
        ],
        "problems": list(pending.problems),
        "shown": seal(deployment),
    }


def seal(deployment: BundleDeployment) -> str:
    """Return what is equal for BundleDeployments in which the same revision waits in the same way.

    A decision carries the one that was shown, so that nothing else is approved or denied.
    """
    metadata, pending = deployment.metadata, deployment.status.pending
    shown = (metadata.uid, metadata.generation, pending.model_dump_json() if pending else "")
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def _list_acts(deployment: BundleDeployment) -> list[str]:
    if deployment.metadata.deletion_timestamp:
        return []
    status, is_pinned = deployment.status, deployment.spec.pinned_revision
    acts = ["resume" if deployment.spec.paused else "pause", "reconcile"]
    acts += ["approve", "deny"] if status.pending else []
    return [*acts, *(["undo"] if is_pinned else []), *(["rollback"] if len(status.history) > 1 else [])]


def to_json(value: Row | Detail) -> str:
    """Return a value as JSON."""
    return json.dumps(value, default=_members)


def _members(value: Any) -> Json:
    # Unlike asdict, this copies nothing: a BundleDeployment may have thousands of objects.
    return {each.name: getattr(value, each.name) for each in fields(value)}


def write_yaml(value: Manifest, key: bytes) -> str:
    """Return an object as YAML: without managedFields, and of a Secret without values.

    Args:
        value: the object.
        key: of the hashes that stand for values.
    """
    metadata = {name: member for name, member in mapping(value, "metadata").items() if name != "managedFields"}
    annotations = mapping(metadata, "annotations")
    if LAST_APPLIED in annotations:  # also has the values of a Secret
        metadata["annotations"] = {name: each for name, each in annotations.items() if name != LAST_APPLIED}
    ordered = dict.fromkeys(("apiVersion", "kind", "metadata")) | dict(value) | {"metadata": metadata}
    return to_yaml(dict(mask(ordered, key)))
