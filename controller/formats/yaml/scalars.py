"""YAML scalars as Kubernetes reads them, by the rules of sigs.k8s.io/yaml, a fork of go-yaml v2.

These are YAML 1.1 with Go's own changes, and no Python library implements them: `n` is false, `0755` is 493, `22:22`
and `2001-12-14` are strings, and `1.0` is the integer 1 because Go writes it so in JSON.

libyaml refuses colons at the end of a plain scalar in `[]` or `{}`, as in `[echo a:]`, which go-yaml reads. Before
parsing, each is replaced by a character that the text does not contain; the composer replaces it back. Colons after
quotes, brackets, blanks and aliases are left alone, since both parsers may take them for the end of a key.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, TypeAlias

Hidden: TypeAlias = tuple[bytes, str]
"""A text, and the character in it that stands for a colon; '' if there is none."""
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
_MISSING: Any = object()
_LEAST_INT64, _GREATEST_INT64, _GREATEST_UINT64 = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_EXACT = 1 << 53  # float64 holds every integer below
_SINGLE_DIGITS = 9  # that any float32 needs at most
# Python refuses to convert more digits than sys.get_int_max_str_digits(); such numbers do not fit 64 bits anyway.
_MOST_DIGITS = 100
# strconv.FormatFloat(value, 'g', -1, 64) writes other powers of ten with an exponent.
_PLAIN_EXPONENTS = range(-4, 6)


def hide(text: bytes) -> Hidden:
    """Return a text that libyaml reads as go-yaml does; without a free character, the text as it is."""
    if not any(pair in text for pair in _INDICATORS):
        return text, ""
    stand_in = next(_unused(text), "")
    replacement = stand_in.encode() or b":"
    return _REFUSED.sub(lambda match: replacement if match[0] == b":" else match[0], text), stand_in


def _unused(text: bytes) -> Iterator[str]:
    """Yield characters that the text contains neither as such nor as an escape."""
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
    """Return a signed or unsigned 64-bit integer; None if the number does not fit."""
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
    """Return strconv.FormatFloat(value, 'g', -1), given its shortest form, and go-yaml's names for infinity and NaN."""
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
    """Return the shortest decimal number that is the nearest float32 of a value; 'inf' beyond float32."""
    try:
        single = _as_single(value)
        forms = (f"{single:.{digits}e}" for digits in range(_SINGLE_DIGITS))
        return next((form for form in forms if _as_single(float(form)) == single), "nan")
    except OverflowError:
        return "inf"


def _as_single(value: float) -> float:
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single
