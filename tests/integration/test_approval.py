"""Approval: what is reviewed is what is executed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rukpak.api import names
from tests.support.bundles import (
    WRITES,
    Deployed,
    Manifest,
    World,
    config_map,
    definition,
    exists,
    image,
    new_name,
)
from tests.support.controller import command
from tests.support.registry import LocalRegistry
from tests.support.tenants import CONFIG_MAPS, deploy, tenant

pytestmark = pytest.mark.own_cluster

MANUAL = {"approval": "Manual"}


@pytest.fixture
def installed(world: World) -> Deployed:
    """A bundle that was approved and installed."""
    deployed = world.deploy(config_map("settings", color="blue"), config_map("old"), **MANUAL)
    approve(deployed)
    deployed.wait_ready()
    return deployed


def wait_pending(deployed: Deployed, other_than: str = "") -> Manifest:
    """Wait until a revision waits for approval, and return what status says of it."""
    deployed.wait_for("Installed", "False", "AwaitingApproval")

    def find() -> Manifest | None:
        pending: Manifest = deployed.status().get("pending") or {}
        return pending if pending.get("revision", other_than) != other_than else None

    found: Manifest = deployed.wait(find, f"{deployed.name}: a pending revision")
    return found


def approve(deployed: Deployed) -> str:
    """Approve what waits, and return its digest."""
    digest: str = wait_pending(deployed)["revision"]
    deployed.change(approvedRevision=digest)
    return digest


def written(world: World, deployed: Deployed, since: int) -> set[str]:
    """Return what the controller wrote about a BundleDeployment, but for status, finalizer, revisions and questions."""
    requests = [request.partition("?")[0] for request in world.requests_about(deployed.name, since)]
    own = (deployed.path, f"/secrets/revision.{deployed.name}.", "/selfsubjectaccessreviews")
    return {r for r in requests if r.partition(" ")[0] in WRITES and not any(part in r for part in own)}


def push_newer(world: World, deployed: Deployed, tag: str = "v2") -> str:
    return world.push(deployed.name, config_map("settings", color="red"), config_map("more"), tag=tag)


def test_before_the_first_approval_nothing_is_written(world: World) -> None:
    since = world.position()
    deployed = world.deploy(config_map("settings", color="blue"), **MANUAL)
    found = wait_pending(deployed)
    world.wait_until_looked_at()

    assert found["changes"] == {"create": 1, "change": 0, "delete": 0, "recreate": 0}
    assert found["sources"] == deployed.status()["sources"]
    assert written(world, deployed, since) == set()
    assert not exists(world.client, f"/api/v1/namespaces/{deployed.namespace}")
    assert deployed.conditions()["Healthy"]["status"] == "Unknown"
    assert deployed.all_events("AwaitingApproval")

    approved = approve(deployed)
    assert deployed.wait_ready()["installedRevision"] == approved
    assert "pending" not in deployed.status()
    deployed.wait(lambda: deployed.all_events("Approved"), "an Event")


def test_a_new_revision_waits_while_the_installed_one_is_repaired(
    world: World, registry: LocalRegistry, installed: Deployed
) -> None:
    before, since = installed.status(), world.position()
    installed.change(sources=[image(push_newer(world, installed))])
    found = wait_pending(installed)
    world.wait_until_looked_at()
    assert written(world, installed, since) == set()
    assert found["changes"] == {"create": 1, "change": 1, "delete": 1, "recreate": 0}

    # After a restart, too; no source is asked.
    since = world.position()
    as_it_was, asked = installed.read(), registry.requests_to(installed.name)
    world.restart()
    world.wait_until_looked_at()
    assert registry.requests_to(installed.name) == asked
    assert [r for r in world.requests_about(installed.name, since) if r.partition(" ")[0] in WRITES] == []
    assert installed.read() == as_it_was

    installed.edit("settings", color="green")
    world.wait(lambda: installed.data("settings") == {"color": "blue"}, "the repair")
    assert installed.status()["installedRevision"] == before["installedRevision"]
    assert installed.get("more") is None

    approve(installed)
    installed.wait_installed(before["installedRevision"])
    assert set(installed.objects()) == {"settings", "more"}


def test_a_denied_revision_is_a_decision_and_no_failure_until_the_next_one(world: World, installed: Deployed) -> None:
    objects = installed.versions()
    installed.change(sources=[image(push_newer(world, installed))])
    wait_pending(installed)
    # A spec that is reverted waits for nothing.
    installed.change(sources=[image(installed.ref)])
    installed.wait_ready()
    assert "pending" not in installed.status()
    assert installed.versions() == objects

    installed.change(sources=[image(push_newer(world, installed))])
    denied = wait_pending(installed)["revision"]
    installed.change(deniedRevision=denied)

    installed.wait_for("Ready", "False", "Denied")
    assert not {"Stalled", "Reconciling"} & installed.conditions().keys()
    assert installed.data("settings") == {"color": "blue"}
    assert "pending" not in installed.status()

    newer = world.push(installed.name, config_map("settings", color="yellow"), tag="v3")
    installed.change(sources=[image(newer)])
    wait_pending(installed)
    approve(installed)
    world.wait(lambda: installed.data("settings") == {"color": "yellow"}, "the upgrade")


def test_a_tag_that_moves_makes_another_revision_wait(world: World, installed: Deployed) -> None:
    tag = push_newer(world, installed, "latest")
    installed.change(sources=[image(tag)])
    first = wait_pending(installed)
    world.push(installed.name, config_map("settings", color="evil"), tag="latest")
    installed.request_reconcile("now")

    second = wait_pending(installed, other_than=first["revision"])
    assert second["sources"][0]["digest"] != first["sources"][0]["digest"]

    installed.change(approvedRevision=first["revision"])
    world.wait_until_looked_at()
    assert wait_pending(installed)["revision"] == second["revision"]
    assert installed.data("settings") == {"color": "blue"}


def test_a_revision_can_be_approved_while_paused(world: World, installed: Deployed) -> None:
    before = installed.status()
    installed.change(paused=True, sources=[image(push_newer(world, installed))])
    approved = approve(installed)
    installed.wait_for("Installed", "False", "PausedWithChanges")
    assert installed.data("settings") == {"color": "blue"}
    assert "pending" not in installed.status()

    installed.change(paused=False)

    assert installed.wait_installed(before["installedRevision"])["installedRevision"] == approved


def test_an_approved_revision_is_still_checked(world: World) -> None:
    group = f"{new_name()}.example.com"
    safe = definition(group, "Thing")
    unsafe = definition(group, "Thing")
    unsafe["spec"]["scope"] = "Cluster"
    deployed = world.deploy(safe, **MANUAL)
    approve(deployed)
    deployed.wait_ready()
    deployed.change(sources=[image(world.push(deployed.name, unsafe, tag="v2"))])
    [problem] = wait_pending(deployed)["problems"]
    assert f"things.{group}" in problem

    approve(deployed)

    assert f"things.{group}" in deployed.wait_for("Installed", "False", "UnsafeCRDUpgrade")["message"]


def test_rights_that_the_account_lacks_are_shown_before_approval(world: World) -> None:
    name = tenant(world, {**CONFIG_MAPS, "verbs": ["get"]})
    deployed = deploy(world, name, config_map("settings"), **MANUAL)
    [problem] = wait_pending(deployed)["problems"]
    assert "configmaps" in problem
    assert "create" in problem
    assert deployed.get("settings") is None


def test_a_pipeline_approves_a_revision_before_the_controller_knows_it(world: World, tmp_path: Path) -> None:
    name = new_name()
    ref = world.push(name, config_map("settings", color="blue"))
    spec = {"format": "plain", "installNamespace": name, "sources": [image(ref)], **MANUAL}
    about = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}}
    file = tmp_path / "deployment.json"
    file.write_text(json.dumps({**about, "spec": spec}))
    digest = command(world.cluster.kubeconfig)("render", "-f", str(file), "-o", "revision").stdout.strip()

    deployed = world.deploy(name=name, ref=ref, approvedRevision=digest, **MANUAL)

    assert deployed.wait_ready()["installedRevision"] == digest
    world.push(name, config_map("settings", color="evil"))
    deployed.request_reconcile("now")
    wait_pending(deployed)
    assert deployed.data("settings") == {"color": "blue"}
