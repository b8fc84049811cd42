"""`kubectl apply -k config/…`: what it installs is accepted; its rights are enough and, where few are promised, few.

The controller runs with the token of its account. Whatever the API server refuses it is in the audit log.
"""

from __future__ import annotations

import json
import ssl
import tomllib
import uuid
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, Deployed, Manifest, World, config_map, definition, exists
from tests.support.inside import read_documents
from tests.support.installations import (
    ACCOUNT,
    NAMESPACE,
    container_of,
    granted_rights,
    install,
    kustomize,
    own_requests,
    refused,
    used_rights,
)
from tests.support.objects import make
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
KINDS = Path(__file__).parents[1] / "data/config/watched-kinds.yaml"
TENANT = "tenant"
SCRAPER = "scraper"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bundledeployments.core.rukpak.io"
EVERYTHING = ("*", "*", "*")


@pytest.fixture(scope="module")
def objects() -> list[Manifest]:
    return [each.value for each in read_documents(KINDS.read_bytes(), KINDS.name)]


def live_through(world: World, deployed: Deployed, objects: list[Manifest]) -> None:
    """Let what is installed be repaired, paused, upgraded, pruned, taken over by another process, and deleted."""
    deployed.wait_for("Installed")
    deployed.wait_for("Healthy", "False", saying="ImagePullBackOff")
    repair(deployed)
    for color in ("green", "green"):  # the second time the same is said
        pause_and_resume(deployed, color)
    world.push(deployed.name, *objects, tag="v2")
    deployed.change(sources=[{"kind": "image", "image": {"ref": deployed.ref.replace(":v1", ":v2")}}])
    deployed.wait(lambda: not deployed.get("old"), "prune")
    world.restart()
    repair(deployed)
    scrape(world)
    deployed.delete()
    deployed.wait_gone()
    assert not deployed.get("settings")
    assert not deployed.revisions()


def repair(deployed: Deployed) -> None:
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")


def pause_and_resume(deployed: Deployed, color: str) -> None:
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    deployed.edit("settings", color=color)
    deployed.wait_for("Drifted")
    deployed.change(paused=False)
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")


def scrape(world: World) -> None:
    """Read the metrics with an account that may."""
    group, accounts = "rbac.authorization.k8s.io", "/api/v1/namespaces/default/serviceaccounts"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    binding = make(f"{group}/v1", "ClusterRoleBinding", SCRAPER)
    binding["roleRef"] = {"apiGroup": group, "kind": "ClusterRole", "name": SCRAPER}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": SCRAPER, "namespace": "default"}]
    made = {
        accounts: make("v1", "ServiceAccount", SCRAPER),
        f"/apis/{group}/v1/clusterroles": make(f"{group}/v1", "ClusterRole", SCRAPER, rules=rules),
        f"/apis/{group}/v1/clusterrolebindings": binding,
    }
    for path, value in made.items():
        world.client.create(path, value)
    token = world.cluster.kubectl("create", "token", SCRAPER).strip()
    world.wait(lambda: world.controller.address("--metrics-address"), "metrics")
    address = f"{world.controller.address('--metrics-address')}/metrics"
    assert address.startswith("https://")
    request = Request(address, headers={"Authorization": f"Bearer {token}"})
    with urlopen(request, context=ssl._create_unverified_context()) as reply:
        assert b"rukpak_build_info" in reply.read()
    for path in made:
        world.client.delete(f"{path}/{SCRAPER}")


def pods_of(cluster: ControlPlane) -> list[Manifest]:
    listed = cluster.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=json")
    pods: list[Manifest] = json.loads(listed)["items"]
    return pods


@pytest.mark.thorough
def test_default_lets_everything_be_installed(
    fresh_kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, objects: list[Manifest]
) -> None:
    since = fresh_kwok_cluster.audit_position()
    with install(fresh_kwok_cluster, registry, settings.running, "default", "--metrics-secure=yes") as world:
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        role = make("rbac.authorization.k8s.io/v1", "ClusterRole", "all", rules=rules)
        extra: list[Manifest] = [definition("config.example.com", "Widget"), role]
        deployed = world.deploy(*objects, *extra, config_map("old"), prune="AfterApply")
        live_through(world, deployed, [*objects, *extra])
        # Restricted pod security has let them in; what the image is does not count here.
        assert len(pods_of(fresh_kwok_cluster)) == 2
        assert not refused(own_requests(fresh_kwok_cluster.audit_requests(since)))
    fresh_kwok_cluster.kubectl("delete", "-k", str(ROOT / "config/default"))


def wait_until_collected(world: World) -> None:
    """Wait until the garbage collector knows BundleDeployments: of an owner of a kind that it cannot look up it spares
    all dependents, and it learns of a new kind every 30 s."""
    owner = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": "gone", "uid": str(uuid.uuid4())}
    dependent = config_map("dependent")
    dependent["metadata"] |= {"namespace": "default", "ownerReferences": [owner]}
    world.client.create("/api/v1/namespaces/default/configmaps", dependent)
    wait_for(lambda: not exists(world.client, "/api/v1/namespaces/default/configmaps/dependent"), 90.0, "collected")


