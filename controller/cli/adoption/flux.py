"""The objects of Flux that would take back what is adopted: Kustomizations and HelmReleases, which are suspended.

A suspended one changes nothing, and deletes nothing when it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from controller.cli.adoption.origin import HELM_RELEASE, KUSTOMIZATION, Origin, Tool, UnusableOriginError
from controller.cli.adoption.survey import Finding, Standing
from controller.cli.deployments.access import MANAGER
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError

_KINDS = {KUSTOMIZATION: "Kustomization", HELM_RELEASE: "HelmRelease"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """An object of Flux that applies objects which are adopted."""

    kind: str
    namespace: str
    name: str
    path: str
    is_suspended: bool

    def __str__(self) -> str:
        """Return the form of messages: `Kustomization flux-system/shop`."""
        return f"{self.kind} {self.namespace}/{self.name}"


def find_rivals(client: Client, discovery: Discovery, origin: Origin, findings: Iterable[Finding]) -> list[Rival]:
    """Return the objects of Flux that `--from` or the labels of adopted objects name, and that exist.

    Raises: UnusableOriginError if that of `--from` does not exist; ApiError.
    """
    named = dict.fromkeys([*_named(origin), *(name for each in findings for name in _labels(each))])
    found = {each: _read(client, discovery, *each) for each in named}
    if any(found[each] is None for each in _named(origin)):
        raise UnusableOriginError(f'{origin}: not found; "kubectl get kustomizations --all-namespaces" shows them')
    return [rival for rival in found.values() if rival]


def suspend(client: Client, rival: Rival) -> None:
    """Have Flux change nothing any more of what it applies.

    Raises: ApiError.
    """
    if not rival.is_suspended:
        client.merge_patch(rival.path, {"spec": {"suspend": True}}, manager=MANAGER)


def _named(origin: Origin) -> Iterator[tuple[str, str, str]]:
    if origin.tool is Tool.FLUX:
        yield KUSTOMIZATION, origin.namespace, origin.name


def _labels(finding: Finding) -> Iterator[tuple[str, str, str]]:
    """Yield group, namespace and name of what the labels of an object name."""
    labels: Mapping[str, Any] = (finding.metadata or {}).get("labels") or {}
    if finding.standing not in (Standing.TAKEN, Standing.OURS):
        return
    for group in _KINDS:
        if f"{group}/name" in labels:
            yield group, str(labels.get(f"{group}/namespace", "")), str(labels[f"{group}/name"])


def _read(client: Client, discovery: Discovery, group: str, namespace: str, name: str) -> Rival | None:
    resource = discovery.any_version(group, _KINDS[group])
    if resource is None or not namespace:
        return None
    path = resource.path(namespace, name)
    try:
        value = client.get(path).value
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    is_suspended = bool((value.get("spec") or {}).get("suspend"))
    return Rival(kind=_KINDS[group], namespace=namespace, name=name, path=path, is_suspended=is_suspended)
