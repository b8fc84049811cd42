"""Tenants of one cluster: ServiceAccounts with rights of their own, and config/restricted, which admits them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane, KubectlError
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
ANN = ("--as=ann", "--as-group=tenant", "--as-group=system:authenticated")
"""Of the tenant "tenant", whose namespace and group are called so."""
BEN = ("--as=ben", "--as-group=other", "--as-group=system:authenticated")
OWN = {"installNamespace": "tenant", "serviceAccountName": "installer"}
"""What a BundleDeployment of ANN's has to say."""


class Tenants:
    """Two tenants, `tenant` and `other`, each with its namespace and account, and what they do with kubectl."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._kubectl = world.cluster.kubectl

    def set_up(self) -> None:
        """Admit both tenants, unless they have been admitted before, and give each a Secret `login`."""
        for name in NAMES:
            if not exists(self.world.client, f"/api/v1/namespaces/{name}"):
                self.admit(name)
            self.put(name, "secrets", secret_manifest(name, "login", {"username": name, "password": "secret"}))

    def clean_up(self) -> None:
        """Delete all BundleDeployments, and what else is in the namespaces of both tenants."""
        client = self.world.client
        self._kubectl("delete", "bundledeployments", "--all", "--wait=false")  # one may just have ended
        self.world.wait(lambda: not list(client.list(DEPLOYMENTS, metadata=True)), "all BundleDeployments gone")
        for name in NAMES:
            for plural in ("configmaps", "secrets", "persistentvolumeclaims"):
                path = f"/api/v1/namespaces/{name}/{plural}"
                for found in client.list(path, metadata=True):
                    if found["metadata"]["name"] != "kube-root-ca.crt":
                        client.delete(f"{path}/{found['metadata']['name']}")

    def admit(self, name: str) -> None:
        """Set up a new tenant, as an administrator does."""
        self._kubectl("create", "namespace", name)
        self.admit_again(name)
        self._kubectl(
            "create", "clusterrolebinding", f"editor-{name}", "--clusterrole=rukpak-editor", f"--group={name}"
        )

    def admit_another(self, name: str, people: str) -> None:
        """Create a namespace again under its name, for other users than before."""
        self._kubectl("create", "namespace", name)
        self.admit_again(name)
        patch = json.dumps([{"op": "replace", "path": "/subjects/0/name", "value": people}])
        self._kubectl("patch", "rolebinding", "bundles", f"--namespace={name}", "--type=json", f"--patch={patch}")

    @property
    def control_plane(self) -> ControlPlane:
        """The cluster, with its audit log."""
        assert isinstance(self.world.cluster, ControlPlane)
        return self.world.cluster

    def admit_again(self, name: str) -> None:
        """Set up the namespace of a tenant."""
        objects = self._kubectl("kustomize", str(ROOT / "config/restricted/tenant"))
        renamed = objects.replace("namespace: tenant", f"namespace: {name}").replace("name: tenant", f"name: {name}")
        self._kubectl("apply", "-f", "-", input=renamed)

    def apply(self, who: tuple[str, ...], name: str, ref: str = "", **spec: Any) -> Deployed:
        """Apply a BundleDeployment as a user."""
        manifest = self.manifest(name, ref or self.push(name, config_map("settings")), **spec)
        self._kubectl("apply", *who, "-f", "-", input=manifest)
        return Deployed(client=self.world.client, name=name, ref=ref, wait=self.world.wait)

    def manifest(self, name: str, ref: str, **spec: Any) -> str:
        """Return the JSON of a BundleDeployment."""
        spec = {"format": "plain", "sources": [image(ref)], **spec}
        about = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}}
        return json.dumps({**about, "spec": spec})

    def push(self, name: str, *objects: Manifest) -> str:
        self.world.registry.push_image(f"tenants/{name}", "v1", [bundle_of(*objects)])
        return f"{self.world.registry.host}/tenants/{name}:v1"

    def may_not(self, who: tuple[str, ...], *arguments: str, saying: str) -> None:
        with pytest.raises(KubectlError) as caught:
            self._kubectl(*arguments, *who)
        assert saying in caught.value.stderr

    def put(self, namespace: str, plural: str, manifest: Manifest) -> None:
        path = f"/api/v1/namespaces/{namespace}/{plural}/{manifest['metadata']['name']}"
        self.world.client.apply(path, manifest, manager="tests", force=True)
