"""Bad weather: whatever becomes of requests, in the end the cluster holds exactly the bundle, and status says so.

One storm by default; `RUKPAK_STORMS=30` makes it thirty. A failure names its seed: that storm hits the same requests
again (`-k seed-7`, with as many storms).
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
from tests.conftest import StartController
from tests.support.bundles import (
    CONTROLLER_AGENT,
    LEASES,
    WRITES,
    Deployed,
    Manifest,
    World,
    config_map,
    definition,
    image,
    new_world,
)
from tests.support.controller import Controller
from tests.support.inside import ApiError
from tests.support.objects import custom, make, read, service
from tests.support.registry import LocalRegistry
from tests.support.tampering import (
    TAMPERINGS,
    Tampering,
    corrupt_revisions,
    delete_revisions,
    garble_status,
    is_whole,
    strip_finalizers,
    wipe_status,
)
from tests.support.weather import CREATIONS, FAULTS, HITS, READS, WATCHES, Seen, Weather, forecast

SEEDS = range(1, int(os.environ.get("RUKPAK_STORMS", "1")) + 1)
STORM_SECONDS = 150.0
"""A deadline: what failed often in a row is tried again after 45 s at most, and one waits for another."""
SOON_SECONDS = 60.0
"""Longer than the controller waits for anything but a deadline."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
EXTENT = 8
MANY = 300

pytestmark = [pytest.mark.timeout(300), pytest.mark.long(minutes=6), pytest.mark.thorough]


@pytest.fixture(scope="module")
def weather(fresh_cluster: ControlPlane) -> Iterator[Weather]:
    """What stands between controller and API server; fair at first."""
    with Weather(fresh_cluster.server, fresh_cluster.folder / "ca.crt") as started:
        yield started


@pytest.fixture(scope="module")
def shared_stormy_world(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, weather: Weather
) -> Iterator[World]:
    folder = make_owned_folder(settings.running, "weather")
    kubeconfig = weather.write_kubeconfig(Path(folder) / "kubeconfig")
    with new_world(fresh_cluster, registry, settings.running, is_shared=False, kubeconfig=kubeconfig) as world:
        yield world
    take_away(folder)


@pytest.fixture
def stormy_world(shared_stormy_world: World, weather: Weather) -> Iterator[World]:
    """A world whose controller feels the weather; the tests themselves do not."""
    world = shared_stormy_world
    if not world.controller.is_running():
        world.controller.start()
    said = len(world.controller.log)
    yield world
    weather.calm()
    print(*(f"{seen.verb} {seen.path}: {seen.fault.value}" for seen in weather.requests if seen.fault), sep="\n")  # noqa: T201
    print(world.controller.log[said:])  # noqa: T201 -- pytest shows it where the test has failed


# a bundle of several stages, and whether it is there


def group_of(seed: int) -> str:
    return f"storm{seed}.example.com"


def first_bundle(seed: int) -> list[Manifest]:
    maps = [config_map(f"settings-{index}", color="blue") for index in range(EXTENT)]
    account = make("v1", "ServiceAccount", "account", automountServiceAccountToken=False)
    thing = custom(group_of(seed), "Foo", "thing", spec={"size": 1})
    return [thing, service("web"), *maps, account, definition(group_of(seed), "Foo")]


def second_bundle(seed: int) -> list[Manifest]:
    """Return what some objects of the first one have become; two are gone and two are new."""
    maps = [config_map(f"settings-{index}", color="red" if index % 2 else "blue") for index in range(2, EXTENT + 2)]
    account = make("v1", "ServiceAccount", "account", automountServiceAccountToken=True)
    thing = custom(group_of(seed), "Foo", "thing", spec={"size": 2})
    return [thing, service("web", 80, 81), *maps, account, definition(group_of(seed), "Foo")]


def paths(deployed: Deployed, seed: int) -> dict[str, str]:
    """Return the collections in which a bundle has objects, by kind."""
    core, foos = (
        f"/api/v1/namespaces/{deployed.namespace}",
        f"/apis/{group_of(seed)}/v1/namespaces/{deployed.namespace}",
    )
    return {
        "ConfigMap": f"{core}/configmaps",
        "Service": f"{core}/services",
        "ServiceAccount": f"{core}/serviceaccounts",
        "Foo": f"{foos}/foos",
        "CustomResourceDefinition": CRDS,
    }


