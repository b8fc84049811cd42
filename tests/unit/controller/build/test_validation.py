from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Spec
from controller.build.request import check
from tests.support.deployments import image, spec


class Refused(NamedTuple):
    name: str
    spec: Spec
    reason: Reason
    message: str


def patch(**fields: Any) -> dict[str, Any]:
    return {"kind": "patch", "patch": {"target": {"kind": "ConfigMap"}, **fields}}


PLUG_IN = {"kind": "example.com/s3", "parameters": {"bucket": "b"}}
REFUSED = [
    Refused("a reference that cannot be one", spec(image("UPPER")), Reason.INVALID_REFERENCE, "spec.sources[0].image."),
    Refused(
        "the second source", spec(image(), image("x@sha256:1")), Reason.INVALID_REFERENCE, "spec.sources[1].image.ref"
    ),
    Refused("a source that nobody serves", spec(PLUG_IN), Reason.UNKNOWN_SOURCE_KIND, "no plug-in for"),
    Refused("a format that nobody serves", spec(format="example.com/x"), Reason.UNKNOWN_FORMAT, "spec.format:"),
    Refused(
        "a processor that nobody serves",
        spec(processors=[{"kind": "example.com/x"}]),
        Reason.UNKNOWN_PROCESSOR,
        "spec.processors[0].kind: no plug-in",
    ),
    Refused(
        "the second processor",
        spec(processors=[patch(merge={}), patch()]),
        Reason.INVALID_CONFIG,
        "spec.processors[1].patch: set exactly one of",
    ),
    Refused("an option that the format does not know", spec(config={"x": 1}), Reason.INVALID_CONFIG, "spec.config"),
]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_an_invalid_spec_is_refused_before_anything_is_fetched(case: Refused) -> None:
    with pytest.raises(BundleError) as caught:
        check(case.spec)
    assert caught.value.reason is case.reason
    assert caught.value.message.startswith(case.message)


@pytest.mark.parametrize("levels", [100, 900])
def test_deep_nesting_is_refused_first(levels: int) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = {"a": [deep]} if levels == 100 else {"a": deep}
    with pytest.raises(
        BundleError, match=r"^InvalidConfig: spec.config: nested more than 100 levels deep; flatten it$"
    ):
        check(spec(config={"values": deep}))
    with pytest.raises(BundleError, match=r"spec.processors\[0\].patch: nested more than 100 levels deep"):
        check(spec(processors=[patch(json=[{"op": "add", "path": "/data", "value": deep}])]))
    plugged = {"kind": "example.com/s3", "parameters": {"deep": deep}}
    with pytest.raises(BundleError, match=r"spec.sources\[0\].parameters: nested more than 100 levels deep"):
        check(spec(plugged))


def test_a_config_that_is_too_large_is_refused_and_told_where_to_put_its_values() -> None:
    problem = "InvalidConfig: spec.config: larger than 256 KiB of JSON"
    remedy = "move values to a file in the content and list it in valuesFiles"
    with pytest.raises(BundleError, match=f"^{problem}; {remedy}$"):
        check(spec(format="helm", config={"values": {"a": [{}] * 90_000}}))
    check(spec(format="helm", config={"values": {"a": [{}] * 80_000}}))


def test_a_valid_spec_is_not_refused() -> None:
    check(spec())


def test_processors_that_are_too_large_are_refused() -> None:
    with pytest.raises(BundleError, match=r"^InvalidConfig: spec.processors: larger than 256 KiB of JSON; change more"):
        check(spec(processors=[patch(merge={"data": {"a": "x" * 200_000}})] * 2))
