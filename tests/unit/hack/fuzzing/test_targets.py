"""Nothing that comes from outside breaks a parser: the kept inputs, a few that are drawn, and what either may cost."""

from __future__ import annotations

import math
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hack.fuzzing.corpus import KEPT, kept_inputs
from hack.fuzzing.findings import inputs
from hack.fuzzing.table import TARGETS

BASE_BYTES, BYTES_PER_BYTE = 16 << 20, 1000
FEW, MANY = 4, 100
EXAMPLES = MANY if settings().max_examples >= MANY else FEW
"""Inputs that are drawn for a target; each is dearer than one of a property."""
# Derandomized: the same inputs each time, so that a failure is the change's.
BOUNDED = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
PART = 10
"""One of so many kept inputs is read without `--all`, beside those that have broken a target."""


@pytest.fixture
def kept(target: str, pytestconfig: pytest.Config) -> dict[str, bytes]:
    """Kept inputs of a target, by name."""
    found, part = kept_inputs(target), 1 if pytestconfig.getoption("--all") else PART
    return {
        name: data for index, (name, data) in enumerate(found.items()) if index % part == 0 or name.startswith("found-")
    }


def test_every_kept_input_has_a_target() -> None:
    assert {path.name.removesuffix(".json") for path in KEPT.iterdir()} == TARGETS.keys()


def test_every_target_has_kept_inputs() -> None:
    assert [name for name in TARGETS if not kept_inputs(name)] == []


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
@BOUNDED
def test_an_input_mutated_from_kept_ones_is_read_or_refused(target: str, data: st.DataObject) -> None:
    TARGETS[target].run(data.draw(inputs(TARGETS[target])))


@pytest.mark.parametrize("target", TARGETS)
def test_a_kept_input_is_read_or_refused(target: str, kept: dict[str, bytes]) -> None:
    for name, data in kept.items():
        tracemalloc.start()
        TARGETS[target].run(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= BASE_BYTES + BYTES_PER_BYTE * len(data), name


@pytest.mark.parametrize("target", TARGETS)
def test_work_is_linear_in_what_is_repeated(target: str, kept: dict[str, bytes]) -> None:
    words = [*TARGETS[target].words, *(data[:200] for data in kept.values())]
    for word in filter(None, words):
        TARGETS[target].run(word * (16_384 // len(word)))


# What only grows bad with many different things: a beginning, one of them by its number, an end.
SCHEMA = b"spec: {versions: [{name: v1, served: true, schema: {openAPIV3Schema: {%s: [%s]}}}]}\n"
PERMISSIONS = b"kind: ClusterServiceVersion\nspec: {install: {spec: {clusterPermissions: ["
GROWING = {
    "json": [b"", b'"k%d": 0, ', b'"k": 0, "k": 0}'],
    "yaml": [b"", b"k%d: 0\n", b"k: 0\nk: 0\n"],
    "plain": [b"", b"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\n", b""],
    "helm-output": [b"", b"---\n# Source: c/crds/%d.yaml\nkind: CustomResourceDefinition\nmetadata: {name: a}\n", b""],
    "registry-v1": [PERMISSIONS, b"{serviceAccountName: a%d, rules: []}, ", b"]}}}\n"],
    "manifests": [b'{"schemaVersion": 2, "layers": [', b'{"size": %d}, ', b"0]}"],
    "docker-configs": [b'{"auths": {', b'"a%d.example.com": {"username": "u", "password": "p"}, ', b'"b": {}}}'],
    "http-headers": [b"Bearer ", b'a%d="b", ', b""],
    "warnings": [b"", b'299 - "a%d", ', b""],
    "git-listings": [b"", b"a%d\0", b""],
    "replies": [b'\n{"kind": "Status", "details": {"causes": [', b'{"field": "a%d", "reason": "x"}, ', b"0]}}"],
}


def many(target: str, count: int) -> bytes:
    if target == "definitions":
        halves = (b", ".join(b"a%d" % (number + start) for number in range(count)) for start in (0, count))
        return b"\n---\n".join(SCHEMA % (b"enum", half) for half in halves)
    beginning, one, end = GROWING[target]
    return beginning + b"".join(one % number for number in range(count)) + end


def cost(target: str, data: bytes) -> float:
    """Seconds of processor time."""
    begun = time.thread_time()
    TARGETS[target].check(data)
    return time.thread_time() - begun


@pytest.mark.parametrize("target", [*GROWING, "definitions"])
def test_work_is_linear_in_how_many_there_are(target: str) -> None:
    few, much = (many(target, count) for count in (1000, 4000))
    least = [math.inf, math.inf]
    for _ in range(3):  # others use this machine, too
        least = [min(before, cost(target, data)) for before, data in zip(least, (few, much), strict=True)]
        if least[1] < 0.05 or least[1] / least[0] < 9:
            return
    pytest.fail(f"{least[0]:.3f} s, and {least[1]:.3f} s for four times as many")
