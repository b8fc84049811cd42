"""Several shards on one cluster: each controller serves the BundleDeployments with its label, and those that move.

The audit log tells who wrote what.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
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
from tests.support.inside import ApiError
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

TIMES = ("--lease-duration=12", "--renew-deadline=9", "--retry-period=1")
SECONDS = 90.0
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


def is_settled(deployed: Deployed) -> bool:
    status, ready = deployed.status(), deployed.conditions().get("Ready", {})
    is_seen = status.get("observedGeneration") == deployed.read()["metadata"]["generation"]
    return is_seen and ready.get("status") == "True"


def wait_settled(deployed: Deployed) -> None:
    wait_for(lambda: is_settled(deployed), SECONDS, lambda: f"{deployed.name}: {deployed.read()}")


def wait_repaired(deployed: Deployed, who: str) -> None:
    """Edit an object, and wait until its controller has undone that."""
    deployed.edit("one", color="red")
    wait_for(lambda: deployed.data("one") == {"color": "blue"}, SECONDS, f"{who} repairs")


def is_served_by(world: World, deployed: Deployed, shard: str) -> bool:
    """Whether an edit is undone by the controller of a shard only; until the other one has seen the label, it helps."""
    since = world.position()
    wait_repaired(deployed, shard)
    return [writer.partition(" shard/")[2] for writer in writers_of(world, deployed, since)] == [shard]


def deploy_in(world: World, shard: str, *objects: Manifest, **spec: Any) -> Deployed:
    """Deploy a bundle that belongs to a shard from the start."""
    deployed = world.deploy(*(objects or (config_map("one"), config_map("two"))), labels={names.SHARD: shard}, **spec)
    wait_settled(deployed)
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
    before, status = uids(deployed), deployed.status()
    for shard in ("a", "b", ""):
        move(deployed, shard)
        wait_for(partial(is_served_by, world, deployed, shard), SECONDS, f"{shard or 'the default'} alone repairs")
    assert uids(deployed) == before
    wait_for(lambda: deployed.status() == status, SECONDS, lambda: f"it is as before: {deployed.status()}")
    assert not deployed.all_events("Stray")


def test_both_at_once_end_with_what_the_spec_says_and_the_status_of_the_one_that_serves_it(
    world: World, a: Controller, b: Controller
) -> None:
    """It moves to and fro while it is upgraded; each of the controllers is in the middle of a pass."""
    count = 60
    deployed = deploy_in(world, "a", *(config_map(f"object-{number:03}") for number in range(count)))
    before = uids(deployed)
    colors = ("red", "green", "white", "black")
    refs = [
        world.push(deployed.name, *(config_map(f"object-{n:03}", color=color) for n in range(count)), tag=color)
        for color in colors
    ]
    since = world.position()
    for number, ref in enumerate(refs):
        color, shard = colors[number], "ba"[number % 2]
        deployed.change(sources=[image(ref)])
        wait_for(partial(_has, deployed, "object-000", {"color": color}), SECONDS, "its upgrade has begun")
        move(deployed, shard)
    wait_settled(deployed)
    wait_for(
        lambda: all(deployed.data(f"object-{n:03}") == {"color": colors[-1]} for n in range(count)), SECONDS, "upgraded"
    )
    assert uids(deployed) == before
    assert deployed.status()["installedRevision"] == deployed.status()["revision"]
    assert not deployed.all_events("Stray")
    assert writers_of_status(world, deployed, since)[-1].endswith("shard/a")


def _has(deployed: Deployed, name: str, data: dict[str, str]) -> bool:
    return deployed.data(name) == data


def writers_of_status(world: World, deployed: Deployed, since: int) -> list[str]:
    """Return the processes whose writes of its status were accepted, in order."""
    assert isinstance(world.cluster, ControlPlane)
    return [
        event["userAgent"]
        for event in world.cluster.audit_requests(since)
        if event["requestURI"].partition("?")[0].endswith(f"/{deployed.name}/status")
        and event["verb"] in WRITES
        and event["responseStatus"]["code"] < 300
    ]


def test_status_is_written_only_by_the_one_that_serves_the_label(world: World, a: Controller, b: Controller) -> None:
    """After each move, the first accepted write of status is that of the other controller, and all later ones are."""
    deployed = deploy_in(world, "a")
    for shard in ("b", "a", "b", ""):
        deployed.change(metadata={"labels": {names.SHARD: shard or None}, "annotations": {"example.com/moved": shard}})
        since = world.position()
        deployed.change(sources=[image(world.push(deployed.name, config_map("one", at=shard), tag=f"at-{shard}"))])
        wait_for(partial(_has, deployed, "one", {"at": shard}), SECONDS, f"{shard} upgrades")
        wait_settled(deployed)
        writers = {each.partition("shard/")[2] for each in writers_of_status(world, deployed, since)}
        assert writers == {shard}


def test_when_the_earlier_controller_is_down_the_new_one_does_not_wait_for_it(
    world: World, a: Controller, b: Controller
) -> None:
    deployed = deploy_in(world, "a")
    before = uids(deployed)
    a.kill()
    move(deployed, "b")
    wait_repaired(deployed, "b")
    assert uids(deployed) == before
    since = world.position()
    a.start()
    wait_for(lambda: '"msg": "leading"' in a.log, SECONDS, "a leads again")
    wait_repaired(deployed, "b")
    assert [each.partition("shard/")[2] for each in writers_of(world, deployed, since)] == ["b"]


@pytest.mark.thorough
def test_a_controller_that_was_away_leaves_what_moved_meanwhile(world: World, a: Controller, b: Controller) -> None:
    deployed = deploy_in(world, "a")
    b.stop()
    a.kill()
    move(deployed, "b")
    since = world.position()
    a.start()
    wait_for(lambda: '"msg": "leading"' in a.log, SECONDS, "a leads again")
    deployed.edit("one", color="red")
    b.start()
    wait_for(lambda: deployed.data("one") == {"color": "blue"}, SECONDS, "b repairs")
    assert [each.partition("shard/")[2] for each in writers_of(world, deployed, since)] == ["b"]


@pytest.mark.repeats
@pytest.mark.parametrize("dies", [False, True], ids=["living", "killed"])
def test_one_that_moves_while_it_is_deleted_leaves_nothing_behind(
    world: World, a: Controller, b: Controller, dies: bool
) -> None:
    kept = {**config_map("kept"), "metadata": {"name": "kept", "annotations": {names.PRUNE: "false"}}}
    deployed = deploy_in(world, "a", config_map("one"), kept)
    if dies:
        a.kill()
    deployed.delete()
    if exists(world.client, deployed.path):
        with suppress(ApiError):  # it is gone already
            move(deployed, "b")
    wait_for(lambda: not exists(world.client, deployed.path), SECONDS, "it is gone")
    wait_for(lambda: deployed.data("one") is None, SECONDS, "its object is gone")
    left = deployed.get("kept")
    assert left is not None
    assert names.OWNER_LABEL not in (left["metadata"].get("labels") or {})
    assert deployed.revisions() == []


def test_one_whose_shard_no_controller_serves_is_reported_and_stays_as_it_is(world: World) -> None:
    deployed = world.deploy(config_map("one"), labels={names.SHARD: "nobody"})
    shown = run_rukpak(world, "status", deployed.name)
    assert f'{deployed.name}: no controller serves the shard "nobody"; start one with "--shard nobody"' in shown.stderr
    assert 'no controller serves the shard "nobody" of 1 BundleDeployments' in run_rukpak(world, "check").stdout
    assert deployed.status() == {"observedGeneration": -1}
    move(deployed, "")
    deployed.wait_ready()
    wait_repaired(deployed, "the default shard")


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
    wait_settled(here)
    wait_settled(there)
