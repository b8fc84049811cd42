"""`spec.config`: the options that a bundle accepts, which depend on its install modes.

All errors are collected; the messages are those of upstream's JSON schema validator. `deploymentConfig` is the user's
additions to every Deployment of a bundle (upstream's `generators.go`). Its schema has the types and required fields of
Kubernetes, with upstream's messages; the API server checks enumerations, patterns and ranges. Named additions are
compared with the original lists: two with the same new name are both appended.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.objects import Object, identify
from rukpak.controller.formats.registry_v1.bundle import (
    ALL,
    ALL_NAMESPACES,
    MULTI,
    OWN,
    SINGLE,
    Targets,
    find_target_problem,
    write_list,
)
from rukpak.controller.formats.registry_v1.generators import PROVIDER_NAMES
from rukpak.controller.formats.registry_v1.typed import (
    SCALARS,
    Reader,
    Types,
    WrongTypeError,
    kubernetes_types,
    parse_types,
)
from rukpak.controller.untrusted import path_below

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
_WANTED: Mapping[str, str] = {
    **dict.fromkeys(("string", "time", "bytes"), "string"),
    **dict.fromkeys(("int32", "int64"), "integer"),
    **dict.fromkeys(("intOrString", "quantity"), "string or number"),
    "bool": "boolean",
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
SECTION = "deploymentConfig"
_MOST_ADDED = 100_000
"""To all containers of a Deployment."""
_write = json.JSONEncoder(sort_keys=True).encode
DeploymentConfig: TypeAlias = Mapping[str, Any]
"""The section as Go writes it; fields that are not set are missing."""
_Items: TypeAlias = Sequence[Mapping[str, Any]]
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
_VALUES = "values"
"""What charts have instead."""
_ONE, _SEVERAL, _PROVIDER = "watchNamespace", "watchNamespaces", "certificateProvider"
_FIELD = "spec.config."
_LONGEST = 63
_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_IS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z").match


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
    elif type_ in _WANTED:
        if type(value) not in SCALARS[type_].types:
            yield wrong_type(path, value, _WANTED[type_])
    elif type_ in config_types():
        yield from _check_structure(value, type_, path)
    elif type_.startswith(("[]", "{}")):
        yield from _check_items(value, type_, path)


def _check_items(value: Any, type_: str, path: str) -> Iterator[str]:
    kind = list if type_.startswith("[]") else dict
    if not isinstance(value, kind):
        yield wrong_type(path, value, _NAMES[kind])
        return
    for key, item in enumerate(value) if isinstance(value, list) else value.items():
        yield from _check(item, type_[2:], path_below(path, f".{key}"))


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


def read_deployment_config(section: Mapping[str, Any]) -> DeploymentConfig:
    """Decode a section that matches the schema.

    Raises: BundleError (InvalidConfig) for an invalid quantity, which the schema does not check.
    """
    try:
        read: dict[str, Any] = Reader(config_types()).read(section, CONFIG)
    except WrongTypeError as error:
        raise BundleError(
            Reason.INVALID_CONFIG,
            f"invalid {SECTION}: failed to unmarshal {SECTION}: quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ) from error
    # Set to empty differs from not set.
    empty: dict[str, Any] = {key: {} for key in ("resources", "nodeSelector", "affinity") if section.get(key) == {}}
    return {**empty, **read}


def check_additions(deployment: Object, config: DeploymentConfig) -> None:
    """Refuse more additions to all containers of a Deployment than anybody needs.

    Raises: BundleError (RenderLimitExceeded).
    """
    containers = len(deployment["spec"]["template"]["spec"].get("containers") or ())
    added = containers * sum(len(config.get(field) or ()) for field in ("env", "envFrom", "volumeMounts"))
    if added > _MOST_ADDED:
        problem = f"adds {added:,} items to the {containers:,} containers of Deployment {identify(deployment).name}"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"spec.config.{SECTION}: {problem}; add fewer")


def configure(deployment: Object, config: DeploymentConfig) -> Object:
    """Return a Deployment with the additions of a config."""
    if not config:
        return deployment
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    annotations = config.get("annotations", {})
    template = {
        **template,
        "metadata": _annotate(template["metadata"], annotations),
        "spec": _configure_pod(template["spec"], config),
    }
    return {**deployment, "metadata": _annotate(metadata, annotations), "spec": {**spec, "template": template}}


def _annotate(metadata: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    return (
        {**metadata, "annotations": {**annotations, **metadata.get("annotations", {})}} if annotations else {**metadata}
    )


def _configure_pod(pod: Mapping[str, Any], config: DeploymentConfig) -> dict[str, Any]:
    result = {**pod, "containers": [_configure_container(each, config) for each in pod.get("containers") or ()]}
    _change(result, "volumes", config, _merge)
    _change(result, "tolerations", config, _append_new)
    _replace(result, "nodeSelector", config)
    if "affinity" in config:
        affinity = _merge_affinity(pod.get("affinity") or {}, config["affinity"])
        result["affinity"] = affinity
        if not affinity:
            del result["affinity"]
    return result


def _configure_container(container: Mapping[str, Any], config: DeploymentConfig) -> dict[str, Any]:
    result = dict(container)
    _change(result, "env", config, _merge)
    _change(result, "envFrom", config, _append_new)
    _change(result, "volumeMounts", config, _mount)
    _replace(result, "resources", config)
    return result


def _change(
    result: dict[str, Any], field: str, config: DeploymentConfig, merge: Callable[[_Items, _Items], list[Any]]
) -> None:
    if config.get(field):
        result[field] = merge(result.get(field, ()), config[field])


def _replace(result: dict[str, Any], field: str, config: DeploymentConfig) -> None:
    if field in config:
        result.pop(field, None)
        if config[field]:
            result[field] = config[field]


def _mount(items: _Items, additions: _Items) -> list[Any]:
    mounted, added = (Counter(item["name"] for item in side) for side in (items, additions))

    def _key(item: Mapping[str, Any]) -> tuple[str, ...]:
        name = item["name"]
        return (name,) if mounted[name] == added[name] == 1 else (name, item["mountPath"])

    return _merge(items, additions, _key)


def _merge(items: _Items, additions: _Items, key: Callable[[Mapping[str, Any]], Any] = itemgetter("name")) -> list[Any]:
    places = {key(item): index for index, item in enumerate(items)}
    result = list(items)
    for item in additions:
        index = places.get(key(item))
        if index is None:
            result.append(item)
        else:
            result[index] = item
    return result


def _append_new(items: _Items, additions: _Items) -> list[Any]:
    result = list(items)
    known = set(map(_write, items))
    for item in additions:
        if (written := _write(item)) not in known:
            known.add(written)
            result.append(item)
    return result


def _merge_affinity(affinity: Mapping[str, Any], addition: Mapping[str, Any]) -> dict[str, Any]:
    if not addition:
        return {}
    merged = {**affinity, **addition}
    kept = {key: terms for key, terms in merged.items() if not (key in addition and _is_empty(terms))}
    return {} if all(_is_empty(terms) for terms in kept.values()) else kept


def _is_empty(terms: Mapping[str, Any]) -> bool:
    required, preferred = (terms.get(key) for key in _TERMS)
    if isinstance(required, dict):
        required = required.get("nodeSelectorTerms")
    return not required and not preferred


class Options(NamedTuple):
    """The options in a config."""

    targets: Targets
    deployment: DeploymentConfig


def read_options(config: Mapping[str, Any], modes: frozenset[str], namespace: str) -> Options:
    """Return the options in a config, given the supported install modes and the install namespace.

    Raises: BundleError (InvalidConfig) with all errors, or for watched namespaces that the install modes do not allow.
    """
    errors = _find_errors(config, modes, namespace)
    if errors:
        text = "\n  - ".join(("multiple errors found:", *errors)) if len(errors) > 1 else errors[0]
        raise _invalid(text if text.startswith(_FIELD) else f"invalid configuration: {text}")
    targets = _choose_targets(config, modes)
    if problem := find_target_problem(modes, namespace, targets):
        raise _invalid(problem)
    return Options(targets, read_deployment_config(config.get(SECTION, {})))


def _choose_targets(config: Mapping[str, Any], modes: frozenset[str]) -> Targets:
    if _SEVERAL in config:
        return tuple(config[_SEVERAL])
    if config.get(_ONE) is not None:
        return (config[_ONE],)
    return ALL_NAMESPACES if ALL in modes else ()


def _find_errors(config: Mapping[str, Any], modes: frozenset[str], namespace: str) -> list[str]:
    if not isinstance(config, dict):
        return [wrong_type("", config, "object")]
    takes_one = bool(modes & {OWN, SINGLE})
    checks: dict[str, Callable[[Any], list[str]]] = {
        _PROVIDER: _check_provider,
        SECTION: lambda value: find_errors(value, SECTION),
    }
    if takes_one:
        checks[_ONE] = lambda value: _check_one(value, modes, namespace)
    if MULTI in modes:
        checks[_SEVERAL] = _check_several
    is_missing = takes_one and ALL not in modes and config.get(_ONE) is None and _SEVERAL not in config
    errors = [f'required field "{_ONE}" is missing'] if is_missing else []
    if takes_one and _ONE in config and _SEVERAL in config:
        errors.append(f'fields "{_ONE}" and "{_SEVERAL}" exclude each other')
    for key in sorted(checks.keys() & config.keys()):
        errors += checks[key](config[key])
    return [*errors, *(_describe_unknown(key, modes) for key in sorted(config.keys() - checks.keys()))]


def _describe_unknown(key: str, modes: frozenset[str]) -> str:
    if key == _VALUES:
        return f'unknown field "{key}": only charts have values, as --set gives them; set its fields with --config FILE'
    if key not in (_ONE, _SEVERAL):
        return f"unknown field {quote(key)}"
    supported = ", ".join(sorted(modes))
    remedy = f"use {_SEVERAL}" if key == _ONE and MULTI in modes else "remove it"
    if key == _SEVERAL and modes & {OWN, SINGLE}:
        remedy = f"use {_ONE}"
    return f"{_FIELD}{key}: not accepted, because this bundle supports only the install modes {supported}; {remedy}"


def _check_one(value: Any, modes: frozenset[str], own: str) -> list[str]:
    if value is None:
        return []  # optional, or reported as missing
    if isinstance(value, str):
        errors = [*_check_mode(value, modes, own), *_check_label(value, _ONE)]
    else:
        errors = [wrong_type(_ONE, value, "string")]
    if errors and ALL in modes:
        return [f'invalid value for field "{_ONE}"', wrong_type(_ONE, value, "null"), *errors]
    return errors


def _check_mode(value: str, modes: frozenset[str], own: str) -> list[str]:
    if SINGLE not in modes and value != own:
        format_ = "ownNamespaceInstallMode"
        rule = (
            f'must be "{own}" (the namespace where the operator is installed) because this operator only supports'
            " OwnNamespace install mode"
        )
    elif OWN not in modes and value == own:
        format_ = "singleNamespaceInstallMode"
        rule = (
            f'must be different from "{own}" (the install namespace) because this operator uses SingleNamespace'
            " install mode to watch a different namespace"
        )
    else:
        return []
    problem = f"'{value}' is not valid {format_}: invalid value \"{value}\": {rule}"
    return [f'invalid format for field "{_ONE}": {problem}']


def _check_label(value: str, path: str) -> list[str]:
    errors = []
    if not value:
        errors.append(f'field "{path}" must have minimum length of 1 (len=0)')
    if len(value) > _LONGEST:
        errors.append(f'field "{path}" must have maximum length of {_LONGEST} (len={len(value)})')
    if not _IS_LABEL(value):
        errors.append(f'field "{path}" must match pattern "{_PATTERN}"')
    return errors


def _check_several(value: Any) -> list[str]:
    if not isinstance(value, list):
        return list(_check(value, "[]string", _SEVERAL))
    errors = [] if value else [f'field "{_SEVERAL}" must have at least 1 item']
    places: dict[str, int] = {}
    for index, item in enumerate(value):
        path = f"{_SEVERAL}.{index}"
        if not isinstance(item, str):
            errors.append(wrong_type(path, item, "string"))
        elif places.setdefault(item, index) != index:
            errors.append(f'field "{path}" duplicates "{_SEVERAL}.{places[item]}"; remove one')
        else:
            errors += _check_label(item, path)
    return errors


def _check_provider(value: Any) -> list[str]:
    if not isinstance(value, str):
        return list(_check(value, "string", _PROVIDER))
    return [] if value in PROVIDER_NAMES else [f'field "{_PROVIDER}" must be one of {write_list(PROVIDER_NAMES)}']


def _invalid(message: str) -> BundleError:
    return BundleError(Reason.INVALID_CONFIG, message)
