"""What an adopted object loses: entries of the tools that had it before, and the marks by which they know it. Pure.

An entry that shares a field with ours is removed as a whole, as the controller does with those of Helm 3 and of
`kubectl apply` (apply/README.md, Ownership): a rest below an item of a list would keep the item on the object when a
later revision drops it. What only that entry had set keeps its value, without a manager.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from api import names
from controller.apply.drift import find_uncovered
from controller.apply.managed_fields import LAST_APPLIED
from controller.cli.adoption.origin import HELM_RELEASE, KUSTOMIZATION, RELEASE_NAME, RELEASE_NAMESPACE, Origin
from controller.observe.records import entry_of

Tree = Mapping[str, Any]
MANAGED_BY = "app.kubernetes.io/managed-by"
MARKS = {
    "annotations": (RELEASE_NAME, RELEASE_NAMESPACE, LAST_APPLIED),
    "labels": (
        MANAGED_BY,
        *(f"{group}/{key}" for group in (KUSTOMIZATION, HELM_RELEASE) for key in ("name", "namespace")),
    ),
}
"""By which Helm and Flux recognize what they may change and delete, and kubectl what it may remove."""
# Those that create objects, whose entries contain all that the server has defaulted.
_CREATORS = ("kubectl-create", "kubectl-replace", "kubectl-client-side-apply", "kubectl-run", "kubectl-expose", "helm")


def make_change(metadata: Mapping[str, Any], owner: str, origin: Origin) -> dict[str, Any] | None:
    """Return the merge patch that removes entries and marks, bound to the resourceVersion; None if there are none.

    Args:
        metadata: of an object that the BundleDeployment has applied.
        owner: name of the BundleDeployment.
        origin: what has installed the object.
    """
    ours = _fields_of(entry_of({"metadata": metadata}, names.field_manager(owner)))
    entries = metadata.get("managedFields") or []
    kept = [entry for entry in entries if not _is_dropped(entry, ours, origin)]
    marks = {kind: dict.fromkeys(_marks(metadata, kind, ours)) for kind in MARKS}
    if len(kept) == len(entries) and not any(marks.values()):
        return None
    change = {"resourceVersion": metadata["resourceVersion"], "managedFields": kept}
    return {"metadata": {**change, **{kind: found for kind, found in marks.items() if found}}}


def find_left(
    before: Mapping[str, Any], after: Mapping[str, Any], owner: str, origin: Origin, rendered: Mapping[str, Any] | None
) -> list[str]:
    """Return the paths of fields that the tool has set and the BundleDeployment does not: they stay as they are.

    Args:
        before: metadata of the object before it was adopted.
        after: the same afterwards.
        owner: name of the BundleDeployment.
        origin: what has installed the object.
        rendered: the object as the tool has rendered it, if that is known.
    """
    ours = _fields_of(entry_of({"metadata": after}, names.field_manager(owner)))
    found = dict.fromkeys(
        path
        for entry in before.get("managedFields") or []
        if _is_dropped(entry, ours, origin) and not _is_defaulted(entry)
        for path in _paths(_fields_of(entry), ours, "")
    )
    for recorded in filter(None, (rendered, _last_applied(before))):
        found |= dict.fromkeys(find_uncovered(ours, _without_nulls(recorded)))
    return [path for path in found if not _is_mark(path)]


def other_managers(metadata: Mapping[str, Any], owner: str, origin: Origin) -> list[str]:
    """Return the managers that stay, with the fields of ours that they have set, too: these stay when we drop them."""
    ours = _fields_of(entry_of({"metadata": metadata}, names.field_manager(owner)))
    managers = (names.field_manager(owner), names.initial_field_manager(owner))
    others = (each for each in metadata.get("managedFields") or [] if each.get("manager") not in managers)
    return sorted(
        {
            str(entry.get("manager"))
            for entry in others
            if not entry.get("subresource")
            and not origin.is_manager(str(entry.get("manager")))
            and _overlap(_fields_of(entry), ours)
        }
    )


def _is_dropped(entry: Mapping[str, Any], ours: Tree, origin: Origin) -> bool:
    is_theirs = not entry.get("subresource") and origin.is_manager(str(entry.get("manager", "")))
    return is_theirs and _overlap(_fields_of(entry), ours)


def _is_defaulted(entry: Mapping[str, Any]) -> bool:
    return entry.get("operation") == "Update" and str(entry.get("manager")).startswith(_CREATORS)


def _fields_of(entry: Mapping[str, Any] | None) -> Tree:
    fields: Tree = (entry or {}).get("fieldsV1") or {}
    return fields


def _overlap(left: Tree, right: Tree) -> bool:
    """Whether two trees share a field or an item of a list; that both have put something into a map does not count."""
    for name in left.keys() & right.keys() - {"."}:
        if not name.startswith("f:") or not left[name] or not right[name] or _overlap(left[name], right[name]):
            return True
    return False


def _paths(theirs: Tree, ours: Tree, path: str) -> Iterator[str]:
    """Yield the paths of the fields of a tree that the other lacks; an item of a list is one."""
    for name, child in theirs.items():
        if name == ".":
            continue
        mine = ours.get(name)
        step = _join(path, name)
        if mine is None and (not child or not name.startswith("f:")):
            yield step
        elif mine is None or mine:
            yield from _paths(child, mine or {}, step)


def _join(path: str, name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind != "f":
        item = json.loads(rest)
        shown = ",".join(f"{key}={json.dumps(value)}" for key, value in item.items()) if kind == "k" else rest
        return f"{path}[{shown}]"
    if not rest.replace("-", "").replace("_", "").isalnum():
        return f'{path}["{rest}"]'
    return f"{path}.{rest}" if path else rest


def _marks(metadata: Mapping[str, Any], kind: str, ours: Tree) -> Iterator[str]:
    claimed = (ours.get("f:metadata") or {}).get(f"f:{kind}") or {}
    found = metadata.get(kind) or {}
    for name in MARKS[kind]:
        is_set = found.get(name) == "Helm" if name == MANAGED_BY else name in found
        if is_set and f"f:{name}" not in claimed:
            yield name


def _is_mark(path: str) -> bool:
    return any(path == f'metadata.{kind}["{name}"]' for kind, found in MARKS.items() for name in found)


def _last_applied(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    text = (metadata.get("annotations") or {}).get(LAST_APPLIED)
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
