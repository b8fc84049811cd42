"""The processor `patch`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from api.plugins import ProcessRequest, Rendering
from controller.formats.objects import Object, identify
from controller.processors.patch.merge_keys import MergeKeys
from controller.processors.patch.operations import OperationError, apply_operations, merge
from controller.processors.patch.strategic import StrategicPatchError, merge_strategically
from controller.processors.patch.target import Target, parse_selector
from controller.processors.rendered import change_each, refused

_OPERATION_STEPS = 30
_WAYS = ("merge", "strategic", "json")


class PatchProcessor:
    """Patches the objects that match a target."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters."""
        problems = []
        if sum(parameters.get(way) is not None for way in _WAYS) != 1:
            problems.append(f"{path}: set exactly one of merge, strategic and json")
        target = parameters.get("target") or {}
        if all(value is None for value in target.values()):
            problems.append(f"{path}.target: set at least one of group, kind, name, namespace and labelSelector")
        try:
            parse_selector(target.get("labelSelector") or "any")
        except ValueError as error:
            problems.append(f"{path}.target.labelSelector: {error}")
        for index, operation in enumerate(parameters.get("json") or ()):
            problems += _check_operation(operation, f"{path}.json[{index}]")
        return problems

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the rendering with all objects patched that the target selects.

        Raises: BundleError (InvalidConfig) if it selects none and is not optional, or the patch cannot be applied.
        """
        target = Target(request.parameters["target"], request)
        selected, steps = 0, _count_steps(request.parameters)

        def _patch(item: Object) -> Object:
            nonlocal selected
            if not target.selects(item):
                return item
            selected += 1
            request.charge(0, steps)
            return _patched(item, request)

        result = change_each(request.rendering, _patch, request.charge)
        if not selected and not request.parameters.get("optional"):
            raise refused(f"{request.path}.target: matches no object; correct it, or set optional: true")
        return result


def _count_steps(parameters: Mapping[str, Any]) -> int:
    """Return the steps of applying a patch to one object: about one for each field, and more for an operation."""
    operations = parameters.get("json") or ()
    return len(json.dumps(parameters)) // 16 + _OPERATION_STEPS * len(operations)


def _check_operation(operation: Mapping[str, Any], path: str) -> list[str]:
    op = operation["op"]
    if (operation.get("from") is not None) != (op in ("move", "copy")):
        return [f"{path}.from: must be set for move and copy, and only then"]
    if ("value" in operation) != (op in ("add", "replace", "test")):
        return [f"{path}.value: must be set for add, replace and test, and only then"]
    return []


def _patched(item: Object, request: ProcessRequest) -> Object:
    """Return one object with the patch applied.

    Raises: BundleError (InvalidConfig).
    """
    who, parameters, path = identify(item), request.parameters, request.path
    if (operations := parameters.get("json")) is not None:
        try:
            result = apply_operations(item, operations, request.charge)
        except OperationError as error:
            place = f"{path}.json[{error.index}]: {operations[error.index]['path']}"
            raise refused(f"{place}: {who}: {error}") from None
    elif (strategic := parameters.get("strategic")) is not None:
        result = _patched_strategically(item, strategic, f"{path}.strategic")
    else:
        result = merge(item, parameters["merge"])
    if not isinstance(result, dict):
        raise refused(f"{path}: {who}: the patch replaces the whole object; patch its fields")
    return result


def _patched_strategically(item: Object, patch: Mapping[str, Any], path: str) -> Object:
    type_name = MergeKeys.load().type_of(item["apiVersion"], item["kind"])
    who = identify(item)
    if type_name is None:
        problem = f"the merge keys of {item['apiVersion']} {item['kind']} are not known; use merge or json"
        raise refused(f"{path}: {who}: {problem}")
    try:
        return merge_strategically(item, patch, type_name)
    except StrategicPatchError as error:
        raise refused(f"{path}: {who}: {error}") from None
