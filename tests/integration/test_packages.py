"""What is generated to install RukPak: config/install.yaml by kubectl, and the chart by the real Helm."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hack.packaging.manifests import Manifest, render
from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane, KubectlError
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, World, config_map, image
from tests.support.installations import CONFIG, NAMESPACE, container_of, kustomize, run_installed
from tests.support.other_programs import CHART, helm
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
LABEL = "app.kubernetes.io/name=rukpak"
DEFINITION = "crd/bundledeployments.core.rukpak.io"
FOLDERS = ["crd", "manager", "rbac", "policy", "policy/strict", "prometheus", "default", "restricted"]


def by_key(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(each["kind"], each["metadata"]["name"]): each for each in manifests}


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_are_rendered_as_kustomize_does(fresh_kwok_cluster: ControlPlane, folder: str) -> None:
    assert by_key(render(CONFIG / folder)) == by_key(kustomize(fresh_kwok_cluster, folder))


def test_the_component_for_plug_ins_replaces_the_image_alone(fresh_kwok_cluster: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{os.path.relpath(CONFIG / 'default', tmp_path)}]\n"
        f"components: [{os.path.relpath(CONFIG / 'plugins', tmp_path)}]\n",
        encoding="utf-8",
    )
    expected, found = (
        by_key(kustomize(fresh_kwok_cluster, "default")),
        by_key(kustomize(fresh_kwok_cluster, str(tmp_path))),
    )
    expected["Deployment", "rukpak"]["spec"]["template"]["spec"]["containers"][0]["image"] = (
        "registry.example.com/rukpak-with-plugins:0.1.0"
    )
    assert found == expected


def test_one_file_installs_everything(
    fresh_kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> None:
    kubectl, file = fresh_kwok_cluster.kubectl, str(ROOT / "config/install.yaml")
    created = kubectl("apply", "-f", file).splitlines()
    expected = kustomize(fresh_kwok_cluster, "default")
    assert [line.rpartition(" ")[2] for line in created] == ["created"] * len(expected)
    with run_installed(fresh_kwok_cluster, registry, settings.running) as world:
        install_something(world)
    assert "created" not in kubectl("apply", "-f", file)
    kubectl("delete", "-f", file)


def install_something(world: World, **spec: str) -> None:
    deployed = world.deploy(config_map("settings"), **spec)
    deployed.wait_ready()
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    deployed.delete()
    deployed.wait_gone()


@pytest.mark.thorough
def test_the_chart_installs_upgrades_and_keeps_the_api(
    fresh_kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> None:
    kubectl, kubeconfig = fresh_kwok_cluster.kubectl, fresh_kwok_cluster.kubeconfig
    release = ("rukpak", str(CHART), "--namespace=bundles", "--wait", "--timeout=2m")
    told = helm("install", *release, "--create-namespace", kubeconfig=kubeconfig)
    assert "RukPak 0.1.0 is installed in the namespace bundles" in told
    with run_installed(fresh_kwok_cluster, registry, settings.running, namespace="bundles") as world:
        install_something(world)

    helm("upgrade", *release, "--set=restricted=true,strictPolicies=true,replicas=1", kubeconfig=kubeconfig)
    assert "--require-service-account" in container_of(fresh_kwok_cluster, "bundles")["args"]
    kubectl("create", "namespace", "tenant")
    kubectl("apply", "-f", "-", input=tenant_of("bundles", kubectl("kustomize", str(CONFIG / "restricted/tenant"))))
    # The registry speaks plain http, and nobody has signed what it has.
    kubectl("delete", "validatingadmissionpolicybinding", "rukpak-strict-sources", "rukpak-strict-verification")
    wait_for(lambda: not is_denied(fresh_kwok_cluster), 60.0, "the API server knows that the bindings are gone")
    with run_installed(fresh_kwok_cluster, registry, settings.running, namespace="bundles") as world:
        install_something(world, name="tenant", serviceAccountName="installer")

    helm("uninstall", "rukpak", "--namespace=bundles", kubeconfig=kubeconfig)
    kinds = "deployments,services,networkpolicies,clusterroles,clusterrolebindings,validatingadmissionpolicies"

    def left() -> str:
        return kubectl("get", kinds, "--namespace=bundles", f"--selector={LABEL}", "--output=name")

    wait_for(lambda: not left(), 60.0, left)
    assert kubectl("get", DEFINITION, "--output=name")
    kubectl("delete", DEFINITION)


def is_denied(cluster: ControlPlane) -> bool:
    """Whether the API server still refuses the source: it learns of a deleted binding up to a second later."""
    sources = [image("registry.example.com/shop:v1")]
    spec = {"format": "plain", "installNamespace": "tenant", "serviceAccountName": "installer", "sources": sources}
    probe = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": "tenant"}, "spec": spec}
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(probe))
    except KubectlError as error:
        if "with binding 'rukpak-strict-" not in error.stderr:
            raise
        return True
    return False


def tenant_of(namespace: str, manifests: str) -> str:
    """Return the objects of a tenant for a controller in another namespace than usual."""
    return manifests.replace(f"namespace: {NAMESPACE}", f"namespace: {namespace}")
