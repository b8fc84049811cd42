"""The history: which revisions were applied, what became of them, and what they contained."""

from __future__ import annotations

import json

import pytest

from tests.support.bundles import STORE, Deployed, Manifest, World, config_map, image
from tests.support.controller import command
from tests.support.registry import Files

pytestmark = pytest.mark.own_cluster


def upgrade(world: World, deployed: Deployed, color: str) -> str:
    """Install another version, and return its revision."""
    before = deployed.status()["installedRevision"]
    deployed.change(sources=[image(world.push(deployed.name, config_map("settings", color=color), tag=color))])
    after: str = deployed.wait_installed(before)["installedRevision"]
    return after


def history(deployed: Deployed) -> list[str]:
    return [each["revision"] for each in deployed.status().get("history", [])]


def kept(deployed: Deployed) -> set[str]:
    return {secret["metadata"]["annotations"]["core.rukpak.io/revision"] for secret in deployed.revisions()}


@pytest.mark.thorough
def test_ten_upgrades_leave_as_many_revisions_as_the_limit_says(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="c0"), revisionHistoryLimit=3)
    installed = [deployed.wait_ready()["installedRevision"]]
    for number in range(1, 11):
        installed.append(upgrade(world, deployed, f"c{number}"))
        assert len(history(deployed)) <= 4
    assert history(deployed) == installed[:-5:-1]
    deployed.wait(lambda: kept(deployed) == set(installed[-4:]), "as many Secrets as entries")
    entries = deployed.status()["history"]
    assert {each["outcome"] for each in entries} == {"Healthy"}
    assert all(each["startedAt"] <= each["installedAt"] and each["sources"] for each in entries)

    deployed.change(revisionHistoryLimit=0)
    deployed.wait(lambda: kept(deployed) == {installed[-1]} == set(history(deployed)), "only the installed one is left")
    deployed.delete()
    deployed.wait_gone()
    assert deployed.revisions() == []


def test_an_upgrade_with_a_history_writes_status_as_often_as_without(world: World) -> None:
    counts = []
    for limit in (5, 0):
        deployed = world.deploy(config_map("settings", color="blue"), revisionHistoryLimit=limit)
        deployed.wait_ready()
        world.wait_until_looked_at()
        since = world.position()
        upgrade(world, deployed, "red")
        world.wait_until_looked_at()
        counts.append(len([each for each in world.writes(since) if f"/{deployed.name}/status" in each]))
    assert counts[0] == counts[1]


def chart(version: str) -> Files:
    manifest = json.dumps(config_map("settings", version=version)).encode()
    return {
        "Chart.yaml": f"apiVersion: v2\nname: shop\nversion: {version}\n".encode(),
        "templates/settings.yaml": manifest,
    }


def test_each_revision_keeps_the_name_and_version_of_its_chart_also_when_it_is_applied_again(world: World) -> None:
    deployed = world.deploy(chart("1.0.0"), format="helm")
    first = deployed.wait_ready()["installedRevision"]
    deployed.change(sources=[image(world.push(deployed.name, chart("1.1.0"), tag="v2"))])
    second = deployed.wait_installed(first)["installedRevision"]
    assert bundles(deployed) == {first: "shop 1.0.0", second: "shop 1.1.0"}
    deployed.change(pinnedRevision=first)
    deployed.wait_installed(second)
    assert bundles(deployed) == {first: "shop 1.0.0", second: "shop 1.1.0"}
    said = command(world.cluster.kubeconfig)("status", deployed.name).stdout
    assert "Bundle:    shop 1.0.0" in said.splitlines()


def bundles(deployed: Deployed) -> dict[str, str]:
    return {each["revision"]: each["bundle"] for each in deployed.status()["history"]}


REJECTED = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fixed"}, "spec": {"ports": [{"port": 70000}]}}


def test_a_revision_with_a_refused_object_is_failed_also_once_it_is_replaced(world: World) -> None:
    deployed = world.deploy(config_map("fixed"))
    first = deployed.wait_ready()["installedRevision"]
    deployed.change(sources=[image(world.push(deployed.name, REJECTED, tag="broken"))])
    deployed.wait_for("Installed", "False", "Refused")

    failed, before = deployed.status()["history"]

    assert (before["revision"], before["outcome"]) == (first, "Healthy")
    assert (failed["outcome"], "fixed" in failed["message"]) == ("Failed", True)
    corrected = [config_map("fixed"), config_map("settings")]
    deployed.change(sources=[image(world.push(deployed.name, *corrected, tag="corrected"))])
    last = deployed.wait_installed(first)["installedRevision"]
    entries = {each["revision"]: each for each in deployed.status()["history"]}
    assert list(entries) == [last, failed["revision"], first]
    assert entries[failed["revision"]] == failed


def delete_secret(deployed: Deployed, revision: str) -> None:
    for secret in deployed.revisions():
        if secret["metadata"]["annotations"]["core.rukpak.io/revision"] == revision:
            deployed.client.delete(f"{STORE}/{secret['metadata']['name']}")


def test_a_revision_that_an_administrator_deletes_costs_its_entry_only(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    first = deployed.wait_ready()["installedRevision"]
    second, third = upgrade(world, deployed, "red"), upgrade(world, deployed, "green")
    assert history(deployed) == [third, second, first]
    objects = deployed.versions()
    delete_secret(deployed, second)
    deployed.wait(lambda: history(deployed) == [third, first], "its entry is gone")
    world.controller.kill()
    delete_secret(deployed, first)
    world.controller.start()
    deployed.wait(lambda: history(deployed) == [third], "so is that of one that was deleted meanwhile")
    deployed.wait_ready()
    assert deployed.versions() == objects


def test_the_command_line_shows_the_history_and_what_a_revision_contained(world: World) -> None:
    rukpak = command(world.cluster.kubeconfig)
    deployed = world.deploy(config_map("settings", color="blue"), config_map("old"))
    first = deployed.wait_ready()["installedRevision"]
    second = upgrade(world, deployed, "red")

    heading, newest, oldest = rukpak("history", deployed.name).stdout.splitlines()
    assert heading.split() == ["REVISION", "STATE", "OUTCOME", "INSTALLED", "BUNDLE", "SOURCES", "MESSAGE"]
    assert newest.split()[:3] == [second[7:19], "installed", "Healthy"]
    assert oldest.split()[:3] == [first[7:19], "kept", "Healthy"]
    entries: list[Manifest] = json.loads(rukpak("history", deployed.name, "-o", "json").stdout)
    assert entries == deployed.status()["history"]

    shown = json.loads(rukpak("render", "--revision", f"{deployed.name}@{first[:20]}", "-o", "json").stdout)
    assert [(each["metadata"]["name"], each.get("data")) for each in shown["items"]] == [
        ("settings", {"color": "blue"}),
        ("old", {"color": "blue"}),
    ]
    gone = rukpak("render", "--revision", f"{deployed.name}@sha256:{'0' * 64}", status=1)
    assert f"is not kept; kept revisions: {second[7:19]}, {first[7:19]}" in gone.stderr
