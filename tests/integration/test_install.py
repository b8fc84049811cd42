"""`rukpak install`: what is shown is what is created, and nothing is before the question."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.bundles import DEPLOYMENTS, Deployed, World, config_map, exists, new_name
from tests.support.controller import Rukpak, command

ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "reader"},
    "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [{"kind": "ServiceAccount", "name": "app"}],
}


@pytest.fixture
def rukpak(world: World) -> Rukpak:
    return command(world.cluster.kubeconfig)


def deployed(world: World, name: str, reference: str) -> Deployed:
    return Deployed(client=world.client, name=name, ref=reference, wait=world.wait)


def test_it_shows_what_it_installs(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    reference = world.push(name, config_map("a", color="blue"), ROLE, BINDING)
    done = rukpak("install", name, "--image", reference, "-n", name, "--yes", "--wait")
    assert done.stdout == f"bundledeployment.core.rukpak.io/{name} created\n"
    said = " ".join(done.stderr.split())
    revision = said.partition("revision ")[2].partition(" ")[0]
    assert "compared with the cluster: 4 to create" in said
    assert f"{name}/app: list secrets" in said
    assert deployed(world, name, reference).status()["installedRevision"] == revision

    again = rukpak("install", name, "--image", reference, "--yes", status=1)
    assert again.stderr.startswith(f'rukpak install: BundleDeployment "{name}" already exists')


def test_nothing_is_created_without_an_answer_or_by_a_dry_run(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    words = ["install", name, "--image", world.push(name, config_map("a")), "-n", name]
    assert "pass --yes" in rukpak(*words, status=2).stderr
    printed = yaml.safe_load(rukpak(*words, "--dry-run", "-o", "yaml", "--format", "plain").stdout)  # noqa: TID251
    assert printed["metadata"] == {"name": name}
    assert printed["spec"] == {
        "format": "plain",
        "installNamespace": name,
        "sources": [{"kind": "image", "image": {"ref": words[3]}}],
    }
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")
    world.cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(printed))


def test_with_approvals_exactly_what_was_shown_is_approved(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    reference = world.push(name, config_map("a", color="blue"), tag="latest")
    rukpak("install", name, "--image", reference, "-n", name, "--approval=Manual", "--yes", "--wait")
    found = deployed(world, name, reference)
    assert found.read()["spec"]["approvedRevision"] == found.status()["installedRevision"]
    world.push(name, config_map("a", color="red"), tag="latest")
    found.request_reconcile("now")
    found.wait_for("Installed", "False", "AwaitingApproval")
    assert found.data("a") == {"color": "blue"}


def test_what_cannot_be_rendered_is_not_created(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    missing = world.push(name, config_map("a")).replace(name, f"{name}-missing")
    assert "spec.sources[0]" in rukpak("install", name, "--image", missing, "-n", name, "--yes", status=1).stderr
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")
