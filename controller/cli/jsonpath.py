r"""Templates of `-o jsonpath=`: text with paths in braces, as kubectl prints them.

Known are fields (`.a.b`, `['a.b']`, `.a\.b`), items (`[0]`, `[-1]`, `[*]`), filters on equality
(`[?(@.type=="Ready")]`) and quoted text (`{"\n"}`). What kubectl has beyond that, such as `range`, is refused: use
`-o json` and jq.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from controller.cli.command import MisuseError

_BRACES = re.compile(r"\{([^{}]*)\}")
_STEP = re.compile(
    r"""\.?(?:
        (?P<field>(?:[^.\[\]\\'"{}@?()*\s]|\\.)+)
      | \[\s*['"](?P<key>[^'"]+)['"]\s*\]
      | \[\s*(?P<index>-?\d+)\s*\]
      | (?P<all>\[\s*\*\s*\]|\*)
      | \[\?\(\s*@\.(?P<member>[\w.-]+)\s*(?P<operator>==|!=)\s*(?P<quote>['"]?)(?P<text>[^'"]*?)(?P=quote)\s*\)\]
    )""",
    re.VERBOSE,
)

Step = Callable[[Any], Iterator[Any]]


def evaluate(template: str, value: Any) -> str:
    """Return a template with each path in braces replaced by what it leads to; several values are separated by spaces.

    Raises: MisuseError for a path that is not supported.
    """
    text = template if "{" in template else f"{{{template}}}"
    rest = _BRACES.sub("", text)
    if "{" in rest or "}" in rest:
        raise MisuseError(f'-o jsonpath: "{template}": braces are not balanced')
    return _BRACES.sub(lambda match: _expand(match[1].strip(), value), text)


def _expand(expression: str, value: Any) -> str:
    if expression[:1] in ('"', "'") and expression[-1:] == expression[:1]:
        return expression[1:-1].replace("\\n", "\n").replace("\\t", "\t")
    found = [value]
    for step in _parse(expression):
        found = [each for item in found for each in step(item)]
    return " ".join(map(_show, found))


def _parse(expression: str) -> Iterator[Step]:
    text = expression.removeprefix("$")
    if text in (".", ""):
        return
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None:
            raise MisuseError(
                f'-o jsonpath: "{expression}": not supported from "{text[place:]}" on; use -o json and jq'
            )
        place = match.end()
        yield _make_step(match)


def _make_step(match: re.Match[str]) -> Step:
    part = match.groupdict()
    if part["index"]:
        return lambda value: _item(value, int(part["index"]))
    if part["all"]:
        return _members
    if part["member"]:
        path, wanted = part["member"].split("."), part["operator"] == "=="
        return lambda value: (
            each for each in _members(value) if (_show(_descend(each, path)) == part["text"]) is wanted
        )
    key = part["key"] or re.sub(r"\\(.)", r"\1", part["field"])
    return lambda value: iter([value[key]] if isinstance(value, Mapping) and key in value else [])


def _item(value: Any, index: int) -> Iterator[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str) and -len(value) <= index < len(value):
        yield value[index]


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from value


def _descend(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _show(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
