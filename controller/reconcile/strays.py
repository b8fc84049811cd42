"""Objects that carry the marks of a BundleDeployment though no revision of it names them: told of, and left alone.

Not here: which objects that are (apply/possession.py), and what else is left alone (status/notes.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from api import names
from controller.apply.possession import find_strays
from controller.kube.events import Note
from controller.observe.records import ObjectKey, Record
from controller.reconcile.context import Context
from controller.status.notes import NAMED
from controller.status.texts import list_some

QUIET_SECONDS = 300
"""For so long after an Event about strays there is no other: anybody may plant many of them, one after the other."""


def tell_strays(
    context: Context,
    observed: Mapping[ObjectKey, Record],
    *known: Collection[ObjectKey],
) -> list[Note]:
    """Return what to say about strays that are new, once for all of them; the state says from then on which there are.

    Args:
        context: of the BundleDeployment whose marks they carry; its state has those that were told of.
        observed: what carries its label.
        known: what its revisions name.
    """
    found = find_strays(observed, *known, owner=context.owner, orphan=context.orphan)
    state, keys = context.state, frozenset(record.key for record in found)
    news = [record.key for record in found if record.key not in state.strays_told]
    state.strays, state.strays_told = keys, state.strays_told & keys
    if not news or state.clock() < state.strays_quiet_until:
        return []
    state.strays_told, state.strays_quiet_until = keys, state.clock() + QUIET_SECONDS
    return [Note(type="Warning", reason="Stray", action="Compare", text=describe_strays(news))]


def describe_strays(keys: Collection[ObjectKey]) -> str:
    """Return what is wrong with strays, and what to do."""
    return (
        f"{list_some(keys, NAMED)}: carries the marks of this BundleDeployment, and no revision of it names it, "
        f"so that it is left alone; take the label {names.OWNER_LABEL} off, or delete it yourself"
    )
