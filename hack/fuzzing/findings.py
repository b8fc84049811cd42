"""Failing inputs, each defect reported once, minimized, and saved in the corpus; and inputs that hypothesis generates.

These are saved ones with parts replaced, removed, repeated, or taken from another one. They know no coverage but run
everywhere: a few in the tests, and as many as time allows if atheris is not available.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from hack.fuzzing.corpus import KEPT, keep, kept_inputs
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


_LARGEST = 32 * 1024
_BATCH = 200
_PIECES = (0, 1, 2, 4, 8, 64, 512)


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    kept = list(kept_inputs(target.name).values()) or [b""]
    data, other = bytearray(draw(st.sampled_from(kept))), draw(st.sampled_from(kept))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from(_PIECES)))
        piece = draw(st.integers(0, len(other)))
        new = draw(
            st.binary(max_size=8)
            | st.sampled_from((b"", *target.words))
            | st.just(other[piece : piece + 512])
            | st.integers(2, 2000).map(lambda times: bytes(data[start:end]) * times)  # noqa: B023 - drawn at once
        )
        data[start:end] = new
    return bytes(data[:_LARGEST])


def draw_until(is_over: Callable[[], bool], target: Target, findings: Findings) -> int:
    """Try at least one generated input and record failures. Returns: the number of inputs.

    The first may take a while: hypothesis first reads our loaded modules.
    """
    count, batch = 0, 0

    def one_input(data: bytes) -> None:
        nonlocal count
        if count == 0 or not is_over():
            count += 1
            findings.try_input(data)

    many = settings(
        max_examples=_BATCH, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    while count == 0 or not is_over():
        batch += 1
        seed(batch)(many(given(inputs(target))(one_input)))()
    return count
