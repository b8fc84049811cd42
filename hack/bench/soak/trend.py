"""Whether a process keeps growing: samples of its resources, and the slope through them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hack.bench.usage import read_usage

NOISE = 2.0
"""A trend that is less than so many standard deviations of the samples is none."""
LEAST = 0.01
"""A trend that is less than this part of the mean is none, however even the samples are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a process holds at some time."""

    resident: float
    """MiB."""
    descriptors: int
    threads: int
    stored: float
    """MiB of its content store."""
    revisions: float
    """Revision Secrets for each BundleDeployment, beyond those that its status names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a figure has changed over a series of samples."""

    mean: float
    change: float
    """From the first to the last, along the line of best fit."""
    deviation: float
    """Standard deviation from that line."""

    @property
    def is_flat(self) -> bool:
        """Whether it has not grown beyond noise."""
        return self.change <= max(NOISE * self.deviation, LEAST * self.mean)


def take_sample(process: int, store: Path, revisions: float) -> Sample:
    """Measure a process.

    Args:
        process: its id.
        store: its content store.
        revisions: see Sample.

    Raises: OSError if it does not exist.
    """
    folder = Path("/proc") / str(process)
    return Sample(
        resident=read_usage(process).resident,
        descriptors=len(list((folder / "fd").iterdir())),
        threads=len(list((folder / "task").iterdir())),
        stored=_size(store) / (1 << 20),
        revisions=revisions,
    )


def find_trends(samples: Sequence[Sample]) -> dict[str, Trend]:
    """Return the trend of each figure over samples that were taken at equal intervals; at least three."""
    rows = [asdict(sample) for sample in samples]
    return {key: _find_trend([row[key] for row in rows]) for key in rows[0]}


def _find_trend(values: Sequence[float]) -> Trend:
    times = range(len(values))
    slope, start = statistics.linear_regression(times, values)
    residuals = [value - (start + slope * time) for time, value in zip(times, values, strict=True)]
    return Trend(
        mean=statistics.fmean(values), change=slope * (len(values) - 1), deviation=statistics.pstdev(residuals)
    )


def _size(folder: Path) -> int:
    """Return the bytes of all files below a folder, from which others may delete."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except FileNotFoundError:
            continue
    return total
