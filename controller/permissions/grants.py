"""What a bundle may do by RBAC: its Roles, and who is bound to them.

A role that no binding of the bundle binds is stated for whoever is bound to it: others may bind it. Rules are split, so
that it makes no difference how rights are distributed over rules, roles and bindings. If that gives too many
statements, none is split, and a digest of all roles and bindings stands for the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from rukpak.controller import untrusted
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.formats.objects import ObjectKey, identify
from rukpak.controller.kube.resources import RBAC
from rukpak.controller.permissions.statement import (
    EVERYWHERE,
    WHERE_BOUND,
    Severity,
    Statement,
    Topic,
    is_kind,
    name_object,
    resources_including,
    shortened,
    texts,
)
from rukpak.controller.untrusted import mapping, mappings, sequence

_PATH_CHARACTERS = 32
_AGGREGATED_TO = "aggregate-to-"
MAX_RIGHTS = 20_000
"""Statements about rights in one bundle; the largest known operators have a few thousand."""
Objects = Iterable[Mapping[str, Any]]
_GROUPS = {
    "system:authenticated": "every user and ServiceAccount",
    "system:unauthenticated": "anyone, without logging in",
    "system:serviceaccounts": "every ServiceAccount",
    "system:masters": "administrators of the cluster",
}
_ACCOUNTS_OF = "system:serviceaccounts:"
_ACCOUNT = "system:serviceaccount:"
_ANONYMOUS = "system:anonymous"
# Built-in roles; the rules of each include those of the ones before.
_BUILT_IN = ("view", "edit", "admin")
_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A Role or ClusterRole of the bundle."""

    name: ObjectKey
    rules: Sequence[Mapping[str, Any]]
    labels: Mapping[str, Any]
    selectors: Sequence[Mapping[str, Any]]
    """Selectors of the ClusterRoles that are aggregated into it."""

    @property
    def aggregated_to(self) -> list[str]:
        """The roles that its labels add it to, as Kubernetes names such labels: `admin`, `edit`, `view`, or others."""
        keys = (str(key) for key, value in self.labels.items() if value == "true")
        return sorted({shortened(key.partition(_AGGREGATED_TO)[2]) for key in keys if _AGGREGATED_TO in key})


def read_roles(objects: Iterable[Mapping[str, Any]]) -> dict[ObjectKey, Role]:
    """Return the roles among objects."""
    roles: dict[ObjectKey, Role] = {}
    for item in objects:
        if is_kind(item, RBAC, "Role", "ClusterRole"):
            key = identify(item)
            name = _role_name(key.kind, key.namespace, key.name)
            roles[name] = Role(
                name=name,
                rules=tuple(mappings(item, "rules")),
                labels=mapping(item, "metadata", "labels"),
                selectors=tuple(mappings(item, "aggregationRule", "clusterRoleSelectors")),
            )
    return roles


def _role_name(kind: str, namespace: str, name: str) -> ObjectKey:
    return ObjectKey(RBAC, kind, namespace if kind == "Role" else "", shortened(name))


def aggregate(role: Role, roles: Mapping[ObjectKey, Role]) -> Iterator[Role]:
    """Yield a role, and the ClusterRoles of the bundle that are aggregated into it."""
    yield role
    for other in roles.values() if role.selectors else ():
        if other.name.kind == "ClusterRole" and any(_selects(selector, other.labels) for selector in role.selectors):
            yield other


def _selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    wanted = mapping(selector, "matchLabels").items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _fulfils(labels, expression) for expression in mappings(selector, "matchExpressions")
    )


