"""JSON as Kubernetes reads it: one or more values, optionally separated by `---`, and numbers as Go writes them.

libyaml refuses escaped surrogate pairs and a second value without a separator, so files that start with `{` are tried
as JSON first, as in Kubernetes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from controller.formats.yaml import scalars
from controller.formats.yaml.composer import LEVELS, TOO_DEEP, CompositionError, NodeBudget

_BEGINS_LIKE_JSON = re.compile(r"\s*\{").match
_GAP = re.compile(r"(?:[ \t\r\n]|(?<=\n)---[ \t]*(?:#[^\n]*)?(?=\r?\n|\Z))*").match
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL).sub
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]").search


def read_json(text: str, *, strict: bool, budget: NodeBudget) -> list[tuple[int, Any]] | None:
    """Return the line and the value of each document in a file; None if it is not JSON (but a YAML flow mapping).

    Args are those of `composer.Composer`.

    Raises: CompositionError.
    """
    # The decoder has no budget: leave text that may exceed it to the composer, which counts while it reads.
    if not _BEGINS_LIKE_JSON(text) or not _is_within(text, budget.left):
        return None
    try:
        documents = list(_Stream(text, strict=strict, share=budget.share).documents())
    except (json.JSONDecodeError, RecursionError):
        return None
    for line, value in documents:
        _charge(value, line, budget)
    return documents


def _is_within(text: str, nodes: int) -> bool:
    """Whether JSON has at most that many nodes. Strings are removed only if that makes a difference."""
    return _most_nodes(text) <= nodes or _most_nodes(_STRING("", text)) <= nodes


def _most_nodes(text: str) -> int:
    # A container has at most one node more than commas; each further document starts with a brace, too.
    return text.count(",") + text.count("{") + text.count("[")


class _Stream:
    """Decodes the values of a text in one pass."""

    __slots__ = ("_line", "_share", "_strict", "_text")

    def __init__(self, text: str, *, strict: bool, share: Callable[[str], str]) -> None:
        self._text = text
        self._strict, self._share = strict, share
        self._line = 1

    def documents(self) -> Iterator[tuple[int, Any]]:
        """Yield the line and the value of each document.

        Raises: CompositionError, json.JSONDecodeError, RecursionError.
        """
        text = self._text
        decoder = json.JSONDecoder(
            object_pairs_hook=self._mapping,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=self._refuse_constant,
        )
        has_surrogates = bool(_SURROGATE_ESCAPE(text))
        end, position = 0, _skip_gap(text, 0)
        while position < len(text):
            self._line += text.count("\n", end, position)
            value, after = decoder.raw_decode(text, position)
            yield self._line, _replace_lone_surrogates(value) if has_surrogates else value
            end, position = position, _skip_gap(text, after)

    def _mapping(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        share = self._share
        result = {share(key): share(value) if value.__class__ is str else value for key, value in pairs}
        if self._strict and len(result) != len(pairs):
            duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise CompositionError(self._line, f'duplicate key "{duplicate}"; remove one')
        return result

    def _integer(self, literal: str) -> Any:
        value = scalars.read_integer(literal)
        return value if isinstance(value, int) else self._finite(value)

    def _float(self, literal: str) -> Any:
        return self._finite(float(literal))

    def _finite(self, value: float) -> Any:
        if not math.isfinite(value):
            raise CompositionError(self._line, "number does not fit a float64; put it in quotes")
        return scalars.to_json(value)

    def _refuse_constant(self, name: str) -> NoReturn:
        raise CompositionError(self._line, f'JSON has no "{name}"; put it in quotes')


def _skip_gap(text: str, position: int) -> int:
    gap = _GAP(text, position)
    return gap.end() if gap else position


def _charge(value: Any, line: int, budget: NodeBudget) -> None:
    """Deduct the nodes of a value from the budget, level by level."""
    level = [value]
    for _ in range(LEVELS + 1):
        budget.charge(len(level), line)
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    raise CompositionError(line, TOO_DEEP)


def _replace_lone_surrogates(value: Any) -> Any:
    """Return the value as Go reads it: a lone surrogate becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_replace_lone_surrogates(key): _replace_lone_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_lone_surrogates(item) for item in value]
    return value
