"""Failures of Helm as one-line messages without values, and charts that are refused instead.

Helm quotes the values that a template function fails on, and charts write them into their own messages (`fail`). They
are removed in time that neither the values nor the text can prolong: only the part of the text that a message may show
is searched. A value is found by its start, so that one that continues after the end is not shown in part.

A template that failed may need what `lookup` finds, which is nothing: charts are rendered without a cluster. It does if
its file calls `lookup`, or includes a template that is defined in such a file. Computed names are not followed.

A chart is refused if Helm, or a template, reads what must not be read; the rest is left out. Helm itself takes links
and devices in an archive for empty files, and follows the links of a folder anywhere.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, ProgramResult, Refusal
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import collapse
from rukpak.controller.formats.helm.chart import list_chart_files, name_chart
from rukpak.controller.formats.helm.values import scalars_of
from rukpak.controller.formats.recognition import CHART, is_in_file

HIDDEN = "…"
_LEAST = 4  # characters of a value that is removed: shorter ones are not secret, and part of many words
_LONGEST = 1000  # characters of a value that are compared; a longer value removes everything after it, too
_READ = 16 * 1024  # characters of a text, and of a value, before whitespace is collapsed
_MOST = 250_000  # values
_WITHHELD = (
    "Helm failed; its message is not shown because the values to remove from it are too many or too long; run "
    '"helm template" to see it'
)
_MOST_BYTES = 8 * MEBIBYTE
"""Size of all templates: larger charts are not searched."""
_FOLDER = "templates"
_PLACE = re.compile(r"\btemplates/([^\s:]{1,500}):\d")
_CALL = re.compile(rb'\blookup\s+["`$.(]')
_INCLUDED = re.compile(rb'\b(?:include|template)\s+"([^"\n]{1,200})"')
_DEFINED = re.compile(rb'\b(?:define|block)\s+"([^"\n]{1,200})"')
_CHARTS = "charts"
_FILES_READ = frozenset(
    (
        *(CHART, "Chart.lock", "requirements.yaml", "requirements.lock"),
        *("values.yaml", "values.schema.json", ".helmignore"),
        *(_FOLDER, "crds", _CHARTS),
    )
)
"""What Helm reads of the folder of a chart."""
_SKIPPED = (".", "_")
"""Names below `charts/` that start so."""
_FILES = re.compile(rb"""\.\s*Files\b|["'`]Files["'`]""")
"""How a template gets at all other files. A name that is computed from pieces is not found."""
_EVALUATED = (CHART, "values.yaml")
"""Files that are no templates, and whose texts a template may evaluate."""
_SHOWN = 600  # characters of a message
_GO_RUNTIME = 2  # exit status of Go's runtime
_LAST_ERROR = re.compile(r"(?m)^Error: ")
_HINT = "Use --debug flag to render out invalid YAML"
_LOOKUP_REMEDY = (
    '; this template uses "lookup", which finds nothing, because charts are rendered without a cluster: '
    "set what it needs in spec.config.values"
)
_MISSING = re.compile(r"missing in charts/ directory: (?P<what>.*)", re.DOTALL)
_SCHEMA = re.compile(
    r"values don't meet the specifications of the schema\(s\) in the following chart\(s\):(?P<what>.*)", re.DOTALL
)
_VALUES = re.compile(
    r"failed to parse -: (?:cannot unmarshal yaml document: )?(?:error converting YAML to JSON: )?(?P<what>.*)",
    re.DOTALL,
)
# Of templates that include each other, the innermost.
_TEMPLATE = re.compile(r".*template: (?P<where>\S+?:\d+(?::\d+)?): (?:executing \".*?\" )?(?P<what>.*)", re.DOTALL)
# The same, as Helm 4 prints it: each template on lines of its own.
_TRACE = re.compile(r"(?:.*\n)?(?P<where>[^\n]+:\d+(?::\d+)?)\n  (?:executing \"[^\"\n]*\" )?(?P<what>\S.*)", re.DOTALL)
# Of a template: the place of an error is shown even where its text may be made of values.
_LOCATION = re.compile(r"[^\s:]+:\d+(:\d+)?")
_EXECUTION = re.compile(r"(?:execution|parse) error at \((?P<where>[^)]*)\): (?P<what>.*)", re.DOTALL)
_YAML = re.compile(r"YAML parse error on (?P<where>\S+): (?:error converting YAML to JSON: )?(?P<what>.*)", re.DOTALL)


def make_redactor(values: Iterable[Any]) -> Callable[[str], str]:
    """Return what removes values, and everything nested in them, from the start of a text, on one line."""
    scalars = list(islice((scalar for each in values for scalar in scalars_of(each)), _MOST + 1))
    if len(scalars) > _MOST or any(map(_is_blank, scalars)):
        return lambda _text: _WITHHELD

    def _redact(text: str) -> str:
        line = collapse(text[:_READ])[: 2 * _LONGEST]
        is_whole = len(text) <= _READ and len(line) < 2 * _LONGEST
        # A value that starts before this end is compared in full.
        end = len(line) if is_whole else max(len(line) - _LONGEST, 0)
        return "".join(_pieces(line, end, scalars)) + ("" if is_whole else HIDDEN)

    return _redact


def _pieces(line: str, end: int, scalars: Iterable[str]) -> Iterator[str]:
    beginnings = {line[place : place + _LEAST] for place in range(len(line))}
    continuing: dict[str, bool] = {}
    """The forms of values that may be in the line, to whether the value continues after the part that is compared."""
    lengths: dict[str, set[int]] = {}
    for form, continues in (each for scalar in scalars for each in _forms(scalar)):
        if form[:_LEAST] in beginnings and len(form) >= _LEAST:
            continuing[form] = continues or continuing.get(form, False)
            lengths.setdefault(form[:_LEAST], set()).add(len(form))
    longest_first = {beginning: sorted(found, reverse=True) for beginning, found in lengths.items()}
    hidden_until = 0
    for place in range(end):
        possible = longest_first.get(line[place : place + _LEAST], ())
        length = next((each for each in possible if line[place : place + each] in continuing), 0)
        if length:
            if place >= hidden_until:
                yield HIDDEN
            continues = continuing[line[place : place + length]]
            hidden_until = len(line) if continues else max(hidden_until, place + length)
        elif place >= hidden_until:
            yield line[place]


def _is_blank(scalar: str) -> bool:
    return len(scalar) > _READ and len(collapse(scalar[:_READ])) < _LEAST


def _forms(scalar: str) -> Iterator[tuple[str, bool]]:
    beginning = scalar[:_READ]
    for form in (collapse(beginning), collapse(json.dumps(beginning, ensure_ascii=False)[1:-1])):
        yield form[:_LONGEST], len(form) > _LONGEST or len(scalar) > _READ


def needs_lookup(folder: Path, error: str) -> bool:
    """Return whether a template that an error of Helm names reaches a call of `lookup`.

    Args:
        folder: with the files of the chart and of its dependencies.
        error: of a template that was executed.
    """
    files = list(find_templates(folder))
    if sum(path.stat().st_size for path in files) > _MOST_BYTES:
        return False
    texts = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    defining: defaultdict[bytes, list[str]] = defaultdict(list)
    for name, text in texts.items():
        for defined in _DEFINED.findall(text):
            defining[defined].append(name)
    named = set(_PLACE.findall(error))  # in which Helm replaces the path of the chart
    waiting = [name for name in texts if name.partition(f"{_FOLDER}/")[2] in named]
    while waiting:
        text = texts.pop(waiting.pop(), b"")
        if _CALL.search(text):
            return True
        for included in _INCLUDED.findall(text):
            waiting += defining.pop(included, ())  # those are seen from now on, whoever includes them
    return False


def find_templates(folder: Path) -> Iterator[Path]:
    """Yield the templates of a chart and of its dependencies, in order."""
    return (path for path, folders in list_chart_files(folder) if _FOLDER in folders)


def refuse_what_is_read(refused: Mapping[str, Refusal], folder: Path, values: Iterable[bytes]) -> None:
    """Refuse a chart if something is read of it that must not be.

    Args:
        refused: what must not be read, by its path in the chart.
        folder: with the files of the chart and of its dependencies.
        values: the texts of all values.

    Raises: BundleError with the reason of the first refused path that is read.
    """
    if not refused:
        return
    evaluated = (path for path, folders in list_chart_files(folder) if path.name in _EVALUATED or _FOLDER in folders)
    reads_all = any(map(_FILES.search, values)) or any(is_in_file(_FILES, path) for path in evaluated)
    for path in sorted(refused):
        if reads_all or _is_read_by_helm(path):
            raise BundleError(refused[path].reason, refused[path].problem)


def _is_read_by_helm(path: str) -> bool:
    first, _, rest = path.partition("/")
    if first != _CHARTS or not rest:
        return first in _FILES_READ
    dependency, _, inner = rest.partition("/")
    return not dependency.startswith(_SKIPPED) and (not inner or _is_read_by_helm(inner))


def explain(
    result: ProgramResult,
    chart: str,
    values: Sequence[Mapping[str, Any]],
    needs_lookup: Callable[[str], bool] = lambda _error: False,
) -> BundleError:
    """Return the error for a failed run of Helm.

    Args:
        result: of the run.
        chart: its path in the content.
        values: all values; the message contains none of them.
        needs_lookup: whether a template that an error names depends on what `lookup` finds.
    """
    place = name_chart(chart)
    if result.status < 0 or (result.status == _GO_RUNTIME and "panic:" not in result.stderr):
        problem = "rendering needs more memory or processor time than allowed"
        remedy = "simplify the chart, or raise --render-mebibytes or --render-timeout"
        return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; {remedy}", place=place)
    text = _message(result.stderr)
    redact = make_redactor(values)  # locations, too: a chart can write anything
    if missing := _MISSING.search(text):
        problem = f"missing dependencies in charts/: {_shorten(redact(missing['what']))}"
        remedy = 'add them with "helm dependency build" before publishing the chart'
        return BundleError(Reason.INVALID_BUNDLE, f"{problem}; {remedy}", place=place)
    if schema := _SCHEMA.search(text):
        return BundleError(
            Reason.INVALID_CONFIG,
            f"spec.config.values: rejected by the schema of {place}: {_shorten(redact(_sorted(schema['what'])))}",
        )
    if values_text := _VALUES.match(text):
        return BundleError(Reason.INVALID_CONFIG, f"spec.config.values: {_shorten(redact(values_text['what']))}")
    for pattern in (_EXECUTION, _TEMPLATE, _TRACE, _YAML):
        if found := pattern.match(text):
            where, what = (_shorten(redact(found[name])) for name in ("where", "what"))
            is_executed = not text.startswith(("parse error", "YAML parse error"))
            remedy = _LOOKUP_REMEDY if is_executed and needs_lookup(text) else ""
            problem = f"{what}{remedy}"
            if _LOCATION.fullmatch(where):
                place = f"{place}: {where}"
            else:
                problem = f"{where}: {problem}"
            return BundleError(Reason.RENDER_FAILED, problem, place=place)
    return BundleError(Reason.RENDER_FAILED, _shorten(redact(text)) or "Helm failed without a message", place=place)


def _message(stderr: str) -> str:
    # The log output before it quotes values.
    parts = _LAST_ERROR.split(stderr, maxsplit=1)
    return parts[-1].replace(_HINT, "").strip() if len(parts) > 1 else ""


def _sorted(text: str) -> str:
    chart, found = "", []
    for line in (line[:_SHOWN] for line in filter(None, map(str.strip, text.splitlines()))):
        if line.startswith("- "):
            found.append(f"{chart}{line.removeprefix('- ')}")
        elif line.endswith(":"):
            chart = f"{line} "
        else:
            found.append(f"{chart}{line}")
    return ", ".join(sorted(found))


def _shorten(text: str) -> str:
    line = collapse(text).rstrip(".")
    return line if len(line) <= _SHOWN else line[:_SHOWN] + HIDDEN
