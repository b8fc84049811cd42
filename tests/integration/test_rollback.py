"""Going back to a revision that was healthy: by hand, and automatically after an upgrade that has failed.

A controller is killed at each write of an automatic rollback; with RUKPAK_STORMS above 1 also of one by hand, and
before the reply to each write is heard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import (
    Deployed,
    Manifest,
    World,
    config_map,
    image,
    new_name,
)
from tests.support.controller import command
from tests.support.mortal import Cut, Severing, new_mortal_world
from tests.support.objects import deployment, job, make
from tests.support.registry import LocalRegistry
from tests.support.weather import Fault

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

ROLL_BACK: dict[str, Any] = {"onFailure": {"action": "RollBack"}}
WAITS = {"example.com/waits": "true"}
"""Of pods that the fake node never starts."""


def web(color: str, *, waits: bool = False) -> Manifest:
    marks = {"example.com/color": color, **(WAITS if waits else {})}
    made = deployment("web", 1)
    made["spec"]["template"]["metadata"]["annotations"] = marks
    return made


def version(color: str, *, waits: bool = False) -> list[Manifest]:
    return [config_map("settings", color=color), web(color, waits=waits)]


def change(world: World, deployed: Deployed, *objects: Manifest, tag: str, **spec: Any) -> None:
    deployed.change(sources=[image(world.push(deployed.name, *objects, tag=tag))], **spec)


def is_running(deployed: Deployed, color: str) -> bool:
    """Whether a version is applied, and the pods of its Deployment run."""
    found = deployed.get("web", "deployments", "/apis/apps/v1") or {}
    marks = found.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
    is_available = found.get("status", {}).get("availableReplicas") == 1
    return deployed.data("settings") == {"color": color} and marks.get("example.com/color") == color and is_available


# by hand


@pytest.mark.thorough
def test_ten_upgrades_and_a_rollback_to_each(kwok_world: World) -> None:
    deployed = kwok_world.deploy(*version("c0"), revisionHistoryLimit=50)
    revisions = {"c0": deployed.wait_ready()["installedRevision"]}
    for number in range(1, 11):
        before = deployed.status()["installedRevision"]
        change(kwok_world, deployed, *version(f"c{number}"), tag=f"c{number}")
        revisions[f"c{number}"] = deployed.wait_installed(before)["installedRevision"]
    resolved = deployed.status()["sources"]

    for color, revision in revisions.items():
        deployed.change(pinnedRevision=revision)
        kwok_world.wait(lambda: is_running(deployed, color), f"rolled back to {color}")  # noqa: B023 - called at once
        deployed.wait_for("Ready", saying=f"the rollback is undone: rukpak rollback {deployed.name} --undo")
        status = deployed.status()
        assert (status["installedRevision"], status["sources"]) == (revision, resolved)

    deployed.change(pinnedRevision=None)
    deployed.wait_for("Ready")
    assert sorted(each["revision"] for each in deployed.status()["history"]) == sorted(revisions.values())


def test_the_command_line_rolls_back(kwok_world: World) -> None:
    rukpak = command(kwok_world.cluster.kubeconfig)
    deployed = kwok_world.deploy(*version("blue"))
    first = deployed.wait_ready()["installedRevision"]
    alone = rukpak("rollback", deployed.name, status=1)
    assert "no earlier revision that was healthy is kept" in alone.stderr
    change(kwok_world, deployed, *version("red"), tag="red")
    second = deployed.wait_installed(first)["installedRevision"]

    done = rukpak("rollback", deployed.name, "--wait")
    assert f"rolled back to revision {first[7:19]}" in done.stdout
    assert is_running(deployed, "blue")
    rukpak("rollback", deployed.name, "--to", second[:20], "--wait")
    assert is_running(deployed, "red")
    none = rukpak("rollback", deployed.name, "--undo", "--to", second[:20], status=2)
    assert "specify only one of --to and --undo" in none.stderr
    other = rukpak("rollback", deployed.name, "--to", "0" * 12, status=1)
    assert "not one of the revisions that are kept" in other.stderr
    deployed.change(pinnedRevision="sha256:" + "0" * 64)
    deployed.wait_for("Ready", "False", "RevisionNotKept", saying=first[7:19])
    assert is_running(deployed, "red")


def test_a_rollback_is_undone_after_what_that_leads_to_was_shown(kwok_world: World) -> None:
    rukpak = command(kwok_world.cluster.kubeconfig)
    deployed = kwok_world.deploy(*version("blue"))
    first = deployed.wait_ready()["installedRevision"]
    refused = rukpak("rollback", deployed.name, "--undo", "--yes", status=1)
    assert refused.stderr == f"rukpak rollback: {deployed.name}: not rolled back: spec.pinnedRevision is not set\n"
    change(kwok_world, deployed, *version("red"), tag="red")
    second = deployed.wait_installed(first)["installedRevision"]
    told = rukpak("rollback", deployed.name, "--wait").stderr
    assert f"ignored until the rollback is undone: rukpak rollback {deployed.name} --undo\n" in told

    done = rukpak("rollback", deployed.name, "--undo", "--yes", "--wait")
    assert f"revision {second} compared with the cluster: 2 to change" in done.stderr
    assert done.stdout == f"bundledeployment.core.rukpak.io/{deployed.name} rollback undone\n"
    assert is_running(deployed, "red")
    assert "pinnedRevision" not in deployed.read()["spec"]


def test_status_tells_a_pin_what_is_installed_and_that_a_later_change_is_not(kwok_world: World) -> None:
    deployed = kwok_world.deploy(*version("blue"))
    first = deployed.wait_ready()
    change(kwok_world, deployed, *version("red"), tag="red")
    second = deployed.wait_installed(first["installedRevision"])
    deployed.change(pinnedRevision=first["installedRevision"])
    deployed.wait_for("Pinned", "True", "Pinned", saying=first["installedRevision"][7:19])
    deployed.wait_for("Ready")
    status = deployed.status()
    assert [pin["digest"] for pin in status["installedSources"]] == [pin["digest"] for pin in first["sources"]]
    assert [pin["digest"] for pin in status["sources"]] == [pin["digest"] for pin in second["sources"]]
    assert status["display"]["sources"] == first["display"]["sources"] != second["display"]["sources"]
    assert second["display"]["sources"].startswith("image:red@")

    change(kwok_world, deployed, *version("green"), tag="green")
    deployed.wait_for("Ready", "False", "PinnedWithChanges", saying=f"rukpak rollback {deployed.name} --undo")
    assert not {"Stalled", "Reconciling"} & {each["type"] for each in deployed.status()["conditions"]}
    assert is_running(deployed, "blue")
    deployed.change(pinnedRevision=None)
    deployed.wait_for("Ready")
    assert is_running(deployed, "green")


# automatic


def hook(event: str) -> Manifest:
    """Return a hook of a chart that fails at once: its pod is never scheduled."""
    made = job("hook", activeDeadlineSeconds=1, backoffLimit=0)
    made["metadata"]["annotations"] = {"helm.sh/hook": event}
    made["spec"]["template"]["metadata"] = {"annotations": WAITS}
    return made


def mark(event: str) -> Manifest:
    metadata = {"name": event, "annotations": {"helm.sh/hook": event}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def chart(*manifests: Manifest) -> dict[str, bytes]:
    templates = {f"templates/{index}.yaml": json.dumps(each).encode() for index, each in enumerate(manifests)}
    return {"Chart.yaml": b"apiVersion: v2\nname: shop\nversion: 1.0.0\n", **templates}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An upgrade that fails."""

    objects: Callable[[], list[Manifest]]
    """Of the new version."""
    reason: str
    says: str


