"""The kinds that the cluster serves, from discovery and the watched CustomResourceDefinitions."""

from __future__ import annotations

from controller.kube.discovery import Discovery
from controller.kube.resources import BUILT_IN_GROUPS, GroupVersionKind, Resource
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

    def is_namespaced(self, kind: GroupVersionKind) -> bool | None:
        """Return whether a kind is namespaced; None if the cluster serves no version of it: all have the same scope.

        Raises: ApiError if discovery fails.
        """
        resource = self.discovery.resource(kind) or self.discovery.any_version(kind.group, kind.kind)
        return resource.namespaced if resource else None

    def is_missing(self, kind: GroupVersionKind) -> bool:
        """Return whether the cluster does not serve a kind; False if discovery fails for its group.

        Raises: ApiError if all of discovery fails.
        """
        return self.discovery.resource(kind) is None and kind.group not in self.discovery.failed_groups()

    def is_withdrawn(self, kind: GroupVersionKind) -> bool:
        """Return whether the CustomResourceDefinition of a kind serves other versions only; sends no request."""
        return self._definitions.is_withdrawn(kind.group, kind.version, kind.kind)

    def is_aggregated(self, group: str, kind: str) -> bool:
        """Return whether another API server may serve a kind: neither Kubernetes nor a known CRD defines it."""
        return group not in BUILT_IN_GROUPS and self.at_storage_version(group, kind) is None

    def failing_groups(self) -> frozenset[str]:
        """Return the API groups that fail discovery; sends no request unless something changed.

        Raises: ApiError if all of discovery fails.
        """
        return self.discovery.failed_groups()

    def has_appeared(self, kind: GroupVersionKind) -> bool:
        """Return whether a kind that was missing is served now; sends no request unless something changed.

        Raises: ApiError if discovery fails.
        """
        return self.discovery.has_appeared(kind)

    def seconds_to_recheck(self) -> float | None:
        """Return in how many seconds to check a missing kind again; None if discovery is up to date."""
        return self.discovery.seconds_to_recheck()
