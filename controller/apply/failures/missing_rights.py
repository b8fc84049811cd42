"""Rights that an account lacks, read from the text of a 403 and described for a message.

Not here: which reply is about rights (replies.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from api.errors import BundleError
from api.v1alpha2.conditions import Reason

SHOWN = 10
ROLES_CHARACTERS = 800
"""For the roles in a message of at most 1,000."""
ROLE_CHARACTERS = 40
"""For the text around the rules of one role."""

_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) '
    r'(?:resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)|path "(?P<path>[^"]*)")'
)
_ESCALATING = re.compile(r'user "([^"]*)" .*is attempting to grant RBAC permissions not currently held:')
_RULE = re.compile(r"\{[^{}\n]*Verbs:\[[^\]]*\]\}")
_ATTRIBUTE = re.compile(r"(\w+):\[([^\]]*)\]")
# A word that YAML reads as a string.
_PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[a-z][a-z0-9./-]*")
_ITEM = re.compile(r'"([^"]*)"')


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


class MissingRightsError(BundleError):
    """An account lacks rights that an object requires."""

    def __init__(self, message: str, account: str, rights: tuple[RbacRight, ...]) -> None:
        super().__init__(Reason.FORBIDDEN, message)
        self.account = account
        self.rights = rights


class LackOfRightsError(BundleError):
    """All rights that an account lacks, in one message."""


def parse_denial(message: str) -> tuple[str, tuple[RbacRight, ...]]:
    """Return the account that a 403 is about, and the right that it lacks; empty for another message."""
    match = _DENIED.search(message)
    if match is None:
        return "", ()
    found = match.groupdict("")
    right = RbacRight(
        namespace=found["namespace"],
        groups=() if found["path"] else (found["group"],),
        resources=(found["resource"],) if found["resource"] else (),
        paths=(found["path"],) if found["path"] else (),
        verbs=(found["verb"],),
    )
    return found["user"], (right,)


def parse_escalation(message: str, namespace: str) -> tuple[str, tuple[RbacRight, ...]]:
    """Return the account that may not grant rights, and those that it lacks itself; empty for another message.

    Args:
        message: of the 403.
        namespace: of the Role or RoleBinding; empty for the cluster scope.
    """
    match = _ESCALATING.search(message)
    if match is None:
        return "", ()
    return match[1], tuple(_parse_rule(rule, namespace) for rule in _RULE.findall(message[match.end() :]))


def describe_rights(rights: Iterable[RbacRight]) -> str:
    """Return rights as one list, equal for equal rights in any order; verbs of one resource are merged."""
    verbs: dict[RbacRight, set[str]] = {}
    for right in rights:
        verbs.setdefault(replace(right, verbs=()), set()).update(right.verbs)
    shown = [str(replace(subject, verbs=tuple(sorted(verbs[subject])))) for subject in sorted(verbs)]
    more = f"; and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return "; ".join(shown[:SHOWN]) + more


def for_apply(rights: Iterable[RbacRight]) -> tuple[RbacRight, ...]:
    """Return rights with create added to patch: an apply also needs that for an object that does not exist."""
    return tuple(replace(right, verbs=("create", "patch")) if right.verbs == ("patch",) else right for right in rights)


def list_all(errors: Iterable[BundleError | None], more: Iterable[RbacRight] = ()) -> LackOfRightsError | None:
    """Return one error that lists all missing rights, so that they can be granted at once; None if none is missing.

    Args:
        errors: of one pass.
        more: other rights that the same account lacks.
    """
    missing = [error for error in errors if isinstance(error, MissingRightsError)]
    if not missing:
        return None
    account = min(error.account for error in missing)
    rights = [right for error in missing if error.account == account for right in error.rights]
    return lack_of([*rights, *more], account)


def lack_of(rights: Iterable[RbacRight], account: str) -> LackOfRightsError:
    """Return the error of an account that lacks rights."""
    roles = f'grant it {describe_roles(rights)}; "rukpak rights" prints those for the whole bundle'
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
    names = f", resourceNames: {_flow(rule.resource_names)}" if rule.resource_names else ""
    what = f"apiGroups: {_flow(rule.groups)}, resources: {_flow(rule.resources)}{names}"
    if rule.paths:
        what = f"nonResourceURLs: {_flow(rule.paths)}"
    return f"{{{what}, verbs: {_flow(rule.verbs)}}}"


def _flow(texts: Iterable[str]) -> str:
    return f"[{', '.join(text if _PLAIN.fullmatch(text) else json.dumps(text) for text in texts)}]"


def _parse_rule(text: str, namespace: str) -> RbacRight:
    """Read one rule as RBAC prints it: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`."""
    attributes = {name: tuple(_ITEM.findall(items)) for name, items in _ATTRIBUTE.findall(text)}
    return RbacRight(
        namespace=namespace,
        groups=attributes.get("APIGroups", ()),
        resources=attributes.get("Resources", ()),
        resource_names=attributes.get("ResourceNames", ()),
        paths=attributes.get("NonResourceURLs", ()),
        verbs=attributes.get("Verbs", ()),
    )
