"""Figures that need no cluster: work in a separate process, its cost, and a table.

Time is CPU time, user and system, of the process and its programs, on which the load of the machine has little effect.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a process at some time."""

    cpu: float
    """Seconds, user and system, since it was started."""
    resident: float
    """Current memory in MiB."""
    peak: float
    """Peak resident memory in MiB."""


def read_usage(process: int) -> Usage:
    """Return the resources that a process has used.

    Raises: FileNotFoundError if it does not exist.
    """
    folder = Path("/proc") / str(process)
    # The second field is the name in parentheses, and may hold anything; the third is the first after it.
    fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    memory = dict(line.split(":", 1) for line in (folder / "status").read_text(encoding="utf-8").splitlines())
    return Usage(
        cpu=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        resident=_mebibytes(memory["VmRSS"]),
        peak=_mebibytes(memory["VmHWM"]),
    )


def _mebibytes(text: str) -> float:
    return int(text.split(maxsplit=1)[0]) / 1024


_T = TypeVar("_T")

RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    title: str
    value: float
    at_most: float
    digits: int = 2

    @property
    def missed(self) -> bool:
        """Whether it exceeds its limit."""
        return self.value > self.at_most


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have exited."""
    return sum(os.times()[:4])


def time_work(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the CPU time of some work, as the median of some runs."""
    return statistics.median(_time(work) for _ in range(runs))


def peak_mebibytes() -> float:
    """Return the peak memory of this process."""
    return read_usage(os.getpid()).peak


def in_child(work: Callable[..., _T], *arguments: object) -> _T:
    """Call a function of a module in a new process, so that neither its memory nor its imports count elsewhere."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


HEAD = "|  | measured | at most |\n| --- | ---: | ---: |"


def publish(rows: Iterable[Row]) -> int:
    """Print rows as they come, and return the exit status: 1 if one exceeds its limit."""
    return 1 if any(row.missed for row in tell(rows)) else 0


def tell(rows: Iterable[Row]) -> list[Row]:
    """Print rows as they come, and return them."""
    print(HEAD)
    return [_print(row) for row in rows]


def as_markdown(rows: Iterable[Row]) -> str:
    """Return the table of some rows."""
    return "\n".join([HEAD, *map(_line, rows)])


def chosen(arguments: Sequence[str], parts: Sequence[Callable[[], Iterable[Row]]]) -> Iterable[Row]:
    """Yield the rows of the parts whose names are among the arguments; of all parts if there are none."""
    names = [part.__name__ for part in parts]
    if unknown := [name for name in arguments if name not in names]:
        sys.exit(f"{unknown[0]}: not one of {', '.join(names)}")
    for part in parts:
        if not arguments or part.__name__ in arguments:
            yield from part()


def _time(work: Callable[[], object]) -> float:
    gc.collect()
    started = cpu_seconds()
    work()
    return cpu_seconds() - started


def _print(row: Row) -> Row:
    print(_line(row), flush=True)
    return row


def _line(row: Row) -> str:
    value = f"{row.value:,.{row.digits}f}"
    shown = f"**{value}** (missed)" if row.missed else value
    return f"| {row.title} | {shown} | {row.at_most:,.{row.digits}f} |"
