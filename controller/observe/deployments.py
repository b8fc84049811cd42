"""The latest known BundleDeployments, including those that this release cannot read, and how they are related.

Large ones are kept compressed, since small values take thirty times more memory as Python objects than in etcd, and a
user may write many. Frequent readers use an outline, which is never large.

One watch shows those of all shards, since they may depend on each other, take over objects, and move. Of those that
other controllers serve, only outlines are kept.

Whom a change concerns, by `spec.dependsOn` and `spec.takeOver`, is decided purely.

Not here: the consequences of a change (watches.py), what waits for a dependency (reconcile/gates.py), and which objects
pass (apply/ownership.py).
"""

from __future__ import annotations

import logging
import marshal
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import ConditionType, Reason
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety, Drift
from rukpak.api.v1alpha2.reading import read, try_to_read
from rukpak.api.v1alpha2.sources import Source
from rukpak.api.v1alpha2.types import BundleDeployment, ObjectMeta, Status
from rukpak.controller.content.digests import is_digest
from rukpak.controller.kube.cache import Trace, make_trace
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.resources import DEPLOYMENTS, read_kinds, shard_of
from rukpak.controller.kube.watch import ListWatch, Pace, Reflector
from rukpak.controller.untrusted import strings

log = logging.getLogger(__name__)
INSTALL_API = "rukpak crd | kubectl apply --server-side -f -"
"""The command that installs the API."""
LARGE_BYTES = 16 << 10
"""Size of a spec above which it is kept compressed."""
ORPHAN_FINALIZER = "orphan"
PAGE_ITEMS = 20
"""BundleDeployments in one reply, all of which are in memory at the same time."""

_LEFT_OUT: Mapping[str, Any] = {
    "config": {},
    "processors": (),
    "health_checks": (),
    "drift": Drift(),
    "crd_upgrade_safety": CrdUpgradeSafety(),
}
"""What an outline has in place of what a spec may have much of."""

_STATE = re.compile(r"v[0-9]{1,9}:(?P<digest>.*)")
_TYPES, _REASONS = frozenset(each.value for each in ConditionType), frozenset(each.value for each in Reason)

