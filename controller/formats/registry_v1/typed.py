"""Typed values: JSON as Go writes it after decoding it into typed structures, as upstream does with a bundle.

A value of the wrong type is an error; unknown fields are removed and recorded; zero values are left out where Go leaves
them out. `kubernetes_types.json` describes the types of Kubernetes; `hack/kubernetes_types` generates it. Flags before
a field's type: `+` required by the API, `!` written by Go even if empty, `*` a pointer.

Go's encoding/json writes compact UTF-8, with `<`, `>`, `&`, U+2028 and U+2029 escaped. Names of RBAC objects contain
hashes of it, and annotations contain it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

from rukpak.controller.formats.composer import write_number
from rukpak.controller.formats.objects import describe_type

_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})
_TOKEN = re.compile(r'[ \t\r\n]+|"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^ \t\r\n{}\[\]:,"]+')
_MOST_CHARACTERS = 1 << 20  # an API server allows a quarter of it for all annotations of an object
_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_IS_STRICT = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
).fullmatch
_LEADING_ZEROS = re.compile(r"\A0+(?=[0-9])").sub
_PARTS = 3
_OPENING, _CLOSING = frozenset("{["), frozenset("}]")
FieldPath: TypeAlias = tuple["FieldPath", str | int] | None
"""The location of a value: its parent and the last key, which is cheap to create for each value."""
_TABLE = Path(__file__).with_name("kubernetes_types.json")
_QUANTITY = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\Z").match
_EMPTY: tuple[Any, ...] = ("", False, 0, [], {}, None)
# Left out if they are empty, as in OLM's output after the API server's defaulting.
_SILENT = frozenset({"resources", "strategy"})
_UNIONS: Mapping[str, tuple[str, ...]] = {
    # The types of a boolean, a list and a mapping; see marshal.go of apiextensions-apiserver.
    "JSONSchemaPropsOrBool": ("bool", "", "JSONSchemaProps"),
    "JSONSchemaPropsOrArray": ("", "[]JSONSchemaProps", "JSONSchemaProps"),
    "JSONSchemaPropsOrStringArray": ("", "[]string", "JSONSchemaProps"),
}
_INT32, _INT64 = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)
_BEYOND_INT32, _BEYOND_INT64 = (f"must be at least {span[0]} and at most {span[-1]}" for span in (_INT32, _INT64))
_NO_QUANTITY = "must be a quantity such as 100m or 64Mi"


def write(value: Any, *, sort_keys: bool = False) -> str:
    """Return a value as json.Marshal writes it; sort keys if it was a map in Go."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    return escape(text)


def escape(text: str) -> str:
    """Return JSON with the escapes that Go adds; these characters occur only in strings."""
    return text.translate(_ESCAPES)


def split_list(text: str) -> list[dict[str, str]]:
    """Return the members of the objects in a list: keys to the unparsed text of their values, compact and escaped.

    Raises: ValueError if the text is not a list of objects, or longer than any annotation. RecursionError.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("too long")
    items = json.loads(text, parse_constant=_refuse)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("not a list of objects")
    tokens = [match[0] for match in _TOKEN.finditer(text) if not match[0].isspace()]
    return [{json.loads(key): escape(value) for key, value in _members(part)} for part in _split(tokens[1:-1])]


def _members(tokens: list[str]) -> Iterator[tuple[str, str]]:
    for member in _split(tokens[1:-1]):
        yield member[0], "".join(member[2:])  # member[1] is the colon


def _split(tokens: list[str]) -> Iterator[list[str]]:
    depth = 0
    part: list[str] = []
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and not depth:  # noqa: S105 - a token of JSON
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _refuse(name: str) -> NoReturn:
    raise ValueError(f'JSON has no "{name}"')


class WrongTypeError(Exception):
    """A value has the wrong type; `problem` describes it without showing it."""

    def __init__(self, path: FieldPath, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a structure."""

    type: str
    """`string`, `[]string`, `{}string`, or the name of a structure."""
    pointer: bool = False
    always: bool = False
    required: bool = False


