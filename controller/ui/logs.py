"""The log of a container for the page: hostile lines of any length, as they arrive, cut to what a page can hold. Pure.

Not here: the request, and who may read it: the API server decides that (server.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rukpak.controller.content.limits import describe_bytes, visible

TAIL_LINES = 2000
"""Lines that are asked for at first, the latest ones."""
LINE_BYTES = 8 << 10
"""What is shown of a line."""
LOG_BYTES = 32 << 20
"""What is read of one log before its stream ends."""
# Colors, and what terminals do else: CSI and OSC sequences (ECMA-48), and short ones.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def read_lines(segments: Iterable[bytes]) -> Iterator[list[str]]:
    """Yield the lines of a log as text without control characters, as many as each segment completes.

    What a line has beyond `LINE_BYTES` is counted and never kept. The last line need not end with a line break. After
    `LOG_BYTES` the lines end with one that says so.

    Args:
        segments: of the log, of any size.

    Raises: whatever `segments` does.
    """
    begun, left_out, total = bytearray(), 0, 0
    for segment in segments:
        total += len(segment)
        *ended, last = segment.split(b"\n")
        lines = []
        for part in ended:
            left_out += _add(begun, part)
            lines.append(_show(begun, left_out))
            begun, left_out = bytearray(), 0
        left_out += _add(begun, last)
        if total > LOG_BYTES:
            yield [*lines, f"[this page reads {describe_bytes(LOG_BYTES)} of a log at a time; load it again to go on]"]
            return
        if lines:
            yield lines
    if begun:
        yield [_show(begun, left_out)]


def _add(line: bytearray, part: bytes) -> int:
    room = LINE_BYTES - len(line)
    line += part[:room]
    return max(len(part) - room, 0)


def _show(line: bytearray, left_out: int) -> str:
    shown = visible(_ESCAPES.sub("", line.decode(errors="replace").rstrip("\r")))
    return f"{shown}… [{left_out} more bytes]" if left_out else shown


def make_query(container: str, *, previous: bool, follow: bool) -> list[tuple[str, Any]]:
    """Return the parameters of a request for a log."""
    chosen = {"previous": previous, "follow": follow and not previous}
    flags = [(name, "true") for name, is_set in chosen.items() if is_set]
    return [("container", container), ("tailLines", TAIL_LINES), *flags]
