"""The findings of checks and their texts: one line each, sorted, so that equal failures have equal messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from api.v1alpha2.policies import CrdCheck, Enforcement

LINES = 10
# The texts of these checks contain the location.
_UNPLACED = frozenset(
    {"scope", "existingFieldRemoval", "storedVersionRemoval", "servedVersionRemoval", "existingResources"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One finding of a check."""

    check: CrdCheck
    text: str
    version: str = ""
    """`v1`, or `v1 -> v2` between two versions; empty for the whole definition."""
    path: str = ""
    """Of the node in the schema, such as `^.spec.color`; may be empty."""
    level: Enforcement = "Error"
    """Unless a rule names its check."""

    @property
    def line(self) -> str:
        """The line of a message."""
        where = f"{self.version}: {self.path}: " if self.check not in _UNPLACED else ""
        return f"{where}{self.check}: {self.text}"


def tell(findings: Iterable[CheckFinding], characters: int) -> list[str]:
    """Return the lines of findings, sorted by version, path and check, existing objects last.

    At most `LINES` lines and about so many characters; the last line counts the others.
    """
    lines = list(dict.fromkeys(finding.line for finding in sorted(findings, key=_order)))
    shown: list[str] = []
    for line in lines[:LINES]:
        if shown and sum(map(len, shown)) + len(line) > characters:
            break
        shown.append(line if len(line) <= characters else f"{line[: characters - 1]}…")
    return shown if len(shown) == len(lines) else [*shown, f"{len(lines) - len(shown)} more"]


def _order(finding: CheckFinding) -> tuple[object, ...]:
    return (finding.check == "existingResources", finding.version, finding.path, finding.check, finding.text)


def compact(value: Any) -> str:
    """Return a value as JSON, on one line, numbers without needless decimals."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def listed(values: Iterable[Any]) -> str:
    """Return values in the form of lists in messages: `["a" "b"]`, sorted."""
    return f"[{' '.join(sorted(map(compact, values)))}]"


def canonical(value: Any) -> str:
    """Return a text that is equal for equal JSON values, for fast lookups."""
    return json.dumps(_plain(value), sort_keys=True)


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, but not true as in Python."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
