"""Processors: changes of rendered objects before they are applied (`spec.processors`). Pure; see README.md.

`building/rendering.py` calls them in order and checks what they return. What they share is here.

    patch      kind `patch`: which objects, and the three kinds of patches
    strategic  strategic merge patches, and by which keys they merge lists
    images     kind `images`: image names, and where objects have them
    metadata   kind `metadata`: labels and annotations
    rollouts   kind `rollouts`: a digest of the config that pods read, so that they are replaced when it changes
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Rendering
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.objects import Object
from rukpak.controller.untrusted import mapping

Charge: TypeAlias = Callable[[int, int], None]
_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def change_each(
    rendering: Rendering, change: Callable[[Object], Object], charge: Charge = lambda _text_bytes, _steps: None
) -> Rendering:
    """Return the rendering with each object, also that of a hook, as the function returns it.

    Args:
        rendering: to be changed.
        change: returns an object as it is if it does not change it.
        charge: of the request, for the text of changed objects.
    """

    def _change(item: Object) -> Object:
        changed = change(item)
        if changed is not item:
            charge(len(_ENCODE(changed)), 0)
        return changed

    return replace(
        rendering,
        objects=[_change(item) for item in rendering.objects],
        hooks=[replace(hook, manifest=_change(hook.manifest)) for hook in rendering.hooks],
    )


def with_marks(value: dict[str, Any], path: tuple[str, ...], marks: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the value with labels and annotations added to the metadata at a path, unless nothing is there."""
    if path:
        inner = value.get(path[0])
        return {**value, path[0]: with_marks(inner, path[1:], marks)} if isinstance(inner, dict) else value
    metadata = mapping(value, "metadata")
    changed = {field: {**mapping(metadata, field), **given} for field, given in marks.items()}
    return {**value, "metadata": {**metadata, **changed}}


def refused(problem: str) -> BundleError:
    """Return the error for a processor that cannot do what the spec says; `problem` starts with a field path."""
    return BundleError(Reason.INVALID_CONFIG, problem)
