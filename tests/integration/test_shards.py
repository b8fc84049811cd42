"""Several shards on one cluster: each controller has its BundleDeployments, and those that move have one at any time.

A move is interrupted at each step, by killing the controller that holds the BundleDeployment or the one that gets it.
The audit log tells who wrote what: the writes of the one end before those of the other begin.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away
from rukpak.controller.playground.settings import Settings
from rukpak.controller.playground.waiting import wait_for
from tests.support.bundles import (
    DEPLOYMENTS,
    Deployed,
    Manifest,
    World,
    config_map,
    exists,
    image,
    new_name,
    new_world,
)
from tests.support.controller import Controller
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

TIMES = ("--lease-duration=12", "--renew-deadline=9", "--retry-period=1")
SECONDS = 90.0
TAKEN_BACK_SECONDS = 180.0
"""Longer than twice the duration of a Lease, and two looks at it."""
WRITES = frozenset({"create", "update", "patch", "delete"})
MANY = 3000 if int(os.environ.get("RUKPAK_STORMS", "1")) > 1 else 120
SHARDS = ("", "a", "b")


@pytest.fixture(scope="module")
def shared(fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A world whose controller serves the default shard."""
    with new_world(fresh_cluster, registry, settings.running, *TIMES, is_shared=False) as world:
        yield world


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    said = len(shared.controller.log)
    if not shared.controller.is_running():
        shared.controller.start()
    yield shared
    print(shared.controller.log[said:][-20_000:])  # noqa: T201 -- pytest shows it where the test has failed


@contextmanager
def serving(world: World, settings: Settings, shard: str) -> Iterator[Controller]:
    """Run a controller for a shard."""
    folder = make_owned_folder(settings.running, f"shard-{shard}")
    controller = Controller(folder, world.cluster.kubeconfig, f"--shard={shard}", *TIMES, environment={})
    controller.start()
    try:
        yield controller
        if controller.is_running():
            controller.stop()
    finally:
        controller.kill()
        take_away(folder)


@pytest.fixture(scope="module")
def other_shards(shared: World, settings: Settings) -> Iterator[dict[str, Controller]]:
    """Controllers of two more shards, which tests kill."""
    with serving(shared, settings, "a") as a, serving(shared, settings, "b") as b:
        yield {"a": a, "b": b}


def _followed(controller: Controller) -> Iterator[Controller]:
    said = len(controller.log)
    if not controller.is_running():
        controller.start()
    yield controller
    print(controller.log[said:][-20_000:])  # noqa: T201 -- likewise


@pytest.fixture
def a(world: World, other_shards: dict[str, Controller]) -> Iterator[Controller]:
    yield from _followed(other_shards["a"])


@pytest.fixture
def b(world: World, other_shards: dict[str, Controller]) -> Iterator[Controller]:
    yield from _followed(other_shards["b"])


def move(deployed: Deployed, shard: str) -> None:
    deployed.change(metadata={"labels": {names.SHARD: shard or None}})


def shard_of(deployed: Deployed) -> str:
    found: str = deployed.status().get("shard", "")
    return found


def labels_of(deployed: Deployed) -> set[str]:
    """Return the shards that the labels of its objects name."""
    objects = deployed.objects().values()
    return {value["metadata"]["labels"].get(names.OWNER_SHARD, "") for value in objects}


def is_settled_in(deployed: Deployed, shard: str) -> bool:
    """Whether a shard has it, with all its objects."""
    status, ready = deployed.status(), deployed.conditions().get("Ready", {})
    is_recorded = status.get("shard", "") == shard and not status.get("relabeling")
    return is_recorded and ready.get("status") == "True" and labels_of(deployed) == {shard}


def wait_settled(deployed: Deployed, shard: str) -> None:
    wait_for(
        lambda: is_settled_in(deployed, shard), SECONDS, lambda: f"{deployed.name} in {shard!r}: {deployed.read()}"
    )


