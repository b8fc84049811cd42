"""Expressions in CEL: `spec.healthChecks[].expressions`, and `ready` of other objects in `spec.dependsOn`."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.bundles import Manifest, World, config_map, image, new_name
from tests.support.inside import ApiError
from tests.support.tenants import CONFIG_MAPS, deploy, grant, make, make_namespace, tenant, user_of

RETRY_SECONDS = 300.0
"""After which what waits looks again if it is not woken."""
CHECK = {"kind": "ConfigMap", "expressions": {"failed": "data.state == 'broken'", "current": "self.data.state == 'up'"}}
HOSTILE = {
    "kind": "ConfigMap",
    "expressions": {"current": "data.all(a, data.all(b, data.all(c, (a + b + c).matches('(x|y)*z'))))"},
}


def test_an_object_is_healthy_when_its_expression_is_true(world: World) -> None:
    shop = world.deploy(config_map("settings"), healthChecks=[CHECK])
    shop.wait_for("Healthy", "False", "Progressing", saying='is not known yet: there is no field "state"')
    shop.edit("settings", state="up")
    shop.wait_ready()
    shop.edit("settings", state="broken")
    shop.wait_for("Healthy", "False", "Failed", saying="HealthCheckFailed: data.state == 'broken' is true")


def test_a_wrong_expression_is_told_with_its_place_and_corrected(world: World) -> None:
    wrong = {"kind": "ConfigMap", "expressions": {"current": "data.color = 'blue'"}}
    shop = world.deploy(config_map("settings"), healthChecks=[wrong])
    shop.wait_for("Installed", "False", "InvalidConfig", saying="spec.healthChecks[0].expressions.current: line 1")
    shop.change(healthChecks=[{"kind": "ConfigMap", "expressions": {"current": "data.color == 'blue'"}}])
    shop.wait_ready()


def test_expensive_expressions_of_one_tenant_delay_no_other(world: World) -> None:
    many = [config_map(f"c{number}", **{f"k{key}": "x" * 1000 for key in range(60)}) for number in range(40)]
    hostile = world.deploy(*many, healthChecks=[HOSTILE])
    hostile.wait_for("Healthy", "False", "Progressing")
    since = time.monotonic()
    shop = world.deploy(config_map("settings", state="up"), healthChecks=[CHECK])
    shop.wait_ready()
    assert time.monotonic() - since < 10
    hostile.wait_for("Healthy", "False", "Progressing", saying="HealthCheckNotMet")
    assert world.deploy(config_map("settings")).wait_ready()


# dependencies


def on(namespace: str, **fields: Any) -> list[Manifest]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": "database", "namespace": namespace, **fields}]


def put(world: World, namespace: str, **data: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/database"
    world.client.apply(path, config_map("database", **data), manager="somebody", force=True)


def test_nothing_is_applied_before_an_object_exists_and_is_ready(world: World) -> None:
    other = new_name()
    make_namespace(world, other)
    shop = world.deploy(config_map("settings"), dependsOn=on(other, ready="data.state == 'up'"))
    shop.wait_for("Installed", "False", "DependencyNotReady", saying=f"ConfigMap {other}/database (does not exist)")
    put(world, other, state="down")
    shop.wait_for("Installed", "False", "DependencyNotReady", saying="data.state == 'up' is not true")
    assert shop.get("settings") is None
    since = time.monotonic()
    put(world, other, state="up")
    shop.wait_ready()
    assert time.monotonic() - since < RETRY_SECONDS / 2  # it was woken


def test_an_object_that_the_account_may_not_read_holds_everything_up_until_it_may(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    make(world, f"/api/v1/namespaces/{name}/secrets/login", {**config_map("login"), "kind": "Secret", "data": {}})
    dependency = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
    shop = deploy(world, name, config_map("settings"), dependsOn=[dependency])
    found = shop.wait_for("Installed", "False", "Forbidden", saying=f"Secret {name}/login cannot be read by")
    assert f'"{user_of(name)}"; grant get, list and watch on secrets' in found["message"]
    assert shop.get("settings") is None
    readable = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["login"]}
    grant(world, name, CONFIG_MAPS, {**readable, "verbs": ["get", "list", "watch"]})
    shop.wait_ready()


@pytest.mark.parametrize(
    ("dependency", "problem"),
    [
        ({"apiVersion": "v1", "name": "a"}, "set both apiVersion and kind"),
        ({"name": "a", "ready": "true"}, "set apiVersion and kind, too"),
        (
            {"apiVersion": "core.rukpak.io/v1alpha2", "kind": "BundleDeployment", "name": "a"},
            "without apiVersion and kind",
        ),
    ],
)
def test_what_is_no_dependency_is_refused(world: World, dependency: Manifest, problem: str) -> None:
    with pytest.raises(ApiError) as refusal:
        world.apply(new_name(), None, sources=[image("localhost/none:v1")], dependsOn=[dependency])
    assert problem in str(refusal.value.details)
