"""Waiting for a condition with a deadline: the only place that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
SHORTEST_SECONDS = 0.02
LONGEST_SECONDS = 0.25
SHARE = 0.1
"""Part of the time that it took so far: most conditions are requests, and asking all the time keeps a core busy."""


def wait_for(condition: Callable[[], Value | None], timeout: float, describe: str | Callable[[], str]) -> Value:
    """Return the first true value of `condition`.

    Args:
        condition: called repeatedly; its exceptions are not caught.
        timeout: seconds.
        describe: what to wait for, for the error; a function is called at the end and can report the progress.

    Raises: TimeoutError.
    """
    begun = time.monotonic()
    while not (value := condition()):
        taken = time.monotonic() - begun
        if taken > timeout:
            described = describe if isinstance(describe, str) else describe()
            raise TimeoutError(f"timed out after {timeout:g} s: {described}")
        time.sleep(min(max(SHARE * taken, SHORTEST_SECONDS), LONGEST_SECONDS))
    return value
