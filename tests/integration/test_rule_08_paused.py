"""Rule 8: paused means hands off, and eyes on."""

from __future__ import annotations

import pytest

from rukpak.api import names
from tests.support.bundles import WRITES, Deployed, World, config_map, definition, exists, image, new_name
from tests.support.objects import deployment

pytestmark = pytest.mark.own_cluster


@pytest.fixture
def deployed(world: World) -> Deployed:
    """A bundle that is installed and then paused."""
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others", color="blue"))
    deployed.wait_ready()
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    return deployed


def written(world: World, deployed: Deployed, since: int) -> set[str]:
    """Return what the controller wrote about a BundleDeployment, but for its status and its revisions."""
    requests = [request.partition("?")[0] for request in world.requests_about(deployed.name, since)]
    own = (f"{deployed.path}/status", f"/secrets/revision.{deployed.name}.")
    return {r for r in requests if r.partition(" ")[0] in WRITES and not any(part in r for part in own)}


def test_an_edit_stays_and_is_shown_as_drift(world: World, deployed: Deployed) -> None:
    since = world.position()
    deployed.edit("settings", color="red")

    drifted = deployed.wait_for("Drifted", "True", "Paused", saying=f"ConfigMap {deployed.namespace}/settings")
    world.wait_until_looked_at()

    assert deployed.data("settings") == {"color": "red"}
    assert "others" not in drifted["message"]
    assert deployed.status()["objects"]["drifted"] == 1
    assert written(world, deployed, since) == set()


def test_all_edited_fields_are_shown_whichever_edit_came_when(world: World) -> None:
    deployed = world.deploy(deployment("web"), config_map("a", color="blue", size="1"))
    deployed.wait_for("Installed")
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    path = deployed.path_of("web", "deployments", "/apis/apps/v1")

    container = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "b"}]
    query = [("fieldManager", "edit")]
    world.client.request("PATCH", path, query=query, body=container, content_type="application/json-patch+json")
    world.client.merge_patch(f"{path}/scale", {"spec": {"replicas": 2}}, manager="scale")
    world.client.merge_patch(deployed.path_of("a"), {"data": {"color": "red"}}, manager="one")
    world.client.merge_patch(deployed.path_of("a"), {"data": {"size": None}}, manager="two")

    image = 'spec.template.spec.containers[name="main"].image, owned by "edit"'
    expected = (
        f'ConfigMap {deployed.namespace}/a (data.color, owned by "one"; data.size), '
        f'Deployment {deployed.namespace}/web (spec.replicas, owned by "scale"; {image}): '
        "modified; will be repaired when spec.paused is false"
    )
    deployed.wait(lambda: deployed.conditions().get("Drifted", {}).get("message") == expected, "all fields")
    deployed.change(paused=False)
    deployed.wait(lambda: deployed.data("a") == {"color": "blue", "size": "1"}, "repaired")
    deployed.wait(lambda: image in deployed.events().get("Resumed", ""), "an Event that names all fields")


def test_a_deleted_object_stays_away(world: World, deployed: Deployed) -> None:
    deployed.remove("others")

    deployed.wait_for("Drifted", "True", "Paused", saying="others (deleted)")
    # In the same write of status: nobody creates it again, so there is nothing to wait for.
    assert deployed.conditions()["Healthy"]["status"] == "False"
    assert deployed.status()["display"]["objects"] == "1/2"
    world.wait_until_looked_at()
    assert deployed.get("others") is None


def test_health_stays_visible(world: World) -> None:
    group = f"{new_name()}.example.com"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}, "status": {}}
    deployed = world.deploy(definition(group, "Thing"), thing)
    deployed.wait_ready()
    deployed.change(paused=True)
    deployed.wait_for("Paused")

    condition = {"type": "Stalled", "status": "True", "reason": "Broken", "message": "a part of it is missing"}
    path = deployed.path_of("one", "things", f"/apis/{group}/v1")
    world.client.merge_patch(path, {"status": {"conditions": [condition]}}, manager="somebody")

    deployed.wait_for("Healthy", "False", "Failed", saying="a part of it is missing")
    assert "Drifted" not in deployed.conditions()


def test_an_edit_that_is_undone_is_no_drift_any_more(world: World, deployed: Deployed) -> None:
    kept = deployed.get("others")
    assert kept
    deployed.edit("others", color="red")
    deployed.wait_for("Drifted")

    body = {**kept, "metadata": {**kept["metadata"], "resourceVersion": None, "managedFields": None, "uid": None}}
    manager = names.field_manager(deployed.name)
    world.client.apply(deployed.path_of("others"), body, manager=manager, force=True)

    world.wait(lambda: "Drifted" not in deployed.conditions(), "no drift")
    assert deployed.conditions()["Paused"]["status"] == "True"


