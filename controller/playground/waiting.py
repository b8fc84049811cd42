"""Waiting for a condition with a deadline: the only place that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
INTERVAL_SECONDS = 0.02


def wait_for(condition: Callable[[], Value | None], timeout: float, describe: str | Callable[[], str]) -> Value:
    """Return the first true value of `condition`.

    Args:
        condition: called repeatedly; its exceptions are not caught.
        timeout: seconds.
        describe: what to wait for, for the error; a function is called at the end and can report the progress.

    Raises: TimeoutError.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            described = describe if isinstance(describe, str) else describe()
            raise TimeoutError(f"timed out after {timeout:g} s: {described}")
        time.sleep(INTERVAL_SECONDS)
    return value