def deploy_in(world: World, shard: str, *objects: Manifest, **spec: Any) -> Deployed:
    """Deploy a bundle that belongs to a shard from the start."""
    deployed = world.deploy(*(objects or (config_map("one"), config_map("two"))), labels={names.SHARD: shard}, **spec)
    wait_settled(deployed, shard)
    return deployed


def uids(deployed: Deployed) -> dict[str, str]:
    return {name: value["metadata"]["uid"] for name, value in deployed.objects().items()}


def writers_of(world: World, deployed: Deployed, since: int) -> list[str]:
    """Return the processes that have written objects of a BundleDeployment since then, in order, without repetition."""
    assert isinstance(world.cluster, ControlPlane)
    place = f"/namespaces/{deployed.namespace}/"
    found: list[str] = []
    for event in world.cluster.audit_requests(since):
        writes = event["verb"] in WRITES and place in event["requestURI"]
        if writes and event.get("userAgent", "").startswith("rukpak/"):
            found += [event["userAgent"]] * (not found or found[-1] != event["userAgent"])
    return found


def test_a_bundle_moves_to_another_shard_and_back_in_place(world: World, a: Controller, b: Controller) -> None:
    deployed = world.deploy(config_map("one"), config_map("two"))
    deployed.wait_ready()
    assert labels_of(deployed) == {""}
    before, state = uids(deployed), deployed.status()["managedState"]
    for shard in ("a", "b", ""):
        since = world.position()
        move(deployed, shard)
        wait_settled(deployed, shard)
        deployed.edit("one", color="red")
        wait_for(lambda: deployed.data("one") == {"color": "blue"}, SECONDS, f"{shard} repairs")
        assert len(writers_of(world, deployed, since)) == 1  # the one that it has moved to
    assert uids(deployed) == before
    assert deployed.status()["managedState"] == state
    assert not deployed.all_events("Stray")


@pytest.mark.thorough
def test_one_that_moves_while_its_objects_are_written_is_written_by_one_after_the_other(
    world: World, a: Controller, b: Controller
) -> None:
    deployed = deploy_in(world, "a", *(config_map(f"object-{number:03}") for number in range(200)))
    since, before = world.position(), uids(deployed)
    ref = world.push(
        deployed.name, *(config_map(f"object-{number:03}", color="red") for number in range(200)), tag="v2"
    )
    deployed.change(sources=[image(ref)])
    wait_for(lambda: deployed.data("object-000") == {"color": "red"}, SECONDS, "a upgrades")
    move(deployed, "b")
    wait_settled(deployed, "b")
    wait_for(lambda: deployed.data("object-199") == {"color": "red"}, SECONDS, "b has finished the upgrade")
    assert len(writers_of(world, deployed, since)) == 2  # a, then b, and a never again
    assert uids(deployed) == before


@pytest.mark.thorough
def test_when_the_earlier_controller_was_killed_the_new_one_waits_for_its_lease(
    world: World, a: Controller, b: Controller
) -> None:
    deployed = deploy_in(world, "a")
    before, terms = uids(deployed), terms_of(a)
    a.kill()
    killed = time.monotonic()
    move(deployed, "b")
    deployed.wait_for("Installed", "False", "WaitingForShard", saying='shard "a"')
    wait_settled(deployed, "b")
    assert time.monotonic() - killed > 3  # it did not act at once
    assert uids(deployed) == before
    a.start()  # does not know the BundleDeployment any more, and finds its Lease free
    wait_for(lambda: terms_of(a) > terms, SECONDS, "a leads again")
    deployed.edit("one", color="red")
    wait_for(lambda: deployed.data("one") == {"color": "blue"}, SECONDS, "b repairs")


def terms_of(controller: Controller) -> int:
    """Return how often a controller has become the leader of its shard."""
    return controller.log.count('"msg": "leading"')