def held(deployed: Deployed, seed: int) -> dict[tuple[str, str], Manifest]:
    """Return all objects on the cluster that carry the label of a BundleDeployment."""
    selector = f"{names.OWNER_LABEL}={deployed.name}"
    return {
        (kind, value["metadata"]["name"]): value
        for kind, path in paths(deployed, seed).items()
        for value in deployed.client.list(path, label_selector=selector)
    }


def content(kind: str, value: Manifest) -> object:
    """Return what tells whether an object is as its bundle has it."""
    match kind:
        case "ConfigMap":
            return value["data"]
        case "Service":
            return [port["port"] for port in value["spec"]["ports"]]
        case "ServiceAccount":
            return value["automountServiceAccountToken"]
        case "Foo":
            return value["spec"]
        case _:
            return value["spec"]["names"]["plural"]


def contents_held(deployed: Deployed, seed: int) -> dict[tuple[str, str], object]:
    return {key: content(key[0], value) for key, value in held(deployed, seed).items()}


def contents_of(bundle: list[Manifest]) -> dict[tuple[str, str], object]:
    return {(value["kind"], value["metadata"]["name"]): content(value["kind"], value) for value in bundle}


def assert_holds(deployed: Deployed, seed: int, bundle: list[Manifest]) -> None:
    assert contents_held(deployed, seed) == contents_of(bundle)


def assert_says_so(deployed: Deployed, total: int) -> None:
    """Check that status has nothing left of the storm."""
    status, conditions = deployed.status(), deployed.conditions()
    assert {kind: condition["status"] for kind, condition in conditions.items()} == {
        "Unpacked": "True",
        "Installed": "True",
        "Healthy": "True",
        "Ready": "True",
    }
    assert {what: count for what, count in status["objects"].items() if count} == {"total": total, "healthy": total}
    assert status["installedRevision"] == status["revision"]
    assert not status.get("notReady")
    assert status["observedGeneration"] == deployed.read()["metadata"]["generation"]


def wait_at_rest(world: World, deployed: Deployed, revision_before: str = "") -> str:
    """Wait until another revision than this one is Ready and nothing is left to do; return that revision."""

    def find_revision_at_rest() -> str:
        status = deployed.status()
        states = {each["type"]: each["status"] for each in status.get("conditions", [])}
        # A pass that the storm has interrupted is Reconciling, also of what is Ready.
        at_rest = states.get("Ready") == "True" and "Reconciling" not in states and status.get("managedState")
        installed: str = status.get("installedRevision", "")
        return installed if at_rest and installed != revision_before else ""

    return world.wait(find_revision_at_rest, f"{deployed.name} Ready and at rest", seconds=STORM_SECONDS)


def is_gone(deployed: Deployed) -> bool:
    """Whether a BundleDeployment has gone, and what the garbage collector does after it is done."""
    return not read(deployed.client, deployed.path) and not deployed.objects()


def object_writes(world: World, deployed: Deployed, since: int) -> list[str]:
    """Return what the controller wrote since then to objects of a bundle."""
    namespace = f"/namespaces/{deployed.namespace}/"
    return [request for request in world.writes(since) if namespace in request or CRDS in request]


# storms


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_after_each_storm_the_cluster_holds_exactly_the_bundle(
    stormy_world: World, weather: Weather, seed: int
) -> None:
    world, first, second = stormy_world, first_bundle(seed), second_bundle(seed)

    weather.storm(seed * 10 + 1)
    deployed = world.deploy(*first, name=f"storm-{seed}")
    wait_at_rest(world, deployed)
    assert_holds(deployed, seed, first)
    assert_says_so(deployed, len(first))

    weather.storm(seed * 10 + 2)
    installed = deployed.status()["installedRevision"]
    deployed.edit("settings-2", color="green")
    deployed.remove("settings-3")
    deployed.change(sources=[image(world.push(deployed.name, *second, tag="v2"))])
    wait_at_rest(world, deployed, installed)
    assert_holds(deployed, seed, second)
    assert_says_so(deployed, len(second))

    # What status says of the objects is true: nothing is left to do for a controller that knows nothing else.
    weather.calm()
    world.controller.stop()
    before, since = held(deployed, seed), world.position()
    world.controller.start()
    world.wait_until_looked_at()
    assert object_writes(world, deployed, since) == []
    assert held(deployed, seed) == before

    weather.storm(seed * 10 + 3)
    deployed.delete()
    world.wait(lambda: is_gone(deployed), "gone", seconds=STORM_SECONDS)
    assert not read(world.client, f"{CRDS}/foos.{group_of(seed)}")
    assert deployed.revisions() == []
    assert len(set(weather.faults())) > 1


