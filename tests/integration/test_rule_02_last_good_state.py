"""Rule 2: the last good state is never lost: not without its source, not by a kill, not with the API server gone."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from tests.support.bundles import STORE, Deployed, World, bundle_of, config_map, image, new_name
from tests.support.faulty_registry import FaultyRegistry
from tests.support.registry import LocalRegistry, pack

MANY = 200


@pytest.fixture
def slow_registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        yield registry


def settings_of(deployed: Deployed) -> Any:
    return deployed.data("settings")


def wait_restored(deployed: Deployed, name: str = "settings") -> None:
    deployed.wait(lambda: deployed.data(name) == {"color": "blue"}, f"{name} restored")


# without source and store


def test_what_is_installed_is_repaired_without_registry_and_content_store(
    world: World, fresh_registry: LocalRegistry
) -> None:
    name = new_name()
    fresh_registry.push_image(name, "v1", [bundle_of(config_map("settings", color="blue"))])
    deployed = world.deploy(name=name, ref=f"{fresh_registry.host}/{name}:v1")
    deployed.wait_ready()
    fresh_registry.stop()
    shutil.rmtree(world.store / "entries")

    deployed.remove("settings")
    wait_restored(deployed)
    world.controller.stop()
    shutil.rmtree(world.store)
    deployed.remove("settings")
    world.controller.start()

    wait_restored(deployed)
    deployed.wait_ready()


def test_a_change_that_cannot_be_had_changes_nothing_on_the_cluster(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    installed = deployed.wait_ready()
    before = deployed.versions()

    deployed.change(sources=[image(f"{world.registry.host}/{deployed.name}:missing")])
    deployed.wait_for(
        "Installed", "False", "NotFound", saying=f"revision {installed['display']['revision']} is installed"
    )
    assert deployed.versions() == before
    world.restart()
    deployed.remove("settings")

    wait_restored(deployed)
    assert deployed.status()["installedRevision"] == installed["installedRevision"]
    deployed.wait_for("Unpacked", "False", "NotFound")


# the revision store


def test_a_revision_is_as_many_secrets_as_it_takes_and_goes_with_its_bundle_deployment(world: World) -> None:
    dice = random.Random(2)
    large = [config_map(f"large-{index}", noise=dice.randbytes(400_000).hex()) for index in range(2)]
    deployed = world.deploy(config_map("settings", color="blue"), *large)
    deployed.wait_ready()
    secrets = deployed.revisions()

    assert len(secrets) == 2
    assert {secret["type"] for secret in secrets} == {names.REVISION_SECRET_TYPE}
    assert not any("ownerReferences" in secret["metadata"] for secret in secrets)
    world.restart()
    deployed.remove("settings")
    wait_restored(deployed)
    deployed.delete()
    deployed.wait_gone()
    assert deployed.revisions() == []


def test_without_a_history_only_the_installed_revision_is_kept_after_an_upgrade(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"), revisionHistoryLimit=0)
    first = deployed.wait_ready()
    deployed.change(sources=[image(world.push(deployed.name, config_map("settings", color="red"), tag="v2"))])

    second = deployed.wait_installed(first["installedRevision"])

    kept = [secret["metadata"]["annotations"]["core.rukpak.io/revision"] for secret in deployed.revisions()]
    assert kept == [second["installedRevision"]]


def test_revisions_of_a_bundle_deployment_that_went_meanwhile_are_removed_at_start(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    world.controller.kill()
    deployed.change(metadata={"finalizers": None})
    deployed.delete()

    world.controller.start()

    world.wait(lambda: not deployed.revisions(), "the revision removed")


def tamper(deployed: Deployed) -> None:
    """Put another object into the kept revision, as somebody who may write Secrets."""
    (secret,) = deployed.revisions()
    content = json.loads(zlib.decompress(base64.b64decode(secret["data"]["objects"])))
    content["objects"][0]["data"] = {"color": "planted"}
    planted = base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()
    path = f"{STORE}/{secret['metadata']['name']}"
    deployed.client.merge_patch(path, {"data": {"objects": planted}}, manager="somebody")


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_revision_that_was_tampered_with_is_made_again_from_the_pins(world: World, restarted: bool) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    installed = deployed.wait_ready()
    world.push(deployed.name, config_map("settings", color="red"))
    kept = deployed.revisions()[0]["data"]
    tamper(deployed)
    if restarted:
        world.restart()

    deployed.remove("settings")

    wait_restored(deployed)
    assert deployed.wait_ready()["installedRevision"] == installed["installedRevision"]
    deployed.wait(lambda: [it["data"] for it in deployed.revisions()] == [kept], "the revision written again")


def test_a_revision_that_was_tampered_with_is_not_applied_while_its_source_is_away(
    world: World, slow_registry: FaultyRegistry
) -> None:
    slow_registry.add_image("v1", pack(bundle_of(config_map("settings", color="blue"))))
    deployed = world.deploy(ref=f"{slow_registry.host}/bundle:v1")
    deployed.wait_ready()
    slow_registry.faults.status = 404
    world.controller.stop()  # before, for it writes the revision again while it has its content
    tamper(deployed)
    shutil.rmtree(world.store)
    world.controller.start()

    deployed.edit("settings", color="red")

    deployed.wait_for("Installed", "False", "PinnedContentGone")
    assert settings_of(deployed) == {"color": "red"}
    slow_registry.faults.status = 0
    deployed.change(progressDeadline="9m")
    wait_restored(deployed)


# kill -9


@pytest.mark.thorough
def test_a_kill_while_fetching_loses_nothing(world: World, slow_registry: FaultyRegistry) -> None:
    # Content that no other test has put into the store.
    slow_registry.add_image("v1", pack(bundle_of(config_map("settings", unique=new_name()))))
    slow_registry.faults.where, slow_registry.faults.trickle = "/blobs/", "body"
    deployed = world.deploy(ref=f"{slow_registry.host}/bundle:v1")
    world.wait(lambda: any("/blobs/" in path for _, path, _ in slow_registry.requests), "a layer asked for")
    pins = deployed.wait(lambda: deployed.status().get("sources"), "its pin")
    assert pins[0]["digest"].startswith("sha256:")
    world.controller.kill()
    slow_registry.faults.trickle = ""
    slow_registry.requests.clear()

    world.controller.start()

    deployed.wait_ready()
    assert deployed.status()["sources"] == pins
    assert not any(path.endswith("/manifests/v1") for _, path, _ in slow_registry.requests)


@pytest.mark.repeats
@pytest.mark.parametrize("count", [1, MANY // 2, MANY], ids=lambda count: f"after {count} objects")
def test_a_kill_while_applying_applies_nothing_twice(world: World, count: int) -> None:
    objects = [config_map(f"settings-{index:03}", color="blue") for index in range(MANY)]
    deployed = world.deploy(*objects)
    world.wait(lambda: len(deployed.versions()) >= count, f"{count} objects")
    world.controller.kill()
    before = deployed.versions()

    world.controller.start()

    deployed.wait_ready()
    after = deployed.versions()
    assert len(after) == MANY
    assert {name: after[name] for name in before} == before


@pytest.mark.thorough
def test_a_kill_in_the_midst_of_an_upgrade_leads_to_the_new_revision(world: World) -> None:
    deployed = world.deploy(*[config_map(f"settings-{index:03}", color="blue") for index in range(MANY)])
    first = deployed.wait_ready()
    newer = [config_map(f"settings-{index:03}", color="red") for index in range(10, MANY)]
    deployed.change(sources=[image(world.push(deployed.name, *newer, tag="v2"))])
    world.wait(lambda: red_of(deployed), "an object of the new revision")
    world.controller.kill()
    before = red_of(deployed)

    world.controller.start()

    deployed.wait_installed(first["installedRevision"])
    after = red_of(deployed)
    assert len(after) == MANY - 10
    assert {name: after[name] for name in before} == before
    assert len(deployed.objects()) == len(after)


def red_of(deployed: Deployed) -> dict[str, str]:
    objects = deployed.objects().items()
    return {name: value["metadata"]["resourceVersion"] for name, value in objects if value["data"] == {"color": "red"}}


def test_a_kill_before_the_final_status_costs_no_write_to_an_object(world: World) -> None:
    deny_final_status(world)
    deployed = world.deploy(config_map("settings", color="blue"))
    refusal = f'"pass failed with an API server error", "BundleDeployment": "{deployed.name}"'
    world.wait(lambda: refusal in world.controller.log and deployed.get("settings"), "a refused status")
    before = deployed.versions()
    assert "installedRevision" not in deployed.status()
    world.controller.kill()
    world.cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "no-final-status")

    world.controller.start()

    deployed.wait_ready()
    assert deployed.versions() == before


def deny_final_status(world: World) -> None:
    """Let the API server refuse every status that says that something is installed."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-final-status"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [names.GROUP],
                        "apiVersions": ["*"],
                        "operations": ["UPDATE"],
                        "resources": [f"{names.PLURAL}/status"],
                    }
                ]
            },
            "validations": [{"expression": "!has(object.status.installedRevision)", "message": "final status"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-final-status"},
        "spec": {"policyName": "no-final-status", "validationActions": ["Deny"]},
    }
    world.cluster.kubectl("apply", "-f", "-", input=json.dumps(policy))
    world.cluster.kubectl("apply", "-f", "-", input=json.dumps(binding))
    probe = world.deploy(config_map("probe"))
    probe.wait(lambda: is_refused(probe), "the policy in force")


def is_refused(probe: Deployed) -> bool:
    try:
        probe.client.merge_patch(f"{probe.path}/status", {"status": {"installedRevision": f"sha256:{'0' * 64}"}})
    except Exception as error:  # noqa: BLE001
        return "422" in str(error) or "403" in str(error)
    return False


# the API server


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_what_happened_while_a_watch_was_broken_and_expired_is_put_right(world: World, cluster: ControlPlane) -> None:
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others", color="blue"))
    deployed.wait_ready()
    process = int((world.store.parent / "controller.pid").read_text().split()[0])
    os.kill(process, signal.SIGSTOP)  # so that it does not go on before there is something that it has missed
    cluster.stop("kube-apiserver")
    cluster.start("kube-apiserver")
    deployed.edit("settings", color="red")
    deployed.remove("others")
    since = cluster.audit_position()

    os.kill(process, signal.SIGCONT)

    wait_restored(deployed, "settings")
    wait_restored(deployed, "others")
    watches = [event["requestURI"] for event in cluster.audit_requests(since) if event["verb"] == "watch"]
    opened = [uri for uri in watches if uri.startswith("/api/v1/configmaps?")]
    assert opened
    assert "&sendInitialEvents=true" in opened[-1]


@pytest.mark.own_cluster
def test_an_install_survives_the_death_of_the_api_server(world: World, cluster: ControlPlane) -> None:
    deployed = world.deploy(*[config_map(f"settings-{index:03}", color="blue") for index in range(MANY)])
    world.wait(lambda: len(deployed.versions()) > MANY // 4, "some objects")
    cluster.stop("kube-apiserver")
    failure = "pass failed with an API server error"
    world.wait(lambda: failure in world.controller.log, "a pass without a server")
    cluster.start("kube-apiserver")

    world.wait(lambda: deployed.conditions().get("Ready", {}).get("status") == "True", "Ready", seconds=60)
    assert len(deployed.versions()) == MANY
