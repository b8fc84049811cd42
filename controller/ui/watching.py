"""The watches behind all pages: one of the BundleDeployments, and those of the objects of each that a page shows.

They run in threads. A stream to a page asks ten times a second which version of a value there is, and takes the value
if it has not sent that; so what changes more often than a page can show costs only what it costs to know. The watches
of a BundleDeployment that no page shows any more are stopped.

Not here: what is made of the objects (model.py), and requests of pages (server.py).
"""

from __future__ import annotations

import marshal
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.targets import Target
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.events import EVENTS, NAMESPACE, select_about
from rukpak.controller.kube.resources import DEPLOYMENTS, Resource, read_kinds
from rukpak.controller.kube.watch import ListWatch, Reflector
from rukpak.controller.observe.records import key_of
from rukpak.controller.processes.supervision import Kind
from rukpak.controller.ui.model import make_detail, make_row, to_json
from rukpak.controller.ui.panel import Seen, make_panel
from rukpak.controller.untrusted import text
from rukpak.controller.views.access import (
    RUNNING,
    Manifest,
    describe_unserved,
    explain_unserved,
    read_revisions,
    select_owned,
    typed,
)
from rukpak.controller.views.objects import (
    Node,
    Outline,
    add_waiting,
    describe_drift,
    find_line,
    find_owned_resources,
    find_targets,
    find_waves_by_title,
    flatten,
    group_by_wave,
    make_nodes,
    make_outline,
    owner_of,
)

LARGE_BYTES = 16 << 10
"""Size above which an object is kept compressed."""
CONTROLLER_SECONDS = 10.0
"""After how long it is asked again whether controllers run, while a page is open."""
STORE_SECONDS = 30.0
"""After how long the revision store is read again if that failed."""
MOST_EVENTS, MOST_REGARDED = 50, 20
"""Events of an object that are read, and of how many objects: of one with those that it owns, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """An object as it was watched, in little memory: a page shows few of them in full."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    data: bytes
    is_compressed: bool

    def value(self) -> Manifest:
        """Return the object."""
        data = zlib.decompress(self.data) if self.is_compressed else self.data
        found: Manifest = marshal.loads(data)  # noqa: S302 - made by _pack
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object(Packed):
    outline: Outline


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """What is needed of the revision store."""

    digests: tuple[str, str] = ("", "")
    """The installed and the wanted revision."""
    at: float = 0.0
    targets: Mapping[ObjectKey, Target] | None = None
    """Of the installed revision; None: it could not be read."""
    wanted: Revision | None = None


def _pack(value: Manifest) -> dict[str, Any]:
    metadata, data = value["metadata"], marshal.dumps(value)
    is_large = len(data) > LARGE_BYTES
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resource_version": metadata["resourceVersion"],
        "data": zlib.compress(data, 1) if is_large else data,
        "is_compressed": is_large,
    }


