"""Which kinds the cluster serves, and where: by discovery, and by the CustomResourceDefinitions as they are watched."""

from __future__ import annotations

from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.definitions import Definitions

# Where an older version hides what health needs: conditions in an annotation (controller/observe/health/README.md).
_READ_AT = {("autoscaling", "HorizontalPodAutoscaler"): "v2"}


class ServedKinds:
    """Thread-safe. What asks discovery may take a request, and raises ApiError if that fails."""

    def __init__(self, discovery: Discovery, definitions: Definitions) -> None:
        self._discovery, self._definitions = discovery, definitions

    def find(self, kind: GroupVersionKind) -> Resource | None:
        """Return what serves a kind where its objects are best read: see definitions.py; else at its own version.

        Raises: ApiError.
        """
        if stored := self.stored(kind.group, kind.kind):
            return stored
        best = kind._replace(version=_READ_AT.get((kind.group, kind.kind), kind.version))
        served = self._discovery.resource(best) or self._discovery.resource(kind)
        return served or self._discovery.any_version(kind.group, kind.kind)

    def stored(self, group: str, kind: str) -> Resource | None:
        """Return what serves a custom kind at its storage version: no conversion webhook is called there."""
        definition = self._definitions.of(group, kind)
        return definition.resource if definition else None

    def is_namespaced(self, kind: GroupVersionKind) -> bool | None:
        """Return whether the objects of a kind have a namespace; None if the cluster does not serve it.

        Raises: ApiError.
        """
        resource = self._discovery.resource(kind)
        return resource.namespaced if resource else None

    def is_missing(self, kind: GroupVersionKind) -> bool:
        """Return whether the cluster does not serve a kind; unknown, so False, if its group does not answer discovery.

        Raises: ApiError.
        """
        return self._discovery.resource(kind) is None and kind.group not in self._discovery.failed_groups()

    def failed_groups(self) -> frozenset[str]:
        """Return the API groups that do not answer discovery.

        Raises: ApiError.
        """
        return self._discovery.failed_groups()

    def refresh(self) -> None:
        """Ask discovery again: it may be behind.

        Raises: ApiError.
        """
        self._discovery.refresh()
