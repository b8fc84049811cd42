"""Composes values from libyaml's events in one pass, without a tree of nodes, and checks budgets as it reads.

Mapping keys become strings, and `<<` is applied at its position, as in go-yaml v2: after an explicit key it overrides
that key. Aliases are copied, so that no two places of a document share a mutable object.

Scalars are read by the rules of sigs.k8s.io/yaml, a fork of go-yaml v2: YAML 1.1 with Go's own changes, which no Python
library implements. `n` is false, `0755` is 493, `22:22` and `2001-12-14` are strings, and `1.0` is the integer 1
because Go writes it so in JSON.

libyaml refuses colons at the end of a plain scalar in `[]` or `{}`, as in `[echo a:]`, which go-yaml reads. Before
parsing, each is replaced by a character that the text does not contain, and then replaced back. Colons after quotes,
brackets, blanks and aliases are left alone, since both parsers may take them for the end of a key.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
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

from rukpak.api.plugins import Limits

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


class DuplicateKeyError(CompositionError):
    """A mapping has a key twice. Those who are not strict take the last one."""

    def __init__(self, line: int, key: str) -> None:
        super().__init__(line, f'duplicate key "{key}"; remove one')


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

    def __init__(self, text: bytes, *, strict: bool, budget: NodeBudget) -> None:
        text, colon = hide_colons(text)
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
                if self._strict and (event.version or event.tags):
                    problem = 'directives are not supported; remove the line that starts with "%"'
                    raise CompositionError(_line(event), problem)
                self._anchors, self._aliased, self._granted = {}, 0, self._budget.left
                root = self._next_event()
                yield _line(root), self._value(root, 0)

    def _value(self, event: _Event, depth: int) -> Any:
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
            is_merge = event.__class__ is ScalarEvent and event.value == _MERGE
            if is_merge and (event.implicit[0] or event.tag == _MERGE_TAG):
                self._merge(result, merged, next_event(), depth)
                continue
            key = self._key(event, depth)
            if key in result and self._strict and key not in merged:
                raise DuplicateKeyError(_line(event), key)
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
        written: str = self._read(event, write_key, value)
        return written

    def _plain_key(self, event: _Event) -> str:
        text: str = event.value
        if text not in self._keys:
            self._keys[text] = self._budget.share(self._read(event, read_key, text))
        return self._keys[text]

    def _scalar(self, event: _Event) -> Any:
        self._charge(event)
        if event.tag is not None:
            value = self._read(event, read_tagged, event.tag, event.value)
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
            value = self._read(event, read_plain, text)
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


_INDICATORS = tuple(b":" + bytes((character,)) for character in b",[]{}")
_REFUSED = re.compile(rb"""(?<=[\s,\[{])\*[^\s,\[\]{}]*|(?<=[^\s"'\[\]{},]):(?=[,\[\]{}])""")
_PRIVATE_USE = range(0xE000, 0xF900)
_PRIVATE = re.compile(rb"\xee[\x80-\xbf]{2}|\xef[\x80-\xa3][\x80-\xbf]")
_ESCAPED = re.compile(rb"\\(?:u|U0000)([efEF][0-9a-fA-F]{3})")
TEMPLATE_REMEDY = "publish the rendered output of the template"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z").match
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))\Z").match
_UNDERSCORE_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])_(?=[0-9])").sub
_NUMERIC = frozenset("+-.0123456789")
_LEAST_INT64, _GREATEST_INT64, _GREATEST_UINT64 = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_EXACT = 1 << 53  # float64 holds every integer below
_SINGLE_DIGITS = 9  # that any float32 needs at most
# Python refuses to convert more digits than sys.get_int_max_str_digits(); such numbers do not fit 64 bits anyway.
_MOST_DIGITS = 100
# strconv.FormatFloat(value, 'g', -1, 64) writes other powers of ten with an exponent.
_PLAIN_EXPONENTS = range(-4, 6)


def hide_colons(text: bytes) -> tuple[bytes, str]:
    """Return a text that libyaml reads as go-yaml does, and the character in it that stands for a colon.

    Without a free character, the text is returned as it is. '': no character stands for a colon.
    """
    if not any(pair in text for pair in _INDICATORS):
        return text, ""
    stand_in = next(_unused(text), "")
    replacement = stand_in.encode() or b":"
    return _REFUSED.sub(lambda match: replacement if match[0] == b":" else match[0], text), stand_in


def _unused(text: bytes) -> Iterator[str]:
    used = {match[0].decode() for match in _PRIVATE.finditer(text)}
    used |= {chr(int(match[1], 16)) for match in _ESCAPED.finditer(text)}
    return (chr(code) for code in _PRIVATE_USE if chr(code) not in used)


def read_plain(text: str) -> Any:
    """Return the JSON value of a plain scalar without a tag.

    Raises: ValueError if JSON cannot express it (`.nan`, `.inf`).
    """
    return to_json(_resolve(text))


