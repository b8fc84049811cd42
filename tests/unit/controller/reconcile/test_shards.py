"""A BundleDeployment that changes shards: who may act, what is written, and what happens to its objects.

One World plays the controllers of all shards, one after the other: `serve` restarts it as that of another shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.shard import Shard
from rukpak.controller.reconcile.memory import Memory
from rukpak.controller.reconcile.shards import REPORTED_SECONDS, SURVEY_SECONDS
from tests.support.fake_cluster import Json
from tests.support.reconciling import NAME, PATH, World

MAPS = "/api/v1/namespaces/shop/configmaps"
A, OLD = f"{MAPS}/a", f"{MAPS}/old"
WRITE = "PATCH BundleDeployment/status"


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that this process has known the BundleDeployment."""
    age = [0.0]
    monkeypatch.setattr(Memory, "age", lambda _state: age[0])
    return age


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with a bundle that the default shard has installed."""
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", config_map("a"), config_map("old"))
    made.shelf.put("v2", config_map("a", "2"))
    made.wish("v1")
    made.settle()
    yield made
    made.applier.stop()


def serve(world: World, shard: str) -> None:
    """Continue as the controller of a shard."""
    world.watches.shard = Shard(shard)
    world.restart()
    world.cluster.taken()


def label(world: World, shard: str) -> None:
    world.cluster.patch(PATH, {"metadata": {"labels": {names.SHARD: shard or None}}})


def status(world: World) -> Json:
    found: Json = world.cluster.objects[PATH]["status"]
    return found


def shards_of_objects(world: World) -> set[str | None]:
    found = [value for path, value in world.cluster.objects.items() if path.startswith(MAPS)]
    return {(value["metadata"].get("labels") or {}).get(names.OWNER_SHARD) for value in found}


def test_without_shards_nothing_names_one(world: World) -> None:
    assert "shard" not in status(world)
    assert "relabeling" not in status(world)
    assert shards_of_objects(world) == {None}


def test_it_moves_in_three_writes_of_status_and_a_label_on_each_object(world: World) -> None:
    state, digest = status(world)["managedState"], world.cluster.objects[A]["metadata"]["annotations"]
    label(world, "a")
    world.reconcile()
    assert world.requests() == [WRITE]
    assert status(world)["shard"] == "a"
    serve(world, "a")
    world.reconcile()
    assert [each for each in world.requests() if each.startswith(("MERGE", "APPLY", "TRY", "DELETE", "PATCH"))] == [
        "MERGE configmaps/a",
        "MERGE configmaps/old",
        WRITE,
        WRITE,
    ]
    world.settle()
    assert shards_of_objects(world) == {"a"}
    assert (status(world)["managedState"], world.cluster.objects[A]["metadata"]["annotations"]) == (state, digest)
    assert "relabeling" not in status(world)


def test_back_in_the_default_shard_nothing_names_one(world: World) -> None:
    for before, after in (("", "a"), ("a", "")):
        label(world, after)
        world.reconcile()
        serve(world, after)
        world.settle()
        assert status(world).get("shard", "") == after, before
    assert shards_of_objects(world) == {None}


def test_until_it_is_handed_over_the_new_controller_writes_nothing_and_then_reports(
    world: World, clock: list[float]
) -> None:
    label(world, "a")
    serve(world, "a")
    assert world.reconcile().after == REPORTED_SECONDS
    assert world.requests() == []
    clock[0] = REPORTED_SECONDS
    world.reconcile()
    assert world.requests() == [WRITE]
    assert world.conditions["Installed"] == "False WaitingForShard"
    assert world.conditions["Reconciling"] == "True WaitingForShard"
    assert "the default shard" in world.message("Installed")
    assert world.leases.waiting == {NAME: ""}
    world.cluster.remove(A)
    world.reconcile()
    assert world.requests() == []
    assert not world.exists(A)


def test_it_is_taken_over_when_the_lease_of_the_earlier_shard_is_free(world: World, clock: list[float]) -> None:
    label(world, "a")
    serve(world, "a")
    clock[0] = REPORTED_SECONDS
    world.reconcile()
    world.leases.free.add("")
    world.settle()
    assert (status(world)["shard"], world.conditions["Ready"]) == ("a", "True Ready")
    assert shards_of_objects(world) == {"a"}
    assert world.leases.waiting == {}


def test_it_returns_from_a_label_that_names_no_shard_without_a_wait(world: World) -> None:
    label(world, "No_Name")
    world.reconcile()
    assert status(world)["shard"] == "No_Name"
    label(world, "a")
    serve(world, "a")
    world.settle()
    assert (status(world)["shard"], world.conditions["Ready"]) == ("a", "True Ready")
    assert shards_of_objects(world) == {"a"}


def test_a_wait_ends_when_it_moves_on(world: World, clock: list[float]) -> None:
    label(world, "a")
    serve(world, "a")
    clock[0] = REPORTED_SECONDS
    world.reconcile()
    label(world, "b")
    world.requests()
    world.reconcile()
    assert world.leases.waiting == {}
    assert world.requests() == []


def test_a_new_one_is_claimed_before_anything_else_is_written(world: World) -> None:
    world.delete()
    world.settle()
    world.wish("v1")
    label(world, "a")
    world.reconcile()
    assert not [each for each in world.requests() if "BundleDeployment" in each]  # of another shard
    serve(world, "a")
    world.reconcile()
    assert world.requests()[0] == WRITE
    world.settle()
    assert status(world)["shard"] == "a"
    assert shards_of_objects(world) == {"a"}


def test_of_two_shards_that_take_a_new_one_at_once_one_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default shard has begun when the label is set: its first status comes second, and it applies nothing."""
    world.delete()
    world.settle()
    world.wish("v1")
    patch = world.cluster.json_patch

    def _claim_first(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(world.cluster, "json_patch", patch)
        label(world, "a")
        world.cluster.patch(PATH, {"status": {"observedGeneration": 1, "shard": "a"}})
        return patch(*args, **options)

    monkeypatch.setattr(world.cluster, "json_patch", _claim_first)
    with pytest.raises(ApiError, match="has changed"):
        world.settle()
    assert status(world) == {"observedGeneration": 1, "shard": "a"}
    assert not world.exists(A)


def test_a_pass_that_is_running_when_it_moves_applies_no_further_object(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster.remove(A)
    world.cluster.remove(OLD)
    apply = world.cluster.apply

    def _move(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(world.cluster, "apply", apply)
        label(world, "a")
        return apply(*args, **options)

    monkeypatch.setattr(world.cluster, "apply", _move)
    world.reconcile()
    assert len([each for each in world.requests() if each.startswith(("APPLY configmaps", "TRY configmaps"))]) <= 2
    world.reconcile()
    assert status(world)["shard"] == "a"


def test_an_adoption_that_was_interrupted_is_continued(world: World) -> None:
    label(world, "a")
    world.reconcile()
    serve(world, "a")
    world.cluster.faults["MERGE " + OLD] = [ApiError(403, "Forbidden", "no")]
    assert world.reconcile().failed
    assert status(world)["relabeling"] is True
    assert world.conditions["Installed"] == "False Forbidden"
    serve(world, "a")
    world.settle()
    assert shards_of_objects(world) == {"a"}
    assert world.conditions["Ready"] == "True Ready"


def test_one_that_moves_while_it_is_deleted_leaves_nothing_behind(world: World) -> None:
    label(world, "a")
    world.delete()
    world.reconcile()
    assert world.exists(A, OLD)
    serve(world, "a")
    world.settle()
    assert not world.exists(PATH)
    assert not any(path.startswith(MAPS) for path in world.cluster.objects)


def test_after_a_move_an_upgrade_prunes_what_the_earlier_shard_has_installed(world: World) -> None:
    label(world, "a")
    world.reconcile()
    sources = [{"kind": "image", "image": {"ref": "v2"}}]
    world.cluster.patch(PATH, {"metadata": {"generation": 2}, "spec": {"sources": sources}})
    serve(world, "a")
    world.settle()
    assert world.exists(A)
    assert not world.exists(OLD)


def test_a_paused_one_is_adopted_and_shows_no_drift(world: World) -> None:
    world.cluster.patch(PATH, {"metadata": {"generation": 2}, "spec": {"paused": True}})
    world.settle()
    label(world, "a")
    world.reconcile()
    serve(world, "a")
    world.reconcile()
    assert shards_of_objects(world) == {"a"}
    assert "Drifted" not in world.conditions
    assert world.conditions["Ready"] == "True Ready"


def test_an_object_that_lost_the_label_of_its_shard_is_repaired_in_place(world: World) -> None:
    label(world, "a")
    world.reconcile()
    serve(world, "a")
    world.settle()
    uid = world.cluster.objects[A]["metadata"]["uid"]
    world.cluster.patch(A, {"metadata": {"labels": {names.OWNER_SHARD: None}}})
    world.settle()
    assert world.cluster.objects[A]["metadata"]["uid"] == uid
    assert shards_of_objects(world) == {"a"}


def test_a_wiped_status_of_a_shard_is_claimed_again_with_the_objects_that_are_there(world: World) -> None:
    label(world, "a")
    world.reconcile()
    serve(world, "a")
    world.settle()
    world.cluster.put({**world.cluster.objects[PATH], "status": {}})
    serve(world, "a")
    world.settle()
    assert (status(world)["shard"], world.conditions["Ready"]) == ("a", "True Ready")
    assert world.exists(A, OLD)


# a shard that nobody serves


def look(world: World, *unserved: str, abandoned: bool = False) -> None:
    """Have the default shard know which other shards nobody serves, and perhaps that this has been so for a while."""
    world.watches.unserved = frozenset(unserved)
    world.watches.abandoned = frozenset(unserved) if abandoned else frozenset()


def test_one_that_was_handed_over_says_so_until_it_is_taken(world: World) -> None:
    label(world, "a")
    world.reconcile()
    assert world.conditions["Ready"] == "Unknown HandedToShard"
    assert world.message("Ready").startswith('handed over to shard "a", whose controller has not taken it yet; ')
    serve(world, "a")
    world.settle()
    assert world.conditions["Ready"] == "True Ready"


@pytest.mark.parametrize("shard", ["nobody", "No_Name"])
def test_one_that_nobody_takes_is_taken_back_after_a_while(world: World, clock: list[float], shard: str) -> None:
    label(world, shard)
    look(world, shard)
    world.reconcile()
    world.cluster.remove(A)
    world.settle()
    assert not world.exists(A)  # it was let go

    look(world, shard, abandoned=True)
    world.reconcile()
    clock[0] = REPORTED_SECONDS
    world.reconcile()
    if shard == "nobody":
        assert world.leases.waiting == {NAME: shard}
        assert world.conditions["Ready"] == "Unknown HandedToShard"
        world.leases.free.add(shard)
    world.settle()

    assert world.exists(A, OLD)
    assert (status(world).get("shard", ""), world.conditions["Ready"]) == ("", "True Ready")
    assert shards_of_objects(world) == {None}
    assert world.leases.waiting == {}


def test_one_that_nobody_takes_is_deleted_by_the_default_shard(world: World, clock: list[float]) -> None:
    label(world, "nobody")
    world.reconcile()
    world.delete()
    world.settle()
    assert world.exists(PATH, A)
    look(world, "nobody", abandoned=True)
    clock[0] = REPORTED_SECONDS
    world.leases.free.add("nobody")
    world.settle()
    assert not world.exists(PATH)
    assert not any(path.startswith(MAPS) for path in world.cluster.objects)


def test_a_new_one_that_nobody_claims_is_installed_by_the_default_shard(world: World) -> None:
    world.delete()
    world.settle()
    world.wish("v1")
    label(world, "nobody")
    look(world, "nobody")
    world.settle()
    assert not world.exists(A)
    look(world, "nobody", abandoned=True)
    world.settle()
    assert world.exists(A, OLD)
    assert world.conditions["Ready"] == "True Ready"


def taken_back(world: World, clock: list[float]) -> None:
    label(world, "nobody")
    world.reconcile()
    look(world, "nobody", abandoned=True)
    clock[0] = REPORTED_SECONDS
    world.leases.free.add("nobody")
    world.settle()


def test_what_was_taken_back_is_handed_over_when_its_shard_is_served(world: World, clock: list[float]) -> None:
    taken_back(world, clock)
    look(world)
    world.reconcile()
    assert (status(world)["shard"], world.conditions["Ready"]) == ("nobody", "Unknown HandedToShard")
    serve(world, "nobody")
    world.settle()
    assert shards_of_objects(world) == {"nobody"}


def test_after_a_restart_what_was_taken_back_is_not_handed_over_to_nobody(world: World, clock: list[float]) -> None:
    taken_back(world, clock)
    serve(world, "")
    world.watches.unserved, world.watches.abandoned = None, frozenset()
    assert world.reconcile().after == SURVEY_SECONDS
    assert world.requests() == []
    look(world, "nobody")
    world.cluster.remove(A)
    world.settle()
    assert world.exists(A)
    assert status(world).get("shard", "") == ""


def test_one_that_moves_to_another_shard_that_nobody_serves_stays(world: World, clock: list[float]) -> None:
    taken_back(world, clock)
    label(world, "")
    world.settle()
    assert (status(world).get("shard", ""), world.conditions["Ready"]) == ("", "True Ready")
    assert world.exists(A, OLD)


def test_a_named_shard_takes_nothing_that_nobody_serves(world: World) -> None:
    label(world, "a")
    world.reconcile()
    serve(world, "a")
    world.settle()
    label(world, "nobody")
    world.reconcile()
    assert (status(world)["shard"], world.conditions["Ready"]) == ("nobody", "Unknown HandedToShard")
    world.settle()
    assert status(world)["shard"] == "nobody"
