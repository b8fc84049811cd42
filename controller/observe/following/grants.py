"""RBAC, watched while a BundleDeployment fails because of missing permissions.

After any change of RBAC, whatever it grants, these BundleDeployments are retried. The controller watches metadata only,
and stops when no permissions are missing. Where it is forbidden to watch, refused requests are retried periodically.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from controller.kube.client import Client
from controller.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from controller.kube.watch.cache import Trace, make_trace
from controller.kube.watch.reflector import Reflector

RESOURCES = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


class GrantWatches:
    """Thread-safe.

    Args:
        client: acts as the controller.
        changed: called with the name of a BundleDeployment that lacks permissions when RBAC has changed.
    """

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        self._client, self._changed = client, changed
        self._lacking: set[str] = set()
        self._reflectors: list[Reflector[Trace]] = []
        self._lock = threading.Lock()

    def update(self, name: str, *, lacks: bool) -> None:
        """Note whether a BundleDeployment lacks permissions."""
        started: list[Reflector[Trace]] = []
        stopped: list[Reflector[Trace]] = []
        with self._lock:
            is_new = lacks and name not in self._lacking
            (self._lacking.add if lacks else self._lacking.discard)(name)
            if self._lacking and not self._reflectors:
                started = self._reflectors = [self._watch(resource) for resource in RESOURCES]
            elif self._reflectors and not self._lacking:
                stopped, self._reflectors = self._reflectors, []
        for reflector in started:
            reflector.start()
        for reflector in stopped:
            reflector.stop()
        if is_new and not started:
            self._changed(name)  # it may have missed a change between the refusal and now

    def _watch(self, resource: Resource) -> Reflector[Trace]:
        # The first list may contain what was granted since the refusal, so its completion counts as a change.
        reflector = Reflector[Trace](
            self._client,
            resource.path(),
            metadata=True,
            project=make_trace,
            on_change=lambda _old, _new: self._notify() if reflector.synced else None,
            on_synced=self._notify,
        )
        return reflector

    def _notify(self) -> None:
        with self._lock:
            lacking = sorted(self._lacking)
        for name in lacking:
            self._changed(name)
