"""The processor `metadata`: labels and annotations, of all objects and on request of pod templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rukpak.api.plugins import ProcessRequest, Rendering
from rukpak.controller.formats.applicable import RESERVED
from rukpak.controller.formats.objects import Object, group_of, identify, pod_template_path
from rukpak.controller.processors import change_each, refused, with_marks
from rukpak.controller.untrusted import mapping

_FIELDS = ("labels", "annotations")


class MetadataProcessor:
    """Sets labels and annotations; selectors are never changed."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters."""
        if not any(parameters.get(field) for field in _FIELDS):
            return [f"{path}: set labels or annotations"]
        return [
            f'{path}.{field}["{name}"]: belongs to the controller; remove it'
            for field in _FIELDS
            for name in parameters.get(field) or ()
            if name in RESERVED[field]
        ]

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the rendering with the labels and annotations set.

        Raises: BundleError (InvalidConfig) for a label that the selector of a workload needs to have another value.
        """
        marks = {field: request.parameters[field] for field in _FIELDS if request.parameters.get(field)}

        def _set(item: Object) -> Object:
            result = with_marks(item, (), marks)
            path = pod_template_path(group_of(item), item["kind"])
            if path and request.parameters.get("podTemplates"):
                _check_selector(item, marks.get("labels", {}), request.path)
                result = with_marks(result, path, marks)
            return result

        return change_each(request.rendering, _set, request.charge)


def _check_selector(item: Object, labels: Mapping[str, str], path: str) -> None:
    selector = mapping(item, "spec", "selector")
    needed = mapping(selector.get("matchLabels", selector))
    for name, value in labels.items():
        if needed.get(name, value) != value:
            problem = f"{identify(item)} selects its pods by another value of this label; set podTemplates: false"
            raise refused(f'{path}.labels["{name}"]: {problem}')
