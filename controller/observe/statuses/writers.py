"""Who wrote the fields of a status, as managedFields say: the controller, in this or another process, or others. Pure.

A field that another client sets or removes leaves our entry, whose time is that of our last write. So our entry has
another time, or no field less, if only we have written since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api import names
from controller.content.digests import canonical_json
from controller.observe.records import Entry, Tree, entries_of, fields_of
from controller.untrusted import mapping, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """The entries of managedFields with fields of the status, as JSON, by manager, operation and apiVersion."""

    times: tuple[str, ...] = ()
    """When the controller last set a field; empty if it has set none of those that exist."""
    ours: bytes = b"{}"
    others: bytes = b"{}"

    def has_set(self, field: str) -> bool:
        """Whether the controller was the last to set a field of the status."""
        return any(f"f:{field}" in fields for fields in json.loads(self.ours).values())

    def is_ours_since(self, known: Writers) -> bool:
        """Whether the controller wrote the changes since an earlier state."""
        if not self.times or self.times != known.times:
            return bool(self.times)
        kept = _covers(json.loads(self.ours), json.loads(known.ours))
        return kept and _covers(json.loads(known.others), json.loads(self.others))


def writers_of(manifest: Mapping[str, Any]) -> Writers:
    """Return who wrote the status of an object."""
    entries = [each for each in entries_of(manifest) if _status_fields(each)]
    ours = [each for each in entries if each.get("manager") == names.STATUS_MANAGER]
    return Writers(
        times=tuple(text(each, "time") for each in ours),
        ours=_dump(ours),
        others=_dump(each for each in entries if each not in ours),
    )


def _status_fields(entry: Entry) -> Tree:
    return mapping(fields_of(entry), "f:status")


def _dump(entries: Any) -> bytes:
    key = ("manager", "operation", "apiVersion")
    return canonical_json({" ".join(text(each, part) for part in key): _status_fields(each) for each in entries})


def _covers(fields: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether a set of fields, as in fieldsV1, has all of another one."""
    return all(key in fields and _covers(fields[key], below) for key, below in others.items())
