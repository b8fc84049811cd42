"""What the controller costs, as far as it does not depend on the machine: requests, writes, and what memory grows with.

Figures that do depend on it are measured by hack/bench/run.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hack.bench.api import Requests, describe, requests_of
from hack.bench.rows import read_usage
from hack.bench.workloads import kinds_of, make_bundle, path_of
from rukpak.api import names
from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import running_process
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import DEPLOYMENTS, ROOT, Deployed, Manifest, World, config_map, image, new_name, new_world
from tests.support.objects import deployment
from tests.support.private_sources import PrivateSources, secret_manifest, serve_private_sources
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.own_cluster, pytest.mark.long]

OBJECTS = 500
INSTALL_REQUESTS = 540
ADMISSION = "admissionregistration.k8s.io"
DISCOVERY = ("get /api", "get /apis", "get /version")
OWN_WATCHES = ("bundledeployments", "customresourcedefinitions", "apiservices", "namespaces")
LARGE = 40
LARGE_BYTES = 200_000
INSTALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """500 objects of five kinds, Ready, and what that took."""

    world: World
    deployed: Deployed
    requests: Requests

    def requests_since(self, position: int) -> Requests:
        """Return what the controller asked for until it has dealt with all that was there to see."""
        return _requests_since(self.world, position)


def _requests_since(world: World, position: int) -> Requests:
    # One worker takes all in turn: when the last one is Ready, the others have been looked at.
    last = world.deploy(config_map("last"))
    last.wait_ready()
    assert isinstance(world.cluster, ControlPlane)
    events = requests_of(world.cluster.audit_requests(position)).events
    return Requests(events=tuple(event for event in events if last.name not in _names(event)))


def _names(event: Mapping[str, Any]) -> str:
    # An Event in the namespace `default` is named for what it is about.
    return f"{event['requestURI']} {(event.get('objectRef') or {}).get('name')}"


@pytest.fixture(scope="module")
def installed(shared_world: World) -> Installed:
    name = new_name()
    since = shared_world.position()
    deployed = shared_world.deploy(make_bundle(name, OBJECTS).files(), name=name)
    shared_world.wait(lambda: deployed.conditions().get("Ready", {}).get("status") == "True", name, INSTALL_SECONDS)
    return Installed(world=shared_world, deployed=deployed, requests=_requests_since(shared_world, since))


def test_an_install_costs_hardly_more_requests_than_there_are_objects(installed: Installed) -> None:
    assert OBJECTS < installed.requests.total <= INSTALL_REQUESTS
    applied = [event for event in installed.requests.events if _is_apply_in(event, installed.deployed.namespace)]
    assert len(applied) == OBJECTS


def _is_apply_in(event: Mapping[str, Any], namespace: str) -> bool:
    about: Mapping[str, str] = event.get("objectRef") or {}
    return event["verb"] == "patch" and about.get("namespace") == namespace and about["resource"] != "namespaces"


def test_a_kind_is_watched_once_however_many_objects_it_has(installed: Installed) -> None:
    watched, of_store = watches_of(installed.requests)
    assert {kind: number for kind, number in watched.items() if number > 1 and kind not in OWN_WATCHES} == {}
    assert of_store == {"secrets": 1}


def watches_of(requests: Requests) -> tuple[Counter[str], Counter[str]]:
    """Return how often each resource is watched on the whole cluster, and in the namespace of the revision store."""
    watched = [event["objectRef"] for event in requests.events if event["verb"] == "watch"]
    everywhere = Counter(each["resource"] for each in watched if not each.get("namespace"))
    of_store = Counter(each["resource"] for each in watched if each.get("namespace") == names.DEFAULT_NAMESPACE)
    return everywhere, of_store


def test_nothing_is_asked_for_while_nothing_happens(installed: Installed) -> None:
    since = installed.world.position()
    requests = installed.requests_since(since)
    # The Events about its installation are sent by a thread of their own, and may come a moment later.
    asked = [each for each in _except_discovery(requests) if not each.startswith("create events ")]
    assert asked == []


def test_a_repair_is_a_handful_of_requests_and_no_write_of_status(installed: Installed) -> None:
    deployed, since = installed.deployed, installed.world.position()
    deployed.edit("object-0100", color="red")
    deployed.wait(lambda: (deployed.data("object-0100") or {})["color"] == "blue", "repair")

    requests = installed.requests_since(since)
    # One Event reports the repairs; Events about other objects may be sent meanwhile.
    assert [each for each in requests.writes if not each.startswith("create events ")] == [
        f"patch configmaps {deployed.namespace}/object-0100"
    ]
    # Only the metadata of the object is read, to say what was modified; the revision is not.
    assert len([each for each in _except_discovery(requests) if not each.startswith("create events ")]) <= 2


def test_an_edit_costs_two_passes_over_its_bundle_at_most_and_none_over_others(installed: Installed) -> None:
    """How many objects these look at is asserted without a cluster, in unit/controller/apply/test_ledger.py."""
    world, deployed, other = installed.world, installed.deployed, installed.world.deploy(config_map("settings"))
    other.wait_ready()
    installed.requests_since(world.position())  # waits until there is nothing to do
    before = _passes(world)
    deployed.edit("object-0200", color="red")
    deployed.wait(lambda: (deployed.data("object-0200") or {})["color"] == "blue", "repair")

    installed.requests_since(world.position())
    after = _passes(world)
    # The second one follows if a watch has reported the repair before the reply to it was read.
    assert 1 <= after[deployed.name] - before[deployed.name] <= 2
    assert after[other.name] == before[other.name]


def _passes(world: World) -> Counter[str]:
    """Return how many passes the controller has made over each BundleDeployment."""
    lines = [line for line in world.controller.log.splitlines() if '"pass ended"' in line]
    return Counter(json.loads(line)["BundleDeployment"] for line in lines)


def test_an_upgrade_of_one_object_applies_one(installed: Installed) -> None:
    """Its own bundle, of fewer objects: that the number does not matter is what is asserted."""
    world, objects = installed.world, [config_map(f"part-{number}") for number in range(60)]
    deployed = world.deploy(*objects)
    before = deployed.wait_ready()
    since = world.position()
    world.push(deployed.name, *objects[1:], config_map("part-0", color="red"))
    deployed.request_reconcile("upgrade")
    deployed.wait_installed(before["installedRevision"])

    applied = [event for event in installed.requests_since(since).events if _is_apply_in(event, deployed.namespace)]
    assert [event["objectRef"]["name"] for event in applied] == ["part-0"]


def test_a_restart_writes_nothing_reads_no_revision_and_lists_each_kind_once(installed: Installed) -> None:
    world = installed.world
    world.controller.stop()
    since = world.position()
    world.controller.start()

    requests = installed.requests_since(since)
    assert requests.writes == []
    # For revisions of nobody; whose they are no watch is asked.
    assert _except_discovery(requests) == [f"list secrets {names.DEFAULT_NAMESPACE}", f"list {names.PLURAL}"]
    watched, of_store = watches_of(requests)
    kinds = {path_of(each, "").split("/")[-2] for each in make_bundle("", OBJECTS).objects}
    assert {kind: watched[kind] for kind in kinds} == dict.fromkeys(kinds, 1)
    assert len(kinds) == kinds_of([make_bundle("", OBJECTS)])
    assert of_store == {"secrets": 1}


SMALL_BUNDLE = {
    "patch bundledeployments": 1,
    "patch secrets": 1,
    "patch bundledeployments/status": 2,
    "patch namespaces": 1,
    "patch configmaps": 1,
    "create events": 1,
}
"""Its finalizer, its revision, its status before and after its namespace and its object, and an Event."""


def test_a_bundle_that_is_healthy_at_once_costs_seven_requests(installed: Installed) -> None:
    assert _install(installed.world, config_map("settings"))[1] == SMALL_BUNDLE


def test_a_workload_that_is_rolled_out_costs_one_more_write_of_status(installed: Installed) -> None:
    requests = _install(installed.world, config_map("settings"), deployment("web"))[1]
    assert requests["patch bundledeployments/status"] <= SMALL_BUNDLE["patch bundledeployments/status"] + 1
    assert requests["create events"] == 1


def test_the_finalizer_costs_nothing_where_a_policy_sets_it(installed: Installed) -> None:
    world, folder = installed.world, str(ROOT / "config/finalizer")
    if "mutatingadmissionpolicies" not in world.cluster.kubectl("api-resources", f"--api-group={ADMISSION}"):
        pytest.skip("the cluster does not serve MutatingAdmissionPolicies")
    world.cluster.kubectl("apply", "-k", folder)
    try:
        world.wait(lambda: _finalizers_of_new(world) == [names.FINALIZER], "the policy is in force")
        assert _finalizers_of_new(world, "example.com/hold") == ["example.com/hold", names.FINALIZER]
        assert _finalizers_of_new(world, names.FINALIZER) == [names.FINALIZER]
        deployed, requests = _install(world, config_map("settings"))
        assert requests == {key: number for key, number in SMALL_BUNDLE.items() if key != "patch bundledeployments"}
        world.apply(deployed.name, sources=[image(deployed.ref)], installNamespace=deployed.name, progressDeadline="5m")
        assert deployed.read()["metadata"]["finalizers"] == [names.FINALIZER]
        deployed.delete()
        deployed.wait_gone()
        assert not deployed.get("settings")
    finally:
        world.cluster.kubectl("delete", "-k", folder)


def _finalizers_of_new(world: World, *finalizers: str) -> list[str]:
    """Return the finalizers that a BundleDeployment has when it is created, without creating it."""
    body = {
        "apiVersion": f"{names.GROUP}/v1alpha2",
        "kind": names.KIND,
        "metadata": {"name": new_name(), "finalizers": finalizers},
        "spec": {"format": "plain", "installNamespace": "none", "sources": [image("example.com/none")]},
    }
    value = world.client.request("POST", DEPLOYMENTS, body=body, query=[("dryRun", "All")]).value
    found: list[str] = value["metadata"].get("finalizers", [])
    return found


def _install(world: World, *objects: Manifest) -> tuple[Deployed, Mapping[str, int]]:
    """Install a bundle; returns how many requests of the controller name it, by verb and resource."""
    since = world.position()
    deployed = world.deploy(*objects)
    deployed.wait_ready()
    last = world.deploy(config_map("last"))
    # Events are sent one after the other: after this one, no other follows.
    world.wait(lambda: "create events" in _counts(world, since, last), "its Event is sent")
    return deployed, _counts(world, since, deployed)


def _counts(world: World, since: int, deployed: Deployed) -> Mapping[str, int]:
    assert isinstance(world.cluster, ControlPlane)
    events = requests_of(world.cluster.audit_requests(since)).without_watches().events
    return Counter(describe(event).rpartition(" ")[0] for event in events if deployed.name in _names(event))


def _except_discovery(requests: Requests) -> list[str]:
    found = [describe(event) for event in requests.without_watches().events]
    return [each for each in found if each not in DISCOVERY]


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_size_of_objects_at_rest(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> None:
    def resident_after_install(size: int) -> float:
        name = new_name()
        with new_world(fresh_cluster, registry, settings.running, "--workers=1") as world:
            deployed = world.deploy(make_bundle(name, LARGE, size).files(), name=name)
            deployed.wait_ready()
            world.wait_until_looked_at()
            process = running_process(world.store.parent / "controller.pid")
            assert process
            return read_usage(process).resident

    grown = resident_after_install(LARGE_BYTES) - resident_after_install(1_000)
    assert grown < LARGE * LARGE_BYTES / 2**20 / 2


@pytest.mark.thorough
def test_one_tls_context_is_created_for_each_set_of_trust_and_none_for_plain_http(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, binaries: Binaries, tmp_path: Path
) -> None:
    program = binaries.obtain(["registry"])["registry"]
    with (
        serve_private_sources(tmp_path, program, registry) as sources,
        new_world(fresh_cluster, registry, settings.running) as world,
    ):
        _deploy_each(world, [_public(world) for _ in range(3)])
        assert _contexts(world) == []

        deployed = _deploy_each(world, [source for _ in range(2) for source in _private(world, sources)])
        authority = hashlib.sha256(sources.authority.pem.encode()).hexdigest()
        assert _contexts(world) == ["none", f"sha256:{authority}"]

        for each in deployed:
            each.request_reconcile("again")
        world.wait(
            lambda: all(each.status().get("lastHandledReconcileAt") == "again" for each in deployed), "resolved again"
        )
        assert _contexts(world) == ["none", f"sha256:{authority}"]


def _public(world: World, **trust: Any) -> tuple[str, Manifest]:
    name = new_name()
    return name, {"kind": "image", "image": {"ref": world.push(name, config_map("settings")), **trust}}


def _private(world: World, sources: PrivateSources) -> list[tuple[str, Manifest]]:
    """Return a source of each kind and trust, with the name of its BundleDeployment: servers with and without TLS."""
    authority, settings = {"certificateData": sources.authority.pem}, config_map("settings")
    found = [_public(world, insecureSkipTLSVerify=True)]
    for trust in (authority, {}):  # that of the spec, or else of the Secret
        name = new_name()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        world.client.apply(f"/api/v1/namespaces/{name}", namespace, manager="tests", force=True)
        secret = secret_manifest(name, "login", sources.basic)
        world.client.apply(f"/api/v1/namespaces/{name}/secrets/login", secret, manager="tests", force=True)
        sources.put_image(name, settings)
        found.append((name, sources.image(name, {"name": "login"}, **trust)))
    name = new_name()
    sources.put_file(name, settings, authorization="")
    return [*found, (name, sources.file(name, None, **authority))]


def _deploy_each(world: World, sources: Sequence[tuple[str, Manifest]]) -> list[Deployed]:
    deployed = [world.deploy(name=name, ref="none", sources=[source]) for name, source in sources]
    for each in deployed:
        each.wait_ready()
    return deployed


def _contexts(world: World) -> list[str]:
    """Return what the TLS contexts trust that the controller has created for sources."""
    lines = [json.loads(line) for line in world.controller.log.splitlines() if "TLS context created" in line]
    return sorted(line["trust"] for line in lines)