HealthCheck = Mapping[str, Any]
"""An entry of `spec.healthChecks`, as written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDeployment(Trace):
    """The latest known state of a BundleDeployment; `outline` is None if it cannot be read at all."""

    outline: BundleDeployment | None
    """The whole; if its spec or metadata are large, or it is not served, without what is free in form or number in
    them."""
    served: bool = True
    """Whether it has the label of the shard of this controller."""
    packed: bytes = b""
    """The whole, compressed, if it is served, and more than the outline."""
    checks: tuple[HealthCheck, ...] = ()

    @property
    def deployment(self) -> BundleDeployment | None:
        """The whole, `usable`, unpacked on each call: do not keep it longer than needed."""
        if not self.packed:
            return usable(self.outline) if self.outline else None
        # Our own bytes. Not JSON: deeply nested values can be parsed, but not serialized.
        return usable(read(marshal.loads(zlib.decompress(self.packed))))  # noqa: S302


class SeenDeployments:
    """Thread-safe: all BundleDeployments, watched, and indexed by the others that they name.

    Args:
        changed: gets the old and the new state of one, on the thread of the watch.
        synced: called on that thread once all are known, or known again.
        shard: name of the one whose BundleDeployments are `served`; empty: the default one.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[SeenDeployment | None, SeenDeployment | None], None],
        synced: Callable[[], None],
        shard: str = "",
    ) -> None:
        self._client, self._changed, self.shard = client, changed, shard
        self._as_of: dict[str, float] = {}
        """By name, when the last request for one was sent, in monotonic seconds."""
        self._orphaned: dict[str, str] = {}
        """UIDs by name; see `was_orphaned`."""
        self.reflector = Reflector[SeenDeployment](
            ListWatch(client, DEPLOYMENTS.path()),
            project=lambda manifest: make_seen(manifest, self.shard),
            functions=INDEX_FUNCTIONS,
            on_change=self._note,
            on_synced=synced,
            on_failed=self._note_failure,
            pace=Pace(page=PAGE_ITEMS),
        )

    def _note_failure(self) -> None:
        error = self.reflector.last_error
        if error and error.status == HTTPStatus.NOT_FOUND:
            log.warning("BundleDeployments are not served, waiting for the API", extra={"remedy": INSTALL_API})

    def _note(self, old: SeenDeployment | None, new: SeenDeployment | None) -> None:
        if new is None and old:
            self._orphaned.pop(old.name, None)
            self._as_of.pop(old.name, None)
        if new and new.outline and ORPHAN_FINALIZER in new.outline.metadata.finalizers:
            self._orphaned[new.name] = new.uid
        self._changed(old, new)

    @property
    def synced(self) -> bool:
        """Whether all are known."""
        return self.reflector.synced

    def was_orphaned(self, name: str, uid: str) -> bool:
        """Whether it has had the finalizer that asks the garbage collector to keep its objects (`--cascade=orphan`).

        The collector removes it, possibly before a pass sees it.
        """
        return self._orphaned.get(name) == uid

    def get(self, name: str) -> SeenDeployment | None:
        """Return what is kept of a BundleDeployment of any shard; None if it does not exist."""
        return self.reflector.cache.get(("", name))

    def find(self, name: str) -> BundleDeployment | None:
        """Return the latest known state of a BundleDeployment of the shard.

        None if it does not exist, has moved to another shard, or cannot be read.
        """
        seen = self.get(name)
        return seen.deployment if seen and seen.served else None

    def outline(self, name: str) -> BundleDeployment | None:
        """Return a BundleDeployment of any shard, with the status on the cluster; for frequent use.

        Without `config` and parameters if it is large or of another shard. None if it does not exist or cannot be read.
        """
        seen = self.get(name)
        return seen.outline if seen else None

    def outlines(self) -> list[BundleDeployment]:
        """Return the outlines of all BundleDeployments of the shard that can be read, in no order."""
        return [seen.outline for seen in self.reflector.cache.records() if seen.served and seen.outline]

    def names(self) -> set[str]:
        """Return the names of all BundleDeployments of the shard, including unreadable ones."""
        return {seen.name for seen in self.reflector.cache.records() if seen.served}

    def exists(self, name: str, uid: str) -> bool:
        """Return whether a BundleDeployment with this name and UID exists, of whatever shard."""
        seen = self.get(name)
        return seen is not None and seen.uid == uid

    def dependency(self, name: str) -> Dependency | None:
        """Return what others need to know of a BundleDeployment of any shard; None if it does not exist."""
        seen = self.get(name)
        return dependency_of(seen.outline and usable(seen.outline)) if seen else None

    def dependents(self, name: str) -> list[str]:
        """Return the names of the BundleDeployments that depend on one and stay, in order."""
        found = self.reflector.cache.index(DEPENDENTS, name)
        return sorted(each.name for each in found if each.outline and not each.outline.metadata.deletion_timestamp)

    def takers(self, name: str) -> list[str]:
        """Return the names of the BundleDeployments that take over objects of one, in order."""
        return self._find_by(TAKERS, name)

    def _find_by(self, index: str, name: str) -> list[str]:
        return sorted(each.name for each in self.reflector.cache.index(index, name))

    def find_concerned(self, old: SeenDeployment | None, new: SeenDeployment | None) -> tuple[set[str], set[str]]:
        """Return whom a change of one concerns: those that wait for it, and the parties of a hand-over."""
        name = next(each.name for each in (old, new) if each)
        dependency, dependency_now = (dependency_of(each.outline) if each else None for each in (old, new))
        party, party_now = (party_of(each.outline) if each and each.outline else None for each in (old, new))
        return (
            find_dependents(name, dependency, dependency_now, lambda each: self._find_by(DEPENDENTS, each)),
            find_parties(name, party, party_now, lambda each: self._find_by(TAKERS, each)),
        )

    def is_foreign(self, name: str) -> bool:
        """Whether a BundleDeployment belongs to another shard; False for one that does not exist."""
        seen = self.get(name)
        return seen is not None and not seen.served

    def checks_of(self, name: str) -> tuple[HealthCheck, ...]:
        """Return the health checks of one."""
        seen = self.get(name)
        return seen.checks if seen else ()

    def all_checks(self) -> list[HealthCheck]:
        """Return the health checks of all that are served."""
        return [check for seen in self.reflector.cache.records() for check in seen.checks]

    def changed_checks(self, old: SeenDeployment | None, new: SeenDeployment) -> list[HealthCheck]:
        """Return the health checks that were added or removed; `new` may be older than the latest known state."""
        before, now = old.checks if old else (), self.checks_of(new.name)
        return [check for check in (*new.checks, *before) if (check in now) != (check in before)]

    def confirm(self, name: str, seconds: float) -> BundleDeployment | None:
        """Return the outline of a BundleDeployment as the API server had it so many seconds ago at most.

        A watch may be silent, or behind: it is read, unless the reply to a write is as new.

        Raises: ApiError.
        """
        now = time.monotonic()
        if now - self._as_of.get(name, -seconds) >= seconds:
            found = attempt(lambda: self._client.get(DEPLOYMENTS.path(name=name)), HTTPStatus.NOT_FOUND)
            if found:
                self.learn(found.value, now)
            elif known := self.get(name):
                self.learn_gone(name, known.uid)
        outline = self.outline(name)
        return usable(outline) if outline else None

    def learn(self, manifest: Mapping[str, Any], sent: float | None = None) -> None:
        """Keep the state in a reply to a write, if it is newer.

        Args:
            manifest: in the reply.
            sent: when the request was sent, in monotonic seconds; None: not known.
        """
        seen = make_seen(manifest, self.shard)
        if sent is not None:
            self._as_of[seen.name] = sent
        self.reflector.cache.learn(seen)

    def learn_gone(self, name: str, uid: str) -> None:
        """Forget the one with this name and UID: it is gone according to the reply to a write."""
        self.reflector.cache.hide(("", name), uid)