INVALID = make("v1", "Service", "broken", spec={"ports": [{"port": 99999}]})
FAILURES = {
    "a Deployment is not healthy in time": Failure(
        objects=lambda: version("bad", waits=True), reason="ProgressDeadlineExceeded", says="Deployment"
    ),
    "an object is refused": Failure(objects=lambda: [*version("bad"), INVALID], reason="Refused", says="Service"),
    "a hook before it fails": Failure(
        objects=lambda: [*version("bad"), hook("pre-upgrade")], reason="HookFailed", says="pre-upgrade hook failed"
    ),
    "a hook after it fails": Failure(
        objects=lambda: [*version("bad"), hook("post-upgrade")], reason="HookFailed", says="post-upgrade hook failed"
    ),
}


def is_settled(deployed: Deployed, revision: str) -> bool:
    status = deployed.status()
    return bool(status["revision"] == status["installedRevision"] == revision)


@pytest.mark.repeats
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_an_upgrade_that_fails_is_rolled_back(kwok_world: World, failure: Failure) -> None:
    first = chart(*version("good"), mark("pre-rollback"), mark("post-rollback"))
    deployed = kwok_world.deploy(first, format="helm", progressDeadline="3s", **ROLL_BACK)
    good = deployed.wait_ready()["installedRevision"]
    refused = kwok_world.push(deployed.name, chart(*failure.objects(), config_map("extra")), tag="bad")
    deployed.change(sources=[image(refused)])

    condition = deployed.wait_for("RolledBack", "True", failure.reason, saying=f"to revision {good[7:19]}: ")
    assert failure.says in condition["message"]
    deployed.wait_for("Healthy")
    kwok_world.wait(lambda: is_running(deployed, "good"), "the good revision is back")
    kwok_world.wait(lambda: deployed.data("extra") is None, "what only the bad one had is pruned")
    deployed.wait_for("Ready", "False", "RolledBack")
    kwok_world.wait(lambda: deployed.status().get("managedState") and is_settled(deployed, good), "at rest")
    if "before" not in failure.says and "pre-upgrade" not in failure.says:
        assert {"pre-rollback", "post-rollback"} <= deployed.objects().keys()
    since = kwok_world.position()
    kwok_world.controller.kill()
    kwok_world.controller.start()
    kwok_world.deploy(config_map("last")).wait_ready()
    deployed.wait_for("Ready", "False", "RolledBack")
    assert not [each for each in kwok_world.writes(since) if f"/{deployed.name}/" in each]


