"""The drift of an object: which field is no longer ours, and which manager owns it now. Pure.

Not here: whether an object has drifted (comparison.py, plan.py), and what is done about it (execute.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.apply.drift.comparison import find_uncovered
from controller.observe.records import ObjectKey, entry_of

DELETED = "deleted"
RECREATED = "deleted to be recreated"
"""By the controller, since an immutable field was modified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftedObject:
    """An object that another client has modified or deleted, as far as that is known."""

    key: ObjectKey
    path: str = ""
    """The first field that is no longer ours; empty for the object as a whole."""
    holder: str = ""
    """The field manager that owns the field now; empty if none does."""
    state: str = ""
    """Instead of a field: `DELETED`, `RECREATED`, `being deleted`."""

    def __str__(self) -> str:
        """Return it in the form of messages: `ConfigMap foo/a (data.color, owned by "kubectl-edit")`."""
        held = f'owned by "{self.holder}"' if self.holder else ""
        about = ", ".join(filter(None, (self.path or self.state, held)))
        return f"{self.key} ({about})" if about else str(self.key)


def explain(key: ObjectKey, manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> DriftedObject:
    """Find the first field of an object that is no longer ours.

    Args:
        key: of the object.
        manifest: the object as it is, or only its metadata.
        body: the object as we apply it.
        manager: our field manager.
    """
    if manifest["metadata"].get("deletionTimestamp"):
        return DriftedObject(key=key, state="being deleted")
    ours = entry_of(manifest, manager)
    lost = find_uncovered((ours or {}).get("fieldsV1") or {}, body)
    held = ((path, holder) for path in lost for holder in _holders(path, manifest, body, manager))
    path, holder = next(held, (lost[0] if lost and ours else "", ""))
    return DriftedObject(key=key, path=path, holder=holder)


def _holders(path: str, manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> Iterator[str]:
    """Yield the other managers that own a field, the latest first."""
    entries = manifest["metadata"].get("managedFields") or []
    others = [entry for entry in entries if entry.get("manager") != manager and entry.get("subresource") != "status"]
    for entry in sorted(others, key=lambda entry: entry.get("time") or "", reverse=True):
        if not any(_lies_in(path, missing) for missing in find_uncovered(entry.get("fieldsV1") or {}, body)):
            yield entry.get("manager") or ""


def _lies_in(path: str, other: str) -> bool:
    return path == other or path.startswith((f"{other}.", f"{other}["))
