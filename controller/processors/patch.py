"""The processor `patch`: three kinds of patches, as the API server applies them, and the objects that a target selects.

Label selectors are as `kubectl get --selector` takes them (labels.Parse of k8s.io/apimachinery). JSON merge patches are
those of RFC 7386; JSON patches (RFC 6902) are applied by the library jsonpatch, whose messages contain values, which
may be secrets; ours do not. Strategic merge patches are in strategic.py.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
from jsonpointer import JsonPointer, JsonPointerException

from rukpak.api.plugins import ProcessRequest, Rendering
from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.formats.applicable import scopes_of_crds
from rukpak.controller.formats.objects import Object, group_of, identify
from rukpak.controller.processors import change_each, refused
from rukpak.controller.processors.strategic import StrategicPatchError, merge_strategically, type_of
from rukpak.controller.untrusted import mapping

_OPERATION_STEPS = 30
_WAYS = ("merge", "strategic", "json")
_SELECTORS = {"labelSelector": "labels", "annotationSelector": "annotations"}
"""What each of them selects by."""


class PatchProcessor:
    """Patches the objects that match a target."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters."""
        problems = []
        if sum(parameters.get(way) is not None for way in _WAYS) != 1:
            problems.append(f"{path}: set exactly one of merge, strategic and json")
        target = parameters.get("target") or {}
        if all(value is None for value in target.values()):
            fields = "group, kind, name, namespace, labelSelector and annotationSelector"
            problems.append(f"{path}.target: set at least one of {fields}")
        for field in _SELECTORS:
            try:
                parse_selector(target.get(field) or "any")
            except ValueError as error:
                problems.append(f"{path}.target.{field}: {error}")
        for index, operation in enumerate(parameters.get("json") or ()):
            problems += _check_operation(operation, f"{path}.json[{index}]")
        return problems

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the rendering with all objects patched that the target selects.

        Raises: BundleError (InvalidConfig) if it selects none and is not optional, or the patch cannot be applied.
        """
        selects = select(request.parameters["target"], request)
        operations = request.parameters.get("json") or ()
        selected, steps = 0, len(json.dumps(request.parameters)) // 16 + _OPERATION_STEPS * len(operations)

        def _patch(item: Object) -> Object:
            nonlocal selected
            if not selects(item):
                return item
            selected += 1
            request.charge(0, steps)
            return _patched(item, request)

        result = change_each(request.rendering, _patch, request.charge)
        if not selected and not request.parameters.get("optional"):
            raise refused(f"{request.path}.target: matches no object; correct it, or set optional: true")
        return result


def _check_operation(operation: Mapping[str, Any], path: str) -> list[str]:
    op = operation["op"]
    if (operation.get("from") is not None) != (op in ("move", "copy")):
        return [f"{path}.from: must be set for move and copy, and only then"]
    if ("value" in operation) != (op in ("add", "replace", "test")):
        return [f"{path}.value: must be set for add, replace and test, and only then"]
    return []


def _patched(item: Object, request: ProcessRequest) -> Object:
    who, parameters, path = identify(item), request.parameters, request.path
    if (operations := parameters.get("json")) is not None:
        result = _apply_operations(item, operations, request)
    elif (strategic := parameters.get("strategic")) is not None:
        result = _patched_strategically(item, strategic, f"{path}.strategic")
    else:
        result = merge(item, parameters["merge"])
    if not isinstance(result, dict):
        raise refused(f"{path}: {who}: the patch replaces the whole object; patch its fields")
    return result


def _patched_strategically(item: Object, patch: Mapping[str, Any], path: str) -> Object:
    type_name = type_of(item["apiVersion"], item["kind"])
    who = identify(item)
    if type_name is None:
        problem = f"the merge keys of {item['apiVersion']} {item['kind']} are not known; use merge or json"
        raise refused(f"{path}: {who}: {problem}")
    try:
        return merge_strategically(item, patch, type_name)
    except StrategicPatchError as error:
        raise refused(f"{path}: {who}: {error}") from None


Selector: TypeAlias = Callable[[Mapping[str, str]], bool]
_KEY = r"(?P<key>(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EXISTS = re.compile(rf"(?P<not>!)?\s*{_KEY}").fullmatch
_EQUALS = re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=)\s*(?P<value>{_VALUE})").fullmatch
_IN = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)").fullmatch
# Commas between requirements, not those between the values of one.
_COMMA = re.compile(r",(?![^()]*\))")


def parse_selector(text: str) -> Selector:
    """Return a function that tells whether labels match the selector.

    Raises: ValueError with the requirement that is malformed.
    """
    requirements = [_parse_requirement(part.strip()) for part in _COMMA.split(text)]
    return lambda labels: all(matches(labels) for matches in requirements)


def _parse_requirement(text: str) -> Selector:
    if found := _EXISTS(text):
        key, wanted = found["key"], not found["not"]
        return lambda labels: (key in labels) is wanted
    if found := _EQUALS(text):
        return _one_of(found["key"], frozenset({found["value"]}), excluded=found["operator"] == "!=")
    if found := _IN(text):
        values = frozenset(value.strip() for value in found["values"].split(","))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return _one_of(found["key"], values, excluded=found["operator"] == "notin")
    raise ValueError(f'"{text}" is not a requirement; write it like app=web, tier!=cache, app in (a, b), app or !app')


def _one_of(key: str, values: frozenset[str], *, excluded: bool) -> Selector:
    return lambda labels: (key in labels and labels[key] in values) != excluded


def select(target: Mapping[str, Any], request: ProcessRequest) -> Callable[[Object], bool]:
    """Return a function that tells whether an object with a valid identity matches all fields of a target.

    An object without a namespace is in the install namespace unless its kind is cluster-scoped.
    """
    selectors = {_SELECTORS[field]: parse_selector(target[field]) for field in _SELECTORS if target.get(field)}
    scopes = scopes_of_crds(request.rendering.objects)

    def _selects(item: Object) -> bool:
        group, kind, metadata = group_of(item), item["kind"], item["metadata"]
        found = {"group": group, "kind": kind, "name": metadata["name"]}
        if any(target.get(field) not in (None, value) for field, value in found.items()):
            return False
        if target.get("namespace") is not None:
            scope = scopes.get((group, kind), request.capabilities.is_namespaced(group, kind))
            namespace = "" if scope is False else metadata.get("namespace") or request.install_namespace
            if target["namespace"] != namespace:
                return False
        # Other values are no labels, and what to do about them is not for a selector to say.
        return all(
            matches({key: value for key, value in mapping(metadata, field).items() if isinstance(value, str)})
            for field, matches in selectors.items()
        )

    return _selects


COPIED_BYTES = 1 << 20
"""JSON that one patch may copy: copies of copies would grow exponentially."""


def merge(value: Any, patch: Any) -> Any:
    """Return the value with a merge patch applied; neither is modified."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), change)
    return result


def _apply_operations(item: Object, operations: Sequence[Mapping[str, Any]], request: ProcessRequest) -> Any:
    result: Any = copy.deepcopy(item)
    copied = 0
    for index, operation in enumerate(operations):
        place = f"{request.path}.json[{index}]: {operation['path']}: {identify(item)}"
        try:
            if operation["op"] == "copy":
                size = len(json.dumps(JsonPointer(operation["from"]).resolve(result), ensure_ascii=False))
                copied += size
                if copied > COPIED_BYTES:
                    raise refused(f"{place}: copies more than {describe_bytes(COPIED_BYTES)}; add the values instead")
                request.charge(size, 0)
            result = JsonPatch([operation]).apply(result, in_place=True)
        except JsonPatchTestFailed:
            raise refused(f"{place}: the value there is another one; correct path or value") from None
        except (JsonPatchException, JsonPointerException, TypeError):
            raise refused(f"{place}: there is no such field or list item; correct the path") from None
    return result
