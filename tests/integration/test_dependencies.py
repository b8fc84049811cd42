"""spec.dependsOn: nothing new is applied before what a bundle depends on is ready."""

from __future__ import annotations

import time

import pytest

from tests.support.bundles import Deployed, World, config_map, image, new_name

pytestmark = pytest.mark.own_cluster
RETRY_SECONDS = 300.0
"""After which what waits looks again if it is not woken."""


def depends_on(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def deploy_missing(world: World) -> Deployed:
    """Deploy one whose image does not exist yet."""
    name = new_name()
    return world.deploy(name=name, ref=f"{world.registry.host}/{name}:v1")


def provide(world: World, deployed: Deployed, tag: str = "v2") -> None:
    """Push an image, and have a BundleDeployment use it."""
    deployed.change(sources=[image(world.push(deployed.name, config_map("database"), tag=tag))])


def test_nothing_is_applied_before_a_dependency_is_ready(world: World) -> None:
    database = deploy_missing(world)
    database.wait_for("Ready", "False", "NotFound")
    shop = world.deploy(config_map("settings"), dependsOn=depends_on(database.name, "absent"))

    shop.wait_for("Installed", "False", "DependencyNotReady", saying=f'"{database.name}" (NotFound)')
    shop.wait_for("Reconciling", "True", "DependencyNotReady", saying='"absent" (does not exist)')
    assert shop.conditions()["Unpacked"]["status"] == "True"
    assert shop.status()["sources"][0]["digest"]
    assert shop.get("settings") is None

    since = time.monotonic()
    shop.change(dependsOn=depends_on(database.name))
    provide(world, database)
    database.wait_ready()
    shop.wait_ready()
    assert shop.data("settings") == {"color": "blue"}
    assert time.monotonic() - since < RETRY_SECONDS / 2  # it was woken


def test_an_upgrade_waits_while_what_is_installed_is_repaired_and_a_deletion_names_what_depends_on_it(
    world: World,
) -> None:
    database = world.deploy(config_map("database"))
    shop = world.deploy(config_map("settings", color="blue"), dependsOn=depends_on(database.name))
    installed = shop.wait_ready()["installedRevision"]

    database.change(sources=[image(f"{world.registry.host}/{database.name}:missing")])
    database.wait_for("Ready", "False", "NotFound")
    assert shop.conditions()["Ready"]["status"] == "True"
    newer = world.push(shop.name, config_map("settings", color="red"), tag="v2")
    shop.change(sources=[image(newer)])
    shop.wait_for("Installed", "False", "DependencyNotReady", saying="is installed; ")
    world.restart()
    shop.edit("settings", color="green")
    world.wait(lambda: shop.data("settings") == {"color": "blue"}, "the repair")
    assert shop.status()["installedRevision"] == installed
    assert shop.conditions()["Healthy"]["status"] == "True"

    provide(world, database)
    shop.wait_installed(installed)
    assert shop.data("settings") == {"color": "red"}

    database.delete()
    database.wait_gone()
    database.wait(lambda: database.all_events("StillRequired"), "an Event")
    [text] = database.all_events("StillRequired")
    assert shop.name in text
    assert shop.conditions()["Ready"]["status"] == "True"
    newer = world.push(shop.name, config_map("settings", color="yellow"), tag="v3")
    shop.change(sources=[image(newer)])
    shop.wait_for("Installed", "False", "DependencyNotReady", saying=f'"{database.name}" (does not exist)')


def test_a_cycle_is_reported_on_each_member_installed_or_not_and_ends_with_one_change(world: World) -> None:
    names = [new_name() for _ in range(3)]
    first, second, third = (
        world.deploy(config_map("settings"), name=name, dependsOn=depends_on(other))
        for name, other in zip(names, [*names[1:], names[0]], strict=True)
    )
    for each, way in ((first, names), (second, [*names[1:], names[0]]), (third, [names[2], *names[:2]])):
        each.wait_for("Stalled", "True", "DependencyCycle", saying=" -> ".join([*way, way[0]]))
        assert each.get("settings") is None

    third.change(dependsOn=None)
    for each in (third, second, first):
        each.wait_ready()

    # What is installed is repaired in another one.
    third.change(dependsOn=depends_on(second.name))
    for each in (second, third):
        each.wait_for("Stalled", "True", "DependencyCycle")
    second.edit("settings", color="green")
    world.wait(lambda: second.data("settings") == {"color": "blue"}, "the repair")
    third.change(dependsOn=None)
    for each in (third, second):
        each.wait_ready()
