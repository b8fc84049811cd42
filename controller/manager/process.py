"""What concerns the process as a whole: its memory, its identity in leader election, its log and its end.

By default glibc has a heap for each thread, and after a large block was freed it serves blocks of that size from these
heaps, where one small block above them prevents their return: 90 MB remained after a bundle of 20 MB. See mallopt(3).

Python's garbage collector visits all objects each time their number has grown by a quarter, although nothing in the
first lists is garbage: with 10,000 BundleDeployments, that was half of the CPU of reading them. So until these lists
are complete, it visits nothing twice. Garbage in reference cycles from that time is not freed, which is little.

Only one process at a time holds the lock of a content store. An identity derived from the lock is therefore unique
among living processes, and a killed controller that restarts with the same store continues immediately instead of
waiting for its own Lease to expire. The boot ID is included, since other machines may have the same host name.

Threads cannot be stopped, so a process that loses its Lease, or with a thread that keeps dying, exits at once. The
bundles being prepared did not cause the exit, so their marks in the quarantine are removed first, unless the disk does
not respond: nothing may keep a process alive that must not act.

Logs are on stderr, one JSON or text line for each record, with the ID of the pass. Messages are constant; variable
parts are key-value pairs (`extra=`) with Kubernetes' key names.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rukpak.controller.revisions.background import Quarantine
from rukpak.controller.telemetry import reconcile_id

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h
_OPTIONS = ((_MMAP_THRESHOLD, 64 << 10), (_TRIM_THRESHOLD, 1 << 20), (_ARENA_MAX, 2))
LONGEST_SECONDS = 300.0
"""A kind whose first list keeps failing must not prolong the start."""
_OLDEST = 2
"""The generation that has everything."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOST = 1
"""Exit status of a leader that lost its Lease."""
DIED = 3
"""Exit status of a process with a thread that dies repeatedly, or must not die."""
LAST_SECONDS = 1.0


def return_freed_memory() -> None:
    """Configure the allocator of this process, if it is glibc's; call it before starting threads."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in _OPTIONS:
            library.mallopt(option, value)


class StartCollector:
    """What the collector does until all is known; used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends_at = 0.0

    def begin(self) -> None:
        """Visit nothing twice from now on."""
        self._ends_at = self._clock() + LONGEST_SECONDS
        gc.callbacks.append(_freeze_visited)

    def end_once(self, is_over: Callable[[], bool]) -> None:
        """Collect as usual from now on, except what exists already, if the start is over; call it repeatedly."""
        if _freeze_visited in gc.callbacks and (is_over() or self._clock() >= self._ends_at):
            gc.callbacks.remove(_freeze_visited)
            gc.freeze()


def _freeze_visited(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()


def make_identity(lock: Path | None) -> str:
    """Return an identity that no other living process has, derived from a file that this process has locked, if any."""
    host = socket.gethostname()
    try:
        found = lock.stat() if lock else None
        boot = BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        found, boot = None, ""
    if found is None:
        return f"{host}_{uuid.uuid4()}"
    digest = hashlib.sha256(f"{boot} {found.st_dev} {found.st_ino}".encode()).hexdigest()
    return f"{host}_{digest[:32]}"


def exit_at_once(quarantine: Quarantine, status: int) -> None:
    """Exit because another process leads from now on, or because of a thread that keeps dying, as the log then says.

    Args:
        quarantine: whose marks are removed before.
        status: `LOST` or `DIED`.
    """

    def _finish() -> None:
        quarantine.end()
        logging.shutdown()

    try:
        last = threading.Thread(target=_finish, name="exit", daemon=True)
        last.start()
        last.join(LAST_SECONDS)
    finally:
        os._exit(status)


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_log(log_format: str, level: str) -> None:
    """Log to stderr in one format; libraries that log URLs or arguments below WARNING are silenced.

    The format `auto` is text on a terminal and JSON elsewhere.
    """
    handler = logging.StreamHandler(sys.stderr)
    is_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    for noisy in ("urllib3", "git", "kubernetes", "oras"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _pairs(record: logging.LogRecord) -> dict[str, Any]:
    pairs = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if current := reconcile_id.get():
        pairs["reconcileID"] = current
    return pairs


class JsonFormatter(logging.Formatter):
    """One JSON object per line; JSON escapes newlines in values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **_pairs(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Time, level, message, then key-value pairs."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by the traceback if there is one."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        pairs = "".join(
            f" {key}={json.dumps(value, default=str, ensure_ascii=False)}" for key, value in _pairs(record).items()
        )
        line = f"{time} {record.levelname:7} {record.getMessage()}{pairs}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
