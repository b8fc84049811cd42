"""A permission as a statement, and which statements include others.

Each object outside is a statement, so that another one is seen; a line has their kind and number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import product
from typing import Any, TypeAlias

from controller import untrusted
from controller.content.digests import digest_of
from controller.formats.objects import crd_specs, group_of
from controller.kube.resources import BUILT_IN_GROUPS
from controller.untrusted import mapping

EVERYWHERE = "in all namespaces"
LONGEST = 512
"""Characters of a text in a statement, without its digest."""
WHERE_BOUND = "where it is bound"
Right: TypeAlias = tuple[str, ...]
"""API group, resource and name (empty: all), or a single path; anything else is included only in itself."""


def find_outside(objects: Iterable[Mapping[str, Any]], install_namespace: str) -> Iterator[Statement]:
    """Yield the objects outside a namespace, and the kinds that neither the API server nor the bundle defines."""
    items = list(map(dict, objects))
    own = {(spec.get("group"), mapping(spec, "names").get("kind")) for spec in crd_specs(items)}
    for item in items:
        metadata, group = mapping(item, "metadata"), group_of(item)
        kind = item["kind"] if group in BUILT_IN_GROUPS else f"{item['kind']}.{group}"
        namespace = metadata.get("namespace")
        if namespace != install_namespace or not namespace:
            where = f"in namespace {namespace}" if namespace else "in the whole cluster"
            yield Statement(
                topic=Topic.SCOPE, who=kind, what=str(metadata.get("name")), where=where, severity=Severity.LOW
            )
        if group not in BUILT_IN_GROUPS and (group, item["kind"]) not in own:
            yield Statement(
                topic=Topic.SCOPE,
                who="bundle",
                verb="instructs controllers of others by",
                what=kind,
                severity=Severity.LOW,
            )


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
    metadata = mapping(item, "metadata")
    name = shortened(str(metadata.get("name")))
    return name_of(str(item.get("kind")), str(metadata.get("namespace") or ""), name)


def name_of(kind: str, namespace: str, name: str) -> str:
    """Return `Deployment shop/web` or `ClusterRole shop`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def is_kind(item: Mapping[str, Any], group: str, *kinds: str) -> bool:
    """Return whether an object is of one of the kinds of a group, at any version."""
    return item.get("kind") in kinds and group_of(item) == group


def texts(value: Any) -> list[str]:
    """Return the members of a list that are strings, each once, in order, as `shortened`."""
    return sorted({shortened(item) for item in untrusted.texts(value)})


def including(right: Right, verb: str, wheres: Collection[str]) -> Iterator[tuple[str, str, Right]]:
    """Yield verb, scope and right of all that include a right: the same or every verb, group, resource, object or path.

    Args:
        right: that is to be included.
        verb: of the right.
        wheres: its scope, and every scope that includes it.
    """
    for each, does, where in product(_including(right), {verb, "*"}, wheres):
        yield does, where, each


def _including(right: Right) -> list[Right]:
    match right:
        case (path,):
            return [(path,), *((f"{path[:end]}*",) for end in range(len(path) + 1))]
        case (group, resource, name):
            _, slash, subresource = resource.partition("/")
            resources = {resource, "*", f"*/{subresource}" if slash else resource}
            return list(product({group, "*"}, resources, {name, ""}))
    return [right]
