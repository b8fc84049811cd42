"""Annotations of objects."""

from __future__ import annotations

from collections.abc import Mapping

from controller.formats.objects import Object


def annotate(item: Object, annotations: Mapping[str, str]) -> Object:
    """Return an object with annotations, in place of those of the same keys."""
    if not annotations:
        return item
    metadata = item["metadata"]
    return {**item, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}
