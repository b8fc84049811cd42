"""The rules of `.helmignore`, for charts with packaged dependencies, which are unpacked before Helm reads the chart.

Helm would miss the archives that the rules name, and apply the rules to the files of the others, which are exempt. In
all other charts Helm applies the rules itself. It also reports invalid ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from controller.content.limits import Rejection, quote

FILE = ".helmignore"
_RULES, _MATCHES = 1000, 2_000_000
"""Lines of a file, and how often all its rules are tried: each one with each file of the chart."""
Ignores: TypeAlias = Callable[[str, bool], bool]
"""Whether a file or folder is ignored, by its path in the chart and whether it is a folder."""

# Of filepath.Match: `*`, `?`, a class, an escaped character, any other one. A bare `[` or `\` is malformed.
_TOKEN = re.compile(r"(\*)|(\?)|\[(\^?)((?:(?:\\.|[^\\\]-])(?:-(?:\\.|[^\\\]-]))?)+)\]|\\(.)|([^\\\[])", re.DOTALL)
_CLASS_CHARACTER = re.compile(r"\\(.)|(-)|(.)", re.DOTALL)


class _Rule(NamedTuple):
    matches: Callable[[str], object]
    is_negated: bool
    only_folders: bool


def read_rules(text: bytes) -> Ignores | None:
    """Return what a file ignores; None if one of its rules is malformed, which Helm reports.

    Raises: Rejection for too many rules, also by what is returned.
    """
    lines = text.decode("utf-8-sig", "replace").splitlines()
    if len(lines) > _RULES:
        raise Rejection(f"{quote(FILE)} has more than {_RULES} lines; shorten it")
    try:
        rules = [_parse(line) for line in map(str.strip, lines) if line and not line.startswith("#")]
    except (ValueError, re.error):
        return None
    left = _MATCHES

    def _ignores(path: str, is_folder: bool) -> bool:
        nonlocal left
        left -= len(rules)
        if left < 0:
            raise Rejection(f"{quote(FILE)} has {len(rules)} rules, too many for that many files; shorten it")
        return _is_ignored(path, rules, is_folder=is_folder)

    return _ignores


def _is_ignored(path: str, rules: list[_Rule], *, is_folder: bool) -> bool:
    """Return what Helm's ignore.Rules says of a path: a negated rule ignores everything that it does not match."""
    for rule in rules:
        is_match = (is_folder or not rule.only_folders) and bool(rule.matches(path))
        if is_match != rule.is_negated:
            return True
    return False


def _parse(line: str) -> _Rule:
    is_negated, only_folders = line.startswith("!"), line.endswith("/")
    pattern = line.removeprefix("!").removesuffix("/")
    if "**" in pattern:
        raise ValueError(pattern)
    match = _compile(pattern.removeprefix("/"))
    by_path = "/" in pattern
    return _Rule(match if by_path else lambda path: match(path.rpartition("/")[2]), is_negated, only_folders)


def _compile(pattern: str) -> Callable[[str], object]:
    """Return filepath.Match for a pattern; a text takes time linear in its length.

    Raises: ValueError if the pattern is malformed.
    """
    tokens: list[list[str]] = [[]]
    for token in _tokens(pattern):
        if token == "*":  # noqa: S105 - a token of the pattern
            tokens.append([])
        else:
            tokens[-1].append(token)
    first, *rest = map("".join, tokens)
    if not rest:
        return re.compile(first, re.DOTALL).fullmatch
    middle = "".join(rf"(?>[^/]*?{part})" for part in rest[:-1])
    return re.compile(rf"{first}{middle}[^/]*{rest[-1]}", re.DOTALL).fullmatch


def _tokens(pattern: str) -> Iterator[str]:
    """Yield a regular expression for each element of a pattern, and `*`."""
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            raise ValueError(pattern)
        star, any_, negation, members, escaped, other = match.groups()
        if members:
            yield f"[{negation}{_CLASS_CHARACTER.sub(_write_member, members)}]"
        else:
            yield "*" if star else "[^/]" if any_ else re.escape(escaped or other)
        position = match.end()


def _write_member(match: re.Match[str]) -> str:
    escaped, dash, other = match.groups()
    return "-" if dash else re.escape(escaped or other)