# storms with accidents


def upgrade(world: World, deployed: Deployed, seed: int) -> None:
    """Have the second bundle installed, and wait until it is."""
    installed = deployed.status()["installedRevision"]
    deployed.change(sources=[image(world.push(deployed.name, *second_bundle(seed), tag="v2"))])
    wait_at_rest(world, deployed, installed)
    assert_holds(deployed, seed, second_bundle(seed))
    assert_says_so(deployed, len(second_bundle(seed)))


def assert_installed(world: World, deployed: Deployed, seed: int) -> None:
    wait_at_rest(world, deployed)
    assert_holds(deployed, seed, first_bundle(seed))
    assert_says_so(deployed, len(first_bundle(seed)))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_a_store_that_is_removed_in_a_storm_delays_only(stormy_world: World, weather: Weather, seed: int) -> None:
    world, seed = stormy_world, 1000 + seed
    deployed = world.deploy(*first_bundle(seed), name=f"storm-{seed}", paused=True)
    weather.storm(seed * 10 + 1)
    deployed.change(paused=False)
    shutil.rmtree(world.store, ignore_errors=True)
    assert_installed(world, deployed, seed)

    weather.storm(seed * 10 + 2)
    shutil.rmtree(world.store, ignore_errors=True)
    upgrade(world, deployed, seed)
    assert weather.faults()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_an_api_without_a_server_holds_up_nothing_in_a_storm(stormy_world: World, weather: Weather, seed: int) -> None:
    world, seed = stormy_world, 2000 + seed
    api = f"{SERVICES}/v1.broken{seed}.example.com"
    world.client.create(SERVICES, api_service(f"broken{seed}.example.com"))
    weather.storm(seed * 10 + 1)
    deployed = world.deploy(*first_bundle(seed), name=f"storm-{seed}")
    assert_installed(world, deployed, seed)

    weather.storm(seed * 10 + 2)
    upgrade(world, deployed, seed)
    world.client.delete(api)
    world.wait(lambda: not deployed.status().get("warnings"), "no warning any more", seconds=STORM_SECONDS)

    world.client.create(SERVICES, api_service(f"broken{seed}.example.com"))
    weather.storm(seed * 10 + 3)
    deployed.delete()
    world.wait(lambda: is_gone(deployed), "gone", seconds=STORM_SECONDS)
    world.client.delete(api)


