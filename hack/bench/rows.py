"""What a process and its children have used, and figures as a table."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hack.bench import figures
from hack.bench.figures import factor_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a process and its children at some time."""

    cpu: float
    """Seconds, user and system, since it was started; also of children that have ended."""
    resident: float
    """Current memory in MiB: what they share counts once (PSS)."""


def read_usage(process: int) -> Usage:
    """Return the resources that a process and its children have used.

    Raises: FileNotFoundError if it does not exist.
    """
    cpu, memory = _read_usage(process)
    for child in _find_children(process):
        with suppress(OSError):  # it has ended meanwhile
            found = read_usage(child)
            cpu, memory = cpu + found.cpu, memory + found.resident
    return Usage(cpu=cpu, resident=memory)


def _read_usage(process: int) -> tuple[float, float]:
    folder = Path("/proc") / str(process)
    # The second field is the name in parentheses, and may hold anything; the third is the first after it.
    fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    lines = (folder / "smaps_rollup").read_text(encoding="utf-8").splitlines()
    memory = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"), memory


def _find_children(process: int) -> list[int]:
    found: list[int] = []
    for task in Path("/proc", str(process), "task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


class Peak:
    """The most memory that a process and its children have, looked at many times a second until it or `stop` ends."""

    SECONDS = 0.2

    def __init__(self, process: int) -> None:
        self._process, self.mebibytes, self._stopped = process, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Return the most, in MiB, and look no more."""
        self._stopped.set()
        self._thread.join()
        return self.mebibytes

    def _watch(self) -> None:
        with suppress(OSError, StopIteration):  # it has ended
            while True:
                self.mebibytes = max(self.mebibytes, read_usage(self._process).resident)
                if self._stopped.wait(self.SECONDS):
                    return


IDLE_SHARE = 0.1
"""Of the time of all processors that others may use while something is measured."""


def check_idle(seconds: float = 3.0) -> None:
    """Refuse a machine that does something else.

    Raises: RuntimeError with the share of its time.
    """
    before = _read_times()
    time.sleep(seconds)
    busy, total = (now - then for now, then in zip(_read_times(), before, strict=True))
    if busy > IDLE_SHARE * total:
        share = f"{100 * busy / total:.0f}% of the time of its processors is used"
        raise RuntimeError(f"the machine is busy: {share}; end what else runs, or use --quick")


def _read_times() -> tuple[int, int]:
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    times = [int(each) for each in first.split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)  # without idle and iowait


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    title: str
    value: float
    at_most: float = math.inf
    digits: int = 2
    bare: float | None = None
    """The same of a bare client of the API server, if there is one."""

    @property
    def shown(self) -> str:
        """The figure as text."""
        return self.format(self.value)

    def format(self, value: float) -> str:
        """Return a value as text, with the digits of the figure."""
        return f"{value:,.{self.digits}f}"

    @property
    def missed(self) -> bool:
        """Whether it exceeds its limit."""
        return self.value > self.at_most


HEAD = "|  | measured | bare client | times | at most |\n| --- | ---: | ---: | ---: | ---: |"


def publish(rows: Iterable[Row]) -> int:
    """Print rows as they come, and return the exit status: 1 if one exceeds its limit."""
    return 1 if any(row.missed for row in tell(rows)) else 0


def tell(rows: Iterable[Row]) -> list[Row]:
    """Print rows as they come, and return them."""
    print(HEAD)
    return [_print(row) for row in rows]


def publish_part(part: str, rows: Sequence[Row], output: Path | None, *, is_whole: bool) -> None:
    """Publish the table of one run, as `figures.publish` does."""
    figures.publish(part, figures.one_run(as_markdown(rows)), values_of(rows), output, is_whole=is_whole)


def as_markdown(rows: Iterable[Row]) -> str:
    """Return the table of some rows."""
    return "\n".join([HEAD, *map(_line, rows)])


def values_of(rows: Iterable[Row]) -> dict[str, str]:
    """Return the figures of some rows by the words of their titles, as they are shown."""
    return {re.sub("[^a-z0-9]+", "_", row.title.lower()).strip("_"): row.shown for row in rows}


def _print(row: Row) -> Row:
    print(_line(row), flush=True)
    return row


def _line(row: Row) -> str:
    shown = f"**{row.shown}** (missed)" if row.missed else row.shown
    bare = "" if row.bare is None else row.format(row.bare)
    most = "" if row.at_most == math.inf else row.format(row.at_most)
    return f"| {row.title} | {shown} | {bare} | {factor_of(row.value, row.bare)} | {most} |"
