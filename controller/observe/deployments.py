"""The latest known BundleDeployments, including those that this release cannot read.

Large ones are kept compressed, since small values take thirty times more memory as Python objects than in etcd, and a
user may write many. Frequent readers use an outline, which is never large.

Not here: the consequences of a change (watches.py).
"""

from __future__ import annotations

import logging
import marshal
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from api import names
from api.v1alpha2.reading import read, try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.kube.client import Client
from controller.kube.resources import DEPLOYMENTS
from controller.kube.watch import Pace, Reflector

log = logging.getLogger(__name__)
INSTALL_API = "rukpak crd | kubectl apply --server-side -f -"
"""The command that installs the API."""
LARGE_BYTES = 16 << 10
"""Size of a spec above which it is kept compressed."""
ORPHAN_FINALIZER = "orphan"
PAGE_ITEMS = 20
"""BundleDeployments in one reply, all of which are in memory at the same time."""

HealthCheck = Mapping[str, Any]
"""An entry of `spec.healthChecks`, as written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDeployment:
    """The latest known state of a BundleDeployment; `outline` is None if it cannot be read at all."""

    name: str
    uid: str
    resource_version: str
    outline: BundleDeployment | None
    """The whole; if its spec is large, without `config` and the parameters of sources."""
    packed: bytes = b""
    """The whole, compressed, if that is more than the outline."""
    checks: tuple[HealthCheck, ...] = ()
    namespace: str = ""

    @property
    def deployment(self) -> BundleDeployment | None:
        """The whole, unpacked on each call: do not keep it longer than needed."""
        if not self.packed:
            return self.outline
        # Our own bytes. Not JSON: deeply nested values can be parsed, but not serialized.
        return read(marshal.loads(zlib.decompress(self.packed)))  # noqa: S302


class SeenDeployments:
    """Thread-safe: the BundleDeployments of the cluster, watched.

    Args:
        changed: gets the old and the new state of one, on the thread of the watch.
        synced: called on that thread once all are known, or known again.
        restored: called there when the cluster is in an older state than known.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[SeenDeployment | None, SeenDeployment | None], None],
        synced: Callable[[], None],
        restored: Callable[[], None],
    ) -> None:
        self._client, self._changed = client, changed
        self._orphaned: dict[str, str] = {}
        """UIDs by name; see `was_orphaned`."""
        self.reflector = Reflector[SeenDeployment](
            client,
            DEPLOYMENTS.path(),
            project=make_seen,
            on_change=self._note,
            on_synced=synced,
            on_restored=restored,
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
        if new and new.outline and ORPHAN_FINALIZER in new.outline.metadata.finalizers:
            self._orphaned[new.name] = new.uid
        self._changed(old, new)

    def was_orphaned(self, name: str, uid: str) -> bool:
        """Whether it has had the finalizer that asks the garbage collector to keep its objects (`--cascade=orphan`).

        The collector removes it, possibly before a pass sees it.
        """
        return self._orphaned.get(name) == uid

    def get(self, name: str) -> SeenDeployment | None:
        """Return a BundleDeployment; None if it does not exist."""
        return self.reflector.get(("", name))

    def outlines(self) -> list[BundleDeployment]:
        """Return the outlines of all that can be read, in no order."""
        return [seen.outline for seen in self.reflector.records() if seen.outline]

    def names(self) -> set[str]:
        """Return the names of all, including unreadable ones."""
        return {seen.name for seen in self.reflector.records()}

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

    def learn(self, manifest: Mapping[str, Any]) -> None:
        """Keep the state in the reply to a write, if it is newer."""
        self.reflector.learn(make_seen(dict(manifest)))

    def forget(self, name: str, uid: str) -> None:
        """Forget the one with this name and UID: it is gone according to the reply to a write."""
        self.reflector.forget(("", name), uid)

    def catch_up(self) -> None:
        """List all again: the watch may lag behind recent writes of another process.

        Raises: ApiError.
        """
        for manifest in self._client.list(DEPLOYMENTS.path(), limit=PAGE_ITEMS):
            self.learn(manifest)


def make_seen(manifest: dict[str, Any]) -> SeenDeployment:
    """Return what is kept of a BundleDeployment from the API server; log why one cannot be read."""
    metadata = manifest["metadata"]
    deployment, problem = try_to_read(manifest)
    if problem:
        log.warning("BundleDeployment cannot be read", extra={"BundleDeployment": metadata["name"], "problem": problem})
    outline, packed = _outline(deployment, manifest) if deployment else (None, b"")
    checks = outline.spec.health_checks if outline else ()
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
    if len(marshal.dumps(manifest["spec"])) <= LARGE_BYTES:
        return deployment, b""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    packed = zlib.compress(marshal.dumps({**manifest, "metadata": metadata}), level=1)
    sources = tuple(source.model_copy(update={"parameters": None}) for source in deployment.spec.sources)
    spec = deployment.spec.model_copy(update={"config": {}, "sources": sources})
    return deployment.model_copy(update={"spec": spec}), packed


def needs_pass(old: SeenDeployment | None, new: SeenDeployment | None) -> bool:
    """Return whether a change needs a pass; the controller's own writes to status do not."""
    return old is None or new is None or _pass_inputs(old) != _pass_inputs(new)


def _pass_inputs(seen: SeenDeployment) -> tuple[object, ...]:
    if seen.outline is None:
        return (seen.uid,)
    metadata = seen.outline.metadata
    orders = tuple(metadata.annotations.get(name) for name in names.ORDERS)
    return (seen.uid, metadata.generation, orders, tuple(metadata.finalizers), metadata.deletion_timestamp is None)
