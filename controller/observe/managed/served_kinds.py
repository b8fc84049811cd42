"""The kinds that the cluster serves, from discovery and the watched CustomResourceDefinitions."""

from __future__ import annotations

from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.definitions import Definitions

# The version of a kind whose older versions hide conditions in an annotation (controller/observe/health/README.md).
_READ_AT = {("autoscaling", "HorizontalPodAutoscaler"): "v2"}


class ServedKinds:
    """Thread-safe."""

    def __init__(self, discovery: Discovery, definitions: Definitions) -> None:
        self.discovery, self._definitions = discovery, definitions

    def find(self, kind: GroupVersionKind) -> Resource | None:
        """Return the resource to read a kind at: its storage version (definitions.py), else the best that is served.

        Raises: ApiError if discovery fails.
        """
        if stored := self.at_storage_version(kind.group, kind.kind):
            return stored
        best = kind._replace(version=_READ_AT.get((kind.group, kind.kind), kind.version))
        served = self.discovery.resource(best) or self.discovery.resource(kind)
        return served or self.discovery.any_version(kind.group, kind.kind)

    def at_storage_version(self, group: str, kind: str) -> Resource | None:
        """Return the resource of a custom kind at its storage version, which needs no conversion webhook."""
        definition = self._definitions.of(group, kind)
        return definition.resource if definition else None
