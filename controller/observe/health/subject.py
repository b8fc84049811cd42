"""The object that is judged, read so that nothing in it can raise, and what is known from outside of it.

Reading (README.md): what is absent, null or of another type is not there. Numbers that are not there are 0.
A condition with an observedGeneration of its own other than metadata.generation is not there either (flux2#5855), but
`Subject.outdated` remembers its type. Of two conditions of one type the first counts; otherwise order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassInfo:
    """What the health of a PersistentVolumeClaim needs to know of its class."""

    volume_binding_mode: str | None
    """Immediate or WaitForFirstConsumer; None: there is no such class."""


def _unreadable(_name: str | None) -> StorageClassInfo | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is not in the object itself."""

    storage_class: Callable[[str | None], StorageClassInfo | None] = _unreadable
    """Looks up a StorageClass by name, None: the default one. Returns None where it may not be read. Called for Pending
    claims only."""
    reports_status: bool | None = None
    """Whether the schema of a custom resource declares `reported_fields`; None: unknown."""
    checks: tuple[Manifest, ...] = ()
    """Entries of `spec.healthChecks` that concern this object: see `checks.matching`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition. A text that is not there is empty."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def holds(self) -> bool:
        """Whether it is True."""
        return self.status == "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object under judgement."""

    manifest: Manifest
    context: Context
    conditions: Mapping[str, Condition]
    """`status.conditions` by type."""
    outdated: frozenset[str]
    """Types of conditions that stand there for another generation."""

    @property
    def group(self) -> str:
        """API group; empty: the core group."""
        return text(self.manifest, "apiVersion").rpartition("/")[0]

    @property
    def kind(self) -> str:
        """Kind."""
        return text(self.manifest, "kind")

    @property
    def generation(self) -> int | None:
        """`metadata.generation`; not every kind has one."""
        return integer(self.manifest, "metadata", "generation")

    @property
    def observed_generation(self) -> int | None:
        """`status.observedGeneration`."""
        return integer(self.manifest, "status", "observedGeneration")

    @property
    def replicas(self) -> int:
        """`spec.replicas`, 1 by default."""
        replicas = integer(self.manifest, "spec", "replicas")
        return 1 if replicas is None else replicas

    def spec(self, *path: str) -> Any:
        """Return a field below spec, or None."""
        return field(self.manifest, "spec", *path)

    def count(self, name: str) -> int:
        """Return a number of status."""
        return integer(self.manifest, "status", name) or 0

    def holds(self, condition_type: str) -> bool:
        """Whether a condition is there and True."""
        condition = self.conditions.get(condition_type)
        return condition is not None and condition.holds

    def denied(self, condition_type: str) -> Condition | None:
        """Return a condition if it is there and False."""
        condition = self.conditions.get(condition_type)
        return condition if condition and condition.status == "False" else None


def subject_of(manifest: Manifest, context: Context) -> Subject:
    """Return an object made ready for judgement."""
    items, generation = field(manifest, "status", "conditions"), integer(manifest, "metadata", "generation")
    current, outdated = read_conditions(items, generation)
    return Subject(manifest=manifest, context=context, conditions=current, outdated=outdated)


def read_conditions(items: Any, generation: int | None) -> tuple[dict[str, Condition], frozenset[str]]:
    """Return the conditions of a list by type, and the types of those that are for another generation."""
    current: dict[str, Condition] = {}
    outdated = set()
    for item in mappings(items):
        condition = Condition(**{name: text(item, name) for name in ("type", "status", "reason", "message")})
        observed = integer(item, "observedGeneration")
        if condition.type and None not in (observed, generation) and observed != generation:
            outdated.add(condition.type)
        elif condition.type:
            current.setdefault(condition.type, condition)
    return current, frozenset(outdated - current.keys())


def field(value: Any, *path: str) -> Any:
    """Return what stands at a path of keys, or None."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def text(value: Any, *path: str) -> str:
    """Return a string at a path, or an empty one."""
    found = field(value, *path)
    return found if isinstance(found, str) else ""


def integer(value: Any, *path: str) -> int | None:
    """Return an integer at a path, or None."""
    found = field(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def mappings(value: Any, *path: str) -> Iterator[Manifest]:
    """Yield the elements of a list at a path that are mappings."""
    found = field(value, *path)
    return (item for item in found if isinstance(item, Mapping)) if isinstance(found, list | tuple) else iter(())