def api_service(group: str) -> Manifest:
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10}
    service = {"namespace": "default", "name": "nobody"}
    spec |= {"service": service, "insecureSkipTLSVerify": True}
    return make("apiregistration.k8s.io/v1", "APIService", f"v1.{group}", spec=spec)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_what_is_released_in_a_storm_is_taken_back_in_another(stormy_world: World, weather: Weather, seed: int) -> None:
    world, seed = stormy_world, 3000 + seed
    weather.calm()
    deployed = world.deploy(*first_bundle(seed), name=f"storm-{seed}", deletionPolicy="Orphan")
    assert_installed(world, deployed, seed)
    kept = {key: value["metadata"]["uid"] for key, value in held(deployed, seed).items()}
    weather.storm(seed * 10 + 1)
    deployed.delete()
    world.wait(lambda: is_gone(deployed), "gone", seconds=STORM_SECONDS)

    weather.storm(seed * 10 + 2)
    again = world.deploy(name=deployed.name, ref=deployed.ref)
    assert_installed(world, again, seed)
    assert {key: value["metadata"]["uid"] for key, value in held(again, seed).items()} == kept
    assert weather.faults()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_the_state_of_a_backup_that_is_restored_in_a_storm_is_acted_on(
    stormy_world: World, weather: Weather, fresh_cluster: ControlPlane, seed: int
) -> None:
    world, seed = stormy_world, 4000 + seed
    weather.calm()
    deployed = world.deploy(*first_bundle(seed), name=f"storm-{seed}")
    assert_installed(world, deployed, seed)
    fresh_cluster.back_up_etcd()
    upgrade(world, deployed, seed)

    weather.storm(seed * 10 + 1)
    fresh_cluster.restore_etcd()
    deployed.edit("settings-2", color="green")
    deployed.remove("settings-3")
    wait_although_restarted(world, lambda: contents_held(deployed, seed) == contents_of(first_bundle(seed)))
    assert_installed(world, deployed, seed)

    upgrade(world, deployed, seed)
    weather.storm(seed * 10 + 2)
    deployed.delete()
    world.wait(lambda: is_gone(deployed), "gone", seconds=STORM_SECONDS)
    assert deployed.revisions() == []
    assert weather.faults()


def wait_although_restarted(world: World, condition: Callable[[], bool]) -> None:
    """Wait while the controller runs, and start it again if it has lost its Lease, as a Deployment does."""

    def is_fulfilled() -> bool:
        if not world.controller.is_running():
            world.controller.start()
        try:
            return condition()
        except ApiError:  # the API server is starting
            return False

    wait_for(is_fulfilled, STORM_SECONDS, lambda: f"the state of the backup; {world.controller.log[-2000:]}")


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_in_a_storm_records_that_other_clients_damage_are_repaired(
    stormy_world: World, weather: Weather, seed: int
) -> None:
    world, number, order = stormy_world, 200 + seed, random.Random(seed)
    first, second = first_bundle(number), second_bundle(number)

    def tamper(among: list[Tampering]) -> None:
        for each in order.sample(among, len(among)):
            world.wait(lambda: deployed.status() and deployed.revisions(), f"a status and a revision: {each.name}")
            each.act(deployed)

    weather.storm(seed * 10 + 4)
    deployed = world.deploy(*first, name=f"storm-{number}", revisionHistoryLimit=0)
    tamper(TAMPERINGS)
    wait_until_whole(world, deployed, number, first)

    weather.storm(seed * 10 + 5)
    tamper(TAMPERINGS)
    wait_until_whole(world, deployed, number, first)

    weather.storm(seed * 10 + 6)
    installed = deployed.status()["installedRevision"]
    deployed.edit("settings-2", color="green")
    deployed.change(sources=[image(world.push(deployed.name, *second, tag="v2"))])
    tamper([each for each in TAMPERINGS if not each.loses_revision])
    wait_until_whole(world, deployed, number, second, installed)

    world.controller.stop()
    before = held(deployed, number)
    order.choice([garble_status, wipe_status])(deployed)
    order.choice([delete_revisions, corrupt_revisions])(deployed)
    strip_finalizers(deployed)
    weather.storm(seed * 10 + 7)
    world.controller.start()
    wait_until_whole(world, deployed, number, second)
    assert held(deployed, number) == before

    weather.storm(seed * 10 + 8)
    deployed.delete()
    with suppress(ApiError):  # it may be gone already
        order.choice([garble_status, wipe_status])(deployed)
    world.wait(lambda: is_gone(deployed), "gone", seconds=STORM_SECONDS)
    assert not read(world.client, f"{CRDS}/foos.{group_of(number)}")
    assert deployed.revisions() == []


def wait_until_whole(
    world: World, deployed: Deployed, number: int, bundle: list[Manifest], revision_before: str = ""
) -> None:
    """Wait until everything is as its bundle has it, and so are the records of the controller."""
    wait_at_rest(world, deployed, revision_before)
    world.wait(lambda: is_whole(deployed), "status, revision and finalizer as they were", seconds=STORM_SECONDS)
    wait_at_rest(world, deployed, revision_before)
    assert_holds(deployed, number, bundle)
    assert_says_so(deployed, len(bundle))


