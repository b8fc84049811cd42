"""What is known of CustomResourceDefinitions: at which version a kind is stored, and whether it announces a status.

Custom resources are watched at their storage version: at any other one each object goes through the conversion webhook,
and a webhook that is down would blind us. Schemas are read as they pass by, and never kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.kube.client import Client
from controller.kube.resources import Resource
from controller.kube.watch import Reflector

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
# What in a schema says that somebody reports how an object is (controller/observe/health/README.md).
_REPORTED = ("conditions", "observedGeneration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What is kept of a CustomResourceDefinition."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    kind: tuple[str, str]
    """Group and kind."""
    resource: Resource | None
    """What serves the kind at its storage version; None while that is not served."""
    reporting: frozenset[str] = frozenset()
    """Versions whose schema declares `status.conditions` or `status.observedGeneration`."""


class Definitions:
    """Thread-safe: the CustomResourceDefinitions of the cluster, watched.

    Args:
        changed: told what one was before and is now, on the thread of the watch.
        settled: told once that all are known, or that they may not be.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[Definition | None, Definition | None], None],
        settled: Callable[[], None],
    ) -> None:
        self._changed = changed
        self._by_kind: dict[tuple[str, str], Definition] = {}
        self._lock = threading.Lock()
        self.reflector = Reflector[Definition](
            client, DEFINITIONS.path(), project=see, on_change=self._note, on_synced=settled, on_failed=settled
        )

    @property
    def settled(self) -> bool:
        """Whether all are known, or cannot be listed."""
        return self.reflector.settled

    def of(self, group: str, kind: str) -> Definition | None:
        """Return what defines a kind."""
        with self._lock:
            return self._by_kind.get((group, kind))

    def reports_status(self, group: str, version: str, kind: str) -> bool | None:
        """Return whether the schema of a kind announces a status; None: not known."""
        definition = self.of(group, kind)
        return version in definition.reporting if definition else None

    def _note(self, old: Definition | None, new: Definition | None) -> None:
        with self._lock:
            if old and (known := self._by_kind.get(old.kind)) and known.name == old.name:
                del self._by_kind[old.kind]
            if new and new.resource:
                self._by_kind[new.kind] = new
        self._changed(old, new)


def see(manifest: Mapping[str, Any]) -> Definition:
    """Return what is kept of a CustomResourceDefinition as the API server sent it."""
    metadata, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status") or {}
    group, names, versions = spec["group"], spec["names"], spec["versions"]
    stored = next((v["name"] for v in versions if v.get("storage") and v.get("served")), "")
    established = any(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or ())
    resource = Resource(group, stored, names["kind"], names["plural"], namespaced=spec["scope"] == "Namespaced")
    return Definition(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        kind=(group, names["kind"]),
        resource=resource if stored and established else None,
        reporting=frozenset(version["name"] for version in versions if _reports(version)),
    )


def _reports(version: Mapping[str, Any]) -> bool:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    status = (schema.get("properties") or {}).get("status") or {}
    return any(name in (status.get("properties") or {}) for name in _REPORTED)
