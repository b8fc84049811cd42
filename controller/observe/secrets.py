"""Watching the Secrets that sources failed for, while they fail: their change lets the sources be tried at once.

One watch by name for each, as the identity that reads the Secret; there is no watch on all Secrets (DESIGN, section 5).
Metadata only: no value of a Secret is ever held here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.kube.client import Client, User
from controller.kube.resources import Resource
from controller.kube.watch import Reflector

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)


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
        changed: called with the name of a BundleDeployment when a Secret that it waits for comes, changes or goes.
    """

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        self._client, self._changed = client, changed
        self._watches: dict[str, dict[WatchedSecret, Reflector[_Trace]]] = {}
        self._lock = threading.Lock()

    def watch(self, name: str, secrets: Mapping[WatchedSecret, bool]) -> None:
        """Watch exactly these Secrets for a BundleDeployment.

        Args:
            name: of the BundleDeployment.
            secrets: with whether each was seen to be missing, so that it is news if it is there by now.
        """
        with self._lock:
            watches = self._watches.setdefault(name, {})
            for secret in watches.keys() - secrets.keys():
                watches.pop(secret).stop()
            started = [self._begin(name, secret, missing=secrets[secret]) for secret in secrets.keys() - watches.keys()]
            watches.update(started)
            if not watches:
                del self._watches[name]
        for _, reflector in started:
            reflector.start()

    def _begin(self, name: str, secret: WatchedSecret, *, missing: bool) -> tuple[WatchedSecret, Reflector[_Trace]]:
        def changed(_old: _Trace | None, _new: _Trace | None) -> None:
            if missing or reflector.synced:
                self._changed(name)

        reflector = Reflector[_Trace](
            self._client,
            SECRETS.path(secret.namespace),
            field_selector=f"metadata.name={secret.name}",
            metadata=True,
            user=User(secret.user) if secret.user else None,
            project=_trace,
            on_change=changed,
        )
        return secret, reflector


def _trace(manifest: dict[str, Any]) -> _Trace:
    metadata = manifest["metadata"]
    return _Trace(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
    )
