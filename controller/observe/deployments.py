"""The latest known BundleDeployments, including those that this release cannot read.

Large ones are kept compressed, since small values take thirty times more memory as Python objects than in etcd, and a
user may write many. Frequent readers use an outline, which is never large.

Those of the shard are watched by label, and those that it still holds although they have moved by `status.shard`. Of
all others the default shard knows the names, so that it can report what no controller serves; those of shards that
nobody has served for a while it watches as its own.

Not here: the consequences of a change (watches.py).
"""

from __future__ import annotations

import logging
import marshal
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from http import HTTPStatus
from sys import intern
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import ConditionType, Reason
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety, Drift
from rukpak.api.v1alpha2.reading import read, try_to_read
from rukpak.api.v1alpha2.sources import Source
from rukpak.api.v1alpha2.types import BundleDeployment, Condition, ObjectMeta
from rukpak.controller.content.digests import is_digest
from rukpak.controller.kube.cache import parse_version
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.resources import DEPLOYMENTS, read_kinds
from rukpak.controller.kube.shard import DEFAULT_SHARD, Shard, is_unclaimed, wanted_shard
from rukpak.controller.kube.watch import Pace, Reflector

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
class SeenDeployment:
    """The latest known state of a BundleDeployment; `outline` is None if it cannot be read at all."""

    name: str
    uid: str
    resource_version: str
    outline: BundleDeployment | None
    """The whole; if its spec or metadata are large, without what is free in form or number in them."""
    packed: bytes = b""
    """The whole, compressed, if that is more than the outline."""
    checks: tuple[HealthCheck, ...] = ()
    namespace: str = ""

    @property
    def deployment(self) -> BundleDeployment | None:
        """The whole, `usable`, unpacked on each call: do not keep it longer than needed."""
        if not self.packed:
            return usable(self.outline) if self.outline else None
        # Our own bytes. Not JSON: deeply nested values can be parsed, but not serialized.
        return usable(read(marshal.loads(zlib.decompress(self.packed))))  # noqa: S302


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignDeployment:
    """What the default shard knows of a BundleDeployment with the label of another one."""

    name: str
    uid: str
    resource_version: str
    shard: str
    namespace: str = ""


