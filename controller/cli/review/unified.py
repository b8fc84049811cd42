"""A comparison as text that people and `patch` can read: a summary, then a unified diff of each object. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.cli.output import one_line, to_yaml
from controller.cli.review.cleaning import mask
from controller.cli.review.differences import Change, Comparison, Difference, count_unchanged
from controller.status.texts import describe_changes, short

_RESET = "\x1b[0m"
_COLORS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m", "": "\x1b[1m"}
_NOTHING = "/dev/null"
_LISTED = (Change.KEPT, Change.REFUSED)
"""Without a diff: only a line says what would happen."""


def summarize(comparison: Comparison) -> Iterator[str]:
    """Yield lines that say what would happen, except to the single objects that would change."""
    against = "the cluster" if comparison.against == "the cluster" else f"revision {short(comparison.against)}"
    text = describe_changes(comparison.changes) if comparison.differs else "no difference"
    unchanged = count_unchanged(comparison.objects)
    more = f", {unchanged} unchanged" if unchanged else ""
    yield f"{comparison.name}: revision {comparison.revision} compared with {against}: {text}{more}"
    for each in comparison.hooks:
        is_same = each.before == each.after
        yield f"  Hook:    {each.key} ({each.hook}{', unchanged' if is_same else ''})"
    for each in comparison.objects:
        if each.change in _LISTED:
            note = f": {each.note.removeprefix(f'{each.key}: ')}" if each.note else ""
            yield f"  {each.change.value.capitalize()}: {each.key}{note}"
    unread = sum(each.change is Change.UNREAD for each in comparison.objects)
    if unread:
        yield f"  Not compared: {unread} objects that you may not read; they are shown as rendered"
    for problem in comparison.problems:
        yield f"  Problem: {problem}"


def write(comparison: Comparison, key: bytes, *, colors: bool) -> Iterator[str]:
    """Yield the lines of a comparison.

    Args:
        comparison: what is shown.
        key: of the hashes of values of Secrets.
        colors: whether lines are colored, for a terminal.
    """
    for line in summarize(comparison):
        yield _paint("", one_line(line), colors=colors)
    for each in (*comparison.hooks, *comparison.objects):
        if each.change is Change.NONE or each.change in _LISTED or each.before == each.after:
            continue
        yield ""
        note = f" ({each.hook or each.note})" if each.hook or each.note else ""
        yield _paint("", one_line(f"{each.change.value} {each.key}{note}"), colors=colors)
        for line in _diff(each, key):
            yield _paint(line[:1], line, colors=colors)


def _paint(kind: str, line: str, *, colors: bool) -> str:
    color = _COLORS.get(kind)
    return f"{color}{line}{_RESET}" if colors and color else line


def _diff(difference: Difference, key: bytes) -> Iterator[str]:
    name = one_line("/".join(filter(None, (difference.api_version, *difference.key[1:]))))
    before, after = _lines(difference.before, key), _lines(difference.after, key)
    yield f"--- {f'before/{name}' if before else _NOTHING}"
    yield f"+++ {f'after/{name}' if after else _NOTHING}"
    if before and after:
        yield from list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    elif before:
        yield from _whole("-", f"@@ -1,{len(before)} +0,0 @@", before)
    else:
        yield from _whole("+", f"@@ -0,0 +1,{len(after)} @@", after)


def _whole(sign: str, heading: str, lines: Iterable[str]) -> Iterator[str]:
    yield heading
    yield from (f"{sign}{line}" for line in lines)


def _lines(manifest: Mapping[str, Any] | None, key: bytes) -> list[str]:
    return to_yaml(mask(manifest, key)).split("\n")[:-1] if manifest else []


def to_value(comparison: Comparison, key: bytes) -> dict[str, Any]:
    """Return a comparison as data, without unchanged objects and with Secrets masked."""
    return {
        "name": comparison.name,
        "revision": comparison.revision,
        "against": comparison.against,
        "changes": comparison.changes.model_dump(),
        "unchanged": count_unchanged(comparison.objects),
        "objects": [_to_value(each, key) for each in comparison.objects if each.change is not Change.NONE],
        "hooks": [_to_value(each, key) for each in comparison.hooks],
        "problems": list(comparison.problems),
    }


def _to_value(difference: Difference, key: bytes) -> dict[str, Any]:
    about = {
        "apiVersion": difference.api_version,
        "kind": difference.key.kind,
        "namespace": difference.key.namespace,
        "name": difference.key.name,
        "change": difference.change.value,
        "note": difference.note,
        "before": mask(difference.before, key) if difference.before else None,
        "after": mask(difference.after, key) if difference.after else None,
    }
    return {**about, "event": difference.hook} if difference.hook else about
