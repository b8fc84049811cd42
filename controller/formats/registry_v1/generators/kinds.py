"""Other objects of a bundle: the supported kinds and their namespaces (generator 5).

Kinds are matched whatever their group (operator-registry, `supported_resources.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.formats.objects import Object, group_of
from controller.untrusted import mapping

_NAMESPACED = (
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Secret",
    "ConfigMap",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "PrometheusRule",
    "ServiceMonitor",
    "PodMonitor",
    "VerticalPodAutoscaler",  # cluster-scoped in upstream
)
_CLUSTER_SCOPED = (
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
)
SCOPES = {**dict.fromkeys(_NAMESPACED, True), **dict.fromkeys(_CLUSTER_SCOPED, False)}
"""Supported kinds, and whether they are namespaced."""

Scope = Callable[[str, str], bool | None]
"""Group and kind to whether it is namespaced; None if the cluster does not serve it."""


def place_others(others: Sequence[Object], namespace: str, scope: Scope) -> list[Object]:
    """Return the objects: namespaced ones moved to the install namespace, cluster-scoped ones without a namespace."""
    return [_place(item, namespace, scope) for item in others]


def name_of(item: Object) -> str:
    """Return the name of an unchecked object."""
    return str(mapping(item, "metadata").get("name", ""))


def _place(item: Object, namespace: str, scope: Scope) -> Object:
    kind = item["kind"]
    served = scope(group_of(item), kind) if isinstance(item.get("apiVersion"), str) else None
    metadata = item.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return item  # refused later, when identities are checked
    kept = {key: value for key, value in (metadata or {}).items() if key != "namespace"}
    is_namespaced = SCOPES[kind] if served is None else served
    return {**item, "metadata": {**kept, "namespace": namespace} if is_namespaced else kept}
