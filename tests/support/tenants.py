"""Tenants of one cluster: ServiceAccounts with rights of their own, and config/restricted, which admits them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import pytest

from hack.packaging.manifests import render
from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import (
    CONTROLLER_AGENT,
    DEPLOYMENTS,
    ROOT,
    WRITES,
    Deployed,
    Manifest,
    World,
    bundle_of,
    config_map,
    exists,
    image,
    new_name,
)
from tests.support.inside import ApiError, User
from tests.support.private_sources import secret_manifest

ACCOUNT = "tenant"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}


def user_of(namespace: str, account: str = ACCOUNT) -> str:
    """Return the name by which the API server knows a ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{account}"


def make(world: World, path: str, value: Manifest) -> None:
    world.client.apply(path, value, manager="tests", force=True)


def make_namespace(world: World, name: str) -> None:
    make(world, f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def make_account(world: World, namespace: str, name: str = ACCOUNT, **fields: Any) -> None:
    value = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}, **fields}
    make(world, f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}", value)


def grant(world: World, namespace: str, *rules: Manifest, account: str = ACCOUNT, name: str = "tenant") -> None:
    """Grant an account these rules in its namespace."""
    about = {"name": name, "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": about, "rules": list(rules)}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    make(world, f"{RBAC}/namespaces/{namespace}/roles/{name}", role)
    make(world, f"{RBAC}/namespaces/{namespace}/rolebindings/{name}", binding)


def tenant(world: World, *rules: Manifest) -> str:
    """Create a namespace with an account that has these rights in it; return its name."""
    name = new_name()
    make_namespace(world, name)
    make_account(world, name)
    if rules:
        grant(world, name, *rules)
    return name


def deploy(world: World, name: str, *manifests: Manifest, **spec: Any) -> Deployed:
    return world.deploy(*manifests, name=name, serviceAccountName=ACCOUNT, **spec)


def written_as(world: World, since: int, name: str) -> set[str]:
    """Return the accounts that the controller used to write in a namespace."""
    events = world._control_plane().audit_requests(since)
    return {
        (event.get("impersonatedUser") or {}).get("username", "itself")
        for event in events
        if event.get("userAgent", "").startswith(CONTROLLER_AGENT)
        and event["verb"] in WRITES
        and (event.get("objectRef") or {}).get("namespace") == name
    }


NAMES = ("tenant", "other")
AUTHENTICATED = "system:authenticated"
ANN = User("ann", ("tenant", AUTHENTICATED))
"""Of the tenant "tenant", whose namespace and group are called so."""
BEN = User("ben", ("other", AUTHENTICATED))
OWN = {"installNamespace": "tenant", "serviceAccountName": "installer"}
"""What a BundleDeployment of ANN's has to say."""
PLURALS = {"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings"}


