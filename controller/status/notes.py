"""The texts of Events and warnings: changes of status, repairs, objects that are kept or left behind. Pure.

A note belongs to one pass; kube/events.py sends equal ones once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import DECISIONS, ConditionType, Reason, Retry
from rukpak.api.v1alpha2.status import Changes, Condition, HistoryEntry, Pending, Rollback, Status
from rukpak.controller.apply.drift import DELETED, RECREATED
from rukpak.controller.apply.order import describe_awaited
from rukpak.controller.apply.plan import Action, Outcome
from rukpak.controller.apply.removal import Removal
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.events import NOTE_CHARACTERS, Note
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.health.explain import is_pod_stuck
from rukpak.controller.status.report import (
    FAILED,
    describe_changes,
    list_drifted,
    list_some,
    name_of_reported,
    short,
    what_strays_are,
)

NAMED = 10
# Normal steps of an installation, an upgrade or a deletion, and decisions.
_EXPECTED = (
    *DECISIONS,
    Reason.WAITING_FOR_WAVE,
    Reason.WAITING_FOR_HOOK,
    Reason.WAITING_FOR_CRD,
    Reason.DELETING,
    Reason.PAUSED_WITH_CHANGES,
    Reason.DEPENDENCY_NOT_READY,
)


def notes(before: Status, after: Status) -> list[Note]:
    """Return the Events for what differs between two statuses: Ready, pending, Paused, Drifted and warnings."""
    return [
        *_note_on_ready(before.condition(ConditionType.READY), after.condition(ConditionType.READY)),
        *_note_on_pending(before.pending, after.pending),
        *_note_on_rollback(before.rollback, after.rollback),
        *_note_on_pause(before, after),
        *_note_on_pods(before, after),
        *_note_on_drift(_drift_in(before), _drift_in(after)),
        *_note_on_warnings(before.warnings, after.warnings),
    ]


def _tell(reason: str, action: str, text: str, severity: Literal["Normal", "Warning"] = "Normal") -> list[Note]:
    return [Note(type=severity, reason=reason, action=action, text=text)] if text else []


def _tell_of(reason: str, objects: Iterable[object], what: str, action: str = "Delete") -> list[Note]:
    listed = list_some(objects, NAMED)
    return _tell(reason, action, listed and f"{listed}: {what}")


def notes_on_repairs(outcomes: Iterable[Outcome]) -> list[Note]:
    """Return one Event for all objects that a pass has repaired."""
    drift = [outcome.repaired for outcome in outcomes if outcome.repaired]
    deleted = [each.key for each in drift if each.state == DELETED]
    recreated = [each.key for each in drift if each.state == RECREATED]
    modified = [each for each in drift if each.state not in (DELETED, RECREATED)]
    told = [
        (list_drifted(modified, NOTE_CHARACTERS // 2), "modified by another client; repaired"),
        (list_some(deleted), "deleted by another client; created again"),
        (list_some(recreated), "recreated because an immutable field was modified"),
    ]
    return _tell("Repaired", "Apply", "; ".join(f"{objects}: {what}" for objects, what in told if objects))


def notes_on_recreations(outcomes: Iterable[Outcome]) -> list[Note]:
    """Return one Event for all objects that a pass has deleted to recreate them."""
    listed = list_some(outcome.task.target.key for outcome in outcomes if outcome.recreated)
    what = "deleted because an immutable field changed; recreated once it is gone"
    return _tell("Recreating", "Delete", listed and f"{listed}: {what}")


def notes_on_making_way(outcomes: Iterable[Outcome]) -> list[Note]:
    """Return one Event for each object for which dropped ones were deleted."""
    return [
        note
        for each in outcomes
        for note in _tell_of("Pruned", each.made_way, f"deleted, since {each.task.target.key} needs what it had")
    ]


def notes_on_taking_over(outcomes: Iterable[Outcome]) -> list[Note]:
    """Return one Event for all objects that a pass has taken over from each other BundleDeployment."""
    taken: dict[str, list[ObjectKey]] = {}
    for outcome in outcomes:
        task = outcome.task
        if task.action is Action.TAKE_OVER and task.record and outcome.record:
            taken.setdefault(task.record.owner, []).append(task.target.key)
    return [
        note
        for giver, keys in sorted(taken.items())
        for note in _tell_of("TakenOver", keys, f"taken over from BundleDeployment {quote(giver)}", "TakeOver")
    ]


def notes_on_pruning(removals: Iterable[Removal], revision: str) -> list[Note]:
    """Return one Event for all objects that a pass has deleted because a revision does not contain them."""
    found = list(removals)
    what = f"deleted because revision {short(revision)} does not contain it"
    held = [describe_awaited(removal.remaining) for removal in found if removal.remaining]
    deleted = _deleted(removal for removal in found if not removal.remaining)
    return [*_tell_of("Pruned", deleted, what), *_tell_of("Pruned", held, f"being {what}")]


def notes_on_teardown(removals: Iterable[Removal]) -> list[Note]:
    """Return one Event for all objects that a pass has deleted with their BundleDeployment."""
    return _tell_of("Deleted", _deleted(removals), "deleted with the BundleDeployment")


def _deleted(removals: Iterable[Removal]) -> list[ObjectKey]:
    return [removal.record.key for removal in removals if removal.deleted]


def notes_on_removals(removals: Iterable[Removal]) -> list[Note]:
    """Return one Event for each object that is kept although no revision contains it any more."""
    kept = [f"{removal.record.key}: {removal.kept}" for removal in removals if removal.kept]
    return [Note(type="Normal", reason="Retained", action="Release", text=text) for text in kept]


def notes_on_abandoned(removals: Iterable[Removal]) -> list[Note]:
    """Return one Event for each different failure to delete objects as the account."""
    errors = {removal.error.message: removal.error for removal in removals if removal.error}
    return [note_on_hindrance(error) for error in errors.values()]


def note_on_hindrance(error: BundleError, staying: Iterable[ObjectKey] = ()) -> Note:
    """Return the Event for objects of a deleted BundleDeployment that the controller may not delete.

    Args:
        error: why.
        staying: those that the garbage collector does not delete either.
    """
    listed = list_some(staying, NAMED)
    kept = f"{listed}: not deleted; delete them yourself; " if listed else ""
    text = f"ordinary objects are left to the garbage collector; {kept}{error.message}"
    return Note(type="Warning", reason=error.reason.value, action="Delete", text=text)


def note_on_beginning(begun: HistoryEntry, installed: HistoryEntry | None, changes: Changes) -> Note:
    """Return the Event for a revision that begins to be applied.

    Args:
        begun: its entry in the history.
        installed: the entry of the installed revision, if there is one.
        changes: what it changes.
    """
    instead = f" in place of {_identify_entry(installed)}" if installed and installed.revision != begun.revision else ""
    text = f"applying {_identify_entry(begun)}{instead}: {describe_changes(changes)}"
    return Note(type="Normal", reason=Reason.APPLYING, action="Apply", text=text)


def _identify_entry(entry: HistoryEntry) -> str:
    return f"revision {short(entry.revision)}{f' ({entry.sources})' if entry.sources else ''}"


def note_on_approval(revision: str) -> Note:
    """Return the Event for a revision that had to wait and may be applied now."""
    text = f"revision {short(revision)} is approved"
    return Note(type="Normal", reason="Approved", action="Approve", text=text)


def note_on_dependents(names: Iterable[str]) -> Note:
    """Return the Event for a deletion of what others depend on: it is carried out."""
    listed = list_some((quote(name) for name in names), NAMED)
    text = f"deleted although other BundleDeployments depend on it, and wait before their next upgrade: {listed}"
    return Note(type="Warning", reason="StillRequired", action="Delete", text=text)


def note_on_strays(name: str, keys: Iterable[ObjectKey]) -> Note:
    """Return the Event for strays of a BundleDeployment that were not reported yet."""
    text = f"{list_some(keys, NAMED)}: {what_strays_are(name)}"
    return Note(type="Warning", reason="Stray", action="Compare", text=text)


def note_on_hooks(keys: Iterable[ObjectKey]) -> Note:
    """Return the Event for hooks that nothing waits for any more, and that may still run."""
    text = f"{list_some(keys, NAMED)}: hook that nothing waits for any more, which has not ended and is left as it is"
    return Note(type="Warning", reason="HookLeft", action="Install", text=f"{text}; delete it if it must not run")


def describe_unseen(kinds: Iterable[GroupVersionKind]) -> list[str]:
    """Return a warning for each kind whose objects are applied but not watched."""
    return [
        f"{kind}: drift is not detected because the controller may not watch this kind; grant it list and watch"
        for kind in sorted(map(str, kinds))
    ]


def _note_on_ready(last: Condition | None, now: Condition | None) -> list[Note]:
    if now is None or (last and (last.status, last.reason) == (now.status, now.reason)):
        return []
    reason = Reason(now.reason)
    if reason in (Reason.AWAITING_APPROVAL, Reason.ROLLED_BACK):  # each of both has an Event of its own
        return []
    is_ready = now.status == "True"
    is_news = is_ready or reason.retry is not Retry.NONE or reason in FAILED
    severity: Literal["Normal", "Warning"] = "Normal" if is_ready or reason in _EXPECTED else "Warning"
    return _tell(reason, "Reconcile", now.message, severity) if is_news else []


def _note_on_pending(last: Pending | None, now: Pending | None) -> list[Note]:
    if now is None:
        return []
    if last and (last.revision, last.service_account_name) == (now.revision, now.service_account_name):
        return []
    text = f"revision {short(now.revision)} waits for approval: {describe_changes(now.changes)}"
    return _tell(Reason.AWAITING_APPROVAL, "Approve", text)


def _note_on_rollback(last: Rollback | None, now: Rollback | None) -> list[Note]:
    if now is None or now == last:
        return []
    text = f"from revision {short(now.from_revision)} to revision {short(now.to_revision)}: {now.message}"
    return _tell(Reason.ROLLED_BACK, "RollBack", text, "Warning")


def _note_on_pause(before: Status, after: Status) -> list[Note]:
    was, now = before.condition(ConditionType.PAUSED), after.condition(ConditionType.PAUSED)
    if now and not was:
        return _tell("Paused", "Pause", now.message)
    if not was or now:
        return []
    drift, remaining = _drift_in(before), _drift_in(after)
    if drift is None:
        return _tell("Resumed", "Resume", "no object was modified while paused")
    text = remaining.message if remaining else f"repairing what has drifted: {drift.message}"
    return _tell("Resumed", "Resume", text)


def _drift_in(status: Status) -> Condition | None:
    found = status.condition(ConditionType.DRIFTED)
    return None if found and found.reason == Reason.STRAYS else found


def _note_on_drift(last: Condition | None, now: Condition | None) -> list[Note]:
    if now is None or (last and last.reason == now.reason):
        return []
    return _tell("Drifted", "Compare", f"{now.reason}: {now.message}", "Warning")


def _note_on_pods(before: Status, after: Status) -> list[Note]:
    ready = after.condition(ConditionType.READY)
    if ready and ready.reason in FAILED:
        return []
    known = {name_of_reported(each) for each in before.not_ready if is_pod_stuck(each.reason)}
    stuck = (each for each in after.not_ready if is_pod_stuck(each.reason) and name_of_reported(each) not in known)
    told = (f"{name_of_reported(each)}: {each.reason}: {each.message}" for each in stuck)
    return _tell("NotReady", "Observe", "; ".join(told), "Warning")


def _note_on_warnings(last: Sequence[str], now: Sequence[str]) -> list[Note]:
    return _tell("Warnings", "Apply", "; ".join(text for text in now if text not in last), "Warning")
