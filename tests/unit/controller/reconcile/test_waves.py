"""Bundles in waves: what waits for what, what does not, and where a pass goes on: real parts, a cluster in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.observe import progress
from rukpak.controller.observe.health.verdict import Verdict
from rukpak.controller.observe.progress import judge_object
from rukpak.controller.observe.records import Record
from tests.support.fake_cluster import Json, KilledError
from tests.support.reconciling import PATH, World

MAPS, APPS = "/api/v1/namespaces/shop/configmaps", "/apis/apps/v1/namespaces/shop/deployments"
DATABASE, WEB, SETTINGS = f"{APPS}/database", f"{APPS}/web", f"{MAPS}/settings"
JOBS = "/apis/batch/v1/namespaces/shop/jobs"
MIGRATE, MIGRATE_2 = f"{JOBS}/migrate-1", f"{JOBS}/migrate-2"
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no luck"}]}
AVAILABLE = {
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "conditions": [{"type": "Available", "status": "True"}],
}


def make(api_version: str, kind: str, name: str, wave: int | str | None, **content: Any) -> Json:
    annotations = {} if wave is None else {"annotations": {names.WAVE: str(wave)}}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **annotations}, **content}


def config_map(name: str, wave: int | str | None = None, value: str = "1") -> Json:
    return make("v1", "ConfigMap", name, wave, data={"a": value})


def workload(name: str, wave: int, version: str = "1") -> Json:
    labels = {"metadata": {"labels": {"version": version}}}
    return make("apps/v1", "Deployment", name, wave, spec={"replicas": 1, "template": labels})


def job(version: str = "1") -> Json:
    return make("batch/v1", "Job", f"migrate-{version}", 0, spec={"parallelism": 1})


def shop(version: str = "1") -> list[Json]:
    """Return a bundle of three waves: a database, a migration, and what runs then."""
    return [workload("web", 1, version), config_map("settings", 1, version), job(version),
            workload("database", -1, version)]  # fmt: skip


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    _count_generations(made)
    yield made
    made.applier.stop()


def _count_generations(world: World) -> None:
    """Have a changed spec be another generation, which a controller has not observed yet."""
    store = world.cluster._store

    def stored(path: str, value: Json) -> Json:
        before = world.cluster.objects.get(path, {})
        if path.startswith(APPS) and before.get("spec") != value.get("spec"):
            generation = before.get("metadata", {}).get("generation", 0) + 1
            value = {**value, "metadata": {**value["metadata"], "generation": generation}}
        return store(path, value)

    setattr(world.cluster, "_store", stored)  # noqa: B010 - mypy knows a method there


def wish(world: World, *objects: Json, tag: str = "v1", **spec: Any) -> None:
    world.shelf.put(tag, *objects)
    world.wish(tag, installNamespace="shop", **spec)
    world.settle()


def become(world: World, path: str, status: Json) -> None:
    """Have the controller of an object report a status of what was applied last."""
    report(world, path, status)
    world.settle()


def report(world: World, path: str, status: Json) -> None:
    generation = world.cluster.objects[path]["metadata"].get("generation")
    observed = {"observedGeneration": generation} if generation else {}
    world.cluster.patch(path, {"status": {**status, **observed}})


def install(world: World) -> None:
    wish(world, *shop())
    become(world, DATABASE, AVAILABLE)
    become(world, MIGRATE, COMPLETE)
    become(world, WEB, AVAILABLE)
    assert world.conditions["Ready"] == "True Ready"


def wave(world: World) -> int | None:
    found = world.deployment.status.wave
    return found.number if found else None


def version(world: World, path: str) -> str:
    found: str = world.cluster.objects[path]["spec"]["template"]["metadata"]["labels"]["version"]
    return found


# what waits


def test_a_wave_waits_until_the_one_before_is_healthy(world: World) -> None:
    wish(world, *shop())
    assert (world.exists(DATABASE), world.exists(MIGRATE), world.exists(WEB), wave(world)) == (True, False, False, -1)
    assert world.conditions["Installed"] == "False WaitingForWave"
    assert "later waves wait for wave -1: Deployment shop/database: " in world.message("Installed")
    become(world, DATABASE, AVAILABLE)
    assert (world.exists(MIGRATE), world.exists(SETTINGS), wave(world)) == (True, False, 0)
    become(world, MIGRATE, COMPLETE)
    assert world.exists(SETTINGS, WEB)
    become(world, WEB, AVAILABLE)
    assert (world.conditions["Ready"], wave(world)) == ("True Ready", None)


def test_what_is_waited_for_is_told_at_once_for_another_wave_and_then_seldom(world: World) -> None:
    wish(world, *shop())
    become(world, DATABASE, AVAILABLE)
    assert "wait for wave 0: Job shop/migrate-1: " in world.message("Installed")
    written = len(world.events.notes)
    for active in range(3):
        report(world, MIGRATE, {"active": active + 1})
        world.cluster.taken()
        world.reconcile()
        assert not any("status" in request for request in world.requests())
    assert len(world.events.notes) == written


def test_waves_of_what_is_healthy_at_once_need_one_pass(world: World) -> None:
    world.shelf.put("v1", *(config_map(f"m{number}", number) for number in (3, -2, 0, 1)))
    world.wish("v1", installNamespace="shop")
    for _ in range(3):
        world.reconcile()
    applied = [request for request in world.requests() if request.startswith("TRY configmaps")]
    assert applied == ["TRY configmaps/m-2", "TRY configmaps/m0", "TRY configmaps/m1", "TRY configmaps/m3"]
    assert world.conditions["Ready"] == "True Ready"


def test_status_says_since_when_a_wave_waits(world: World) -> None:
    wish(world, *shop())
    world.seconds += 60
    become(world, DATABASE, AVAILABLE)
    began = world.now()
    world.seconds += 60
    world.cluster.patch(MIGRATE, {"status": {"active": 1}})
    world.settle()
    found = world.deployment.status.wave
    assert found is not None
    assert (found.number, found.since, found.revision) == (0, began, world.deployment.status.revision)


def test_what_may_never_be_healthy_without_a_deadline_holds_up_nothing(world: World) -> None:
    stopped = make("apps/v1", "Deployment", "web", None, spec={"replicas": 1, "paused": True})
    wish(world, stopped, config_map("a", 1))
    become(world, WEB, {"replicas": 1})
    assert world.exists(f"{MAPS}/a")


def test_the_deadline_counts_for_each_wave(world: World) -> None:
    wish(world, *shop(), progressDeadline="60s")
    world.seconds += 50
    become(world, DATABASE, AVAILABLE)
    world.seconds += 50  # the objects of the last wave have been wanted for 100 s
    world.settle()
    assert world.conditions["Healthy"] == "False Progressing"


def test_a_job_that_fails_stalls_and_nothing_of_the_next_wave_is_touched(world: World) -> None:
    install(world)
    before = [world.cluster.objects[path]["metadata"]["resourceVersion"] for path in (WEB, SETTINGS)]
    wish(world, *shop("2"), tag="v2")
    become(world, DATABASE, AVAILABLE)
    become(world, MIGRATE_2, FAILED)
    assert [world.cluster.objects[path]["metadata"]["resourceVersion"] for path in (WEB, SETTINGS)] == before
    assert (version(world, DATABASE), wave(world), world.exists(MIGRATE)) == ("2", 0, True)
    assert "wait for wave 0: Job shop/migrate-2: BackoffLimitExceeded: no luck" in world.message("Installed")
    assert world.conditions["Stalled"] == world.conditions["Ready"].replace("False", "True") == "True Failed"


def test_a_failed_wave_is_rolled_back_where_that_is_wished(world: World) -> None:
    install(world)
    wish(world, *shop("2"), tag="v2", onFailure={"action": "RollBack"})
    become(world, DATABASE, AVAILABLE)
    become(world, MIGRATE_2, FAILED)
    assert (world.conditions["RolledBack"], version(world, DATABASE)) == ("True Failed", "1")
    assert world.exists(MIGRATE_2)  # until what replaces it is healthy
    become(world, DATABASE, AVAILABLE)
    assert (world.exists(MIGRATE_2), wave(world)) == (False, None)
    assert world.conditions["Healthy"] == "True Healthy"


def test_objects_of_a_kind_that_may_not_be_watched_hold_up_nothing_once_applied(world: World) -> None:
    world.watches.objects.denied.add("ConfigMap")
    wish(world, config_map("a"), workload("web", 1))
    assert world.exists(f"{MAPS}/a", WEB)


def test_as_many_waves_as_objects_are_looked_at_once_each(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def counted(record: Record | None, digest: str) -> Verdict:
        judged.append(digest)
        return judge_object(record, digest)

    monkeypatch.setattr(progress, "judge_object", counted)
    wish(world, *(config_map(f"m{number}", number) for number in range(40)))
    assert world.conditions["Ready"] == "True Ready"
    assert len(judged) == 39 + 40 + 40  # between waves, and twice for status


def test_what_cannot_be_applied_holds_up_later_waves(world: World) -> None:
    world.cluster.put({**config_map("a"), "metadata": {"name": "a", "namespace": "shop"}})
    wish(world, config_map("a"), config_map("b"), config_map("c", 1))
    assert (world.exists(f"{MAPS}/b"), world.exists(f"{MAPS}/c")) == (True, False)
    assert world.conditions["Installed"] == "False Collision"
    world.cluster.remove(f"{MAPS}/a")
    world.reconciler.memories.objects_changed("shop")
    world.settle()
    assert world.exists(f"{MAPS}/c")


def test_a_hook_before_installing_comes_before_the_workloads_of_the_first_wave(world: World) -> None:
    hook = {"manifest": {**job(), "metadata": {"name": "first", "namespace": "shop"}}, "events": ["pre-install"],
            "weight": 0, "deletePolicies": ["before-hook-creation"]}  # fmt: skip
    world.shelf.put("v1", config_map("a", -1), config_map("b", 1), hooks=[hook])
    world.wish("v1", installNamespace="shop")
    world.settle()
    assert (world.exists(f"{MAPS}/a"), world.conditions["Installed"]) == (False, "False WaitingForHook")
    become(world, f"{JOBS}/first", COMPLETE)
    assert world.exists(f"{MAPS}/a", f"{MAPS}/b")


# what does not


def test_an_edit_of_an_early_wave_is_repaired_while_a_later_one_waits(world: World) -> None:
    wish(world, config_map("early", -2), *shop())
    become(world, DATABASE, AVAILABLE)
    world.cluster.edit(f"{MAPS}/early", data={"a": "edited"})
    world.settle()
    assert world.cluster.objects[f"{MAPS}/early"]["data"] == {"a": "1"}
    assert (wave(world), world.exists(WEB)) == (0, False)


@pytest.mark.parametrize("remove", [False, True], ids=["edited", "deleted"])
def test_what_is_installed_of_a_wave_that_waits_is_repaired_as_it_was(world: World, remove: bool) -> None:
    install(world)
    wish(world, *shop("2"), tag="v2")
    if remove:
        world.cluster.remove(SETTINGS)
    else:
        world.cluster.edit(SETTINGS, data={"a": "edited"})
    world.settle()
    assert (world.cluster.objects[SETTINGS]["data"], wave(world)) == ({"a": "1"}, -1)


def test_a_job_that_is_repaired_as_it_was_has_not_started_as_it_is_wanted(world: World) -> None:
    def clean_up(parallelism: int) -> Json:
        spec = {"parallelism": parallelism, "ttlSecondsAfterFinished": 60}
        return make("batch/v1", "Job", "clean-up", 1, spec=spec)

    path = f"{JOBS}/clean-up"
    wish(world, workload("database", 0), clean_up(1))
    become(world, DATABASE, AVAILABLE)
    become(world, path, COMPLETE)
    wish(world, workload("database", 0, "2"), clean_up(2), tag="v2")
    world.cluster.edit(path, spec={"parallelism": 7, "ttlSecondsAfterFinished": 60})
    world.settle()
    assert world.cluster.objects[path]["spec"]["parallelism"] == 1
    assert world.deployment.status.started_jobs == ()


def test_an_object_that_a_wave_does_not_change_waits_for_nothing(world: World) -> None:
    install(world)
    wish(world, *shop("2")[:1], config_map("settings", 1), *shop("2")[2:], tag="v2")
    world.cluster.edit(SETTINGS, data={"a": "edited"})
    world.settle()
    assert (world.cluster.objects[SETTINGS]["data"], version(world, WEB)) == ({"a": "1"}, "1")


@pytest.mark.parametrize("restarts", [False, True], ids=["", "also after a restart"])
def test_a_wave_that_was_healthy_once_holds_up_nothing_any_more(world: World, restarts: bool) -> None:
    wish(world, *shop())
    become(world, DATABASE, AVAILABLE)
    become(world, DATABASE, {**AVAILABLE, "availableReplicas": 0, "readyReplicas": 0, "conditions": []})
    if restarts:
        world.restart()
    become(world, MIGRATE, COMPLETE)
    assert world.exists(WEB, SETTINGS)


def test_an_installed_bundle_is_repaired_without_a_look_at_waves(world: World) -> None:
    install(world)
    become(world, DATABASE, {**AVAILABLE, "availableReplicas": 0, "conditions": []})
    world.cluster.remove(SETTINGS)
    world.settle()
    assert (world.exists(SETTINGS), wave(world)) == (True, None)


def test_paused_in_the_middle_nothing_goes_on_and_the_wave_is_kept(world: World) -> None:
    wish(world, *shop())
    world.wish("v1", installNamespace="shop", paused=True)
    report(world, DATABASE, AVAILABLE)
    world.reconcile()
    assert (world.exists(MIGRATE), wave(world)) == (False, -1)
    wish(world, *shop())
    assert (world.exists(MIGRATE), wave(world)) == (True, 0)


def test_a_spec_that_is_taken_back_in_the_middle_goes_back_in_waves(world: World) -> None:
    install(world)
    wish(world, *shop("2"), tag="v2")
    become(world, DATABASE, AVAILABLE)
    become(world, MIGRATE_2, COMPLETE)
    assert version(world, WEB) == "2"
    wish(world, *shop())
    assert (version(world, DATABASE), version(world, WEB)) == ("1", "2")
    become(world, DATABASE, AVAILABLE)
    assert version(world, WEB) == "1"


# wherever it is killed

WRITES = {DATABASE: 6, MIGRATE: 2, WEB: 3}
"""Of each wave, the status included: of the first one also the finalizer, the revision and what is about to come."""


class Death:
    """Kills the controller at a write to come, before or after it is carried out."""

    def __init__(self, world: World) -> None:
        self.left, self.is_late = 0, False
        for verb in ("apply", "merge_patch", "json_patch"):
            setattr(world.cluster, verb, self._deadly(getattr(world.cluster, verb)))

    def _deadly(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **options: Any) -> Any:
            self.left -= 1
            is_hit = self.left == 0
            reply = None if is_hit and not self.is_late else send(*args, **options)
            if is_hit:
                raise KilledError
            return reply

        return write


def _thorough(seeds: Iterable[int]) -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.thorough) for seed in seeds]


SEEDS = [*range(4), *_thorough(range(4, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_a_write_of_each_wave_an_installation_goes_on_there(world: World, seed: int) -> None:
    chance, death = random.Random(seed), Death(world)
    world.shelf.put("v1", config_map("early", -1), *shop())
    world.wish("v1", installNamespace="shop")
    for path, writes in WRITES.items():
        _kill(world, death, chance, writes)
        reached = [*WRITES][: [*WRITES].index(path) + 1]
        assert [each for each in WRITES if world.exists(each)] == reached
        report(world, path, COMPLETE if path == MIGRATE else AVAILABLE)
    world.settle()
    assert (world.conditions["Ready"], wave(world)) == ("True Ready", None)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_a_write_of_each_wave_an_upgrade_goes_on_there(world: World, seed: int) -> None:
    install(world)
    chance, death = random.Random(seed), Death(world)
    world.shelf.put("v2", *shop("2"))
    world.wish("v2", installNamespace="shop")
    _kill(world, death, chance, 4)
    assert (version(world, DATABASE), world.exists(MIGRATE_2), version(world, WEB)) == ("2", False, "1")
    report(world, DATABASE, AVAILABLE)
    _kill(world, death, chance, 2)
    assert (world.exists(MIGRATE_2), version(world, WEB)) == (True, "1")
    report(world, MIGRATE_2, COMPLETE)
    _kill(world, death, chance, 3)
    assert version(world, WEB) == "2"
    report(world, WEB, AVAILABLE)
    world.settle()
    assert (world.conditions["Ready"], wave(world), world.exists(MIGRATE)) == ("True Ready", None, False)


def _kill(world: World, death: Death, chance: random.Random, writes: int) -> None:
    """Kill the controller at one of its next writes, and start it again."""
    death.left, death.is_late = chance.randint(1, writes), chance.random() < 1 / 2
    with pytest.raises(KilledError):
        world.settle()
    world.restart()
    world.settle()


# backwards


def hold(world: World, path: str) -> None:
    world.cluster.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})


def left(world: World) -> list[str]:
    return [path for path in (WEB, SETTINGS, MIGRATE, DATABASE, PATH) if world.exists(path)]


def test_a_deletion_goes_backwards_through_the_waves(world: World) -> None:
    install(world)
    hold(world, WEB)
    world.delete()
    world.settle()
    assert left(world) == [WEB, MIGRATE, DATABASE, PATH]
    hold(world, MIGRATE)
    world.cluster.remove(WEB)
    world.settle()
    assert left(world) == [MIGRATE, DATABASE, PATH]
    world.cluster.remove(MIGRATE)
    world.settle()
    assert left(world) == []


def test_what_a_revision_drops_is_pruned_backwards(world: World) -> None:
    install(world)
    hold(world, WEB)
    wish(world, config_map("other"), tag="v2")
    assert left(world) == [WEB, MIGRATE, DATABASE, PATH]
    assert world.conditions["Reconciling"] == "True PrunePending"
    world.cluster.remove(WEB)
    world.settle()
    assert left(world) == [PATH]
    assert world.conditions["Ready"] == "True Ready"
