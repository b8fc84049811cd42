"""BundleDeployments as they were seen last, those that this release cannot read among them.

What is large is kept compressed: as Python objects small values take thirty times what they take in etcd, and whoever
may write BundleDeployments may write many. What is asked for often reads an outline that is never large.

Not here: what a change of one leads to (watches.py).
"""

from __future__ import annotations

import logging
import marshal
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from api import names
from api.v1alpha2.reading import read, try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.kube.client import Client
from controller.kube.resources import DEPLOYMENTS
from controller.kube.watch import Pace, Reflector

log = logging.getLogger(__name__)
LARGE_BYTES = 16 << 10
"""Of a spec: more is kept compressed."""
PAGE_ITEMS = 20
"""BundleDeployments in one answer: all of it is in memory at the same time."""

HealthCheck = Mapping[str, Any]
"""One of `spec.healthChecks` as it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDeployment:
    """A BundleDeployment as it was seen last; `outline` is None where not only a part of its spec is unreadable."""

    name: str
    uid: str
    resource_version: str
    outline: BundleDeployment | None
    """All of it, or, where its spec is large, what is left without `config` and the parameters of sources."""
    packed: bytes = b""
    """The whole, where that is more than the outline."""
    checks: tuple[HealthCheck, ...] = ()
    namespace: str = ""

    @property
    def deployment(self) -> BundleDeployment | None:
        """All of it, unpacked each time: hold it no longer than it is needed."""
        if not self.packed:
            return self.outline
        # Our own bytes. JSON would not do: what is nested deeply can be read, but not written.
        return read(marshal.loads(zlib.decompress(self.packed)))  # noqa: S302


class SeenDeployments:
    """Thread-safe: the BundleDeployments of the cluster, watched.

    Args:
        changed: gets what one was before and is now, on the thread of the watch.
        synced: called there once all are known.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[SeenDeployment | None, SeenDeployment | None], None],
        synced: Callable[[], None],
    ) -> None:
        self._client = client
        self.reflector = Reflector[SeenDeployment](
            client,
            DEPLOYMENTS.path(),
            project=see,
            on_change=changed,
            on_synced=synced,
            pace=Pace(page=PAGE_ITEMS),
        )

    def get(self, name: str) -> SeenDeployment | None:
        """Return a BundleDeployment; None if there is none."""
        return self.reflector.get(("", name))

    def outlines(self) -> list[BundleDeployment]:
        """Return the outlines of all that can be read, in no order."""
        return [seen.outline for seen in self.reflector.records() if seen.outline]

    def names(self) -> set[str]:
        """Return the names of all, of unreadable ones, too."""
        return {seen.name for seen in self.reflector.records()}

    def checks_of(self, name: str) -> tuple[HealthCheck, ...]:
        """Return the health checks of one."""
        seen = self.get(name)
        return seen.checks if seen else ()

    def all_checks(self) -> list[HealthCheck]:
        """Return the health checks of all."""
        return [check for seen in self.reflector.records() for check in seen.checks]

    def changed_checks(self, old: SeenDeployment | None, new: SeenDeployment) -> list[HealthCheck]:
        """Return the health checks that were added or removed: `new` may be older than what is known by now."""
        before, now = old.checks if old else (), self.checks_of(new.name)
        return [check for check in (*new.checks, *before) if (check in now) != (check in before)]

    def learn(self, manifest: Mapping[str, Any]) -> None:
        """Keep what a reply to a write said, if it is newer."""
        self.reflector.learn(see(dict(manifest)))

    def forget(self, name: str, uid: str) -> None:
        """Keep no longer the one of this name and UID: a reply to a write said that it is gone."""
        self.reflector.forget(("", name), uid)

    def catch_up(self) -> None:
        """List all once more: what somebody else wrote a moment ago may not have arrived yet.

        Raises: ApiError.
        """
        for manifest in self._client.list(DEPLOYMENTS.path(), limit=PAGE_ITEMS):
            self.learn(manifest)


def see(manifest: dict[str, Any]) -> SeenDeployment:
    """Return what is kept of a BundleDeployment as the API server sent it; logs why one cannot be read."""
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
    """Return what is kept of a BundleDeployment, and what it lacks, if it is large."""
    if len(marshal.dumps(manifest["spec"])) <= LARGE_BYTES:
        return deployment, b""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    packed = zlib.compress(marshal.dumps({**manifest, "metadata": metadata}), level=1)
    sources = tuple(source.model_copy(update={"parameters": None}) for source in deployment.spec.sources)
    spec = deployment.spec.model_copy(update={"config": {}, "sources": sources})
    return deployment.model_copy(update={"spec": spec}), packed


def asks_for_pass(old: SeenDeployment | None, new: SeenDeployment | None) -> bool:
    """Return whether a change is one to reconcile; the controller's own writes to status are not."""
    return old is None or new is None or _pass_inputs(old) != _pass_inputs(new)


def _pass_inputs(seen: SeenDeployment) -> tuple[object, ...]:
    if seen.outline is None:
        return (seen.uid,)
    metadata = seen.outline.metadata
    orders = tuple(metadata.annotations.get(name) for name in names.ORDERS)
    return (seen.uid, metadata.generation, orders, tuple(metadata.finalizers), metadata.deletion_timestamp is None)
