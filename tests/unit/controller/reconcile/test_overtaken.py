"""Two controllers at once, one of which is behind: what its pass was about to do, and what becomes of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.execute import Applier
from rukpak.controller.building.revision import PackedRevision, Revision
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.reconcile.reconciler import OVERTAKEN, Reconciler
from tests.support.fake_cluster import Json
from tests.support.reconciling import NAME, PATH, World

MAPS = "/api/v1/namespaces/shop/configmaps"
A, OLD, NEW = f"{MAPS}/a", f"{MAPS}/old", f"{MAPS}/new"
HOOK = f"{MAPS}/hook"
DONE = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}


def config_map(name: str, value: str = "1", **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": value}}


def hook(event: str) -> Json:
    manifest = {**config_map("hook"), "metadata": {"name": "hook", "namespace": "shop"}}
    return {"manifest": manifest, "events": [event], "weight": 0, "deletePolicies": ["before-hook-creation"]}


class Worlds(World):
    """One with a controller after the other, none of which stops."""

    def __init__(self) -> None:
        self.appliers: list[Applier] = []
        super().__init__()

    def start(self) -> None:
        super().start()
        self.appliers.append(self.applier)


@pytest.fixture
def world() -> Iterator[World]:
    made = Worlds()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", config_map("a"), config_map("old"))
    made.shelf.put("v2", config_map("a", "2"))
    made.shelf.put("v3", config_map("a", "3"), config_map("new"))
    made.shelf.put("hooked", config_map("a", "4"), hooks=[hook("pre-upgrade")])
    made.shelf.put("edited", config_map("a", "5"), config_map("old"))
    yield made
    for each in made.appliers:
        each.stop()


def install(world: World, tag: str, **spec: Any) -> None:
    world.wish(tag, **spec)
    world.settle()


class Overtaken(NamedTuple):
    before: Callable[[World], object]
    """What the first controller has done, and knows."""
    meanwhile: Callable[[World], object]
    """What the second one does, which only the objects show to the first one."""
    exist: set[str]
    """What exists then, and still does after the pass of the first one."""


def installed(world: World) -> None:
    install(world, "v1")


def upgraded(world: World) -> None:
    install(world, "v2")


def begin_upgrade(tag: str) -> Callable[[World], None]:
    def _begin(world: World) -> None:
        installed(world)
        world.wish(tag)

    return _begin


def edit_and_upgrade(world: World) -> None:
    """An object as the watch of the first one shows it was edited, and then pruned."""
    world.cluster.edit(OLD, data={"a": "edited"})
    seen = next(record for key, record in world.watches.objects.of(NAME).items() if key.name == "old")
    upgraded(world)
    world.watches.objects.behind[seen.key] = seen


def recorded_another(world: World) -> None:
    """The spec is the same, and a tag was moved: only the recorded revision tells."""
    world.shelf.put("v1", config_map("a", "moved"))
    world.ask("now")
    world.settle()


CASES = {
    "an object that was pruned is not created again": Overtaken(installed, upgraded, {A}),
    "an object that was edited and then pruned is not created again": Overtaken(installed, edit_and_upgrade, {A}),
    "an object that a moved tag has lost is not created again": Overtaken(installed, recorded_another, {A}),
    "an upgrade that was given up creates nothing": Overtaken(begin_upgrade("v3"), upgraded, {A}),
    "an upgrade that was given up prunes nothing": Overtaken(begin_upgrade("v2"), installed, {A, OLD}),
    "the hook of an upgrade that was given up is not run": Overtaken(begin_upgrade("hooked"), upgraded, {A}),
}


def maps(world: World) -> set[str]:
    return {path for path in world.cluster.objects if path.startswith(f"{MAPS}/")}


def act_behind(world: World, case: Overtaken) -> tuple[Reconciler, Json]:
    """Have the second controller act; return the first one, and the BundleDeployment as its watch shows it."""
    case.before(world)
    first, shown = world.reconciler, copy.deepcopy(world.cluster.objects[PATH])
    world.start()
    case.meanwhile(world)
    world.cluster.taken()
    return first, shown


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_an_overtaken_pass_does(case: Overtaken, world: World) -> None:
    first, shown = act_behind(world, case)
    assert maps(world) == case.exist
    before = copy.deepcopy({path: world.cluster.objects[path] for path in (PATH, *case.exist)})
    world.watches.deployments.silent[NAME] = shown

    for _ in range(3):  # by then it knows
        with suppress(ApiError):  # a 409: the pass is repeated
            first.reconcile(NAME)

    assert maps(world) == case.exist
    world.watches.objects.behind.clear()
    world.settle()
    assert maps(world) == case.exist
    assert world.conditions == DONE
    if case.meanwhile is not recorded_another:
        assert {path: world.cluster.objects[path]["data"] for path in case.exist} == {
            path: before[path]["data"] for path in case.exist
        }


def test_an_overtaken_pass_reverts_at_most_what_exists_and_writes_no_status(world: World) -> None:
    first, shown = act_behind(world, CASES["an object that was pruned is not created again"])
    status = world.cluster.objects[PATH]["status"]
    world.watches.deployments.silent[NAME] = shown

    requeue = first.reconcile(NAME)

    assert requeue == OVERTAKEN
    assert world.cluster.objects[PATH]["status"] == status
    written = [request for request in world.cluster.taken() if not request.startswith(("GET", "LIST"))]
    assert written in ([], [f"APPLY {A}"])  # both are sent at the same time, and the other one ends the pass


BEHIND = {"a newer spec": "edited", "a moved tag": "v1"}


@pytest.mark.parametrize("tag", BEHIND.values(), ids=BEHIND)
def test_a_pass_that_is_behind_does_not_hide_what_another_one_has_recorded(tag: str, world: World) -> None:
    """Its watch is silent, and it has something else to tell: an object that is healthy no more."""
    installed(world)
    first, shown = world.reconciler, copy.deepcopy(world.cluster.objects[PATH])
    world.start()
    world.shelf.put("v1", config_map("a", "moved"), config_map("old"))
    if tag == "v1":
        world.ask("now")
    else:
        world.wish(tag)
    world.settle()
    status = copy.deepcopy(world.cluster.objects[PATH]["status"])
    world.watches.deployments.silent[NAME] = shown
    make_ours(world, config_map("stray"))

    with suppress(ApiError):
        first.reconcile(NAME)

    assert world.cluster.objects[PATH]["status"] == status


def test_a_status_that_another_client_changed_stops_no_repair(world: World) -> None:
    installed(world)
    world.cluster.patch(PATH, {"status": {"revision": f"sha256:{'0' * 64}"}})
    world.cluster.remove(OLD)

    world.settle()

    assert world.exists(OLD)
    assert world.conditions == DONE


# what is left over although a pass is fenced: its request was under way


class Left(NamedTuple):
    tags: list[str]
    """The revisions that were installed, one after the other."""
    spec: Json
    made: Json
    """What an overtaken pass has made since."""
    is_pruned: bool


LEFT = {
    "an object of the revision before": Left(["v1", "v2"], {}, config_map("old"), True),
    "one of an earlier revision": Left(["v1", "v2", "v3"], {}, config_map("old"), True),
    "one of a revision that the history has dropped": Left(
        ["v1", "v2", "v3"], {"revisionHistoryLimit": 0}, config_map("old"), True
    ),
    "one of a revision that is pruned at once": Left(["v1", "v2"], {"prune": "AfterApply"}, config_map("old"), True),
    "one that no revision named": Left(["v1", "v2"], {}, config_map("other"), False),
    "one where nothing is ever pruned": Left(["v1", "v2"], {"prune": "Never"}, config_map("old"), False),
}


def make_ours(world: World, manifest: Json, **marks: Any) -> str:
    """Make an object as a pass does; `marks` differ."""
    uid = world.deployment.metadata.uid
    owner = {"apiVersion": "core.rukpak.io/v1alpha2", "kind": "BundleDeployment", "name": NAME, "uid": uid}
    metadata = {
        "name": manifest["metadata"]["name"],
        "namespace": "shop",
        "labels": {names.OWNER_LABEL: NAME},
        "annotations": {names.OWNER_UID: uid},
        "ownerReferences": [{**owner, "controller": True}],
        **marks,
    }
    world.cluster.put({**manifest, "metadata": metadata})
    return world.cluster.path({**manifest, "metadata": metadata})


@pytest.mark.parametrize("restarts", [False, True], ids=["in one process", "after a restart"])
@pytest.mark.parametrize("case", LEFT.values(), ids=LEFT)
def test_what_an_overtaken_pass_leaves_is_pruned_if_an_earlier_revision_named_it(
    case: Left, restarts: bool, world: World
) -> None:
    for tag in case.tags:
        install(world, tag, **case.spec)
    path = make_ours(world, case.made)
    if restarts:
        world.restart()

    world.settle()

    assert (not world.exists(path)) is case.is_pruned
    strays = [] if case.is_pruned or case.spec.get("prune") == "Never" else [case.made["metadata"]["name"]]
    assert [each.name for each in world.deployment.status.strays] == strays
    assert world.deployment.status.objects.strays == len(strays)
    assert world.conditions == DONE | ({"Drifted": "True Strays"} if strays else {})
    kept = {"AfterHealthy": 0, "AfterApply": 0, "Never": 1}[case.spec.get("prune", "AfterHealthy")]
    assert world.deployment.status.objects.retained == kept


FORGED = {
    "of another owner": {"annotations": {names.OWNER_UID: "another"}},
    "without a controller reference": {"ownerReferences": []},
}


@pytest.mark.parametrize("marks", FORGED.values(), ids=FORGED)
def test_what_lacks_a_mark_is_not_pruned_although_an_earlier_revision_named_it(marks: Json, world: World) -> None:
    install(world, "v1")
    install(world, "v2")
    path = make_ours(world, config_map("old"), **marks)
    world.settle()
    assert world.exists(path)


def test_a_deletion_takes_what_an_earlier_revision_named(world: World) -> None:
    install(world, "v1", deletionPolicy="Delete")
    install(world, "v2")
    path = make_ours(world, config_map("old"))
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert not world.exists(path)


def test_what_a_later_revision_names_again_is_not_pruned(world: World) -> None:
    install(world, "v1")
    install(world, "v2")
    install(world, "v1")
    world.restart()
    world.settle()
    assert world.exists(OLD)
    assert world.conditions == DONE


def test_strays_are_counted_and_the_first_are_named(world: World) -> None:
    install(world, "v1")
    for number in range(25):
        make_ours(world, config_map(f"stray-{number:02}"))
    world.settle()
    status = world.deployment.status
    assert status.objects.strays == 25
    assert [each.name for each in status.strays] == [f"stray-{number:02}" for number in range(20)]
    assert world.message("Drifted") == (
        "ConfigMap shop/stray-00, ConfigMap shop/stray-01, ConfigMap shop/stray-02, ConfigMap shop/stray-03, "
        "ConfigMap shop/stray-04 and 20 more: marked as owned by this BundleDeployment but not part of any of its "
        'revisions; not changed; delete with "rukpak prune shop", or remove the label '
        "core.rukpak.io/bundle-deployment"
    )
    for path in maps(world) - {A, OLD}:
        world.cluster.remove(path)
    world.settle()
    assert (world.deployment.status.objects.strays, world.deployment.status.strays) == (0, ())
    assert world.conditions == DONE


def test_strays_are_found_while_paused(world: World) -> None:
    install(world, "v1")
    install(world, "v1", paused=True)
    make_ours(world, config_map("stray"))
    world.settle()
    assert world.conditions["Drifted"] == "True Strays"
    world.cluster.edit(A, data={"a": "edited"})
    world.settle()
    assert world.conditions["Drifted"] == "True Paused"
    assert world.message("Drifted").endswith("; status.strays names objects that no revision contains")


def test_without_room_for_the_names_of_earlier_revisions_what_they_had_is_only_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = world.revision_store.write

    def _refuse(name: str, revision: Revision | PackedRevision, uid: str = "") -> None:
        if revision.terms.past:
            raise BundleError(Reason.QUOTA_EXCEEDED, "no room")
        write(name, revision, uid)

    monkeypatch.setattr(world.revision_store, "write", _refuse)
    install(world, "v1")
    install(world, "v2")
    assert world.conditions == DONE
    make_ours(world, config_map("old"))
    world.settle()
    assert [each.name for each in world.deployment.status.strays] == ["old"]
