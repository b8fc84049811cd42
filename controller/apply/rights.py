"""What an account must be allowed to do to install a revision, and what it lacks.

Reads that only explain or speed things up are left out: they are the controller's own, or nothing depends on them.

A client that writes a Role or a binding must hold every right in it, or `escalate` on the Role, or `bind` on the bound
Role (Kubernetes, RBAC good practices).

Pure. Not here: asking the API server (execute.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.ownership import is_kept
from rukpak.controller.apply.targets import Target
from rukpak.controller.building.revision import Revision
from rukpak.controller.content.limits import some
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import CLUSTER_ROLES, RBAC, ROLES, GroupVersionKind, Resource
from rukpak.controller.observe.records import key_of
from rukpak.controller.permissions.statement import Right, including
from rukpak.controller.untrusted import mapping, sequence, texts

Manifest = Mapping[str, Any]
FindResource = Callable[[GroupVersionKind], Resource]
"""Returns the resource of a kind; for one that is not served yet, the resource that it will have."""
_ADMISSION = "admissionregistration.k8s.io"
_POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
MOST_RIGHTS = 50_000
"""Rights of one role that are looked at."""
BINDINGS = ("RoleBinding", "ClusterRoleBinding")
# For judging, applying and deleting an object.
_VERBS = ("create", "delete", "get", "patch")
_PLURALS = {each.kind: each.plural for each in (ROLES, CLUSTER_ROLES)}
Rules = Iterable[Mapping[str, Any]]
FindRules = Callable[[str, str, str], Rules]
"""Returns the rules of a Role or ClusterRole by kind, namespace and name; none if it is unknown."""
ROLES_CHARACTERS = 800
"""For the roles in a message of at most 1,000."""
ROLE_CHARACTERS = 40
"""For the text around the rules of one role."""
_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) '
    r'(?:resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)|path "(?P<path>[^"]*)")'
)
_ESCALATING = "is attempting to grant RBAC permissions not currently held:"
_USER = re.compile(r'user "([^"]*)" ')
_RULE = re.compile(r"\{[^{}\n]*\}")
_ATTRIBUTE = re.compile(r"\b(\w+):\[([^\[\]]*)\]")
# A word that YAML reads as a string.
_PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[a-z][a-z0-9./-]*")
_ITEM = re.compile(r'"([^"]*)"')


def find_rights(revision: Revision, find_resource: FindResource) -> list[RbacRight]:
    """Return the rights that a revision requires, each with one verb, without those that others include.

    Raises: BundleError (RenderLimitExceeded) if its roles have too many.
    """
    hooks = [hook["manifest"] for hook in revision.hooks]
    manifests = [*revision.objects, *hooks]
    needed: set[RbacRight] = set()
    for item in manifests:
        resource, verbs = find_resource(GroupVersionKind.of(item)), _verbs(item, revision)
        namespace = key_of(item).namespace or (revision.terms.install_namespace if resource.namespaced else "")
        needed.update(_make(verb, namespace, (resource.group, resource.plural, "")) for verb in verbs)
    granted = list(islice(_to_grant(manifests), MOST_RIGHTS))
    if len(granted) == MOST_RIGHTS:
        problem = f"the roles of the bundle have {MOST_RIGHTS:,} or more combinations of groups, resources and verbs"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; use wildcards, or split the bundle")
    needed.update(granted, _to_read_parameters(manifests, find_resource))
    return sorted(right for right in needed if not _is_included(right, needed))


def _verbs(item: Manifest, revision: Revision) -> tuple[str, ...]:
    # The install namespace is only read, and what is kept is not deleted.
    key = key_of(item)
    if key == ObjectKey("", "Namespace", "", revision.terms.install_namespace):
        return ("get",)
    annotations = (item.get("metadata") or {}).get("annotations") or {}
    is_claim = key[:2] == ("", "PersistentVolumeClaim")
    if is_kept(item) or (is_claim and annotations.get(names.PRUNE) != "true"):
        return ("create", "get", "patch")
    return _VERBS


def _to_grant(manifests: Iterable[Manifest]) -> Iterator[RbacRight]:
    """Yield what the API server demands of whoever writes roles and bindings.

    That are the rights in a role. `escalate` instead, where the control plane fills the role, since its content is not
    known, and `bind` for a role that the bundle does not bring: each for that one role.
    """
    items = list(manifests)
    brought = {key_of(item) for item in items}
    for grant in grants_in(items, lambda *_: ()):
        if grant.needs_only_one(brought):
            yield grant.instead
        elif not grant.is_binding:  # the role that is bound has its own
            yield from grant.rights


def _to_read_parameters(manifests: Iterable[Manifest], find_resource: FindResource) -> Iterator[RbacRight]:
    # Who writes an admission policy must be allowed to read its parameters everywhere.
    for item in manifests:
        key: ObjectKey = key_of(item)
        kind = mapping(item, "spec", "paramKind")
        if key.group == _ADMISSION and key.kind in _POLICIES and kind:
            try:
                resource = find_resource(GroupVersionKind.of(kind))
            except ValueError:  # the API server refuses the policy
                continue
            yield _make("get", "", (resource.group, resource.plural, ""))


def _is_included(right: RbacRight, others: set[RbacRight]) -> bool:
    single: Right = right.paths or (right.groups[0], right.resources[0], "".join(right.resource_names))
    found = (_make(*each) for each in including(single, right.verbs[0], {right.namespace, ""}))
    return any(each != right and each in others for each in found)


def _make(verb: str, namespace: str, right: Right) -> RbacRight:
    if len(right) == 1:
        return RbacRight(paths=right, verbs=(verb,))
    group, resource, name = right
    return RbacRight(
        namespace=namespace,
        groups=(group,),
        resources=(resource,),
        resource_names=(name,) if name else (),
        verbs=(verb,),
    )


def make_roles(rights: Iterable[RbacRight], *, name: str, account: tuple[str, str]) -> list[dict[str, Any]]:
    """Return the Roles and ClusterRole that grant rights, each followed by its binding.

    Args:
        rights: to grant.
        name: of all these objects.
        account: namespace and name of the ServiceAccount.
    """
    rules: dict[str, list[dict[str, Any]]] = {}
    for rule in merge(rights):
        rules.setdefault(rule.namespace, []).append(_to_rule(rule))
    return [made for namespace in sorted(rules) for made in _bind(rules[namespace], namespace, name, account)]


def _to_rule(rule: RbacRight) -> dict[str, Any]:
    if rule.paths:
        return {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}
    some = {"resourceNames": list(rule.resource_names)} if rule.resource_names else {}
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), **some, "verbs": list(rule.verbs)}


def _bind(
    rules: list[dict[str, Any]], namespace: str, name: str, account: tuple[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    kind = "Role" if namespace else "ClusterRole"
    about = {"name": name, **({"namespace": namespace} if namespace else {})}
    subject = {"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    role = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": about, "rules": rules}
    binding = {"roleRef": reference, "subjects": [subject]}
    return role, {"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": dict(about), **binding}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The rights that a client must hold to grant them."""

    instead: RbacRight
    """One right that suffices as well."""
    rules: Rules
    """What is granted."""
    namespace: str
    """Where; empty: everywhere."""
    role: ObjectKey
    """The role that has the rules."""
    is_binding: bool = False
    """Whether a role is bound, and not written."""
    is_filled: bool = False
    """Whether the control plane fills the role."""

    def needs_only_one(self, brought: Collection[ObjectKey]) -> bool:
        """Whether to ask for the one right: for a role that is filled later, and to bind one of somebody else.

        Args:
            brought: what the bundle has. A client that writes a role holds its rights anyway.
        """
        return self.is_filled or (self.is_binding and self.role not in brought)

    @property
    def rights(self) -> tuple[RbacRight, ...]:
        """The first `MOST_RIGHTS`, made when they are asked for: a few short lists of words make billions."""
        found = (right for rule in sequence(self.rules) for right in _single(mapping(rule), self.namespace))
        return (*islice(found, MOST_RIGHTS), *(_EVERYTHING if self.is_filled else ()))