@pytest.mark.thorough
@pytest.mark.parametrize("by_hand", [True, False], ids=["finalizers are taken off", "RukPak is installed again"])
def test_a_deletion_in_the_wrong_order_hangs_and_is_cured(
    fresh_kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, *, by_hand: bool
) -> None:
    kubectl, default = fresh_kwok_cluster.kubectl, str(ROOT / "config/default")
    with install(fresh_kwok_cluster, registry, settings.running, "default") as world:
        deployed = world.deploy(config_map("settings"))
        deployed.wait_ready()
        if by_hand:
            wait_until_collected(world)
    kubectl("delete", "-k", default, "--wait=false")
    wait_for(lambda: not exists(world.client, f"/api/v1/namespaces/{NAMESPACE}"), 60.0, "the namespace gone")
    assert deployed.read()["metadata"]["deletionTimestamp"]
    assert exists(world.client, DEFINITION)

    if by_hand:
        kubectl("patch", "bd", deployed.name, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
        wait_for(lambda: not exists(world.client, DEFINITION), 60.0, "the definition gone")
    else:
        with install(fresh_kwok_cluster, registry, settings.running, "default") as again:
            again.wait(lambda: not exists(world.client, DEFINITION), "the definition gone", 60.0)
        kubectl("delete", "-k", default, "--ignore-not-found")
    wait_for(lambda: not deployed.get("settings"), 60.0, "what was installed gone")


def test_restricted_grants_what_is_needed_and_nothing_else(
    fresh_kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, objects: list[Manifest]
) -> None:
    since = fresh_kwok_cluster.audit_position()
    kubectl = fresh_kwok_cluster.kubectl
    with install(fresh_kwok_cluster, registry, settings.running, "restricted", "--metrics-secure=yes") as world:
        kubectl("create", "namespace", TENANT)
        deployed = world.deploy(
            *objects, config_map("old"), name=TENANT, serviceAccountName="installer", prune="AfterApply"
        )
        kubectl("apply", f"--namespace={TENANT}", "-f", str(ROOT / "config/restricted/tenant/controller.yaml"))
        deployed.wait_for("Ready", "False", "ServiceAccountNotFound")
        kubectl("create", "serviceaccount", "installer", f"--namespace={TENANT}")
        deployed.wait_for("Ready", "False", "Forbidden", saying="lacks permissions")
        ask_for_too_much(world)
        kubectl("apply", "-k", str(ROOT / "config/restricted/tenant"))
        live_through(world, deployed, objects)
        events = fresh_kwok_cluster.audit_requests(since)
        assert not refused(own_requests(events))
        # The store reads a BundleDeployment only before it writes a revision again.
        # Events are listed where the status of a pod does not say why it does not run.
        rarely = {("core.rukpak.io", "bundledeployments", "get"), ("", "events", "list")}
        assert granted_rights(fresh_kwok_cluster) - used_rights(events) - rarely == set()
        assert EVERYTHING not in granted_rights(fresh_kwok_cluster)
    kubectl("delete", "-k", str(ROOT / "config/restricted"))


def ask_for_too_much(world: World) -> None:
    """Install bindings that the account may not make, of a Role and a ClusterRole that are there."""
    world.cluster.kubectl("create", "role", "readers", f"--namespace={TENANT}", "--verb=get", "--resource=secrets")
    bindings = [binding_of("Role", "readers"), binding_of("ClusterRole", "cluster-admin")]
    greedy = world.deploy(*bindings, name="greedy", installNamespace=TENANT, serviceAccountName="installer")
    rule = ["--verb=create,patch,get,delete", "--resource=rolebindings.rbac.authorization.k8s.io"]
    world.cluster.kubectl("create", "role", "binder", f"--namespace={TENANT}", *rule)
    account = f"--serviceaccount={TENANT}:installer"
    world.cluster.kubectl("create", "rolebinding", "binder", f"--namespace={TENANT}", "--role=binder", account)
    greedy.wait_for("Ready", "False", "Forbidden", saying="verbs: [bind]")
    greedy.delete()
    greedy.wait_gone()
    world.cluster.kubectl("delete", "rolebinding", "binder", f"--namespace={TENANT}")


def binding_of(kind: str, name: str) -> Manifest:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"greedy-{name}"},
        "roleRef": {"apiGroup": group, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": TENANT}],
    }


def test_the_deployment_names_the_release_and_what_it_listens_on(fresh_kwok_cluster: ControlPlane) -> None:
    fresh_kwok_cluster.kubectl("apply", "-k", str(ROOT / "config/manager"))
    container = container_of(fresh_kwok_cluster)
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert container["image"] == f"{ACCOUNT}:{release}"
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert f"--metrics-address=:{ports['metrics']}" in container["args"]
    assert f"--probe-address=:{ports['probes']}" in container["args"]


def test_restricted_lets_the_controller_out_by_few_ports(fresh_kwok_cluster: ControlPlane) -> None:
    for folder, others in (("manager", None), ("restricted", 22)):
        policies = [each for each in kustomize(fresh_kwok_cluster, folder) if each["kind"] == "NetworkPolicy"]
        fresh_kwok_cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(in_default(policies[0])))
        rules = policies[0]["spec"]["egress"]
        ports = {port["port"] for rule in rules for port in rule.get("ports", [{"port": None}])}
        assert ports == {53, 5353, 443, 6443, 8443} | {others}


def in_default(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}


def test_seeing_is_part_of_view_and_writing_of_nothing(fresh_kwok_cluster: ControlPlane) -> None:
    labels = {
        each["metadata"]["name"]: each["metadata"]["labels"]
        for each in kustomize(fresh_kwok_cluster, "rbac")
        if each["kind"] == "ClusterRole"
    }
    aggregated = "rbac.authorization.k8s.io/aggregate-to-"
    found = {(name, label) for name, each in labels.items() for label in each if label.startswith(aggregated)}
    assert found == {("rukpak-view", f"{aggregated}view")}
    fresh_kwok_cluster.kubectl("apply", "-k", str(ROOT / "config/rbac"))

    def may_view() -> bool:
        rules = json.loads(fresh_kwok_cluster.kubectl("get", "clusterrole", "view", "--output=json"))["rules"]
        return any("bundledeployments" in rule.get("resources", ()) for rule in rules)

    wait_for(may_view, 20.0, "view has BundleDeployments")
