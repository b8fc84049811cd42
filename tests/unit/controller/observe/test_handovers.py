from __future__ import annotations

from typing import Any

import pytest

from rukpak.api.v1alpha2.reading import read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.observe.relations import (
    TAKERS,
    Dependency,
    Party,
    Relations,
    RelationsIndexer,
    find_hindrance,
    party_of,
)
from tests.support.deployments import manifest

RUNNING = (False, False, False)


def party(*takes_from: str, uid: str = "1", state: tuple[bool, bool, bool] = RUNNING) -> Party:
    return Party(uid, frozenset(takes_from), state)


def deployment(**spec: Any) -> BundleDeployment:
    return read(manifest("old", spec=spec))


class Indexer(RelationsIndexer):
    """An indexer of BundleDeployments that depend on nothing."""

    def learn(self, name: str, now: Party | None) -> set[str]:
        dependents, parties = self.put(name, Relations(Dependency((), ""), now) if now else None)
        assert dependents == set()
        return parties


def test_those_that_take_from_one_are_concerned_by_its_pause_and_by_its_end() -> None:
    index = Indexer()
    assert index.learn("new", party("old")) == {"old"}
    assert index.index(TAKERS, "old") == ["new"]
    assert index.learn("old", party()) == {"new"}
    assert index.learn("old", party()) == set()
    assert index.learn("old", party(state=(True, False, False))) == {"new"}
    assert index.learn("old", None) == {"new"}


def test_those_that_one_takes_from_are_concerned_when_it_takes_no_more_or_is_another() -> None:
    index = Indexer()
    index.learn("new", party("a", "b"))
    assert index.learn("new", party("b", "c")) == {"a", "c"}
    assert (index.index(TAKERS, "a"), index.index(TAKERS, "c")) == ([], ["new"])
    assert index.learn("new", party("b", "c", uid="2")) == {"b", "c"}
    assert index.learn("new", None) == {"b", "c"}
    assert index.index(TAKERS, "b") == []


def test_only_what_others_need_to_know_is_kept() -> None:
    found = party_of(deployment(paused=True, deletionPolicy="Orphan", takeOver=[{"name": "older"}]))
    assert (found.takes_from, found.state) == (frozenset({"older"}), (True, False, True))


def test_only_one_that_is_paused_gives() -> None:
    assert find_hindrance(deployment(paused=True)) == ""
    assert find_hindrance(deployment()).endswith("taken over: kubectl rukpak pause old")
    for paused in (False, True):  # one that is paused gives until it is gone
        deleted = manifest("old", spec={"paused": paused})
        deleted["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
        assert ("is being deleted" in find_hindrance(read(deleted))) is not paused


@pytest.mark.parametrize(
    ("approval", "gives"), [(None, True), ("Automatic", True), ("NewPermissions", False), ("Manual", False)]
)
def test_one_whose_revisions_need_approval_gives_nothing(approval: str | None, *, gives: bool) -> None:
    found = deployment(paused=True, approval=approval)
    assert find_hindrance(found).partition(";")[0] == ("" if gives else "whose revisions need approval")
    assert party_of(found).state[0] is gives
