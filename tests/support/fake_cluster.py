"""An API server in memory for code that acts on objects. It records every request, and any request can be made to fail.

It knows objects by path, resource versions, label selectors, merge patches, preconditions of deletes, and of
server-side apply what ownership and drift need: managedFields entries, 409 without force where a value differs, 422
where the data of an immutable object differ. It has no schema, no admission, no garbage collector and no status
subresource but that of `<path>/status`: these are tested against a real API server. Watches see everything immediately;
there are no threads.
"""

from __future__ import annotations

import json
import marshal
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast

from rukpak.api import names
from rukpak.api.plugins import Capabilities, CustomKind
from rukpak.api.v1alpha2.reading import read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller import untrusted
from rukpak.controller.formats.objects import BUILT_IN_GROUPS, ObjectKey
from rukpak.controller.kube.client import RELIST_SECONDS, Client, Page, Response, User
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.lease import LEASES
from rukpak.controller.kube.resources import DEPLOYMENTS, GroupVersionKind, Resource, shard_of
from rukpak.controller.observe.deployments import Dependency, dependency_of, make_seen, usable
from rukpak.controller.observe.health import expressions
from rukpak.controller.observe.health.rules import assess, matching, needs_full_object
from rukpak.controller.observe.health.verdict import Context, Verdict
from rukpak.controller.observe.kinds import OwnedObjects
from rukpak.controller.observe.records import UNREAD, Look, Record, project
from rukpak.controller.observe.watches import Watches
from rukpak.controller.processes.supervision import Supervisor

VERBS = frozenset({"list", "delete"})
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=VERBS)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True, verbs=VERBS)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False, verbs=VERBS)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True, verbs=VERBS)
WORKLOADS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True, verbs=VERBS)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False, verbs=VERBS
)
JOBS = Resource("batch", "v1", "Job", "jobs", namespaced=True, verbs=VERBS)
SERVED = (CONFIG_MAPS, SECRETS, NAMESPACES, CLAIMS, WORKLOADS, JOBS, DEFINITIONS)

Json = dict[str, Any]
IMMUTABLE = {
    "reason": "FieldValueForbidden",
    "field": "data",
    "message": "Forbidden: field is immutable when `immutable` is set",
}

START = datetime(2026, 1, 1, tzinfo=UTC)
# No deadline runs out: an apply in the future counts as one of now.
NEVER_LATE = "2999-01-01T00:00:00Z"
WITHOUT_REFERENCES = 2
"""Of `marshal`: the version that writes equal values as equal bytes."""


class KilledError(BaseException):
    """The controller was killed here."""


