"""Which rights an account needs to apply objects, including those that the objects grant. Pure.

A client that writes a Role or a binding must hold every right in it, or `escalate` on the Role, or `bind` on the bound
Role (Kubernetes, RBAC good practices). Not here: whether an account has a right (access_review.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from controller.apply.failures.missing_rights import RbacRight
from controller.apply.targets import Target
from controller.kube.resources import CLUSTER_ROLES, RBAC, ROLES, Resource
from controller.observe.records import key_of
from controller.untrusted import mapping, sequence, texts

# For judging, applying and deleting an object.
_VERBS = ("create", "delete", "get", "patch")
_PLURALS = {each.kind: each.plural for each in (ROLES, CLUSTER_ROLES)}

# Whoever lets the control plane fill a ClusterRole needs what may end up in it (pkg/registry/rbac/clusterrole).
_EVERYTHING = (
    RbacRight(groups=("*",), resources=("*",), verbs=("*",)),
    RbacRight(paths=("*",), verbs=("*",)),
)

Rules = Iterable[Mapping[str, Any]]
FindRules = Callable[[str, str, str], Rules]
"""Returns the rules of a Role or ClusterRole by kind, namespace and name; none if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The rights that a client must hold to grant them."""

    instead: RbacRight
    """One right that suffices as well."""
    rights: tuple[RbacRight, ...]


def rights_to_apply(items: Iterable[tuple[Target, Resource]]) -> Iterator[RbacRight]:
    """Yield the rights that objects require, each with one verb and once per resource and namespace."""
    return rights_in((target.key.namespace, resource) for target, resource in items)


def rights_in(places: Iterable[tuple[str, Resource]]) -> Iterator[RbacRight]:
    """Yield the rights that objects of resources in namespaces require, as `rights_to_apply`."""
    distinct = dict.fromkeys((namespace, resource.group, resource.plural) for namespace, resource in places)
    for (namespace, group, plural), verb in product(distinct, _VERBS):
        yield RbacRight(namespace=namespace, groups=(group,), resources=(plural,), verbs=(verb,))


def grants_in(manifests: Iterable[Mapping[str, Any]], find_rules: FindRules) -> Iterator[Grant]:
    """Yield what RBAC objects grant."""
    for manifest in manifests:
        key = key_of(manifest)
        if key.group == RBAC and key.kind in _PLURALS:
            instead = _right(key.namespace, _PLURALS[key.kind], key.name, "escalate")
            everything = _EVERYTHING if manifest.get("aggregationRule") else ()
            yield Grant(instead=instead, rights=(*_rights(manifest.get("rules"), key.namespace), *everything))
        elif key.group == RBAC and key.kind in ("RoleBinding", "ClusterRoleBinding"):
            yield _bound(key.namespace, mapping(manifest, "roleRef"), find_rules)


def _bound(namespace: str, reference: Mapping[str, Any], find_rules: FindRules) -> Grant:
    kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
    rules = find_rules(kind, namespace if kind == "Role" else "", name)
    instead = _right(namespace, _PLURALS.get(kind, ""), name, "bind")
    return Grant(instead=instead, rights=_rights(rules, namespace))


def _right(namespace: str, plural: str, name: str, verb: str) -> RbacRight:
    return RbacRight(namespace=namespace, groups=(RBAC,), resources=(plural,), resource_names=(name,), verbs=(verb,))


def _rights(rules: Any, namespace: str) -> tuple[RbacRight, ...]:
    return tuple(right for rule in sequence(rules) for right in _single(mapping(rule), namespace))


def _single(rule: Mapping[str, Any], namespace: str) -> Iterator[RbacRight]:
    """Split a rule, since a review is about one right. Malformed rules are left for the API server to refuse."""
    verbs = texts(rule, "verbs")
    for path, verb in product(texts(rule, "nonResourceURLs"), verbs):
        yield RbacRight(paths=(path,), verbs=(verb,))
    names = texts(rule, "resourceNames") or [""]
    for group, plural, name, verb in product(texts(rule, "apiGroups"), texts(rule, "resources"), names, verbs):
        yield RbacRight(
            namespace=namespace,
            groups=(group,),
            resources=(plural,),
            resource_names=(name,) if name else (),
            verbs=(verb,),
        )
