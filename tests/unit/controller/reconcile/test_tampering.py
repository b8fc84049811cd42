"""What other clients do to the controller's own records: its status and its revision Secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.kube.errors import ApiError
from tests.support.fake_cluster import DEFINITIONS, Json
from tests.support.reconciling import NAME, PATH, World

A, B, OLD = (f"/api/v1/namespaces/shop/configmaps/{name}" for name in ("a", "b", "old"))
WIDGETS = DEFINITIONS.path(name="widgets.example.com")
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}
LOST = {**READY, "Unpacked": "False Unreachable", "Reconciling": "True Unreachable"}


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


def definition() -> Json:
    spec = {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced"}
    about = {"name": "widgets.example.com"}
    return {"apiVersion": DEFINITIONS.api_version, "kind": DEFINITIONS.kind, "metadata": about, "spec": spec}


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with an installed bundle of two ConfigMaps, and another version of it."""
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", config_map("a"), config_map("old"))
    made.shelf.put("v2", config_map("a", "2"), config_map("b"))
    made.watches.objects.unwatched.add("Bogus")
    made.shelf.put("defines", definition(), config_map("a"))
    install(made, "v1")
    yield made
    made.applier.stop()


def install(world: World, tag: str, **spec: Any) -> None:
    world.wish(tag, **spec)
    world.settle()


def status_of(world: World) -> Json:
    found: Json = world.cluster.objects[PATH]["status"]
    return found


def garble(world: World, **status: Any) -> None:
    """Change fields of the status as another client; without any, wipe it."""
    known = world.cluster.objects[PATH]["status"]
    world.cluster.edit(PATH, status={**known, **status} if status else {})


def secrets(world: World) -> list[str]:
    return [path for path in world.cluster.objects if "/secrets/revision." in path]


class Garbled(NamedTuple):
    name: str
    status: Json


