"""Invalid fields that the API server would reject with a 500 or an incomprehensible message.

Server-side apply accepts neither a number or boolean as a string nor two list items with the same key. Client-side
apply did, so bundles contain them. What the API server explains well is left to it: names, ranges, references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.formats.applicable.corrections import find_pod_template, list_containers
from controller.formats.objects import Object, describe_type, describe_wrong_type, group_of
from controller.untrusted import mapping

_Keys = Mapping[str, Any]
"""The key fields of list items, and their defaults (None: required)."""

_NAME: _Keys = {"name": None}
_POD_LISTS: dict[str, _Keys] = {
    "containers": _NAME,
    "initContainers": _NAME,
    "ephemeralContainers": _NAME,
    "volumes": _NAME,
    "imagePullSecrets": {"name": ""},
    "hostAliases": {"ip": None},
    "resourceClaims": _NAME,
    "schedulingGates": _NAME,
    "topologySpreadConstraints": {"topologyKey": None, "whenUnsatisfiable": None},
}
_CONTAINER_LISTS: dict[str, _Keys] = {
    "env": _NAME,
    "ports": {"containerPort": None, "protocol": "TCP"},
    "volumeMounts": {"mountPath": None},
    "volumeDevices": {"devicePath": None},
}
_STRING_MAPS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "ConfigMap"): ("data", "binaryData"),
    ("", "ReplicationController"): ("spec.selector",),
    ("", "Secret"): ("data", "stringData"),
    ("", "Service"): ("spec.selector",),
    **dict.fromkeys(
        (
            ("apps", "DaemonSet"),
            ("apps", "Deployment"),
            ("apps", "ReplicaSet"),
            ("apps", "StatefulSet"),
            ("batch", "Job"),
            ("policy", "PodDisruptionBudget"),
        ),
        ("spec.selector.matchLabels",),
    ),
}
_KEYED_LISTS: Mapping[tuple[str, str], tuple[str, _Keys]] = {
    ("", "Service"): ("spec.ports", {"port": None, "protocol": "TCP"}),
    ("", "ServiceAccount"): ("secrets", {"name": ""}),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): ("webhooks", _NAME),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): ("webhooks", _NAME),
}
_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
_STRINGS = frozenset({str, type(None)})


def find_invalid_fields(item: Object) -> Iterator[str]:
    """Yield the problems of an object with a valid identity, each starting with its field path."""
    yield from _check_metadata(item["metadata"], "metadata")
    kind = group_of(item), item["kind"]
    for path in _STRING_MAPS.get(kind, ()):
        yield from _check_strings(_value_at(item, path), path)
    if kind in _KEYED_LISTS:
        path, keys = _KEYED_LISTS[kind]
        yield from _check_items(_value_at(item, path), path, keys)
    if kind == _DEFINITION:
        yield from _check_definition(item)
    template = find_pod_template(item)
    if template:
        yield from _check_pod_template(*template)


def _value_at(item: Object, path: str) -> Any:
    value: Any = item
    for field in path.split("."):
        value = mapping(value).get(field)
    return value


def _check_metadata(metadata: Any, path: str) -> Iterator[str]:
    if isinstance(metadata, dict):
        yield from _check_strings(metadata.get("labels"), f"{path}.labels")
        yield from _check_strings(metadata.get("annotations"), f"{path}.annotations")
        if isinstance(finalizers := metadata.get("finalizers"), list):
            items = [finalizer and {"name": finalizer} for finalizer in finalizers]
            yield from _check_items(items, f"{path}.finalizers", _NAME)


def _check_definition(item: Object) -> Iterator[str]:
    if mapping(item, "spec").get("preserveUnknownFields") is True:
        yield (
            "spec.preserveUnknownFields: must not be true in apiextensions.k8s.io/v1; "
            "remove it and set x-kubernetes-preserve-unknown-fields: true in the schema"
        )


def _check_pod_template(path: str, template: Mapping[str, Any]) -> Iterator[str]:
    below = f"{path}." if path else ""
    if path:  # a Pod's own metadata is checked already
        yield from _check_metadata(template.get("metadata"), f"{below}metadata")
    spec = mapping(template, "spec")
    yield from _check_strings(spec.get("nodeSelector"), f"{below}spec.nodeSelector")
    yield from _check_lists(spec, f"{below}spec", _POD_LISTS)
    for container_path, container in list_containers(spec, f"{below}spec"):
        yield from _check_container(container, container_path)


def _check_container(container: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _check_lists(container, path, _CONTAINER_LISTS)
    for field in ("command", "args"):
        words = container.get(field)
        for index, word in enumerate(words if isinstance(words, list) else ()):
            if type(word) not in _STRINGS:
                yield f"{path}.{field}[{index}]: {describe_wrong_type(word)}"
    variables = container.get("env")
    for index, variable in enumerate(variables if isinstance(variables, list) else ()):
        if isinstance(variable, dict) and type(variable.get("value")) not in _STRINGS:
            yield f"{path}.env[{index}].value: {describe_wrong_type(variable['value'])}"


def _check_strings(strings: Any, path: str) -> Iterator[str]:
    """Yield a problem for each value that is not a string; null is allowed (corrections.py)."""
    if strings is None:
        return
    if not isinstance(strings, dict):
        yield f"{path}: must be a mapping, not {describe_type(strings)}"
    elif not _STRINGS.issuperset(map(type, strings.values())):
        for key, value in strings.items():
            if type(value) not in _STRINGS:
                yield f"{path}.{key}: {describe_wrong_type(value)}"


def _check_lists(value: Mapping[str, Any], path: str, lists: Mapping[str, _Keys]) -> Iterator[str]:
    for field, keys in lists.items():
        if field in value:
            yield from _check_items(value[field], f"{path}.{field}", keys)


def _check_items(items: Any, path: str, keys: _Keys) -> Iterator[str]:
    """Yield a problem for each null and each duplicate in a keyed list."""
    if not isinstance(items, list) or _are_distinct(items, next(iter(keys))):
        return
    seen: dict[tuple[Any, ...], int] = {}
    for index, item in enumerate(items):
        if item is None:
            yield f"{path}[{index}]: must not be null; remove it"
        key = _key_of(item, keys)
        if key is None:
            continue
        if key in seen:
            shown = ", ".join(f'{name} "{value}"' for name, value in zip(keys, key, strict=True))
            field = path.rpartition(".")[2]
            yield f"{path}[{index}]: same {shown} as {field}[{seen[key]}]; remove one"
        seen.setdefault(key, index)


def _are_distinct(items: list[Any], field: str) -> bool:
    """Whether the items are mappings that differ in this field, as nearly all do."""
    try:
        return len({item[field] for item in items}) == len(items)
    except (KeyError, TypeError):
        return False


def _key_of(item: Any, keys: _Keys) -> tuple[Any, ...] | None:
    """Return the key of a list item; None if a field is missing, which the API server reports well."""
    if not isinstance(item, dict):
        return None
    key = tuple(default if item.get(field) is None else item[field] for field, default in keys.items())
    return key if all(isinstance(part, str | int) for part in key) else None
