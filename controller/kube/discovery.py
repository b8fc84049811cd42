"""Discovery: path, scope and verbs of each kind that the API server serves; cached, and refreshed for a reason.

Aggregated discovery takes two requests, which an ETag makes cheap if nothing changed; older servers are walked group by
group. If the API server behind a group is down, its kinds remain known and the group counts as failed; that blocks no
other group. Nothing polls: a refresh follows a miss, or `invalidate` (to be called on CRD events, and when a known kind
returns 404).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import Any

from rukpak.api.plugins import Capabilities, CustomKind
from rukpak.controller.formats.applicable import custom_kinds, reduce_schema
from rukpak.controller.formats.objects import BUILT_IN_GROUPS
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.encoding import JSON
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import DEFINITIONS, GroupVersionKind, Resource

AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
ROOTS = ("/api", "/apis")
_OF_ANOTHER_SERVER = CustomKind(has_status=True, schema={})

MISS_SECONDS = 5.0
"""Minimum age of a snapshot before an unknown kind causes a refresh."""
AGE_SECONDS = 2.0
"""Maximum age of a snapshot for capabilities, and for a known kind after `invalidate`."""

LAG_SECONDS = 0.1
"""Minimum age of a snapshot before a refresh while discovery may lag behind an event."""
RECHECK_SECONDS = 0.2
"""First delay before a missing kind is checked again after an event; later delays grow."""

GroupVersion = tuple[str, str]
Resources = Mapping[GroupVersionKind, Resource]


@dataclass(frozen=True, slots=True)
class _Group:
    """The resources of one version of a group."""

    resources: Resources = field(default_factory=dict)
    failed: bool = False
    """Discovery failed; `resources` are those of the last success."""


Groups = Mapping[GroupVersion, _Group]


@dataclass(frozen=True, slots=True)
class _Root:
    """The groups below `/api` or `/apis`."""

    groups: Groups = field(default_factory=dict)
    etag: str = ""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The result of one refresh."""

    read_at: float
    roots: tuple[_Root, ...]
    resources: Resources
    failed: frozenset[str]
    unknown: frozenset[str]
    """The failed groups with a version of which no kind was ever seen."""


