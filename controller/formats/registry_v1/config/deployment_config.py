"""`deploymentConfig`: the user's additions to every Deployment of a bundle (upstream's `generators.go`).

Named additions are compared with the original lists: two with the same new name are both appended.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.objects import Object, identify
from controller.formats.registry_v1.bundle.typed import Reader, WrongTypeError
from controller.formats.registry_v1.config.deployment_config_schema import CONFIG, config_types

SECTION = "deploymentConfig"
_MOST_ADDED = 100_000
"""To all containers of a Deployment."""
_write = json.JSONEncoder(sort_keys=True).encode
DeploymentConfig: TypeAlias = Mapping[str, Any]
"""The section as Go writes it; fields that are not set are missing."""

_Items: TypeAlias = Sequence[Mapping[str, Any]]
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


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
    """Add annotations without replacing existing ones."""
    return (
        {**metadata, "annotations": {**annotations, **metadata.get("annotations", {})}} if annotations else {**metadata}
    )


def _configure_pod(pod: Mapping[str, Any], config: DeploymentConfig) -> dict[str, Any]:
    result = {**pod, "containers": [_configure_container(each, config) for each in pod.get("containers") or ()]}
    _change(result, "volumes", config, _by_name)
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
    _change(result, "env", config, _by_name)
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


def _by_name(items: _Items, additions: _Items) -> list[Any]:
    return _merge(items, additions, lambda item: item["name"])


def _mount(items: _Items, additions: _Items) -> list[Any]:
    """Replace the mount of a volume; if either side mounts it more than once, the one at the same path."""
    mounted, added = (Counter(item["name"] for item in side) for side in (items, additions))

    def _key(item: Mapping[str, Any]) -> tuple[str, ...]:
        name = item["name"]
        return (name,) if mounted[name] == added[name] == 1 else (name, item["mountPath"])

    return _merge(items, additions, _key)


def _merge(items: _Items, additions: _Items, key: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
    """Replace, in place, the last item with the key of an addition; append additions with a new key."""
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
    """Return the affinity with each kind of terms in the addition replaced; empty if nothing is left."""
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