@pytest.mark.thorough
def test_a_controller_that_was_away_hands_over_what_moved_meanwhile(world: World, a: Controller, b: Controller) -> None:
    deployed = deploy_in(world, "a")
    b.stop()
    a.kill()
    move(deployed, "b")
    a.start()
    wait_for(lambda: shard_of(deployed) == "b", SECONDS, "a hands over what its watch does not select any more")
    b.start()
    wait_settled(deployed, "b")


@pytest.mark.thorough
def test_when_the_new_controller_is_killed_before_it_has_the_objects_it_continues(
    world: World, a: Controller, b: Controller
) -> None:
    deployed = deploy_in(world, "a", *(config_map(f"object-{number:03}") for number in range(300)))
    before = uids(deployed)
    move(deployed, "b")
    wait_for(lambda: "b" in labels_of(deployed), SECONDS, "b relabels")
    b.kill()
    b.start()
    wait_settled(deployed, "b")
    assert uids(deployed) == before


@pytest.mark.repeats
@pytest.mark.parametrize("dies", [False, True], ids=["living", "killed"])
def test_one_that_moves_while_it_is_deleted_leaves_nothing_behind(
    world: World, a: Controller, b: Controller, dies: bool
) -> None:
    kept = {**config_map("kept"), "metadata": {"name": "kept", "annotations": {names.PRUNE: "false"}}}
    deployed = deploy_in(world, "a", config_map("one"), kept)
    if dies:
        a.kill()
    move(deployed, "b")
    deployed.delete()
    wait_for(lambda: not exists(world.client, deployed.path), SECONDS, "it is gone")
    wait_for(lambda: deployed.data("one") is None, SECONDS, "its object is gone")
    left = deployed.get("kept")
    assert left is not None
    assert not {names.OWNER_LABEL, names.OWNER_SHARD} & (left["metadata"].get("labels") or {}).keys()
    assert deployed.revisions() == []


def test_one_whose_shard_no_controller_serves_is_reported(world: World) -> None:
    deployed = world.deploy(config_map("one"), labels={names.SHARD: "nobody"})
    shown = run_rukpak(world, "status", deployed.name)
    assert f'{deployed.name}: no controller serves the shard "nobody"; start one with "--shard nobody"' in shown.stderr
    assert 'no controller serves the shard "nobody" of 1 BundleDeployments' in run_rukpak(world, "check").stdout
    address = world.controller.address("--metrics-address")

    def is_counted() -> bool:
        with urllib.request.urlopen(f"{address}/metrics", timeout=5) as answer:
            return 'rukpak_bundledeployments_unserved{shard="nobody"} 1.0' in answer.read().decode()

    wait_for(is_counted, SECONDS, "the default shard counts it")
    assert deployed.status() == {"observedGeneration": -1}
    move(deployed, "")
    deployed.wait_ready()
    wait_for(lambda: not is_counted(), SECONDS, "it is not counted any more")


def test_one_that_moves_to_a_shard_that_nobody_serves_says_so_and_is_taken_back(
    world: World,
) -> None:
    shard = new_name()  # not one that is known to be served by no controller
    deployed = world.deploy(config_map("one"))
    deployed.wait_ready()
    move(deployed, shard)
    deployed.wait_for("Ready", "Unknown", "HandedToShard", saying=f'shard "{shard}"')

    wait_for(lambda: is_settled_in(deployed, ""), TAKEN_BACK_SECONDS, lambda: f"taken back: {deployed.read()}")
    deployed.edit("one", color="red")
    wait_for(lambda: deployed.data("one") == {"color": "blue"}, SECONDS, "the default shard repairs")
    shown = run_rukpak(world, "status", deployed.name)
    assert f'no controller serves the shard "{shard}"' in shown.stderr
    assert shown.stderr.rstrip().endswith("; meanwhile the default shard acts")
    assert f'"{shard}" of 1 BundleDeployments ({deployed.name})' in run_rukpak(world, "check").stdout
    deployed.delete()
    wait_for(lambda: not exists(world.client, deployed.path), TAKEN_BACK_SECONDS, "the default shard deletes it")
    assert deployed.objects() == {}


