"""From objects to records with their health.

In addition to the object, health depends on the health checks of its owner, the definition of its kind and, for claims,
on StorageClasses.
"""

from __future__ import annotations

from typing import Any

from api import names
from controller.kube.resources import BUILT_IN_GROUPS, GroupVersionKind, Resource
from controller.observe.definitions import Definitions
from controller.observe.deployments import SeenDeployments
from controller.observe.health.checks import matching
from controller.observe.health.explain import pods_of
from controller.observe.health.rules import assess, needs_full_object
from controller.observe.health.subject import Context
from controller.observe.managed.kind_watch import GroupKind, group_kind_of
from controller.observe.records import Record, project
from controller.observe.storage_classes import StorageClasses

CLAIM = ("", "PersistentVolumeClaim")


class Projection:
    """Thread-safe."""

    def __init__(self, deployments: SeenDeployments, definitions: Definitions, classes: StorageClasses) -> None:
        self._deployments, self._definitions, self._classes = deployments, definitions, classes

    def can_judge(self, kind: GroupVersionKind) -> bool:
        """Return whether everything else that the health of a kind depends on is known, or cannot be listed.

        For claims this starts the watch of StorageClasses.
        """
        if group_kind_of(kind) == CLAIM:
            self._classes.start()
            return self._classes.reflector.settled
        return kind.group in BUILT_IN_GROUPS or self._definitions.reflector.settled

    def reads_full(self, kind: GroupVersionKind) -> bool:
        """Return whether the objects of a kind are read in full, for its rule or any health check."""
        return needs_full_object(kind.group, kind.kind, self._deployments.all_checks())

    def checks_read_full(self, name: str, group_kind: GroupKind) -> bool:
        """Return whether the health checks of one BundleDeployment need a kind in full."""
        checks = self._deployments.checks_of(name)
        return bool(checks) and needs_full_object(*group_kind, checks)

    def project(self, manifest: dict[str, Any], resource: Resource, *, full: bool) -> Record:
        """Return the record of an object, with its health if it was read in full."""
        group, kind = resource.group, resource.kind
        if not full:
            return project(manifest, group, kind)
        manifest = {**manifest, "apiVersion": resource.api_version, "kind": kind}
        owner = (manifest["metadata"].get("labels") or {}).get(names.OWNER_LABEL, "")
        context = Context(
            storage_class=self._classes.find,
            reports_status=self._definitions.reports_status(group, resource.version, kind),
            checks=matching(self._deployments.checks_of(owner), manifest),
        )
        verdict = assess(manifest, context)
        return project(manifest, group, kind, verdict, pods_of(manifest, verdict))
