from __future__ import annotations

from collections.abc import Iterator

import pytest

from rukpak.api import names
from rukpak.api.plugins import Limits
from rukpak.controller.building.revision import PackedRevision
from rukpak.controller.revisions import store
from rukpak.controller.revisions import store as revisions
from rukpak.controller.sharing import Admission
from tests.support.deployments import make_store
from tests.support.fake_cluster import Json
from tests.support.reconciling import NAME, PATH, World

MAP = "/api/v1/namespaces/shop/configmaps/a"


def great(value: str) -> Json:
    data = {"a": value, **{f"k{index}": "" for index in range(1100)}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(store, "INLINE", Limits(text_bytes=100_000, nodes=1000))
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.packs = True
    made.shelf.put("v1", great("1"))
    made.shelf.put("v2", great("2"))
    yield made
    made.applier.stop()


def held_after_a_pass(world: World) -> list[str]:
    memory = world.memory
    return [*memory.stored.read, *(digest for digest, _ in memory.stored.targets), *memory.stored.packed]


@pytest.mark.thorough
def test_a_large_revision_is_installed_and_upgraded_as_any_other(world: World) -> None:
    world.wish("v1")
    world.settle()
    assert world.cluster.objects[MAP]["data"]["a"] == "1"
    world.wish("v2")
    world.settle()
    assert world.cluster.objects[MAP]["data"]["a"] == "2"
    assert world.conditions["Ready"] == "True Ready"


@pytest.mark.thorough
def test_nothing_of_it_is_held_between_passes(world: World) -> None:
    world.wish("v1", drift={"mode": "Report"})
    for _ in range(4):
        world.reconcile()
        assert (held_after_a_pass(world), world.admission._turns.active) == ([], 0)


def test_a_pass_waits_for_room_and_is_woken(world: World) -> None:
    world.admission = Admission(1 << 30)
    world.restart()
    assert world.admission.ask("another", "other", 1 << 30, lambda: None)
    world.wish("v1")
    for _ in range(3):
        world.reconcile()
    assert MAP not in world.cluster.objects
    builds = world.shelf.calls.count("build v1")
    assert builds == 1
    world.admission.release("another")
    assert world.woken == [NAME]
    world.settle()
    assert world.cluster.objects[MAP]["data"]["a"] == "1"
    assert (world.shelf.calls.count("build v1"), world.admission._turns.active) == (builds, 0)


def test_who_is_gone_waits_no_more(world: World) -> None:
    world.admission = Admission(1 << 30)
    world.restart()
    world.admission.ask("another", "other", 1 << 30, lambda: None)
    world.wish("v1")
    world.reconcile()
    world.reconcile()
    assert world.admission._turns.waiting == 1
    del world.cluster.objects[PATH]
    world.reconcile()
    assert world.admission._turns.waiting == 0


def test_what_takes_too_much_unpacked_is_not_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "TEXT_BYTES", 10_000)
    world.wish("v1")
    world.settle()
    assert world.conditions["Installed"] == "False TooLarge"
    assert MAP not in world.cluster.objects


@pytest.mark.thorough
def test_what_is_packed_is_what_was_made(world: World) -> None:
    world.wish("v1")
    world.settle()
    digest = world.cluster.objects[PATH]["status"]["installedRevision"]
    packed = make_store(world.cluster.client, names.DEFAULT_NAMESPACE).read_packed(NAME, digest)
    assert isinstance(packed, PackedRevision)
    assert packed.unpacked().objects[0]["data"] == great("1")["data"]
