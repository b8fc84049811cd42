"""A BundleDeployment that moves to another shard: the one controller leaves it, the other adopts it as it is.

Both act on the same cluster. The watch of the first may be silent: then only the API server tells that it has moved.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.apply.execute import Applier
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.reconcile.context import NEVER
from tests.support.fake_cluster import FakeWatches, Json
from tests.support.reconciling import NAME, PATH, World

MAPS = "/api/v1/namespaces/shop/configmaps"
A, OLD, NEW = f"{MAPS}/a", f"{MAPS}/old", f"{MAPS}/new"
WRITES = ("PATCH", "MERGE", "APPLY", "TRY", "DELETE", "CREATE", "POST")


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


class Both(World):
    """A cluster with the controllers of the default shard and of the shard `a`, which are `first` and `reconciler`."""

    def __init__(self) -> None:
        self.appliers: list[Applier] = []
        super().__init__()
        self.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        self.shelf.put("v1", config_map("a"), config_map("old"))
        self.shelf.put("v2", config_map("a", "2"))
        self.shelf.put("v3", config_map("a", "3"), config_map("old"), config_map("new"))
        self.wish("v1")
        self.settle()
        self.first, self.first_watches = self.reconciler, self.watches

    def start(self) -> None:
        super().start()
        self.appliers.append(self.applier)

    def serve(self, shard: str) -> None:
        """Start the controller of another shard, with watches of its own."""
        self.watches = FakeWatches(self.cluster)
        self.watches.deployments.shard = shard
        self.start()
        self.cluster.taken()

    def move(self, shard: str) -> None:
        self.cluster.patch(PATH, {"metadata": {"labels": {names.SHARD: shard or None}}})

    def maps(self) -> dict[str, Json]:
        found = {path: value for path, value in self.cluster.objects.items() if path.startswith(MAPS)}
        return {path.removeprefix(f"{MAPS}/"): value["data"] for path, value in found.items()}

    def written(self) -> list[str]:
        return [request for request in self.cluster.taken() if request.startswith(WRITES)]


@pytest.fixture
def world() -> Iterator[Both]:
    made = Both()
    yield made
    for each in made.appliers:
        each.stop()


V1, V2 = {"a": {"a": "1"}, "old": {"a": "1"}}, {"a": {"a": "2"}}


def test_the_one_that_leaves_it_forgets_it_and_writes_nothing(world: Both) -> None:
    world.move("a")
    world.cluster.taken()
    assert world.first.reconcile(NAME) == NEVER
    assert world.cluster.taken() == []
    assert world.first.memories.drop(NAME) is None
    assert world.first_watches.objects.needed.get(NAME) is None
    assert world.sweeps.times == 0  # its revisions are in use
    world.cluster.remove(A)
    world.first.reconcile(NAME)
    assert not world.exists(A)


def test_the_other_one_adopts_it_as_it_is(world: Both) -> None:
    before = copy.deepcopy(world.cluster.objects)
    world.move("a")
    world.serve("a")
    world.reconcile_until_idle()
    assert world.written() == []
    assert {**world.cluster.objects, PATH: before[PATH]} == before
    assert world.cluster.objects[PATH]["status"] == before[PATH]["status"]

    world.cluster.edit(A, data={"a": "edited"})
    world.settle()
    assert world.maps() == V1


def test_it_moves_there_and_back(world: Both) -> None:
    world.serve("a")
    for shard, reconciler in (("a", world.reconciler), ("", world.first)):
        world.move(shard)
        for each in (world.first, world.reconciler):
            each.reconcile(NAME)
        world.cluster.remove(OLD)
        for _ in range(3):
            reconciler.reconcile(NAME)
        assert world.maps() == V1, shard


def test_one_that_moves_to_a_shard_that_nobody_serves_stays_as_it_is_until_somebody_does(world: Both) -> None:
    status = copy.deepcopy(world.cluster.objects[PATH]["status"])
    world.move("nobody")
    world.first.reconcile(NAME)
    assert world.cluster.objects[PATH]["status"] == status
    world.move("")
    world.cluster.remove(OLD)
    for _ in range(3):
        world.first.reconcile(NAME)
    assert world.maps() == V1


def test_a_new_one_is_installed_by_the_one_that_its_label_names(world: Both) -> None:
    world.delete()
    world.settle()
    world.wish("v1")
    world.move("a")
    world.first.reconcile(NAME)
    assert world.maps() == {}
    assert world.cluster.objects[PATH]["status"] == {"observedGeneration": -1}
    world.serve("a")
    world.settle()
    assert (world.maps(), world.conditions["Ready"]) == (V1, "True Ready")


def test_after_a_move_an_upgrade_prunes_what_the_earlier_shard_has_installed(world: Both) -> None:
    world.wish("v2")
    world.move("a")
    world.serve("a")
    world.settle()
    assert (world.maps(), world.conditions["Ready"]) == (V2, "True Ready")


def test_a_paused_one_is_adopted_and_shows_no_drift(world: Both) -> None:
    world.wish("v1", paused=True)
    world.settle()
    world.move("a")
    world.serve("a")
    world.reconcile()
    assert "Drifted" not in world.conditions
    assert world.conditions["Ready"] == "True Ready"


# both at once


class AtOnce(NamedTuple):
    begin: Callable[[Both], object]
    """What a user asks of the first controller, in one step with the move."""
    meanwhile: Callable[[Both], object]
    """What happens once it has moved; the second controller acts on it."""
    expect: dict[str, Any] | None
    """The objects in the end; None: the BundleDeployment is gone, too."""


def _nothing(_world: Both) -> None:
    pass


def _wish(tag: str) -> Callable[[Both], None]:
    return lambda world: world.wish(tag)


def _delete(world: Both) -> None:
    world.delete()


def _delete_as_orphan(world: Both) -> None:
    world.wish("v1", deletionPolicy="Orphan")
    world.delete()


AT_ONCE = {
    "one that only moves": AtOnce(_nothing, _nothing, V1),
    "one that is upgraded once it has moved": AtOnce(_nothing, _wish("v2"), V2),
    "one whose upgrade was asked for before": AtOnce(_wish("v2"), _nothing, V2),
    "one whose upgrade is given up": AtOnce(_wish("v3"), _wish("v1"), V1),
    "one whose upgrade is replaced": AtOnce(_wish("v3"), _wish("v2"), V2),
    "one that is deleted once it has moved": AtOnce(_nothing, _delete, None),
    "one that was deleted before": AtOnce(_delete, _nothing, None),
    "one that is deleted while it is upgraded": AtOnce(_wish("v3"), _delete, None),
    "one whose objects are to stay": AtOnce(_nothing, _delete_as_orphan, V1),
}


@pytest.mark.parametrize("case", AT_ONCE.values(), ids=AT_ONCE)
def test_what_becomes_of_one_that_two_controllers_take_for_theirs(case: AtOnce, world: Both) -> None:
    """The watch of the first has been silent since before the move."""
    case.begin(world)
    world.first_watches.deployments.silent[NAME] = copy.deepcopy(world.cluster.objects[PATH])
    world.move("a")
    world.serve("a")
    case.meanwhile(world)
    world.settle()
    status = copy.deepcopy(world.cluster.objects.get(PATH, {}).get("status"))
    objects = world.maps()

    for _ in range(3):  # by then it knows
        with suppress(ApiError):  # a 409: the pass is repeated
            world.first.reconcile(NAME)

    assert world.cluster.objects.get(PATH, {}).get("status") == status
    assert world.maps() == objects
    world.settle()
    assert world.maps() == (case.expect or {})
    assert (PATH in world.cluster.objects) == (case.expect is not None and case.meanwhile is not _delete_as_orphan)


MOST_REQUESTS = 12
"""More than a pass over this bundle sends."""


@pytest.mark.parametrize("case", AT_ONCE.values(), ids=AT_ONCE)
@pytest.mark.parametrize("moment", range(MOST_REQUESTS))
def test_what_becomes_of_one_that_moves_while_a_pass_runs(case: AtOnce, moment: int, world: Both) -> None:
    """It moves before one of the requests of the first controller, or after the last one; its watch shows that."""
    case.begin(world)
    note, sent, is_left = world.cluster._note, [0], [True]

    def _leave() -> None:
        if is_left[0]:
            is_left[0] = False
            if PATH in world.cluster.objects:
                world.move("a")
                case.meanwhile(world)

    def _note(request: str) -> None:
        sent[0] += 1
        if sent[0] == moment + 1:
            _leave()
        note(request)

    world.cluster._note = _note  # type: ignore[method-assign]
    with suppress(ApiError):
        world.first.reconcile(NAME)
    world.cluster._note = note  # type: ignore[method-assign]
    assert sent[0] < MOST_REQUESTS
    _leave()
    world.serve("a")
    world.settle()
    world.first.reconcile(NAME)
    assert world.maps() == (case.expect or {})
