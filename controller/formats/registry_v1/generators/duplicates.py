"""Duplicates: objects of one identity, of which only one can be installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.formats.objects import Identity, Object, find_defect, identify, refuse


def merge_duplicates(accounts: Sequence[Object], objects: Iterable[Object]) -> list[Object]:
    """Return objects after their ServiceAccounts, equal ones once.

    Args:
        accounts: generated ServiceAccounts; one that is among the objects takes the place of the generated one.
        objects: all others.

    Raises: BundleError (InvalidBundle) that names what is there twice and differs, or is no object.
    """
    candidates = list(objects)
    refuse([f"{item.get('kind')} {defect}" for item in candidates if (defect := find_defect(item))])
    first: dict[Identity, Object] = {}
    problems = []
    for item in candidates:
        identity = identify(item)
        if first.setdefault(identity, item) != item:
            problems.append(f"{identity}: the bundle makes two objects of this name that differ; rename one")
    refuse(problems)
    return [item for item in accounts if identify(item) not in first] + list(first.values())
