"""An apply of one object as a value: what is sent, and what recovering from refusals has added to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api import names
from controller.apply.drift.explanation import DriftedObject
from controller.apply.failures.replies import Recovery
from controller.apply.object.managed_fields import Replaced
from controller.apply.options import ApplyOptions
from controller.apply.ownership import make_body, with_shard
from controller.apply.plan import Task
from controller.kube.client import Client
from controller.kube.resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """One object that is being applied."""

    task: Task
    resource: Resource
    options: ApplyOptions
    client: Client
    """Acts as the account of the BundleDeployment."""
    recoveries: frozenset[Recovery] = frozenset()
    """The recoveries that were already tried."""
    drift: DriftedObject | None = None
    """What another client did to it; None: this is no repair."""
    replaced: Replaced | None = None
    """Entries that were rewritten to take over fields; None: none were."""
    live: Mapping[str, Any] | None = None
    """Its metadata as the drift was found in; None if it was not read."""

    @property
    def path(self) -> str:
        """Path of the object."""
        key = self.task.target.key
        return self.resource.path(key.namespace, key.name)

    @property
    def manager(self) -> str:
        """Our field manager."""
        return names.field_manager(self.options.owner.name)

    def body(self) -> dict[str, Any]:
        """Return the object as it is sent."""
        manifest = self.task.target.manifest
        if self.task.target.bare:
            return dict(manifest)
        owner = self.options.owner
        return with_shard(make_body(manifest, owner, orphan=self.options.orphan), owner)
