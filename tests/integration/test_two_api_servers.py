"""Two API servers over one etcd, as a highly available control plane has them: the second one knows things later."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import Process, free_ports, make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import SECONDS, Manifest, World, config_map, definition, exists, image, new_name, new_world
from tests.support.inside import ApiError, Client, User, connect
from tests.support.objects import custom, labelled, make, read
from tests.support.registry import LocalRegistry
from tests.support.weather import Weather

pytestmark = pytest.mark.long

START_SECONDS = 150.0
RETRY_SECONDS = 10.0
"""So long the controller tries again what is not served yet by a server whose definition is established."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Clients of both, and their addresses."""

    first: Client
    second: Client
    addresses: tuple[str, str]


@pytest.fixture(scope="module")
def pair(fresh_cluster: ControlPlane) -> Iterator[Pair]:
    """Start a second API server, in which who may not set finalizers may not set blockOwnerDeletion, either."""
    [port] = free_ports(1)
    address, kubeconfig = f"https://127.0.0.1:{port}", fresh_cluster.folder / "second.kubeconfig"
    usual = [str(word) for word in fresh_cluster.components["kube-apiserver"]._command if "audit" not in str(word)]
    command = [f"--secure-port={port}" if word.startswith("--secure-port=") else word for word in usual]
    strict = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    server = Process("second-kube-apiserver", fresh_cluster.folder, [*command, strict])
    kubeconfig.write_text(fresh_cluster.kubeconfig.read_text().replace(fresh_cluster.server, address))
    first, second = (connect(kubeconfig=str(file), user_agent="t") for file in (fresh_cluster.kubeconfig, kubeconfig))
    server.start()
    try:
        wait_for(lambda: is_ready(second), START_SECONDS, lambda: f"a second API server: {server.last_words()}")
        yield Pair(first=first, second=second, addresses=(fresh_cluster.server, address))
    finally:
        server.kill()


def is_ready(client: Client) -> bool:
    try:
        client.request("GET", "/readyz", query=[("verbose", "")])
    except ApiError as error:
        return error.reason == "NotUnderstood"  # it answers ok, which is no JSON
    return True


def is_established(found: Manifest | None) -> bool:
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


@pytest.mark.thorough
def test_a_kind_that_one_has_established_is_served_by_the_other_before_the_controller_gives_up(pair: Pair) -> None:
    group = f"{new_name()}.example.com"
    pair.first.create(CRDS, definition(group, "Foo"))
    wait_for(lambda: is_established(read(pair.first, f"{CRDS}/foos.{group}")), SECONDS, "established")
    refused: set[int] = set()

    def is_taken() -> bool:
        path = f"/apis/{group}/v1/namespaces/default/foos/a"
        body = labelled(custom(group, "Foo", "a"), namespace="default")
        try:
            pair.second.apply(path, body, manager="rukpak/x", force=True)
        except ApiError as error:
            refused.add(error.status)
            return False
        return True

    wait_for(is_taken, RETRY_SECONDS, "served by the other one")
    assert refused <= {404, 429}


def test_without_the_right_to_finalizers_only_a_blocking_owner_reference_is_refused(pair: Pair) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}]
    role = make("rbac.authorization.k8s.io/v1", "Role", "tenant", rules=rules)
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    binding = make("rbac.authorization.k8s.io/v1", "RoleBinding", "tenant", subjects=[subject], roleRef=reference)
    pair.first.create(f"{RBAC}/namespaces/default/roles", role)
    pair.first.create(f"{RBAC}/namespaces/default/rolebindings", binding)
    owner = pair.first.create("/api/v1/namespaces", make("v1", "Namespace", new_name())).value["metadata"]
    tenant = pair.second.acting_as(User.service_account("default", "tenant"))
    owned = {"apiVersion": "v1", "kind": "Namespace", "name": owner["name"], "uid": owner["uid"], "controller": True}

    def apply(name: str, **more: object) -> int:
        body = labelled(config_map(name), namespace="default", ownerReferences=[{**owned, **more}])
        path = f"/api/v1/namespaces/default/configmaps/{name}"
        try:
            return tenant.apply(path, body, manager="rukpak/x", force=True).status
        except ApiError as error:
            return error.status

    wait_for(lambda: apply("free") in (200, 201), SECONDS, "the right is known")
    assert apply("blocking", blockOwnerDeletion=True) == 403


# the controller


class Balancer(Weather):
    """Sends each connection to the next one of several API servers."""

    def __init__(self, servers: tuple[str, ...], authority: Path) -> None:
        super().__init__(servers[0], authority)
        self._hosts = itertools.cycle(urlsplit(server).netloc for server in servers)

    def connect(self) -> HTTPSConnection:
        self._host = next(self._hosts)
        return super().connect()


@pytest.fixture
def balancer(fresh_cluster: ControlPlane, pair: Pair) -> Iterator[Balancer]:
    with Balancer(pair.addresses, fresh_cluster.folder / "ca.crt") as started:
        yield started


@pytest.fixture
def balanced_world(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, balancer: Balancer
) -> Iterator[World]:
    """A world whose controller talks to both."""
    folder = make_owned_folder(settings.running, "balancer")
    kubeconfig = balancer.write_kubeconfig(folder / "kubeconfig")
    with new_world(fresh_cluster, registry, settings.running, is_shared=False, kubeconfig=kubeconfig) as world:
        yield world
        print(world.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
    take_away(folder)


def test_behind_a_balancer_everything_is_installed_changed_repaired_and_taken_away(
    balanced_world: World, balancer: Balancer
) -> None:
    world, group = balanced_world, f"{new_name()}.example.com"

    def bundle(size: int) -> list[Manifest]:
        maps = [config_map(f"settings-{index}", size=str(size)) for index in range(20)]
        return [custom(group, "Foo", "thing", spec={"size": size}), *maps, definition(group, "Foo")]

    deployed = world.deploy(*bundle(1))
    installed = deployed.wait_ready()["installedRevision"]
    deployed.change(sources=[image(world.push(deployed.name, *bundle(2), tag="v2"))])
    deployed.wait_installed(installed)
    thing = deployed.path_of("thing", "foos", f"/apis/{group}/v1")
    assert world.client.get(thing).value["spec"] == {"size": 2}
    deployed.edit("settings-3", size="9")
    deployed.wait(lambda: deployed.data("settings-3") == {"size": "2"}, "repaired")
    deployed.wait_ready()
    world.wait_until_looked_at()
    seen = len(balancer.requests)
    world.wait_until_looked_at()
    assert [each for each in balancer.requests[seen:] if deployed.name in each.path] == []

    deployed.delete()

    deployed.wait_gone()
    assert not exists(world.client, f"{CRDS}/foos.{group}")
    assert deployed.objects() == {}
