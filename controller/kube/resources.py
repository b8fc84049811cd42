"""Kinds, the paths at which the API server serves them, and which BundleDeployments a controller serves. Pure.

Each controller serves the BundleDeployments with the label of its shard, and the default one those without. A
BundleDeployment that moves is left by one controller as soon as its watch shows that, and adopted by the other as it
is, like after a restart. Nothing is handed over. Both may run a pass for a moment, or for longer if the watch of one is
silent: what it writes is bound to a BundleDeployment that has its label (status/writer.py, reconcile/inventory.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from rukpak.api import names


class GroupVersionKind(NamedTuple):
    """A kind, from the `apiVersion` and `kind` of an object."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> tuple[str, str]:
        """The kind without its version."""
        return self.group, self.kind

    def __str__(self) -> str:
        """Return `apps/v1/Deployment` or `v1/ConfigMap`."""
        return f"{self.api_version}/{self.kind}"

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> GroupVersionKind:
        """Return the kind of an object.

        Raises: ValueError if its apiVersion or kind is missing or malformed.
        """
        return cls.parse(f"{value.get('apiVersion') or ''}/{value.get('kind') or ''}")

    @classmethod
    def parse(cls, text: str) -> GroupVersionKind:
        """Return the kind from the form that `str()` returns.

        Raises: ValueError for any other text.
        """
        match text.split("/"):
            case [version, kind] if version and kind:
                return cls("", version, kind)
            case [group, version, kind] if group and version and kind:
                return cls(group, version, kind)
        raise ValueError(f'"{text}" is not an apiVersion and kind')


def read_kinds(texts: Iterable[str]) -> list[GroupVersionKind]:
    """Return the kinds that texts of a status name; a text that names none is skipped, since others may edit it."""
    found: list[GroupVersionKind] = []
    for text in texts:
        with suppress(ValueError):
            found.append(GroupVersionKind.parse(text))
    return found


@dataclass(frozen=True, slots=True)
class Resource:
    """The resource that serves a kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return self.gvk.api_version

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind that it serves."""
        return GroupVersionKind(self.group, self.version, self.kind)

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of an object, or without a name of a collection, by default in all namespaces.

        The namespace is ignored for cluster-scoped kinds. Segments are quoted.

        Raises: ValueError if the namespace of an object is missing, or a segment cannot be a name.
        """
        if self.namespaced and name and not namespace:
            raise ValueError(f'{self.gvk} "{name}": namespace is missing')
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", _quote(namespace)]
        return "/".join([*parts, self.plural, *([_quote(name)] if name else [])])


RBAC = "rbac.authorization.k8s.io"
"""The API group of the four kinds that grant permissions."""

DEPLOYMENTS = Resource(names.GROUP, "v1alpha2", names.KIND, names.PLURAL, namespaced=False)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
AUTOSCALERS = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
ROLES = Resource(RBAC, "v1", "Role", "roles", namespaced=True)
ROLE_BINDINGS = Resource(RBAC, "v1", "RoleBinding", "rolebindings", namespaced=True)
CLUSTER_ROLES = Resource(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)


def _quote(segment: str) -> str:
    # `..` would address the parent of the collection.
    if segment in (".", "..") or "/" in segment or "%" in segment:
        raise ValueError(f'"{segment}" cannot be a name: it must not be "." or "..", or contain "/" or "%"')
    return quote(segment, safe="")


LONGEST_SHARD = 50
"""Characters of the name of a shard."""
_SHARD = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def shard_of(labels: Mapping[str, str]) -> str:
    """Return the name of the shard that the labels of a BundleDeployment name; empty: the default one."""
    return labels.get(names.SHARD, "")


def lease_of(shard: str) -> str:
    """Return the name of the Lease of a shard."""
    return f"{names.LEASE}-{shard}" if shard else names.LEASE


def is_shard_name(name: str) -> bool:
    """Whether a name can be that of a shard: a DNS label of at most `LONGEST_SHARD` characters."""
    return len(name) <= LONGEST_SHARD and _SHARD.fullmatch(name) is not None
