"""Bounds for numbers from outside: one rule for headers, replies, annotations and waits.

A server, a tenant or a plug-in may send any number: too large for a wait, infinite, NaN, a thousand digits long. Every
result is within its bounds or None; nothing here raises.
"""

from __future__ import annotations

import email.utils
import math
import re
from datetime import datetime

LONGEST_RETRY_AFTER = 3600.0
"""Seconds. A server that asks for a longer delay is retried after this one."""
LONGEST_WAIT = 3600.0
"""Seconds of a single wait. Waits of threads overflow after about 292 years, timeouts of sockets sooner; for a longer
wait, check the clock and wait again."""
LONGEST_DELAY = 366 * 24 * 3600.0
"""Seconds until scheduled work: polls may be rare."""
HIGHEST_WAVE = 999_999
"""And the lowest one, below 0: enough for any scheme of numbers."""
_WAVE = re.compile(r"[+-]?[0-9]{1,6}", re.ASCII)
_DIGITS = 18
"""A number with more digits counts as the largest one: Python refuses to parse thousands of digits."""


def clamp(value: object, least: float, most: float) -> float | None:
    """Return a number within bounds, also for infinities; None for NaN and for anything that is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    return float(min(max(value, least), most))


def clamp_wait(seconds: float | None) -> float | None:
    """Return the seconds of a single wait; None means forever and is returned as it is."""
    return None if seconds is None else clamp(seconds, 0.0, LONGEST_WAIT) or 0.0


def clamp_delay(seconds: float) -> float:
    """Return the seconds until scheduled work; 0 if that is not a number."""
    return clamp(seconds, 0.0, LONGEST_DELAY) or 0.0


def clamp_retry_after(seconds: object, most: float = LONGEST_RETRY_AFTER) -> float | None:
    """Return the seconds after which a server may be retried; None if they are not a number."""
    return clamp(seconds, 0.0, most)


def read_count(text: str, most: int) -> int | None:
    """Return a whole number in decimal ASCII digits, at most `most`; None for any other text."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    return most if len(digits) > _DIGITS else min(int(digits or "0"), most)


def read_wave(text: str) -> int | None:
    """Return the wave that an annotation names, within +-`HIGHEST_WAVE`; None for a text that is no such integer."""
    return int(text) if _WAVE.fullmatch(text) else None


def read_retry_after(text: str, now: float, most: float = LONGEST_RETRY_AFTER) -> float | None:
    """Read either form of Retry-After (RFC 9110, section 10.2.3).

    Args:
        text: value of the header.
        now: seconds since the epoch.
        most: seconds.

    Returns: seconds; None for a text in neither form.
    """
    text = text.strip()
    seconds = read_count(text, math.ceil(most))
    if seconds is not None:
        return clamp_retry_after(seconds, most)
    try:
        return clamp_retry_after(email.utils.parsedate_to_datetime(text).timestamp() - now, most)
    except (ValueError, OverflowError, TypeError, IndexError, OSError):
        return None


def read_time(text: str) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None if it is invalid or before the year 1."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