Types: TypeAlias = Mapping[str, Mapping[str, Field]]


def parse_types(table: Mapping[str, Mapping[str, str]]) -> Types:
    """Return the structures in a table of field names to flags and type."""
    return {name: {key: _parse_field(text) for key, text in fields.items()} for name, fields in table.items()}


@cache
def kubernetes_types() -> Types:
    """Return the structures of Kubernetes that bundles contain."""
    return parse_types(json.loads(_TABLE.read_text()))


def write_path(path: FieldPath) -> str:
    """Return a path as messages write it: `spec.containers[0].name`."""
    keys: list[str | int] = []
    while path is not None:
        path, key = path
        keys.append(key)
    text = ""
    for key in reversed(keys):
        text += f"[{key}]" if isinstance(key, int) else f"{'.' * bool(text)}{key}"
    return text


class Reader:
    """Decodes values into types and encodes them as plain JSON.

    Args:
        types: structures by name.
        folds_case: ignore the case of keys, as encoding/json does. Structures of an API server do not.
    """

    __slots__ = ("_always", "_folds_case", "_types", "unknown")

    def __init__(self, types: Types, *, folds_case: bool = False) -> None:
        self._types, self._folds_case = types, folds_case
        self._always = {
            name: tuple((key, field) for key, field in fields.items() if field.always) for name, fields in types.items()
        }
        self.unknown: list[FieldPath] = []
        """Paths of the fields that were removed."""

    def read(self, value: Any, type_: str, path: FieldPath = None) -> Any:
        """Return a value as Go writes it after reading it.

        Raises: WrongTypeError.
        """
        if type_.startswith(("[]", "{}")):
            return self._items(value, type_, path)
        if type_ in self._types:
            return self._structure(value, type_, path)
        if type_ in _UNIONS:
            return self._union(value, _UNIONS[type_], path)
        return _read_scalar(value, type_, path)

    def _items(self, value: Any, type_: str, path: FieldPath) -> list[Any] | dict[str, Any] | None:
        if value is None:
            return None
        is_list, type_ = type_.startswith("[]"), type_[2:]
        if not isinstance(value, list if is_list else dict):
            raise _wrong(value, "a list" if is_list else "a mapping", path)
        if isinstance(value, list):
            return [self.read(item, type_, (path, index)) for index, item in enumerate(value)]
        return {key: self.read(item, type_, (path, key)) for key, item in value.items()}

    def _structure(self, value: Any, type_: str, path: FieldPath) -> dict[str, Any]:
        if not isinstance(value, dict | None):
            raise _wrong(value, "a mapping", path)
        fields = self._types[type_]
        result: dict[str, Any] = {}
        for key, item in self._members(value or {}, type_):
            field = fields.get(key)
            if field is None:
                self.unknown.append((path, key))
            elif item is not None:
                read = self.read(item, field.type, (path, key))
                if self._is_written(key, field, read):
                    result[key] = read
        for key, field in self._always[type_]:
            if key not in result and not field.pointer:
                self._write_zero(key, field, result, path)
        return result

    def _members(self, value: Mapping[str, Any], type_: str) -> Iterable[tuple[str, Any]]:
        # Of several members, the last one wins.
        if not self._folds_case:
            return value.items()
        names = {key.casefold(): key for key in self._types[type_]}
        return [(names.get(key.casefold(), key), value[key]) for key in sorted(value)]

    def _is_written(self, key: str, field: Field, value: Any) -> bool:
        if key in _SILENT and field.type in self._types:
            return bool(value)
        return field.pointer or field.always or value not in _EMPTY

    def _write_zero(self, key: str, field: Field, result: dict[str, Any], path: FieldPath) -> None:
        if field.type in self._types:
            value = self._structure(None, field.type, (path, key))
            if value or key not in _SILENT:
                result[key] = value
        elif field.type in SCALARS and (zero := SCALARS[field.type].zero) is not None:
            result[key] = zero

    def _union(self, value: Any, union: tuple[str, ...], path: FieldPath) -> Any:
        for kind, type_ in zip((bool, list, dict), union, strict=True):
            if type_ and isinstance(value, kind):
                return self.read(value, type_, path)
        raise _wrong(value, "another type", path)


