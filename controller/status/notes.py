"""What Events say: of a changed status, of repairs, of what is kept or left behind, and of what nobody watches. Pure.

A note is of one pass; that equal ones are sent once is left to kube/events.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from api.errors import BundleError
from api.v1alpha2.conditions import ConditionType, Reason, Retry
from api.v1alpha2.types import Condition, Status
from controller.apply.outcome import Outcome
from controller.apply.prune import Removal
from controller.kube.events import Note
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey
from controller.status.texts import list_some

NAMED = 10
# What belongs to an installation, an upgrade or a deletion in which nothing is wrong.
_EXPECTED = (Reason.WAITING_FOR_HOOK, Reason.WAITING_FOR_CRD, Reason.DELETING, Reason.PAUSED_WITH_CHANGES)


def notes(before: Status, after: Status) -> list[Note]:
    """Return what to say in Events: what has become of Ready, and what resuming puts right. Nothing for what stays."""
    return [
        *_note_on_ready(before.condition(ConditionType.READY), after.condition(ConditionType.READY)),
        *_note_on_pause(before, after),
        *_note_on_drift(before.condition(ConditionType.DRIFTED), after.condition(ConditionType.DRIFTED)),
        *_note_on_warnings(before.warnings, after.warnings),
    ]


def notes_on_repairs(outcomes: Iterable[Outcome]) -> list[Note]:
    """Return what to say in Events about objects that were put right: one for all of a pass."""
    repaired = [str(outcome.task.target.key) for outcome in outcomes if outcome.repaired]
    text = f"{list_some(repaired)}: put right what somebody had changed"
    return [Note(type="Normal", reason="Repaired", action="Apply", text=text)] if repaired else []


def notes_on_removals(removals: Iterable[Removal]) -> list[Note]:
    """Return what to say in Events about objects that stay although the bundle lacks them."""
    kept = [f"{removal.record.key}: {removal.kept}" for removal in removals if removal.kept]
    return [Note(type="Normal", reason="Retained", action="Release", text=text) for text in kept]


def notes_on_abandoned(removals: Iterable[Removal]) -> list[Note]:
    """Return what to say about objects that the account may not delete: once for an equal failure."""
    errors = {removal.error.message: removal.error for removal in removals if removal.error}
    return [_left(error, ()) for error in errors.values()]


def note_on_hindrance(hindrance: BundleError, staying: Iterable[ObjectKey]) -> Note:
    """Return what to say when a BundleDeployment goes, and nobody may act for it.

    Args:
        hindrance: why.
        staying: what the garbage collector does not take.
    """
    return _left(hindrance, staying)


def _left(error: BundleError, staying: Iterable[ObjectKey]) -> Note:
    listed = list_some(staying, NAMED)
    stays = f"{listed}: is left as it is; delete it yourself; " if listed else ""
    text = f"ordinary objects are left to the garbage collector; {stays}{error.message}"
    return Note(type="Warning", reason=error.reason.value, action="Delete", text=text)


def describe_unseen(kinds: Iterable[GroupVersionKind]) -> list[str]:
    """Return warnings about kinds whose objects are applied, and not watched."""
    return [
        f"{kind}: drift of its objects is not seen, as the controller may not watch them; grant it list and watch"
        for kind in sorted(map(str, kinds))
    ]


def _note_on_ready(last: Condition | None, now: Condition | None) -> list[Note]:
    if now is None or (last and (last.status, last.reason) == (now.status, now.reason)):
        return []
    if now.status == "True":
        return [Note(type="Normal", reason=now.reason, action="Reconcile", text=now.message)]
    reason = Reason(now.reason)
    is_news = reason.retry is not Retry.NONE or reason in (Reason.FAILED, Reason.PROGRESS_DEADLINE_EXCEEDED)
    severity: Literal["Normal", "Warning"] = "Normal" if reason in _EXPECTED else "Warning"
    return [Note(type=severity, reason=now.reason, action="Reconcile", text=now.message)] if is_news else []


def _note_on_pause(before: Status, after: Status) -> list[Note]:
    was, now = before.condition(ConditionType.PAUSED), after.condition(ConditionType.PAUSED)
    if now and not was:
        return [Note(type="Normal", reason="Paused", action="Pause", text=now.message)]
    if was and not now:
        drift = before.condition(ConditionType.DRIFTED)
        text = f"puts right what was changed: {drift.message}" if drift else "nothing was changed meanwhile"
        if drift and (stays := after.condition(ConditionType.DRIFTED)):
            text = stays.message
        return [Note(type="Normal", reason="Resumed", action="Resume", text=text)]
    return []


def _note_on_drift(last: Condition | None, now: Condition | None) -> list[Note]:
    if now is None or (last and last.reason == now.reason):
        return []
    return [Note(type="Warning", reason="Drifted", action="Compare", text=f"{now.reason}: {now.message}")]


def _note_on_warnings(last: Sequence[str], now: Sequence[str]) -> list[Note]:
    """One for all that are new."""
    new = [text for text in now if text not in last]
    return [Note(type="Warning", reason="Warnings", action="Apply", text="; ".join(new))] if new else []