def test_a_storm_is_the_same_each_time() -> None:
    requests = [(verb, f"/{number}", nth) for verb in FAULTS for number in range(50) for nth in range(HITS + 1)]

    hit = [forecast(7, *request) for request in requests]

    assert hit == [forecast(7, *request) for request in requests]
    assert set(hit) >= {None, *READS, *CREATIONS, *WATCHES}
    assert hit != [forecast(8, *request) for request in requests]
    assert not any(forecast(7, verb, path, HITS) or forecast(0, verb, path, nth) for verb, path, nth in requests)


def test_a_paused_bundle_is_left_alone_in_a_storm(stormy_world: World, weather: Weather) -> None:
    world, seed = stormy_world, 101
    weather.calm()
    deployed = world.deploy(*first_bundle(seed), name=f"storm-{seed}")
    wait_at_rest(world, deployed)
    installed = deployed.status()["installedRevision"]

    weather.storm(seed)
    deployed.change(paused=True)
    world.wait(lambda: "Paused" in deployed.conditions(), "Paused", seconds=STORM_SECONDS)
    since = world.position()
    deployed.edit("settings-2", color="green")
    deployed.remove("settings-3")
    deployed.change(sources=[image(world.push(deployed.name, *second_bundle(seed), tag="v2"))])
    world.wait(lambda: is_waiting(deployed), "drift and the new revision seen", seconds=STORM_SECONDS)

    assert object_writes(world, deployed, since) == []
    deployed.change(paused=False)
    wait_at_rest(world, deployed, installed)
    assert_holds(deployed, seed, second_bundle(seed))
    assert_says_so(deployed, len(second_bundle(seed)))
    assert weather.faults()


def is_waiting(deployed: Deployed) -> bool:
    conditions = deployed.conditions()
    waits = conditions.get("Installed", {}).get("reason") == "PausedWithChanges"
    return waits and "Drifted" in conditions and deployed.status()["objects"].get("drifted") == 2


def test_a_controller_that_hands_over_in_a_storm_writes_nothing_afterwards(
    stormy_world: World, weather: Weather, fresh_cluster: ControlPlane
) -> None:
    world = stormy_world
    weather.storm(102)
    world.wait(lambda: len(renewals(weather)) > HITS, "the storm is over for the Lease", seconds=STORM_SECONDS)
    deployed = world.deploy(*[config_map(f"settings-{index:03}") for index in range(MANY)], name="storm-102")
    world.wait(lambda: len(deployed.versions()) > EXTENT, "some objects", seconds=STORM_SECONDS)
    since = world.position()

    world.controller.stop()

    events = [e for e in fresh_cluster.audit_requests(since) if e["userAgent"].startswith(CONTROLLER_AGENT)]
    handed_over = [e["requestReceivedTimestamp"] for e in events if e["verb"] == "update" and LEASES in e["requestURI"]]
    written = [e["stageTimestamp"] for e in events if e["verb"] in WRITES and deployed.name in e["requestURI"]]
    assert written
    # Where the last write or the last renewal hangs, nothing is handed over: others wait until the Lease ends.
    assert is_held(world) or max(written) < max(handed_over)
    weather.calm()
    world.controller.start()
    wait_at_rest(world, deployed)
    assert len(deployed.versions()) == MANY


def is_held(world: World) -> bool:
    lease = read(world.client, f"{LEASES}/rukpak")
    return bool(lease and lease["spec"]["holderIdentity"])


