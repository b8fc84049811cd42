"""Bundles in waves on a real control plane: what waits, what is repaired meanwhile, and how a failure is left behind.

A controller is killed at a random write of an installation in three waves, and started again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, config_map, definition, exists, image, new_name
from tests.support.controller import command
from tests.support.mortal import Cut, Severing
from tests.support.objects import deployment, job, labelled, make, template
from tests.support.weather import Fault

pytestmark = pytest.mark.timeout(600)

APPS, BATCH = "/apis/apps/v1", "/apis/batch/v1"
WAITS = {"example.com/waits": "true"}
"""Of pods that the fake node never starts."""


def in_wave(number: int, manifest: Manifest) -> Manifest:
    return labelled(manifest, annotations={names.WAVE: str(number)})


def database(color: str, replicas: int = 1) -> Manifest:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "db"}}, "serviceName": "db"}
    pod = template("db")
    metadata = {**pod["metadata"], "annotations": {"color": color}}
    return make("apps/v1", "StatefulSet", "db", spec={**spec, "template": {**pod, "metadata": metadata}})


def migration(color: str, *, fails: bool = False) -> Manifest:
    made = job(f"migrate-{color}", **({"activeDeadlineSeconds": 1} if fails else {}))
    if fails:
        made["spec"]["template"]["metadata"] = {"annotations": WAITS}
    return made


def shop(color: str, *, fails: bool = False) -> list[Manifest]:
    """Return a database, a migration of it, and what runs then."""
    waves = {
        -1: [database(color), config_map("early", color=color)],
        0: [migration(color, fails=fails)],
        1: [deployment("web", 1), config_map("settings", color=color)],
    }
    made = [in_wave(number, each) for number, found in waves.items() for each in found]
    return made[::-1]  # whatever the order of the files


def upgrade(world: World, deployed: Deployed, color: str, **how: Any) -> None:
    deployed.change(sources=[image(world.push(deployed.name, *shop(color, **how), tag=color))])


def first_applies(requests: Iterable[str], kinds: Iterable[str]) -> list[str]:
    """Return in which order objects of some kinds were applied first."""
    found = [each for each in requests if each.lower().startswith("patch ") and "/status" not in each]
    places = [next((kind for kind in kinds if f"/{kind}/" in each), "") for each in found]
    return [place for place in dict.fromkeys(places) if place]


def waves_in(tree: str) -> list[list[str]]:
    """Return the number of each wave in a tree, and what it is doing."""
    words = [line.split()[1:4] for line in tree.splitlines()[2:]]
    return [each for each in words if each[:1] == ["Wave"]]


def versions(deployed: Deployed) -> list[str]:
    """Return the resourceVersions of what is in the last wave, but for the status."""
    web, settings = deployed.get("web", "deployments", APPS), deployed.get("settings")
    assert web
    assert settings
    return [str(web["metadata"]["generation"]), settings["metadata"]["resourceVersion"]]


def test_three_waves_are_installed_upgraded_rolled_back_and_deleted(kwok_world: World) -> None:
    world, kinds = kwok_world, ("statefulsets", "jobs", "deployments")
    position = world.position()
    deployed = world.deploy(*shop("blue"))
    blue = deployed.wait_ready()["installedRevision"]
    assert first_applies(world.requests(position), kinds) == ["statefulsets", "jobs", "deployments"]
    assert "wave" not in deployed.status()

    before = versions(deployed)
    upgrade(world, deployed, "red", fails=True)
    deployed.wait_for("Ready", "False", "Failed", "Job")
    message = deployed.wait_for("Installed", "False", "WaitingForWave")["message"]
    assert f"later waves wait for wave 0: Job {deployed.namespace}/migrate-red: DeadlineExceeded" in message
    assert (versions(deployed), deployed.data("early")) == (before, {"color": "red"})
    assert deployed.status()["wave"]["number"] == 0
    rukpak = command(world.cluster.kubeconfig)
    assert waves_in(rukpak("tree", deployed.name).stdout) == [["Wave", "-1"], ["Wave", "0", "Applying"],
                                                              ["Wave", "1", "Waiting"]]  # fmt: skip
    assert "Wave:      0, since " in rukpak("status", deployed.name).stdout

    deployed.edit("settings", color="edited")
    deployed.edit("early", color="edited")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repaired as it was installed")
    deployed.wait(lambda: deployed.data("early") == {"color": "red"}, "repaired as it is wanted")

    deployed.change(pinnedRevision=blue)
    deployed.wait_for("Pinned")
    deployed.wait_ready()
    deployed.wait(lambda: deployed.get("migrate-red", "jobs", BATCH) is None, "what the other revision had is gone")
    assert deployed.data("early") == {"color": "blue"}

    position = world.position()
    deployed.delete()
    deployed.wait_gone()
    deleted = [each for each in world.requests(position) if each.startswith("delete ")]
    order = [next((kind for kind in kinds if f"/{kind}/" in each), "") for each in deleted]
    assert [each for each in order if each] == ["deployments", "jobs", "statefulsets"]


def test_a_wave_that_can_not_be_read_is_told(world: World) -> None:
    deployed = world.deploy(labelled(config_map("a"), annotations={names.WAVE: "last"}))
    message = deployed.wait_for("Installed", "False", "InvalidBundle")["message"]
    assert f"ConfigMap {deployed.namespace}/a" in message or "ConfigMap a" in message
    assert f"{names.WAVE}: must be an integer" in message


def test_a_workload_that_an_upgrade_adds_to_a_healthy_bundle_has_to_hold_before_the_next_wave(
    kwok_world: World,
) -> None:
    deployed = kwok_world.deploy(in_wave(1, config_map("after", color="blue")))
    before = deployed.wait_ready()["installedRevision"]
    web = deployment("web", 1)
    del web["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    added = [web, in_wave(1, config_map("after", color="red"))]
    deployed.change(sources=[image(kwok_world.push(deployed.name, *added, tag="v2"))])
    deployed.wait_for("Installed", "False", "WaitingForWave", saying="Stabilizing")
    deployed.wait_installed(before)
    made, after = deployed.get("web", "deployments", APPS), deployed.get("after")
    assert made
    assert after
    assert after["data"] == {"color": "red"}
    # As the API server notes it: a busy machine may look at the object too late.
    changed = max(datetime.fromisoformat(each["time"]) for each in after["metadata"]["managedFields"])
    held = changed - datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    assert held >= timedelta(seconds=4)  # five, in whole seconds


# what a status says that was there before


def report_ready(world: World, deployed: Deployed, plural: str, value: str, at: str) -> None:
    """Write the status of a custom resource, as its controller would."""
    condition = {"type": "Ready", "status": value, "reason": "Said", "message": "", "lastTransitionTime": at}
    patch = json.dumps({"status": {"conditions": [condition]}})
    where = ("-n", deployed.namespace, "--type=merge", "--subresource=status", "-p", patch)
    world.cluster.kubectl("patch", plural, "db", *where)


def test_what_a_custom_resource_said_before_its_spec_was_changed_lets_no_wave_go_on(world: World) -> None:
    group = f"{new_name()}.example.com"
    kind = definition(group, "Base")
    kind["spec"]["versions"][0]["subresources"] = {"status": {}}

    def bundle(size: str) -> list[Manifest]:
        base = {"apiVersion": f"{group}/v1", "kind": "Base", "metadata": {"name": "db"}, "spec": {"size": size}}
        return [kind, base, in_wave(1, config_map("after", size=size))]

    deployed = world.deploy(*bundle("1"))
    deployed.wait(lambda: deployed.get("db", "bases", f"/apis/{group}/v1"), "created")
    report_ready(world, deployed, f"bases.{group}", "True", "2026-01-01T00:00:00Z")
    deployed.wait_ready()

    deployed.change(sources=[image(world.push(deployed.name, *bundle("2"), tag="v2"))])
    deployed.wait_for("Installed", "False", "WaitingForWave", "StatusOutdated: its status is older than its spec")
    assert deployed.data("after") == {"size": "1"}
    report_ready(world, deployed, f"bases.{group}", "False", "2026-01-01T00:00:01Z")
    deployed.wait_for("Healthy", "False", "Progressing", "Said")
    assert deployed.data("after") == {"size": "1"}
    report_ready(world, deployed, f"bases.{group}", "True", "2026-01-01T00:00:02Z")
    deployed.wait_ready()
    assert deployed.data("after") == {"size": "2"}


# killed


def idle_shop() -> list[Manifest]:
    """Return three waves that become healthy without a node."""
    waves = [database("blue", replicas=0), job("migrate", completions=0), deployment("web")]
    return [in_wave(number, each) for number, each in enumerate(waves)]


def is_ready(deployed: Deployed) -> bool:
    return bool(deployed.conditions().get("Ready", {}).get("status") == "True")


WRITES = 14
"""Of this installation: finalizer, revision, three objects, the namespace, and status."""


def _thorough(seeds: Iterable[int]) -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.thorough) for seed in seeds]


@pytest.mark.parametrize("seed", [0, *_thorough(range(1, 8))])
def test_killed_at_any_write_an_installation_goes_on_in_its_wave(
    mortal_world: World, severing: Severing, seed: int
) -> None:
    world, chance, name = mortal_world, random.Random(seed), new_name()
    fault = chance.choice([Fault.CUT, Fault.LOST])
    severing.arm(Cut(name=name, nth=chance.randint(1, WRITES), fault=fault))
    deployed = world.deploy(*idle_shop(), name=name)
    world.wait(lambda: severing.severed.is_set() or is_ready(deployed), "cut off or done")
    if severing.severed.is_set():
        world.controller.kill()
    severing.restore()
    if not world.controller.is_running():
        world.controller.start()
    world.wait(lambda: is_ready(deployed), "installed after the controller was killed")
    sent = [f"{each.verb} {each.path}" for each in severing.requests if each.fault is not Fault.CUT]
    assert first_applies(sent, ("statefulsets", "jobs", "deployments")) == ["statefulsets", "jobs", "deployments"]
    assert "wave" not in deployed.status()
    deployed.delete()
    world.wait(lambda: not exists(world.client, deployed.path), "gone")


def test_while_paused_objects_of_waves_that_have_not_begun_wait_for_theirs(kwok_world: World) -> None:
    world = kwok_world

    def bundle(color: str, replicas: int) -> list[Manifest]:
        late = [config_map("late", color=color), *([config_map("new")] if replicas else [])]
        return [deployment("web", replicas), *(in_wave(1, each) for each in late)]

    stuck = bundle("red", 1)
    stuck[0]["spec"]["template"]["metadata"]["annotations"] = WAITS
    deployed = world.deploy(*bundle("blue", 0))
    deployed.wait_ready()
    deployed.change(sources=[image(world.push(deployed.name, *stuck, tag="red"))])
    deployed.wait_for("Installed", "False", "WaitingForWave")
    deployed.change(paused=True)
    deployed.wait_for("Paused")

    def told() -> dict[str, tuple[str, str]]:
        found = deployed.status().get("notReady") or []
        return {each["name"]: (each["reason"], each["message"]) for each in found if each["name"] != "web"}

    waits = ("WaitingForWave", "later waves wait for wave 0")
    deployed.wait(lambda: told() == {"late": waits, "new": waits}, "they wait for their wave")