GARBLED = [
    Garbled("all of it is wiped", {}),
    Garbled("kinds that are none", {"managedKinds": ["nonsense", "a/b/c/d", ""]}),
    Garbled("no kinds", {"managedKinds": []}),
    Garbled("a kind that nothing serves", {"managedKinds": ["example.com/v1/Bogus", "v1/ConfigMap"]}),
    Garbled("a revision that is none", {"revision": "../../x%"}),
    Garbled("an installed revision that is none", {"installedRevision": "a/b"}),
    Garbled("neither revision is one", {"revision": "x", "installedRevision": "y"}),
    Garbled("another revision", {"revision": "sha256:" + "0" * 64, "installedRevision": "sha256:" + "0" * 64}),
    Garbled("a state that is none", {"managedState": "great"}),
    Garbled("pins of other content", {"sources": []}),
    Garbled("an unknown reason", {"conditions": [
        {"type": "Healthy", "status": "True", "reason": "Splendid", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
    Garbled("a time that is none", {"conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-02-31T00:00:00Z"}]}),
]  # fmt: skip

FOUND_OUT_AGAIN = [each for each in GARBLED if each.name != "a kind that nothing serves"]


@pytest.mark.parametrize("case", FOUND_OUT_AGAIN, ids=attrgetter("name"))
def test_a_garbled_status_is_found_out_again(case: Garbled, world: World) -> None:
    before = status_of(world)
    garble(world, **case.status)
    world.settle()
    assert without_times(status_of(world)) == without_times(before)
    assert world.shelf.calls == ["resolve v1", "build v1"]


def without_times(status: Json) -> Json:
    conditions = [{**each, "lastTransitionTime": ""} for each in status["conditions"]]
    return {**status, "conditions": conditions}


@pytest.mark.parametrize("case", GARBLED, ids=attrgetter("name"))
def test_after_a_restart_a_garbled_status_is_found_out_again_without_touching_objects(
    case: Garbled, world: World
) -> None:
    before, objects = status_of(world), [world.cluster.objects[path] for path in (A, OLD)]
    garble(world, **case.status)
    world.restart()
    world.settle()
    shown = status_of(world)
    assert world.conditions == READY
    compared = ("revision", "installedRevision", "managedState", "managedKinds", "objects", "observedGeneration")
    assert {key: shown[key] for key in compared} == {key: before[key] for key in compared}
    assert [world.cluster.objects[path] for path in (A, OLD)] == objects
    assert shown["sources"] == before["sources"]
    assert world.shelf.calls == ["resolve v1", "build v1"]


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("case", GARBLED, ids=attrgetter("name"))
def test_with_a_garbled_status_everything_is_deleted(case: Garbled, world: World, *, restarts: bool) -> None:
    install(world, "defines")
    garble(world, **case.status)
    if restarts:
        world.restart()
    world.delete()
    seconds = 0
    while PATH in world.cluster.objects and seconds < 10:
        world.reconcile()
        seconds += 1
    assert not world.exists(PATH)
    left = [path for path in (A, WIDGETS, *secrets(world)) if world.exists(path)]
    assert left == []
    assert {"ConfigMap", "CustomResourceDefinition"} <= seen_kinds(world)


def seen_kinds(world: World) -> set[str]:
    """Return the kinds that were ever required; a FakeWatches shows others, too."""
    return world.watches.objects.ever_needed


@pytest.mark.parametrize("case", GARBLED, ids=attrgetter("name"))
def test_after_a_restart_with_a_garbled_status_an_upgrade_prunes_and_leaves_one_revision(
    case: Garbled, world: World
) -> None:
    garble(world, **case.status)
    world.restart()
    install(world, "v2", revisionHistoryLimit=0)
    assert world.conditions == READY
    assert (world.exists(A, B), world.exists(OLD)) == (True, False)
    assert len(secrets(world)) == 1


def test_a_status_that_went_back_with_the_whole_cluster_is_believed(world: World) -> None:
    backup = world.cluster.objects[PATH]
    install(world, "v2")
    world.cluster.objects[PATH] = backup
    world.reconcile()
    assert [pin.resolved.partition("@")[0] for pin in world.deployment.status.sources] == ["v1"]


def test_the_status_of_one_that_was_recreated_meanwhile_is_not_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_patch = world.cluster.json_patch

    def recreate(*arguments: Any, **options: Any) -> Any:
        value = world.cluster.objects[PATH]
        world.cluster.put({**value, "metadata": {**value["metadata"], "uid": "another"}, "status": {}})
        return json_patch(*arguments, **options)

    monkeypatch.setattr(world.cluster, "json_patch", recreate)
    world.wish("v2")
    with pytest.raises(ApiError) as raised:
        world.reconcile()
    assert raised.value.status == 409
    assert status_of(world) == {}


# revision Secrets


def remove(world: World) -> None:
    for path in secrets(world):
        world.cluster.remove(path)


def corrupt(world: World) -> None:
    for path in secrets(world):
        value = world.cluster.edit(path, data={"objects": "AAAA", "terms": "AAAA"})
        assert value["data"]["objects"] == "AAAA"


DAMAGES: list[Callable[[World], None]] = [remove, corrupt]


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_revision_is_stored_again_although_nothing_else_is_to_do(
    damage: Callable[[World], None], world: World, *, restarts: bool
) -> None:
    before = {path: world.cluster.objects[path]["data"] for path in secrets(world)}
    objects = world.cluster.objects[A]
    damage(world)
    if restarts:
        world.restart()
    world.settle()
    assert {path: world.cluster.objects[path]["data"] for path in secrets(world)} == before
    assert (world.conditions, world.cluster.objects[A]) == (READY, objects)
    world.reconcile()
    assert world.requests() == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_while_it_cannot_be_built_again_status_says_so_and_what_is_installed_stays_ready(
    damage: Callable[[World], None], world: World
) -> None:
    digest = world.shelf.tags["v1"]
    content = world.shelf.contents[digest]
    world.shelf.contents[digest] = BundleError(Reason.UNREACHABLE, "no")
    damage(world)
    world.reconcile()
    assert world.conditions == LOST
    assert world.message("Unpacked").endswith("until it is stored again, no object can be repaired: no")
    world.shelf.contents[digest] = content
    world.seconds += 4000
    world.settle()
    assert world.conditions == READY


def test_while_it_is_being_built_again_what_is_installed_stays_ready(world: World) -> None:
    remove(world)
    world.background.busy = True
    world.reconcile()
    assert world.conditions == {**READY, "Unpacked": "False Fetching", "Reconciling": "True Fetching"}
    world.background.busy = False
    world.settle()
    assert world.conditions == READY


def test_while_a_pass_has_it_in_memory_it_is_stored_again_without_a_source(world: World) -> None:
    world.wish("v1", paused=True)
    world.settle()
    world.shelf.contents.clear()
    remove(world)
    world.settle()
    assert len(secrets(world)) == 1
    assert world.shelf.calls == ["resolve v1", "build v1"]


def test_a_whole_revision_of_another_client_is_ours_again(world: World) -> None:
    (path,) = secrets(world)
    fields = world.cluster.objects[path]
    world.cluster.put({**fields, "metadata": {**fields["metadata"], "managedFields": [{"manager": "backup"}]}})
    world.settle()
    assert world.shelf.calls == ["resolve v1", "build v1"]
    managers = {entry["manager"] for entry in world.cluster.objects[path]["metadata"]["managedFields"]}
    assert "rukpak-revisions" in managers


class Superseded(NamedTuple):
    name: str
    before: Callable[[World], object]


SUPERSEDED = [
    Superseded("one that can be read", lambda _world: None),
    Superseded("one that cannot be read", corrupt),
    Superseded("one that status does not name", lambda world: garble(world, installedRevision="", managedState="")),
    Superseded("one that a lost status named", garble),
]


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("case", SUPERSEDED, ids=attrgetter("name"))
def test_a_superseded_revision_goes_when_the_new_one_is_installed(
    case: Superseded, world: World, *, restarts: bool
) -> None:
    case.before(world)
    if restarts:
        world.restart()
    install(world, "v2", revisionHistoryLimit=0)
    is_lost = case.before is corrupt  # and with it what only it named
    assert world.conditions == READY | ({"Drifted": "True Strays"} if is_lost else {})
    assert len(secrets(world)) == 1
    assert names.DEFAULT_NAMESPACE in secrets(world)[0]
    assert NAME in secrets(world)[0]
