from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import pytest

from rukpak.api import names
from rukpak.controller.kube.shard import DEFAULT_SHARD, Shard, Tenure, is_shard_name
from tests.support.deployments import deployment

A = Shard("a")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shard: Shard
    label: str | None
    status: dict[str, object]
    expect: Tenure


NONE: dict[str, object] = {"observedGeneration": -1}
OF_DEFAULT: dict[str, object] = {"observedGeneration": 1}
OF_A: dict[str, object] = {"observedGeneration": 1, "shard": "a"}
OF_B: dict[str, object] = {"observedGeneration": 1, "shard": "b"}
CASES = [
    Case("a new one without label is free for the default shard", DEFAULT_SHARD, None, NONE, Tenure.FREE),
    Case("a new one with a label is free for its shard", A, "a", NONE, Tenure.FREE),
    Case("a new one of another shard does not concern the default one", DEFAULT_SHARD, "a", NONE, Tenure.ELSEWHERE),
    Case("one without any record is held by the default shard", DEFAULT_SHARD, None, OF_DEFAULT, Tenure.HELD),
    Case("one that is recorded is held", A, "a", OF_A, Tenure.HELD),
    Case("one that comes from the default shard is awaited", A, "a", OF_DEFAULT, Tenure.AWAITED),
    Case("one that comes from another shard is awaited", A, "a", OF_B, Tenure.AWAITED),
    Case("one that comes back to the default shard is awaited", DEFAULT_SHARD, None, OF_B, Tenure.AWAITED),
    Case("one with another label is left by who holds it", A, "b", OF_A, Tenure.LEAVING),
    Case("one with a label is left by the default shard", DEFAULT_SHARD, "b", OF_DEFAULT, Tenure.LEAVING),
    Case("one between two others concerns neither", A, "c", OF_B, Tenure.ELSEWHERE),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_a_bundledeployment_is_to_a_shard(case: Case) -> None:
    labels = {} if case.label is None else {names.SHARD: case.label}
    found = deployment(metadata={"labels": labels}, status=case.status)
    assert case.shard.tenure_of(found) is case.expect


def test_an_installation_without_shards_has_the_names_of_earlier_releases() -> None:
    assert DEFAULT_SHARD.lease == "rukpak"
    assert DEFAULT_SHARD.selector == "!core.rukpak.io/shard"
    assert DEFAULT_SHARD.objects_selector == "core.rukpak.io/bundle-deployment,!core.rukpak.io/owner-shard"


def test_a_shard_selects_what_is_its_own() -> None:
    assert (A.lease, A.selector, A.held_selector) == ("rukpak-a", "core.rukpak.io/shard=a", "status.shard=a")
    assert A.others_selector == "core.rukpak.io/shard!=a"
    assert A.objects_selector == "core.rukpak.io/bundle-deployment,core.rukpak.io/owner-shard=a"


@pytest.mark.parametrize(("name", "is_one"), [("a", True), ("a-1", True), ("", False), ("A", False), ("a.b", False),
                                              ("-a", False), ("a" * 50, True), ("a" * 51, False)])  # fmt: skip
def test_names_of_shards_are_dns_labels(name: str, is_one: bool) -> None:
    assert is_shard_name(name) is is_one
