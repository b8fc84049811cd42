"""What `--from` names: the tool that has installed objects, and by which marks it knows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.cli.command import MisuseError

FLUX_NAMESPACE = "flux-system"
"""Where Flux keeps Kustomizations unless it is told otherwise."""
RELEASE_NAME, RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io"
HELM_RELEASE = "helm.toolkit.fluxcd.io"


class UnusableOriginError(Exception):
    """What `--from` names does not exist, or cannot give objects away now; the message is one line."""


class Tool(Enum):
    """What has installed the objects."""

    HELM = "helm"
    FLUX = "flux"
    KUBECTL = "kubectl"


# Helm and its clients take the name of their program: pkg/kube/client.go of Helm, getManagedFieldsManager.
_MANAGERS = {
    Tool.HELM: re.compile(r"helm.*|terraform-provider-helm.*"),
    Tool.FLUX: re.compile(r"kustomize-controller|flux"),
    Tool.KUBECTL: re.compile(r"kubectl(-.*)?|before-first-apply"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What has installed the objects that are adopted."""

    tool: Tool
    name: str = ""
    """Of the release or Kustomization; kubectl has none."""
    namespace: str = ""
    managers: tuple[str, ...] = ()
    """More field managers that it has used."""

    def __str__(self) -> str:
        """Return the form of messages: `Helm release blog/blog`."""
        kinds = {Tool.HELM: "Helm release", Tool.FLUX: "Flux Kustomization"}
        return f"{kinds[self.tool]} {self.namespace}/{self.name}" if self.name else self.tool.value

    def marks(self) -> Mapping[str, str]:
        """Return the labels or annotations that it has put on its objects."""
        match self.tool:
            case Tool.HELM:
                return {RELEASE_NAME: self.name, RELEASE_NAMESPACE: self.namespace}
            case Tool.FLUX:
                return {f"{KUSTOMIZATION}/name": self.name, f"{KUSTOMIZATION}/namespace": self.namespace}
            case Tool.KUBECTL:
                return {}

    def has_marked(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an object carries its marks."""
        found = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
        marks = self.marks()
        return bool(marks) and all(found.get(key) == value for key, value in marks.items())

    def is_manager(self, manager: str) -> bool:
        """Whether a field manager is one of its own, or of kubectl, with which people correct its objects."""
        if manager in self.managers:
            return True
        return any(_MANAGERS[tool].fullmatch(manager) for tool in (self.tool, Tool.KUBECTL))


def is_tool(text: str) -> bool:
    """Whether `--from` names a tool, and no BundleDeployment."""
    return "/" in text or text == Tool.KUBECTL.value


def hint_at_tool(text: str) -> str:
    """Return how a tool is named in full, if text is only the first part of that; else nothing."""
    kinds = {Tool.HELM.value: "RELEASE", Tool.FLUX.value: "KUSTOMIZATION"}
    return f"name what it has installed: --from {text}/{kinds[text]}" if text in kinds else ""


def read_origin(text: str, install_namespace: str, managers: tuple[str, ...]) -> Origin:
    """Return what `--from` names.

    Args:
        text: `helm/RELEASE[.NAMESPACE]`, `flux/KUSTOMIZATION[.NAMESPACE]` or `kubectl`.
        install_namespace: the namespace of a release by default.
        managers: more field managers of it.

    Raises: MisuseError.
    """
    tool, slash, rest = text.partition("/")
    if text == Tool.KUBECTL.value:
        return Origin(tool=Tool.KUBECTL, managers=managers)
    # A namespace contains no dot, a name may.
    name, _, namespace = rest.rpartition(".") if "." in rest else (rest, "", "")
    if tool not in (Tool.HELM.value, Tool.FLUX.value) or not slash or not name:
        forms = "helm/RELEASE[.NAMESPACE], flux/KUSTOMIZATION[.NAMESPACE], kubectl or the name of a BundleDeployment"
        raise MisuseError(f'--from "{text}": must be {forms}')
    if tool == Tool.HELM.value:
        return Origin(tool=Tool.HELM, name=name, namespace=namespace or install_namespace, managers=managers)
    return Origin(tool=Tool.FLUX, name=name, namespace=namespace or FLUX_NAMESPACE, managers=managers)