class FakeCluster:
    """Stands for a Client and a Discovery. Attributes may be set at any time.

    Args:
        resources: what is served.
    """

    def __init__(self, *resources: Resource) -> None:
        self.served = list(resources or SERVED)
        self.objects: dict[str, Json] = {}
        """By path."""
        self.requests: list[str] = []
        """`VERB path`; an apply without force is a TRY."""
        self.faults: dict[str, list[ApiError]] = {}
        """By recorded request: errors for its next occurrences, one each."""
        self.dies_after: int | None = None
        """Serve this many requests, then kill the caller."""
        self.warnings: tuple[str, ...] = ()
        """Of every apply."""
        self.acted: list[tuple[str, str]] = []
        """(user, request) of each impersonated request."""
        self.look_again: float | None = None
        """Seconds until discovery may report a new kind."""
        self.failing_groups: set[str] = set()
        """API groups that fail discovery, and of which no kind is known."""
        self.custom: dict[tuple[str, str, str], CustomKind] = {}
        """What definitions say about custom kinds."""
        self.supervisor = Supervisor()
        self.relist_seconds = RELIST_SECONDS
        self._actor = threading.local()
        self._version = 0

    @property
    def client(self) -> Client:
        """Itself, as the type that is asked for."""
        return cast("Client", self)

    @property
    def discovery(self) -> Discovery:
        """Itself, likewise."""
        return cast("Discovery", self)

    # what a test does

    def path(self, manifest: Mapping[str, Any]) -> str:
        """Return the path of an object."""
        metadata = manifest["metadata"]
        if manifest["kind"] == names.KIND:
            return DEPLOYMENTS.path(name=metadata["name"])
        resource = next(r for r in self.served if r.gvk == GroupVersionKind.of(manifest))
        return resource.path(metadata.get("namespace", ""), metadata["name"])

    def put(self, manifest: Mapping[str, Any]) -> Json:
        """Create or replace an object as another client; return it."""
        path = self.path(manifest)
        fresh = _copy(dict(manifest))
        fresh["metadata"].setdefault("uid", self.objects.get(path, {}).get("metadata", {}).get("uid") or self._uid())
        return self._store(path, fresh)

    def edit(self, path: str, **fields: Any) -> Json:
        """Change top-level fields as another client, which takes them from all other managedFields entries."""
        value = _copy(self.objects[path])
        value.update(fields)
        for entry in value["metadata"].get("managedFields", []):
            for name in fields:
                entry["fieldsV1"].pop(f"f:{name}", None)
        return self._store(path, value)

    def patch(self, path: str, change: Mapping[str, Any]) -> Json:
        """Merge a change into an object as another client."""
        return self._store(path, _merge(self.objects[path], change))

    def remove(self, path: str) -> None:
        """Delete an object as another client."""
        del self.objects[path]

    def taken(self) -> list[str]:
        """Return the requests since the last call."""
        taken, self.requests = self.requests, []
        return taken

    # Client

    def acting_as(self, user: User | None) -> Client:
        """Return a client whose requests are recorded in `acted` with this user."""
        return cast("Client", _Acting(self, user)) if user else self.client

    def get(self, path: str, *, metadata: bool = False) -> Response:
        self._note(f"GET {path}")
        return self._reply(self._find(path))

    def list(
        self, path: str, *, metadata: bool = False, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> Iterator[dict[str, Any]]:
        self._note(f"LIST {path}")
        field, _, value = field_selector.partition("=")
        return (each for each in self._select(path, label_selector) if each.get(field, "") == value)

    def pages(
        self,
        path: str,
        *,
        metadata: bool = False,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        max_bytes: int | None = None,
    ) -> Iterator[Page]:
        steps, _, value = field_selector.partition("=")
        selected = self._select(path, label_selector)
        found = [each for each in selected if not steps or untrusted.field(each, *steps.split(".")) == value]
        for start in range(0, max(len(found), 1), limit):
            self._note(f"LIST {path}")
            yield Page(found[start : start + limit], str(self._version), start + limit < len(found))

    def apply(
        self, path: str, body: Mapping[str, Any], *, manager: str, force: bool, metadata: bool = True
    ) -> Response:
        self._note(f"{'APPLY' if force else 'TRY'} {path}")
        known = self.objects.get(path)
        version = body["metadata"].get("resourceVersion")
        takes = not force and known and any(known.get(name) != body[name] for name in body if name != "metadata")
        if known and (takes or version not in (None, known["metadata"]["resourceVersion"])):
            raise ApiError(409, "Conflict", "conflict")
        if body["metadata"].get("uid") not in (None, known["metadata"]["uid"] if known else ""):
            raise ApiError(409, "Conflict", "uid mismatch")
        if known and known.get("immutable") and known.get("data") != body.get("data"):
            raise ApiError(422, "Invalid", "is invalid", details={"causes": [IMMUTABLE]})
        value = _applied(known or {}, body, manager)
        if known and value == known:
            return self._reply(known, self.warnings)
        value["metadata"].setdefault("uid", self._uid())
        return self._reply(self._store(path, value), self.warnings, status=200 if known else 201)

    def create(self, path: str, body: Mapping[str, Any]) -> Response:
        """Answer a question about rights: everything is allowed."""
        self._note(f"POST {path}")
        return self._reply({**body, "status": {"allowed": True}})

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str = "", metadata: bool = False) -> Response:
        self._note(f"MERGE {path}")
        place = path.removesuffix("/status")
        known = self._find(place)
        required, about = body.get("metadata") or {}, known["metadata"]
        if any(required.get(key) not in (None, about[key]) for key in ("resourceVersion", "uid")):
            raise ApiError(409, "Conflict", "conflict")
        value = self._store(place, _merge(known, body))
        if value["metadata"].get("deletionTimestamp") and not value["metadata"].get("finalizers"):
            del self.objects[place]
        return self._reply(value)

    def json_patch(self, path: str, operations: Sequence[Mapping[str, Any]], *, manager: str = "") -> Response:
        """Know tests and additions of members of the object and of its metadata; the manager owns all that is added."""
        self._note(f"PATCH {path}")
        place = path.removesuffix("/status")
        value = _copy(self._find(place))
        for operation in operations:
            *parents, member = operation["path"].strip("/").split("/")
            parent = value[parents[0]] if parents else value
            if operation["op"] == "test" and parent.get(member) != operation["value"]:
                raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request")
            parent[member] = _copy(operation["value"])
        added = {each["path"].strip("/"): each["value"] for each in operations if each["op"] == "add"}
        time = (START + timedelta(seconds=self._version)).isoformat()
        entry = {"manager": manager, "operation": "Update", "time": time, "fieldsV1": _fields(added)}
        others = [each for each in value["metadata"].get("managedFields", []) if each["manager"] != manager]
        value["metadata"] = {**value["metadata"], "managedFields": [*others, entry]}
        return self._reply(self._store(place, value))

    def delete(
        self, path: str, *, uid: str = "", resource_version: str = "", propagation: str = "Background"
    ) -> Response:
        self._note(f"{'DELETE' if propagation == 'Background' else propagation.upper()} {path}")
        metadata = self._find(path)["metadata"]
        if uid not in ("", metadata["uid"]) or resource_version not in ("", metadata["resourceVersion"]):
            raise ApiError(409, "Conflict", "conflict")
        if metadata.get("finalizers"):
            return self._reply(self.patch(path, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        del self.objects[path]
        return self._reply({"kind": "Status"})

    # Discovery

    def resource(self, kind: GroupVersionKind) -> Resource | None:
        return next((resource for resource in self.served if resource.gvk == kind), None)

    def is_namespaced(self, kind: GroupVersionKind) -> bool | None:
        found = self.resource(kind)
        return found.namespaced if found else None

    def any_version(self, group: str, kind: str) -> Resource | None:
        return next((each for each in self.served if (each.group, each.kind) == (group, kind)), None)

    def resources(self) -> tuple[Resource, ...]:
        return tuple(self.served)

    def has_appeared(self, kind: GroupVersionKind) -> bool:
        return self.resource(kind) is not None

    def seconds_to_recheck(self) -> float | None:
        return self.look_again

    def refresh(self) -> None:
        pass  # it is always current

    def failed_groups(self) -> frozenset[str]:
        return frozenset(self.failing_groups)

    def invalidate(self) -> None:
        self._note("INVALIDATE")

    def capabilities(self) -> Capabilities:
        kinds: dict[tuple[str, str, str], bool] = {each.gvk: each.namespaced for each in self.served}
        return Capabilities(kubernetes_version="v1.36.3", kinds=kinds, unknown=frozenset(self.failing_groups))

    def custom_kinds(self, kinds: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], CustomKind]:
        return {kind: self.custom[kind] for kind in kinds if kind in self.custom}

    # inside

    def _note(self, request: str) -> None:
        if self.dies_after is not None and len(self.requests) >= self.dies_after:
            raise KilledError
        self.requests.append(request)
        if actor := getattr(self._actor, "name", ""):
            self.acted.append((actor, request))
        if self.faults.get(request):
            raise self.faults[request].pop(0)

    def _find(self, path: str) -> Json:
        if path not in self.objects:
            raise ApiError(404, "NotFound", f'"{path}" not found')
        return self.objects[path]

    def _select(self, path: str, selector: str) -> Any:
        def is_chosen(value: Json) -> bool:
            labels = value["metadata"].get("labels") or {}
            return all(_is_met(each, labels) for each in selector.split(",") if each)

        inside = ((place, value) for place, value in sorted(self.objects.items()) if _is_in(path, place, value))
        return [_copy(value) for _, value in inside if is_chosen(value)]

    def _store(self, path: str, value: Json) -> Json:
        self._version += 1
        created = (START + timedelta(seconds=self._version)).isoformat()
        about = {"creationTimestamp": created, **value["metadata"], "resourceVersion": str(self._version)}
        value = {**value, "metadata": about}
        self.objects[path] = value
        return value

    def _uid(self) -> str:
        return f"uid-{self._version + 1}"

    def _reply(self, value: Json, warnings: tuple[str, ...] = (), status: int = 200) -> Response:
        return Response(status, _copy(value), warnings, {})


class _Acting:
    """A FakeCluster as another user calls it."""

    def __init__(self, cluster: FakeCluster, user: User) -> None:
        self._cluster, self._user = cluster, user

    @contextmanager
    def _acting(self) -> Iterator[None]:
        self._cluster._actor.name = self._user.name
        try:
            yield
        finally:
            self._cluster._actor.name = ""

    def _each(self, pages: Generator[Page]) -> Iterator[Page]:
        while True:
            with self._acting():
                page = next(pages, None)
            if page is None:
                return
            yield page

    def __getattr__(self, name: str) -> Any:
        def send(*args: Any, **options: Any) -> Any:
            with self._acting():
                found = getattr(self._cluster, name)(*args, **options)
            return self._each(found) if isinstance(found, Generator) else found

        return send


class FakeDeployments:
    """Stands for SeenDeployments: sees all on a FakeCluster immediately."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.shard = ""
        self.synced = True
        """Whether they are listed."""
        self.silent: dict[str, Json] = {}
        """By name, those that a watch shows as they were: it has been silent since."""
        self.orphaned: set[str] = set()
        """The UIDs of those whose finalizer `orphan` was seen."""

    def find(self, name: str) -> BundleDeployment | None:
        found = self.outline(name)
        return usable(found) if found and shard_of(found.metadata.labels) == self.shard else None

    def outline(self, name: str) -> BundleDeployment | None:
        value = self._value_of(name)
        return _read(marshal.dumps(value, WITHOUT_REFERENCES)) if value else None

    def _value_of(self, name: str) -> Json | None:
        return self.silent.get(name) or self._cluster.objects.get(DEPLOYMENTS.path(name=name))

    def confirm(self, name: str, seconds: float) -> BundleDeployment | None:
        self.silent.pop(name, None)  # it is read
        found = self.outline(name)
        return usable(found) if found else None

    def names(self) -> set[str]:
        return {value["metadata"]["name"] for value in self._cluster.objects.values() if value["kind"] == names.KIND}

    def exists(self, name: str, uid: str) -> bool:
        deployment = self.outline(name)
        return deployment is not None and deployment.metadata.uid == uid

    def dependency(self, name: str) -> Dependency | None:
        found = self.outline(name)
        return dependency_of(usable(found)) if found else None

    def dependents(self, name: str) -> list[str]:
        found = [self.outline(each) for each in sorted(self.names())]
        return [o.metadata.name for o in found if o and name in o.spec.required_deployments]

    def takers(self, name: str) -> list[str]:
        found = [self.outline(each) for each in sorted(self.names())]
        return [o.metadata.name for o in found if o and name in {each.name for each in o.spec.take_over}]

    def was_orphaned(self, name: str, uid: str) -> bool:
        return uid in self.orphaned

    def learn(self, manifest: Mapping[str, Any], sent: float | None = None) -> None:
        self.silent.pop(manifest["metadata"]["name"], None)  # else it is known already

    def learn_gone(self, name: str, uid: str) -> None:
        assert self.outline(name) is None


class FakeObjects:
    """Stands for ManagedObjects: sees everything on a FakeCluster immediately."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._owned = OwnedObjects()
        """What was seen last."""
        self._lock = threading.Lock()
        self.unsynced: set[str] = set()
        """Kinds whose first list is under way."""
        self.needed: dict[str, set[str]] = {}
        """By BundleDeployment: the kinds that are watched for it."""
        self.ever_needed: set[str] = set()
        """The same for all, also after it was dropped."""
        self.unwatched: set[str] = set()
        """Kinds that cannot be watched yet, since discovery is behind."""
        self.failing: set[str] = set()
        """Kinds whose API group does not answer discovery: their objects are unknown."""
        self.denied: set[str] = set()
        """Kinds that the controller may not list: it knows only the objects in `told`."""
        self.told: dict[ObjectKey, Record] = {}
        """Known objects of denied kinds."""
        self.behind: dict[ObjectKey, Record | None] = {}
        """The outdated record that is still seen of an object."""

    def require(self, name: str, kinds: Any) -> list[str]:
        wanted = {kind.kind for kind in kinds}
        self.needed[name] = self.needed.get(name, set()) | wanted
        self.ever_needed |= wanted
        return sorted(wanted & self.unsynced)

    def has_unwatched(self, name: str) -> bool:
        return bool(self.needed.get(name, set()) & self.unwatched)

    def find_unknown(self, name: str, kinds: Any) -> list[str]:
        return sorted({kind.kind for kind in kinds} & self.failing)

    def require_only(self, name: str, kinds: Any) -> None:
        self.needed[name] = {kind.kind for kind in kinds}

    def forget(self, name: str) -> None:
        self.needed.pop(name, None)

    def heed(self, name: str, keys: frozenset[ObjectKey]) -> None:
        """Nothing changes unless a test says so."""

    def of(self, name: str) -> dict[ObjectKey, Record]:
        return dict(self.look(name, UNREAD).records)

    def look(self, name: str, since: int) -> Look:
        with self._lock:
            seen = self._seen(name)
            for key, known in self._owned.of(name).items():
                if seen.get(key) != known:
                    self._owned.put(key, seen.pop(key, None))
            for key, record in seen.items() - self._owned.of(name).items():
                self._owned.put(key, record)
            return self._owned.look(name, since)

    def _seen(self, name: str) -> dict[ObjectKey, Record]:
        values = [value for value in self._values() if value["kind"] != names.KIND]
        records = [
            *(
                _record(marshal.dumps(value, WITHOUT_REFERENCES))
                for value in values
                if value["kind"] not in self.denied
            ),
            *self.told.values(),
        ]
        known = (record for record in records if record.owner == name and record.key.kind not in self.failing)
        seen = {record.key: record for record in known} | self.behind
        return {key: record for key, record in seen.items() if record}

    def learn(self, record: Record) -> Record:
        if record.key.kind in self.denied:
            self.told[record.key] = record
        return self.of(record.owner).get(record.key, record)

    def is_forbidden(self, group: str, kind: str) -> bool:
        return kind in self.denied

    def learn_gone(self, key: ObjectKey) -> None:
        self.told.pop(key, None)

    def _values(self) -> list[Json]:
        return list(self._cluster.objects.values())


class FakeWatches:
    """Stands for Watches."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.history = 0
        self.late_namespaces: set[str] = set()
        """Names of namespaces that exist, and that the watch does not show yet."""
        self.evaluator = SimpleNamespace(find_problem=expressions.find_problem, evaluate=expressions.evaluate)
        self.deployments, self.objects = FakeDeployments(cluster), FakeObjects(cluster)
        self.served = _FakeServedKinds(cluster, self.objects)
        self.projection = SimpleNamespace(judge=self._judge)

    @property
    def watches(self) -> Watches:
        """Itself, as the type that is asked for."""
        return cast("Watches", self)

    def refresh(self) -> None:
        self.deployments.synced = False
        self.history += 1

    def lacks_namespace(self, name: str) -> bool:
        return name in self.late_namespaces or NAMESPACES.path(name=name) not in self._cluster.objects

    def _judge(self, name: str, manifest: Mapping[str, Any], _resource: Resource, *, evaluates: bool) -> Verdict:
        checks = make_seen(self._cluster.objects[DEPLOYMENTS.path(name=name)]).checks
        evaluate = self.evaluator.evaluate if evaluates else None
        return assess(manifest, Context(checks=matching(checks, manifest), evaluate=evaluate))


class _FakeServedKinds:
    """Stands for ServedKinds: each kind is served at one version."""

    def __init__(self, cluster: FakeCluster, objects: FakeObjects) -> None:
        self._cluster, self._objects = cluster, objects

    def is_namespaced(self, kind: GroupVersionKind) -> bool | None:
        resource = self._cluster.resource(kind)
        return resource.namespaced if resource else None

    def at_storage_version(self, group: str, kind: str) -> Resource | None:
        return None  # every kind is served at one version

    def is_aggregated(self, group: str, kind: str) -> bool:
        return group not in BUILT_IN_GROUPS

    def is_missing(self, kind: GroupVersionKind) -> bool:
        return self.is_namespaced(kind) is None and kind.kind not in self._objects.failing

    def is_withdrawn(self, _kind: GroupVersionKind) -> bool:
        return False  # every kind is served at one version


def _is_met(requirement: str, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one of `key`, `!key`, `key=value` and `key!=value`."""
    key, _, wanted = requirement.partition("=")
    if key.startswith("!"):
        return key[1:] not in labels
    if key.endswith("!"):
        return labels.get(key[:-1]) != wanted
    return key in labels and wanted in ("", labels[key])


# Tests look at each object after each request, while a controller reads what has changed. Objects of tests are small
# JSON, which `marshal` writes in less time than anything else takes to compare or to copy them.
@lru_cache(maxsize=4096)
def _read(deployment: bytes) -> BundleDeployment:
    return read(marshal.loads(deployment))


@lru_cache(maxsize=4096)
def _record(written: bytes) -> Record:
    value = marshal.loads(written)
    kind = GroupVersionKind.of(value)
    verdict = assess(value, Context()) if needs_full_object(kind.group, kind.kind) else None
    return project(value, kind.group, kind.kind, verdict)


def _copy(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value, WITHOUT_REFERENCES))


