"""What the API server finds wrong with an object, without the values that it quotes, which may be secrets.

Not here: which failure it is (replies.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from controller.kube.errors import Cause

SHOWN = 5
CONCEALED = "…"
Conceal: TypeAlias = Callable[[str], str]
"""Returns the path of a field without texts of the object."""

# The types of `field.Error` that are followed by a value, and the value: quoted as in Go, a number or word, or JSON.
# See field.Error.ErrorBody in apimachinery.
_VALUE = re.compile(
    r"(Invalid value|Unsupported value|Not found|Duplicate value|Too many): "
    r'(?:("(?:[^"\\]|\\.)*"|[-+\w.]+)|(?=[{\[]))'
)
_WITHOUT_VALUE = frozenset({"Required value", "Forbidden", "Too long", "Internal error"})
_UNKNOWN = "field not declared in schema"
_TYPED_ERRORS = (_UNKNOWN, "expected ", "duplicate entries for key")
# The keys of a list item, such as [name="web"]. In a set, [="web"], the key is the value.
_ITEM_KEYS = re.compile(r" \[\w+=[^\]]*\]")
_WORD = re.compile(r'"[A-Za-z]{1,30}"')
_GOT = re.compile(r"&(?:value\.valueUnstructured)?\{(?:Value:)?(true|false|[-+.0-9eE]+)\}$")
_BOOLEAN_FOR_TEXT = re.compile(r'must be of type string: "boolean"')
_BOOLEAN_HINT = "quote it: YAML reads y, n, yes, no, on, off, true and false as booleans"
_MAP = re.compile(
    r"(?:^|\.)((?:data|stringData|binaryData|labels|annotations|matchLabels|nodeSelector|limits|requests|parameters))[.\[]"
)
_KEY = re.compile(r"\[(?!\d+\])[^\]]*\]")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CONVERSION_PREFIX = re.compile(r"unable to convert unstructured object to [^:]*: |error decoding from json: ")


def text_of(cause: Cause, conceal: Conceal | None = None) -> str:
    """Return the text of a cause after the value, without a full stop; its form is `type: value: text`.

    Args:
        cause: of a reply.
        conceal: given if no text of the object may be shown.
    """
    # Further lines are a difference of two specs.
    line = cause.message.partition("\n")[0]
    match = _VALUE.match(line)
    if match:
        text = lower(_after_value(line, match).removeprefix(f"{cause.field} in body ") or match[1])
        return _with_hint(text if conceal else f"{text}{_given(match)}")
    kind, _, text = line.partition(": ")
    # Anything else might be a value.
    return lower(text.rstrip(".") or kind) if kind in _WITHOUT_VALUE else "rejected"


def describe(causes: Iterable[Cause], conceal: Conceal | None = None) -> str:
    """Return the rejected fields and why, equal for equal causes in any order; empty without any."""
    return enumerate_some(sorted({_describe_one(cause, conceal) for cause in causes}))


def conceal_keys(path: str) -> str:
    """Return the path of a field without what an object, and not its kind, calls something: keys of items and maps."""
    found = _MAP.search(path)
    shown = f"{path[: found.end(1)]}.{CONCEALED}" if found else path
    return _KEY.sub(f"[{CONCEALED}]", shown)


def conceal_all(path: str) -> str:
    """Return the beginning of the path of a field: below it, any name may be one of the object's."""
    first, dot, _ = path.partition(".")
    return f"{first.partition('[')[0]}.{CONCEALED}" if dot else first


def describe_typed_errors(text: str, conceal: Conceal | None = None) -> str:
    """Return path and error of each field that does not match the schema of its kind, but not its value."""
    errors = (_typed_error(line.strip(), conceal) for line in text.splitlines())
    return enumerate_some(dict.fromkeys(error for error in errors if error)) or "does not match the schema of its kind"


def describe_conversion_error(text: str) -> str:
    """Return what is wrong with a value that matches the schema; no field is named, and a quote may be the value."""
    return f"a value cannot be decoded: {_QUOTED.sub('(…)', one_line(_CONVERSION_PREFIX.sub('', text)))}"


def enumerate_some(texts: Iterable[str]) -> str:
    """Return the first texts in one line, and how many more there are."""
    all_of_them = list(texts)
    more = f"; and {len(all_of_them) - SHOWN} more" if len(all_of_them) > SHOWN else ""
    return "; ".join(all_of_them[:SHOWN]) + more


def one_line(text: str) -> str:
    """Return a sentence of the server in the form of our messages: one line, lower case, no full stop."""
    return lower(" ".join(text.split()).rstrip("."))


def lower(text: str) -> str:
    """Return a text in lower case at its start, unless that is an abbreviation."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _describe_one(cause: Cause, conceal: Conceal | None) -> str:
    # [] is the object as a whole.
    text = text_of(cause, conceal)
    return text if cause.field in ("", "[]") else f"{conceal(cause.field) if conceal else cause.field}: {text}"


def _after_value(line: str, match: re.Match[str]) -> str:
    end = match.end()
    if match[2] is None:
        try:
            _, end = json.JSONDecoder().raw_decode(line, end)
        except (ValueError, RecursionError):
            return ""
    return line[end + 2 :].rstrip(".") if line.startswith(": ", end) else ""


def _given(match: re.Match[str]) -> str:
    """Return the value of an enumeration that was given, if it is a word: anything else may be a secret."""
    is_word = match[1] == "Unsupported value" and _WORD.fullmatch(match[2] or "")
    return f", not {match[2]}" if is_word else ""


def _with_hint(text: str) -> str:
    """Add what to do about a value that YAML reads as another type unless it is quoted."""
    return f"{text}; {_BOOLEAN_HINT}" if _BOOLEAN_FOR_TEXT.fullmatch(text) else text


def _got(text: str) -> str:
    """Return the type that a field has instead of the expected one, as far as it is told; never its value."""
    found = _GOT.match(text)
    if found is None:
        return ""
    return f", got a boolean; {_BOOLEAN_HINT}" if found[1] in ("true", "false") else ", got a number; quote it"


def _typed_error(line: str, conceal: Conceal | None) -> str:
    """Read `.spec.replicas: expected numeric (int or float), got string`; empty for another line."""
    for text in _TYPED_ERRORS:
        path, found, rest = line.partition(f": {text}")
        if not found or not path.startswith("."):
            continue
        where = path[1:]
        if conceal:
            # The name of an unknown field is one of the object's.
            where = conceal(where) if text != _UNKNOWN else f"{conceal(where.rpartition('.')[0])}.{CONCEALED}"
        if text == "expected ":
            expected, _, got = rest.partition(", got ")
            return f"{where}: {text}{expected}{_got(got) if expected == 'string' else ''}"
        keys = None if conceal else _ITEM_KEYS.match(rest)
        return f"{where}: {text}{keys[0] if keys else ''}"
    return ""