class Discovery:
    """Thread-safe; looking up a known kind never waits for a refresh by another thread."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._refreshing, self._reading_version = threading.Lock(), threading.Lock()
        self._snapshot: _Snapshot | None = None
        self._invalid = False
        self._noted_at = -math.inf
        self._version: tuple[_Snapshot, str] | None = None

    def resource(self, gvk: GroupVersionKind) -> Resource | None:
        """Return what serves a kind; None if nothing did within the last 5 s, and since the last `invalidate`.

        Raises: ApiError if discovery fails.
        """
        snapshot = self._current()
        known = snapshot.resources.get(gvk)
        if known is not None and not (self._invalid and self._is_older(snapshot, AGE_SECONDS)):
            return known
        if known is not None or self._is_older(snapshot, MISS_SECONDS) or self._may_show_more(snapshot):
            return self._refresh(snapshot).resources.get(gvk)
        return None

    def is_namespaced(self, gvk: GroupVersionKind) -> bool | None:
        """Return whether a kind is namespaced; None if nothing serves it.

        Raises: ApiError if discovery fails.
        """
        resource = self.resource(gvk)
        return resource.namespaced if resource else None

    def has_appeared(self, gvk: GroupVersionKind) -> bool:
        """Return whether a kind that was missing is served now; unlike `resource`, a miss alone causes no refresh.

        It refreshes after `invalidate`, and for a while after that, since discovery may lag behind.

        Raises: ApiError if discovery fails.
        """
        return gvk in self._renewed_unless(lambda found: gvk in found.resources).resources

    def seconds_to_recheck(self) -> float | None:
        """Return in how many seconds to check a missing kind again; None if discovery has caught up with all events.

        Discovery may lag behind the event that announces a kind, and no event tells when it has caught up.
        """
        age = self._clock() - self._noted_at
        return max(age, RECHECK_SECONDS) if age < MISS_SECONDS / 2 else None

    def any_version(self, group: str, kind: str) -> Resource | None:
        """Return what serves a kind at any version, the preferred one first; None if nothing is known to.

        Raises: ApiError if discovery fails.
        """
        return next((each for each in self.resources() if (each.group, each.kind) == (group, kind)), None)

    def resources(self) -> tuple[Resource, ...]:
        """Return everything that is served, the preferred version of a group first.

        Raises: ApiError if discovery fails.
        """
        return tuple(self._current().resources.values())

    def failed_groups(self) -> frozenset[str]:
        """Return the groups of which discovery failed for some version.

        It refreshes after `invalidate`, and for a while after that, if one failed: it may have recovered.

        Raises: ApiError if all of discovery fails.
        """
        return self._renewed_unless(lambda found: not found.failed).failed

    def invalidate(self) -> None:
        """Note that kinds were added or removed: the next lookup of an unknown kind refreshes, of a known one soon."""
        self._invalid, self._noted_at = True, self._clock()

    def refresh(self) -> None:
        """Refresh now.

        Raises: ApiError if discovery fails.
        """
        self._refresh(self._snapshot)

    def version(self) -> str:
        """Return the version of Kubernetes, such as `v1.36.3`; read once for each refresh.

        Raises: ApiError.
        """
        snapshot = self._current()
        with self._reading_version:  # many bundles that are rendered at the same time ask for it
            if self._version is None or self._version[0] is not snapshot:
                self._version = (snapshot, str(self._client.get("/version").value["gitVersion"]))
            return self._version[1]

    def capabilities(self) -> Capabilities:
        """Return the capabilities of the cluster for rendering, at most two seconds old.

        Raises: ApiError if all of discovery fails.
        """
        snapshot = self._current()
        if self._invalid or self._is_older(snapshot, AGE_SECONDS):
            snapshot = self._refresh(snapshot)
        kinds: dict[tuple[str, str, str], bool] = {
            gvk: resource.namespaced for gvk, resource in snapshot.resources.items()
        }
        return Capabilities(kubernetes_version=self.version(), kinds=kinds, unknown=snapshot.unknown)

    def custom_kinds(self, kinds: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], CustomKind]:
        """Return what the definitions of kinds say about the fields that are stored, one request for each.

        Those that are not served, and those whose definition may not be read, are missing. What another API server
        serves counts as any kind of Kubernetes: it has a status of its own, and null means nothing.

        Raises: ApiError if discovery fails, or a definition cannot be read.
        """
        found: dict[tuple[str, str, str], CustomKind] = {}
        for kind in map(GroupVersionKind._make, kinds):
            if resource := self.resource(kind):
                found |= attempt(partial(self._ask_definition, kind, resource), HTTPStatus.FORBIDDEN) or {}
        return found

    def with_custom_kinds(self, found: Capabilities) -> Capabilities:
        """Return capabilities with what is known of all custom kinds, as `custom_kinds` does, by one list.

        Raises: ApiError if the definitions cannot be listed.
        """
        defined = _read_definitions(self._client.list(DEFINITIONS.path()))
        names = {(group, kind) for group, _, kind in defined}
        others = {kind for kind in found.kinds if kind[0] not in BUILT_IN_GROUPS and kind[::2] not in names}
        served = {kind: known for kind, known in defined.items() if kind in found.kinds}
        return replace(found, custom={**served, **dict.fromkeys(others, _OF_ANOTHER_SERVER)})

    def _ask_definition(self, kind: GroupVersionKind, resource: Resource) -> dict[tuple[str, str, str], CustomKind]:
        # A list, since the controller may watch definitions, which is enough for that, but not get them.
        name = f"{resource.plural}.{kind.group}"
        defined = _read_definitions(self._client.list(DEFINITIONS.path(), field_selector=f"metadata.name={name}"))
        if not defined:
            return {kind: _OF_ANOTHER_SERVER}
        return {kind: defined[kind]} if kind in defined else {}

    def _may_show_more(self, snapshot: _Snapshot) -> bool:
        is_behind = self._clock() - self._noted_at < MISS_SECONDS and self._is_older(snapshot, LAG_SECONDS)
        return self._invalid or is_behind

    def _is_older(self, snapshot: _Snapshot, seconds: float) -> bool:
        return self._clock() - snapshot.read_at >= seconds

    def _renewed_unless(self, is_enough: Callable[[_Snapshot], bool]) -> _Snapshot:
        snapshot = self._current()
        return snapshot if is_enough(snapshot) or not self._may_show_more(snapshot) else self._refresh(snapshot)

    def _current(self) -> _Snapshot:
        return self._snapshot or self._refresh(None)

    def _refresh(self, seen: _Snapshot | None) -> _Snapshot:
        with self._refreshing:
            if self._snapshot is not None and self._snapshot is not seen and not self._invalid:
                return self._snapshot
            self._invalid = False  # before reading, so that an event during the read counts
            try:
                self._snapshot = self._read()
            except ApiError:
                self._invalid = True
                raise
            return self._snapshot

    def _read(self) -> _Snapshot:
        started = self._clock()
        before = self._snapshot.roots if self._snapshot else (_Root(),) * len(ROOTS)
        roots = tuple(self._read_root(path, known) for path, known in zip(ROOTS, before, strict=True))
        groups = {key: group for root in roots for key, group in root.groups.items()}
        return _Snapshot(
            read_at=started,
            roots=roots,
            resources={gvk: resource for group in groups.values() for gvk, resource in group.resources.items()},
            failed=frozenset(name for (name, _), group in groups.items() if group.failed),
            unknown=frozenset(name for (name, _), group in groups.items() if group.failed and not group.resources),
        )

    def _read_root(self, path: str, known: _Root) -> _Root:
        reply = self._client.request("GET", path, accept=f"{AGGREGATED},{JSON}", if_none_match=known.etag)
        if reply.value is None:
            return known
        if reply.value["kind"] == "APIGroupDiscoveryList":
            return _Root(_parse_aggregated(reply.value["items"], known.groups), reply.headers.get("ETag", ""))
        versions = _list_versions(reply.value)
        return _Root({key: self._walk(*key, known.groups.get(key, _Group())) for key in versions})

    def _walk(self, group: str, version: str, known: _Group) -> _Group:
        try:
            value = self._client.get(f"/apis/{group}/{version}" if group else f"/api/{version}").value
        except ApiError as error:
            if error.status == 0:
                raise
            return _Group(known.resources, failed=True)
        return _Group(_index(_parse_walked(group, version, value["resources"])))


def _index(resources: Iterable[Resource]) -> Resources:
    # If a kind is served under two names, the first counts.
    index: dict[GroupVersionKind, Resource] = {}
    for resource in resources:
        index.setdefault(resource.gvk, resource)
    return index


def _parse_aggregated(items: Iterable[Mapping[str, Any]], known: Groups) -> Groups:
    groups: dict[GroupVersion, _Group] = {}
    for item in items:
        name = item["metadata"].get("name", "")
        for version in item["versions"]:
            key = (name, version["version"])
            if version.get("freshness") == "Stale":
                groups[key] = _Group(known.get(key, _Group()).resources, failed=True)
            else:
                groups[key] = _Group(_index(_parse_resources(*key, version.get("resources") or [])))
    return groups


def _parse_resources(group: str, version: str, items: Iterable[Mapping[str, Any]]) -> Iterable[Resource]:
    for item in items:
        kind = (item.get("responseKind") or {}).get("kind")
        if kind:  # a resource with only subresources has none
            verbs = frozenset(item.get("verbs") or [])
            yield Resource(group, version, kind, item["resource"], item["scope"] == "Namespaced", verbs)


def _list_versions(value: Mapping[str, Any]) -> Iterable[GroupVersion]:
    yield from (("", version) for version in value.get("versions") or [])
    for group in value.get("groups") or []:
        yield from ((group["name"], version["version"]) for version in group["versions"])


def _parse_walked(group: str, version: str, items: Iterable[Mapping[str, Any]]) -> Iterable[Resource]:
    for item in items:
        if "/" not in item["name"]:  # a subresource
            verbs = frozenset(item.get("verbs") or [])
            yield Resource(group, version, item["kind"], item["name"], item["namespaced"], verbs)


def _read_definitions(listed: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], CustomKind]:
    defined = custom_kinds(
        [{"apiVersion": DEFINITIONS.api_version, "kind": DEFINITIONS.kind, **each} for each in listed]
    )
    return {kind: replace(known, schema=reduce_schema(known.schema)) for kind, known in defined.items()}
