"""Rule 9: an API group whose server is not there blocks nothing but what needs it, and can be upgraded away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.aggregated_api import AggregatedApi
from tests.support.bundles import Deployed, World, config_map, exists, new_name
from tests.support.charts import chart_of
from tests.support.controller import command

pytestmark = pytest.mark.own_cluster

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ASKS = '{{ if .Capabilities.APIVersions.Has "GROUP/v1" }}yes{{ else }}no{{ end }}'


def api_service(group: str) -> dict[str, Any]:
    """Return an APIService without backend."""
    service = {"namespace": "default", "name": "nobody"}
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10, "service": service}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {**spec, "insecureSkipTLSVerify": True},
    }


def thing(group: str) -> dict[str, Any]:
    """Return an object of the group."""
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "first"}}


def chart(text: str) -> dict[str, bytes]:
    """Return a chart that renders a text to a ConfigMap."""
    manifest = f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{color: "{text}"}}\n'
    return chart_of({"templates/settings.yaml": manifest})


@pytest.fixture
def group(world: World) -> Iterator[str]:
    """An API group that no other test uses; nothing of it is left."""
    name = f"{new_name()}.example.com"
    yield name
    if exists(world.client, f"{SERVICES}/v1.{name}"):
        world.client.delete(f"{SERVICES}/v1.{name}")


@pytest.fixture
def broken(world: World, group: str) -> str:
    """A group that fails discovery, and that a user has broken."""
    world.client.create(SERVICES, api_service(group))
    wait_failing(world, group)
    return group


def wait_failing(world: World, group: str) -> None:
    """Wait until discovery reports that the group fails."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    def is_failing() -> bool:
        items = world.client.request("GET", "/apis", accept=accept).value["items"]
        found = [item for item in items if item["metadata"]["name"] == group]
        return any(version.get("freshness") == "Stale" for item in found for version in item["versions"])

    world.wait(is_failing, f"{group} fails discovery")


def bring(world: World, group: str, *, instances: bool) -> Deployed:
    """Install a bundle with an APIService without backend, and upgrade it to one with an object of its group."""
    objects = (config_map("settings", color="blue"), api_service(group))
    deployed = world.deploy(*objects)
    wait_failing(world, group)
    deployed.wait_for("Installed")
    if instances:
        upgrade(world, deployed, *objects, thing(group))
        deployed.wait_for("Installed", "False", "KindNotServed")
    return deployed


def upgrade(world: World, deployed: Deployed, *layers: Any, tag: str = "v2") -> None:
    """Push another version, and have it installed."""
    ref = world.push(deployed.name, *layers, tag=tag)
    deployed.change(sources=[{"kind": "image", "image": {"ref": ref}}])


def warnings(deployed: Deployed) -> list[str]:
    return deployed.status().get("warnings") or []


def wait_without_warnings(deployed: Deployed) -> None:
    """Wait until the warning is gone with its cause."""
    deployed.wait(lambda: not warnings(deployed), f"{deployed.name}: no warning about a group that is gone")


def is_gone(world: World, group: str) -> bool:
    return not exists(world.client, f"{SERVICES}/v1.{group}")


def wait_settled(deployed: Deployed, revision_before: str) -> None:
    status = deployed.wait_installed(revision_before)
    assert status["managedState"]
    wait_without_warnings(deployed)


@pytest.mark.repeats
@pytest.mark.parametrize("restarts", [False, True], ids=["by the same controller", "after a restart"])
@pytest.mark.parametrize("instances", [False, True], ids=["alone", "with an object of its group"])
def test_a_broken_api_is_upgraded_away(world: World, group: str, *, instances: bool, restarts: bool) -> None:
    deployed = bring(world, group, instances=instances)
    before = deployed.status()["installedRevision"]
    if restarts:
        world.restart()

    upgrade(world, deployed, config_map("settings", color="red"), tag="v3")

    wait_settled(deployed, before)
    assert deployed.data("settings") == {"color": "red"}
    assert is_gone(world, group)


@pytest.mark.thorough
def test_a_chart_that_brings_it_and_asks_for_it_is_upgraded_after_a_restart(world: World, group: str) -> None:
    brings = {"c/templates/api.yaml": json.dumps(api_service(group)).encode()}
    deployed = world.deploy({**chart(ASKS.replace("GROUP", group)), **brings}, format="helm")
    deployed.wait_for("Installed")
    wait_failing(world, group)
    before = deployed.status()["installedRevision"]
    world.restart()

    upgrade(world, deployed, chart(f"{ASKS.replace('GROUP', group)} again"))

    wait_settled(deployed, before)
    assert deployed.data("settings") == {"color": "no again"}
    assert is_gone(world, group)


@pytest.mark.thorough
def test_others_install_and_upgrade_meanwhile(world: World, broken: str) -> None:
    plain = world.deploy(config_map("settings", color="blue"))
    helm = world.deploy(chart("blue"), format="helm")
    first = [plain.wait_ready(), helm.wait_ready()]
    assert all(f'API group "{broken}"' in " ".join(status["warnings"]) for status in first)
    world.restart()

    upgrade(world, plain, config_map("settings", color="red"))
    upgrade(world, helm, chart("red"))

    for deployed, status in zip((plain, helm), first, strict=True):
        deployed.wait_installed(status["revision"])
        assert deployed.data("settings") == {"color": "red"}
    world.client.delete(f"{SERVICES}/v1.{broken}")
    for deployed in (plain, helm):
        wait_without_warnings(deployed)


def test_only_what_needs_a_group_that_was_never_seen_waits(world: World, broken: str) -> None:
    asking = world.deploy(chart(ASKS.replace("GROUP", broken)), format="helm")
    plain = world.deploy(config_map("settings"), thing(broken))
    asking.wait_for("Installed", "False", "APIUnavailable", saying=f'asks for API group "{broken}"')
    asking.wait_for("Reconciling", "True", "APIUnavailable")
    assert asking.revisions() == []
    plain.wait_for("Installed", "False", "KindNotServed", saying=f'discovery of API group "{broken}" failed')
    assert plain.data("settings") == {"color": "blue"}

    done = command(world.cluster.kubeconfig)("capabilities")
    assert f"unknownGroups: [{broken}]" in done.stdout
    assert f'warning: API group "{broken}": discovery failed' in done.stderr

    world.client.delete(f"{SERVICES}/v1.{broken}")

    asking.wait_ready()
    assert asking.data("settings") == {"color": "no"}


@pytest.mark.repeats
@pytest.mark.parametrize("instances", [False, True], ids=["alone", "with an object of its group"])
def test_what_brings_a_broken_api_is_deleted_after_a_restart(world: World, group: str, *, instances: bool) -> None:
    deployed = bring(world, group, instances=instances)
    world.restart()

    deployed.delete()

    deployed.wait_gone()
    assert is_gone(world, group)
    assert deployed.data("settings") is None


def test_a_bundle_with_an_api_its_server_and_an_object_of_it_is_installed_and_deleted(world: World, group: str) -> None:
    name = new_name()
    with AggregatedApi(group) as api:
        objects = (api.thing("first"), api.service(), api.api_service(name), config_map("settings"))
        deployed = world.deploy(*objects, name=name)
        deployed.wait_ready()
        path = f"/apis/{group}/v1/namespaces/{name}/things/first"
        assert list(api.objects) == [path]
        world.restart()
        deployed.edit("settings", color="red")
        world.wait(lambda: deployed.data("settings") == {"color": "blue"}, "drift repaired")

        deployed.delete()

        deployed.wait_gone()
        assert api.objects == {}
    assert is_gone(world, group)
