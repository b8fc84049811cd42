"""Writes to objects that have changed hands, so that no other tool keeps or claims what is ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from api.v1alpha2.types import BundleDeployment
from controller.cli.adoption.fields import find_left, make_change, other_managers
from controller.cli.adoption.origin import Origin
from controller.cli.adoption.survey import Finding, read_metadata
from controller.cli.command import REQUESTS
from controller.cli.deployments.access import MANAGER
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.observe.records import ObjectKey, project

TRIES = 5
"""Status of a workload may change between reading and writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """What became of an object."""

    key: ObjectKey
    problem: str = ""
    """Why it was not tidied."""
    left: tuple[str, ...] = ()
    """Paths of fields that only the tool has set."""
    managers: tuple[str, ...] = ()
    """Other field managers that have set fields of ours, too."""


class Tidier:
    """Removes from objects what another tool has left on them.

    Args:
        client: acts as the user.
        discovery: of the cluster.
        deployment: to which the objects belong now.
        origin: the tool.
        rendered: objects as the tool has rendered them, as far as that is known.
    """

    def __init__(
        self,
        client: Client,
        discovery: Discovery,
        deployment: BundleDeployment,
        origin: Origin,
        rendered: Mapping[ObjectKey, Mapping[str, Any]],
    ) -> None:
        self._client, self._discovery = client, discovery
        self._name, self._uid = deployment.metadata.name, deployment.metadata.uid
        self._origin, self._rendered = origin, rendered

    def tidy(self, findings: Iterable[Finding]) -> list[Tidied]:
        """Tidy objects, and return what became of each.

        Raises: ApiError if the server cannot answer.
        """
        with ThreadPoolExecutor(REQUESTS) as pool:
            return list(pool.map(self._tidy, findings))

    def _tidy(self, finding: Finding) -> Tidied:
        for _ in range(TRIES):
            try:
                return self._try(finding)
            except ApiError as error:
                if error.status == HTTPStatus.FORBIDDEN:
                    return Tidied(key=finding.key, problem=str(error))
                if error.status != HTTPStatus.CONFLICT:
                    raise
        return Tidied(key=finding.key, problem="is changed all the time")

    def _try(self, finding: Finding) -> Tidied:
        """Tidy an object.

        Raises: ApiError; a 409 if it has changed meanwhile.
        """
        key = finding.key
        resource = finding.resource or self._discovery.any_version(key.group, key.kind)
        metadata = read_metadata(self._client, resource, key) if resource else None
        if resource is None or metadata is None:
            return Tidied(key=key, problem="does not exist")
        record = project({"metadata": metadata}, key.group, key.kind)
        if (record.owner, record.owner_uid) != (self._name, self._uid):
            return Tidied(key=key, problem=f"does not belong to {self._name}")
        left = find_left(finding.metadata or metadata, metadata, self._name, self._origin, self._rendered.get(key))
        change = make_change(metadata, self._name, self._origin)
        if change:
            path = resource.path(key.namespace, key.name)
            metadata = self._client.merge_patch(path, change, manager=MANAGER, metadata=True).value["metadata"]
        return Tidied(key=key, left=tuple(left), managers=tuple(other_managers(metadata, self._name, self._origin)))
