"""Reports strays, which carry the marks of a BundleDeployment that has no revision naming them, and leaves them alone.

Not here: which objects are strays (apply/possession.py).
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
"""Between two Events about strays of a BundleDeployment: any client may create many of them in turn."""


def notes_on_strays(
    context: Context, observed: Mapping[ObjectKey, Record], *known: Collection[ObjectKey]
) -> list[Note]:
    """Record the strays in the state, and return one Event for those that were not reported yet.

    Args:
        context: of the pass.
        observed: objects with the label of the BundleDeployment.
        known: objects that its revisions name.
    """
    found = find_strays(observed, *known, owner=context.owner, orphan=context.orphan)
    state, keys = context.state, frozenset(record.key for record in found)
    news = [record.key for record in found if record.key not in state.strays_reported]
    state.strays, state.strays_reported = keys, state.strays_reported & keys
    if not news or state.clock() < state.strays_quiet_until:
        return []
    state.strays_reported, state.strays_quiet_until = keys, state.clock() + QUIET_SECONDS
    return [Note(type="Warning", reason="Stray", action="Compare", text=describe_strays(news))]


def describe_strays(keys: Collection[ObjectKey]) -> str:
    """Return what is wrong with strays and what to do."""
    return (
        f"{list_some(keys, NAMED)}: marked as owned by this BundleDeployment but not part of any of its revisions; "
        f"not changed; remove the label {names.OWNER_LABEL} or delete it manually"
    )
