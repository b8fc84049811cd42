"""Refuses a chart of which Helm, or a template, reads what must not be read. The rest is left out.

Helm itself takes links and devices in an archive for empty files, and follows the links of a folder anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from api.errors import BundleError
from api.plugins import Refusal
from controller.formats.recognition import CHART, is_in_file

_CHARTS = "charts"
_READ = frozenset(
    (
        *(CHART, "Chart.lock", "requirements.yaml", "requirements.lock"),
        *("values.yaml", "values.schema.json", ".helmignore"),
        *("templates", "crds", _CHARTS),
    )
)
"""What Helm reads of the folder of a chart."""
_SKIPPED = (".", "_")
"""Names below `charts/` that start so."""
_FILES = re.compile(rb"""\.\s*Files\b|["'`]Files["'`]""")
"""How a template gets at all other files. A name that is computed from pieces is not found."""
_EVALUATED = (CHART, "values.yaml")
"""Files that are no templates, and whose texts a template may evaluate."""


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
    reads_all = any(map(_FILES.search, values)) or any(is_in_file(_FILES, path) for path in _templates(folder))
    for path in sorted(refused):
        if reads_all or _is_read_by_helm(path):
            raise BundleError(refused[path].reason, refused[path].problem)


def _is_read_by_helm(path: str) -> bool:
    first, _, rest = path.partition("/")
    if first != _CHARTS or not rest:
        return first in _READ
    dependency, _, inner = rest.partition("/")
    return not dependency.startswith(_SKIPPED) and (not inner or _is_read_by_helm(inner))


def _templates(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and (path.name in _EVALUATED or "templates" in path.relative_to(folder).parts):
            yield path
