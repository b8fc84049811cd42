"""What a process has used, and figures as a table."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


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


def _print(row: Row) -> Row:
    print(_line(row), flush=True)
    return row


def _line(row: Row) -> str:
    value = f"{row.value:,.{row.digits}f}"
    shown = f"**{value}** (missed)" if row.missed else value
    return f"| {row.title} | {shown} | {row.at_most:,.{row.digits}f} |"
