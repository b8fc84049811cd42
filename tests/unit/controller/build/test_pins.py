from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.build.pins import match_pins, spec_digest
from tests.support.deployments import DIGEST, OTHER_DIGEST, image, pin, spec

AUTHORITY = "-----BEGIN CERTIFICATE-----"
AUTH: dict[str, Any] = {"auth": {"secret": {"namespace": "shop", "name": "s"}}}


class Identity(NamedTuple):
    name: str
    source: dict[str, Any]
    same: bool


TAG = "registry.example.com/shop:1"
IDENTITIES = [
    Identity("the same", image(TAG), same=True),
    Identity("its default written out", image(TAG, platform="linux/amd64"), same=True),
    Identity("another destination", image(TAG, beside={"destination": "a/b"}), same=True),
    Identity("another interval", image(TAG, beside={"pollInterval": "1m"}), same=True),
    Identity("other credentials", image(TAG, **AUTH), same=True),
    Identity("another authority", image(TAG, certificateData=AUTHORITY), same=True),
    Identity("another tag", image("registry.example.com/shop:2"), same=False),
    Identity("another repository", image("registry.example.com/other:1"), same=False),
    Identity("another registry", image("example.com/shop:1"), same=False),
    Identity("another platform", image(TAG, platform="linux/arm64"), same=False),
]


@pytest.mark.parametrize("case", IDENTITIES, ids=attrgetter("name"))
def test_a_source_is_resolved_again_only_if_its_identity_changes(case: Identity) -> None:
    before = spec(image(TAG))
    assert (match_pins(spec(case.source), [pin(before)])[0] is not None) is case.same


def test_a_short_reference_has_the_same_identity() -> None:
    short, full = spec(image("nginx")), spec(image("docker.io/library/nginx:latest"))
    assert spec_digest(short.sources[0]) == spec_digest(full.sources[0])


def test_a_spec_digest_has_a_version() -> None:
    assert spec_digest(spec().sources[0]).startswith("v1:sha256:")


def test_pins_follow_their_sources_and_not_their_position() -> None:
    before = spec(image("a:1"), image("b:1"))
    pins = [pin(before, 0, DIGEST), pin(before, 1, OTHER_DIGEST)]
    after = spec(image("new:1"), image("b:1", beside={"destination": "moved"}), image("a:1"))
    found = match_pins(after, pins)
    assert [each and (each.digest, each.destination) for each in found] == [
        None,
        (OTHER_DIGEST, "moved"),
        (DIGEST, ""),
    ]


def test_one_pin_matches_two_sources_with_the_same_identity() -> None:
    twice = spec(image(beside={"destination": "a"}), image(beside={"destination": "b"}))
    found = match_pins(twice, [pin(twice)])
    assert [each and each.destination for each in found] == ["a", "b"]


def test_a_pin_of_an_unknown_format_matches_nothing() -> None:
    before = spec()
    unknown = pin(before).model_copy(update={"spec_digest": "v2:" + DIGEST})
    assert match_pins(before, [unknown]) == (None,)
