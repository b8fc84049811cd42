"""What has become of an object that is not as it was left: which field is not ours any more, and who holds it now.

Pure. Not here: whether it is as it was left (comparison.py, plan.py), and what is done about it (execute.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.apply.drift.comparison import find_uncovered
from controller.observe.records import ObjectKey, entry_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftedObject:
    """An object that somebody has changed or taken away, as far as that is known."""

    key: ObjectKey
    path: str = ""
    """The first field that is not ours any more; empty if the object as a whole is meant."""
    holder: str = ""
    """The field manager that has that field now; empty if nobody has."""
    state: str = ""
    """Instead of a field: `gone`, `being deleted`."""

    def __str__(self) -> str:
        """Return it as messages show it: `ConfigMap foo/a (data.color, held by "kubectl-edit")`."""
        held = f'held by "{self.holder}"' if self.holder else ""
        about = ", ".join(filter(None, (self.path or self.state, held)))
        return f"{self.key} ({about})" if about else str(self.key)


def explain(key: ObjectKey, manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> DriftedObject:
    """Say what of an object is not as we left it.

    Args:
        key: of the object.
        manifest: the object as it is, or its metadata.
        body: as we apply it.
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
    """Yield the other managers whose entry has a field, the latest first."""
    entries = manifest["metadata"].get("managedFields") or []
    others = [entry for entry in entries if entry.get("manager") != manager and entry.get("subresource") != "status"]
    for entry in sorted(others, key=lambda entry: entry.get("time") or "", reverse=True):
        if not any(_lies_in(path, missing) for missing in find_uncovered(entry.get("fieldsV1") or {}, body)):
            yield entry.get("manager") or ""


def _lies_in(path: str, other: str) -> bool:
    return path == other or path.startswith((f"{other}.", f"{other}["))