def rights_to_apply(items: Iterable[tuple[Target, Resource]]) -> Iterator[RbacRight]:
    """Yield the rights that objects require, each with one verb and once per resource and namespace."""
    distinct = dict.fromkeys((target.key.namespace, resource.group, resource.plural) for target, resource in items)
    for (namespace, group, plural), verb in product(distinct, _VERBS):
        yield _make(verb, namespace, (group, plural, ""))


def grants_in(manifests: Iterable[Mapping[str, Any]], find_rules: FindRules) -> Iterator[Grant]:
    """Yield what RBAC objects grant."""
    for manifest in manifests:
        key = key_of(manifest)
        if key.group == RBAC and key.kind in _PLURALS:
            yield Grant(
                instead=_make("escalate", key.namespace, (RBAC, _PLURALS[key.kind], key.name)),
                rules=manifest.get("rules") or (),
                namespace=key.namespace,
                role=key,
                is_filled=bool(manifest.get("aggregationRule")),
            )
        elif key.group == RBAC and key.kind in BINDINGS:
            yield _bound(key.namespace, mapping(manifest, "roleRef"), find_rules)


def _bound(namespace: str, reference: Mapping[str, Any], find_rules: FindRules) -> Grant:
    kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
    role = ObjectKey(RBAC, kind, namespace if kind == "Role" else "", name)
    instead = _make("bind", namespace, (RBAC, _PLURALS.get(kind, ""), name))
    return Grant(instead=instead, rules=find_rules(*role[1:]), namespace=namespace, role=role, is_binding=True)


