"""Failures of Helm as one-line messages without values.

Helm quotes the values that a template function fails on, and charts write them into their own messages (`fail`).
redaction.py removes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.helm.chart import name_chart
from controller.formats.helm.child import RunResult
from controller.formats.helm.redaction import HIDDEN, Redactor, one_line

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
_EXECUTION = re.compile(r"(?:execution|parse) error at \((?P<where>[^)]*)\): (?P<what>.*)", re.DOTALL)
_YAML = re.compile(r"YAML parse error on (?P<where>\S+): (?:error converting YAML to JSON: )?(?P<what>.*)", re.DOTALL)


def explain(
    result: RunResult,
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
        return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{place}: {problem}; {remedy}")
    text = _message(result.stderr)
    redact = Redactor(values).redact  # locations, too: a chart can write anything
    if missing := _MISSING.search(text):
        problem = f"missing dependencies in charts/: {_shorten(redact(missing['what']))}"
        remedy = 'add them with "helm dependency build" before publishing the chart'
        return BundleError(Reason.INVALID_BUNDLE, f"{place}: {problem}; {remedy}")
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
            remedy = _LOOKUP_REMEDY if _is_executed(text) and needs_lookup(text) else ""
            return BundleError(Reason.RENDER_FAILED, f"{place}: {where}: {what}{remedy}")
    return BundleError(Reason.RENDER_FAILED, f"{place}: {_shorten(redact(text)) or 'Helm failed without a message'}")


def _is_executed(text: str) -> bool:
    """Return whether the error is that of a template that Helm could read."""
    return not text.startswith(("parse error", "YAML parse error"))


def _message(stderr: str) -> str:
    """Return Helm's error without the log output before it, which quotes values."""
    parts = _LAST_ERROR.split(stderr, maxsplit=1)
    return parts[-1].replace(_HINT, "").strip() if len(parts) > 1 else ""


def _sorted(text: str) -> str:
    """Return the problems that schemas report, `chart: field: problem` each, in a stable order."""
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
    line = one_line(text).rstrip(".")
    return line if len(line) <= _SHOWN else line[:_SHOWN] + HIDDEN
