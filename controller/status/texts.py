"""Shortened digests and lists, for conditions and Events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest

from api import names
from api.v1alpha2.status import Changes, SourcePin
from controller.apply.drift import DriftedObject

SHORT_DIGEST = 12
NAMED = 3
_FIELDS_SHOWN = (8, 4, 2, 1)


def short(digest: str) -> str:
    """Return the first 12 digits of a digest, without its algorithm."""
    return digest.rpartition(":")[2][:SHORT_DIGEST]


def describe_pins(pins: Iterable[SourcePin]) -> str:
    """Return what sources were resolved to, shortened: `image:v1@8d99d5a38eab,http:0a9e4b7c1f52`."""
    return ",".join(f"{pin.kind}:{f'{pin.reference}@' if pin.reference else ''}{short(pin.digest)}" for pin in pins)


def list_some(items: Iterable[object], most: int = NAMED) -> str:
    """Return the first items in alphabetical order, and how many more there are."""
    texts = sorted(map(str, items))
    return _list(texts[:most], len(texts))


def _list(named: Sequence[str], count: int) -> str:
    """Return the texts of some of so many items, and how many more there are."""
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return ", ".join(named) + more


def list_drifted(objects: Iterable[DriftedObject], room: int) -> str:
    """Return drifted objects, the first with all their fields, as far as there is room for so many characters."""
    found = list(objects)
    named = nsmallest(NAMED, found, key=lambda each: str(each.key))
    for most in (None, *_FIELDS_SHOWN):
        text = _list([each.describe(most) for each in named], len(found))
        if len(text) <= room:
            break
    return text


def what_strays_are(name: str) -> str:
    """Return what is wrong with the strays of a BundleDeployment, and what to do."""
    return (
        "marked as owned by this BundleDeployment but not part of any of its revisions; not changed; delete with "
        f'"rukpak prune {name}", or remove the label {names.OWNER_LABEL}'
    )


def describe_changes(changes: Changes) -> str:
    """Return how many objects a revision would change, such as `3 to create, 1 to delete`."""
    counts = (
        (changes.create, "to create"),
        (changes.change, "to change"),
        (changes.recreate, "of them possibly to recreate"),
        (changes.delete, "to delete"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count) or "no object to change"
