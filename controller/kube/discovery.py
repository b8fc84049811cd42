"""What the API server serves: kind to path, scope and verbs. Cached, and asked for again when there is a reason.

Aggregated discovery is everything in two requests, which an ETag makes cheap when nothing changed; older servers are
walked group by group. Kinds of a group whose own API server is down stay known, and the group counts as failed.
Nothing here polls: a miss and `invalidate` (call it on a CRD event, or when a known kind is answered with 404) refresh.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.errors import BundleError
from api.plugins import Capabilities
from api.v1alpha2.conditions import Reason
from controller.kube.client import JSON, ApiError, Client
from controller.kube.resources import GroupVersionKind, Resource

AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
ROOTS = ("/api", "/apis")

MISS_SECONDS = 5.0
"""A kind that is not known makes discovery be read again, but not sooner than this."""
AGE_SECONDS = 2.0
"""What was read this recently is new enough for capabilities, and for a known kind after `invalidate`."""

LAG_SECONDS = 0.1
"""How often it is read again while it may be behind an event."""
LOOK_SECONDS = 0.2
"""How soon to look again for what may be served since an event; then more and more seldom."""

GroupVersion = tuple[str, str]
Resources = Mapping[GroupVersionKind, Resource]


@dataclass(frozen=True, slots=True)
class _Group:
    """What one version of a group serves."""

    resources: Resources = field(default_factory=dict)
    failed: bool = False
    """It did not answer now; `resources` are what it served before."""


Groups = Mapping[GroupVersion, _Group]


@dataclass(frozen=True, slots=True)
class _Root:
    """What was read below `/api` or `/apis`."""

    groups: Groups = field(default_factory=dict)
    etag: str = ""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What was read at one time."""

    read_at: float
    roots: tuple[_Root, ...]
    resources: Resources
    failed: frozenset[str]


class Discovery:
    """Thread-safe; looking up a known kind never waits for a refresh that another thread makes.

    Every method that reads raises ApiError if the API server does not answer.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._refreshing = threading.Lock()
        self._snapshot: _Snapshot | None = None
        self._invalid = False
        self._noted_at = -math.inf
        self._version: tuple[_Snapshot, str] | None = None

    def resource(self, gvk: GroupVersionKind) -> Resource | None:
        """Return what serves a kind; None if nothing does, looked up at most 5 s ago, and anew after a notice."""
        snapshot = self._current()
        known = snapshot.resources.get(gvk)
        if known is not None and not (self._invalid and self._is_older(snapshot, AGE_SECONDS)):
            return known
        if known is not None or self._is_older(snapshot, MISS_SECONDS) or self._may_show_more(snapshot):
            return self._refresh(snapshot).resources.get(gvk)
        return None

    def has_come(self, gvk: GroupVersionKind) -> bool:
        """Return whether a kind is served that was not: unlike `resource`, no miss by itself makes it read again.

        It reads where kinds have come or gone, and for a while after that, since discovery may be behind.
        """
        snapshot = self._current()
        if gvk not in snapshot.resources and self._may_show_more(snapshot):
            snapshot = self._refresh(snapshot)
        return gvk in snapshot.resources

    def seconds_to_look_again(self) -> float | None:
        """Return in how many seconds to look again for a kind that is missing; None: what was noted last shows by now.

        What is served may be shown a while after the event that tells of it, and nothing tells when.
        """
        age = self._clock() - self._noted_at
        return max(age, LOOK_SECONDS) if age < MISS_SECONDS / 2 else None

    def any_version(self, group: str, kind: str) -> Resource | None:
        """Return what serves a kind at whatever version, the preferred one first; None if nothing is known to."""
        return next((each for each in self.resources() if (each.group, each.kind) == (group, kind)), None)

    def resources(self) -> tuple[Resource, ...]:
        """Return everything that is served, the preferred version of a group first."""
        return tuple(self._current().resources.values())

    def failed_groups(self) -> frozenset[str]:
        """Return the groups of which a version did not answer discovery."""
        return self._current().failed

    def invalidate(self) -> None:
        """Note that kinds have come or gone: the next lookup of an unknown one reads again, of a known one soon."""
        self._invalid, self._noted_at = True, self._clock()

    def refresh(self) -> None:
        """Read again now."""
        self._refresh(self._snapshot)

    def version(self) -> str:
        """Return the version of Kubernetes, such as `v1.36.3`; it is read again when the kinds are."""
        snapshot = self._current()
        if self._version is None or self._version[0] is not snapshot:
            self._version = (snapshot, str(self._client.get("/version").value["gitVersion"]))
        return self._version[1]

    def capabilities(self) -> Capabilities:
        """Return what rendering may know of the cluster, at most two seconds old.

        Raises: BundleError (APIUnavailable) while a group fails: what it serves would be missing.
        """
        snapshot = self._current()
        if self._invalid or self._is_older(snapshot, AGE_SECONDS):
            snapshot = self._refresh(snapshot)
        if snapshot.failed:
            names = ", ".join(f'"{name}"' for name in sorted(snapshot.failed))
            raise BundleError(
                Reason.API_UNAVAILABLE, f"API group {names} does not answer discovery; see its APIService"
            )
        kinds: dict[tuple[str, str, str], bool] = {
            gvk: resource.namespaced for gvk, resource in snapshot.resources.items()
        }
        return Capabilities(kubernetes_version=self.version(), kinds=kinds)

    def _may_show_more(self, snapshot: _Snapshot) -> bool:
        """Whether kinds have come or gone since, or so shortly before that it may have been behind."""
        is_behind = self._clock() - self._noted_at < MISS_SECONDS and self._is_older(snapshot, LAG_SECONDS)
        return self._invalid or is_behind

    def _is_older(self, snapshot: _Snapshot, seconds: float) -> bool:
        return self._clock() - snapshot.read_at >= seconds

    def _current(self) -> _Snapshot:
        return self._snapshot or self._refresh(None)

    def _refresh(self, seen: _Snapshot | None) -> _Snapshot:
        """Read again, unless another thread has, since this one saw what it found wanting."""
        with self._refreshing:
            if self._snapshot is not None and self._snapshot is not seen and not self._invalid:
                return self._snapshot
            self._invalid = False  # before reading: what is noted meanwhile counts
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
        )

    def _read_root(self, path: str, known: _Root) -> _Root:
        reply = self._client.request("GET", path, accept=f"{AGGREGATED},{JSON}", if_none_match=known.etag)
        if reply.value is None:
            return known
        if reply.value["kind"] == "APIGroupDiscoveryList":
            return _Root(_parse_aggregated(reply.value["items"], known.groups), reply.headers.get("ETag", ""))
        versions = ((group, version) for group, version in _list_versions(reply.value))
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
    """Key resources by kind. The first counts, where one kind is served under two names."""
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
        if kind:  # a resource that only has subresources has none
            verbs = frozenset(item.get("verbs") or [])
            yield Resource(group, version, kind, item["resource"], item["scope"] == "Namespaced", verbs)


def _list_versions(value: Mapping[str, Any]) -> Iterable[GroupVersion]:
    """Yield the versions that an APIVersions or an APIGroupList names."""
    yield from (("", version) for version in value.get("versions") or [])
    for group in value.get("groups") or []:
        yield from ((group["name"], version["version"]) for version in group["versions"])


def _parse_walked(group: str, version: str, items: Iterable[Mapping[str, Any]]) -> Iterable[Resource]:
    for item in items:
        if "/" not in item["name"]:  # a subresource
            verbs = frozenset(item.get("verbs") or [])
            yield Resource(group, version, item["kind"], item["name"], item["namespaced"], verbs)
