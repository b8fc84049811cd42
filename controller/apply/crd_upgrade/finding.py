"""What a check has found, and how it is told: one line each, sorted, so that an equal failure reads equal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from api.v1alpha2.policies import CrdCheck, Enforcement

LINES = 10
# These tell in their texts where it is.
_UNPLACED = frozenset(
    {"scope", "existingFieldRemoval", "storedVersionRemoval", "servedVersionRemoval", "existingResources"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One thing that a check says."""

    check: CrdCheck
    text: str
    version: str = ""
    """`v1`, `v1 -> v2` between two versions, nothing for the whole definition."""
    path: str = ""
    """Of the node in the schema, such as `^.spec.color`; nothing where there is none."""
    level: Enforcement = "Error"
    """What it deserves unless a rule names its check."""

    @property
    def line(self) -> str:
        """How it is told."""
        where = f"{self.version}: {self.path}: " if self.check not in _UNPLACED else ""
        return f"{where}{self.check}: {self.text}"


def tell(findings: Iterable[CheckFinding], characters: int) -> list[str]:
    """Return the lines of findings, sorted by version, path and check; as many as fit, and how many more there are.

    Existing objects come last.

    Args:
        findings: in any order.
        characters: that there is room for.
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
    """Return values as lists are shown: `["a" "b"]`, sorted."""
    return f"[{' '.join(sorted(map(compact, values)))}]"


def canonical(value: Any) -> str:
    """Return a text that is equal for values that are the same as JSON, to look one up among thousands."""
    return json.dumps(_plain(value), sort_keys=True)


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same as JSON: 1 is 1.0, and not true, as Python has it."""
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
