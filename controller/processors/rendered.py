"""Applies a function to every object of a rendering: objects and the manifests of hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from api.errors import BundleError
from api.plugins import Rendering
from api.v1alpha2.conditions import Reason
from controller.formats.objects import Object


def change_each(rendering: Rendering, change: Callable[[Object], Object]) -> Rendering:
    """Return the rendering with each object, also that of a hook, as the function returns it."""
    return replace(
        rendering,
        objects=[change(item) for item in rendering.objects],
        hooks=[replace(hook, manifest=change(hook.manifest)) for hook in rendering.hooks],
    )


def refused(problem: str) -> BundleError:
    """Return the error for a processor that cannot do what the spec says; `problem` starts with a field path."""
    return BundleError(Reason.INVALID_CONFIG, problem)
