"""Values of a chart on the command line: `--values`, `--set`, `--set-string`, `--set-file`, as Helm has them. Pure.

Source of the syntax of `--set`: https://helm.sh/docs/intro/using_helm/#the-format-and-limitations-of---set, and where
that is silent, what Helm 3 does: `a.b=1,list[0].name=x,names={x,y}`, with a backslash before a character that is meant
literally. Files come first, then `--set`, `--set-string` and `--set-file`, each in the order of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from rukpak.controller.content.limits import name_key
from rukpak.controller.formats.helm.values import merge_values

_INTEGER = re.compile(r"[+-][0-9]+|[1-9][0-9]*|0").fullmatch
_LARGEST = 1 << 63
_CREDENTIAL = re.compile(
    r".*(password|passwd|passphrase|token|credentials?|(api|access|auth|private|secret|encryption|signing)[-_]?key"
    r"|(api|app|auth|client|cookie|jwt|oauth|session|shared|webhook)[-_]?secret)",
    re.IGNORECASE | re.DOTALL,
).fullmatch
"""Names of values that are credentials; others of this kind (`existingSecret`) are names of Secrets."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_MOST_ITEMS, _MOST_LEVELS = 65_536, 30
"""As in Helm."""
Convert = Callable[[str], Any]


def set_values(values: dict[str, Any], text: str, convert: Convert) -> None:
    """Set values as the argument of `--set` says.

    Args:
        values: is changed.
        text: `key=value,key=value`.
        convert: makes a value of what is written there; it may raise ValueError.

    Raises: ValueError that says what is wrong.
    """
    scan = _Scan(text)
    while not scan.is_at_end():
        _set_key(scan, values, convert, _MOST_LEVELS)


def typed(text: str) -> Any:
    """Return an integer, a boolean, null or a string, as `--set` does."""
    if (word := text.lower()) in _WORDS:
        return _WORDS[word]
    return int(text) if _INTEGER(text) and -_LARGEST <= int(text) < _LARGEST else text


def merge_files(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of several files; those of a later file win."""
    return reduce(merge_values, files, dict[str, Any]())


def find_credentials(config: Any, path: str = "spec.config") -> Iterator[tuple[str, Any]]:
    """Yield the paths and values of what is a credential by its name, in a spec.config."""
    if isinstance(config, Mapping):
        if _is_credential(config.get("name"), config.get("value")):  # an environment variable
            yield f"{path}.value", config["value"]
        for key, value in config.items():
            if _is_credential(key, value):
                yield name_key(path, key), value
            else:
                yield from find_credentials(value, name_key(path, key))
    elif isinstance(config, list):
        for index, value in enumerate(config):
            yield from find_credentials(value, f"{path}[{index}]")


def _is_credential(name: object, value: object) -> bool:
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
    return is_text and isinstance(name, str) and bool(_CREDENTIAL(name))


class _Scan:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0

    def is_at_end(self) -> bool:
        return self._place >= len(self._text)

    def skip(self, character: str) -> bool:
        """Move behind a character if it is the next one; return whether it was."""
        is_next = self._text.startswith(character, self._place)
        self._place += is_next
        return is_next

    def until(self, stops: str) -> tuple[str, str]:
        """Return the text before one of these characters, and which one; empty at the end."""
        found = re.compile(rf"((?:\\.|[^{re.escape(stops)}])*)(.?)", re.DOTALL).match(self._text, self._place)
        text, stop = found.groups() if found else ("", "")
        self._place += len(text) + len(stop)
        return _ESCAPED.sub(r"\1", text), stop


def _set_key(scan: _Scan, values: dict[str, Any], convert: Convert, levels: int) -> None:
    if not levels:
        raise ValueError(f"keys are nested more than {_MOST_LEVELS} levels deep")
    key, stop = scan.until(".[=,")
    match stop:
        case "=" | "[" | "." if not key:
            raise ValueError(f'no key before "{stop}"')
        case "=":
            values[key] = _read_value(scan, convert)
        case "[" | ".":
            values[key] = _set_within(scan, _copy_of(values.get(key), stop, key), convert, levels - 1)
        case _ if key or stop:
            raise ValueError(f'key "{key}" has no value')


def _set_within(scan: _Scan, value: Any, convert: Convert, levels: int) -> Any:
    if isinstance(value, list):
        _set_item(scan, value, convert, levels)
    else:
        _set_key(scan, value, convert, levels)
    return value


def _set_item(scan: _Scan, items: list[Any], convert: Convert, levels: int) -> None:
    index = _read_index(scan)
    items += [None] * (index + 1 - len(items))
    rest, stop = scan.until("[.=")
    if rest or not stop:
        raise ValueError(f'item {index} is followed by "{rest}"; write [{index}]=VALUE or [{index}].KEY=VALUE')
    if stop == "=":
        items[index] = _read_value(scan, convert)
    else:
        items[index] = _set_within(scan, _copy_of(items[index], stop, f"[{index}]"), convert, levels - 1)


def _read_index(scan: _Scan) -> int:
    text, stop = scan.until("]")
    if not stop or not text.isdecimal() or int(text) > _MOST_ITEMS:
        raise ValueError(f'"[{text}{stop}" is not the position of an item, from [0] to [{_MOST_ITEMS}]')
    return int(text)


def _read_value(scan: _Scan, convert: Convert) -> Any:
    if not scan.skip("{"):
        return convert(scan.until(",")[0])
    items: list[Any] = []
    while True:
        text, stop = scan.until(",}")
        if not stop:
            raise ValueError("a list must end with }")
        items.append(convert(text))
        if stop == "}":
            scan.skip(",")
            return items


def _copy_of(value: Any, stop: str, key: str) -> Any:
    """Return a copy of the list that `[` is behind, or of the mapping that `.` is behind; a new one for None."""
    kind, name = (list, "list") if stop == "[" else (dict, "mapping")
    if value is not None and not isinstance(value, kind):
        raise ValueError(f'"{key}" is not a {name}')
    return kind(value or ())
