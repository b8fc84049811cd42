"""Resources that a process has used, from /proc (see proc(5))."""

from __future__ import annotations

import os
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
