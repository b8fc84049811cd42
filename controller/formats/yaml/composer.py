"""Composes values from libyaml's events in one pass, without a tree of nodes, and checks budgets as it reads.

Mapping keys become strings, and `<<` is applied at its position, as in go-yaml v2: after an explicit key it overrides
that key. Aliases are copied, so that no two places of a document share a mutable object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from api.plugins import Limits
from controller.formats.yaml import scalars

LEVELS = 200
"""Nested mappings and lists."""
TOO_DEEP = f"nested more than {LEVELS} levels deep"
NODES = Limits().nodes
"""Scalars, mappings and lists, including those that aliases repeat."""
ALIAS_RATIO = 10
"""Nodes that the aliases of a document may repeat for each node written out."""
ALIAS_ALLOWANCE = 10_000
"""Nodes that aliases may repeat in any case: a small document that shares a block of settings is harmless."""

_Event: TypeAlias = Any  # the stubs have no common type with the fields of events
_CACHED_LENGTH = 64
_CACHED_TEXTS = 4096
_MISSING: Any = object()
_MERGE, _MERGE_TAG = "<<", "tag:yaml.org,2002:merge"

if not yaml.__with_libyaml__:  # pragma: no cover - the pure Python parser is 20 times slower
    raise ImportError("PyYAML was built without libyaml")


class CompositionError(Exception):
    """The text is not valid for Kubernetes, or exceeds a budget.

    Args:
        line: counted from 1.
        problem: what is wrong and what to do, without values of the document.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


class OverBudgetError(CompositionError):
    """The text exceeds a budget."""


class NodeBudget:
    """The nodes that may still be read. All files of a bundle may share one budget, and with it their short texts."""

    __slots__ = ("_nodes", "_remedy", "_repeated", "_texts", "left")

    def __init__(
        self, nodes: int = NODES, remedy: str = "split the bundle", characters: int = Limits().text_bytes
    ) -> None:
        self._nodes = self.left = nodes
        self._remedy, self._repeated = remedy, characters
        self._texts: dict[str, str] = {}

    def share(self, text: str) -> str:
        """Return a text as it was first read: thousands of objects in as many files repeat the same words."""
        known = self._texts.get(text)
        if known is None and len(text) <= _CACHED_LENGTH and len(self._texts) < _CACHED_TEXTS:
            self._texts[text] = text
        return known or text

    def charge(self, nodes: int, line: int) -> None:
        """Deduct nodes.

        Raises: OverBudgetError.
        """
        self.left -= nodes
        if self.left < 0:
            raise self.exceeded(line)

    def charge_repeated(self, nodes: int, characters: int, line: int) -> None:
        """Deduct what an alias repeats, since it will be written out in full.

        Raises: OverBudgetError.
        """
        self.charge(nodes, line)
        self._repeated -= characters
        if self._repeated < 0:
            raise OverBudgetError(line, f"aliases repeat too much text; {self._remedy}")

    def exceeded(self, line: int) -> OverBudgetError:
        """Return the error for exceeding the budget in this line."""
        return OverBudgetError(line, f"more than {self._nodes:,} values; {self._remedy}")


