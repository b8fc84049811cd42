"""One statement about what a bundle may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from controller.formats.objects import group_of
from controller.untrusted import mapping

EVERYWHERE = "in all namespaces"
WHERE_BOUND = "where it is bound"


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


def name_object(item: Mapping[str, Any]) -> str:
    """Return an object as messages have it: `Deployment shop/web`."""
    metadata = mapping(item, "metadata")
    return name_of(str(item.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name")))


def name_of(kind: str, namespace: str, name: str) -> str:
    """Return `Deployment shop/web` or `ClusterRole shop`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def is_kind(item: Mapping[str, Any], group: str, *kinds: str) -> bool:
    """Return whether an object is of one of the kinds of a group, at any version."""
    return item.get("kind") in kinds and group_of(item) == group


def texts(value: Any) -> list[str]:
    """Return the members of a list that are strings, each once, in order."""
    return sorted({item for item in (value if isinstance(value, list) else ()) if isinstance(item, str)})
