"""`serviceAccountName`: what it may not do is not done, and nothing is done for it by the controller's own rights."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import Deployed, Manifest, World, config_map, exists, new_name, new_world
from tests.support.inside import read_documents
from tests.support.objects import claim, labelled
from tests.support.private_sources import PrivateSources, secret_manifest, serve_private_sources
from tests.support.registry import LocalRegistry
from tests.support.tenants import (
    ACCOUNT,
    CONFIG_MAPS,
    EVERYTHING,
    RBAC,
    deploy,
    grant,
    make,
    make_account,
    make_namespace,
    tenant,
    user_of,
    written_as,
)


@pytest.fixture(scope="module")
def world(cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(cluster, registry, settings.running, "--workers=1") as made:
        yield made


# installing


def test_everything_in_its_namespace_is_done_as_the_account(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    since = world.position()
    deployed = deploy(world, name, config_map("settings"), config_map("old"))
    deployed.wait_ready()
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    world.push(name, config_map("settings"), tag="v2")
    deployed.change(sources=[{"kind": "image", "image": {"ref": deployed.ref.replace(":v1", ":v2")}}])
    deployed.wait(lambda: not deployed.get("old"), "prune")
    deployed.delete()
    deployed.wait_gone()
    assert not deployed.objects()
    assert written_as(world, since, name) == {user_of(name)}


def test_another_namespace_is_out_of_reach(world: World) -> None:
    name, other = tenant(world, EVERYTHING), tenant(world)
    stray = config_map("stray")
    stray["metadata"]["namespace"] = other
    deployed = deploy(world, name, config_map("settings"), stray)
    found = deployed.wait_for("Installed", "False", "Forbidden")
    assert f'"{user_of(name)}"' in found["message"]
    assert deployed.data("settings")
    assert not exists(world.client, f"/api/v1/namespaces/{other}/configmaps/stray")


# the account, and where it is


def test_an_account_that_comes_later_is_noticed_at_once(world: World) -> None:
    name = new_name()
    deployed = deploy(world, name, config_map("settings"))
    deployed.wait_for("Ready", "False", "NamespaceNotFound", saying=f'namespace "{name}" does not exist')
    deployed.wait_for("Reconciling")
    make_namespace(world, name)
    deployed.wait_for("Ready", "False", "ServiceAccountNotFound", saying=f'ServiceAccount "{name}/{ACCOUNT}"')
    assert not deployed.objects()
    grant(world, name, CONFIG_MAPS)
    make_account(world, name)
    deployed.wait_ready()


def test_rights_of_a_name_are_of_no_use_without_the_account(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"))
    deployed.wait_ready()
    world.client.delete(f"/api/v1/namespaces/{name}/serviceaccounts/{ACCOUNT}")
    deployed.edit("settings", color="red")
    deployed.wait_for("Installed", "False", "ServiceAccountNotFound")
    assert deployed.data("settings") == {"color": "red"}
    make_account(world, name)
    deployed.wait_for("Installed", "False", "ServiceAccountReplaced")
    world.wait_until_looked_at()
    assert deployed.data("settings") == {"color": "red"}
    deployed.change(progressDeadline="9m")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    deployed.wait_ready()


def test_another_account_counts_from_then_on_also_after_a_restart(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    make_account(world, name, "other")
    grant(world, name, CONFIG_MAPS, account="other", name="other")
    deployed = deploy(world, name, config_map("settings"))
    before = deployed.wait_ready()
    deployed.change(serviceAccountName="other")
    after = deployed.wait_ready()
    assert after["installedRevision"] == before["installedRevision"]
    world.restart()
    since = world.position()
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    assert written_as(world, since, name) == {user_of(name, "other")}


def test_another_account_is_checked_at_once(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"), config_map("others"))
    deployed.wait_ready()
    deployed.change(serviceAccountName="other")
    deployed.wait_for("Installed", "False", "ServiceAccountNotFound", saying=f'ServiceAccount "{name}/other"')
    assert deployed.conditions()["Healthy"]["status"] == "True"
    make_account(world, name, "other")
    found = deployed.wait_for("Installed", "False", "Forbidden")
    deployed.wait_for("Stalled", "True", "Forbidden")
    rules = rules_in(found["message"], f'a Role in namespace "{name}"')
    assert rules == [rule("configmaps", *ALL)]
    passes = itertools.count()

    def has_pass_without_review() -> bool:
        since = world.position()
        deployed.change(metadata={"labels": {"pass": str(next(passes))}})
        world.wait_until_looked_at()
        return not asked_as(world, name, since, "other")

    world.wait(has_pass_without_review, "a pass that asks nothing")
    grant(world, name, *rules, account="other", name="other")
    deployed.wait_ready()


def test_another_account_need_not_be_allowed_to_delete(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"))
    deployed.wait_ready()
    make_account(world, name, "other")
    grant(world, name, rule("configmaps", "create", "get", "patch"), account="other", name="other")
    deployed.change(serviceAccountName="other")
    deployed.wait_ready()


# deletion


def test_without_its_account_a_bundle_goes_all_the_same(world: World) -> None:
    goes = labelled(claim("data"), annotations={names.PRUNE: "true"})
    name = tenant(world, EVERYTHING)
    deployed = deploy(world, name, config_map("settings"), goes)
    deployed.wait_for("Installed")
    world.client.delete(f"/api/v1/namespaces/{name}/serviceaccounts/{ACCOUNT}")
    deployed.delete()
    deployed.wait_gone()
    deployed.wait(lambda: not deployed.get("settings"), "the garbage collector")
    told = deployed.wait(lambda: deployed.events().get("ServiceAccountNotFound"), "an Event")
    assert f"PersistentVolumeClaim {name}/data: not deleted" in told
    assert not deployed.revisions()
    found = deployed.get("data", "persistentvolumeclaims")
    assert found
    assert "deletionTimestamp" not in found["metadata"]
    assert found["metadata"]["labels"] == {names.OWNER_LABEL: name}


def test_without_its_account_an_administrator_may_let_the_controller_delete_it(world: World) -> None:
    goes = labelled(claim("data"), annotations={names.PRUNE: "true"})
    name = tenant(world, EVERYTHING)
    deployed = deploy(world, name, config_map("settings"), goes)
    deployed.wait_for("Installed")
    world.client.delete(f"/api/v1/namespaces/{name}/serviceaccounts/{ACCOUNT}")
    deployed.change(metadata={"annotations": {names.TEARDOWN_AS: names.CONTROLLER}})
    deployed.delete()
    deployed.wait_gone()
    assert not deployed.get("settings")
    found = deployed.get("data", "persistentvolumeclaims")
    assert found is None or "deletionTimestamp" in found["metadata"]


def test_without_the_right_to_delete_a_bundle_goes_and_what_nobody_takes_is_released(world: World) -> None:
    applies = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "create", "patch"]}
    kept = config_map("kept")
    kept["metadata"]["annotations"] = {names.PRUNE: "false"}
    name = tenant(world, applies)
    deployed = deploy(world, name, config_map("settings"), kept)
    deployed.wait_ready()
    deployed.delete()
    deployed.wait_gone()
    deployed.wait(lambda: not deployed.get("settings"), "the garbage collector")
    assert "Forbidden" in deployed.events()
    released = deployed.get("kept")
    assert released
    assert released["metadata"]["annotations"] == {names.RELEASED_FROM: name, names.PRUNE: "false"}


def test_without_its_namespace_a_bundle_goes(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"))
    deployed.wait_ready()
    world.client.delete(f"/api/v1/namespaces/{name}")
    deployed.delete()
    deployed.wait_gone()


# rights that are missing


ALL = ("create", "delete", "get", "patch")


def read_yaml(text: str) -> list[Manifest]:
    [document] = read_documents(text.encode(), "rules.yaml")
    rules: list[Manifest] = document.value
    return rules


def rules_in(message: str, role: str) -> list[Manifest]:
    """Return the rules that a message shows, for a Role or a ClusterRole: they are YAML."""
    found = re.search(rf"{re.escape(role)} with rules: (\[.*?\}}\])", message)
    return read_yaml(found[1]) if found else []


def rule(resource: str, *verbs: str, group: str = "") -> Manifest:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def workload() -> Manifest:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod},
    }


def role(*rules: Manifest, kind: str = "Role", name: str = "more") -> Manifest:
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return {**about, "rules": list(rules)}


def test_all_missing_rights_are_listed_as_a_role_and_granting_it_brings_the_next_try(world: World) -> None:
    name = tenant(world)
    deployed = deploy(world, name, config_map("settings"), workload())
    found = deployed.wait_for("Installed", "False", "Forbidden")
    deployed.wait_for("Stalled", "True", "Forbidden")
    rules = rules_in(found["message"], f'a Role in namespace "{name}"')
    assert rules == [rule("configmaps", *ALL), rule("deployments", *ALL, group="apps")]
    grant(world, name, *rules)
    deployed.wait_for("Installed")
    assert deployed.data("settings")


def asked_as(world: World, name: str, since: int = 0, account: str = ACCOUNT) -> list[str]:
    """Return what the controller asked for as the account of a tenant: verb and address."""
    user = user_of(name, account)
    events = world._control_plane().audit_requests(since)
    ours = [event for event in events if (event.get("impersonatedUser") or {}).get("username") == user]
    return [f"{event['verb']} {event['requestURI']}" for event in ours]


def test_what_is_refused_is_not_asked_about_again_until_it_is_tried_again(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"), workload())
    deployed.wait_for("Installed", "False", "Forbidden")

    def has_pass_without_review() -> bool:
        since = world.position()
        deployed.edit("settings", color="red")
        deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
        world.wait_until_looked_at()
        return not any(request.endswith("/selfsubjectaccessreviews") for request in asked_as(world, name, since))

    def is_asked_about_once_for_each_try() -> bool:
        requests = asked_as(world, name)
        reviews = sum(request.endswith("/selfsubjectaccessreviews") for request in requests)
        tries = requests.count(f"get {deployed.path_of('web', 'deployments', '/apis/apps/v1')}")
        return reviews == len(ALL) * tries > 0

    # Any change of RBAC in the cluster has it tried again soon, and the first list of what there is counts as one.
    world.wait(has_pass_without_review, "a pass that asks nothing about what it does not try")
    world.wait(is_asked_about_once_for_each_try, "as many questions as tries lead to")
    deployed.wait_for("Installed", "False", "Forbidden")


def test_what_roles_in_the_bundle_would_grant_is_listed_with_the_rest(world: World) -> None:
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "viewers"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": group}],
    }
    name = tenant(world, rule("roles", *ALL, group=group), rule("rolebindings", *ALL, group=group))
    deployed = deploy(world, name, role(rule("pods", "get", "watch")), binding, config_map("settings"))
    found = deployed.wait_for("Installed", "False", "Forbidden")
    rules = rules_in(found["message"], f'a Role in namespace "{name}"')
    # What the Role grants, to bind the ClusterRole instead of all that it grants, and to apply.
    assert {resource for each in rules for resource in each["resources"]} == {"pods", "clusterroles", "configmaps"}
    assert {**rule("clusterroles", "bind", group=group), "resourceNames": ["view"]} in rules
    assert rule("configmaps", *ALL) in rules
    assert not exists(world.client, f"{RBAC}/namespaces/{name}/roles/more")
    grant(world, name, EVERYTHING)
    deployed.wait_for("Installed")


def test_an_account_that_may_escalate_needs_nothing_of_what_it_grants(world: World) -> None:
    group = "rbac.authorization.k8s.io"
    name = tenant(world, rule("roles", *ALL, "escalate", group=group))
    deployed = deploy(world, name, role(rule("pods", "get", "watch")), config_map("settings"))
    found = deployed.wait_for("Installed", "False", "Forbidden")
    assert rules_in(found["message"], f'a Role in namespace "{name}"') == [rule("configmaps", *ALL)]


def test_rights_in_the_cluster_are_those_of_a_cluster_role(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"), role(rule("pods", "get"), kind="ClusterRole", name=name))
    found = deployed.wait_for("Installed", "False", "Forbidden")
    rules = rules_in(found["message"], "a ClusterRole")
    assert rule("clusterroles", *ALL, group="rbac.authorization.k8s.io") in rules
    assert rule("pods", "get") in rules
    assert deployed.data("settings")


# Secrets of sources


READS_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}


@pytest.fixture(scope="module")
def sources(registry: LocalRegistry, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program = binaries.obtain(["registry"])["registry"]
    with serve_private_sources(tmp_path_factory.mktemp("private"), program, registry) as served:
        yield served


def put_secret(world: World, namespace: str, values: dict[str, str], kind: str = "Opaque") -> None:
    make(world, f"/api/v1/namespaces/{namespace}/secrets/login", secret_manifest(namespace, "login", values, kind))


def test_a_secret_that_the_account_may_not_read_is_not_used_until_it_may(world: World, sources: PrivateSources) -> None:
    name = tenant(world, CONFIG_MAPS)
    put_secret(world, name, sources.basic)
    sources.put_file(name, config_map("settings", color="blue"))
    deployed = deploy_private(world, name, sources.file(name, {"name": "login"}))
    found = deployed.wait_for("Unpacked", "False", "SecretForbidden")
    assert f'Secret "{name}/login" cannot be read by "{user_of(name)}"' in found["message"]
    grant(world, name, CONFIG_MAPS, READS_SECRETS)
    deployed.wait_ready()


def test_a_secret_of_another_tenant_is_of_no_use_to_this_one(world: World, sources: PrivateSources) -> None:
    name, other = tenant(world, EVERYTHING), tenant(world)
    put_secret(world, other, sources.basic)
    sources.put_file(name, config_map("settings"))
    deployed = deploy_private(world, name, sources.file(name, {"namespace": other, "name": "login"}))
    deployed.wait_for("Ready", "False", "SecretForbidden")
    assert not deployed.status().get("sources")


def test_an_image_is_pulled_with_the_pull_secrets_of_the_account(world: World, sources: PrivateSources) -> None:
    name = tenant(world, CONFIG_MAPS, READS_SECRETS)
    sources.put_image(name, config_map("settings", color="blue"))
    deployed = deploy_private(world, name, sources.image(name, None, certificateData=sources.authority.pem))
    deployed.wait_for("Unpacked", "False", "Unauthorized")
    put_secret(world, name, sources.docker_config, "kubernetes.io/dockerconfigjson")
    make_account(world, name, imagePullSecrets=[{"name": "login"}])
    deployed.wait_ready()
    assert deployed.data("settings") == {"color": "blue"}


def deploy_private(world: World, name: str, source: Manifest) -> Deployed:
    return world.deploy(name=name, ref="none", sources=[source], serviceAccountName=ACCOUNT)


# objects that pass from one BundleDeployment to another (spec.takeOver)


def test_without_the_rights_of_the_giver_nothing_is_taken_over_until_they_are_granted(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    giver = deploy(world, name, config_map("settings"))
    giver.wait_ready()
    giver.change(paused=True)
    giver.wait_for("Paused")
    before = giver.get("settings")
    grant(world, name, {**CONFIG_MAPS, "verbs": ["get"]})
    taker = world.deploy(config_map("settings", color="red"), installNamespace=name, takeOver=[{"name": name}])
    saying = f'"{user_of(name)}", the account of BundleDeployment "{name}", may not hand it'
    taker.wait_for("Installed", "False", "Forbidden", saying=saying)
    assert giver.get("settings") == before

    grant(world, name, CONFIG_MAPS)
    taker.wait_ready()
    assert giver.data("settings") == {"color": "red"}


def test_an_account_takes_over_nothing_that_it_may_not_write(world: World) -> None:
    name, other = tenant(world, CONFIG_MAPS), tenant(world, CONFIG_MAPS)
    giver = deploy(world, name, config_map("settings"))
    giver.wait_ready()
    giver.change(paused=True)
    giver.wait_for("Paused")
    before = giver.get("settings")
    wanted = labelled(config_map("settings", color="red"), namespace=name)
    taker = deploy(world, other, wanted, takeOver=[{"name": name}])
    taker.wait_for("Installed", "False", "Forbidden")
    assert giver.get("settings") == before
