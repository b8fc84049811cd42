"""Strategic merge patches: JSON merge patches that merge some lists by a key, and know directives.

As k8s.io/apimachinery applies them (pkg/util/strategicpatch, `StrategicMergePatch`), except that a field that the type
does not have is merged like one without a key; the API server then reports it. Directives: `$patch` (replace, delete,
merge), `$retainKeys`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`.

A merged list is ordered as the API server orders it. Items of the patch keep the order of the patch, other items that
of the object. Where an item of one group must be next to one of the other, the order of the object decides; an item
that only the patch has comes first. See
https://git.k8s.io/design-proposals-archive/cli/preserve-order-in-strategic-merge-patch.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from itertools import filterfalse
from operator import itemgetter
from typing import Any, NamedTuple

from rukpak.controller.untrusted import path_below, texts

KeyOf = Callable[[Any], Hashable]
"""What identifies an item: the value of its merge key, or the item itself."""
_PATCH, _RETAIN_KEYS = "$patch", "$retainKeys"
_DELETE_FROM, _SET_ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


SHIPPED = "merge_keys.json"
"""By which keys lists are merged; `hack/generate` writes it with the capabilities of the newest Kubernetes."""


class Field(NamedTuple):
    """How a field of a type is merged."""

    type_name: str = ""
    """Type of its value, or of the items of its list; '' if nothing is special about it."""
    strategy: str = ""
    """merge: lists are merged. replace: mappings are replaced. Empty: mappings are merged and lists replaced."""
    key: str = ""
    """By which the items of a list of mappings are merged."""


@cache
def _table() -> Mapping[str, Any]:
    table: dict[str, Any] = json.loads((files("rukpak.controller.processors") / SHIPPED).read_bytes())
    return table


def type_of(api_version: str, kind: str) -> str | None:
    """Return the type of a kind; None if it is not known, as for custom resources."""
    found: str | None = _table()["kinds"].get(f"{api_version}/{kind}")
    return found


def field_of(type_name: str, name: str) -> Field:
    """Return how a field of a type is merged."""
    found: str | None = _table()["types"].get(type_name, {}).get(name)
    return Field(*found.split(",")) if found else Field()


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


class StrategicPatchError(Exception):
    """A patch that cannot be applied; the argument is its field with the problem and remedy."""


def merge_strategically(value: Mapping[str, Any], patch: Mapping[str, Any], type_name: str) -> dict[str, Any]:
    """Return an object with a strategic merge patch applied; neither is modified.

    Args:
        value: an object whose kind has the type.
        patch: as `kubectl patch` takes it.
        type_name: as `type_of` returns it.

    Raises: StrategicPatchError.
    """
    return _merge(value, patch, type_name, "")


def _merge(value: Mapping[str, Any], patch: Mapping[str, Any], type_name: str, path: str) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: item for key, item in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if _PATCH in patch:
        raise _problem(path, _PATCH, "must be replace or delete")
    result = _retain(value, patch, path)
    changes = {key: change for key, change in patch.items() if key != _RETAIN_KEYS}
    for key in [key for key in changes if key.startswith(_SET_ORDER)]:
        _set_order(result, changes, key, type_name, path)
    for key, change in changes.items():
        name = key.removeprefix(_DELETE_FROM)
        _change(result, name, change, field_of(type_name, name), path, is_deletion=key != name)
    return result


def _change(result: dict[str, Any], name: str, change: Any, field: Field, path: str, *, is_deletion: bool) -> None:
    live = result.get(name)
    if is_deletion:
        if isinstance(live, list) and isinstance(change, list):
            key_of = _scalar_key(path_below(path, f".{name}"), live, change)
            gone = set(map(key_of, change))
            result[name] = [item for item in live if key_of(item) not in gone]
    elif change is None:
        result.pop(name, None)
    elif isinstance(live, dict) and isinstance(change, dict):
        if field.strategy == "replace":
            result[name] = change
        else:
            result[name] = _merge(live, change, field.type_name, path_below(path, f".{name}"))
    elif isinstance(live, list) and isinstance(change, list) and field.strategy == "merge":
        result[name] = _merge_lists(live, change, field, path_below(path, f".{name}"))
    elif isinstance(live, list) and isinstance(change, list):
        result[name] = change
    elif _is_directive(change):
        result.pop(name, None)
    else:
        result[name] = _without_directives(change)


def _merge_lists(live: list[Any], patch: list[Any], field: Field, path: str) -> list[Any]:
    if not any(isinstance(item, dict) for item in (*live, *patch)):
        key_of = _scalar_key(path, live, patch)
        merged = list({key_of(item): item for item in (*patch[::-1], *live[::-1])}.values())[::-1]
        return in_order(merged, patch, live, key_of)
    key_of = _key_of(field, path, live, patch)
    kept, added = _apply_item_directives(live, patch, key_of, path)
    if added is None:
        return kept
    merged = list(kept)
    places = _places(merged, key_of)
    for item in added:
        place = places.setdefault(key_of(item), len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = _merge(merged[place], item, field.type_name, path_below(path, f"[{place}]"))
    return in_order(merged, added, kept, key_of)


def _set_order(result: dict[str, Any], changes: dict[str, Any], directive: str, type_name: str, path: str) -> None:
    name = directive.removeprefix(_SET_ORDER)
    order, patch, live = changes.pop(directive), changes.pop(name, None), result.get(name)
    if not isinstance(order, list) or not isinstance(patch or [], list) or not isinstance(live or [], list):
        raise _problem(path, directive, "must be a list, and so must the field that it orders")
    field = field_of(type_name, name)
    merged: list[Any] = list(live or [])
    if patch:
        _change(result, name, patch, field, path, is_deletion=False)
        merged = result[name]
    if not merged:
        return
    make = partial(_key_of, field) if isinstance(merged[0], dict) else _scalar_key
    key_of = make(path_below(path, f".{name}"), merged, order, [*filterfalse(_is_directive, patch or [])], live or [])
    _check_order(patch or [], order, key_of, path, directive)
    result[name] = in_order(merged, order, live or [], key_of)


def _scalar_key(path: str, *lists: list[Any]) -> KeyOf:
    # true is not 1.
    for items in lists:
        for index, item in enumerate(items):
            if isinstance(item, dict | list):
                raise _problem(path, f"[{index}]", "must be neither a mapping nor a list, like the other items")
    return lambda item: (isinstance(item, bool), item)


def _retain(value: Mapping[str, Any], patch: Mapping[str, Any], path: str) -> dict[str, Any]:
    if _RETAIN_KEYS not in patch:
        return dict(value)
    kept = set(texts(patch, _RETAIN_KEYS))
    given = {key for key, change in patch.items() if change is not None and not key.startswith("$")}
    if not isinstance(patch[_RETAIN_KEYS], list) or not given <= kept:
        raise _problem(path, _RETAIN_KEYS, "must list all fields of the patch that are not null")
    return {key: item for key, item in value.items() if key in kept}


def _key_of(field: Field, path: str, *lists: list[Any]) -> KeyOf:
    if not field.key:
        raise _problem(path, "", "the list has no merge key; patch it with json")
    for items in lists:
        for index, item in enumerate(items):
            if not isinstance(item, dict) or isinstance(item.get(field.key), dict | list):
                raise _problem(path, f"[{index}]", "must be a mapping, like the other items")
            if field.key not in item and item.get(_PATCH) != "replace":
                raise _problem(path, f"[{index}]", f"has no {field.key}, by which the list is merged; set it")
    return itemgetter(field.key)


def _apply_item_directives(
    live: list[Any], patch: list[Any], key_of: KeyOf, path: str
) -> tuple[list[Any], list[Any] | None]:
    directives = [item for item in patch if _PATCH in item]
    plain = [item for item in patch if _PATCH not in item]
    if any(item[_PATCH] not in ("delete", "replace") for item in directives):
        raise _problem(path, f"[].{_PATCH}", "must be delete or replace")
    deleted = {key_of(item) for item in directives if item[_PATCH] == "delete"}
    if any(item[_PATCH] == "replace" for item in directives):
        return plain, None
    return [item for item in live if key_of(item) not in deleted], plain


def _check_order(patch: list[Any], order: list[Any], key_of: KeyOf, path: str, directive: str) -> None:
    places = {key_of(item): index for index, item in enumerate(order)}
    found = [places.get(key_of(item), -1) for item in filterfalse(_is_directive, patch)]
    if order and (found != sorted(found) or -1 in found):
        raise _problem(path, directive, "must list the items of the patch, in the same order")


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        items = {key: item for key, item in value.items() if item is not None and not _is_directive(item)}
        return {key: _without_directives(item) for key, item in items.items()}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value


def _problem(path: str, field: str, problem: str) -> StrategicPatchError:
    dot = "." if path and field and not field.startswith("[") else ""
    place = f"{path.removeprefix('.')}{dot}{field}".removeprefix(".")
    return StrategicPatchError(f"{place}: {problem}")
