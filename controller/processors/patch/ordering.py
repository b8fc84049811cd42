"""The order of a list that a strategic merge patch has merged, as the API server orders it.

Items of the patch keep the order of the patch, other items that of the object. Where an item of one group must be next
to one of the other, the order of the object decides; an item that only the patch has comes first. See
https://git.k8s.io/design-proposals-archive/cli/preserve-order-in-strategic-merge-patch.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

KeyOf = Callable[[Any], Hashable]
"""What identifies an item: the value of its merge key, or the item itself."""


def in_order(merged: Sequence[Any], patched: Sequence[Any], original: Sequence[Any], key_of: KeyOf) -> list[Any]:
    """Return the merged items in their order.

    Args:
        merged: items of the object and of the patch, each once.
        patched: items of the patch, or of its `$setElementOrder`, in order.
        original: items of the object, in order.
        key_of: of all these items.
    """
    order, places = _places(patched, key_of), _places(original, key_of)
    ours = sorted((item for item in merged if key_of(item) in order), key=lambda item: order[key_of(item)])
    others = [item for item in merged if key_of(item) not in order]
    others.sort(key=lambda item: places.get(key_of(item), len(places)))
    return list(_interleave(others, ours, places, key_of))


def _interleave(others: list[Any], ours: list[Any], places: dict[Hashable, int], key_of: KeyOf) -> list[Any]:
    result: list[Any] = []
    left, right = others[::-1], ours[::-1]
    while left and right:
        first, second = places.get(key_of(left[-1])), places.get(key_of(right[-1]))
        is_left = first is not None and second is not None and first < second
        result.append((left if is_left else right).pop())
    return [*result, *left[::-1], *right[::-1]]


def _places(items: Sequence[Any], key_of: KeyOf) -> dict[Hashable, int]:
    return {key_of(item): index for index, item in reversed(list(enumerate(items)))}
