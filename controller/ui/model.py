"""What the page shows, as values made of objects. Pure: no request, no clock, no markup.

Texts are untrusted and stay as they are: the page sets them as text, never as markup. Not here: how they are watched
(watching.py), and what a value looks like (`static/`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from rukpak.api.v1alpha2.conditions import DECISIONS, Reason
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.status import Condition, HistoryEntry, Pending
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin
from rukpak.controller.apply.leftovers import LAST_APPLIED
from rukpak.controller.kube.events import count_of, last_seen
from rukpak.controller.status.report import describe_changes, name_of_reported, short
from rukpak.controller.untrusted import mapping, strings, text
from rukpak.controller.views.access import Manifest, find_previous
from rukpak.controller.views.comparison import mask
from rukpak.controller.views.objects import (
    STALLING,
    WAITING,
    Node,
    describe_place,
    describe_signer,
    describe_sources,
    describe_unobserved,
    describe_wave,
    group_by_wave,
    state_of,
)
from rukpak.controller.views.texts import to_yaml

Json = dict[str, Any]

# overview


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A BundleDeployment in the overview; times are in RFC 3339."""

    name: str
    state: str
    """A `DeploymentState`, in lower case."""
    ready: str = "Unknown"
    reason: str = ""
    message: str = ""
    format: str = ""
    namespace: str = ""
    revision: str = ""
    desired: str = ""
    """Digest of the revision that its sources lead to."""
    installed: str = ""
    """Digest of the one that is installed."""
    sources: Sequence[str] = ()
    """Kinds of its sources."""
    version: str = ""
    """Tags, branches and versions of charts that its sources were resolved from."""
    labels: Sequence[str] = ()
    """Such as `team=shop`."""
    requires: Sequence[str] = ()
    """Names of the BundleDeployments in its `dependsOn`."""
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
        desired=status.revision,
        installed=status.installed_revision,
        sources=list(dict.fromkeys(each.kind for each in spec.sources)),
        version=", ".join(_list_versions(status.installed_sources or status.sources)),
        labels=[f"{key}={label}" for key, label in sorted(strings(value, "metadata", "labels").items())],
        requires=spec.required_deployments,
        healthy=status.objects.healthy,
        total=status.objects.total,
        drifted=status.objects.drifted,
        paused=spec.paused,
        pending=status.pending is not None,
        deleting=deployment.metadata.deletion_timestamp is not None,
        changed=_last_change(deployment),
    )


def _list_versions(pins: Iterable[SourcePin]) -> list[str]:
    # A ConfigMap is referred to by its name.
    return [each.reference for each in pins if each.reference and each.kind != "configMap"]


def _last_change(deployment: BundleDeployment) -> str:
    times = [each.last_transition_time for each in deployment.status.conditions]
    times += [each.installed_at for each in deployment.status.history if each.installed_at]
    return _time(max(times, default=deployment.metadata.creation_timestamp))


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


# the pipeline

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
    # While nothing can be unpacked, Installed repeats why.
    if unpacked and installed and unpacked.status != "True" and unpacked.reason == installed.reason:
        installed = None
    in_content = unpacked if unpacked and unpacked.reason in _OF_CONTENT else None
    in_sources = unpacked if unpacked and not in_content else None
    in_revision = installed if installed and installed.reason in _OF_REVISION else None
    in_objects = installed if installed and not in_revision else None
    resolved = max((each.resolved_at for each in pins), default=None)
    installed_at = next(
        (each.installed_at for each in status.history if each.revision == status.installed_revision), None
    )
    # Healthy may be False all through an upgrade, but a revision has not been working before it was applied.
    applied_at = next((each.installed_at or each.started_at for each in status.history), None)
    judged_since = ""
    if healthy and healthy.reason != Reason.NOT_INSTALLED:
        judged_since = max(_time(applied_at), _time(healthy.last_transition_time))
    return [
        _step("Sources", in_sources, is_done=bool(pins), time=_time(resolved), facts=list(_describe_pins(pins))),
        _step("Content", in_content, is_done=bool(status.revision), facts=[deployment.spec.format]),
        _step("Revision", in_revision, is_done=bool(status.revision), facts=_describe_revision(deployment)),
        _step(
            "Objects", in_objects, is_done=is_installed, time=_time(installed_at), facts=_describe_objects(deployment)
        ),
        _step(
            "Health",
            healthy,
            is_done=False,
            time=judged_since,
            facts=[name_of_reported(each) for each in status.not_ready[:3]],
        ),
    ]


def _step(title: str, condition: Condition | None, *, is_done: bool, time: str = "", facts: Sequence[str]) -> Step:
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
    if reason in WAITING:
        return "waiting"
    return "failed" if reason in STALLING else "working"


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


