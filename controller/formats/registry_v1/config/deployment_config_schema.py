"""The schema of `deploymentConfig`: types and required fields of Kubernetes, with upstream's messages.

The API server checks enumerations, patterns and ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from controller.formats.registry_v1.bundle.typed import Types, kubernetes_types, parse_types
from controller.untrusted import path_below

CONFIG = "DeploymentConfig"
_TYPES = parse_types(
    {
        # SubscriptionConfig of operator-framework/api, without `selector`.
        CONFIG: {
            "nodeSelector": "{}string",
            "tolerations": "[]Toleration",
            "resources": "*ResourceRequirements",
            "envFrom": "[]EnvFromSource",
            "env": "[]EnvVar",
            "volumes": "[]Volume",
            "volumeMounts": "[]VolumeMount",
            "affinity": "*Affinity",
            "annotations": "{}string",
        }
    }
)
_WANTED: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "string"),
    "time": ((str,), "string"),
    "bytes": ((str,), "string"),
    "bool": ((bool,), "boolean"),
    "int32": ((int,), "integer"),
    "int64": ((int,), "integer"),
    "intOrString": ((int, str), "string or number"),
    "quantity": ((int, float, str), "string or number"),
}
_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@cache
def config_types() -> Types:
    """Return the structures of a `deploymentConfig`."""
    return {**kubernetes_types(), **_TYPES}


def find_errors(value: Any, path: str) -> list[str]:
    """Return all errors of a `deploymentConfig`, with dotted paths."""
    return list(_check(value, CONFIG, path))


def wrong_type(path: str, value: Any, wanted: str) -> str:
    """Return the message for a value of the wrong JSON type; the path of the config itself is ''."""
    field = f' for field "{path}"' if path else ""
    return f"invalid type{field}: got {_NAMES.get(type(value), 'object')}, want {wanted}"


def _check(value: Any, type_: str, path: str) -> Iterator[str]:
    if value is None:
        yield f'required field "{path}" is missing'
    elif type_.startswith("[]"):
        yield from _check_list(value, type_[2:], path)
    elif type_.startswith("{}"):
        yield from _check_map(value, type_[2:], path)
    elif type_ in config_types():
        yield from _check_structure(value, type_, path)
    elif type_ in _WANTED:
        allowed, wanted = _WANTED[type_]
        if type(value) not in allowed:
            yield wrong_type(path, value, wanted)


def _check_list(value: Any, type_: str, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield wrong_type(path, value, "array")
        return
    for index, item in enumerate(value):
        yield from _check(item, type_, path_below(path, f".{index}"))


def _check_map(value: Any, type_: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield wrong_type(path, value, "object")
        return
    for key, item in value.items():
        yield from _check(item, type_, path_below(path, f".{key}"))


def _check_structure(value: Any, type_: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield wrong_type(path, value, "object")
        return
    fields = config_types()[type_]
    for key in sorted(key for key, field in fields.items() if field.required and key not in value):
        yield f'required field "{path}.{key}" is missing'
    for key in sorted(value.keys() & fields.keys()):
        yield from _check(value[key], fields[key].type, path_below(path, f".{key}"))
    for key in sorted(value.keys() - fields.keys()):
        yield f'unknown field "{key if type_ == CONFIG else path_below(path, f".{key}")}"'
