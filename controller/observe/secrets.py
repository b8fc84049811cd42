"""Watching the Secrets that sources failed for, while they fail: their change lets the sources be tried at once.

One watch by name for each, as the identity that reads the Secret; there is no watch on all Secrets (DESIGN, section 5).
Metadata only: no value of a Secret is ever held here. What counts is whether a Secret is another one than was read, so
that no change is lost between reading it, failing with it and watching it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.kube.client import Client, User
from controller.kube.resources import SECRETS
from controller.kube.watch import Reflector


@dataclass(frozen=True, slots=True)
class WatchedSecret:
    """A Secret, and who reads it."""

    namespace: str
    name: str
    user: str = ""
    """Empty: the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    namespace: str
    name: str
    uid: str
    resource_version: str


class SecretWatches:
    """Thread-safe.

    Args:
        changed: called with the name of a BundleDeployment when a Secret that it waits for is not what it read.
    """

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        self._client, self._changed = client, changed
        self._watches: dict[str, dict[WatchedSecret, _Watch]] = {}
        self._lock = threading.Lock()

    def watch(self, name: str, secrets: Mapping[WatchedSecret, str]) -> None:
        """Watch exactly these Secrets for a BundleDeployment.

        Args:
            name: of the BundleDeployment.
            secrets: with the resourceVersion that was read; empty: there was nothing to read.
        """
        with self._lock:
            watches = self._watches.pop(name, {})
            ended = [watches.pop(secret) for secret in watches.keys() - secrets.keys()]
            known = dict(watches)
            started = {secret: self._make(name, secret) for secret in secrets.keys() - known.keys()}
            if secrets:
                self._watches[name] = known | started
        for each in ended:
            each.reflector.stop()
        for secret, each in (known | started).items():
            each.expect(secrets[secret])
        for each in started.values():
            each.reflector.start()

    def _make(self, name: str, secret: WatchedSecret) -> _Watch:
        return _Watch(self._client, secret, lambda: self._changed(name))


class _Watch:
    """One Secret, watched for one BundleDeployment."""

    def __init__(self, client: Client, secret: WatchedSecret, changed: Callable[[], None]) -> None:
        self._key = (secret.namespace, secret.name)
        self._changed = changed
        self._version = ""
        self.reflector = Reflector[_Trace](
            client,
            SECRETS.path(secret.namespace),
            field_selector=f"metadata.name={secret.name}",
            metadata=True,
            user=User(secret.user) if secret.user else None,
            project=_trace,
            on_change=self._compare,
        )

    def expect(self, version: str) -> None:
        """Note which version was read; a later one that is known already is news."""
        self._version = version
        known = self.reflector.get(self._key)
        if known is not None and _is_later(known, version):
            self._changed()

    def _compare(self, _old: _Trace | None, new: _Trace | None) -> None:
        if _is_later(new, self._version) if new else self._version:
            self._changed()


def _is_later(trace: _Trace, version: str) -> bool:
    """Versions compare as integers, see kube/cache.py."""
    return int(trace.resource_version) > int(version or 0)


def _trace(manifest: dict[str, Any]) -> _Trace:
    metadata = manifest["metadata"]
    return _Trace(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
    )
