"""Failing inputs: each defect is reported once, minimized, and saved in the corpus."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path

from hack.fuzzing.corpus import KEPT, keep
from hack.fuzzing.target import Target

_OURS = ("/api/", "/controller/", "/hack/fuzzing/")
_SECONDS = 20.0
"""Time for minimizing an input."""

Signature = tuple[str, str, int]


class Findings:
    """The defects found in a run, without duplicates.

    Args:
        tell: called with a line or a traceback to print.
        root: folder of the saved inputs; default: that of the tests.
    """

    def __init__(self, target: Target, tell: Callable[[str], None], root: Path | None = None) -> None:
        self._target, self._tell, self._root = target, tell, root or KEPT
        self._known: set[Signature] = set()

    def __len__(self) -> int:
        return len(self._known)

    def try_input(self, data: bytes) -> None:
        """Run the target on an input; a new failure is minimized, reported and saved."""
        error = failure(self._target, data)
        if error is None or signature(error) in self._known:
            return
        self._known.add(signature(error))
        small = shrink(self._target, data, signature(error))
        path = keep(self._target.name, small, self._root)
        self._tell("".join(traceback.format_exception(error)))
        self._tell(f"{self._target.name}: {type(error).__name__}, kept as {path}\n")


def failure(target: Target, data: bytes) -> Exception | None:
    """Return the unexpected exception of a target, if any."""
    try:
        target.run(data)
    except Exception as error:  # noqa: BLE001 - whatever it is: that is what is looked for
        return error
    return None


def signature(error: Exception) -> Signature:
    """Return the identity of a defect: the type of the exception and our innermost line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.name != "expect" and any(folder in frame.filename for folder in _OURS)]
    return type(error).__name__, ours[-1].filename, ours[-1].lineno or 0


def shrink(target: Target, data: bytes, wanted: Signature) -> bytes:
    """Return a smaller input with the same failure, by removing halves, quarters and so on."""
    end = time.monotonic() + _SECONDS
    step = len(data) // 2
    while step:
        position = 0
        while position < len(data) and time.monotonic() < end:
            shorter = data[:position] + data[position + step :]
            error = failure(target, shorter)
            if error is not None and signature(error) == wanted:
                data = shorter
            else:
                position += step
        step //= 2
    return data
