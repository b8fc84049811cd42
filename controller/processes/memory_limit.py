"""How much memory this process may use, and the budgets for untrusted text that follow from it.

The limit is the lowest of those of its control groups (version 1 and 2), the option `--memory`, and the memory of the
machine. From 1 GiB on, budgets are those of `rukpak.api.plugins.Limits`; below, they shrink in proportion, so that
the largest revision that they allow still fits into memory.

Not here: how tenants share the memory (sharing.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rukpak.api.plugins import MEBIBYTE, Limits

RESERVED_BYTES = 1280 * MEBIBYTE
"""Address space that a Go program reserves without using it, or in part: 1184 MiB in its first steps, and its own size.
If the second of its two reservations of 512 MiB fails, it goes on without; if what comes after that fails, it cannot
start. So it starts within 600 to 1140 MiB and from 1300 MiB on, not in between; Helm, which is larger, 50 MiB later."""
_UNLIMITED = 1 << 60
"""Version 1 of control groups has values above this where there is no limit."""
_TEXT_SHARE, _MANIFEST_SHARE, _BYTES_OF_VALUE = 32, 64, 2048
"""Ratio of the memory to the text of a revision and to one manifest; memory for each of its values."""
_PROGRAM_SHARE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """The memory that this process may use."""

    bytes: int
    origin: str

    @property
    def work_bytes(self) -> int:
        """Memory for work on untrusted text; the rest is for the process itself, its watches and caches."""
        return self.bytes * 3 // 4

    @property
    def program_address_space(self) -> int:
        """Address space for one run of a Go program: a quarter, plus what Go reserves without using it."""
        return RESERVED_BYTES + self.bytes // 4

    def limits(self, usual: Limits) -> Limits:
        """Return the usual budgets, reduced to fit the memory."""
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
    """Return the memory that this process may use; `mebibytes` is the option, 0: not set."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = [MemoryLimit(bytes=physical, origin="the memory of the machine"), *_limits_of_groups(processes, groups)]
    if mebibytes:
        found.append(MemoryLimit(bytes=mebibytes * MEBIBYTE, origin="--memory"))
    return min(found, key=lambda limit: limit.bytes)


def _limits_of_groups(processes: Path, groups: Path) -> Iterator[MemoryLimit]:
    # Any of them may be the lowest.
    for line in _read(processes / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_upwards(groups, path, "memory.max")
            yield from _limits_upwards(groups / "unified", path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_upwards(groups / "memory", path, "memory.limit_in_bytes")


def _limits_upwards(root: Path, path: str, name: str) -> Iterator[MemoryLimit]:
    # In a cgroup namespace the path is relative to the mounted root, or leaves it with "..".
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
