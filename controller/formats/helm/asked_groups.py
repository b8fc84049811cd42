"""The API groups that a chart asks for: those that its text names, if it uses `.Capabilities.APIVersions` at all.

What a template computes from pieces of a name is not found: such a chart is rendered as if the group were not served,
as Helm itself does with every group that fails discovery.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.formats.helm.chart import name_chart
from controller.formats.recognition import is_in_file

_DEFINITIONS = "crds"
"""The folder of a chart that Helm reads without templates."""
_ASKS = re.compile(rb"\bAPIVersions\b")
_LISTS = re.compile(rb"\bAPIVersions\b(?!\.Has\b)")
"""Goes through the list instead of asking for a name."""


def refuse_unknown_groups(folder: Path, values: Iterable[bytes], unknown: Collection[str], chart: str) -> None:
    """Refuse a chart that asks for groups whose kinds are not known.

    Args:
        folder: with the files of the chart and of its dependencies.
        values: the texts of all values.
        unknown: groups that fail discovery.
        chart: its path in the content.

    Raises: BundleError (APIUnavailable).
    """
    asked = sorted(_find_asked(folder, list(values), unknown))
    if asked:
        groups = ", ".join(map(quote, asked))
        problem = (
            f"{name_chart(chart)}: asks for API group {groups}, whose kinds are not known because its discovery fails"
        )
        raise BundleError(Reason.API_UNAVAILABLE, f"{problem}; repair or delete its APIService")


def _find_asked(folder: Path, values: list[bytes], unknown: Collection[str]) -> Collection[str]:
    if not unknown or not _is_found(_ASKS, folder, values):
        return ()
    if _is_found(_LISTS, folder, values):
        return unknown
    return [name for name in unknown if _is_found(re.compile(re.escape(name.encode())), folder, values)]


def _is_found(pattern: re.Pattern[bytes], folder: Path, values: list[bytes]) -> bool:
    return any(map(pattern.search, values)) or any(is_in_file(pattern, path) for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and _DEFINITIONS not in path.relative_to(folder).parts:
            yield path
