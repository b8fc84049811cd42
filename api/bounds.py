"""Numbers from outside, held to what makes sense: one rule for headers, replies, annotations, and for waits.

A server, a tenant or a plug-in may say any number: too large for a wait, infinite, none at all, of a thousand digits.
What is read here is within its bounds or None; nothing here raises.
"""

from __future__ import annotations

import email.utils
import math
from datetime import datetime

LONGEST_RETRY_AFTER = 3600.0
"""Seconds: who asks for more is asked again after these."""
LONGEST_WAIT = 3600.0
"""Seconds that a thread waits in one piece. Waits of threads overflow at some 292 years, timers of sockets sooner; who
waits for longer looks at the clock and waits again."""
LONGEST_DELAY = 366 * 24 * 3600.0
"""Seconds until something that is planned: polls may be rare."""
_DIGITS = 18
"""A number of more digits counts as the largest: Python refuses to read thousands of them."""


def clamp(value: object, least: float, most: float) -> float | None:
    """Return a number within bounds, infinities too; None for what is no number, or not one (NaN)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    return float(min(max(value, least), most))


def clamp_wait(seconds: float | None) -> float | None:
    """Return for how long to wait in one piece; None, for ever, stays None."""
    return None if seconds is None else clamp(seconds, 0.0, LONGEST_WAIT) or 0.0


def clamp_delay(seconds: float) -> float:
    """Return in how many seconds to do what is planned; 0 for what is no number."""
    return clamp(seconds, 0.0, LONGEST_DELAY) or 0.0


def clamp_retry_after(seconds: object, most: float = LONGEST_RETRY_AFTER) -> float | None:
    """Return the seconds that the other side asked to be left alone for; None if it did not say so in a number."""
    return clamp(seconds, 0.0, most)


def read_count(text: str, most: int) -> int | None:
    """Return a whole number in decimal ASCII digits, at most `most`; None for any other text."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    return most if len(digits) > _DIGITS else min(int(digits or "0"), most)


def read_retry_after(text: str, now: float, most: float = LONGEST_RETRY_AFTER) -> float | None:
    """Read either form of Retry-After (RFC 9110, section 10.2.3).

    Args:
        text: the header.
        now: seconds since the epoch.
        most: seconds.

    Returns: seconds; None for a text of neither form.
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
    """Return a time of RFC 3339 in seconds since the epoch; None for one that is none, or before the year 1."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