def read_tagged(tag: str, text: str) -> Any:
    """Return the JSON value of a scalar with a tag: for `!`, `!!str` and unknown tags, the text.

    Raises: ValueError if the text does not match the tag.
    """
    name = tag.removeprefix("tag:yaml.org,2002:")
    if name == "binary":
        return _decode_binary(text)
    expected: tuple[type, ...] | None = {
        "int": (int,),
        "float": (int, float),
        "bool": (bool,),
        "null": (type(None),),
    }.get(name)
    if expected is None:
        return text
    value = read_plain(text)
    if not isinstance(value, expected) or (name != "bool" and isinstance(value, bool)):
        raise ValueError(f'value does not match the tag "!!{name}"; correct it')
    return to_json(float(read_plain(text))) if name == "float" else value


def read_key(text: str) -> str:
    """Return the JSON key that a plain scalar without a tag becomes.

    Raises: ValueError for null, and for integers beyond int64.
    """
    return write_key(_resolve(text))


def write_key(value: Any) -> str:
    """Return the JSON key that sigs.k8s.io/yaml writes for a value: a float as the nearest float32.

    Raises: ValueError for null, a mapping, a list, and an integer beyond int64.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _write_float(value, _shortest_single(value))
    if isinstance(value, int):
        if _LEAST_INT64 <= value <= _GREATEST_INT64:
            return str(value)
        raise ValueError("an integer beyond 64 bits cannot be a key; put the key in quotes")
    kind = "null" if value is None else "a mapping" if isinstance(value, dict) else "a list"
    template = f", or {TEMPLATE_REMEDY}" if isinstance(value, dict) else ""  # {{ .x }} reads as a mapping
    raise ValueError(f"{kind} cannot be a key; put the key in quotes{template}")


def write_number(value: float) -> str:
    """Return a number as Go writes an integer or a float64."""
    return str(value) if isinstance(value, int) else _write_float(value, repr(value))


def read_integer(text: str) -> int | float:
    """Return a decimal integer: exact if it fits 64 bits, else the nearest float64."""
    if len(text) <= _MOST_DIGITS and _LEAST_INT64 <= (value := int(text)) <= _GREATEST_UINT64:
        return value
    return float(text)


def to_json(value: Any) -> Any:
    """Return a value as Go writes it to JSON: 1.0 becomes 1, and a large float the digits of its shortest form.

    Raises: ValueError if JSON cannot express it.
    """
    if value.__class__ is not float:
        return value
    if not math.isfinite(value):
        raise ValueError("JSON has neither infinity nor NaN; put it in quotes")
    if not value.is_integer():
        return value
    integer = int(value) if abs(value) < _EXACT else int(Decimal(repr(value)))
    return integer if _LEAST_INT64 <= integer <= _GREATEST_INT64 else value


def _resolve(text: str) -> Any:
    value = _WORDS.get(text, _MISSING)
    if value is not _MISSING:
        return value
    if text[0] in _NUMERIC and (value := _number(text)) is not _MISSING:
        return value
    return text


def _number(text: str) -> Any:
    plain = _UNDERSCORE_BETWEEN_DIGITS("", text) if text[0] == "." else text.replace("_", "")
    match = _INTEGER(plain)
    if match and (integer := _integer(*match.groups())) is not None:
        return integer
    if not _FLOAT(plain):
        return _MISSING
    value = float(plain)
    return value if math.isfinite(value) else _MISSING  # beyond float64: remains text


def _integer(sign: str, hexadecimal: str, octal: str, binary: str, decimal: str) -> int | None:
    digits, base = next(pair for pair in ((hexadecimal, 16), (octal, 8), (binary, 2), (decimal, 10)) if pair[0])
    if len(digits.lstrip("0")) > _MOST_DIGITS:
        return None
    value = int(digits, base)
    value = -value if sign == "-" else value
    return value if _LEAST_INT64 <= value <= _GREATEST_UINT64 else None


def _decode_binary(text: str) -> str:
    try:
        return base64.b64decode(text).decode("utf-8")
    except ValueError as error:  # binascii.Error, a character outside ASCII, or content that is not UTF-8
        raise ValueError('value of the tag "!!binary" must be base64 of UTF-8 text') from error


def _write_float(value: float, shortest: str) -> str:
    # strconv.FormatFloat(value, 'g', -1), given its shortest form, with go-yaml's names for infinity and NaN.
    if not math.isfinite(value) or shortest.endswith("inf"):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    number = Decimal(shortest).normalize()
    exponent = number.adjusted()
    if exponent in _PLAIN_EXPONENTS:
        return f"{number:f}"
    sign, digits, _ = number.as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    return f"{'-' * sign}{first}{'.' * bool(rest)}{rest}e{exponent:+03d}"


def _shortest_single(value: float) -> str:
    # 'inf' beyond float32.
    try:
        single = _as_single(value)
        forms = (f"{single:.{digits}e}" for digits in range(_SINGLE_DIGITS))
        return next((form for form in forms if _as_single(float(form)) == single), "nan")
    except OverflowError:
        return "inf"


def _as_single(value: float) -> float:
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single
