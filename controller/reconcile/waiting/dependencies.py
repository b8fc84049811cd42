"""Whether the BundleDeployments of `spec.dependsOn` are ready, so that a new revision may be applied.

Those of the shard are watched anyway. One of another shard is read while something waits for it, and followed by name.
Not here: what is done meanwhile (approval.py), and the rules (observe/dependencies.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.kube.resources import DEPLOYMENTS
from controller.observe.dependencies import MISSING, Dependency, dependency_of, find_cycle
from controller.observe.following.named import NamedWatches, WatchedObject
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.status.texts import list_some

MOST = 256
"""BundleDeployments that are looked at to find a cycle."""


@dataclass(slots=True)
class _Found:
    """The BundleDeployments that one depends on, directly or through others."""

    known: dict[str, Dependency | None] = field(default_factory=dict)
    """By name; None: it does not exist."""
    read: dict[WatchedObject, str] = field(default_factory=dict)
    """Those that no watch reports, with the resourceVersion that was read; empty: it did not exist."""


class Dependencies:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        followed: wakes a BundleDeployment when one of another shard changes.
    """

    def __init__(self, watches: Watches, followed: NamedWatches) -> None:
        self._watches, self._followed = watches, followed

    def hindrance(self, context: Context) -> BundleError | None:
        """Return why nothing new may be applied; whatever ends that triggers a pass.

        Raises: ApiError.
        """
        found = self._collect(context, asks=True)
        error = _cyclic(context, found.known) or _unready(context, found.known)
        self._followed.watch(context.name, found.read if error else {}, share=context.share)
        return error

    def cycle(self, context: Context) -> BundleError | None:
        """Return an error if a BundleDeployment depends on itself, as far as the watches show; sends no request."""
        return _cyclic(context, self._collect(context, asks=False).known) if context.spec.depends_on else None

    def forget(self, name: str) -> None:
        """Follow nothing for a BundleDeployment any more."""
        self._followed.watch(name, {})

    def _collect(self, context: Context, *, asks: bool) -> _Found:
        """Look up what one depends on, breadth first; with `asks` also in other shards."""
        found, left = _Found(), [each.name for each in context.spec.depends_on]
        while left and len(found.known) < MOST:
            name = left.pop(0)
            if name == context.name or name in found.known:
                continue
            dependency = self._watches.dependency(name)
            if dependency is None and asks and self._watches.may_be_elsewhere(name):
                dependency = self._read(name, found)
            found.known[name] = dependency
            left.extend(dependency.depends_on if dependency else ())
        return found

    def _read(self, name: str, found: _Found) -> Dependency | None:
        seen = self._watches.read_elsewhere(name)
        found.read[WatchedObject("", name, resource=DEPLOYMENTS)] = seen.resource_version if seen else ""
        if seen is None:
            return None
        return dependency_of(seen.outline) if seen.outline else Dependency((), "cannot be read")


def _cyclic(context: Context, known: Mapping[str, Dependency | None]) -> BundleError | None:
    depends_on = {name: each.depends_on for name, each in known.items() if each}
    own = tuple(each.name for each in context.spec.depends_on)
    way = find_cycle({**depends_on, context.name: own}, context.name)
    if not way:
        return None
    message = f"spec.dependsOn: {' -> '.join(way)} is a cycle; remove one of these dependencies"
    return BundleError(Reason.DEPENDENCY_CYCLE, message)


def _unready(context: Context, known: Mapping[str, Dependency | None]) -> BundleError | None:
    waiting = [text for each in context.spec.depends_on if (text := _describe(each.name, known.get(each.name)))]
    if not waiting:
        return None
    message = f"spec.dependsOn: waiting for {list_some(waiting)}; continues when all of them are ready"
    return BundleError(Reason.DEPENDENCY_NOT_READY, message)


def _describe(name: str, dependency: Dependency | None) -> str:
    """Return a BundleDeployment with the reason to wait for it; empty if it is ready."""
    hindrance = dependency.hindrance if dependency else MISSING
    return f'"{name}" ({hindrance})' if hindrance else ""
