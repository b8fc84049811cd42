"""What Events say about objects that are left alone: strays, and what a deletion leaves behind. Pure.

Not here: what is said of conditions, repairs and prune (status.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from api import names
from api.errors import BundleError
from controller.apply.prune import Removal
from controller.kube.events import Note
from controller.observe.records import ObjectKey, Record

NAMED = 10


def notes_on_strays(strays: Iterable[Record]) -> list[Note]:
    """Return what to say about objects that carry our marks though no revision names them: one for all."""
    text = describe_strays(record.key for record in strays)
    return [Note(type="Warning", reason="Stray", action="Compare", text=text)] if text else []


def describe_strays(keys: Iterable[ObjectKey]) -> str:
    """Return what is wrong with strays, and what to do; nothing if there are none."""
    listed = list_some(keys)
    if not listed:
        return ""
    return (
        f"{listed}: carries the marks of this BundleDeployment, and no revision of it names it, so that it is left "
        f"alone; take the label {names.OWNER_LABEL} off, or delete it yourself"
    )


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
    listed = list_some(staying)
    stays = f"{listed}: is left as it is; delete it yourself; " if listed else ""
    text = f"ordinary objects are left to the garbage collector; {stays}{error.message}"
    return Note(type="Warning", reason=error.reason.value, action="Delete", text=text)


def list_some(keys: Iterable[ObjectKey]) -> str:
    """Return the first keys, in order, and how many more there are."""
    texts = sorted(map(str, keys))
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more
