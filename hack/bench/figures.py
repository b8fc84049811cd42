"""The figures, their limits, how runs are combined, and the results as a table and as JSON. Measures nothing."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rukpak.controller.playground.programs import read_settings


def describe_machine() -> dict[str, str]:
    """Return processors, versions and date."""
    return {
        "processors": f"{len(os.sched_getaffinity(0))} processors, {platform.machine()}",
        "python": f"Python {platform.python_version()}",
        "kubernetes": f"Kubernetes {read_settings().kubernetes_version}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def one_run(table: str) -> str:
    """Return a table of one run, below what it was measured on."""
    return f"One run; {', '.join(describe_machine().values())}.\n\n{table}\n"


def factor_of(value: float, bare: float | None) -> str:
    """Return by what factor a figure exceeds that of the bare client; '' if it has none, or needs nothing."""
    return f"{value / bare:.1f}" if bare else ""


Budget = Callable[[float | None], float]
"""The limit of a figure, given that of the bare client."""
Limits = Mapping[str, Budget]
"""The limits of a scenario, by the key of their figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure of the controller, and of the bare client if it has one."""

    ours: float
    raw: float | None = None
    verbs: Mapping[str, int] = field(default_factory=dict)
    """Requests by verb, where requests are counted."""


Sample = Mapping[str, Measured]
"""The figures of one run by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    key: str
    title: str
    digits: int = 0


def at_most(value: float) -> Budget:
    """Return a limit that does not depend on the bare client."""
    return lambda _raw: value


def twice(raw: float | None) -> float:
    """Return twice the figure of the bare client."""
    return 2 * (raw or 0)


FIGURES = (
    Figure(key="install_seconds", title="install, s", digits=2),
    Figure(key="install_requests", title="requests to install"),
    Figure(key="install_cpu", title="CPU to install, s", digits=2),
    Figure(key="install_server_cpu", title="CPU of API server and etcd meanwhile, s", digits=2),
    Figure(key="idle_requests", title="requests per minute when idle"),
    Figure(key="resident", title="resident memory when idle, MiB"),
    Figure(key="peak", title="peak resident memory, MiB"),
    Figure(key="repair_seconds", title="repair of one edit, s", digits=3),
    Figure(key="repair_requests", title="requests for one repair", digits=1),
    Figure(key="restart_seconds", title="restart until caches are filled, s", digits=2),
    Figure(key="restart_cpu", title="CPU of a restart, s", digits=2),
    Figure(key="restart_requests", title="requests of a restart"),
    Figure(key="restart_writes", title="writes of a restart"),
    Figure(key="delete_seconds", title="deletion, s", digits=2),
    Figure(key="delete_requests", title="requests to delete"),
    Figure(key="delete_cpu", title="CPU to delete, s", digits=2),
)


SPREAD = Figure(
    key="install_cpu_spread", title="CPU to install for a second of that of API server and etcd: difference of runs, %"
)
"""Beside theirs, since a machine that is slower for one run is so for all of them."""


def medians(samples: Sequence[Sample]) -> Sample:
    """Return the median of each figure; the verbs are those of the last run."""
    return {key: _median([sample[key] for sample in samples]) for key in samples[0]}


def _spread(samples: Sequence[Sample]) -> Sample:
    found = [sample["install_cpu"].ours / sample["install_server_cpu"].ours for sample in samples]
    return {SPREAD.key: Measured(ours=100 * (max(found) - min(found)) / statistics.median(found))}


def _median(measured: Sequence[Measured]) -> Measured:
    raws = [each.raw for each in measured if each.raw is not None]
    return Measured(
        ours=statistics.median(each.ours for each in measured),
        raw=statistics.median(raws) if raws else None,
        verbs=measured[-1].verbs,
    )


HERE = Path(__file__).parent
PAGE = HERE / "figures.md"
VALUES = HERE / "figures.json"
"""What the pages cite, by part and name."""
CITING = (HERE / "README.md", HERE.parents[1] / "README.md")
END = "<!-- end of table -->"
CITED = re.compile(r"(<!-- figure ([a-z0-9_.]+) -->)(.*?)(<!-- -->)")
"""A figure in a sentence of a page."""


