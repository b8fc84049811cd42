"""From one revision to the next: what is installed, what is wanted, what waits (rules 2 and 6)."""

from __future__ import annotations

from tests.support.bundles import Deployed, Manifest, World, config_map
from tests.support.objects import deployment


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> None:
    """Push another bundle under the tag of a BundleDeployment, and ask for it."""
    world.push(deployed.name, *manifests)
    deployed.request_reconcile("upgrade")


def test_a_revision_that_cannot_be_rendered_leaves_what_is_installed_repaired_and_reported(world: World) -> None:
    deployed = world.deploy(config_map("a"), deployment("web"))
    installed = deployed.wait_ready()
    upgrade(world, deployed, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})

    told = deployed.wait_for("Installed", "False", "InvalidBundle")["message"]

    assert told.startswith(f"revision {installed['display']['revision']} is installed; ")
    deployed.edit("a", color="red")
    deployed.wait(lambda: deployed.data("a") == {"color": "blue"}, "repaired")
    deployed.wait_for("Healthy")
    assert deployed.status()["installedRevision"] == installed["installedRevision"]


def test_a_revision_that_is_applied_in_part_owns_what_it_has_and_conditions_name_both(world: World) -> None:
    deployed = world.deploy(config_map("a"), config_map("old"), {**config_map("fixed"), "immutable": True})
    installed = deployed.wait_ready()["display"]["revision"]
    fixed = {**config_map("fixed", color="red"), "immutable": True}
    upgrade(world, deployed, config_map("a", color="red"), config_map("new"), fixed)

    told = deployed.wait_for("Installed", "False", "Immutable")["message"]

    wanted = deployed.status()["display"]["revision"]
    assert told.startswith(f"revision {installed} is installed; revision {wanted} is only partly applied: ")
    assert [(each["name"], each["reason"]) for each in deployed.status()["notReady"]] == [("fixed", "Immutable")]
    failed = deployed.status()["history"][0]
    assert (failed["outcome"], "fixed" in failed["message"]) == ("Failed", True)
    for name in ("a", "new", "old"):
        deployed.edit(name, color="green")
    deployed.wait(lambda: deployed.data("a") == {"color": "red"}, "what the new one has is repaired from it")
    deployed.wait(lambda: deployed.data("new") == {"color": "blue"}, "so is what it brought")
    deployed.wait(lambda: deployed.data("old") == {"color": "blue"}, "what it lacks, from the old one")
    assert deployed.data("fixed") == {"color": "blue"}


def test_a_revision_that_does_not_become_healthy_prunes_nothing_and_says_what_ends_the_wait(world: World) -> None:
    deployed = world.deploy(config_map("old"), deployment("web"))
    deployed.wait_ready()
    upgrade(world, deployed, deployment("web", replicas=1))

    told = deployed.wait_for("Reconciling", "True", "PrunePending")["message"]

    assert told.endswith(
        "/old: will be pruned when the new revision is healthy; set spec.prune to AfterApply to prune now"
    )
    assert "Deployment" in deployed.wait_for("Healthy", "False", "Progressing")["message"]
    deployed.wait_for("Installed")
    counts = deployed.status()["objects"]
    assert (counts["total"], counts["progressing"], counts["retained"]) == (1, 1, 1)
    assert deployed.get("old")
    deployed.change(prune="Never")
    deployed.wait_for("Installed", saying=f"ConfigMap {deployed.namespace}/old")
    deployed.wait_for("Reconciling", "True", "Progressing")
    deployed.change(prune="AfterApply")
    deployed.wait(lambda: deployed.get("old") is None, "pruned")