@pytest.mark.thorough
def test_one_that_was_taken_back_from_a_shard_that_nobody_serves_goes_there_once_it_is_served(
    world: World, settings: Settings
) -> None:
    shard = new_name()
    deployed = world.deploy(config_map("one"), config_map("two"))
    deployed.wait_ready()
    before = uids(deployed)
    move(deployed, shard)
    wait_for(lambda: is_settled_in(deployed, ""), TAKEN_BACK_SECONDS, lambda: f"taken back: {deployed.read()}")

    world.controller.stop()
    world.controller.start()
    deployed.remove("two")
    wait_for(lambda: deployed.data("two") is not None, SECONDS, "so it does after a restart")
    assert is_settled_in(deployed, "")

    with serving(world, settings, shard):
        wait_settled(deployed, shard)
    assert uids(deployed).keys() == before.keys()
    assert uids(deployed)["one"] == before["one"]
    deployed.delete()
    wait_for(lambda: not exists(world.client, deployed.path), TAKEN_BACK_SECONDS, "the default shard deletes it")
    assert deployed.objects() == {}


def run_rukpak(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rukpak", *arguments, "--kubeconfig", str(world.cluster.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_three_shards_share_many_bundles(world: World, a: Controller, b: Controller) -> None:
    ref = world.push(new_name(), config_map("one"))
    owner = new_name()
    found = [f"{owner}-{number:04}" for number in range(MANY)]
    started = time.monotonic()

    def _apply(number: int) -> None:
        shard = SHARDS[number % 3]
        labels = {names.SHARD: shard} if shard else None
        world.apply(found[number], labels, sources=[image(ref)], installNamespace=found[number])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_apply, range(MANY)))

    def _ready() -> list[Manifest]:
        values = world.client.list(DEPLOYMENTS, label_selector="")
        mine = [value for value in values if value["metadata"]["name"].startswith(owner)]
        return [value for value in mine if is_ready(value)]

    wait_for(lambda: len(_ready()) == MANY, SECONDS + MANY / 5, lambda: f"all are ready, {len(_ready())} are")
    print(f"{MANY} BundleDeployments in {time.monotonic() - started:.1f} s")  # noqa: T201 -- a figure
    counts = Counter((value["status"].get("shard", "")) for value in _ready())
    assert counts == {"": MANY // 3, "a": MANY // 3, "b": MANY // 3}
    objects = list(world.client.list("/api/v1/configmaps", metadata=True, label_selector=names.OWNER_LABEL))
    marks = Counter(
        value["metadata"]["labels"].get(names.OWNER_SHARD, "")
        for value in objects
        if value["metadata"]["namespace"].startswith(owner)
    )
    assert marks == counts
    for controller in (a, b):
        applied = [line for line in controller.log.splitlines() if "object applied" in line and owner in line]
        assert len(applied) == MANY // 3  # and not those of others


def is_ready(value: Manifest) -> bool:
    conditions = (value.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_one_waits_for_those_of_other_shards(world: World, a: Controller) -> None:
    database = new_name()
    depends_on = [{"name": database}]
    here = world.deploy(config_map("one"), dependsOn=depends_on)
    there = world.deploy(config_map("one"), labels={names.SHARD: "a"}, dependsOn=[{"name": here.name}])
    here.wait_for("Installed", "False", "DependencyNotReady", saying=f'"{database}" (does not exist)')
    there.wait_for("Installed", "False", "DependencyNotReady", saying=f'"{here.name}" (DependencyNotReady)')

    world.deploy(config_map("one"), name=database, labels={names.SHARD: "a"})
    wait_settled(here, "")
    wait_settled(there, "a")
