"""The drift of an object: which fields are no longer ours, and which managers own them now. Pure.

Not here: whether an object has drifted (comparison.py, plan.py), and what is done about it (execute.py).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.apply.drift.comparison import find_uncovered
from controller.observe.records import ObjectKey, entries_of, entry_of, fields_of
from controller.untrusted import text

DELETED = "deleted"
RECREATED = "deleted to be recreated"
"""By the controller, since an immutable field was modified."""


class DriftedField(NamedTuple):
    """A field that is no longer ours."""

    path: str
    holder: str = ""
    """The field manager that owns it now; empty if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftedObject:
    """An object that another client has modified or deleted, as far as that is known."""

    key: ObjectKey
    fields: tuple[DriftedField, ...] = ()
    """All fields that are no longer ours, in the order of the object; none for the object as a whole."""
    state: str = ""
    """Instead of fields: `DELETED`, `RECREATED`, `being deleted`."""

    def __str__(self) -> str:
        """Return it in the form of messages: `ConfigMap foo/a (data.color, owned by "kubectl-edit")`."""
        return self.describe()

    def describe(self, most: int | None = None) -> str:
        """Return it in the form of messages, with at most so many of its fields."""
        about = self.describe_fields(most)
        return f"{self.key} ({about})" if about else str(self.key)

    def describe_fields(self, most: int | None = None) -> str:
        """Return its fields by the manager that owns them now, or else its state."""
        shown = self.fields if most is None else self.fields[:most]
        paths: dict[str, list[str]] = {}
        for each in shown:
            paths.setdefault(each.holder, []).append(each.path)
        parts = [", ".join([*found, *([f'owned by "{holder}"'] if holder else [])]) for holder, found in paths.items()]
        if left := len(self.fields) - len(shown):
            parts.append(f"{left} more {'field' if left == 1 else 'fields'}")
        return "; ".join(parts) or self.state


def explain(key: ObjectKey, manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> DriftedObject:
    """Find all fields of an object that are no longer ours, whichever edit took which.

    Args:
        key: of the object.
        manifest: the object as it is, or only its metadata.
        body: the object as we apply it.
        manager: our field manager.
    """
    if manifest["metadata"].get("deletionTimestamp"):
        return DriftedObject(key=key, state="being deleted")
    ours = entry_of(manifest, manager)
    lost = find_uncovered(fields_of(ours), body)
    others = _find_missing(manifest, body, manager) if lost else []
    found = [
        DriftedField(path, next((each for each, missing in others if not _lies_in(path, missing)), "")) for path in lost
    ]
    # Without our entry, a field that nobody owns may be as we left it.
    return DriftedObject(key=key, fields=tuple(field for field in found if ours or field.holder))


def _find_missing(
    manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str
) -> list[tuple[str, frozenset[str]]]:
    """Return the other managers, the latest first, each with our fields that it does not own."""
    others = [
        entry
        for entry in entries_of(manifest)
        if entry.get("manager") != manager and entry.get("subresource") != "status"
    ]
    latest = sorted(others, key=lambda entry: text(entry, "time"), reverse=True)
    return [(text(entry, "manager"), frozenset(find_uncovered(fields_of(entry), body))) for entry in latest]


def _lies_in(path: str, fields: Container[str]) -> bool:
    """Whether some fields contain one, or a field that it is part of."""
    return path in fields or any(path[:end] in fields for end, sign in enumerate(path) if sign in ".[")
