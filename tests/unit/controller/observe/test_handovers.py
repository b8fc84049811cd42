from __future__ import annotations

from typing import Any

import pytest

from rukpak.api.v1alpha2.reading import read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.observe.deployments import Party, find_hindrance, find_parties, party_of
from tests.support.deployments import manifest
from tests.support.watching import World

RUNNING = (False, False, False)


def party(*takes_from: str, uid: str = "1", state: tuple[bool, bool, bool] = RUNNING) -> Party:
    return Party(uid, frozenset(takes_from), state)


def deployment(**spec: Any) -> BundleDeployment:
    return read(manifest("old", spec=spec))


def concerned(name: str, before: Party | None, now: Party | None, *takers: str) -> set[str]:
    """Return whom a change concerns, of one that others take from."""
    return find_parties(name, before, now, {name: takers}.__getitem__)


def test_those_that_take_from_one_are_concerned_by_its_pause_and_by_its_end() -> None:
    paused = party(state=(True, False, False))
    assert concerned("new", None, party("old")) == {"old"}
    assert concerned("old", None, party(), "new") == {"new"}
    assert concerned("old", party(), party(), "new") == set()
    assert concerned("old", party(), paused, "new") == {"new"}
    assert concerned("old", paused, None, "new") == {"new"}


def test_those_that_one_takes_from_are_concerned_when_it_takes_no_more_or_is_another() -> None:
    now = party("b", "c")
    assert concerned("new", party("a", "b"), now) == {"a", "c"}
    assert concerned("new", now, party("b", "c", uid="2")) == {"b", "c"}
    assert concerned("new", now, None) == {"b", "c"}


def test_who_takes_from_one_is_known_as_long_as_it_does(world: World) -> None:
    world.deployment("new", spec={"takeOver": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})
    world.start()
    assert [world.watches.deployments.takers(name) for name in "abc"] == [["new"], ["new"], []]
    world.told.taken()
    world.deployment("new", spec={"takeOver": [{"name": "b"}, {"name": "c"}]}, metadata={"generation": 2})
    world.deployment("a")
    world.hear("deployment a")
    assert [world.watches.deployments.takers(name) for name in "abc"] == [[], ["new"], ["new"]]


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
