"""Finds the one chart in a content tree, and copies its files for Helm.

The copy, in a scratch folder, contains no archives and no links: packaged dependencies (`charts/*.tgz`) are unpacked by
our own reader, within the limits of all content, so that Helm reads exactly what was checked. In a chart with such
dependencies `.helmignore` is applied here: Helm would miss the archives that the rules name, and apply the rules to the
files of the others, which are exempt. In all other charts Helm applies the rules itself. It also reports invalid ones,
and missing dependencies (failures.py).

References in `values.schema.json` that lead outside the schema are refused. Helm before 3.18.5 fetches the target of a
`$ref`: network addresses, and files of this machine such as `/dev/zero` (CVE-2025-55199). Later versions still load
files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, ContentTree, Entry, EntryKind, Limits, Readable, Refusal
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.disk import ForeignFileError, Item, walk
from rukpak.controller.content.limits import BLOCK, Rejection, Unusable, check_path, quote, some, split_path
from rukpak.controller.content.tar import read_tar
from rukpak.controller.formats.manifests import read_small
from rukpak.controller.formats.recognition import (
    CHART,
    CHART_SUFFIXES,
    Archives,
    NoContentError,
    is_below,
    is_file,
    join,
    recognize_bundle,
    recognize_first,
    recognize_image_lock,
    recognize_manifests,
    recognize_package,
    walk_folders,
)

FILE = ".helmignore"
_RULES, _MATCHES = 1000, 2_000_000
"""Lines of a file, and how often all its rules are tried: each one with each file of the chart."""
Ignores: TypeAlias = Callable[[str, bool], bool]
"""Whether a file or folder is ignored, by its path in the chart and whether it is a folder."""
# Of filepath.Match: `*`, `?`, a class, an escaped character, any other one. A bare `[` or `\` is malformed.
_TOKEN = re.compile(r"(\*)|(\?)|\[(\^?)((?:(?:\\.|[^\\\]-])(?:-(?:\\.|[^\\\]-]))?)+)\]|\\(.)|([^\\\[])", re.DOTALL)
_CLASS_CHARACTER = re.compile(r"\\(.)|(-)|(.)", re.DOTALL)
_SCHEMA_BYTES = MEBIBYTE
_SCHEMA = "values.schema.json"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DRAFTS = ("http://json-schema.org/", "https://json-schema.org/")
_ARCHIVE = ".tgz"
_IGNORE_BYTES = 64 * 1024
# Of a chart or a dependency in its folder. Helm skips names that start with a dot (macOS writes ._x.tgz next to x.tgz)
# or an underscore.
_PACKED_DEPENDENCY = re.compile(r"(?:charts/[^/._][^/]*/)*charts/[^/._][^/]*\.tgz")
_NESTED = 8
"""Levels of packaged dependencies: an archive can be crafted to contain itself."""


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
        # As Helm's ignore.Rules: a negated rule ignores everything that it does not match.
        tried = ((rule, is_folder or not rule.only_folders) for rule in rules)
        return any((applies and bool(rule.matches(path))) != rule.is_negated for rule, applies in tried)

    return _ignores


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


def list_chart_files(folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the files of a chart and of its dependencies in order, each with the names of the folders it is in."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, path.relative_to(folder).parts[:-1]


def refuse_foreign_references(folder: Path, chart: str) -> None:
    """Refuse a chart in a folder if a schema, including those of dependencies, refers to anything but itself.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded for a schema that is too large).
    """
    for path, _ in list_chart_files(folder):
        if path.name == _SCHEMA:
            place = f"{name_chart(chart)}: {path.relative_to(folder)}"
            for key, target in _find_references(read_small(path, place, _SCHEMA_BYTES), place):
                problem = f"{key} refers to {quote(target)}, outside the schema; copy its target into the schema"
                raise BundleError(Reason.INVALID_BUNDLE, problem, place=place)


def _find_references(text: bytes, place: str) -> list[tuple[str, str]]:
    # Both values of a duplicate key count.
    found: list[tuple[str, str]] = []
    try:
        json.loads(text.decode("utf-8-sig", "replace"), object_pairs_hook=lambda pairs: found.extend(_foreign(pairs)))
    except (ValueError, RecursionError):
        raise BundleError(Reason.INVALID_BUNDLE, "not JSON; correct or remove it", place=place) from None
    return found


def _foreign(pairs: list[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for key, value in pairs:
        if not isinstance(value, str):
            continue
        if (key in _REFERENCES and not value.startswith("#")) or (key == "$schema" and not value.startswith(_DRAFTS)):
            yield key, value


class Chart(NamedTuple):
    """The location of a chart in a content tree."""

    path: str
    """Path of its folder ('' is the root) or its archive."""
    is_packed: bool = False


def name_chart(path: str) -> str:
    """Return how messages name the chart at a path of the content."""
    return quote(path) if path else "the chart"


def find_chart(tree: ContentTree, limits: Limits) -> Chart:
    """Return the chart in a tree: a folder with Chart.yaml, or an archive of one. Charts inside it are part of it.

    Raises: BundleError (NoContent if there is none; InvalidBundle if there are several; the reason of a Chart.yaml that
        must not be read, and of an archive if there is no chart).
    """
    found = list(_find_charts(tree, limits))
    folders = [chart.path for chart in found if not chart.is_packed]
    suffixes = (f"/{CHART}", *([] if found else CHART_SUFFIXES))
    tree.check(lambda path: f"/{path}".endswith(suffixes) and not any(is_below(path, folder) for folder in folders))
    if not found:
        raise _no_chart(tree)
    if len(found) > 1:
        places = some([quote(chart.path or ".") for chart in found])
        remedy = "select one with the directory or the files of the source"
        raise BundleError(Reason.INVALID_BUNDLE, f"found {len(found)} charts: {places}; {remedy}")
    return found[0]


def find_refused(tree: ContentTree, chart: Chart) -> dict[str, Refusal]:
    """Return what must not be read of a chart in a folder, and is not ignored, by its path in the chart.

    Raises: BundleError (RenderLimitExceeded).
    """
    refused = {path: refusal for path, refusal in tree.refused.items() if is_below(path, chart.path)}
    if chart.is_packed or not refused:
        return {}
    ignores = _read_ignore_file(tree.root, chart) or (lambda _path, _is_folder: False)
    inner = {path.removeprefix(f"{chart.path}/"): refusal for path, refusal in refused.items()}
    return {path: refusal for path, refusal in inner.items() if not _is_left_out(path, ignores)}


def _is_left_out(path: str, ignores: Ignores) -> bool:
    parts = path.split("/")
    folders = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
    return ignores(path, False) or any(ignores(folder, True) for folder in folders)


def gather_chart(
    root: Path,
    chart: Chart,
    folder: Path,
    limits: Limits,
    occupy: Callable[[int], None] = lambda _size: None,
) -> dict[str, Refusal]:
    """Copy a chart to a new folder, with its packaged dependencies unpacked.

    Args:
        root: of the content.
        chart: in it.
        folder: must not exist.
        limits: of archives.
        occupy: receives the number of bytes before they are written; raises BundleError.

    Returns: what must not be read of archives, such as links, by its path in the folder.
    Raises: BundleError (InvalidBundle for links, special files, damaged archives and limits; StorageFull).
    """
    folder.mkdir()
    place = name_chart(chart.path)
    try:
        entries = _unpack_dependencies(_entries(root, chart, limits), limits, 0)
        found = write_entries(entries, folder, limits, place, _Scratch(occupy), records=True)
    except ForeignFileError as error:
        problem = f"{quote(str(error))} is not a regular file; replace it with the file itself"
        raise BundleError(Reason.INVALID_BUNDLE, problem, place=place) from None
    except BundleError as error:
        if error.reason is not Reason.CONTENT_REJECTED:
            raise
        raise BundleError(Reason.INVALID_BUNDLE, error.message) from None
    return {
        path: Refusal(problem=f"{place}: {refusal.problem}", reason=Reason.INVALID_BUNDLE)
        for path, refusal in found.items()
    }


class _Scratch:
    """Reports the bytes of files before they are written to the scratch folder."""

    def __init__(self, occupy: Callable[[int], None]) -> None:
        self._occupy = occupy

    def add_node(self) -> None:
        """Report a file or folder."""
        self._occupy(BLOCK)

    def add_file(self, size: int) -> None:
        """Report the content of a file."""
        self._occupy(size)


# finding


def _find_charts(tree: ContentTree, limits: Limits) -> Iterator[Chart]:
    charts: set[str] = set()
    archives = Archives(limits)
    for folder in walk_folders(tree.root):
        outer = next((each for each in _above(folder) if each in charts), None)
        if outer is not None and (folder not in tree.destinations or is_below(folder, join(outer, "charts"))):
            continue  # part of that chart
        if is_file(tree.root / folder / CHART):
            charts.add(folder)
            yield Chart(folder)
        elif outer is None:
            yield from (Chart(path, is_packed=True) for path in archives.find_charts(tree.root, folder))


def _above(folder: str) -> Iterator[str]:
    names = folder.split("/")
    return ("/".join(names[:depth]) for depth in range(len(names) if folder else 0))


def _no_chart(tree: ContentTree) -> BundleError:
    problem = "no chart found: neither a directory with Chart.yaml nor a .tgz or .tar.gz archive of one"
    remedy = (
        recognize_first(tree.root, recognize_bundle, recognize_package, recognize_image_lock, recognize_manifests)
        or "add the chart, or correct the directory of its source"
    )
    return NoContentError(problem, remedy, tree.describe_refused())


# gathering


def _entries(root: Path, chart: Chart, limits: Limits) -> Iterator[Entry]:
    if not chart.is_packed:
        yield from _entries_of_folder(root, chart)
        return
    with (root / chart.path).open("rb") as file:
        for entry in _entries_of_archive(file, limits):
            if entry.path != FILE:  # `helm package` has applied it; Helm ignores it in an archive
                yield entry


def _read_ignore_file(root: Path, chart: Chart) -> Ignores | None:
    path = join(chart.path, FILE)
    return read_rules(read_small(root / path, quote(path), _IGNORE_BYTES) if is_file(root / path) else b"")


def _entries_of_folder(root: Path, chart: Chart) -> Iterator[Entry]:
    folder = root / chart.path
    is_unpacked = any(_PACKED_DEPENDENCY.fullmatch(item.path) for item in walk(folder))
    ignores = _read_ignore_file(root, chart) if is_unpacked else None
    for item in _without_ignored(walk(folder), ignores) if ignores else walk(folder):
        if item.is_folder:
            yield Entry(path=item.path, kind=EntryKind.DIRECTORY)
            continue
        with (folder / item.path).open("rb") as file:
            yield Entry(path=item.path, size=os.fstat(file.fileno()).st_size, data=file)


def _without_ignored(items: Iterable[Item], ignores: Ignores) -> Iterator[Item]:
    # The files of rules are left out, too: no rule is left to apply.
    skipped: str | None = None
    for item in items:
        if skipped is not None and item.path.startswith(skipped):
            continue
        if not ignores(item.path, item.is_folder):
            if item.path != FILE:
                yield item
        elif item.is_folder:
            skipped = f"{item.path}/"


def _entries_of_archive(stream: Readable, limits: Limits) -> Iterator[Entry]:
    for entry in read_tar(stream, limits):
        if entry.kind is EntryKind.DIRECTORY:
            continue
        refusal = entry.refusal or _judge(entry, limits)
        path = "/".join(split_path(entry.path)[1:])
        if not path:
            raise Rejection(
                f'entry {quote(entry.path)} is outside the chart\'s directory; package it with "helm package"'
            )
        yield Entry(path=path, size=entry.size, data=entry.data, refusal=refusal)


def _judge(entry: Entry, limits: Limits) -> Refusal | None:
    if entry.kind is not EntryKind.FILE:
        return Refusal(problem=f"entry {quote(entry.path)} is a link; replace it with the file itself")
    try:
        check_path(entry.path, limits)
    except Unusable as unusable:
        return unusable.refusal
    return None


def _unpack_dependencies(entries: Iterable[Entry], limits: Limits, depth: int) -> Iterator[Entry]:
    for entry in entries:
        if entry.refusal or entry.data is None or not _PACKED_DEPENDENCY.fullmatch(entry.path):
            yield entry
            continue
        if depth == _NESTED:
            raise Rejection(f"entry {quote(entry.path)} is nested in more than {_NESTED} archives; unpack it")
        # Unlike the archive's name without its suffix, no other folder has this name.
        folder = entry.path.removesuffix(_ARCHIVE) + ".unpacked"
        try:
            for inner in _unpack_dependencies(_entries_of_archive(entry.data, limits), limits, depth + 1):
                yield replace(inner, path=f"{folder}/{inner.path}", refusal=_prefix(entry.path, inner.refusal))
        except Unusable:  # what an entry says that is thrown back: it names the archive already
            raise
        except Rejection as rejection:
            raise Rejection(f"{quote(entry.path)}: {rejection}") from None


def _prefix(archive: str, refusal: Refusal | None) -> Refusal | None:
    return replace(refusal, problem=f"{quote(archive)}: {refusal.problem}") if refusal else None
