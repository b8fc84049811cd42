"""Health that depends on more than the object: StorageClasses, schemas, conversion, API servers, namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.bundles import Deployed, Manifest, World, config_map, definition, exists, new_name
from tests.support.inside import Client
from tests.support.objects import NOBODY, claim, custom, make, namespace, remove

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
def group(world: World) -> Iterator[str]:
    """An API group whose kind Cache is deleted again."""
    name = f"{new_name()}.example.com"
    yield name
    remove(world.client, f"{CRDS}/caches.{name}")


def caches(group: str, *, stored: str = "v1", announces: bool = False) -> Manifest:
    """Return the definition of Cache at v1 and v2, which are alike."""
    value = definition(group, "Cache")
    properties = {"status": {**STATUS, "properties": {"conditions": {"type": "array", "items": STATUS}}}}
    schema = {**STATUS, "properties": properties if announces else {}}
    versions = [
        {"name": name, "served": True, "storage": name == stored, "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    return {**value, "spec": {**value["spec"], "versions": versions}}


def define(world: World, value: Manifest) -> None:
    """Apply a definition as another client, and wait until it is served."""
    path = f"{CRDS}/{value['metadata']['name']}"
    world.client.apply(path, value, manager="somebody", force=True)
    resource = f"/apis/{value['spec']['group']}/v2/caches"

    def served() -> bool:
        conditions = world.client.get(path).value.get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    world.wait(served, f"{resource} served")


def say(client: Client, path: str, **condition: str) -> None:
    """Write a condition into an object, as its operator does."""
    client.merge_patch(path, {"status": {"conditions": [condition]}}, manager="operator")


def not_ready(deployed: Deployed) -> dict[str, str]:
    return {each["name"]: each["reason"] for each in deployed.status().get("notReady", ())}


def wait_not_ready(deployed: Deployed, **expect: str) -> None:
    try:
        deployed.wait(lambda: not_ready(deployed) == expect, str(expect))
    except TimeoutError:
        assert deployed.status().get("notReady") == expect
        raise


# claims


def claim_of(name: str, storage_class: str) -> Manifest:
    value = claim(name)
    return {**value, "spec": {**value["spec"], "storageClassName": storage_class}}


def test_a_claim_is_healthy_where_its_class_waits_for_a_pod_and_follows_its_class(world: World) -> None:
    late, prompt, missing = (f"{kind}-{new_name()}" for kind in ("late", "prompt", "missing"))
    for name, mode in ((late, "WaitForFirstConsumer"), (prompt, "Immediate")):
        body = make("storage.k8s.io/v1", "StorageClass", name, provisioner="example.com/no", volumeBindingMode=mode)
        world.client.create(CLASSES, body)
    bundle = [claim_of("late", late), claim_of("prompt", prompt), claim_of("lost", missing)]
    deployed = world.deploy(config_map("a"), *bundle)
    wait_not_ready(deployed, prompt="NotBound", lost="StorageClassNotFound")

    world.client.delete(f"{CLASSES}/{late}")

    wait_not_ready(deployed, prompt="NotBound", lost="StorageClassNotFound", late="StorageClassNotFound")
    world.restart()
    deployed.wait_for("Healthy", "False", "Progressing")
    world.client.delete(f"{CLASSES}/{prompt}")


# custom resources


def test_a_custom_resource_that_says_nothing_is_doubted_where_its_schema_announces_more(
    world: World, group: str
) -> None:
    define(world, caches(group, announces=True))
    deployed = world.deploy(custom(group, "Cache", "one"))
    wait_not_ready(deployed, one="StatusNotReported")
    assert "spec.healthChecks" in deployed.status()["notReady"][0]["message"]

    say(world.client, deployed.path_of("one", "caches", f"/apis/{group}/v1"), type="Ready", status="True")

    deployed.wait_ready()


@pytest.fixture
def convert(world: World, group: str) -> Iterator[Callable[[bool], None]]:
    """Have all conversion of Cache done by a webhook that nobody answers for, or by nobody as it was."""
    path = f"{CRDS}/caches.{group}"
    review = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": f"{NOBODY}convert"}}

    def by_webhook(is_so: bool) -> None:
        conversion = {"strategy": "Webhook" if is_so else "None", "webhook": review if is_so else None}
        world.client.merge_patch(path, {"spec": {"conversion": conversion}}, manager="somebody")

    yield by_webhook
    by_webhook(False)


def test_a_conversion_webhook_that_is_down_blinds_nobody(
    world: World, group: str, convert: Callable[[bool], None]
) -> None:
    define(world, caches(group))
    deployed = world.deploy({**custom(group, "Cache", "one"), "apiVersion": f"{group}/v2"})
    deployed.wait_ready()
    path = deployed.path_of("one", "caches", f"/apis/{group}/v1")
    convert(True)
    world.restart()

    # Whoever writes an object that cannot be converted makes the server drop all managedFields: it has to be compared.
    say(world.client, path, type="Ready", status="False", reason="Cold")

    wait_not_ready(deployed, one="Cold")
    convert(False)
    say(world.client, path, type="Ready", status="True")
    deployed.wait_ready()


def test_a_conversion_webhook_that_is_down_holds_up_neither_prune_nor_deletion(
    world: World, group: str, convert: Callable[[bool], None]
) -> None:
    define(world, caches(group, announces=False))  # stored at v1; v2 is the one that is preferred
    deployed = world.deploy(custom(group, "Cache", "one"), custom(group, "Cache", "two"), config_map("a"))
    deployed.wait_ready()
    convert(True)
    world.push(deployed.name, custom(group, "Cache", "two"), config_map("a"))
    deployed.request_reconcile("now")

    # Read as it is stored, too: at any other version it would be a 500.
    one, two = (deployed.path_of(name, "caches", f"/apis/{group}/v1") for name in ("one", "two"))
    deployed.wait(lambda: not exists(world.client, one), "pruned")
    deployed.wait_ready()
    assert exists(world.client, two)
    deployed.delete()
    deployed.wait(lambda: not exists(world.client, two), "gone")
    deployed.wait_gone()


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_another_storage_version_is_followed(world: World, group: str) -> None:
    define(world, caches(group))
    deployed = world.deploy(custom(group, "Cache", "one"))
    deployed.wait_ready()
    position = world.position()

    define(world, caches(group, stored="v2"))

    world.wait(lambda: f"/apis/{group}/v2/caches" in world.watched(position), "watched at v2")
    say(
        world.client,
        deployed.path_of("one", "caches", f"/apis/{group}/v2"),
        type="Ready",
        status="False",
        reason="Cold",
    )
    wait_not_ready(deployed, one="Cold")


# API servers and namespaces


def test_an_api_service_that_nobody_answers_for_is_the_cause(world: World) -> None:
    absent = f"{new_name()}.example.com"
    spec = {
        "group": absent,
        "version": "v1",
        "service": {"namespace": "default", "name": "absent"},
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
    }
    deployed = world.deploy(config_map("a"), make("apiregistration.k8s.io/v1", "APIService", f"v1.{absent}", spec=spec))

    wait_not_ready(deployed, **{f"v1.{absent}": "ServiceNotFound"})

    deployed.delete()
    deployed.wait_gone()


@pytest.mark.thorough
def test_a_namespace_that_does_not_go_says_what_holds_it(world: World) -> None:
    held = new_name()
    deployed = world.deploy(config_map("a"), namespace(held))
    deployed.wait_ready()
    body = config_map("holds")
    body["metadata"]["finalizers"] = ["example.com/held"]
    world.client.create(f"/api/v1/namespaces/{held}/configmaps", body)

    world.client.delete(f"/api/v1/namespaces/{held}")

    def told() -> str:
        return str(deployed.conditions()["Healthy"]["message"])

    world.wait(lambda: "NamespaceFinalizersRemaining" in told(), f"the namespace explains itself: {told()}", 60.0)
    assert "example.com/held" in told()
    remove(world.client, f"/api/v1/namespaces/{held}/configmaps/holds")
    deployed.wait_ready()
