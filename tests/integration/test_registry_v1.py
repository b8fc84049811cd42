"""The format registry-v1 on a cluster: an operator's bundle from an image is installed and becomes Ready."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, World, exists, new_world
from tests.support.registry import Files, LocalRegistry

BUNDLE = ROOT / "tests" / "data" / "registry-v1" / "watching-operator" / "bundle"
CLUSTER_ROLE = "hello-operator.v1.-2h9z9os3gtc8rmfc9a5xpriqcpubjw4w0c8r3np8yw9l"
ROLE = "hello-operator.v1.2-849bb900bs145gty3isqktxy5vdasqhkxkvq3nplpcb"
CORPUS = sorted(Path(os.environ["RUKPAK_CORPUS"]).glob("registry-v1/*")) if os.environ.get("RUKPAK_CORPUS") else []
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def world(kwok_cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A world whose pods become Ready."""
    with new_world(kwok_cluster, registry, settings.running) as world:
        yield world


@pytest.fixture(autouse=True)
def alone(world: World) -> Iterator[None]:
    """Two installations of one operator would fight over what is cluster-scoped."""
    yield
    world.clean_up()
    world.deployed.clear()


def files(bundle: Path = BUNDLE) -> Files:
    return {str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*.yaml")}


def test_an_operator_is_installed_and_becomes_ready(world: World) -> None:
    name = "hello"
    deployed = world.deploy(
        files(),
        name=name,
        format="registry-v1",
        config={"certificateProvider": "none", "watchNamespace": name},
    )

    status = deployed.wait_ready()

    assert status["objects"]["total"] == 11
    path = deployed.path_of("hello-operator-controller", "deployments", "/apis/apps/v1")
    operator = world.client.get(path).value
    annotations = operator["spec"]["template"]["metadata"]["annotations"]
    assert annotations["olm.targetNamespaces"] == annotations["olm.operatorNamespace"] == name
    assert exists(world.client, f"{RBAC}/namespaces/{name}/roles/{ROLE}")
    assert exists(world.client, f"{RBAC}/clusterroles/{CLUSTER_ROLE}")


def test_the_bundle_suggests_its_namespace_and_says_what_it_does_not_accept(world: World) -> None:
    deployed = world.deploy(files(), format="registry-v1", installNamespace=None, config={"foo": 1})

    deployed.wait_for("Installed", "False", "NotSupported", saying="spec.config.certificateProvider: the webhooks")
    deployed.change(config={"certificateProvider": "none"})
    deployed.wait_for("Installed", "False", "InvalidConfig", saying='unknown field "foo"')
    deployed.change(config={"foo": None})
    status = deployed.wait_ready()

    assert status["installNamespace"] == "hello-operator-system"


def test_a_bundle_that_is_applied_as_plain_manifests_is_told_its_format(world: World) -> None:
    deployed = world.deploy(files())

    deployed.wait_for("Installed", "False", "NoContent", saying='set spec.format to "registry-v1"')


@pytest.mark.parametrize("bundle", CORPUS, ids=lambda bundle: bundle.name)
def test_a_real_operator_becomes_ready(world: World, bundle: Path) -> None:
    deployed = world.deploy(files(bundle), format="registry-v1", config={"certificateProvider": "none"})

    # The API server may wait for webhooks that never answer before it lets a pod in.
    def is_ready() -> bool:
        return deployed.conditions().get("Ready", {}).get("status") == "True"

    world.wait(is_ready, f"{bundle.name} Ready", seconds=90)
    deployed.delete()
    world.wait(lambda: not exists(world.client, deployed.path), f"{bundle.name} gone", seconds=90)


def test_a_ca_that_was_brought_for_a_webhook_is_kept(world: World) -> None:
    deployed = world.deploy(files(), format="registry-v1", config={"certificateProvider": "none"})
    deployed.wait_ready()
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    selector = f"core.rukpak.io/bundle-deployment={deployed.name}"
    name = next(world.client.list(hooks, label_selector=selector))["metadata"]["name"]
    authority = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    change = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": authority}]
    world.cluster.kubectl("patch", "validatingwebhookconfiguration", name, "--type=json", "-p", json.dumps(change))
    # A pass after the patch would have reverted it: this one changes the same object.
    deployed.change(config={"deploymentConfig": {"env": [{"name": "A", "value": "b"}]}})
    deployed.wait_ready()
    found = world.client.get(f"{hooks}/{name}").value["webhooks"][0]["clientConfig"]
    assert found["caBundle"] == authority
    assert "Drifted" not in deployed.conditions()
