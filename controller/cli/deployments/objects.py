"""The objects of a BundleDeployment on the cluster, for `rukpak status --objects`, judged as the controller does.

They are read with the user's permissions; a kind that the user cannot list is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from api import names
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.cli.deployments.access import Manifest
from controller.cli.output import to_table
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.kube.resources import GroupVersionKind
from controller.observe.health.rules import assess
from controller.observe.health.subject import Context

_HEADING = ("OBJECT", "HEALTH", "MESSAGE")
Row = tuple[str, str, str]


class ObjectLister:
    """Lists the objects of BundleDeployments."""

    def __init__(self, client: Client) -> None:
        self._client, self._discovery = client, Discovery(client)

    def lines(self, value: Manifest) -> list[str]:
        """Return a table of the objects of a BundleDeployment.

        Raises: ApiError.
        """
        deployment, _ = try_to_read(value)
        rows = self._rows(deployment) if deployment else []
        return ["All objects:", *(f"  {line}" for line in to_table(_HEADING, rows).splitlines())] if rows else []

    def _rows(self, deployment: BundleDeployment) -> list[Row]:
        reported = {_name_of_report(each): each for each in deployment.status.not_ready}
        found: dict[str, Row] = {}
        for text in deployment.status.managed_kinds:
            for row in self._list(GroupVersionKind.parse(text), deployment):
                report = reported.get(row[0])
                found[row[0]] = (row[0], report.reason, report.message) if report else row
        missing = {name: (name, each.reason, each.message) for name, each in reported.items() if name not in found}
        return [*(missing | found).values()]

    def _list(self, kind: GroupVersionKind, deployment: BundleDeployment) -> Iterator[Row]:
        resource = self._discovery.resource(kind)
        if resource is None:
            yield kind.kind, "Unknown", "the cluster does not serve this kind"
            return
        selector = f"{names.OWNER_LABEL}={deployment.metadata.name}"
        try:
            for item in self._client.list(resource.path(), label_selector=selector):
                if _is_owned(item, deployment):
                    yield _judge({"apiVersion": kind.api_version, "kind": kind.kind, **item})
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            yield kind.kind, "Unknown", "you cannot list this kind"


def _is_owned(item: Mapping[str, Any], deployment: BundleDeployment) -> bool:
    # Operators copy labels to their children, but not this annotation.
    return (item["metadata"].get("annotations") or {}).get(names.OWNER_UID) == deployment.metadata.uid


def _judge(value: Mapping[str, Any]) -> Row:
    metadata, verdict = value["metadata"], assess(value, Context())
    namespace = metadata.get("namespace")
    return f"{value['kind']} {f'{namespace}/' if namespace else ''}{metadata['name']}", verdict.reason, verdict.message


def _name_of_report(report: Any) -> str:
    return f"{report.kind} {f'{report.namespace}/' if report.namespace else ''}{report.name}"
