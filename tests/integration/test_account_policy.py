"""What the administrator demands of accounts by option: each test has controllers of its own, one at a time."""

from __future__ import annotations

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import config_map, exists, new_world
from tests.support.registry import LocalRegistry
from tests.support.tenants import ACCOUNT, CONFIG_MAPS, deploy, tenant, user_of, written_as


def test_where_an_account_is_demanded_nothing_is_applied_without_one(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> None:
    with new_world(cluster, registry, settings.running, "--require-service-account") as world:
        refused = world.deploy(config_map("settings"))
        found = refused.wait_for("Ready", "False", "InsecureRefused")
        assert found["message"].startswith("spec.serviceAccountName: required by the administrator")
        assert not exists(world.client, f"/api/v1/namespaces/{refused.namespace}")
        deploy(world, tenant(world, CONFIG_MAPS), config_map("settings")).wait_ready()


def test_the_account_of_those_that_name_none(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> None:
    option = f"--default-service-account={ACCOUNT}"
    with new_world(cluster, registry, settings.running, option) as world:
        name = tenant(world, CONFIG_MAPS)
        since = world.position()
        deployed = world.deploy(config_map("settings"), name=name)
        deployed.wait_ready()
        assert written_as(world, since, name) == {user_of(name)}
        nowhere = world.deploy(config_map("settings"), installNamespace=None)
        found = nowhere.wait_for("Ready", "False", "InsecureRefused")
        assert found["message"].startswith("spec.installNamespace: required")