def is_quantity(value: Any) -> bool:
    """Return whether Kubernetes accepts a value as a quantity."""
    return not isinstance(value, bool) and (isinstance(value, int | float) or bool(_QUANTITY(str(value))))


def _read_scalar(value: Any, type_: str, path: FieldPath) -> Any:
    if type_ == "any":
        return value
    scalar = SCALARS[type_]
    if value is None:
        return scalar.zero
    if type(value) not in scalar.types:
        raise _wrong(value, scalar.name, path)
    value = scalar.convert(value)
    if not scalar.is_valid(value):
        raise WrongTypeError(path, scalar.problem)
    return value


def _is_int32(value: str | int) -> bool:
    return isinstance(value, str) or value in _INT32


def _write_text(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else write_number(value)


def _as_float(value: float) -> float:
    # 9223372036854775807 becomes 9223372036854776000.
    nearest = float(value)
    return int(Decimal(repr(nearest))) if nearest.is_integer() else nearest


def is_version(text: str) -> bool:
    """Return whether a text is a version; leading zeros, a leading v and missing parts are accepted."""
    parts = [_LEADING_ZEROS("", part) for part in text.strip().removeprefix("v").split(".", _PARTS - 1)]
    if len(parts) < _PARTS and re.search("[+-]", parts[-1]):
        return False
    return bool(_IS_STRICT(".".join([*parts, *["0"] * (_PARTS - len(parts))])))


def _strip(value: Any) -> Any:
    return value.strip(" ") if isinstance(value, str) else value  # like Quantity.UnmarshalJSON


class Scalar(NamedTuple):
    """How values of a scalar type are read."""

    types: tuple[type, ...]
    """Of the value in JSON."""
    name: str
    zero: Any = None
    """What Go writes for a field that is not set; None: nothing."""
    convert: Callable[[Any], Any] = lambda value: value
    is_valid: Callable[[Any], bool] = lambda _value: True
    problem: str = ""
    """Of a value that is not valid."""


SCALARS: Mapping[str, Scalar] = {
    "string": Scalar((str,), "a string", ""),
    "text": Scalar((str, bool, int, float), "a string", "", _write_text),
    "version": Scalar((str,), "a string", is_valid=is_version, problem="must be a version such as 1.2.3"),
    "bytes": Scalar((str,), "a string"),
    "time": Scalar((str,), "a string"),
    "bool": Scalar((bool,), "a boolean", zero=False),
    "int32": Scalar((int,), "an integer", 0, is_valid=_is_int32, problem=_BEYOND_INT32),
    "int64": Scalar((int,), "an integer", 0, is_valid=_INT64.__contains__, problem=_BEYOND_INT64),
    "float": Scalar((int, float), "a number", 0, _as_float),
    "intOrString": Scalar((int, str), "an integer or a string", 0, is_valid=_is_int32, problem=_BEYOND_INT32),
    "quantity": Scalar((int, float, str), "a quantity", "0", _strip, is_quantity, _NO_QUANTITY),
}


def _wrong(value: Any, wanted: str, path: FieldPath) -> WrongTypeError:
    return WrongTypeError(path, f"must be {wanted}, not {describe_type(value)}")


def _parse_field(text: str) -> Field:
    type_ = text.lstrip("+!*")
    flags = text[: len(text) - len(type_)]
    return Field(type_, pointer="*" in flags, always="!" in flags, required="+" in flags)