def _applied(known: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> Json:
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": body["apiVersion"],
        "time": NEVER_LATE,
        "fieldsV1": _fields({key: value for key, value in body.items() if key not in ("apiVersion", "kind")}),
    }
    metadata = known.get("metadata") or {}
    others = [one for one in metadata.get("managedFields", []) if one.get("manager") not in (manager, None)]
    ours = json.loads(json.dumps({key: value for key, value in body.items() if key != "metadata"}))
    merged = _merge(
        metadata, {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
    )
    return {**known, **ours, "metadata": {**merged, "managedFields": [*others, entry]}}


def _fields(value: Any) -> Json:
    if not isinstance(value, Mapping):
        return {}
    skipped = ("name", "namespace", "resourceVersion", "uid")
    return {
        f"f:{key}": _fields(
            {name: each for name, each in member.items() if name not in skipped} if key == "metadata" else member
        )
        for key, member in value.items()
    }


def _merge(value: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    merged = dict(value)
    for key, member in change.items():
        if member is None:
            merged.pop(key, None)
        elif isinstance(member, Mapping):
            merged[key] = _merge(merged.get(key) or {}, member)
        else:
            merged[key] = _copy(member)
    return merged


def _is_in(collection: str, place: str, value: Json) -> bool:
    """Whether an object is in a collection, of one namespace or of all."""
    namespace = value["metadata"].get("namespace", "")
    own = place.rpartition("/")[0]
    return collection in (own, own.replace(f"/namespaces/{namespace}/", "/") if namespace else own)


def hold_lease(cluster: FakeCluster, name: str = "rukpak") -> None:
    """Have a controller hold a Lease."""
    spec = {"holderIdentity": "pod_1", "renewTime": datetime.now(UTC).isoformat(), "leaseDurationSeconds": 3600}
    metadata = {"name": name, "namespace": "rukpak-system"}
    cluster.objects[LEASES.path("rukpak-system", name)] = {"metadata": metadata, "spec": spec}
