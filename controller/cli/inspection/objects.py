"""The objects of a BundleDeployment on the cluster, for `status --objects` and `tree`, judged as the controller does.

They are read with the user's permissions; a kind that the user cannot list is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from controller.kube.resources import GroupVersionKind, Resource, read_kinds
from controller.observe.health.rules import assess
from controller.observe.health.verdict import Context
from controller.observe.records import key_of

RUNNING = {
    each.gvk: each
    for each in (
        Resource("batch", "v1", "Job", "jobs", namespaced=True),
        Resource("", "v1", "Pod", "pods", namespaced=True),
    )
}
"""The kinds of hooks that run something."""
_HEADING = ("OBJECT", "HEALTH", "MESSAGE")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObject:
    """An object of a BundleDeployment, or a kind that cannot be listed."""

    name: str
    """Such as `Deployment shop/web`."""
    reason: str
    """Of its health."""
    message: str = ""
    value: Mapping[str, Any] | None = None
    """None: it is missing, or was not read."""


class ObjectLister:
    """Lists the objects of BundleDeployments."""

    def __init__(self, client: Client) -> None:
        self._client, self._discovery = client, Discovery(client)

    def lines(self, value: Manifest) -> list[str]:
        """Return a table of the objects of a BundleDeployment.

        Raises: ApiError.
        """
        deployment, _ = try_to_read(value)
        rows = [(each.name, each.reason, each.message) for each in self.find(deployment)] if deployment else []
        return ["All objects:", *(f"  {line}" for line in to_table(_HEADING, rows).splitlines())] if rows else []

    def find(self, deployment: BundleDeployment) -> list[FoundObject]:
        """Return the objects of a BundleDeployment, those that are missing first.

        Raises: ApiError.
        """
        reported = {_name_of_report(each): each for each in deployment.status.not_ready}
        found: dict[str, FoundObject] = {}
        for kind in read_kinds(deployment.status.managed_kinds):
            for each in self._list(kind, deployment):
                report = reported.get(each.name)
                found[each.name] = replace(each, reason=report.reason, message=report.message) if report else each
        missing = {
            name: FoundObject(name=name, reason=each.reason, message=each.message)
            for name, each in reported.items()
            if name not in found
        }
        return [*(missing | found).values()]

    def find_hooks(self, deployment: BundleDeployment, kinds: Iterable[GroupVersionKind]) -> list[FoundObject]:
        """Return the hooks of a BundleDeployment that exist; without those of kinds that the user cannot list.

        Raises: ApiError.
        """
        if not (deployment.status.revision or deployment.status.installed_revision):
            return []  # no revision, no hooks
        found: list[FoundObject] = []
        selector = f"{names.OWNER_LABEL}={deployment.metadata.name}"
        for kind in sorted(kinds):
            resource = RUNNING.get(kind) or self._discovery.resource(kind)
            try:
                items = list(self.list_items(resource, "", selector)) if resource else []
            except ApiError as error:
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                continue
            found += [_judge_hook(each) for each in items if _is_hook(each, deployment)]
        return found

    def list_items(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Iterator[Manifest]:
        """Yield objects of a kind, with their apiVersion and kind, which lists leave out.

        Raises: ApiError.
        """
        for item in self._client.list(resource.path(namespace), label_selector=label_selector):
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}

    def _list(self, kind: GroupVersionKind, deployment: BundleDeployment) -> Iterator[FoundObject]:
        resource = self._discovery.resource(kind)
        if resource is None:
            yield FoundObject(name=kind.kind, reason="Unknown", message="the cluster does not serve this kind")
            return
        try:
            for item in self.list_items(resource, "", f"{names.OWNER_LABEL}={deployment.metadata.name}"):
                if _is_owned(item, deployment):
                    yield judge(item)
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            yield FoundObject(name=kind.kind, reason="Unknown", message="you cannot list this kind")


def _is_owned(item: Mapping[str, Any], deployment: BundleDeployment) -> bool:
    # Operators copy labels to their children, but not this annotation.
    return (item["metadata"].get("annotations") or {}).get(names.OWNER_UID) == deployment.metadata.uid


def _is_hook(item: Mapping[str, Any], deployment: BundleDeployment) -> bool:
    run = (item["metadata"].get("annotations") or {}).get(names.HOOK_RUN, "")
    return bool(run) and run.split(" ")[-1] == deployment.metadata.uid


def _judge_hook(value: Mapping[str, Any]) -> FoundObject:
    """Return a hook with its health, and of which event it is."""
    found, event = judge(value), value["metadata"]["annotations"][names.HOOK_RUN].partition(" ")[0]
    return replace(found, message=": ".join(filter(None, (f"{event} hook", found.message))))


def judge(value: Mapping[str, Any]) -> FoundObject:
    """Return an object with its health."""
    verdict = assess(value, Context())
    return FoundObject(name=str(key_of(value)), reason=verdict.reason, message=verdict.message, value=value)


def _name_of_report(report: Any) -> str:
    return f"{report.kind} {f'{report.namespace}/' if report.namespace else ''}{report.name}"
