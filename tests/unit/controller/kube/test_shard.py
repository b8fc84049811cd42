from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import pytest

from rukpak.api import names
from rukpak.controller.kube.shard import DEFAULT_SHARD, Shard, is_shard_name

A = Shard("a")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shard: Shard
    labels: dict[str, str]
    expect: bool


CASES = [
    Case("one without labels belongs to the default shard", DEFAULT_SHARD, {}, expect=True),
    Case("so does one with other labels only", DEFAULT_SHARD, {"app": "a"}, expect=True),
    Case("and one whose label is empty", DEFAULT_SHARD, {names.SHARD: ""}, expect=True),
    Case("one with a label does not", DEFAULT_SHARD, {names.SHARD: "a"}, expect=False),
    Case("nor one whose label cannot be the name of a shard", DEFAULT_SHARD, {names.SHARD: "No_Name"}, expect=False),
    Case("one with the label of a shard belongs to it", A, {names.SHARD: "a", "app": "b"}, expect=True),
    Case("one with that of another one does not", A, {names.SHARD: "b"}, expect=False),
    Case("nor one without", A, {}, expect=False),
    Case("nor one whose label only begins like it", A, {names.SHARD: "ab"}, expect=False),
    Case("nor one in other letters", A, {names.SHARD: "A"}, expect=False),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_bundledeployments_a_controller_serves(case: Case) -> None:
    assert case.shard.serves(case.labels) is case.expect


def test_each_shard_has_a_lease_of_its_own() -> None:
    assert (DEFAULT_SHARD.lease, A.lease) == ("rukpak", "rukpak-a")


@pytest.mark.parametrize(("name", "is_one"), [("a", True), ("a-1", True), ("", False), ("A", False), ("a.b", False),
                                              ("-a", False), ("a" * 50, True), ("a" * 51, False)])  # fmt: skip
def test_names_of_shards_are_dns_labels(name: str, is_one: bool) -> None:
    assert is_shard_name(name) is is_one
