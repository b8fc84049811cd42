"""What verdicts on health depend on: CustomResourceDefinitions and StorageClasses.

Custom resources are watched at their storage version: any other version needs the conversion webhook for each object,
and an outage of the webhook would break the watch. Schemas are read, but never kept.

If they cannot be listed, the health of a claim says so: the claim alone does not tell (health/README.md).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rukpak.controller.kube.cache import Trace, make_trace
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.resources import DEFINITIONS, Resource
from rukpak.controller.kube.watch import ListWatch, Reflector
from rukpak.controller.observe.health.verdict import Verdict
from rukpak.controller.untrusted import mapping, mappings, text, texts

# Fields of status by which controllers report progress (controller/observe/health/README.md).
_REPORTED = frozenset({"conditions", "observedGeneration"})
# What the API server says of the first name that it does not accept.
_TAKEN = re.compile(r'"([^"]+)" is already in use')
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
KIND, GROUP = "kind", "group"
"""Indexes of definitions by what they define, and by its group."""
_DEFAULT_MARKS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition(Trace):
    """The part of a CustomResourceDefinition that is kept."""

    kind: tuple[str, str]
    """Group and kind."""
    resource: Resource | None
    """The resource at the storage version; None while that is not served."""
    served: frozenset[str] = frozenset()
    """The versions that are served; empty while the definition is not established."""
    reporting: frozenset[str] = frozenset()
    """Versions whose schema declares `status.conditions` or `status.observedGeneration`."""
    names: frozenset[str] = frozenset()
    """That no other definition of its group may have: plural, singular and short names, kind and kind of lists."""


class Definitions:
    """Thread-safe: the CustomResourceDefinitions of the cluster, watched.

    Args:
        changed: gets the old and the new state of one, on the thread of the watch.
        settled: called there once all are known, or cannot be listed.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[Definition | None, Definition | None], None],
        settled: Callable[[], None],
    ) -> None:
        self.reflector = Reflector[Definition](
            ListWatch(client, DEFINITIONS.path()),
            project=make_definition,
            functions={KIND: lambda each: (each.kind,), GROUP: lambda each: (each.kind[0],)},
            on_change=changed,
            on_synced=settled,
            on_failed=settled,
        )

    def of(self, group: str, kind: str) -> Definition | None:
        """Return the definition of a kind that is served at its storage version."""
        return next((each for each in self.reflector.cache.index(KIND, (group, kind)) if each.resource), None)

    def is_withdrawn(self, group: str, version: str, kind: str) -> bool:
        """Return whether a kind is served at other versions only."""
        served = frozenset().union(*(each.served for each in self.reflector.cache.index(KIND, (group, kind))))
        return bool(served) and version not in served

    def reports_status(self, group: str, version: str, kind: str) -> bool | None:
        """Return whether the schema of a kind declares a status; None if unknown."""
        definition = self.of(group, kind)
        return version in definition.reporting if definition else None

    def name_holder(self, manifest: Mapping[str, Any], verdict: Verdict) -> Verdict:
        """Return the verdict on a definition; if another one has its names, with the name of that one."""
        group, conflict = text(manifest, "spec", "group"), _TAKEN.fullmatch(verdict.message)
        if conflict is None or text(manifest, "kind") != DEFINITIONS.kind:
            return verdict
        own, others = text(manifest, "metadata", "name"), self.reflector.cache.index(GROUP, group)
        holder = next(
            (each.name for each in others if each.resource and each.name != own and conflict[1] in each.names), ""
        )
        if not holder:
            return verdict
        remedy = f'by CustomResourceDefinition "{holder}"; delete that one, or choose other names'
        return replace(verdict, message=f"{verdict.message} {remedy}")


def _accepted_names(manifest: Mapping[str, Any]) -> frozenset[str]:
    accepted = mapping(manifest, "status", "acceptedNames")
    single = (text(accepted, field) for field in ("plural", "singular", "kind", "listKind"))
    return frozenset(filter(None, (*single, *texts(accepted, "shortNames"))))


def make_definition(manifest: Mapping[str, Any]) -> Definition:
    """Return what is kept of a CustomResourceDefinition from the API server."""
    metadata, spec = mapping(manifest, "metadata"), mapping(manifest, "spec")
    versions = list(mappings(spec, "versions"))
    group, kind, plural = text(spec, "group"), text(spec, "names", "kind"), text(spec, "names", "plural")
    stored = next((text(each, "name") for each in versions if each.get("storage") and each.get("served")), "")
    conditions = mappings(manifest, "status", "conditions")
    established = any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)
    resource = Resource(group, stored, kind, plural, namespaced=spec.get("scope") == "Namespaced")
    return Definition(
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        resource_version=text(metadata, "resourceVersion"),
        namespace="",
        kind=(group, kind),
        resource=resource if stored and established else None,
        names=_accepted_names(manifest),
        served=frozenset(text(version, "name") for version in versions if version.get("served") and established),
        reporting=frozenset(text(version, "name") for version in versions if _REPORTED & _declared(version).keys()),
    )


def _declared(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(version, "schema", "openAPIV3Schema", "properties", "status", "properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class(Trace):
    created: str
    binding_mode: str
    is_default: bool


class StorageClasses:
    """Thread-safe.

    Args:
        changed: called when claims may have to be judged again, on the thread of the watch.
        settled: called there once all are known, or cannot be listed.
    """

    def __init__(self, client: Client, changed: Callable[[], None], settled: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self.reflector = Reflector[_Class](
            ListWatch(client, STORAGE_CLASSES.path()),
            project=_make_class,
            on_change=self._note,
            on_synced=settled,
            on_failed=settled,
        )

    def start(self) -> None:
        """Start to watch, unless already started."""
        with self._lock:
            if not self.reflector.started:
                self.reflector.start()

    def binding_mode(self, name: str | None) -> str | None:
        """Return the volumeBindingMode of a StorageClass, of the default one for None; see `Context`."""
        if not self.reflector.synced:
            return None
        known = self.reflector.cache.get(("", name)) if name else self._default()
        return known.binding_mode if known else ""

    def _default(self) -> _Class | None:
        # The newest one, as the API server does.
        defaults = [each for each in self.reflector.cache.records() if each.is_default]
        return max(defaults, key=lambda each: (each.created, each.name), default=None)

    def _note(self, old: _Class | None, new: _Class | None) -> None:
        if old is None or new is None or (old.binding_mode, old.is_default) != (new.binding_mode, new.is_default):
            self._changed()


def _make_class(manifest: Mapping[str, Any]) -> _Class:
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    return _Class(
        **asdict(make_trace(manifest)),
        created=metadata.get("creationTimestamp") or "",
        binding_mode=manifest.get("volumeBindingMode") or "Immediate",
        is_default=any(annotations.get(mark) == "true" for mark in _DEFAULT_MARKS),
    )
