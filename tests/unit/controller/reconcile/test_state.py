from __future__ import annotations

from api.v1alpha2.types import ObjectMeta
from controller.build.revision import Revision, Terms
from controller.reconcile.state import SOON_SECONDS, State, States


def meta(name: str = "shop", uid: str = "uid-1") -> ObjectMeta:
    return ObjectMeta(name=name, uid=uid)


def test_a_bundle_deployment_keeps_its_memory() -> None:
    states = States()
    assert states.of(meta()) is states.of(meta())


def test_one_that_was_made_again_under_its_name_starts_anew() -> None:
    states = States()
    assert states.of(meta(uid="uid-1")) is not states.of(meta(uid="uid-2"))


def test_one_that_is_gone_is_forgotten() -> None:
    states = States()
    before = states.of(meta())
    states.forget("shop")
    assert states.of(meta()) is not before
    states.forget("never seen")


def test_bundle_deployments_that_wait_for_a_change_are_named() -> None:
    states = States()
    states.of(meta("a")).awaits_change = True
    states.of(meta("b"))
    assert states.cluster_changed() == ["a"]


def test_what_came_in_the_midst_of_a_pass_is_not_missed() -> None:
    states = States()
    state = states.of(meta())
    assert states.cluster_changed() == []
    assert not states.missed(state)
    state.awaits_change = True
    assert states.missed(state)
    assert states.begin_pass(state)
    assert not states.missed(state)
    assert not states.begin_pass(state)


def test_at_rest_nothing_is_kept_that_grows_with_the_bundle() -> None:
    state = State(uid="uid-1")
    state.revisions["sha256:a"] = Revision(
        digest="sha256:a", objects=(), terms=Terms(inputs="", install_namespace="shop")
    )
    state.before["sha256:a"] = "sha256:b"
    state.awaits_change = True
    state.rest()
    assert not state.revisions
    assert not state.before
    assert state.awaits_change


def test_while_the_wanted_revision_cannot_be_had_the_one_that_every_pass_compares_with_stays() -> None:
    state = State(uid="uid-1")
    for digest in ("sha256:a", "sha256:b"):
        terms = Terms(inputs="", install_namespace="shop")
        state.revisions[digest] = Revision(digest=digest, objects=(), terms=terms)
    state.rest(["sha256:a"])
    assert list(state.revisions) == ["sha256:a"]


def test_a_deletion_is_as_old_as_this_process_has_known_it() -> None:
    now = [50.0]
    state = State(uid="uid-1", clock=lambda: now[0])
    now[0] += 100
    assert state.deletion_age() == 0
    now[0] += 7
    assert state.deletion_age() == 7


def test_a_list_that_lasts_is_news_after_a_while() -> None:
    now = [50.0]
    state = State(uid="uid-1", clock=lambda: now[0])
    assert state.is_listing_new()
    now[0] += SOON_SECONDS - 1
    assert state.is_listing_new()
    now[0] += 1
    assert not state.is_listing_new()
