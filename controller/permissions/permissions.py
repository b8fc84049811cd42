"""What a bundle may do once it runs, as a set of statements.

Statements that differ in one part become one line: first verbs are merged, then what they apply to.

The set depends on the objects alone, never on the cluster: roles that a bundle binds and does not bring are stated by
name. The order of objects makes no difference, nor how rights are distributed over rules and roles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from controller.build.revision import Revision
from controller.content.digests import digest_of_json
from controller.content.limits import visible
from controller.permissions.cloud import find_identities
from controller.permissions.grants import find_grants, make_right, rights_in
from controller.permissions.pods import find_pod_powers
from controller.permissions.requests import find_all_requests
from controller.permissions.statement import EVERYWHERE, Right, Severity, Statement, Topic, find_outside, including

MAX_ITEMS = 12
"""What a line lists; more become further lines."""
SHOWN_NAMES = 5
"""Of objects of one kind."""
MAX_CHARACTERS = 160
"""Of a single name or selector; what exceeds them is cut off."""
_ODD = re.compile(r"[\s,;()]")
_TOPICS = list(Topic)
Permissions: TypeAlias = frozenset[Statement]
FindRules: TypeAlias = Callable[[str, str, str], Iterable[Mapping[str, Any]]]
"""Returns the rules of a Role or ClusterRole on the cluster by kind, namespace and name; none if they are unknown."""
_IN = "in namespace "
SHOWN = 20
"""Lines in status."""


class Line(NamedTuple):
    """Some statements as text, without line breaks and control characters."""

    topic: Topic
    severity: Severity
    text: str


class _Rest(NamedTuple):
    """What all statements of a line have in common."""

    severity: Severity
    topic: Topic
    who: str
    where: str
    mark: str


def to_lines(statements: Iterable[Statement]) -> list[Line]:
    """Return statements as lines, sorted by severity, then by topic; each text once."""
    verbs: dict[tuple[_Rest, str], set[str]] = {}
    for each in statements:
        rest = _Rest(each.severity, each.topic, each.who, each.where, each.mark)
        verbs.setdefault((rest, each.what), set()).add(each.verb)
    whats: dict[tuple[_Rest, tuple[str, ...]], list[str]] = {}
    for (rest, what), of_what in verbs.items():
        whats.setdefault((rest, tuple(sorted(of_what))), []).append(what)
    lines = {line for (rest, shared), of_rest in whats.items() for line in _write(rest, shared, sorted(of_rest))}
    return sorted(lines, key=lambda line: (-line.severity, _TOPICS.index(line.topic), line.text))


def _write(rest: _Rest, verbs: Sequence[str], whats: Sequence[str]) -> Iterator[Line]:
    if rest.topic is Topic.SCOPE and not any(verbs):
        yield Line(rest.topic, rest.severity, _count(rest, whats))
        return
    items = iter(whats)
    while part := list(islice(items, MAX_ITEMS)):
        does = ",".join(_word(verb) if rest.topic is Topic.ACCESS else verb for verb in verbs if verb)
        before, after = (
            (f"{rest.mark} {does} of", "") if rest.topic is Topic.REQUESTS and rest.mark else (does, rest.mark)
        )
        said = " ".join(filter(None, (before, ", ".join(map(_cut, part)), _cut(rest.where), after and f"({after})")))
        yield Line(rest.topic, rest.severity, f"{_cut(rest.who)}: {said}")


def _count(rest: _Rest, names: Sequence[str]) -> str:
    """Return the kind and number of objects, with the names of some."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"{len(names)} {_cut(rest.who)} {rest.where}: {', '.join(map(_cut, names[:SHOWN_NAMES]))}{more}"


def _word(verb: str) -> str:
    """Return a verb, in quotes if it could be mistaken for more than one word."""
    return f'"{_cut(verb)}"' if _ODD.search(verb) else _cut(verb)


def _cut(text: str) -> str:
    text = visible(text.replace("\n", " "))
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


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
    """Yield the rights of the same holder that include one."""
    wheres = {statement.where, EVERYWHERE} if statement.where.startswith(_IN) else {statement.where}
    for verb, where, right in including(statement.right, statement.verb, wheres):
        yield statement.who, verb, where, right
