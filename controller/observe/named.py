"""Watching single objects that something failed for, while it fails: their change lets it be tried at once.

These are Secrets that sources use, and ServiceAccounts. One watch by name for each, as the identity that reads the
object; there is no watch on all Secrets (DESIGN, section 5). Metadata only: no value of a Secret is ever held here.
What counts is whether an object is another one than was read, so that no change is lost between reading it, failing
with it and watching it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.kube.cache import Trace, make_trace
from controller.kube.client import Client, User
from controller.kube.resources import SECRETS, Resource
from controller.kube.watch import Reflector


@dataclass(frozen=True, slots=True)
class WatchedObject:
    """An object, and who reads it."""

    namespace: str
    name: str
    user: str = ""
    """Empty: the controller."""
    resource: Resource = SECRETS


class NamedWatches:
    """Thread-safe.

    Args:
        changed: called with the name of a BundleDeployment when an object that it waits for is not what it read.
    """

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        self._client, self._changed = client, changed
        self._watches: dict[str, dict[WatchedObject, _Watch]] = {}
        self._lock = threading.Lock()

    def watch(self, name: str, objects: Mapping[WatchedObject, str]) -> None:
        """Watch exactly these objects for a BundleDeployment.

        Args:
            name: of the BundleDeployment.
            objects: with the resourceVersion that was read; empty: there was nothing to read.
        """
        with self._lock:
            watches = self._watches.pop(name, {})
            ended = [watches.pop(each) for each in watches.keys() - objects.keys()]
            known = dict(watches)
            started = {each: self._make(name, each) for each in objects.keys() - known.keys()}
            if objects:
                self._watches[name] = known | started
        for watch in ended:
            watch.reflector.stop()
        for watched, watch in (known | started).items():
            watch.expect(objects[watched])
        for watch in started.values():
            watch.reflector.start()

    def _make(self, name: str, watched: WatchedObject) -> _Watch:
        return _Watch(self._client, watched, lambda: self._changed(name))


class _Watch:
    """One object, watched for one BundleDeployment."""

    def __init__(self, client: Client, watched: WatchedObject, changed: Callable[[], None]) -> None:
        self._key = (watched.namespace, watched.name)
        self._changed = changed
        self._version = ""
        self.reflector = Reflector[Trace](
            client,
            watched.resource.path(watched.namespace),
            field_selector=f"metadata.name={watched.name}",
            metadata=True,
            user=User(watched.user) if watched.user else None,
            project=make_trace,
            on_change=self._compare,
        )

    def expect(self, version: str) -> None:
        """Note which version was read; a later one that is known already is news."""
        self._version = version
        known = self.reflector.get(self._key)
        if known is not None and _is_later(known, version):
            self._changed()

    def _compare(self, _old: Trace | None, new: Trace | None) -> None:
        if _is_later(new, self._version) if new else self._version:
            self._changed()


def _is_later(trace: Trace, version: str) -> bool:
    """Versions compare as integers, see kube/cache.py."""
    return int(trace.resource_version) > int(version or 0)
