"""Logs on stderr, one JSON or text line for each record, with the ID of the pass.

Messages are constant; variable parts are key-value pairs (`extra=`) with Kubernetes' key names.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from rukpak.controller.bugs import reconcile_id

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(log_format: str, level: str) -> None:
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