def make_seen(manifest: Mapping[str, Any], shard: str = "") -> SeenDeployment:
    """Return what the controller of a shard keeps of a BundleDeployment from the API server.

    It logs why one of its own cannot be read.
    """
    metadata = manifest["metadata"]
    deployment, problem = try_to_read(manifest)
    served = shard_of(strings(metadata, "labels")) == shard
    if problem and served:
        log.warning("BundleDeployment cannot be read", extra={"BundleDeployment": metadata["name"], "problem": problem})
    outline, packed = _outline(deployment, manifest, served=served) if deployment else (None, b"")
    checks = deployment.spec.health_checks if deployment and served else ()
    return SeenDeployment(
        **asdict(make_trace(manifest)),
        outline=outline,
        served=served,
        packed=packed,
        checks=tuple(check.model_dump(mode="json", by_alias=True, exclude_defaults=True) for check in checks),
    )


def _outline(
    deployment: BundleDeployment, manifest: Mapping[str, Any], *, served: bool
) -> tuple[BundleDeployment, bytes]:
    """Return the outline of a BundleDeployment, and the whole, compressed, if that is more and it is served."""
    if not served:
        spec = deployment.spec.model_copy(update={**_LEFT_OUT, "sources": ()})
        return deployment.model_copy(update={"spec": spec, "metadata": _outline_metadata(deployment.metadata)}), b""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    update: dict[str, Any] = {}
    if len(marshal.dumps(manifest["spec"])) > LARGE_BYTES:
        sources = tuple(map(_outline_source, deployment.spec.sources))
        update["spec"] = deployment.spec.model_copy(update={**_LEFT_OUT, "sources": sources})
    if len(marshal.dumps(metadata)) > LARGE_BYTES:
        update["metadata"] = _outline_metadata(deployment.metadata)
    if not update:
        return deployment, b""
    packed = zlib.compress(marshal.dumps({**manifest, "metadata": metadata}), level=1)
    return deployment.model_copy(update=update), packed


def _outline_source(source: Source) -> Source:
    blocks = {name: getattr(source, name) for name in ("image", "git", "http", "chart")}
    small = {name: block.model_copy(update={"certificate_data": ""}) for name, block in blocks.items() if block}
    return source.model_copy(update={"parameters": None, **small})


