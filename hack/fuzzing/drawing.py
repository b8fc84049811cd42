"""Inputs by hypothesis: kept ones with something replaced, taken out, taken from another one, or repeated.

It knows nothing of coverage, and runs everywhere: for a few inputs in the tests, and for as many as time allows where
there is no atheris.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from hack.fuzzing.corpus import kept_inputs
from hack.fuzzing.findings import Findings
from hack.fuzzing.target import Target

_LARGEST = 32 * 1024
_BATCH = 200
_PIECES = (0, 1, 2, 4, 8, 64, 512)


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """Draw an input for a target."""
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
    """Try generated inputs, one at least, and note which fail. Returns: how many inputs were tried.

    The first may come late: hypothesis reads the modules of ours that are loaded before it draws.
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
