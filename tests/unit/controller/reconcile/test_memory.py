from __future__ import annotations

from rukpak.api.v1alpha2.types import ObjectMeta
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.reconcile.memory import DELETED, LISTING, Memories, Memory
from rukpak.controller.reconcile.reconciler import SOON_SECONDS


def meta(name: str = "shop", uid: str = "uid-1") -> ObjectMeta:
    return ObjectMeta(name=name, uid=uid)


def test_a_bundle_deployment_keeps_its_memory() -> None:
    memories = Memories()
    assert memories.of(meta()) is memories.of(meta())


def test_one_that_was_made_again_under_its_name_starts_anew() -> None:
    memories = Memories()
    assert memories.of(meta(uid="uid-1")) is not memories.of(meta(uid="uid-2"))


def test_one_that_is_gone_is_forgotten() -> None:
    memories = Memories()
    before = memories.of(meta())
    memories.drop("shop")
    assert memories.of(meta()) is not before
    memories.drop("never seen")


def test_bundle_deployments_that_wait_for_a_change_are_named() -> None:
    memories = Memories()
    memories.of(meta("a")).awaits_change = True
    memories.of(meta("b"))
    assert memories.cluster_changed() == ["a"]


def test_what_came_in_the_midst_of_a_pass_is_not_missed() -> None:
    memories = Memories()
    memory = memories.of(meta())
    assert memories.cluster_changed() == []
    assert not memories.missed(memory)
    memory.awaits_change = True
    assert memories.missed(memory)
    assert memories.begin_pass(memory)
    assert not memories.missed(memory)
    assert not memories.begin_pass(memory)


def test_at_rest_nothing_is_kept_that_grows_with_the_bundle() -> None:
    memory = Memory(uid="uid-1")
    memory.stored.read["sha256:a"] = Revision(
        digest="sha256:a", objects=(), terms=Terms(inputs="", install_namespace="shop")
    )
    memory.stored.before["sha256:a"] = "sha256:b"
    memory.awaits_change = True
    memory.rest()
    assert not memory.stored.read
    assert not memory.stored.before
    assert memory.awaits_change


def test_while_the_wanted_revision_cannot_be_had_the_one_that_every_pass_compares_with_stays() -> None:
    memory = Memory(uid="uid-1")
    for digest in ("sha256:a", "sha256:b"):
        terms = Terms(inputs="", install_namespace="shop")
        memory.stored.read[digest] = Revision(digest=digest, objects=(), terms=terms)
    memory.rest(["sha256:a"])
    assert list(memory.stored.read) == ["sha256:a"]


def test_a_deletion_is_as_old_as_this_process_has_known_it() -> None:
    now = [50.0]
    memory = Memory(uid="uid-1", clock=lambda: now[0])
    now[0] += 100
    assert memory.seconds_since(DELETED) == 0
    now[0] += 7
    assert memory.seconds_since(DELETED) == 7


def test_a_list_that_lasts_is_news_after_a_while() -> None:
    now = [50.0]
    memory = Memory(uid="uid-1", clock=lambda: now[0])
    assert memory.seconds_since(LISTING) < SOON_SECONDS
    now[0] += SOON_SECONDS - 1
    assert memory.seconds_since(LISTING) < SOON_SECONDS
    now[0] += 1
    assert memory.seconds_since(LISTING) >= SOON_SECONDS
