"""Changes of RBAC, watched while a BundleDeployment fails because it lacks rights.

What was granted does not matter: after any change of RBAC those that lack rights are retried. The
watches are of metadata alone, as the controller, and end when nobody lacks anything. Where the controller may not watch
them, what was refused is retried periodically.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from controller.kube.cache import Trace, make_trace
from controller.kube.client import Client
from controller.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from controller.kube.watch import Reflector

RESOURCES = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


class GrantWatches:
    """Thread-safe.

    Args:
        client: acts as the controller.
        changed: called with the name of a BundleDeployment that lacks rights when some were granted, or revoked.
    """

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        self._client, self._changed = client, changed
        self._lacking: set[str] = set()
        self._reflectors: list[Reflector[Trace]] = []
        self._lock = threading.Lock()

    def want(self, name: str, *, lacks: bool) -> None:
        """Note whether a BundleDeployment lacks rights."""
        started: list[Reflector[Trace]] = []
        ended: list[Reflector[Trace]] = []
        with self._lock:
            is_news = lacks and name not in self._lacking
            (self._lacking.add if lacks else self._lacking.discard)(name)
            if self._lacking and not self._reflectors:
                started = self._reflectors = [self._watch(resource) for resource in RESOURCES]
            elif self._reflectors and not self._lacking:
                ended, self._reflectors = self._reflectors, []
        for reflector in started:
            reflector.start()
        for reflector in ended:
            reflector.stop()
        if is_news and not started:
            self._changed(name)  # what was granted between the refusal and now was told to others only

    def _watch(self, resource: Resource) -> Reflector[Trace]:
        # What was granted between the refusal and the first list is in the list: so its end counts as a change.
        reflector: Reflector[Trace] = Reflector(
            self._client,
            resource.path(),
            metadata=True,
            project=make_trace,
            on_change=lambda _old, _new: self._tell() if reflector.synced else None,
            on_synced=self._tell,
        )
        return reflector

    def _tell(self) -> None:
        with self._lock:
            lacking = sorted(self._lacking)
        for name in lacking:
            self._changed(name)