def _outline_metadata(metadata: ObjectMeta) -> ObjectMeta:
    return metadata.model_copy(
        update={
            "labels": {names.SHARD: metadata.labels[names.SHARD]} if names.SHARD in metadata.labels else {},
            "annotations": {key: metadata.annotations[key] for key in names.ORDERS if key in metadata.annotations},
            "finalizers": tuple(each for each in metadata.finalizers if each in (names.FINALIZER, ORPHAN_FINALIZER)),
        }
    )


def usable(deployment: BundleDeployment) -> BundleDeployment:
    """Return a BundleDeployment without what its status has that the controller never writes; itself if that is all.

    What is missing is found out again, from the revision store and from all kinds that it names.
    """
    status = deployment.status
    state = _STATE.fullmatch(status.managed_state)
    kept: dict[str, Any] = {
        "revision": status.revision if is_digest(status.revision) else "",
        "installed_revision": status.installed_revision if is_digest(status.installed_revision) else "",
        "managed_state": status.managed_state if state and is_digest(state["digest"]) else "",
        "managed_kinds": tuple(map(str, read_kinds(status.managed_kinds))),
        "skipped_kinds": tuple(map(str, read_kinds(status.skipped_kinds))),
        "conditions": tuple(each for each in status.conditions if each.type in _TYPES and each.reason in _REASONS),
    }
    changes = {name: value for name, value in kept.items() if value != getattr(status, name)}
    return deployment.model_copy(update={"status": status.model_copy(update=changes)}) if changes else deployment


def is_damaged(deployment: BundleDeployment) -> bool:
    """Return whether another client has garbled the status or removed the finalizer."""
    metadata = deployment.metadata
    lacks_finalizer = names.FINALIZER not in metadata.finalizers and metadata.deletion_timestamp is None
    return lacks_finalizer or bool(deployment.status_problem) or usable(deployment) is not deployment


def needs_pass(old: SeenDeployment | None, new: SeenDeployment | None) -> bool:
    """Return whether a change needs a pass; the controller's own writes to status do not."""
    if old is None or new is None or _pass_inputs(old) != _pass_inputs(new):
        return True
    return _lacks_status(new) and not _lacks_status(old)


def _lacks_status(seen: SeenDeployment) -> bool:
    return seen.outline is None or seen.outline.status == Status()


def _pass_inputs(seen: SeenDeployment) -> tuple[object, ...]:
    if seen.outline is None:
        return (seen.uid,)
    metadata = seen.outline.metadata
    orders = tuple(metadata.annotations.get(name) for name in names.ORDERS)
    return (
        seen.uid,
        metadata.generation,
        orders,
        shard_of(metadata.labels),
        tuple(metadata.finalizers),
        metadata.deletion_timestamp is None,
    )


MISSING = "does not exist"


@dataclass(frozen=True, slots=True)
class Dependency:
    """What others need to know of a BundleDeployment."""

    depends_on: tuple[str, ...]
    """Names of those that it depends on itself."""
    hindrance: str
    """Why others wait for it: a reason such as Progressing, or a few words. Empty: it is ready."""


def dependency_of(deployment: BundleDeployment | None) -> Dependency:
    """Return what others need to know of a BundleDeployment; None: of one that cannot be read."""
    if deployment is None:
        return Dependency((), "cannot be read")
    return Dependency(deployment.spec.required_deployments, _find_hindrance(deployment))


def _find_hindrance(deployment: BundleDeployment) -> str:
    """Return why it is not Ready at its current generation.

    The message of its condition is left out: not everybody who may read one BundleDeployment may read another.
    """
    metadata, status = deployment.metadata, deployment.status
    ready = status.condition(ConditionType.READY)
    if metadata.deletion_timestamp:
        return "is being deleted"
    if ready is None or ready.observed_generation != metadata.generation:
        return "has not been looked at since it changed" if ready else "is new"
    return "" if ready.status == "True" else ready.reason


