"""The results, as a Markdown table between two markers and as JSON. Nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hack.bench.figures import FIGURES, Figure, Limits, Measured, Sample, medians

BEGIN = "<!-- table: written by hack/bench/run -->"
END = "<!-- end of table -->"


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
    rows = [
        [figure.title, *(c for name in samples for c in _cells(figure, name, samples, results))] for figure in FIGURES
    ]
    lines = [["", *heads], ["---", *["---:"] * len(heads)], *rows]
    runs = min(len(runs) for runs in results.samples.values())
    machine = ", ".join(results.machine.values())
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    verbs = "\n".join(_verbs(name, results.titles[name], sample) for name, sample in samples.items())
    return f"Median of {runs} runs; {machine}.\n\n{table}\n\n{verbs}\n"


def insert_table(page: Path, table: str, start: str = BEGIN) -> None:
    """Replace the text between a marker of a page and the next end of a table.

    Raises: ValueError if the page has no markers.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(start)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f'{page}: the markers "{start}" and "{END}" are missing')
    page.write_text(f"{before}{begin}\n{table}{end}{after}", encoding="utf-8")


def _heads(name: str, results: Results) -> list[str]:
    return [results.titles[name], "bare client", "at most"]


def _cells(figure: Figure, name: str, samples: Mapping[str, Sample], results: Results) -> list[str]:
    measured = samples[name][figure.key]
    raw = _number(measured.raw, figure)
    limit = results.limits[name].get(figure.key)
    budget = limit(measured.raw) if limit else None
    missed = budget is not None and measured.ours > budget
    ours = f"**{_number(measured.ours, figure)}** (missed)" if missed else _number(measured.ours, figure)
    return [ours, raw, _number(budget, figure)]


def _number(value: float | None, figure: Figure) -> str:
    return "" if value is None else f"{value:,.{figure.digits}f}"


def _verbs(name: str, title: str, sample: Sample) -> str:
    counted = [(figure, sample[figure.key]) for figure in FIGURES if sample[figure.key].verbs]
    items = "; ".join(f"{figure.title}: {_by_verb(measured)}" for figure, measured in counted)
    return f"- `{name}`, {title}, by verb: {items}."


def _by_verb(measured: Measured) -> str:
    return ", ".join(f"{count} {verb}" for verb, count in measured.verbs.items())
