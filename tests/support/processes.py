"""Processes of this machine, by what their command lines say."""

from __future__ import annotations

from pathlib import Path

from hack.control_plane.waiting import wait_for


def is_running(mark: str) -> bool:
    """Return whether a process has this text in its command line; arguments are separated by NUL."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def wait_for_end(mark: str) -> None:
    """Wait until no process has this text in its command line: what was killed is gone a moment later."""
    wait_for(lambda: not is_running(mark), 10, "it has ended")
