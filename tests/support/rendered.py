"""Renderings for processors, and what processors make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rukpak.api.plugins import Capabilities, Hook, Processor, ProcessRequest, Rendering

KINDS = {("apps", "v1", "Deployment"): True, ("", "v1", "ConfigMap"): True, ("", "v1", "Namespace"): False}


def requested(
    parameters: Mapping[str, Any],
    *objects: dict[str, Any],
    path: str = "spec.processors[0]",
    hooks: Sequence[Hook] = (),
) -> ProcessRequest:
    """Return the request to a processor, with an install namespace that is called shop."""
    return ProcessRequest(
        name="web",
        install_namespace="shop",
        parameters=parameters,
        path=path,
        rendering=Rendering(objects=objects, hooks=hooks),
        capabilities=Capabilities(kubernetes_version="v1.36.3", kinds=KINDS),
    )


def processed(processor: Processor, parameters: Mapping[str, Any], *objects: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects that a processor makes of these."""
    return list(processor.process(requested(parameters, *objects)).objects)
