"""ServiceAccounts, Roles and ClusterRoles with their bindings (generators 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.formats.objects import Object, drop_nulls
from controller.formats.registry_v1.bundle.install_modes import ALL_NAMESPACES
from controller.formats.registry_v1.bundle.service_version import Permission, ServiceVersion
from controller.formats.registry_v1.generators import names

_DEFAULT_ACCOUNT = "default"
_GROUP = "rbac.authorization.k8s.io"
_SEE_NAMESPACES: Mapping[str, Any] = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}


def make_service_accounts(version: ServiceVersion, namespace: str) -> list[Object]:
    """Return the accounts that permissions name, sorted, except `default`, which every namespace has."""
    permissions = (*version.permissions, *version.cluster_permissions)
    accounts = sorted({_account(permission) for permission in permissions} - {_DEFAULT_ACCOUNT})
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        for name in accounts
    ]


def make_roles(version: ServiceVersion, namespace: str, targets: Sequence[str]) -> list[Object]:
    """Return a Role and a RoleBinding for each watched namespace and permission; none if all are watched."""
    if tuple(targets) == ALL_NAMESPACES:
        return []
    return [
        item
        for target in targets
        for permission in version.permissions
        for item in _make_pair(version.name, permission, namespace, {"namespace": target}, "")
    ]


def make_cluster_roles(version: ServiceVersion, namespace: str, targets: Sequence[str]) -> list[Object]:
    """Return a ClusterRole and a ClusterRoleBinding for each cluster permission, or for each if all are watched."""
    promoted = map(_promote, version.permissions) if tuple(targets) == ALL_NAMESPACES else ()
    return [
        item
        for permission in (*version.cluster_permissions, *promoted)
        for item in _make_pair(version.name, permission, namespace, {}, "Cluster")
    ]


def _promote(permission: Permission) -> Permission:
    return replace(permission, rules=(*(permission.rules or ()), _SEE_NAMESPACES))


def _make_pair(
    version: str, permission: Permission, namespace: str, place: Mapping[str, str], prefix: str
) -> tuple[Object, Object]:
    """Return a role and its binding, which have the same name."""
    account = _account(permission)
    name = names.join_name(f"{version}-{account}", names.hash_of(permission.as_hashed()))
    role = _make_object(f"{prefix}Role", name, place)
    if permission.rules is not None:
        role["rules"] = [drop_nulls(rule) for rule in permission.rules]
    binding = _make_object(f"{prefix}RoleBinding", name, place)
    binding["roleRef"] = {"apiGroup": _GROUP, "kind": role["kind"], "name": name}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    return role, binding


def _make_object(kind: str, name: str, place: Mapping[str, str]) -> Object:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name, **place}}


def _account(permission: Permission) -> str:
    return permission.service_account or _DEFAULT_ACCOUNT
