"""The object under judgment, read so that nothing in it raises, and the context that its health depends on.

A field that is null or of the wrong type counts as missing, and a missing number as 0. A condition whose own
observedGeneration differs from metadata.generation counts as missing, too (flux2#5855), but `Subject.outdated` has its
type. Of two conditions of one type the first counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.untrusted import field, integer, mappings, text

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassInfo:
    """The part of a StorageClass that the health of a PersistentVolumeClaim depends on."""

    volume_binding_mode: str | None
    """Immediate or WaitForFirstConsumer; None if the class does not exist."""


def _unreadable(_name: str | None) -> StorageClassInfo | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What health depends on outside the object."""

    storage_class: Callable[[str | None], StorageClassInfo | None] = _unreadable
    """Finds a StorageClass by name, the default one for None. Returns None if StorageClasses cannot be read."""
    reports_status: bool | None = None
    """Whether the schema of a custom resource declares a status (definitions.py); None if unknown."""
    checks: tuple[Manifest, ...] = ()
    """Entries of `spec.healthChecks` that apply to this object: see `checks.matching`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition. A missing text is empty."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def holds(self) -> bool:
        """Whether its status is True."""
        return self.status == "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object under judgment."""

    manifest: Manifest
    context: Context
    conditions: Mapping[str, Condition]
    """`status.conditions` by type."""
    outdated: frozenset[str]
    """Types of conditions that describe another generation."""

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
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
        """Return a number of status, 0 if it is missing."""
        return integer(self.manifest, "status", name) or 0

    def holds(self, condition_type: str) -> bool:
        """Return whether a condition is True."""
        condition = self.conditions.get(condition_type)
        return condition is not None and condition.holds

    def denied(self, condition_type: str) -> Condition | None:
        """Return a condition if it is False."""
        condition = self.conditions.get(condition_type)
        return condition if condition and condition.status == "False" else None


def subject_of(manifest: Manifest, context: Context) -> Subject:
    """Return an object ready for judgment."""
    items, generation = field(manifest, "status", "conditions"), integer(manifest, "metadata", "generation")
    current, outdated = read_conditions(items, generation)
    return Subject(manifest=manifest, context=context, conditions=current, outdated=outdated)


def read_conditions(items: Any, generation: int | None) -> tuple[dict[str, Condition], frozenset[str]]:
    """Return conditions by type, and the types of those that describe another generation."""
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
