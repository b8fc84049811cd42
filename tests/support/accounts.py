"""ServiceAccounts with their own rights: what an administrator sets up for tenants, and what the controller uses."""

from __future__ import annotations

from typing import Any

from tests.support.bundles import CONTROLLER_AGENT, WRITES, Deployed, Manifest, World, new_name

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