def _fulfils(labels: Mapping[str, Any], expression: Mapping[str, Any]) -> bool:
    value, operator = labels.get(str(expression.get("key"))), expression.get("operator")
    match operator:
        case "In":
            return value in untrusted.texts(expression, "values")
        case "NotIn":
            return value not in untrusted.texts(expression, "values")
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
    """Return how many rights a rule has, without listing them; long paths count more, for all that may include them."""
    groups, resources, names, verbs = (
        len(texts(rule.get(field))) for field in ("apiGroups", "resources", "resourceNames", "verbs")
    )
    paths = sum(1 + len(path) // _PATH_CHARACTERS for path in texts(rule.get("nonResourceURLs")))
    return verbs * (groups * resources * max(names, 1) + paths)


def count_words(selector: Mapping[str, Any]) -> int:
    """Return how many words of a selector are compared with the labels of each role, at least one."""
    expressions = mappings(selector, "matchExpressions")
    values = sum(1 + len(sequence(expression, "values")) for expression in expressions)
    return 1 + len(mapping(selector, "matchLabels")) + values


@dataclass(frozen=True, slots=True)
class _Grant:
    """A role that a holder has in a scope."""

    who: str
    where: str
    role: ObjectKey
    """Also one that the bundle does not bring."""
    is_public: bool = False


def find_grants(objects: Objects) -> Iterator[Statement]:
    """Yield what roles and bindings grant, each statement possibly several times."""
    items = [item for item in objects if is_kind(item, RBAC, *_KINDS)]
    roles = read_roles(items)
    bound = [grant for item in items for grant in _bound(item)]
    named = {grant.role for grant in bound}
    grants = [*bound, *(grant for role in roles.values() for grant in _open(role, is_bound=role.name in named))]
    rights = _count(grants, roles)
    digest = "" if rights <= MAX_RIGHTS else digest_of_json(sorted(map(digest_of_json, map(_content, items))))
    aggregated = {} if digest else {role.name: list(aggregate(role, roles)) for role in roles.values()}
    for grant in grants:
        role = roles.get(grant.role)
        if role is None:
            yield _unknown(grant)
        elif digest:
            what = f"the rules of {grant.role}, too many to list ({digest[:19]})"
            yield _about_role(grant, what, ("unsplit", digest, "", ""))
        else:
            yield from _split(grant, role, aggregated[role.name])


def _content(item: Mapping[str, Any]) -> list[Any]:
    fields = ("rules", "aggregationRule", "roleRef", "subjects")
    return [name_object(item), mapping(item, "metadata").get("labels"), *map(item.get, fields)]


def _bound(item: Mapping[str, Any]) -> Iterator[_Grant]:
    if not is_kind(item, RBAC, "RoleBinding", "ClusterRoleBinding"):
        return
    namespace = "" if item["kind"] == "ClusterRoleBinding" else identify(item).namespace
    reference = mapping(item, "roleRef")
    role = _role_name(str(reference.get("kind")), namespace, str(reference.get("name")))
    for subject in mappings(item, "subjects"):
        # Without a namespace, the authorizer takes that of the RoleBinding.
        who, is_public = _holder({**subject, "namespace": subject.get("namespace") or namespace})
        yield _Grant(who, f"in namespace {namespace}" if namespace else EVERYWHERE, role, is_public)


def _holder(subject: Mapping[str, Any]) -> tuple[str, bool]:
    kind, name, namespace = (shortened(str(subject.get(field) or "")) for field in ("kind", "name", "namespace"))
    if kind == "User" and name.startswith(_ACCOUNT) and name.count(":") == _ACCOUNT.count(":") + 1:
        namespace, _, name = name.removeprefix(_ACCOUNT).partition(":")
        kind = "ServiceAccount"
    meaning = _GROUPS.get(name, "") if kind == "Group" else ""
    if kind == "Group" and name.startswith(_ACCOUNTS_OF):
        meaning = f"every ServiceAccount in namespace {name.removeprefix(_ACCOUNTS_OF)}"
    if kind == "User" and name == _ANONYMOUS:
        meaning = _GROUPS["system:unauthenticated"]
    who = f"{kind} {namespace}/{name}" if namespace and kind == "ServiceAccount" else f"{kind} {name}"
    return (f"{who} ({meaning})" if meaning else who), bool(meaning)


def _open(role: Role, *, is_bound: bool) -> Iterator[_Grant]:
    where = f"in namespace {role.name.namespace}" if role.name.kind == "Role" else WHERE_BOUND
    for other in role.aggregated_to if role.name.kind == "ClusterRole" else ():
        higher = _BUILT_IN[_BUILT_IN.index(other) :] if other in _BUILT_IN else (other,)
        yield _Grant(f"whoever is bound to ClusterRole {_list(higher)}", where, role.name)
    if not (is_bound or role.aggregated_to):
        yield _Grant(f"whoever is bound to {role.name}", where, role.name)


def _list(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _count(grants: Iterable[_Grant], roles: Mapping[ObjectKey, Role]) -> int:
    words = sum(count_words(selector) for role in roles.values() for selector in role.selectors)
    if words * len(roles) > MAX_RIGHTS:
        return MAX_RIGHTS + 1
    own = {role.name: sum(map(count_rights, role.rules)) for role in roles.values()}
    counts = {
        role.name: sum(own[each.name] for each in aggregate(role, roles)) + len(role.selectors) + 1
        for role in roles.values()
    }
    return sum(counts.get(grant.role, 1) for grant in grants)


def _split(grant: _Grant, role: Role, aggregated: Iterable[Role]) -> Iterator[Statement]:
    for rule in (rule for each in aggregated for rule in each.rules):
        for right, verb in rights_in(rule, everywhere=grant.where != f"in namespace {role.name.namespace}"):
            yield make_right(grant.who, verb, right, grant.where, is_public=grant.is_public)
    for selector in role.selectors:
        what = f"what ClusterRoles of others allow that {role.name} selects"
        yield _about_role(grant, what, ("aggregated", digest_of_json(selector), "", ""))


def make_right(who: str, verb: str, right: tuple[str, ...], where: str, *, is_public: bool = False) -> Statement:
    """Return the statement about a right, as group, resource and name, or as a path."""
    mark, severity = judge(right, verb, where)
    return Statement(
        topic=Topic.ACCESS,
        who=who,
        verb=verb,
        what=_describe(right),
        where="" if len(right) == 1 else where,
        right=right,
        mark=mark,
        severity=max(severity, Severity.HIGH) if is_public else severity,
    )


def _describe(right: tuple[str, ...]) -> str:
    if len(right) == 1:
        return f"path {right[0]}"
    group, resource, name = right
    plural, slash, subresource = resource.partition("/")
    text = f"{plural}{group and f'.{group}'}{slash}{subresource}"
    if resource == "*" and not group:
        text = "* of the core API group"
    return f'{text} "{name}"' if name else text


def _about_role(
    grant: _Grant, what: str, right: tuple[str, ...], mark: str = "", severity: Severity = Severity.HIGH
) -> Statement:
    return Statement(
        topic=Topic.ACCESS, who=grant.who, what=what, where=grant.where, right=right, mark=mark, severity=severity
    )


def _unknown(grant: _Grant) -> Statement:
    _, kind, namespace, name = grant.role
    is_everywhere = grant.where == EVERYWHERE
    is_admin = kind == "ClusterRole" and (
        (name == "cluster-admin" and grant.where in (EVERYWHERE, SYSTEM_NAMESPACE))
        or (name in ("admin", "edit") and is_everywhere)
    )
    severity = Severity.ADMIN if is_admin else Severity.HIGH if grant.is_public else Severity.NORMAL
    what = f"all that {grant.role} allows"
    return _about_role(grant, what, ("role", kind, namespace, name), ADMIN if is_admin else "", severity)


ADMIN = "amounts to cluster-admin"
ADMIN_IF_BOUND = "amounts to cluster-admin if bound in all namespaces"
SECRETS = "reads every Secret"
WILDCARD = "wildcard"
SYSTEM_NAMESPACE = "in namespace kube-system"

_WRITE = ("create", "patch", "update")
_READ = ("get", "list", "watch")
_POWERFUL_NAMES = frozenset({"cluster-admin", "system:masters", "admin", "edit", "kubernetes.io/*"})
_ADMISSION = "admissionregistration.k8s.io"
_CERTIFICATES = "certificates.k8s.io"


class _Danger(NamedTuple):
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    mark: str = ADMIN
    even_named: bool = False
    """Whether it is as dangerous for a single object."""


_DANGERS = (
    _Danger(RBAC, ("clusterroles", "roles"), ("escalate",), even_named=True),
    _Danger(RBAC, ("clusterroles", "roles"), ("bind",)),
    _Danger("", ("users", "groups", "serviceaccounts"), ("impersonate",)),
    _Danger("", ("serviceaccounts/token",), ("create",)),
    _Danger("", ("pods", "replicationcontrollers"), _WRITE),
    _Danger("", ("pods/exec", "pods/attach"), ("create", "get")),
    _Danger("", ("pods/ephemeralcontainers",), ("patch", "update")),
    _Danger("", ("nodes/proxy",), ("create", "get"), even_named=True),
    _Danger("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), _WRITE),
    _Danger("batch", ("cronjobs", "jobs"), _WRITE),
    _Danger(_ADMISSION, ("mutatingwebhookconfigurations", "mutatingadmissionpolicies"), _WRITE, even_named=True),
    _Danger(_CERTIFICATES, ("signers",), ("approve", "sign")),
    _Danger("", ("secrets",), _READ, SECRETS),
    _Danger(_ADMISSION, ("validatingwebhookconfigurations",), _WRITE, "may see every request that writes", True),
    _Danger("", ("persistentvolumes",), ("create",), "may reach the file systems of nodes"),
    _Danger("apiregistration.k8s.io", ("apiservices",), _WRITE, "may answer for other APIs", True),
)


def judge(right: tuple[str, ...], verb: str, where: str) -> tuple[str, Severity]:
    """Return why a right needs attention, and how much: its group, resource and name, or its path; '': it does not."""
    if len(right) == 1:
        return WILDCARD if "*" in (right[0], verb) else "", Severity.NORMAL
    if where in (EVERYWHERE, SYSTEM_NAMESPACE, WHERE_BOUND):
        danger = next((each for each in _DANGERS if _is(right, verb, each)), None)
        if danger:
            return _grade(danger.mark, where)
    group, resource, _ = right
    if (group, resource) == ("*", "*"):
        return WILDCARD, Severity.HIGH
    return WILDCARD if "*" in (group, verb, *resource.split("/")) else "", Severity.NORMAL


def _is(right: tuple[str, ...], verb: str, danger: _Danger) -> bool:
    group, resource, name = right
    return (
        group in ("*", danger.group)
        and verb in ("*", *danger.verbs)
        and any(resource in resources_including(each) for each in danger.resources)
        and (not name or danger.even_named or name in _POWERFUL_NAMES)
    )


def _grade(mark: str, where: str) -> tuple[str, Severity]:
    if mark != ADMIN:
        in_one = mark == SECRETS and where == SYSTEM_NAMESPACE
        return "reads the Secrets of the control plane" if in_one else mark, Severity.HIGH
    return (ADMIN_IF_BOUND, Severity.HIGH) if where == WHERE_BOUND else (ADMIN, Severity.ADMIN)
