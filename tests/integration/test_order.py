"""In which order a bundle is applied, what waits for what, and that waits end automatically."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import Deployed, Manifest, World, config_map, definition, exists, new_name
from tests.support.objects import (
    NOBODY,
    claim,
    cluster_definition,
    custom,
    deployment,
    labelled,
    make,
    namespace,
    read,
    service,
    webhook,
)
from tests.support.registry import LocalRegistry

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPS = "/apis/apps/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

NAMESPACE_SECONDS = 90.0
"""The namespace controller tries again with growing pauses while its discovery is behind a definition that has gone."""


def applies(world: World, deployed: Deployed, position: int) -> list[str]:
    """Return the names of the objects that were applied since then, in the order of the requests."""
    manager = f"fieldManager=rukpak%2F{deployed.name}"
    asked = [request for request in world.requests(position) if request.startswith("patch ") and manager in request]
    return [request.partition("?")[0].rpartition("/")[2] for request in asked]


# Stages


def test_a_bundle_is_applied_in_stages_whatever_the_order_of_its_files(world: World) -> None:
    group, brought, hook = f"{new_name()}.example.com", new_name(), new_name()
    account = make("v1", "ServiceAccount", "account")
    foo = definition(group, "Foo")
    instance = custom(group, "Foo", "foo", spec={"a": 1})
    last = [account, foo, namespace(brought)]
    backwards = [webhook(hook), instance, deployment("web"), service("web"), config_map("a"), *last]
    position = world.position()
    deployed = world.deploy(*backwards)
    deployed.wait_ready()
    assert read(world.client, deployed.path_of("foo", "foos", f"/apis/{group}/v1"))
    stages = [
        {deployed.namespace, brought},
        {f"foos.{group}"},
        {"account"},
        {"a", "web"},
        {hook},
    ]
    order = applies(world, deployed, position)
    assert order.index(f"foos.{group}") < order.index("foo")
    order.remove("foo")
    ranks = [next(rank for rank, stage in enumerate(stages) if name in stage) for name in order]
    assert ranks == sorted(ranks)
    assert len(order) == 8
    assert order.count(f"foos.{group}") == order.count("a") == 1
    assert order.index("a") < len(order) - 1 - order[::-1].index("web")
    deployed.delete()
    world.wait(lambda: not exists(world.client, deployed.path), "gone", seconds=NAMESPACE_SECONDS)


def test_a_class_waits_for_its_definition_in_the_same_bundle(world: World) -> None:
    """GatewayClass is of the first stage as its CustomResourceDefinition is."""
    group = "gateway.networking.k8s.io"
    approved = {"annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}}
    kind = cluster_definition(group, "GatewayClass")
    named = {**kind["spec"]["names"], "plural": "gatewayclasses"}
    defined = {**kind, "metadata": {"name": f"gatewayclasses.{group}"}, "spec": {**kind["spec"], "names": named}}
    name = new_name()
    deployed = world.deploy(custom(group, "GatewayClass", name), labelled(defined, **approved), config_map("a"))
    deployed.wait_ready()
    assert exists(world.client, f"/apis/{group}/v1/gatewayclasses/{name}")


# What appears later


def test_an_object_of_a_kind_that_is_not_served_is_applied_when_it_is(world: World) -> None:
    group = f"{new_name()}.example.com"
    deployed = world.deploy(custom(group, "Foo", "foo"), config_map("a"))
    message = deployed.wait_for("Installed", "False", "KindNotServed")["message"]
    assert message.startswith("Foo ")
    assert f"{group}/v1/Foo" in message
    assert deployed.data("a")

    world.client.create(CRDS, definition(group, "Foo"))

    deployed.wait_ready()
    assert read(world.client, deployed.path_of("foo", "foos", f"/apis/{group}/v1"))
    deployed.delete()
    deployed.wait_gone()
    world.client.delete(f"{CRDS}/foos.{group}")


def test_an_object_of_a_namespace_that_is_missing_is_applied_when_it_is_there(world: World) -> None:
    elsewhere = new_name()
    there = labelled(config_map("there"), namespace=elsewhere)
    deployed = world.deploy(there, config_map("a"))
    message = deployed.wait_for("Installed", "False", "NamespaceNotFound")["message"]
    assert f'namespace "{elsewhere}" does not exist' in message
    assert deployed.data("a")

    world.client.create("/api/v1/namespaces", namespace(elsewhere))

    deployed.wait_ready()
    assert read(world.client, f"/api/v1/namespaces/{elsewhere}/configmaps/there")


def test_content_of_a_namespace_that_is_terminating_waits_until_it_is_gone_and_made_again(world: World) -> None:
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    held = labelled(config_map("held"), finalizers=["example.com/held"])
    path = f"/api/v1/namespaces/{name}/configmaps"
    world.client.create(path, held)
    world.client.delete(f"/api/v1/namespaces/{name}")
    deployed = world.deploy(config_map("a"), config_map("b"), name=name)
    deployed.wait_for("Installed", "False", "NamespaceTerminating")
    assert deployed.get("a") is None

    world.client.merge_patch(f"{path}/held", {"metadata": {"finalizers": None}})

    deployed.wait_ready()
    assert deployed.get("a")


# Webhooks


@pytest.fixture
def unanswered(world: World) -> Iterator[tuple[str, str]]:
    """An admission webhook that nobody answers for, asked about the ConfigMaps of one namespace: its name, and that."""
    name = new_name()
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    configured = webhook(name)
    hook = {
        **configured["webhooks"][0],
        "rules": rules,
        "clientConfig": {"url": NOBODY},
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
    }
    world.client.create(ADMISSION, {**configured, "webhooks": [hook]})
    yield f"{ADMISSION}/{name}", name
    if exists(world.client, f"{ADMISSION}/{name}"):
        world.client.delete(f"{ADMISSION}/{name}")


def is_asked(world: World, name: str) -> bool:
    """Whether the API server has taken notice of the webhook."""
    path = f"/api/v1/namespaces/{name}/configmaps/probe"
    body = labelled(config_map("probe"), namespace=name)
    try:
        world.client.apply(path, body, manager="probe", force=False, dry_run=True)
    except Exception as error:  # noqa: BLE001 - any refusal will do
        return "webhook" in str(getattr(error, "message", ""))
    return False


def test_a_webhook_that_is_not_up_holds_up_what_it_is_asked_about_and_nothing_else(
    world: World, unanswered: tuple[str, str]
) -> None:
    path, name = unanswered
    world.client.create("/api/v1/namespaces", namespace(name))
    world.wait(lambda: is_asked(world, name), "the webhook is asked")
    deployed = world.deploy(config_map("a"), deployment("web"), name=name)
    message = deployed.wait_for("Installed", "False", "WebhookUnavailable")["message"]
    assert message.startswith(f"ConfigMap {name}/a: ")
    assert read(world.client, deployed.path_of("web", "deployments", APPS))

    world.client.delete(path)

    deployed.wait_ready()


# A failure


def test_a_failure_holds_up_only_what_needs_it(world: World) -> None:
    group, hook = f"{new_name()}.example.com", new_name()
    broken = definition(group, "Foo")
    broken["spec"]["names"]["plural"] = "Not A Plural"
    bundle = [config_map("a"), deployment("web"), broken, custom(group, "Foo", "foo"), webhook(hook)]
    deployed = world.deploy(*bundle)
    message = deployed.wait_for("Installed", "False", "Refused")["message"]
    assert "CustomResourceDefinition" in message
    assert deployed.data("a")
    assert read(world.client, deployed.path_of("web", "deployments", APPS))
    assert not exists(world.client, f"{ADMISSION}/{hook}")

    world.push(deployed.name, config_map("a"), deployment("web"), webhook(hook))
    deployed.request_reconcile("repaired")

    deployed.wait(lambda: exists(world.client, f"{ADMISSION}/{hook}"), "the last stage")
    deployed.wait_ready()


@pytest.mark.parametrize("name", ["..", "a%2fb", "a/b"])
def test_an_object_whose_name_is_no_path_segment_is_refused_and_the_others_are_applied(world: World, name: str) -> None:
    deployed = world.deploy(make("rbac.authorization.k8s.io/v1", "Role", name, rules=[]), config_map("a"))
    finding = deployed.wait_for("Installed", "False", saying=name)
    assert finding["reason"] in ("Refused", "InvalidBundle")
    assert (deployed.data("a") is not None) is (finding["reason"] == "Refused")


def test_all_rights_that_are_missing_are_listed_at_once(
    world: World, settings: Settings, registry: LocalRegistry, tmp_path: Path
) -> None:
    """A controller that may read everything, and write its own state only."""
    kubeconfig = _limited(world, tmp_path)
    world.controller.stop()
    limited = Cluster(kubeconfig=kubeconfig, kubectl=world.cluster._kubectl, cache=tmp_path)
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    from tests.support.controller import Controller  # noqa: PLC0415

    controller = Controller(tmp_path, limited.kubeconfig, environment={})
    controller.start()
    try:
        ref = world.push(name, config_map("a"), service("web"), claim("data"), deployment("web"))
        world.apply(name, sources=[{"kind": "image", "image": {"ref": ref}}], installNamespace=name)
        deployed = Deployed(client=world.client, name=name, ref=ref, wait=lambda *_: None)
        # Longer than a Lease lasts: on a busy machine, the controller before this one may not get to release its own.
        controller.wait_for(
            lambda: deployed.conditions().get("Installed", {}).get("reason") == "Forbidden", 60, "Forbidden"
        )
        message = deployed.conditions()["Installed"]["message"]
        controller.stop()
    finally:
        controller.kill()
        world.controller.start()
        deployed.delete()
        world.wait(lambda: not exists(world.client, deployed.path), "it goes")
    assert f'grant it a Role in namespace "{name}" with rules: ' in message
    for resource in ("configmaps", "services", "persistentvolumeclaims", "deployments"):
        assert resource in message
    assert "system:serviceaccount:default:limited" in message


def _limited(world: World, folder: Path) -> Path:
    """Make an account that may read everything and write only what the controller keeps, and a kubeconfig for it."""
    kubectl = world.cluster.kubectl
    kubectl("create", "serviceaccount", "limited", "--namespace=default")
    rules: list[Manifest] = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["core.rukpak.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        {"apiGroups": ["events.k8s.io", ""], "resources": ["events"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "patch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    ]
    role = make("rbac.authorization.k8s.io/v1", "ClusterRole", "limited", rules=rules)
    world.client.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    kubectl("create", "clusterrolebinding", "limited", "--clusterrole=limited", "--serviceaccount=default:limited")
    token = kubectl("create", "token", "limited", "--namespace=default").strip()
    where = "--output=jsonpath={.clusters[0].cluster.certificate-authority-data}"
    authority = kubectl("config", "view", "--raw", "--flatten", "--minify", where)
    path = folder / "kubeconfig"
    (folder / "ca.crt").write_bytes(base64.b64decode(authority))
    config = [f"--kubeconfig={path}", "config"]
    kubectl(*config, "set-cluster", "c", f"--server={world.cluster.server}", f"--certificate-authority={folder}/ca.crt")
    kubectl(*config, "set-credentials", "limited", f"--token={token}")
    kubectl(*config, "set-context", "c", "--cluster=c", "--user=limited")
    kubectl(*config, "use-context", "c")
    return path
