"""A permission as a statement, which statements include others, and the lines that people read.

Each object outside is a statement, so that another one is seen; a line has their kind and number. Statements that
differ in one part become one line: first verbs are merged, then what they apply to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import islice, product
from typing import Any, NamedTuple, TypeAlias

from rukpak.controller import untrusted
from rukpak.controller.content.digests import digest_of
from rukpak.controller.content.limits import one_line, some
from rukpak.controller.formats.objects import group_of, identify

MAX_ITEMS = 12
"""What a line lists; more become further lines."""
MAX_CHARACTERS = 160
"""Length of a single name or selector; what exceeds them is cut off."""
_ODD = re.compile(r"[\s,;()]")
EVERYWHERE = "in all namespaces"
LONGEST = 512
"""Characters of a text in a statement, without its digest."""
WHERE_BOUND = "where it is bound"
Right: TypeAlias = tuple[str, ...]
"""API group, resource and name (empty: all), or a single path; anything else is included only in itself."""


class Topic(Enum):
    """What a statement is about, with its heading; in the order in which they are shown."""

    ACCESS = "Access to the API"
    REQUESTS = "Requests of others"
    PODS = "Pods"
    CLOUD = "Identities outside the cluster"
    SCOPE = "Objects outside the install namespace"


class Severity(IntEnum):
    """How much attention a statement needs."""

    LOW = 0
    NORMAL = 1
    HIGH = 2
    ADMIN = 3
    """It amounts to cluster-admin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that a bundle may do: the smallest that can be added. Unequal statements may give equal lines."""

    topic: Topic
    who: str
    """The object that may do it, or on whose behalf: `ServiceAccount shop/app`."""
    verb: str = ""
    what: str = ""
    where: str = ""
    right: tuple[str, ...] = ()
    """What is granted: API group, resource and name (empty: all), or a path. Four texts identify anything else."""
    mark: str = field(default="", compare=False)
    """Why it needs attention. Derived from the rest, so that other words in another release make no difference."""
    severity: Severity = field(default=Severity.NORMAL, compare=False)

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies it, as text."""
        return (self.topic.name, self.who, self.verb, self.what, self.where, *self.right)


def shortened(text: str) -> str:
    """Return a text, or of a long one its beginning and its digest: many statements have the same."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({digest_of(text.encode(errors='surrogatepass'))[:19]})"


def name_object(item: Mapping[str, Any]) -> str:
    """Return an object as messages have it: `Deployment shop/web`."""
    key = identify(item)
    return str(key._replace(name=shortened(key.name)))


def is_kind(item: Mapping[str, Any], group: str, *kinds: str) -> bool:
    """Return whether an object is of one of the kinds of a group, at any version."""
    return item.get("kind") in kinds and group_of(item) == group


def texts(value: Any) -> list[str]:
    """Return the members of a list that are strings, each once, in order, as `shortened`."""
    return sorted({shortened(item) for item in untrusted.texts(value)})


def including(right: Right, verb: str, wheres: Collection[str]) -> Iterator[tuple[str, str, Right]]:
    """Return verb, scope and right of all that include one: the same or every verb, group, resource, object or path.

    Args:
        right: that is to be included.
        verb: of the right.
        wheres: its scope, and every scope that includes it.
    """
    return product({verb, "*"}, wheres, _including(right))


def _including(right: Right) -> list[Right]:
    match right:
        case (path,):
            return [(path,), *((f"{path[:end]}*",) for end in range(len(path) + 1))]
        case (group, resource, name):
            return list(product({group, "*"}, resources_including(resource), {name, ""}))
    return [right]


def resources_including(resource: str) -> set[str]:
    """Return the resources of rules that include a resource: itself, "*", and "*/" with its subresource."""
    _, slash, subresource = resource.partition("/")
    return {resource, "*", f"*/{subresource}" if slash else resource}


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
    topics = list(Topic)
    lines = {line for (rest, shared), of_rest in whats.items() for line in _write(rest, shared, sorted(of_rest))}
    return sorted(lines, key=lambda line: (-line.severity, topics.index(line.topic), line.text))


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
    return f"{len(names)} {_cut(rest.who)} {rest.where}: {some(list(map(_cut, names)))}"


def _word(verb: str) -> str:
    return f'"{_cut(verb)}"' if _ODD.search(verb) else _cut(verb)


def _cut(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