def test_a_changed_spec_is_fetched_and_rendered_and_waits(world: World, deployed: Deployed) -> None:
    before, objects = deployed.status(), deployed.versions()
    since = world.position()
    newer = world.push(deployed.name, config_map("settings", color="red"), config_map("more"), tag="v2")
    deployed.change(sources=[image(newer)])

    deployed.wait_for("Installed", "False", "PausedWithChanges")
    world.wait_until_looked_at()

    after = deployed.status()
    assert after["revision"] != before["revision"]
    assert after["installedRevision"] == before["installedRevision"]
    assert after["display"]["revision"] in deployed.conditions()["Installed"]["message"]
    assert {secret["metadata"]["annotations"][f"{names.GROUP}/revision"] for secret in deployed.revisions()} == {
        after["revision"],
        after["installedRevision"],
    }
    assert deployed.versions() == objects
    assert written(world, deployed, since) == set()


def test_resuming_applies_what_waited_and_puts_right_what_was_changed(world: World, deployed: Deployed) -> None:
    before = deployed.status()
    newer = world.push(deployed.name, config_map("settings", color="red"), config_map("more"), tag="v2")
    deployed.change(sources=[image(newer)])
    deployed.wait_for("Installed", "False", "PausedWithChanges")
    deployed.edit("others", color="green")

    deployed.change(paused=False)

    deployed.wait_installed(before["installedRevision"])
    assert {name: value["data"]["color"] for name, value in deployed.objects().items()} == {
        "settings": "red",
        "more": "blue",
    }
    assert {"Paused", "Drifted", "Stalled", "Reconciling"}.isdisjoint(deployed.conditions())


def test_resuming_says_in_an_event_what_is_put_right(world: World, deployed: Deployed) -> None:
    deployed.edit("settings", color="red")
    deployed.wait_for("Drifted")

    deployed.change(paused=False)
    deployed.wait_ready()

    world.wait(lambda: {"Paused", "Resumed"} <= deployed.events().keys(), "both Events")
    assert "settings" in deployed.events()["Resumed"]


def test_going_back_while_paused_leaves_nothing_to_apply(world: World, deployed: Deployed) -> None:
    before, objects = deployed.status(), deployed.versions()
    newer = world.push(deployed.name, config_map("settings", color="red"), tag="v2")
    deployed.change(sources=[image(newer)])
    deployed.wait_for("Installed", "False", "PausedWithChanges")

    deployed.change(sources=[image(deployed.ref)])
    deployed.wait_for("Installed")
    deployed.change(paused=False)

    deployed.wait_ready()
    assert deployed.status()["installedRevision"] == before["installedRevision"]
    assert deployed.versions() == objects


def test_a_restart_while_paused_changes_nothing_and_sees_the_drift(world: World, deployed: Deployed) -> None:
    deployed.edit("settings", color="red")
    deployed.wait_for("Drifted", saying="settings")
    world.controller.kill()
    deployed.edit("others", color="red")
    since = world.position()

    world.controller.start()

    deployed.wait_for("Drifted", saying=f"ConfigMap {deployed.namespace}/others")
    world.wait_until_looked_at()
    assert written(world, deployed, since) == set()
    assert deployed.data("settings") == deployed.data("others") == {"color": "red"}


def test_what_is_created_paused_is_rendered_and_not_applied(world: World) -> None:
    deployed = world.deploy(config_map("settings"), paused=True)

    deployed.wait_for("Installed", "False", "PausedWithChanges")

    deployed.wait_for("Unpacked")
    deployed.wait_for("Healthy", "Unknown", "NotInstalled")
    assert not exists(world.client, f"/api/v1/namespaces/{deployed.namespace}")
    assert len(deployed.revisions()) == 1
    deployed.change(paused=False)
    deployed.wait_ready()


def test_a_failure_while_paused_is_shown(world: World, deployed: Deployed) -> None:
    deployed.change(sources=[image(f"{world.registry.host}/{deployed.name}:missing")])

    deployed.wait_for("Unpacked", "False", "NotFound")
    deployed.wait_for("Installed", "False", "NotFound")
    deployed.wait_for("Healthy")
    assert len(deployed.objects()) == 2


def test_a_pause_says_since_when(deployed: Deployed) -> None:
    since = deployed.conditions()["Paused"]["lastTransitionTime"]

    deployed.change(progressDeadline="9m")

    assert deployed.wait_for("Paused")["lastTransitionTime"] == since
    assert deployed.status()["observedGeneration"] == deployed.read()["metadata"]["generation"]


def test_deletion_is_carried_out(deployed: Deployed) -> None:
    deployed.edit("settings", color="red")

    deployed.delete()

    deployed.wait_gone()
    assert deployed.get("settings") is None
