"""The objects of RukPak itself on a cluster: the API, what config/ installed, the Lease and the namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api import names
from controller.cli.installation.release import DEFINITION, find
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.lease import LEASES
from controller.kube.resources import NAMESPACES, GroupVersionKind

LABEL = "app.kubernetes.io/name=rukpak"
"""On every object of config/."""
_PARTS = tuple(
    GroupVersionKind.parse(text)
    for text in (
        "admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
        "monitoring.coreos.com/v1/ServiceMonitor",
        "monitoring.coreos.com/v1/PrometheusRule",
        "apps/v1/Deployment",
        "policy/v1/PodDisruptionBudget",
        "networking.k8s.io/v1/NetworkPolicy",
        "v1/Service",
        "v1/ConfigMap",
        "rbac.authorization.k8s.io/v1/RoleBinding",
        "rbac.authorization.k8s.io/v1/Role",
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
        "rbac.authorization.k8s.io/v1/ClusterRole",
        "v1/ServiceAccount",
        "v1/Namespace",
    )
)


@dataclass(frozen=True, slots=True)
class Part:
    """An object of RukPak."""

    path: str
    name: str
    """As kubectl prints it."""


API = Part(DEFINITION, f"customresourcedefinition.apiextensions.k8s.io/{names.DEFINITION}")


def find_parts(client: Client, namespace: str) -> list[Part]:
    """Return what exists, in the order of its deletion: the API, the controller, its Lease, and its namespace.

    Raises: ApiError.
    """
    discovery = Discovery(client)
    labeled = [part for kind in _PARTS for part in _find_kind(client, discovery, kind)]
    api = [API] if find(client, API.path) else []
    lease = list(_find_leases(client, namespace))
    home = Part(NAMESPACES.path(name=namespace), f"namespace/{namespace}")
    ours = [home] if home not in labeled and was_created_by_controller(client, home.path) else []
    return [*api, *labeled, *lease, *ours]


def _find_leases(client: Client, namespace: str) -> Iterator[Part]:
    """Yield the Leases of all shards, which have the annotation of a controller's release."""
    for item in client.list(LEASES.path(namespace), metadata=True):
        name = item["metadata"]["name"]
        is_of_shard = names.VERSION in (item["metadata"].get("annotations") or {})
        if name == names.LEASE or (name.startswith(f"{names.LEASE}-") and is_of_shard):
            yield Part(LEASES.path(namespace, name), f"lease.{LEASES.group}/{name}")


def _find_kind(client: Client, discovery: Discovery, kind: GroupVersionKind) -> Iterator[Part]:
    resource = discovery.resource(kind)
    if resource is None:
        return
    for item in list(client.list(resource.path(), metadata=True, label_selector=LABEL)):
        metadata = item["metadata"]
        name = f"{kind.kind.lower()}{f'.{kind.group}' if kind.group else ''}/{metadata['name']}"
        yield Part(resource.path(metadata.get("namespace", ""), metadata["name"]), name)


def was_created_by_controller(client: Client, path: str) -> bool:
    """Return whether a namespace exists that a controller created and no other client changed.

    Raises: ApiError.
    """
    reply = find(client, path)
    metadata: Mapping[str, Any] = reply.value["metadata"] if reply else {}
    managers = {str(entry.get("manager")) for entry in metadata.get("managedFields") or []}
    is_ours = bool(managers) and all(manager.startswith("rukpak") for manager in managers)
    return is_ours and not metadata.get("deletionTimestamp")