def find_cycle(depends_on: Mapping[str, Collection[str]], name: str) -> tuple[str, ...]:
    """Return the shortest way from a BundleDeployment back to itself, both included; empty if there is none.

    Args:
        depends_on: for each known BundleDeployment, the names of those that it depends on.
        name: where to start.
    """
    dependents: dict[str, str] = {}
    left = deque([name])
    while left:
        dependent = left.popleft()
        for each in depends_on.get(dependent, ()):
            if each not in dependents:
                dependents[each] = dependent
                left.append(each)
            if each == name:
                return _way_to(name, dependents)
    return ()


def _way_to(name: str, dependents: Mapping[str, str]) -> tuple[str, ...]:
    way = [name, dependents[name]]
    while way[-1] != name:
        way.append(dependents[way[-1]])
    return tuple(way[::-1])


@dataclass(frozen=True, slots=True)
class Party:
    """What those that a BundleDeployment takes from, or that take from it, need to know."""

    uid: str
    takes_from: frozenset[str]
    """Names of those that it takes over objects of."""
    state: tuple[bool, bool, bool]
    """Whether it is paused and needs no approval, is being deleted, and its deletionPolicy is Orphan."""


def party_of(deployment: BundleDeployment) -> Party:
    """Return what others need to know of a BundleDeployment."""
    metadata, spec = deployment.metadata, deployment.spec
    state = (
        spec.paused and not spec.requires_approval,
        metadata.deletion_timestamp is not None,
        spec.deletion_policy == "Orphan",
    )
    return Party(metadata.uid, frozenset(each.name for each in spec.take_over), state)


def find_hindrance(deployment: BundleDeployment) -> str:
    """Return why nothing may be taken from a BundleDeployment now, for a message; empty if it is paused.

    The deletion of one that is paused waits until all is taken (reconcile/inventory.py). From one whose
    revisions need approval nothing is taken: its objects would change without that. Turning approval off takes the verb
    approve on it (config/policy/approvals.yaml).
    """
    name = deployment.metadata.name
    if not deployment.spec.paused and deployment.metadata.deletion_timestamp:
        return "which is being deleted; continues when it is gone"
    if not deployment.spec.paused:
        return f"which must be paused before its objects are taken over: kubectl rukpak pause {name}"
    if deployment.spec.requires_approval:
        remedy = "spec.approval must be Automatic there first, which takes the verb approve on it"
        return f"whose revisions need approval; {remedy}"
    return ""


DEPENDENTS = "spec.dependsOn"
TAKERS = "spec.takeOver"
INDEX_FUNCTIONS: Mapping[str, Callable[[SeenDeployment], Collection[str]]] = {
    DEPENDENTS: lambda each: each.outline.spec.required_deployments if each.outline else (),
    TAKERS: lambda each: {giver.name for giver in each.outline.spec.take_over} if each.outline else (),
}
"""By index, the names of those that a BundleDeployment names there, which need not exist."""


def find_dependents(
    name: str, before: Dependency | None, now: Dependency | None, index: Callable[[str], Iterable[str]]
) -> set[str]:
    """Return those that a change concerns: they wait for what has changed, or may be in a cycle with it.

    Args:
        name: of the BundleDeployment that has changed.
        before: as others knew it; None if it did not exist.
        now: None if it is gone.
        index: returns the names of those that depend on one.
    """
    if before == now:  # most writes of a status change nothing of it
        return set()
    if (before.depends_on if before else ()) == (now.depends_on if now else ()):
        return set(index(name))
    found: set[str] = set()
    left = [name]
    while left:  # directly or through others
        further = set(index(left.pop())) - found
        found |= further
        left.extend(further)
    return found - {name}


def find_parties(name: str, before: Party | None, now: Party | None, index: Callable[[str], Iterable[str]]) -> set[str]:
    """Return those that a change concerns: they take from it, or it takes from them, or does not any more.

    Args:
        name: of the BundleDeployment that has changed.
        before: as others knew it; None if it did not exist, or could not be read.
        now: likewise.
        index: returns the names of those that take from one.
    """
    if before == now:
        return set()
    old, new = (each.takes_from if each else frozenset[str]() for each in (before, now))
    is_same = before and now and before.uid == now.uid
    return {*index(name), *(old ^ new if is_same else old | new)} - {name}