def publish(part: str, table: str, values: Mapping[str, str], output: Path | None, *, is_whole: bool = True) -> None:
    """Print a table, and write it: to a folder, or else, if it is of a whole run, to the pages.

    Args:
        part: of the page.
        table: Markdown.
        values: what pages may cite, by name.
        output: the folder.
        is_whole: whether nothing was left out.
    """
    print(table, flush=True)
    if output:
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{part}.md").write_text(table, encoding="utf-8")
    elif is_whole:
        insert_table(PAGE, table, f"<!-- {part}: written by hack/bench -->")
        known = json.loads(VALUES.read_text(encoding="utf-8")) | {part: dict(values)}
        VALUES.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        for page in CITING:
            page.write_text(cite(page.read_text(encoding="utf-8"), known), encoding="utf-8")


def cite(page: str, known: Mapping[str, Mapping[str, str]]) -> str:
    """Return a page with the figures that it cites as they are now.

    Raises: KeyError for one that `hack/bench/run` does not write.
    """

    def _value(found: re.Match[str]) -> str:
        part, _, name = found[2].partition(".")
        return f"{found[1]}{known[part][name]}{found[4]}"

    return CITED.sub(_value, page)


def values_of(samples: Mapping[str, Sequence[Sample]]) -> dict[str, str]:
    """Return the medians of the scenarios, as they are shown."""
    found = {name: medians(runs) for name, runs in samples.items()}
    return {
        f"{name}.{figure.key}": _number(sample[figure.key].ours, figure)
        for name, sample in found.items()
        for figure in FIGURES
        if figure.key in sample
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All runs of some scenarios."""

    machine: Mapping[str, str]
    """The machine, for the title of the table."""
    titles: Mapping[str, str]
    """Titles of the scenarios, by name."""
    samples: Mapping[str, Sequence[Sample]]
    """The runs of each scenario, by name."""
    limits: Mapping[str, Limits]
    """The limits of each scenario, by name."""


def as_json(results: Results) -> str:
    """Return all measurements: the medians and each run."""

    def plain(sample: Sample) -> dict[str, Any]:
        return {key: asdict(measured) for key, measured in sample.items()}

    scenarios = {
        name: {"title": results.titles[name], "medians": plain(medians(samples)), "runs": [*map(plain, samples)]}
        for name, samples in results.samples.items()
    }
    return json.dumps({"machine": results.machine, "scenarios": scenarios}, indent=1) + "\n"


def as_markdown(results: Results) -> str:
    """Return the table: a row for each figure, with columns for the controller and the bare client of each scenario."""
    samples = {name: medians(runs) for name, runs in results.samples.items()}
    heads = [cell for name in samples for cell in _heads(name, results)]
    found = [(figure, samples) for figure in FIGURES]
    runs = min(len(runs) for runs in results.samples.values())
    if runs > 1:
        found.append((SPREAD, {name: _spread(each) for name, each in results.samples.items()}))
    rows = [
        [figure.title, *(c for name in samples for c in _cells(figure, name, measured, results))]
        for figure, measured in found
    ]
    lines = [["", *heads], ["---", *["---:"] * len(heads)], *rows]
    machine = ", ".join(results.machine.values())
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"Median of {runs} runs; {machine}.\n\n{table}\n"


def insert_table(page: Path, table: str, start: str) -> None:
    """Replace the text between a marker of a page and the next end of a table.

    Raises: ValueError if the page has no markers.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(start)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f'{page}: the markers "{start}" and "{END}" are missing')
    page.write_text(f"{before}{begin}\n{table}{end}{after}", encoding="utf-8")


def _heads(name: str, results: Results) -> list[str]:
    return [results.titles[name], "bare client", "times", "at most"]


def _cells(figure: Figure, name: str, samples: Mapping[str, Sample], results: Results) -> list[str]:
    measured = samples[name][figure.key]
    raw = _number(measured.raw, figure)
    limit = results.limits[name].get(figure.key)
    budget = limit(measured.raw) if limit else None
    missed = budget is not None and measured.ours > budget
    ours = f"**{_number(measured.ours, figure)}** (missed)" if missed else _number(measured.ours, figure)
    return [ours, raw, factor_of(measured.ours, measured.raw), _number(budget, figure)]


def _number(value: float | None, figure: Figure) -> str:
    return "" if value is None else f"{value:,.{figure.digits}f}"
