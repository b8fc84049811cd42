"""Several controllers on one cluster: one acts, and when it goes another goes on; nothing is lost, or done twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import LEASES, Deployed, Manifest, World, config_map, definition, new_name, new_world
from tests.support.controller import Controller
from tests.support.inside import ListWatch, Reflector, Trace, make_trace
from tests.support.objects import deployment, labelled, webhook
from tests.support.registry import LocalRegistry
from tests.support.tampering import wipe_status

pytestmark = [pytest.mark.own_cluster, pytest.mark.long]

DURATION, RENEW, RETRY = 15, 10, 1
TIMES = (f"--lease-duration={DURATION}", f"--renew-deadline={RENEW}", f"--retry-period={RETRY}")
SLACK = 10.0
"""Seconds that a machine under load may add."""
BUNDLES, OBJECTS = 8, 25
SAID = ("starting", "leading")


@pytest.fixture
def folder(settings: Settings) -> Iterator[Path]:
    made = make_owned_folder(settings.running, "controller")
    yield made
    take_away(made)


@pytest.fixture
def world(cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A world whose controller leads."""
    with new_world(cluster, registry, settings.running, *TIMES) as started:
        started.wait(lambda: is_leading(started.controller), "a leader", 30)
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


@pytest.fixture
def standby(world: World, folder: Path) -> Iterator[Controller]:
    """Another controller, whose caches are warm."""
    started = Controller(folder, world.cluster.kubeconfig, *TIMES, environment={})
    started.start()
    started.wait_for(lambda: probe(started, "readyz") == "200 ok", 30, "a standby is ready")
    yield started
    if started.is_running():
        started.stop()
    print(started.log)  # noqa: T201 -- pytest shows it where the test has failed


def is_leading(controller: Controller) -> bool:
    return '"msg": "leading"' in controller.log


def probe(controller: Controller, path: str) -> str:
    """Return status and body of a probe; empty before it listens."""
    address = controller.address("--probe-address")
    if not address:
        return ""
    try:
        with urllib.request.urlopen(f"{address}/{path}", timeout=5) as answer:
            return f"{answer.status} {answer.read().decode().strip()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode().strip()}"


def lease(world: World) -> Manifest:
    spec: Manifest = world.client.get(f"{LEASES}/rukpak").value["spec"]
    return spec


class Changes:
    """Counts what becomes of the ConfigMaps in namespaces of ours."""

    def __init__(self, world: World) -> None:
        self.writes: Counter[tuple[str, str]] = Counter()
        self.deletions: list[tuple[str, str]] = []
        self._reflector = Reflector[Trace](
            ListWatch(
                world.client, "/api/v1/configmaps", label_selector="core.rukpak.io/bundle-deployment", metadata=True
            ),
            project=make_trace,
            on_change=self._note,
        )
        self._reflector.start()
        wait_for(lambda: self._reflector.synced, 30, "ConfigMaps are watched")

    def _note(self, old: Trace | None, new: Trace | None) -> None:
        if new is not None:
            self.writes[new.namespace, new.name] += 1
        elif old is not None:
            self.deletions.append((old.namespace, old.name))

    def stop(self) -> None:
        self._reflector.stop()


def deploy_many(world: World) -> list[Deployed]:
    bundles = [[config_map(f"object-{number:02}", bundle=str(b)) for number in range(OBJECTS)] for b in range(BUNDLES)]
    return [world.deploy(*objects) for objects in bundles]


def is_ready(deployed: Deployed) -> bool:
    return bool(deployed.conditions().get("Ready", {}).get("status") == "True")


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_leader_that_is_killed_under_load_is_followed_and_nothing_is_lost_or_done_twice(
    world: World, standby: Controller
) -> None:
    changes = Changes(world)
    deployments = deploy_many(world)
    world.wait(lambda: len(changes.writes) > OBJECTS, "it is at work", 60)

    world.controller.kill()
    killed = time.monotonic()
    standby.wait_for(lambda: is_leading(standby), DURATION + RETRY * 1.2 + SLACK, "the standby leads")
    print(f"followed after {time.monotonic() - killed:.1f} s")  # noqa: T201 -- a figure

    for deployed in deployments:
        standby.wait_for(partial(is_ready, deployed), 90, f"{deployed.name} is ready")
    changes.stop()
    ours = {deployed.namespace for deployed in deployments}  # what earlier tests have left may still go away
    # An apply of what is there already as it should be changes nothing: each was written with effect once.
    writes = [count for (namespace, _), count in changes.writes.items() if namespace in ours]
    assert writes == [1] * (BUNDLES * OBJECTS)
    assert not [name for namespace, name in changes.deletions if namespace in ours]
    for deployed in deployments:
        assert len(deployed.revisions()) == 1


