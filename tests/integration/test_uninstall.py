"""RukPak taken off a cluster from the desk, with or without a controller beside it: what goes, and what stays."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rukpak.api.v1alpha2.schema import crd
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import DEPLOYMENTS, Manifest, World, config_map, exists, new_name, new_world
from tests.support.controller import command
from tests.support.objects import cluster_definition, custom, read, secret
from tests.support.registry import LocalRegistry

pytestmark = pytest.mark.own_cluster


@pytest.fixture
def alone(fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A world on a cluster of its own, whose definition may go."""
    fresh_cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(crd()))
    with new_world(fresh_cluster, registry, settings.running, is_shared=False) as world:
        yield world
        world.deployed.clear()


def bundle(group: str) -> list[Manifest]:
    """Return a bundle that brings a kind and an object of it."""
    return [config_map("a"), secret("s", key="value"), cluster_definition(group, "Foo"), custom(group, "Foo", "foo")]


@pytest.mark.repeats
@pytest.mark.parametrize("runs", [True, False], ids=["while the controller runs", "after the controller has gone"])
@pytest.mark.parametrize("keep", [True, False], ids=["what is installed stays", "what is installed goes"])
def test_uninstall(alone: World, keep: bool, runs: bool) -> None:
    rukpak = command(alone.cluster.kubeconfig)
    group = f"{new_name()}.example.com"
    deployed = alone.deploy(*bundle(group))
    deployed.wait_ready()
    made = f"namespace/{(other := new_name())}"
    reference = alone.push(other, config_map("b"))
    rukpak("install", other, "--image", reference, "-n", other, "--insecure-skip-tls-verify", "--yes", "--wait")
    if not keep:
        listed = " ".join(rukpak("uninstall", "--delete", "--dry-run").stderr.split())
        assert (
            made in listed.partition("made by RukPak, and deleted only with --namespaces, with everything in them: ")[2]
        )
    if not runs:
        alone.controller.stop()
    words = ["--keep"] if keep else ["--delete", "--namespaces"]
    done = rukpak("uninstall", *words, "--timeout=80s", "--yes")
    assert (f"{made} deleted" in done.stdout) is not keep
    assert done.stderr.startswith("Uninstalling RukPak from context ")
    assert (
        f"bundledeployment.core.rukpak.io/{deployed.name} (4 objects are {'kept' if keep else 'deleted'}" in done.stderr
    )
    stays = " ".join(done.stderr.partition("This stays:")[2].split())
    kept = stays.partition("kept, without an owner: ")[2]
    assert (f"ConfigMap {deployed.name}/a" in kept) is (f"ConfigMap {other}/b" in kept) is keep
    assert f"CustomResourceDefinition foos.{group}" in stays
    assert (f"Secret {deployed.name}/s" in stays) is keep
    assert ("a controller outside of this cluster is active" in done.stderr) is runs
    assert f"bundledeployment.core.rukpak.io/{deployed.name} deleted" in done.stdout
    assert "customresourcedefinition.apiextensions.k8s.io/bundledeployments.core.rukpak.io deleted" in done.stdout
    if runs:
        alone.controller.stop()  # not killed: the next one would wait for its Lease
    assert not exists(alone.client, DEPLOYMENTS)
    instance = f"/apis/{group}/v1/foos/foo"
    assert (read(alone.client, instance) is not None) is keep
    left = deployed.get("a")
    assert (left is not None) is keep
    if left:
        assert left["metadata"]["annotations"] == {"core.rukpak.io/released-from": deployed.name}
        assert not {"labels", "ownerReferences"} & left["metadata"].keys()


@pytest.mark.thorough
def test_uninstall_where_nothing_is_installed_says_what_is_missing(alone: World) -> None:
    rukpak = command(alone.cluster.kubeconfig)
    alone.controller.kill()
    unasked = rukpak("uninstall", status=2)
    assert unasked.stderr.endswith("rukpak uninstall: no terminal to ask for confirmation; pass --yes\n")
    planned = rukpak("uninstall", "--dry-run")
    assert planned.stdout.splitlines()[0].endswith(" deleted (dry run)")
    assert "deleted" not in planned.stderr, "each thing is listed once"
    assert read(alone.client, DEPLOYMENTS) is not None
    rukpak("uninstall", "--yes")
    again = rukpak("uninstall")
    assert (again.stdout, again.stderr.startswith("RukPak is not installed on context ")) == ("", True)
    assert "the cluster does not serve BundleDeployments" in rukpak("status", status=1).stderr
