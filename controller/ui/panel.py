"""What the panel of one object shows, as values made of objects. Pure.

Not here: its YAML (model.py), its log (logs.py), and reading its Events (watching.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.drift import as_compared, narrow
from rukpak.controller.apply.targets import Target
from rukpak.controller.observe.records import key_of
from rukpak.controller.ui.model import Json, make_event_moment
from rukpak.controller.untrusted import mappings, text
from rukpak.controller.views.access import Manifest
from rukpak.controller.views.comparison import clean, set_side_by_side
from rukpak.controller.views.objects import CHILD_KINDS, Node, describe_wave, find_drift, flatten, owner_of

MOST_ROWS = 2000
"""Lines of an object from which on only those around changes are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An object with what is known around it."""

    value: Manifest
    line: Sequence[Node]
    """Its owners, the outermost first, and itself."""
    target: Target | None = None
    """What the installed revision asks for; None: nothing, or it could not be read."""
    wave: int | None = None
    """None: there is one wave only, or it is not known."""


def make_panel(
    deployment: BundleDeployment, seen: Seen, events: Iterable[Manifest], notes: Sequence[str], key: bytes
) -> Json:
    """Return what the panel of an object shows.

    Owners are the outermost first; `since` is when its state changed last, as far as it says; `drift` has the fields
    that other clients have changed; pods are those below it, or itself. `difference` has the lines of what is desired
    and of what is live, and whether they differ; None: it is not known what is desired.

    Args:
        deployment: of the object.
        seen: the object.
        events: about it and what it owns.
        notes: what could not be read.
        key: of the hashes that stand for values of Secrets.
    """
    *above, node = seen.line
    drifted = find_drift(seen.value, seen.target, owner_of(deployment))
    moments = sorted(map(make_event_moment, events), key=lambda each: each.time, reverse=True)
    pods = [each for each in flatten([node]) if each.kind == "Pod"]
    return {
        "title": node.title,
        "node": node,
        "owners": [{"title": each.title, "uid": each.uid} for each in above],
        "created": text(seen.value, "metadata", "creationTimestamp"),
        "since": find_last_change(seen.value),
        "wave": _describe_wave(deployment, seen.wave),
        "drift": drifted.fields if drifted else (),
        "pods": pods,
        "may_have_pods": bool(pods) or key_of(seen.value)[:2] in CHILD_KINDS,  # there may be logs
        "events": moments,
        "difference": compare_with_target(seen.target, seen.value, key) if seen.target else None,
        "notes": notes,
    }


def _describe_wave(deployment: BundleDeployment, wave: int | None) -> str:
    state = describe_wave(deployment, wave).lower()
    return "" if wave is None else f"{wave}{f' ({state})' if state else ''}"


def find_last_change(value: Manifest) -> str:
    """Return when the state of an object changed last, in RFC 3339, as its conditions say; empty if none does."""
    times = (text(each, "lastTransitionTime") for each in mappings(value, "status", "conditions"))
    return max(times, default="")


def compare_with_target(target: Target, value: Manifest, key: bytes) -> list[tuple[str, str, bool]]:
    """Return the fields of an object that a revision sets beside those that it has, line by line.

    What the server has added, fields that are ignored, and other spellings of the same value are no difference.

    Args:
        target: what the revision asks for.
        value: the object.
        key: of the hashes that stand for values of Secrets.
    """
    desired = as_compared(target.manifest, value)
    return set_side_by_side(clean(desired), clean(narrow(desired, value)), key, MOST_ROWS)