class Board:
    """All BundleDeployments of a cluster. Thread-safe.

    Args:
        client: with a connection for each watch, and the rights of the user.
        namespace: of the controller, which keeps revisions there.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.discovery = Discovery(client)
        self._reflector = Reflector(
            ListWatch(client, DEPLOYMENTS.path()),
            project=lambda value: Packed(**_pack(typed(DEPLOYMENTS, value))),
            on_change=self._note,
            on_synced=lambda: self._wake(""),
        )
        self._lock = threading.Lock()
        self._woken = threading.Condition(self._lock)
        self._changed: set[str] = set()
        """Names of those whose rows are to be made; empty ones for none."""
        self._worker = client.supervisor.thread(Kind.WATCH, "rows of the page", self._make_rows)
        self._stopping = threading.Event()
        self.is_listed = False
        """Whether all BundleDeployments are known, even if the cluster has gone since."""
        self._rows: dict[str, tuple[int, str]] = {}
        self.version = 0
        """Version of the rows; grows with each change."""
        self._views: dict[str, View] = {}
        self._requires: dict[str, Sequence[str]] = {}
        self._shards: dict[str, str] = {}
        """That each BundleDeployment names; empty: the default one."""
        self._unserved: Mapping[str, str] = {}
        """Why nobody acts on a shard, by the shard."""
        self._asked = threading.Event()
        """Set while a page is open. The Leases are read on a thread of their own, as that may take long."""
        self._asker = client.supervisor.thread(Kind.WATCH, "controllers of the page", self._find_controllers)
        self._reached = ""
        """When the cluster was known to answer last; empty: never."""

    def start(self) -> None:
        """Begin to watch; only once."""
        self._worker.start()
        self._asker.start()
        self._reflector.start()

    def stop(self) -> None:
        """Stop all watches; returns at once."""
        self._reflector.stop()
        with self._woken:
            self._stopping.set()
            self._asked.set()
            self._woken.notify_all()
            for view in self._views.values():
                view.stop()

    def _note(self, old: Packed | None, new: Packed | None) -> None:
        self._wake((new or old).name)  # type: ignore[union-attr] # one of them is a record

    def _wake(self, name: str) -> None:
        with self._woken:
            self._changed.add(name)
            self._woken.notify()
            view = self._views.get(name)
        if view:
            view.note()

    def _make_rows(self) -> None:
        while True:
            with self._woken:
                self._woken.wait_for(lambda: self._changed or self._stopping.is_set())
                if self._stopping.is_set():
                    return
                changed, self._changed = self._changed, set()
                is_synced = self._reflector.synced
            for name in filter(None, changed):
                self._make_row(name)
            self.is_listed = self.is_listed or is_synced

    def _make_row(self, name: str) -> None:
        value = self.find(name)
        row = make_row(value) if value else None
        made = to_json(row) if row else ""
        with self._lock:
            self.version += 1
            if value:
                self._rows[name] = (self.version, made)
                self._shards[name] = text(value, "metadata", "labels", names.SHARD)
            else:
                self._rows.pop(name, None)
                self._shards.pop(name, None)
            required = row.requires if row else ()
            affected = {*required}.symmetric_difference(self._requires.pop(name, ()))
            self._requires |= {name: required} if required else {}
            views = [self._views[each] for each in affected if each in self._views]
        for view in views:
            view.note()

    def _find_controllers(self) -> None:
        while self._asked.wait():
            self._asked.clear()
            if self._stopping.is_set():
                return
            with self._lock:
                shards = {*self._shards.values()}
            try:
                found = {each: explain_unserved(self.client, self.namespace, each) for each in sorted(shards)}
                self._unserved = {shard: why for shard, why in found.items() if why}
            except ApiError:
                self._unserved = {}  # it is not known, and the watches tell that the cluster does not answer
            self._stopping.wait(CONTROLLER_SECONDS)

    def _describe_unserved(self, name: str) -> str:
        unserved = self._unserved
        if not unserved:
            return ""
        with self._lock:
            shards = {each: shard for each, shard in self._shards.items() if name in ("", each)}
        return "\n".join(describe_unserved(shards, lambda shard: unserved.get(shard, "")))

    def rows(self) -> dict[str, tuple[int, str]]:
        """Return the version and the JSON of each row, by name."""
        with self._lock:
            return dict(self._rows)

    def find_dependents(self, name: str) -> list[str]:
        """Return the names of the BundleDeployments whose `dependsOn` names one."""
        with self._lock:
            return sorted(each for each, required in self._requires.items() if name in required)

    def find(self, name: str) -> Manifest | None:
        """Return a BundleDeployment as it was watched last; None if it does not exist."""
        found = self._reflector.cache.get(("", name))
        return found.value() if found else None

    def contact(self, name: str = "") -> dict[str, str]:
        """Return whether the cluster answers, and controllers run: `state`, `message`, and `since` when it does not.

        Args:
            name: of the BundleDeployment that a page shows; empty: all.
        """
        reflector = self._reflector
        if reflector.denied:
            return {"state": "denied", "message": reflector.denied, "since": self._reached}
        # An error is known until the next event, which may be much later than the next answer.
        if (error := reflector.last_error) and not reflector.is_connected:
            return {"state": "away", "message": error.message or str(error), "since": self._reached}
        if not reflector.synced:
            return {"state": "connecting", "message": "", "since": ""}
        self._reached = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.is_listed:
            self._asked.set()
        message = self._describe_unserved(name)
        return {"state": "unserved" if message else "live", "message": message, "since": ""}

    @contextmanager
    def viewing(self, name: str) -> Iterator[View]:
        """Provide the watches of the objects of a BundleDeployment, shared by all pages that show it."""
        with self._lock:
            view = self._views.get(name) or self._views.setdefault(name, View(self, name))
            view.viewers += 1
        try:
            yield view
        finally:
            with self._lock:
                view.viewers -= 1
                if not view.viewers:
                    self._views.pop(name)
                    view.stop()

    def view(self, name: str) -> View | None:
        """Return the watches of a BundleDeployment that a page shows."""
        with self._lock:
            return self._views.get(name)


class View:
    """The objects of one BundleDeployment, what they own, and its Events. Thread-safe, except `viewers`.

    Args:
        board: has the BundleDeployment.
        name: of it.
    """

    def __init__(self, board: Board, name: str) -> None:
        self._board, self._name = board, name
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, Resource], Reflector[_Object]] = {}
        """By namespace, empty for all, and resource."""
        self._events: Reflector[Packed] = Reflector(
            ListWatch(board.client, EVENTS.path(NAMESPACE), field_selector=select_about(name)),
            project=lambda value: Packed(**_pack(typed(EVENTS, value))),
            on_change=lambda _old, _new: self.note(),
        )
        self._noting = threading.Lock()  # all watches do; the other lock is held while `read` waits
        self.version = 1
        """Version of what `read` returns; grows with each change."""
        self._made: tuple[int, str] = (0, "")
        self._stored = _Stored()
        self._nodes: Sequence[Node] = ()
        self._waves: Mapping[str, int] = {}
        self._drift: dict[str, tuple[str, str]] = {}
        self._stopping = threading.Event()
        self.viewers = 0
        """Pages that show it; guarded by the board."""
        self._events.start()

    def stop(self) -> None:
        """Stop the watches; returns at once, also while `read` waits."""
        self._stopping.set()
        self._events.stop()
        for reflector in list(self._objects.values()):
            reflector.stop()

    def note(self) -> None:
        """Note that something has changed."""
        with self._noting:
            self.version += 1

    def read(self) -> str:
        """Return what the page shows as JSON; `null` if it does not exist. When the version grows, it may have changed.

        May wait for the API server.
        """
        with self._lock:
            return self._read()

    def _read(self, *, anew: bool = False) -> str:
        version = self.version
        if anew or self._made[0] != version:
            self._made = (version, self._make())
        return self._made[1]

    def find(self, uid: str) -> Manifest | None:
        """Return an object as it was watched last."""
        with self._lock:
            found = next((each for each in self._records() if each.uid == uid), None)
        return found.value() if found else None

    def is_complete(self) -> bool:
        """Return whether all objects that the user may list are known: what is not found afterwards does not exist.

        May wait for the API server.
        """
        is_listed = self._board.is_listed  # before looking: what is listed in between would be reported as gone
        if self._board.find(self._name) is None:
            return is_listed
        self.read()
        with self._lock:
            watches = dict(self._objects)
            # Asked first: what is listed meanwhile may own objects that are not watched yet.
            are_listed = all(each.synced or each.denied for each in watches.values())
            owned = list(find_owned_resources(each.outline.key for each in self._records()))
        return bool(watches) and are_listed and all(each in watches for each in owned)

    def make_panel(self, uid: str, key: bytes) -> str | None:
        """Return what the panel of an object shows, as JSON; None if it is not one of the BundleDeployment.

        Args:
            uid: of the object.
            key: of the hashes that stand for values of Secrets.
        """
        manifest, value = self.find(uid), self._board.find(self._name)
        deployment = try_to_read(value)[0] if value else None
        with self._lock:
            self._read()
            if manifest is not None and not find_line(self._nodes, uid):
                self._read(anew=True)  # a watch stores an object before it notes the change
            nodes, waves, stored = self._nodes, self._waves, self._stored
        line = find_line(nodes, uid)
        if manifest is None or deployment is None or not line:
            return None
        regarded = list(flatten([line[-1]]))
        regarded.sort(key=lambda node: node is not line[-1] and node.state == "healthy")
        notes: list[str] = []
        events = self._read_events([each for each in regarded if each.uid], notes)
        target = (stored.targets or {}).get(key_of(manifest))
        wave = waves.get(line[0].title) if group_by_wave(nodes, waves) else None
        seen = Seen(value=manifest, line=line, target=target, wave=wave)
        return to_json(make_panel(deployment, seen, events, notes, key))

    def _read_events(self, nodes: Sequence[Node], notes: list[str]) -> list[Manifest]:
        if len(nodes) > MOST_REGARDED:
            notes.append(f"Events are those of {MOST_REGARDED} of {len(nodes)} objects, the unhealthy first")
        found: list[Manifest] = []
        for node in nodes[:MOST_REGARDED]:
            path = EVENTS.path(node.namespace or NAMESPACE)
            try:
                page = next(
                    self._board.client.pages(path, field_selector=f"regarding.uid={node.uid}", limit=MOST_EVENTS)
                )
            except ApiError as error:
                notes.append(f"Events cannot be listed: {error.tell_user()}")
                break
            found += (each for each in page.items if text(each, "regarding", "uid") == node.uid)
        return found

    def _make(self) -> str:
        value = self._board.find(self._name)
        if value is None:
            return "null"
        deployment, _ = try_to_read(value)
        notes: list[str] = []
        nodes = self._make_nodes(deployment, notes) if deployment else []
        events = [each.value() for each in self._events.cache.records()]
        self._nodes = nodes
        return to_json(make_detail(value, nodes, events, notes, self._waves))

    def _make_nodes(self, deployment: BundleDeployment, notes: list[str]) -> list[Node]:
        self._watch_own(deployment, notes)
        for namespace, resource in find_owned_resources(each.outline.key for each in self._records()):
            self._watch(namespace, resource, "")
        records = {each.uid: each for each in self._records()}
        stored = self._read_store(deployment, notes)
        notes += [
            f"{kind.kind}: {reflector.denied}" for (_, kind), reflector in self._objects.items() if reflector.denied
        ]
        nodes = make_nodes(
            deployment,
            [each.outline for each in records.values()],
            lambda uid: self._find_drift(records[uid], deployment, stored),
        )
        self._waves = find_waves_by_title((each.outline.value for each in records.values()), stored.wanted)
        nodes = add_waiting(deployment, nodes, stored.wanted, self._waves)
        return sorted(nodes, key=lambda node: (node.namespace, node.kind, node.name))

    def _records(self) -> list[_Object]:
        return [record for reflector in self._objects.values() for record in reflector.cache.records()]

    def _watch_own(self, deployment: BundleDeployment, notes: list[str]) -> None:
        selector = select_owned(self._name)
        resources = list(RUNNING.values())  # hooks
        for kind in read_kinds(deployment.status.managed_kinds):
            try:
                found = RUNNING.get(kind) or self._board.discovery.resource(kind)
            except ApiError:
                found = None
            if found:
                resources.append(found)
            else:
                notes.append(f"{kind}: the cluster does not serve this kind")
        for resource in dict.fromkeys(resources):
            self._watch("", resource, selector)

    def _watch(self, namespace: str, resource: Resource, selector: str) -> None:
        if self._stopping.is_set() or (namespace, resource) in self._objects:
            return

        def _project(value: dict[str, Any]) -> _Object:
            item = typed(resource, value)
            return _Object(**_pack(item), outline=make_outline(item))

        reflector = Reflector(
            ListWatch(self._board.client, resource.path(namespace), label_selector=selector),
            project=_project,
            on_change=lambda _old, _new: self.note(),
            on_synced=self.note,
            on_failed=self.note,
        )
        self._objects[namespace, resource] = reflector
        reflector.start()
        if self._stopping.is_set():
            reflector.stop()

    def _read_store(self, deployment: BundleDeployment, notes: list[str]) -> _Stored:
        digests = deployment.status.installed_revision, deployment.status.revision
        known, now = self._stored, time.monotonic()
        if known.digests != digests or (known.targets is None and digests[0] and now - known.at > STORE_SECONDS):
            revisions = None
            try:
                revisions = read_revisions(self._board.client, self._board.namespace, deployment)
                targets = find_targets(self._board.discovery, deployment, revisions) if revisions else None
            except ApiError:
                targets = None
            wanted = (revisions or {}).get(digests[1])
            self._stored = _Stored(digests=digests, at=now, targets=targets, wanted=wanted)
        if digests[0] and self._stored.targets is None:
            notes.append("the revision store cannot be read, so it is not known which fields have drifted")
        return self._stored

    def _find_drift(self, record: _Object, deployment: BundleDeployment, stored: _Stored) -> str:
        target = (stored.targets or {}).get(record.outline.key)
        if target is None:
            return ""
        version = f"{record.resource_version} {stored.digests[0]}"
        known, drift = self._drift.get(record.uid, ("", ""))
        if known != version:
            drift = describe_drift(record.value(), target, owner_of(deployment))
            self._drift[record.uid] = (version, drift)
        return drift
