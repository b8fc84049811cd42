"""How much memory this process may use, and what follows from it for all that works on foreign text.

The least of what is known counts: the limit of its control groups (version 2 and 1), the option `--memory`, the memory
of the machine. Budgets are those of `api.plugins.Limits` from 1 GiB on, and smaller in proportion below that, so that a
revision as large as they allow can still be made, and worked on, beside the process itself.

Not here: who gets which part of it at what time (sharing/admission.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from api.plugins import MEBIBYTE, Limits

RESERVED_BYTES = 704 * MEBIBYTE
"""Of the address space of a program in Go: with 1024 MiB, Helm fails at 280 MiB of memory."""
_UNLIMITED = 1 << 60
"""What version 1 of control groups writes where there is no limit is above this."""
_TEXT_SHARE, _MANIFEST_SHARE, _BYTES_OF_VALUE = 32, 64, 2048
"""Memory to all text of a revision, to one manifest, and to each value of it."""
_PROGRAM_SHARE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """What this process may use."""

    bytes: int
    origin: str
    """Where that stands: a file, or an option."""

    @property
    def work_bytes(self) -> int:
        """What work on foreign text may take; the rest is for the process itself, its watches and their caches."""
        return self.bytes * 3 // 4

    @property
    def program_address_space(self) -> int:
        """What one run of a program written in Go may have: a quarter, and what Go reserves and never uses."""
        return RESERVED_BYTES + self.bytes // 4

    def limits(self, usual: Limits) -> Limits:
        """Return budgets that fit."""
        return replace(
            usual,
            manifest_bytes=min(usual.manifest_bytes, self.bytes // _MANIFEST_SHARE),
            text_bytes=min(usual.text_bytes, self.bytes // _TEXT_SHARE),
            nodes=min(usual.nodes, self.bytes // _BYTES_OF_VALUE),
            program_bytes=min(usual.program_bytes, self.bytes // _PROGRAM_SHARE),
        )


def find_limit(
    mebibytes: int, *, processes: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")
) -> MemoryLimit:
    """Return the memory that this process may use.

    Args:
        mebibytes: what an option says; 0: nothing.
        processes: where procfs is mounted.
        groups: where control groups are mounted.
    """
    found = [MemoryLimit(bytes=_physical(), origin="the memory of the machine"), *_limits_of_groups(processes, groups)]
    if mebibytes:
        found.append(MemoryLimit(bytes=mebibytes * MEBIBYTE, origin="--memory"))
    return min(found, key=lambda limit: limit.bytes)


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limits_of_groups(processes: Path, groups: Path) -> Iterator[MemoryLimit]:
    """Yield the limit of each control group that this process is in, up to the root: any of them may be the least."""
    for line in _read(processes / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_upwards(groups, path, "memory.max")
            yield from _limits_upwards(groups / "unified", path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_upwards(groups / "memory", path, "memory.limit_in_bytes")


def _limits_upwards(root: Path, path: str, name: str) -> Iterator[MemoryLimit]:
    # In a namespace of its own the path begins at what is mounted as the root, or leads out of it by "..".
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        file = root.joinpath(*parts[:length], name)
        text = _read(file).strip()
        if text.isdecimal() and int(text) < _UNLIMITED:
            yield MemoryLimit(bytes=int(text), origin=str(file))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
