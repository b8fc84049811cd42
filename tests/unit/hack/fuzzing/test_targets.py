"""Nothing that comes from outside breaks a parser: the kept inputs, a few that are drawn, and what either may cost."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hack.fuzzing.corpus import KEPT, kept_inputs
from hack.fuzzing.drawing import inputs
from hack.fuzzing.table import TARGETS

BASE_BYTES, BYTES_PER_BYTE = 16 << 20, 1000
# Derandomized: the same inputs each time, so that a failure is the change's.
BOUNDED = settings(
    deadline=None, max_examples=80, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
INPUTS = [(target, name) for target in TARGETS for name in kept_inputs(target)]


def test_every_kept_input_has_a_target() -> None:
    assert {path.name.removesuffix(".json") for path in KEPT.iterdir()} == TARGETS.keys()


def test_every_target_has_kept_inputs() -> None:
    assert [name for name in TARGETS if not kept_inputs(name)] == []


@pytest.mark.parametrize(("target", "name"), INPUTS)
def test_a_kept_input_is_read_or_refused(target: str, name: str) -> None:
    TARGETS[target].run(kept_inputs(target)[name])


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
@BOUNDED
def test_so_is_one_that_is_made_of_them(target: str, data: st.DataObject) -> None:
    TARGETS[target].run(data.draw(inputs(TARGETS[target])))


@pytest.mark.parametrize("target", TARGETS)
def test_memory_is_bounded_by_what_is_read(target: str) -> None:
    for name, data in kept_inputs(target).items():
        tracemalloc.start()
        TARGETS[target].run(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= BASE_BYTES + BYTES_PER_BYTE * len(data), name


@pytest.mark.parametrize("target", TARGETS)
def test_work_is_linear_in_what_is_repeated(target: str) -> None:
    words = [*TARGETS[target].words, *(data[:200] for data in kept_inputs(target).values())]
    for word in filter(None, words):
        TARGETS[target].run(word * (16_384 // len(word)))
