from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import pytest

from controller.build.request import Request, inputs_digest
from tests.support.deployments import OTHER_DIGEST, image, pin, request, spec


class Inputs(NamedTuple):
    name: str
    request: Request
    same: bool


PROCESSOR = {"kind": "metadata", "metadata": {"labels": {"team": "shop"}}}
BASE = request(spec())
INPUTS = [
    Inputs("the same", request(spec()), same=True),
    Inputs("pausing", request(spec(paused=True)), same=True),
    Inputs("how it is pruned, deleted and judged", request(spec(prune="Never", progressDeadline="1h")), same=True),
    Inputs("when it was resolved", replace(BASE, pins=(pin(spec()).model_copy(update={"resolved_at": None}),)), True),
    Inputs("the install namespace that was recorded", replace(BASE, install_namespace="other"), same=True),
    Inputs("other content", request(spec(), OTHER_DIGEST), same=False),
    Inputs("another destination", request(spec(image(beside={"destination": "a"}))), same=False),
    Inputs("another platform", request(spec(image(platform="linux/arm64"))), same=False),
    Inputs("another format", request(spec(format="example.com/x")), same=False),
    Inputs("another config", request(spec(config={"a": 1})), same=False),
    Inputs("another install namespace", request(spec(installNamespace="other")), same=False),
    Inputs("being asked for again", replace(BASE, requested_at="now"), same=False),
    Inputs("a processor", request(spec(processors=[PROCESSOR])), same=False),
    Inputs("one source more", request(spec(image(), image())), same=False),
]


@pytest.mark.parametrize("case", INPUTS, ids=attrgetter("name"))
def test_inputs_that_require_another_rendering(case: Inputs) -> None:
    assert (inputs_digest(case.request) == inputs_digest(BASE)) is case.same