# killed at each write


@pytest.fixture(scope="module")
def severing(fresh_kwok_cluster: ControlPlane) -> Iterator[Severing]:
    """What stands between controller and API server."""
    with Severing(fresh_kwok_cluster.server, fresh_kwok_cluster.folder / "ca.crt") as started:
        yield started


@pytest.fixture(scope="module")
def mortal_world(
    fresh_kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, severing: Severing
) -> Iterator[World]:
    """A world whose controller is reached through there, and started in no time."""
    with new_mortal_world(fresh_kwok_cluster, registry, settings, severing) as made:
        yield made


def pin(deployed: Deployed, first: str) -> None:
    deployed.change(pinnedRevision=first)


def mistake(deployed: Deployed, _first: str) -> None:
    """Let an upgrade fail: an object that is refused, immediately for longer than the deadline."""
    deployed.change(sources=[image(f"{deployed.ref.rpartition(':')[0]}:bad")], progressDeadline="10ms", **ROLL_BACK)


FULL = int(os.environ.get("RUKPAK_STORMS", "1")) > 1
ROLLBACKS = {"automatic": mistake, **({"by hand": pin} if FULL else {})}
CUTS = {"before the write": Fault.CUT, **({"before its reply": Fault.LOST} if FULL else {})}
MOST = 40


def is_back(deployed: Deployed, first: str) -> bool:
    """Whether the first version is installed, alone, and nothing is left to do."""
    status, conditions = deployed.status(), deployed.conditions()
    if not (status.get("managedState") and status["revision"] == status["installedRevision"] == first):
        return False
    is_known = conditions.get("Ready", {}).get("reason") in ("Ready", "RolledBack") and "Reconciling" not in conditions
    colors = {name: deployed.data(name) for name in ("settings", "old", "new")}
    return is_known and colors == {"settings": {"color": "blue"}, "old": {"color": "blue"}, "new": None}


@pytest.mark.thorough
@pytest.mark.parametrize("fault", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("begin", ROLLBACKS.values(), ids=ROLLBACKS)
def test_a_controller_that_is_killed_at_any_write_of_a_rollback_rolls_back(
    mortal_world: World, severing: Severing, begin: Callable[[Deployed, str], None], fault: Fault
) -> None:
    world = mortal_world
    for nth in range(1, MOST):
        name = new_name()
        blue, red = config_map("settings", color="blue"), config_map("settings", color="red")
        deployed = world.deploy(blue, config_map("old"), name=name)
        first = deployed.wait_ready()["installedRevision"]
        world.push(name, red, config_map("new"), {**INVALID, "metadata": {"name": name}}, tag="bad")
        if begin is pin:
            change(world, deployed, red, config_map("new"), tag="v2")
            deployed.wait_installed(first)
        severing.arm(Cut(name=name, nth=nth, fault=fault))
        begin(deployed, first)
        world.wait(lambda: severing.severed.is_set() or is_back(deployed, first), "cut off or done")  # noqa: B023
        was_cut = severing.severed.is_set()
        if was_cut:
            world.controller.kill()
        severing.restore()
        if was_cut:
            world.controller.start()
        world.wait(lambda: is_back(deployed, first), f"rolled back although killed at write {nth}")  # noqa: B023
        deployed.delete()
        if not was_cut:
            break
    assert 5 < nth < MOST - 1