@pytest.mark.timeout(300)
def test_a_leader_that_is_told_to_end_hands_over_within_two_seconds(world: World, standby: Controller) -> None:
    held = lease(world)["holderIdentity"]
    started = time.monotonic()
    world.controller.stop()
    standby.wait_for(lambda: is_leading(standby), 10, "the standby leads")
    assert time.monotonic() - started < 2 + SLACK
    assert lease(world)["holderIdentity"] not in ("", held)
    assert '"msg": "Lease released"' in world.controller.log


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_leader_finds_out_what_was_wiped_before_it_led(world: World, standby: Controller) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    before = world.wait(lambda: deployed.status() if deployed.status().get("managedState") else None, "at rest")
    objects = deployed.versions()
    world.controller.kill()
    wipe_status(deployed)
    fields = ("revision", "installedRevision", "managedState", "managedKinds", "sources")
    wanted = {field: before[field] for field in fields}
    standby.wait_for(lambda: {field: deployed.status().get(field) for field in fields} == wanted, 60, "the status")
    assert deployed.versions() == objects
    world.controller.start()


def test_a_leader_that_froze_writes_nothing_when_it_wakes_up_and_ends(world: World, standby: Controller) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    process = world.controller._process._own_child()
    os.kill(process.pid, signal.SIGSTOP)
    standby.wait_for(lambda: is_leading(standby), DURATION + RETRY * 1.2 + SLACK + 5, "the standby leads")
    said = len(world.controller.log)
    deployed.edit("settings", color="red")  # both are told
    standby.wait_for(lambda: deployed.data("settings") == {"color": "blue"}, 30, "the standby repairs it")
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(30) == 1
    assert "object applied" not in world.controller.log[said:]
    assert '"msg": "Lease lost"' in world.controller.log[said:]


@pytest.mark.timeout(300)
def test_who_comes_back_after_a_kill_need_not_wait_for_its_own_lease(world: World) -> None:
    transitions = lease(world)["leaseTransitions"]
    world.controller.kill()
    said = len(world.controller.log)
    world.controller.start()
    world.wait(lambda: '"msg": "leading"' in world.controller.log[said:], "it leads again", 60)
    records = [json.loads(line) for line in world.controller.log[said:].splitlines()]
    begun, leading = (next(datetime.fromisoformat(r["time"]) for r in records if r["msg"] == m) for m in SAID)
    assert (leading - begun).total_seconds() < DURATION - RETRY
    assert lease(world)["leaseTransitions"] == transitions


@pytest.mark.timeout(300)
def test_a_standby_does_not_watch_a_kind_that_no_bundle_deployment_has_any_more(
    world: World, standby: Controller, cluster: ControlPlane
) -> None:
    group = f"{new_name()}.example.com"

    def watches(since: int) -> int:
        asked = [event["requestURI"] for event in cluster.audit_requests(since) if event["verb"] == "watch"]
        return sum(uri.startswith(f"/apis/{group}/") for uri in asked if "rukpak" in uri)

    deployed = world.deploy(definition(group, "Foo"), foo(group))
    deployed.wait_ready()
    standby.wait_for(lambda: watches(0) >= 2, 60, "both watch the kind")
    deployed.delete()
    deployed.wait_gone()
    world.deploy(definition(f"{new_name()}.example.com", "Foo")).wait_ready()
    since = cluster.audit_position()
    world.deploy(definition(f"{new_name()}.example.com", "Foo")).wait_ready()  # what is not served is tried again
    world.wait_until_looked_at()
    assert watches(since) == 0


def foo(group: str) -> Manifest:
    return {"apiVersion": f"{group}/v1", "kind": "Foo", "metadata": {"name": "thing"}}


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_without_an_api_server_a_process_is_well_and_not_ready(
    world: World, standby: Controller, cluster: ControlPlane
) -> None:
    cluster.stop("kube-apiserver")
    try:
        standby.wait_for(lambda: probe(standby, "readyz").startswith("503"), 60, "it is not ready")
        assert probe(standby, "healthz").startswith("200 ok; the API server does not respond")
    finally:
        cluster.start("kube-apiserver")
    standby.wait_for(lambda: probe(standby, "readyz") == "200 ok", 60, "it is ready again")


@pytest.mark.timeout(300)
def test_a_webhook_that_hangs_is_named_although_writes_have_less_time_than_it(world: World) -> None:
    name = new_name()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and says nothing
        hook = webhook(name, "apps")
        [configured] = hook["webhooks"]
        configured["clientConfig"] = {"url": f"https://127.0.0.1:{silent.getsockname()[1]}/"}
        configured["rules"][0]["resources"] = ["deployments"]
        configured["objectSelector"] = {"matchLabels": {"hangs": name}}
        configured["timeoutSeconds"] = 3 * RENEW
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        world.client.create(path, hook)
        try:
            deployed = world.deploy(labelled(deployment("web"), labels={"hangs": name}))
            says = f'the API server did not answer in time; it may wait for admission webhook "{name}.example.com"'
            deployed.wait_for("Installed", "False", "WebhookUnavailable", saying=says)
            assert is_leading(world.controller)
        finally:
            world.client.delete(f"{path}/{name}")
    deployed.wait_ready()
