"""The roles of a bundle: their rules, with those that the control plane adds to aggregated ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from controller.permissions.statement import is_kind, texts
from controller.untrusted import mapping, mappings

RBAC = "rbac.authorization.k8s.io"
_AGGREGATED_TO = "aggregate-to-"


class RoleName(NamedTuple):
    """Of a role, also one that the bundle does not bring."""

    kind: str
    namespace: str
    """Empty for a ClusterRole."""
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A Role or ClusterRole of the bundle."""

    name: RoleName
    rules: Sequence[Mapping[str, Any]]
    labels: Mapping[str, Any]
    selectors: Sequence[Mapping[str, Any]]
    """Of the ClusterRoles that are aggregated into it."""

    @property
    def aggregated_to(self) -> list[str]:
        """The roles that its labels add it to, as Kubernetes names such labels: `admin`, `edit`, `view`, or others."""
        keys = (str(key) for key, value in self.labels.items() if value == "true")
        return sorted({key.partition(_AGGREGATED_TO)[2] for key in keys if _AGGREGATED_TO in key})


def read_roles(objects: Iterable[Mapping[str, Any]]) -> dict[RoleName, Role]:
    """Return the roles among objects."""
    found = (_read(item) for item in objects if is_kind(item, RBAC, "Role", "ClusterRole"))
    return {role.name: role for role in found}


def _read(item: Mapping[str, Any]) -> Role:
    metadata = mapping(item, "metadata")
    namespace = "" if item["kind"] == "ClusterRole" else str(metadata.get("namespace") or "")
    return Role(
        name=RoleName(item["kind"], namespace, str(metadata.get("name"))),
        rules=tuple(mappings(item, "rules")),
        labels=mapping(metadata, "labels"),
        selectors=tuple(mappings(item, "aggregationRule", "clusterRoleSelectors")),
    )


def aggregate(role: Role, roles: Mapping[RoleName, Role]) -> Iterator[Mapping[str, Any]]:
    """Yield the rules of a role, with those of the bundle's ClusterRoles that are aggregated into it."""
    yield from role.rules
    for other in roles.values() if role.selectors else ():
        if other.name.kind == "ClusterRole" and any(_selects(selector, other.labels) for selector in role.selectors):
            yield from other.rules


def _selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    wanted = mapping(selector, "matchLabels").items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _fulfils(labels, expression) for expression in mappings(selector, "matchExpressions")
    )


def _fulfils(labels: Mapping[str, Any], expression: Mapping[str, Any]) -> bool:
    value, operator = labels.get(str(expression.get("key"))), expression.get("operator")
    match operator:
        case "In":
            return value in texts(expression.get("values"))
        case "NotIn":
            return value not in texts(expression.get("values"))
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def rights_in(rule: Mapping[str, Any], *, everywhere: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each right of a rule, as group, resource and name, or as a path, with one verb.

    Args:
        rule: of a role.
        everywhere: whether a ClusterRoleBinding binds it: paths are granted only by these.
    """
    verbs = texts(rule.get("verbs"))
    if everywhere:
        yield from (((path,), verb) for path, verb in product(texts(rule.get("nonResourceURLs")), verbs))
    names = texts(rule.get("resourceNames")) or [""]
    lists = texts(rule.get("apiGroups")), texts(rule.get("resources")), names
    yield from product(product(*lists), verbs)


def count_rights(rule: Mapping[str, Any]) -> int:
    """Return how many rights a rule has, without listing them."""
    groups, resources, names, paths, verbs = (
        len(texts(rule.get(field))) for field in ("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs")
    )
    return verbs * (groups * resources * max(names, 1) + paths)
