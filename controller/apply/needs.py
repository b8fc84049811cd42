"""Which rights an account needs to apply objects, those that it would grant by them included. Pure.

Whoever writes a Role or a binding has to hold every right in it, or `escalate` on the Role, or `bind` on the Role that
is bound (Kubernetes, RBAC good practices). Whether an account has a right is asked by review.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from controller.apply.rights import Right
from controller.apply.targets import Target
from controller.kube.resources import CLUSTER_ROLES, RBAC, ROLES, Resource

# Read to be judged, made and changed, and taken away again.
_VERBS = ("create", "delete", "get", "patch")
_PLURALS = {each.kind: each.plural for each in (ROLES, CLUSTER_ROLES)}

Rules = Iterable[Mapping[str, Any]]
FindRules = Callable[[str, str, str], Rules]
"""Returns the rules of a Role or ClusterRole by kind, namespace and name; none if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What somebody has to hold who grants it."""

    instead: Right
    """The one right that does as well."""
    rights: tuple[Right, ...]


def rights_to_apply(items: Iterable[tuple[Target, Resource]]) -> Iterator[Right]:
    """Yield the rights that objects need, each with one verb and once for each resource and namespace."""
    places = dict.fromkeys((target.key.namespace, resource.group, resource.plural) for target, resource in items)
    for (namespace, group, plural), verb in product(places, _VERBS):
        yield Right(namespace=namespace, groups=(group,), resources=(plural,), verbs=(verb,))


def grants_in(targets: Iterable[Target], find_rules: FindRules) -> Iterator[Grant]:
    """Yield what objects of RBAC grant."""
    for target in targets:
        key, manifest = target.key, target.manifest
        if key.group == RBAC and key.kind in _PLURALS:
            instead = _right(key.namespace, _PLURALS[key.kind], key.name, "escalate")
            yield Grant(instead=instead, rights=_rights(manifest.get("rules") or (), key.namespace))
        elif key.group == RBAC and key.kind in ("RoleBinding", "ClusterRoleBinding"):
            yield _bound(target, manifest.get("roleRef") or {}, find_rules)


def _bound(target: Target, reference: Mapping[str, Any], find_rules: FindRules) -> Grant:
    kind, name, namespace = str(reference.get("kind", "")), str(reference.get("name", "")), target.key.namespace
    rules = find_rules(kind, namespace if kind == "Role" else "", name)
    instead = _right(namespace, _PLURALS.get(kind, ""), name, "bind")
    return Grant(instead=instead, rights=_rights(rules, namespace))


def _right(namespace: str, plural: str, name: str, verb: str) -> Right:
    return Right(namespace=namespace, groups=(RBAC,), resources=(plural,), resource_names=(name,), verbs=(verb,))


def _rights(rules: Rules, namespace: str) -> tuple[Right, ...]:
    return tuple(right for rule in rules for right in _single(rule, namespace))


def _single(rule: Mapping[str, Any], namespace: str) -> Iterator[Right]:
    """Take a rule apart: the API server is asked about one thing at a time."""
    verbs = rule.get("verbs") or ()
    for path, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield Right(paths=(path,), verbs=(verb,))
    names = rule.get("resourceNames") or ("",)
    for group, plural, name, verb in product(rule.get("apiGroups") or (), rule.get("resources") or (), names, verbs):
        called = (name,) if name else ()
        yield Right(namespace=namespace, groups=(group,), resources=(plural,), resource_names=called, verbs=(verb,))