def _single(rule: Mapping[str, Any], namespace: str) -> Iterator[RbacRight]:
    # A review is about one right. Malformed rules are left for the API server to refuse.
    verbs = texts(rule, "verbs")
    for path, verb in product(texts(rule, "nonResourceURLs"), verbs):
        yield _make(verb, "", (path,))
    names = texts(rule, "resourceNames") or [""]
    for *right, verb in product(texts(rule, "apiGroups"), texts(rule, "resources"), names, verbs):
        yield _make(verb, namespace, tuple(right))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RbacRight:
    """What an RBAC rule must allow."""

    namespace: str = ""
    """Empty for the cluster scope."""
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    """Empty for all."""
    paths: tuple[str, ...] = ()
    """Instead of resources: nonResourceURLs."""
    verbs: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it in the form of messages: `get,list deployments.apps in namespace "foo"`."""
        group = f".{','.join(self.groups)}" if any(self.groups) else ""
        subject = ",".join(self.paths) or ",".join(self.resources) + group
        names = "".join(f' "{name}"' for name in self.resource_names)
        where = f' in namespace "{self.namespace}"' if self.namespace else ""
        return f"{','.join(self.verbs)} {subject}{names}{where}"


# Whoever lets the control plane fill a ClusterRole needs what may end up in it (pkg/registry/rbac/clusterrole).
_EVERYTHING = (
    RbacRight(groups=("*",), resources=("*",), verbs=("*",)),
    RbacRight(paths=("*",), verbs=("*",)),
)


class MissingRightsError(BundleError):
    """An account lacks rights that an object requires."""

    def __init__(self, problem: str, account: str, rights: tuple[RbacRight, ...], *, place: str = "") -> None:
        super().__init__(Reason.FORBIDDEN, problem, place=place)
        self.account = account
        self.rights = rights


def narrow(error: BundleError | None, manifest: Manifest, brought: Collection[ObjectKey]) -> BundleError | None:
    """Return an error, and of one about the rights that an object grants one that asks only for `bind` or `escalate`.

    Args:
        error: of the object.
        manifest: of the object.
        brought: as `Grant.needs_only_one` takes it.
    """
    if not isinstance(error, MissingRightsError):
        return error
    grant = next(grants_in([manifest], lambda *_: ()), None)
    if grant is None or not grant.needs_only_one(brought):
        return error
    own = (RBAC,), (f"{str(manifest['kind']).lower()}s",)
    if all((right.groups, right.resources) == own for right in error.rights):  # it may not be written at all
        return error
    return MissingRightsError(error.message, error.account, (grant.instead,))


class LackOfRightsError(BundleError):
    """All rights that an account lacks, in one message."""


def parse_denial(message: str) -> tuple[str, tuple[RbacRight, ...]]:
    """Return the account that a 403 is about, and the right that it lacks; empty for another message."""
    match = _DENIED.search(message)
    if match is None:
        return "", ()
    found = match.groupdict("")
    right = (found["path"],) if found["path"] else (found["group"], found["resource"], "")
    return found["user"], (_make(found["verb"], found["namespace"], right),)


def parse_escalation(message: str, namespace: str) -> tuple[str, tuple[RbacRight, ...]]:
    """Return the account that may not grant rights, and those that it lacks itself; empty for another message.

    Args:
        message: of the 403.
        namespace: of the Role or RoleBinding; empty for the cluster scope.
    """
    before, is_escalation, after = message.partition(_ESCALATING)
    user = _USER.search(before.rpartition("\n")[2]) if is_escalation else None
    if user is None:
        return "", ()
    rules = (rule for rule in _RULE.findall(after) if "Verbs:[" in rule and rule.endswith("]}"))
    return user[1], tuple(_parse_rule(rule, namespace) for rule in rules)


def describe_rights(rights: Iterable[RbacRight]) -> str:
    """Return rights as one list, equal for equal rights in any order; verbs of one resource are merged."""
    verbs: dict[RbacRight, set[str]] = {}
    for right in rights:
        verbs.setdefault(replace(right, verbs=()), set()).update(right.verbs)
    shown = [str(replace(subject, verbs=tuple(sorted(verbs[subject])))) for subject in sorted(verbs)]
    return some(shown, ";")


def for_apply(rights: Iterable[RbacRight]) -> tuple[RbacRight, ...]:
    """Return rights with create added to patch: an apply also needs that for an object that does not exist."""
    return tuple(replace(right, verbs=("create", "patch")) if right.verbs == ("patch",) else right for right in rights)


def list_all(
    errors: Iterable[BundleError | None], name: str, more: Iterable[RbacRight] = ()
) -> LackOfRightsError | None:
    """Return one error that lists all missing rights, so that they can be granted at once; None if none is missing.

    Args:
        errors: of one pass.
        name: of the BundleDeployment.
        more: other rights that the same account lacks.
    """
    missing = [error for error in errors if isinstance(error, MissingRightsError)]
    if not missing:
        return None
    account = min(error.account for error in missing)
    rights = [right for error in missing if error.account == account for right in error.rights]
    return lack_of([*rights, *more], account, name)


def lack_of(rights: Iterable[RbacRight], account: str, name: str) -> LackOfRightsError:
    """Return the error of an account that lacks rights to apply what a BundleDeployment of some name has."""
    roles = f'grant it {describe_roles(rights)}; "rukpak rights {name}" prints those for the whole bundle'
    message = f'"{account}" lacks permissions; {roles}'
    return LackOfRightsError(Reason.FORBIDDEN, message)


def describe_roles(rights: Iterable[RbacRight]) -> str:
    """Return the Roles that would grant rights: their rules as YAML on one line, equal for equal rights in any order.

    Rules that do not fit into a message are only counted; they are listed once the others are granted.
    """
    roles: dict[str, list[str]] = {}
    left, omitted = ROLES_CHARACTERS, 0
    for rule in merge(rights):
        namespace, text = rule.namespace, _to_yaml(rule)
        left -= len(text) + (0 if namespace in roles else len(namespace) + ROLE_CHARACTERS)
        if left < 0:
            omitted += 1
        else:
            roles.setdefault(namespace, []).append(text)
    shown = [f"{_role_in(namespace)} with rules: [{', '.join(texts)}]" for namespace, texts in roles.items()]
    return "; ".join(shown) + (f"; and {omitted} more rules" if omitted else "")


def _role_in(namespace: str) -> str:
    return f'a Role in namespace "{namespace}"' if namespace else "a ClusterRole"


def merge(rights: Iterable[RbacRight]) -> list[RbacRight]:
    """Return the rules that grant rights: verbs of a resource merged, then resources with the same verbs; sorted."""
    verbs: dict[RbacRight, set[str]] = {}
    for right in rights:
        for group, resource in product(right.groups or ("",), right.resources or ("",)):
            subject = replace(right, groups=(group,), resources=(resource,), verbs=())
            verbs.setdefault(subject, set()).update(right.verbs)
    alike: dict[RbacRight, set[str]] = {}
    for subject, of_subject in verbs.items():
        rule = replace(subject, resources=(), verbs=tuple(sorted(of_subject)))
        alike.setdefault(rule, set()).update(subject.resources)
    return [replace(rule, resources=tuple(sorted(alike[rule]))) for rule in sorted(alike)]


def _to_yaml(rule: RbacRight) -> str:
    return f"{{{', '.join(f'{name}: {_flow(words)}' for name, words in _to_rule(rule).items())}}}"


def _flow(texts: Iterable[str]) -> str:
    return f"[{', '.join(text if _PLAIN.fullmatch(text) else json.dumps(text) for text in texts)}]"


def _parse_rule(text: str, namespace: str) -> RbacRight:
    attributes = {name: tuple(_ITEM.findall(items)) for name, items in _ATTRIBUTE.findall(text)}
    return RbacRight(
        namespace=namespace,
        groups=attributes.get("APIGroups", ()),
        resources=attributes.get("Resources", ()),
        resource_names=attributes.get("ResourceNames", ()),
        paths=attributes.get("NonResourceURLs", ()),
        verbs=attributes.get("Verbs", ()),
    )
