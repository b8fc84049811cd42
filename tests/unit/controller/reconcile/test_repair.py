"""A pass over an installed revision costs what has changed, and ends as if it had looked at everything."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.types import ObjectMeta
from rukpak.controller.apply import ledger, plan
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.observe import progress
from rukpak.controller.observe.health.verdict import Verdict
from rukpak.controller.observe.records import Record
from rukpak.controller.reconcile.memory import Memories, Memory
from tests.support.clock import Clock
from tests.support.fake_cluster import Json
from tests.support.reconciling import NAME, World

NAMESPACE = "/api/v1/namespaces/shop"
COUNT = 12
LEFT_OUT = ("uid", "resourceVersion", "creationTimestamp", "warnings", "f:warnings")
"""What differs with the order of concurrent writes, and warnings of a pass that has also failed."""


LOOKS = [(plan, "decide"), (ledger, "_is_as_left"), (ledger, "_weigh"), (progress, "judge_object")]
"""What is done with one object."""


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


def workload(name: str) -> Json:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 1}}


def path(number: int) -> str:
    return f"{NAMESPACE}/configmaps/object-{number}"


def web(number: int) -> str:
    return f"/apis/apps/v1/namespaces/shop/deployments/web-{number}"


def make_world(objects: int = COUNT) -> World:
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    first = [config_map(f"object-{number}") for number in range(objects)]
    made.shelf.put("v1", *first, *(workload(f"web-{number}") for number in range(4)))
    made.shelf.put("v2", *first[3:], config_map("object-new"), *(workload(f"web-{number}") for number in range(4)))
    return made


@pytest.fixture
def world() -> Iterator[World]:
    made = make_world()
    yield made
    made.applier.stop()


def installed(world: World, **spec: Any) -> None:
    world.wish("v1", **spec)
    world.settle()
    for number in range(4):
        roll(world, number, "Available")
    world.settle()


def roll(world: World, number: int, condition: str) -> None:
    """Write the status of a workload as its controller does."""
    if web(number) not in world.cluster.objects:
        return
    about = {"type": condition, "status": "True" if condition == "Available" else "False"}
    about |= {"reason": "ProgressDeadlineExceeded"} if condition == "Progressing" else {}
    ready = 1 if condition == "Available" else 0
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    status = {"observedGeneration": 0, "conditions": [about], **counts}
    world.cluster.patch(web(number), {"status": status})


# a controller that looks at everything in each pass, and one that does not


@pytest.fixture
def pair(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, World]]:
    """Two worlds with one clock; the controller of the second one always looks at everything."""
    of = Memories.of

    def find(memories: Memories, metadata: ObjectMeta) -> Memory:
        memory = of(memories, metadata)
        memory.clock = memory.ledger.clock = memory.health.now = clock
        return memory

    monkeypatch.setattr(Memories, "of", find)
    usual, thorough = make_world(), make_world()
    look = thorough.watches.objects.look
    monkeypatch.setattr(thorough.watches.objects, "look", lambda name, since: replace(look(name, since), changed=None))
    thorough.installed_bytes = 0
    thorough.restart()
    yield usual, thorough
    usual.applier.stop()
    thorough.applier.stop()


def _edit(world: World, chance: random.Random) -> None:
    for number in chance.sample(range(COUNT), chance.choice([1, 1, 2, COUNT // 2])):
        if path(number) in world.cluster.objects:
            world.cluster.edit(path(number), data={"a": str(chance.random())})


def _remove(world: World, chance: random.Random) -> None:
    for where in chance.sample([*map(path, range(COUNT)), *map(web, range(4))], 2):
        world.cluster.objects.pop(where, None)


def _delete_slowly(world: World, chance: random.Random) -> None:
    where = path(chance.randrange(COUNT))
    if where in world.cluster.objects:
        metadata = {"finalizers": ["example.com/hold"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        world.cluster.patch(where, {"metadata": metadata})


def _finish_deletions(world: World, _chance: random.Random) -> None:
    for where, value in list(world.cluster.objects.items()):
        if value["kind"] != names.KIND and value["metadata"].get("deletionTimestamp"):
            world.cluster.remove(where)


def _wipe(world: World, chance: random.Random) -> None:
    where = path(chance.randrange(COUNT))
    if where in world.cluster.objects:
        world.cluster.patch(where, {"metadata": {"managedFields": []}})


def _take(world: World, chance: random.Random) -> None:
    where = path(chance.randrange(COUNT))
    if where in world.cluster.objects:
        metadata = copy.deepcopy(world.cluster.objects[where]["metadata"])
        metadata["annotations"] = {names.OWNER_UID: "other"}
        world.cluster.edit(where, metadata=metadata)


def _copy(world: World, chance: random.Random) -> None:
    """Create a copy by an operator, with the label alone or with all marks."""
    uid = world.deployment.metadata.uid
    reference: Json = {"apiVersion": "core.rukpak.io/v1alpha2", "kind": names.KIND, "name": NAME, "uid": uid}
    marks: Json = {"annotations": {names.OWNER_UID: uid}, "ownerReferences": [{**reference, "controller": True}]}
    metadata: Json = {"name": f"copy-{chance.randrange(3)}", "namespace": "shop", "labels": {names.OWNER_LABEL: NAME}}
    metadata |= chance.choice([{}, marks])
    world.cluster.put({**config_map("copy"), "metadata": metadata})


def _refuse(world: World, chance: random.Random) -> None:
    number, status = chance.randrange(COUNT), chance.choice([422, 500, 403])
    for verb in ("APPLY", "TRY"):
        world.cluster.faults[f"{verb} {path(number)}"] = [ApiError(status, "Invalid", "no")]
    _edit(world, chance)
    if path(number) in world.cluster.objects:
        world.cluster.edit(path(number), data={"a": "refused"})


def _roll(world: World, chance: random.Random) -> None:
    roll(world, chance.randrange(4), chance.choice(["Available", "Available", "Rolling", "Progressing"]))


def _restart(world: World, _chance: random.Random) -> None:
    world.restart()


def _wish(world: World, chance: random.Random) -> None:
    drift = {"mode": chance.choice(["Repair", "Repair", "Report"])}
    world.wish(chance.choice(["v1", "v1", "v2"]), paused=chance.random() < 0.2, drift=drift)


ACTIONS: list[Callable[[World, random.Random], None]] = [
    *(_edit, _edit, _edit, _edit, _remove, _remove, _delete_slowly, _finish_deletions, _finish_deletions),
    *(_wipe, _take, _copy, _refuse, _roll, _roll, _roll, _restart, _wish, _wish),
]


@pytest.mark.repeats
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_a_pass_ends_as_if_it_had_looked_at_everything(
    pair: tuple[World, World], clock: Clock, seed: int
) -> None:
    chance = random.Random(seed)
    for world in pair:
        installed(world)
    for _ in range(30):
        action, dice = chance.choice(ACTIONS), chance.random()
        clock.now += chance.choice([0.0, 0.5, 3.0, 30.0, 400.0])
        for world in pair:
            world.seconds = clock.now
            action(world, random.Random(dice))
            for _ in range(chance_of_passes(dice)):
                world.reconcile()
        usual, thorough = map(_told, pair)
        assert usual == thorough, action.__name__
        _check_sums(pair[0])


def chance_of_passes(dice: float) -> int:
    """Return how many passes run before anything else happens."""
    return 1 + int(dice * 3)


def _told(world: World) -> dict[str, Any]:
    """Return what a user sees of a world."""
    objects = {where: value for where, value in world.cluster.objects.items() if "/secrets/" not in where}
    notes = [(note.reason, note.text) for note in world.events.notes if note.reason != "Warnings"]
    return {where: _without(value) for where, value in objects.items()} | {"events": notes}


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key not in LEFT_OUT}
    return [_without(each) for each in value] if isinstance(value, list) else value


def _check_sums(world: World) -> None:
    memory = world.memory
    left = memory.ledger.left.items()
    records = [Record(key=key, applied_digest=each.digest, entry_hash=each.entry_hash) for key, each in left]
    assert Ledger().resume(records, memory.ledger.managed_state)


def test_after_a_restart_an_object_that_is_gone_and_not_repaired_stays_drifted(world: World) -> None:
    installed(world, drift={"mode": "Report"})
    world.cluster.remove(path(1))
    world.reconcile()
    world.restart()
    for _ in range(3):
        world.reconcile()
    assert "object-1 (deleted)" in world.message("Drifted")
    assert world.deployment.status.objects.drifted == 1


# what it costs


def _counts(monkeypatch: pytest.MonkeyPatch, objects: int) -> Counter[str]:
    """Return how often objects are looked at in a pass after one edit."""
    world = make_world(objects)
    installed(world)
    counts = Counter[str]()
    for module, name in LOOKS:
        looks = getattr(module, name)

        def counted(*args: Any, _name: str = name, _looks: Any = looks, **options: Any) -> Any:
            counts[_name] += 1
            return _looks(*args, **options)

        monkeypatch.setattr(module, name, counted)
    world.cluster.edit(path(5), data={"a": "edited"})
    world.cluster.taken()
    world.reconcile()
    assert world.requests() == ["GET configmaps/object-5", "APPLY configmaps/object-5"]
    world.applier.stop()
    monkeypatch.undo()
    return counts


def test_one_edit_costs_the_same_whatever_the_size_of_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = _counts(monkeypatch, 10)
    assert counts == _counts(monkeypatch, 120)
    assert max(counts.values()) <= 2, counts


def test_a_change_of_health_is_the_only_thing_judged(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    installed(world)
    judged: list[Record | None] = []
    judge = progress.judge_object

    def counted(record: Record | None, digest: str) -> Verdict:
        judged.append(record)
        return judge(record, digest)

    monkeypatch.setattr(progress, "judge_object", counted)
    roll(world, 2, "Progressing")
    world.reconcile()
    assert [record.name for record in judged if record] == ["web-2"]
    assert world.conditions["Healthy"] == "False ProgressDeadlineExceeded"


# what is kept, and when it is not used


def test_targets_that_do_not_fit_are_read_from_the_store(world: World) -> None:
    world.installed_bytes = 0
    world.restart()
    installed(world)
    world.cluster.edit(path(5), data={"a": "edited"})
    world.cluster.taken()
    world.reconcile()
    assert world.requests() == ["GET revision", "GET configmaps/object-5", "APPLY configmaps/object-5"]


def test_the_first_repair_after_a_restart_reads_the_revision_and_the_second_does_not(world: World) -> None:
    installed(world)
    world.restart()
    world.settle()
    found = []
    for number in (5, 6):
        world.cluster.edit(path(number), data={"a": "edited"})
        world.cluster.taken()
        world.reconcile()
        found.append(world.requests())
    assert found == [
        ["GET revision", "GET configmaps/object-5", "GET namespaces/shop", "APPLY configmaps/object-5"],
        ["GET configmaps/object-6", "APPLY configmaps/object-6"],
    ]


def test_a_repair_obeys_the_spec_of_now(world: World) -> None:
    installed(world)
    world.wish("v1", drift={"mode": "Report"})
    world.settle()
    world.cluster.edit(path(5), data={"a": "edited"})
    world.settle()
    assert "object-5" in world.message("Drifted")


def test_a_repair_finds_strays(world: World) -> None:
    installed(world)
    uid = world.deployment.metadata.uid
    reference = {"apiVersion": "core.rukpak.io/v1alpha2", "kind": names.KIND, "name": NAME, "uid": uid}
    marks = {"labels": {names.OWNER_LABEL: NAME}, "annotations": {names.OWNER_UID: uid}}
    marks["ownerReferences"] = [{**reference, "controller": True}]  # type: ignore[assignment]
    world.cluster.put({**config_map("copy"), "metadata": {"name": "copy", "namespace": "shop", **marks}})
    world.cluster.edit(path(5), data={"a": "edited"})
    world.settle()
    assert [each.name for each in world.deployment.status.strays] == ["copy"]
    assert world.deployment.status.objects.strays == 1
    assert world.conditions["Drifted"] == "True Strays"