_UNREAD: Json = dict.fromkeys(("steps", "objects", "waves", "moments", "history", "acts"), ()) | {"pending": None}


def make_detail(
    value: Manifest,
    objects: Sequence[Node],
    events: Iterable[Manifest],
    notes: Iterable[str],
    waves: Mapping[str, int],
) -> Json:
    """Return what the page of one BundleDeployment shows.

    `waves` have the places of their objects in `objects`, if there are several, the lowest one first; `notes` are
    warnings and what could not be read; `acts` are the verbs that make sense now.

    Args:
        value: the BundleDeployment.
        objects: of it, as `make_nodes` returns them.
        events: about it.
        notes: what could not be read of the cluster.
        waves: in which objects are applied, by title.
    """
    row = make_row(value)
    deployment, _ = try_to_read(value)
    if deployment is None:
        return {**_UNREAD, "row": row, "notes": tuple(notes)}
    status, uid = deployment.status, deployment.metadata.uid
    # An earlier BundleDeployment may have had the same name.
    own = (each for each in events if text(each, "regarding", "uid") in ("", uid))
    return {
        "row": row,
        "steps": make_steps(deployment),
        "objects": objects,
        "waves": _make_waves(deployment, objects, waves),
        "moments": _make_moments(status.conditions, own),
        "history": [_make_entry(each, deployment) for each in status.history],
        "pending": _make_pending(deployment, status.pending) if status.pending else None,
        "notes": [*status.warnings, *notes],
        "acts": _list_acts(deployment),
    }


def _make_waves(deployment: BundleDeployment, objects: Sequence[Node], waves: Mapping[str, int]) -> list[Json]:
    current, places = deployment.status.wave, {id(each): place for place, each in enumerate(objects)}
    found = []
    for number, members in group_by_wave([each for each in objects if not each.hook], waves):
        state = describe_wave(deployment, number)
        is_current = state == "Applying"
        found.append(
            {
                "number": number,  # None: it is not known in which wave they are
                "state": state,
                "since": _time(current.since) if current and is_current else "",
                "awaits": [each.title for each in members if is_current and each.state != "healthy"],
                "places": [places[id(each)] for each in members],
            }
        )
    return found


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
    return sorted(_say_once([*found, *map(make_event_moment, events)]), key=lambda each: each.time, reverse=True)


def make_event_moment(event: Manifest) -> Moment:
    """Return an Event as a moment."""
    count, time = count_of(event), last_seen(event)
    return Moment(
        time=f"{time[:19]}Z" if time else "",
        kind="event",
        title=f"{text(event, 'type')}{f' (x{count})' if count > 1 else ''}",
        reason=text(event, "reason"),
        message=text(event, "note"),
        tone="bad" if text(event, "type") == "Warning" else "quiet",
    )


_TONES = ("bad", "good", "quiet")


def _say_once(moments: Iterable[Moment]) -> list[Moment]:
    """Merge moments that give the same reason and message: the latest time, all titles of conditions, the worst tone.

    A message that another one ends with is the same: Installed says before it what is installed.
    """
    found: list[Moment] = []
    for each in sorted(moments, key=lambda moment: -len(moment.message)):
        place = next((at for at, known in enumerate(found) if each.message and _says(known, each)), None)
        if place is None:
            found.append(each)
            continue
        known = found[place]
        conditions = [one.title for one in (known, each) if one.kind == "condition"]
        found[place] = replace(
            known,
            time=max(known.time, each.time),
            kind="condition" if conditions else "event",
            title=", ".join(conditions or [known.title]),
            tone=min(known.tone, each.tone, key=_TONES.index),
        )
    return found


def _says(known: Moment, moment: Moment) -> bool:
    are_events = known.kind == moment.kind == "event"  # each has happened; the series of one has a count
    return known.reason == moment.reason and known.message.endswith(moment.message) and not are_events


def _tone_of(condition: Condition) -> str:
    if condition.type in _GOOD_IF_TRUE:
        is_bad = condition.status == "False" and _state_of_reason(condition.reason) == "failed"
        return "good" if condition.status == "True" else "bad" if is_bad else "quiet"
    return "bad" if condition.type == "Stalled" else "quiet"


def _make_entry(entry: HistoryEntry, deployment: BundleDeployment) -> Json:
    status = deployment.status
    return {
        "revision": entry.revision,
        "short": short(entry.revision),
        "state": describe_place(entry.revision, status),
        "outcome": entry.outcome or "",
        "installed": _time(entry.installed_at),
        "bundle": entry.bundle,
        "sources": describe_sources(entry),
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


def to_json(value: Any) -> str:
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