def renewals(weather: Weather) -> list[Seen]:
    return [seen for seen in list(weather.requests) if seen.verb == "PUT" and seen.path.startswith(LEASES)]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_two_controllers_by_mistake_come_to_the_same_end(
    stormy_world: World, weather: Weather, fresh_cluster: ControlPlane, controller: StartController, seed: int
) -> None:
    world, seed = stormy_world, 5000 + seed
    other = controller(fresh_cluster.kubeconfig, "--leader-elect=no")
    weather.storm(seed)

    deployed = world.deploy(*first_bundle(seed), name=f"storm-{seed}")
    installed = wait_until_both_agree(world, deployed, seed, first_bundle(seed))
    deployed.edit("settings-2", color="green")
    deployed.remove("settings-3")
    deployed.change(sources=[image(world.push(deployed.name, *second_bundle(seed), tag="v2"))])
    wait_until_both_agree(world, deployed, seed, second_bundle(seed), installed)

    weather.calm()

    def are_at_rest() -> bool:
        since = world.position()
        world.wait_until_looked_at()
        ready = deployed.conditions()["Ready"]["status"] == "True" and not world.requests_about(deployed.name, since)
        return ready and all(has_nothing_to_do(each, deployed.name) for each in (world.controller, other))

    # One may still have a failure to tell, and to try again; what it tells may be the last that the other hears of.
    world.wait(are_at_rest, "both at rest", seconds=STORM_SECONDS)
    assert_says_so(deployed, len(second_bundle(seed)))
    assert_holds(deployed, seed, second_bundle(seed))
    deployed.delete()
    world.wait(lambda: is_gone(deployed), "gone", seconds=STORM_SECONDS)
    assert deployed.revisions() == []


def has_nothing_to_do(controller: Controller, name: str) -> bool:
    """Whether the last pass of a controller over a BundleDeployment waits for nothing that comes soon."""
    passes = [
        json.loads(line) for line in controller.log.splitlines() if '"pass ended"' in line and f'"{name}"' in line
    ]
    after = passes[-1]["after"] if passes else 0
    return after is None or after > SOON_SECONDS


def wait_until_both_agree(
    world: World, deployed: Deployed, seed: int, bundle: list[Manifest], revision_before: str = ""
) -> str:
    """Wait for status and objects: one controller may say that it is done while the other one still works.

    Returns: the revision that is installed.
    """
    installed = wait_at_rest(world, deployed, revision_before)
    holds = lambda: contents_held(deployed, seed) == contents_of(bundle)  # noqa: E731
    world.wait(holds, f"the objects of {deployed.name}", seconds=STORM_SECONDS)
    return installed


# the control plane itself


PARTS = {"the API server": "kube-apiserver", "etcd": "etcd"}


@contextmanager
def without(cluster: ControlPlane, part: str) -> Iterator[None]:
    """Kill a part of a control plane, and start it again."""
    cluster.stop(part)
    try:
        yield
    finally:
        cluster.start(part)


def wait_refused(world: World, deployed: Deployed, said: int) -> None:
    refusal = f'"pass failed with an API server error", "BundleDeployment": "{deployed.name}"'
    world.wait(lambda: refusal in world.controller.log[said:], "a pass without a server")


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_what_dies_in_the_midst_of_an_install_and_of_a_deletion_loses_nothing(
    stormy_world: World, fresh_cluster: ControlPlane, part: str
) -> None:
    world = stormy_world
    deployed = world.deploy(*[config_map(f"settings-{index:03}") for index in range(MANY)])
    world.wait(lambda: len(deployed.versions()) > MANY // 4, "some objects")
    said = len(world.controller.log)
    with without(fresh_cluster, part):
        if part == "api_server":  # without etcd requests hang, longer than the Lease would last
            wait_refused(world, deployed, said)
    wait_at_rest(world, deployed)
    assert len(deployed.versions()) == MANY
    assert_says_so(deployed, MANY)

    deployed.delete()
    world.wait(lambda: len(deployed.versions()) < MANY, "some objects gone")
    with without(fresh_cluster, part):
        pass
    world.wait(lambda: is_gone(deployed), "gone", seconds=STORM_SECONDS)
    assert deployed.revisions() == []


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_what_dies_while_nothing_is_to_be_done_costs_no_write(
    stormy_world: World, fresh_cluster: ControlPlane, part: str
) -> None:
    world = stormy_world
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others"))
    wait_at_rest(world, deployed)
    world.wait_until_looked_at()
    since = world.position()
    with without(fresh_cluster, part):
        pass

    deployed.edit("settings", color="red")

    world.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair", seconds=STORM_SECONDS)
    world.wait_until_looked_at()
    assert [write.split("?")[0] for write in object_writes(world, deployed, since)] == [
        f"patch {deployed.path_of('settings')}"
    ]
    assert_says_so(deployed, 2)
