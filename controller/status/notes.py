"""What Events say about objects that a deletion leaves behind, and a warning about those that nobody watches. Pure.

Not here: what is said of conditions, repairs and prune (summary.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from api.errors import BundleError
from controller.apply.prune import Removal
from controller.kube.events import Note
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey

NAMED = 10


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


def describe_unseen(kinds: Iterable[GroupVersionKind]) -> list[str]:
    """Return warnings about kinds whose objects are applied, and not watched."""
    return [
        f"{kind}: drift of its objects is not seen, as the controller may not watch them; grant it list and watch"
        for kind in sorted(map(str, kinds))
    ]


def list_some(keys: Iterable[ObjectKey]) -> str:
    """Return the first keys, in order, and how many more there are."""
    texts = sorted(map(str, keys))
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more