class SeenDeployments:
    """Thread-safe: the BundleDeployments of a shard, watched.

    Args:
        changed: gets the old and the new state of one, on the thread of a watch.
        synced: called on such a thread once all are known, or known again.
        changed_elsewhere: called on the default shard with the name of one of another shard that appeared or is gone.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[SeenDeployment | None, SeenDeployment | None], None],
        synced: Callable[[], None],
        shard: Shard = DEFAULT_SHARD,
        changed_elsewhere: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._client, self._changed, self._synced, self._shard = client, changed, synced, shard
        self._abandoned: dict[str, Reflector[SeenDeployment]] = {}
        """Of those of shards that nobody serves, by shard."""
        self._as_of: dict[str, float] = {}
        """By name, when the last request for one was sent, in monotonic seconds."""
        self._orphaned: dict[str, str] = {}
        """UIDs by name; see `was_orphaned`."""
        self.reflector = self._watch(shard.selector, "", self._note_failure)
        """Of those with the label of the shard."""
        self.held = self._watch(shard.others_selector, shard.held_selector, self._note_unselectable)
        """Of those with another label that record the shard."""
        self.foreign = None if shard.name else _watch_names(client, shard, changed_elsewhere)

    def _watch(self, labels: str, fields: str, failed: Callable[[], None]) -> Reflector[SeenDeployment]:
        return Reflector[SeenDeployment](
            self._client,
            DEPLOYMENTS.path(),
            label_selector=labels,
            field_selector=fields,
            project=make_seen,
            on_change=self._note,
            on_synced=self._note_synced,
            on_failed=failed,
            pace=Pace(page=PAGE_ITEMS),
        )

    def reflectors(self) -> list[Reflector[Any]]:
        """Return all watches, that of those with the label of the shard first."""
        return [*self._whole(), *([self.foreign] if self.foreign else [])]

    def _whole(self) -> list[Reflector[SeenDeployment]]:
        return [self.reflector, self.held, *list(self._abandoned.values())]

    def follow_abandoned(self, shards: AbstractSet[str]) -> None:
        """Watch the BundleDeployments of exactly these other shards, too: nobody serves them."""
        for shard in shards - self._abandoned.keys():
            found = self._watch(self._shard.selector_of(shard), "", lambda: None)
            self._abandoned = {**self._abandoned, shard: found}
            found.start()
        for shard in self._abandoned.keys() - shards:
            found = self._abandoned[shard]
            self._abandoned = {name: each for name, each in self._abandoned.items() if name != shard}
            found.stop()
            for seen in found.records():
                self._changed(seen, self.get(seen.name))

    @property
    def synced(self) -> bool:
        """Whether all are known. The default shard does without those that it holds where the API is an older one."""
        return self.reflector.synced and (self.held.synced or self.lacks_field)

    @property
    def lacks_field(self) -> bool:
        """Whether the default shard cannot select by `status.shard`: the API is that of an older release."""
        error = self.held.last_error
        return not self._shard.name and error is not None and error.status == HTTPStatus.BAD_REQUEST

    def _note_synced(self) -> None:
        if self.synced:
            self._synced()

    def _note_failure(self) -> None:
        error = self.reflector.last_error
        if error and error.status == HTTPStatus.NOT_FOUND:
            log.warning("BundleDeployments are not served, waiting for the API", extra={"remedy": INSTALL_API})

    def _note_unselectable(self) -> None:
        error = self.held.last_error
        if error and error.status == HTTPStatus.BAD_REQUEST:
            log.warning("the API does not know shards, since it is of an older release", extra={"remedy": INSTALL_API})
            self._note_synced()

    def _note(self, old: SeenDeployment | None, new: SeenDeployment | None) -> None:
        if new is None and old:
            self._orphaned.pop(old.name, None)
            self._as_of.pop(old.name, None)
        if new and new.outline and ORPHAN_FINALIZER in new.outline.metadata.finalizers:
            self._orphaned[new.name] = new.uid
        self._changed(old, new)

    def was_orphaned(self, name: str, uid: str) -> bool:
        """Whether it has had the finalizer that asks the garbage collector to keep its objects (`--cascade=orphan`).

        The collector removes it, possibly before a pass sees it.
        """
        return self._orphaned.get(name) == uid

    def get(self, name: str) -> SeenDeployment | None:
        """Return a BundleDeployment of the shard, or one that it still holds; None if there is none."""
        key = ("", name)
        found = [seen for each in self._whole() if (seen := each.get(key))]
        # One that moves may be known to both for a moment.
        return max(found, key=lambda seen: parse_version(seen.resource_version), default=None)

    def exists(self, name: str, uid: str) -> bool:
        """Return whether a BundleDeployment exists, of whatever shard.

        Raises: ApiError.
        """
        if (seen := self.get(name)) is not None:
            return seen.uid == uid
        if self.foreign and self.foreign.synced:
            foreign = self.foreign.get(("", name))
            return foreign is not None and foreign.uid == uid
        try:
            value = self._client.get(DEPLOYMENTS.path(name=name), metadata=True).value
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return bool(value["metadata"]["uid"] == uid)

    def may_be_elsewhere(self, name: str) -> bool:
        """Whether another shard may have a BundleDeployment that this one does not know; sends no request."""
        return not (self.foreign and self.foreign.synced) or self.foreign.get(("", name)) is not None

    def read_elsewhere(self, name: str) -> SeenDeployment | None:
        """Read a BundleDeployment of another shard; None if it does not exist.

        Raises: ApiError.
        """
        try:
            return make_seen(self._client.get(DEPLOYMENTS.path(name=name)).value)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def list_elsewhere(self) -> Iterator[BundleDeployment]:
        """Yield the BundleDeployments of other shards that can be read; sends no request if there are none.

        Raises: ApiError, also while iterating.
        """
        if self.foreign and self.foreign.synced and not self.foreign.records():
            return
        for manifest in self._client.list(
            DEPLOYMENTS.path(), label_selector=self._shard.others_selector, limit=PAGE_ITEMS
        ):
            found, _ = try_to_read(manifest)
            if found:
                yield found

    def count_foreign(self) -> Counter[str]:
        """Return the number of BundleDeployments of each other shard; empty on any but the default shard."""
        return Counter(each.shard for each in self.foreign.records()) if self.foreign else Counter()

    def outlines(self) -> list[BundleDeployment]:
        """Return the outlines of all with the label of the shard that can be read, in no order."""
        return [seen.outline for seen in self.reflector.records() if seen.outline]

    def names(self) -> set[str]:
        """Return the names of all, including unreadable ones and those that are still held."""
        return {seen.name for each in self._whole() for seen in each.records()}

    def checks_of(self, name: str) -> tuple[HealthCheck, ...]:
        """Return the health checks of one."""
        seen = self.get(name)
        return seen.checks if seen else ()

    def all_checks(self) -> list[HealthCheck]:
        """Return the health checks of all."""
        return [check for seen in self.reflector.records() for check in seen.checks]

    def changed_checks(self, old: SeenDeployment | None, new: SeenDeployment) -> list[HealthCheck]:
        """Return the health checks that were added or removed; `new` may be older than the latest known state."""
        before, now = old.checks if old else (), self.checks_of(new.name)
        return [check for check in (*new.checks, *before) if (check in now) != (check in before)]

    def confirm(self, name: str, seconds: float) -> None:
        """Read a BundleDeployment, unless the last request for it was sent in these last seconds.

        A watch may be silent, or behind: this is how it is on the API server.

        Raises: ApiError.
        """
        now = time.monotonic()
        if now - self._as_of.get(name, -seconds) < seconds:
            return
        try:
            self.learn(self._client.get(DEPLOYMENTS.path(name=name)).value, now)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            if known := self.get(name):
                self.learn_gone(name, known.uid)

    def learn(self, manifest: Mapping[str, Any], sent: float | None = None) -> None:
        """Keep the state in a reply, if it is newer; forget one that concerns only another shard now.

        Args:
            manifest: in the reply.
            sent: when the request was sent, in monotonic seconds; None: not known.
        """
        seen = make_seen(dict(manifest))
        if sent is not None:
            self._as_of[seen.name] = sent
        labels, status = manifest["metadata"].get("labels") or {}, manifest.get("status") or {}
        if wanted_shard(labels) == self._shard.name:
            self.reflector.learn(seen)
        elif status.get("shard", "") == self._shard.name:
            self.held.learn(seen)
        elif found := self._abandoned.get(wanted_shard(labels)):
            found.learn(seen)
        else:
            self.learn_gone(seen.name, seen.uid)

    def learn_gone(self, name: str, uid: str) -> None:
        """Forget the one with this name and UID: it is gone according to the reply to a write."""
        for reflector in self._whole():
            reflector.forget(("", name), uid)


def _watch_names(client: Client, shard: Shard, changed: Callable[[str], None]) -> Reflector[ForeignDeployment]:
    def _note(old: ForeignDeployment | None, new: ForeignDeployment | None) -> None:
        if only := (new or old if old is None or new is None else None):
            changed(only.name)

    return Reflector[ForeignDeployment](
        client,
        DEPLOYMENTS.path(),
        label_selector=shard.others_selector,
        metadata=True,
        project=_make_foreign,
        on_change=_note,
    )


def _make_foreign(manifest: Mapping[str, Any]) -> ForeignDeployment:
    metadata = manifest["metadata"]
    return ForeignDeployment(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        shard=intern(wanted_shard(metadata.get("labels") or {})),
    )


def make_seen(manifest: dict[str, Any]) -> SeenDeployment:
    """Return what is kept of a BundleDeployment from the API server; log why one cannot be read."""
    metadata = manifest["metadata"]
    deployment, problem = try_to_read(manifest)
    if problem:
        log.warning("BundleDeployment cannot be read", extra={"BundleDeployment": metadata["name"], "problem": problem})
    outline, packed = _outline(deployment, manifest) if deployment else (None, b"")
    checks = deployment.spec.health_checks if deployment else ()
    return SeenDeployment(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        outline=outline,
        packed=packed,
        checks=tuple(check.model_dump(mode="json", by_alias=True, exclude_defaults=True) for check in checks),
    )


def _outline(deployment: BundleDeployment, manifest: Mapping[str, Any]) -> tuple[BundleDeployment, bytes]:
    """Return the outline of a BundleDeployment; if that is not the whole, also the whole, compressed."""
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
    """Return metadata without what others may have written there in any number."""
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
        "conditions": tuple(filter(_is_known, status.conditions)),
    }
    changes = {name: value for name, value in kept.items() if value != getattr(status, name)}
    return deployment.model_copy(update={"status": status.model_copy(update=changes)}) if changes else deployment


def _is_known(condition: Condition) -> bool:
    return condition.type in _TYPES and condition.reason in _REASONS


def is_damaged(deployment: BundleDeployment) -> bool:
    """Return whether another client has garbled the status or removed the finalizer."""
    lacks_finalizer = (
        names.FINALIZER not in deployment.metadata.finalizers and deployment.metadata.deletion_timestamp is None
    )
    return lacks_finalizer or bool(deployment.status_problem) or usable(deployment) is not deployment


def needs_pass(old: SeenDeployment | None, new: SeenDeployment | None) -> bool:
    """Return whether a change needs a pass; the controller's own writes to status do not."""
    return old is None or new is None or _pass_inputs(old) != _pass_inputs(new) or _is_wiped(old, new)


def _is_wiped(old: SeenDeployment, new: SeenDeployment) -> bool:
    return not _lacks_status(old) and _lacks_status(new)


def _lacks_status(seen: SeenDeployment) -> bool:
    return seen.outline is None or is_unclaimed(seen.outline.status)


def _pass_inputs(seen: SeenDeployment) -> tuple[object, ...]:
    if seen.outline is None:
        return (seen.uid,)
    metadata = seen.outline.metadata
    orders = tuple(metadata.annotations.get(name) for name in names.ORDERS)
    place = (wanted_shard(metadata.labels), seen.outline.status.shard)
    return (
        seen.uid,
        metadata.generation,
        orders,
        place,
        tuple(metadata.finalizers),
        metadata.deletion_timestamp is None,
    )
