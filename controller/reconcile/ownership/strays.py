"""Finds strays, which carry the marks of a BundleDeployment that has no revision naming them, and leaves them alone.

Not here: which objects are strays (apply/possession.py), and what status says of them (status/conditions.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.apply.possession import find_strays
from controller.kube.events import Note
from controller.observe.records import ObjectKey, Record
from controller.reconcile.context import Context
from controller.status.notes import note_on_strays

QUIET_SECONDS = 300
"""Between two Events about strays of a BundleDeployment: any client may create many of them in turn."""


def look_for_strays(
    context: Context, observed: Mapping[ObjectKey, Record], *known: Collection[ObjectKey]
) -> frozenset[ObjectKey]:
    """Return the strays, and record them in the state.

    Args:
        context: of the pass.
        observed: objects with the label of the BundleDeployment.
        known: objects that its revisions name.
    """
    found = find_strays(observed, *known, owner=context.owner, orphan=context.orphan)
    context.state.strays = frozenset(record.key for record in found)
    return context.state.strays


def notes_on_strays(context: Context) -> list[Note]:
    """Return one Event for those of the last look that were not reported yet."""
    state, keys = context.state, context.state.strays
    news = keys - state.strays_reported
    state.strays_reported &= keys
    if not news or state.clock() < state.strays_quiet_until:
        return []
    state.strays_reported, state.strays_quiet_until = keys, state.clock() + QUIET_SECONDS
    return [note_on_strays(context.name, news)]
