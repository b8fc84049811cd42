"""What a bundle may do once it runs: from the objects of a revision to a set of statements. Pure.

The set depends on the objects alone, never on the cluster: roles that a bundle binds and does not bring are stated by
name. The order of objects makes no difference, nor how rights are distributed over rules and roles.

Not here: what it takes to install it (apply/rights), and what is done about a difference (reconcile).

    statement  one statement, which rights include others, and the lines that people read
    grants     what roles and bindings grant, and which rights amount to cluster-admin or need attention
    powers     what pods may do, webhooks and policies, identities in clouds, objects elsewhere
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from rukpak.controller.building.revision import Revision
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.permissions.grants import find_grants, make_right, rights_in
from rukpak.controller.permissions.powers import find_all_requests, find_identities, find_outside, find_pod_powers
from rukpak.controller.permissions.statement import EVERYWHERE, Right, Statement, Topic, including, to_lines

Permissions: TypeAlias = frozenset[Statement]
FindRules: TypeAlias = Callable[[str, str, str], Iterable[Mapping[str, Any]]]
"""Returns the rules of a Role or ClusterRole on the cluster by kind, namespace and name; none if they are unknown."""
_IN = "in namespace "
SHOWN = 20
"""Lines in status."""


def permissions_of(revision: Revision) -> Permissions:
    """Return what a revision may do once it runs, hooks included."""
    manifests = [*revision.objects, *(hook["manifest"] for hook in revision.hooks)]
    return find_permissions(manifests, revision.terms.install_namespace)


def find_permissions(objects: Iterable[Mapping[str, Any]], install_namespace: str) -> Permissions:
    """Return what applicable objects may do once they run.

    Args:
        objects: with apiVersion, kind and metadata.name; other malformed fields are for the API server to refuse.
        install_namespace: objects elsewhere are stated.
    """
    items = list(objects)
    identities = (statement for item in items for statement in find_identities(item))
    others = (*find_pod_powers(items), *identities, *find_outside(items, install_namespace))
    return frozenset((*find_grants(items), *find_all_requests(items), *others))


def added(new: Permissions, installed: Permissions) -> Permissions:
    """Return what is new: neither stated for the installed revision nor included in one of its rights."""
    more = new - installed
    rights = {(each.who, each.verb, each.where, each.right) for each in installed if each.topic is Topic.ACCESS}
    return frozenset(each for each in more if each.topic is not Topic.ACCESS or rights.isdisjoint(_including(each)))


def digest_of(permissions: Permissions) -> str:
    """Return the digest of a set, `sha256:…`: equal for equal sets."""
    return digest_of_json(sorted(each.key for each in permissions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Permissions for status."""

    lines: tuple[str, ...]
    """The most dangerous first."""
    truncated: bool


def summarize(permissions: Permissions, most: int = SHOWN) -> Summary:
    """Return the most dangerous permissions as lines."""
    lines = [line.text for line in to_lines(permissions)]
    return Summary(lines=tuple(lines[:most]), truncated=len(lines) > most)


def look_up(permissions: Permissions, find_rules: FindRules) -> Permissions:
    """Return what the roles allow that a bundle binds but does not bring, to be shown beside its permissions."""
    return frozenset(right for each in permissions for right in _look_up(each, find_rules))


def _look_up(statement: Statement, find_rules: FindRules) -> Iterator[Statement]:
    match statement.right:
        case ("role", kind, namespace, name):
            for rule in find_rules(kind, namespace, name):
                for right, verb in rights_in(rule, everywhere=statement.where == EVERYWHERE):
                    found = make_right(statement.who, verb, right, statement.where)
                    text = f"by {kind} {name}"
                    yield replace(found, mark=f"{found.mark}; {text}" if found.mark else text)


def _including(statement: Statement) -> Iterator[tuple[str, str, str, Right]]:
    wheres = {statement.where, EVERYWHERE} if statement.where.startswith(_IN) else {statement.where}
    for verb, where, right in including(statement.right, statement.verb, wheres):
        yield statement.who, verb, where, right
