"""`rukpak install-controller`: RukPak is installed and upgraded from the package, and what happens is shown before."""

from __future__ import annotations

import json

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from tests.support.controller import Rukpak, command
from tests.support.installations import NAMESPACE, container_of

pytestmark = [pytest.mark.own_cluster, pytest.mark.long]
IMAGE = ("--image", "registry.example.com/rukpak:v1")
DEFINITION = "customresourcedefinition.apiextensions.k8s.io/bundledeployments.core.rukpak.io"
INSTALLER = "clusterrolebinding.rbac.authorization.k8s.io/rukpak-installer"


@pytest.fixture
def rukpak(fresh_kwok_cluster: ControlPlane) -> Rukpak:
    return command(fresh_kwok_cluster.kubeconfig)


PROXY = "http://robot:canary@proxy.example:3128"


def test_it_installs_upgrades_restricts_and_is_uninstalled(fresh_kwok_cluster: ControlPlane, rukpak: Rukpak) -> None:
    kubectl = fresh_kwok_cluster.kubectl
    install = ("install-controller", *IMAGE)
    assert "pass --yes" in rukpak(*install, status=2).stderr
    planned = rukpak(*install, "--dry-run").stdout.splitlines()
    assert f"{DEFINITION} created (server dry run)" in planned
    assert not kubectl("get", "namespace", NAMESPACE, "--ignore-not-found")
    # Whoever may not create all of it is told before anything is created.
    kubectl("create", "clusterrole", "viewer", "--verb=get", "--resource=*.*")
    kubectl("create", "clusterrolebinding", "viewer", "--clusterrole=viewer", "--user=viewer")
    refused = rukpak(*install, "--yes", "--as=viewer", status=1)
    assert 'namespaces "rukpak-system" is forbidden' in refused.stderr
    assert not refused.stdout

    done = rukpak(*install, "--yes", "--wait", "--timeout=2m")
    assert [f"{line} (server dry run)" for line in done.stdout.splitlines()] == planned
    assert container_of(fresh_kwok_cluster)["image"] == IMAGE[1]
    assert kubectl("get", "bundledeployments") == ""
    assert f'failed: controller: Lease "{NAMESPACE}/rukpak": no controller holds it' in done.stderr, "there is no pod"
    assert "permissions" not in done.stderr, "they are complete"

    upgraded = rukpak("install-controller", "--image=registry.example.com/rukpak:v2", "--yes").stdout.splitlines()
    assert [line for line in upgraded if not line.endswith(" unchanged")] == ["deployment.apps/rukpak configured"]

    proxied = (*install[:1], "--image=registry.example.com/rukpak:v2", f"--https-proxy={PROXY}")
    done = rukpak(*proxied, "--yes")
    assert [line for line in done.stdout.splitlines() if not line.endswith(" unchanged")] == [
        "secret/rukpak-proxy created"
    ]
    assert "rollout restart deployment/rukpak" in done.stderr
    again = rukpak(*proxied)  # nothing to ask for
    assert {line.rpartition(" ")[2] for line in again.stdout.splitlines()} == {"unchanged"}
    assert "sources over https are read through proxy.example:3128" in rukpak("check", status=1).stdout

    restricted = rukpak(*install, "--restricted", "--yes").stdout.splitlines()
    assert f"{INSTALLER} deleted" in restricted
    assert "--require-service-account" in container_of(fresh_kwok_cluster)["args"]

    assert "pass --restricted" in rukpak(*install, "--yes", status=1).stderr
    add_field(fresh_kwok_cluster)
    refused = rukpak(*install, "--restricted", "--yes", status=1)
    assert "has spec.newer, which this release does not know" in refused.stderr
    assert not refused.stdout

    removed = rukpak("uninstall", "--yes").stdout.splitlines()
    gone = {f"{line.rpartition(' ')[0]} deleted" for line in restricted if not line.endswith(" deleted")}
    assert gone <= set(removed)


def add_field(cluster: ControlPlane) -> None:
    """Make the API one of a newer release."""
    field = {"type": "string", "description": "Of a newer release."}
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/newer"
    change = json.dumps([{"op": "add", "path": path, "value": field}])
    cluster.kubectl("patch", DEFINITION, "--type=json", "--patch", change)