class Composer:
    """Composes the documents of one stream.

    Args:
        text: UTF-8.
        strict: refuse duplicate keys and directives; otherwise the last key wins, as in Helm.
        budget: charged while reading.
        colon: a character that stands for a colon (scalars.py); '' if none does.
    """

    __slots__ = (
        "_aliased",
        "_anchors",
        "_budget",
        "_characters",
        "_granted",
        "_keys",
        "_next_event",
        "_plain",
        "_strict",
    )

    def __init__(self, text: bytes, *, strict: bool, budget: NodeBudget, colon: str = "") -> None:
        next_event: Callable[[], _Event] = yaml.CSafeLoader(text).get_event
        self._next_event = _with_colons(next_event, colon) if colon else next_event
        self._strict = strict
        self._budget = budget
        self._keys: dict[str, str] = {}
        self._plain: dict[str, Any] = {}
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._aliased = self._characters = 0
        self._granted = budget.left

    def documents(self) -> Iterator[tuple[int, Any]]:
        """Yield the line and the value of each document; the value of an empty one is None.

        Raises: CompositionError, yaml.YAMLError.
        """
        while (event := self._next_event()).__class__ is not StreamEndEvent:
            if event.__class__ is DocumentStartEvent:
                self._begin(event)
                root = self._next_event()
                yield _line(root), self._value(root, 0)

    def _begin(self, event: _Event) -> None:
        if self._strict and (event.version or event.tags):
            raise CompositionError(_line(event), 'directives are not supported; remove the line that starts with "%"')
        self._anchors = {}
        self._aliased = 0
        self._granted = self._budget.left

    def _value(self, event: _Event, depth: int) -> Any:
        """Compose the node that starts with `event`, nested in `depth` containers."""
        kind = event.__class__
        if kind is ScalarEvent:
            return self._scalar(event)
        if kind is AliasEvent:
            return self._alias(event, depth)
        if depth >= LEVELS:
            raise CompositionError(_line(event), TOO_DEEP)
        self._charge(event)
        before, characters = self._budget.left, self._characters
        value = self._mapping(depth + 1) if kind is MappingStartEvent else self._sequence(depth + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, before - self._budget.left + 1, self._characters - characters
        return value

    def _sequence(self, depth: int) -> list[Any]:
        result: list[Any] = []
        next_event = self._next_event
        while (event := next_event()).__class__ is not SequenceEndEvent:
            result.append(self._value(event, depth))
        return result

    def _mapping(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: set[str] = set()
        next_event = self._next_event
        while (event := next_event()).__class__ is not MappingEndEvent:
            if event.__class__ is ScalarEvent and event.value == _MERGE and _may_merge(event):
                self._merge(result, merged, next_event(), depth)
                continue
            key = self._key(event, depth)
            if key in result and self._strict and key not in merged:
                raise CompositionError(_line(event), f'duplicate key "{key}"; remove one')
            result[key] = self._value(next_event(), depth)
            merged.discard(key)
        return result

    def _merge(self, target: dict[str, Any], merged: set[str], event: _Event, depth: int) -> None:
        value = self._value(event, depth)
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise CompositionError(_line(event), 'the value of "<<" must be a mapping or a list of mappings')
        for source in reversed(sources):  # earlier mappings in a list take precedence
            target.update(source)
            merged.update(source)

    def _key(self, event: _Event, depth: int) -> str:
        if event.__class__ is ScalarEvent and event.anchor is None and event.tag is None and event.implicit[0]:
            key = self._plain_key(event)
            self._characters += len(key)
            return key
        value = self._value(event, depth)
        written: str = self._read(event, scalars.write_key, value)
        return written

    def _plain_key(self, event: _Event) -> str:
        text: str = event.value
        if text not in self._keys:
            self._keys[text] = self._budget.share(self._read(event, scalars.read_key, text))
        return self._keys[text]

    def _scalar(self, event: _Event) -> Any:
        self._charge(event)
        if event.tag is not None:
            value = self._read(event, scalars.read_tagged, event.tag, event.value)
        elif event.implicit[0]:
            value = self._plain_scalar(event)
        else:
            value = self._budget.share(event.value)
        self._characters += len(event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, 1, len(event.value)
        return value

    def _plain_scalar(self, event: _Event) -> Any:
        text: str = event.value
        value = self._plain.get(text, _MISSING)
        if value is _MISSING:
            value = self._read(event, scalars.read_plain, text)
            if isinstance(value, str):
                value = self._budget.share(value)
            if len(text) <= _CACHED_LENGTH:  # every object repeats the same words
                self._plain[text] = value
        return value

    def _alias(self, event: _Event, depth: int) -> Any:
        if event.anchor not in self._anchors:
            problem = f'no complete anchor before the alias "*{event.anchor}"; define it first'
            raise CompositionError(_line(event), problem)
        value, size, characters = self._anchors[event.anchor]
        self._characters += characters
        self._aliased += size
        written = self._granted - self._budget.left - (self._aliased - size)
        if self._aliased > max(ALIAS_RATIO * written, ALIAS_ALLOWANCE):
            raise CompositionError(_line(event), f"aliases repeat more than {ALIAS_RATIO} times the document's content")
        self._budget.charge_repeated(size, characters, _line(event))
        return self._read(event, _copy, value, LEVELS - depth)

    def _charge(self, event: _Event) -> None:
        # Not `charge`: computing the line of an event is expensive, and this runs for every node.
        self._budget.left -= 1
        if self._budget.left < 0:
            raise self._budget.exceeded(_line(event))

    @staticmethod
    def _read(event: _Event, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except ValueError as error:
            raise CompositionError(_line(event), str(error)) from error


def _with_colons(next_event: Callable[[], _Event], colon: str) -> Callable[[], _Event]:
    def _next() -> _Event:
        event = next_event()
        if event.__class__ is ScalarEvent:
            event.value = event.value.replace(colon, ":")
        return event

    return _next


def _may_merge(event: _Event) -> bool:
    return bool(event.implicit[0]) or event.tag == _MERGE_TAG


def _copy(value: Any, levels: int) -> Any:
    if value.__class__ is not dict and value.__class__ is not list:
        return value
    if levels <= 0:
        raise ValueError(TOO_DEEP)
    if isinstance(value, dict):
        return {key: _copy(item, levels - 1) for key, item in value.items()}
    return [_copy(item, levels - 1) for item in value]


def _line(event: _Event) -> int:
    line: int = event.start_mark.line
    return line + 1