def wait_for_right(world: World, who: User, verb: str, resource: str, **attributes: str) -> None:
    """Wait until the API server has seen the roles and bindings that it has taken: that a user may do something."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": verb, "resource": resource, **attributes}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    client = world.client.acting_as(who)
    wait_for(lambda: client.create(path, body).value["status"]["allowed"], 60, f"{who.name} may {verb} {resource}")


@contextmanager
def refused(*sayings: str) -> Iterator[None]:
    """Expect that the API server refuses a request, with one of these texts in its message."""
    with pytest.raises(ApiError) as caught:
        yield
    assert any(saying in caught.value.message for saying in sayings), caught.value.message


class Tenants:
    """Two tenants, `tenant` and `other`, each with its namespace and account, and what they ask the API server for.

    Not by kubectl: to start it takes longer than anything that is asked for. A user that is None is the administrator.
    """

    def __init__(self, world: World) -> None:
        self.world = world

    def set_up(self) -> None:
        """Admit both tenants, unless they have been admitted before, and give each a Secret `login`."""
        for name in NAMES:
            if not exists(self.world.client, f"/api/v1/namespaces/{name}"):
                self.admit(name)
            self.put(name, "secrets", secret_manifest(name, "login", {"username": name, "password": "secret"}))

    def clean_up(self) -> None:
        """Delete all BundleDeployments, and what else is in the namespaces of both tenants."""
        client = self.world.client
        for found in client.list(DEPLOYMENTS, metadata=True):
            with suppress(ApiError):  # one may just have ended
                client.delete(f"{DEPLOYMENTS}/{found['metadata']['name']}")
        self.world.wait(lambda: not list(client.list(DEPLOYMENTS, metadata=True)), "all BundleDeployments gone")
        for name in NAMES:
            for plural in ("configmaps", "secrets", "persistentvolumeclaims"):
                path = f"/api/v1/namespaces/{name}/{plural}"
                for found in client.list(path, metadata=True):
                    if found["metadata"]["name"] != "kube-root-ca.crt":
                        client.delete(f"{path}/{found['metadata']['name']}")

    def admit(self, name: str) -> None:
        """Set up a new tenant, as an administrator does."""
        make_namespace(self.world, name)
        self.admit_again(name)
        self.bind(f"editor-{name}", "rukpak-editor", {"kind": "Group", "name": name})
        self._wait_until_admitted(name, name)

    def admit_another(self, name: str, people: str) -> None:
        """Create a namespace again under its name, for other users than before."""
        make_namespace(self.world, name)
        self.admit_again(name)
        change = [{"op": "replace", "path": "/subjects/0/name", "value": people}]
        self.world.client.json_patch(f"{RBAC}/namespaces/{name}/rolebindings/bundles", change)
        self._wait_until_admitted(name, people)

    def _wait_until_admitted(self, name: str, people: str) -> None:
        who, account = User(people, (people, AUTHENTICATED)), OWN["serviceAccountName"]
        wait_for_right(self.world, who, "create", names.PLURAL, group=names.GROUP)
        wait_for_right(self.world, who, "impersonate", "serviceaccounts", namespace=name, name=account)

    def bind(self, name: str, role: str, subject: Manifest) -> str:
        """Bind users to a ClusterRole in the whole cluster; return the path of the binding."""
        group = "rbac.authorization.k8s.io"
        body = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, **subject}],
        }
        make(self.world, f"{RBAC}/clusterrolebindings/{name}", body)
        return f"{RBAC}/clusterrolebindings/{name}"

    @property
    def control_plane(self) -> ControlPlane:
        """The cluster, with its audit log."""
        assert isinstance(self.world.cluster, ControlPlane)
        return self.world.cluster

    def admit_again(self, name: str) -> None:
        """Set up the namespace of a tenant, as config/restricted/tenant says."""
        text = json.dumps(render(ROOT / "config/restricted/tenant"))
        for each in json.loads(text.replace('"tenant"', f'"{name}"')):
            group = RBAC if each["apiVersion"] != "v1" else "/api/v1"
            make(self.world, f"{group}/namespaces/{name}/{PLURALS[each['kind']]}/{each['metadata']['name']}", each)

    def apply(self, who: User, name: str, ref: str = "", **spec: Any) -> Deployed:
        """Create a BundleDeployment as a user, or change its spec if it is there."""
        ref = ref or self.push(name, config_map("settings"))
        body = self.manifest(name, ref, **spec)
        try:
            self.world.client.acting_as(who).create(DEPLOYMENTS, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            self.change(who, name, **body["spec"])
        return Deployed(client=self.world.client, name=name, ref=ref, wait=self.world.wait)

    def find_refusal(self, who: User | None, **spec: Any) -> str:
        """Return why admission would refuse a new BundleDeployment of a user; empty if it would not."""
        try:
            probe = self.manifest("probe", "example.com/probe:v1", **spec)
            self.world.client.acting_as(who).create(DEPLOYMENTS, probe, dry_run=True)
        except ApiError as error:
            if error.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY):
                raise
            return error.message
        return ""

    @contextmanager
    def enforced(self, folder: str, *refusals: Callable[[], object]) -> Iterator[None]:
        """Enforce the policies in a folder of config/, and always lift them afterwards.

        Args:
            folder: in config/.
            refusals: one per policy; each returns something true while its policy is enforced. The API server enforces
                a policy, and stops enforcing it, with a delay, which the next test must not meet.
        """
        path = str(ROOT / "config" / folder)
        try:
            self.world.cluster.kubectl("apply", "-k", path)
            self.world.wait(lambda: all(refusal() for refusal in refusals), f"{folder} in force")
            yield
        finally:
            self.world.cluster.kubectl("delete", "-k", path, "--ignore-not-found")
            self.world.wait(lambda: not any(refusal() for refusal in refusals), f"{folder} out of force")

    def manifest(self, name: str, ref: str, **spec: Any) -> Manifest:
        """Return a BundleDeployment."""
        spec = {"format": "plain", "sources": [image(ref)], **spec}
        about = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}}
        return {**about, "spec": spec}

    def patch(self, who: User | None, name: str, change: Manifest, *, subresource: str = "") -> None:
        """Merge into a BundleDeployment as a user."""
        path = f"{DEPLOYMENTS}/{name}" + (f"/{subresource}" if subresource else "")
        self.world.client.acting_as(who).merge_patch(path, change)

    def change(self, who: User | None, name: str, **spec: Any) -> None:
        self.patch(who, name, {"spec": spec})

    def annotate(self, who: User | None, name: str, **annotations: str | None) -> None:
        self.patch(who, name, {"metadata": {"annotations": annotations}})

    def delete(self, who: User | None, name: str, propagation: str = "Background") -> None:
        self.world.client.acting_as(who).delete(f"{DEPLOYMENTS}/{name}", propagation=propagation)

    def push(self, name: str, *objects: Manifest) -> str:
        self.world.registry.push_image(f"tenants/{name}", "v1", [bundle_of(*objects)])
        return f"{self.world.registry.host}/tenants/{name}:v1"

    def put(self, namespace: str, plural: str, manifest: Manifest) -> None:
        path = f"/api/v1/namespaces/{namespace}/{plural}/{manifest['metadata']['name']}"
        make(self.world, path, manifest)
