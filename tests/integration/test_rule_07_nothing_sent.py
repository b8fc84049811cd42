"""Rule 7: nothing changed means nothing sent, by the API server's own audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from rukpak.api import names
from tests.support.bundles import DEPLOYMENTS, STORE, WRITES, Deployed, World, config_map, new_name, refused_config_map
from tests.support.faulty_registry import FaultyRegistry
from tests.support.registry import LocalRegistry

pytestmark = pytest.mark.own_cluster


@pytest.fixture
def faulty_registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        yield registry


def touch_bundle_deployment(deployed: Deployed) -> None:
    """Let it be looked at: another finalizer might ask for something."""
    deployed.change(metadata={"finalizers": [names.FINALIZER, "example.com/held"]})
    deployed.change(metadata={"finalizers": [names.FINALIZER]})


def apply_again(deployed: Deployed) -> None:
    deployed.change(progressDeadline="10m")


def add_what_is_not_ours(deployed: Deployed) -> None:
    patch = {"metadata": {"labels": {"somebody": "else"}}, "data": {"more": "data"}}
    deployed.client.merge_patch(deployed.path_of("settings"), patch, manager="somebody")


def write_the_same(deployed: Deployed) -> None:
    deployed.edit("settings", color="blue")


EVENTS: dict[str, Callable[[Deployed], None]] = {
    "a look at it": touch_bundle_deployment,
    "an equal spec": apply_again,
    "fields of others in a managed object": add_what_is_not_ours,
    "an equal write of others to a managed object": write_the_same,
}


@pytest.mark.parametrize("happens", EVENTS.values(), ids=EVENTS)
def test_an_unchanged_bundle_deployment_costs_no_request_after(
    world: World, registry: LocalRegistry, happens: Callable[[Deployed], None]
) -> None:
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others"))
    deployed.wait_ready()
    world.wait_until_looked_at()
    since, asked = world.position(), registry.log.count(deployed.name)

    happens(deployed)
    world.wait_until_looked_at()

    assert world.requests_about(deployed.name, since) == []
    assert registry.log.count(deployed.name) == asked


def test_a_restart_with_nothing_changed_writes_nothing_and_reads_one_list_a_kind(
    fresh_world: World, registry: LocalRegistry
) -> None:
    # Every request to the server counts, and elsewhere other tests have left what the controller looks at, too.
    world = fresh_world
    deployments = [world.deploy(config_map("settings"), config_map("others")) for _ in range(3)]
    for deployed in deployments:
        deployed.wait_ready()
    world.wait_until_looked_at()
    world.controller.stop()
    since, log = world.position(), registry.log

    world.controller.start()
    # A pass over each of them, all of which need the list of ConfigMaps.
    world.wait(lambda: f"list {STORE}" in "".join(world.requests(since)), "revisions of nobody looked for")
    touch_bundle_deployment(deployments[0])
    deployments[0].edit("settings", color="red")
    repaired = deployments[0].path_of("settings")

    def written() -> list[str]:
        return [urlsplit(write.split()[1]).path for write in world.writes(since)]

    # A write is in the audit log once it was answered, which is after others can see it.
    world.wait(lambda: repaired in written(), "repair")
    assert deployments[0].data("settings") == {"color": "blue"}
    assert [path for path in written() if not path.endswith("/events")] == [repaired]
    for deployed in deployments[1:]:
        assert world.requests_about(deployed.name, since) == []
    asked = [request.split() for request in world.requests(since)]
    reads = {urlsplit(address).path for verb, address in asked if verb not in WRITES} - set(written())
    kept = {f"{STORE}/{secret['metadata']['name']}" for secret in deployments[0].revisions()}
    # Whose revisions are nobody's is asked of the API server, and of no watch.
    swept = {STORE, DEPLOYMENTS}
    assert reads <= {"/api", "/apis", *swept, f"/api/v1/namespaces/{deployments[0].namespace}", *kept}
    assert registry.log == log


def test_a_repair_is_one_read_and_one_apply_of_the_one_object(world: World) -> None:
    deployed = world.deploy(*[config_map(f"settings-{index:02}", color="blue") for index in range(20)])
    deployed.wait_ready()
    world.wait_until_looked_at()
    since = world.position()

    deployed.edit("settings-07", color="red")
    deployed.wait(lambda: deployed.data("settings-07") == {"color": "blue"}, "repair")
    world.wait_until_looked_at()

    requests = [request.split("?")[0] for request in world.requests_about(deployed.name, since)]
    path = deployed.path_of("settings-07")
    assert requests == [f"get {path}", f"patch {path}"]


def test_an_unchanged_failure_writes_status_once(world: World, faulty_registry: FaultyRegistry) -> None:
    faulty_registry.faults.status = 503
    deployed = world.deploy(ref=f"{faulty_registry.host}/{new_name()}:v1")
    deployed.wait_for("Unpacked", "False", "Unreachable")
    world.wait_until_looked_at()  # the audit log tells a little late
    since, version = world.position(), deployed.read()["metadata"]["resourceVersion"]
    asked = len(faulty_registry.requests)

    world.wait(lambda: len(faulty_registry.requests) > 2 * asked, "two more attempts")

    assert deployed.read()["metadata"]["resourceVersion"] == version
    assert world.requests_about(deployed.name, since) == []


def test_an_unchanged_failure_to_apply_writes_status_once(world: World) -> None:
    refused = refused_config_map("refused")
    deployed = world.deploy(config_map("settings"), refused)
    deployed.wait_for("Installed", "False", "Refused")
    version = deployed.read()["metadata"]["resourceVersion"]

    add_what_is_not_ours(deployed)
    deployed.remove("settings")
    deployed.wait(lambda: deployed.data("settings"), "settings restored")
    world.wait_until_looked_at()

    status = deployed.status()
    assert status["objects"]["total"] == 2
    assert deployed.read()["metadata"]["resourceVersion"] == version
