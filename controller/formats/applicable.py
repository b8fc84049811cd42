"""Makes rendered objects applicable by server-side apply, before their digest is taken. Pure (README.md).

In: objects as a format rendered them, the scope of their kinds, and what is known of custom kinds. Out: the same
objects, or BundleError (InvalidBundle). Inputs are never modified, unchanged parts are shared, equal inputs give equal
objects. `controller/apply` adds owner label, annotations and references. The steps: refuse invalid fields, correct,
remove nulls, set namespaces.

Invalid are fields that the API server would reject with a 500 or an incomprehensible message. Server-side apply accepts
neither a number or boolean as a string nor two list items with the same key. Client-side apply did, so bundles contain
them. What the API server explains well is left to it: names, ranges, references.

Corrections change valid objects so that server-side apply does what their author meant. Nulls are removed, unless a CRD
of the same bundle, or else of the cluster, allows them: the API server records a null as an owned leaf, rejects it in a
custom field that is not nullable, and starts a new generation at every apply if it is in the key of a list item. Nulls
that are list items are kept: removing one would move the others. In data of ConfigMaps and Secrets, null means the
empty string.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeAlias

from rukpak.api.bounds import HIGHEST_WAVE, read_wave
from rukpak.api.names import APPLIED_DIGEST, OWNER_LABEL, OWNER_UID, RELEASED_FROM, WAVE
from rukpak.api.plugins import CustomKind
from rukpak.controller.formats.objects import (
    BUILT_IN_GROUPS,
    Object,
    ObjectKey,
    crd_specs,
    describe_type,
    describe_wrong_type,
    find_identity_problems,
    find_pod_template,
    group_of,
    identify,
    list_containers,
    refuse,
)
from rukpak.controller.untrusted import field, mapping, sequence

Kind: TypeAlias = tuple[str, str, str]
"""Group, version and kind."""
ScopeLookup = Callable[[str, str], bool | None]
"""Group and kind to whether it is namespaced; None if this is not known yet."""

_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode
_ENCODE_SORTED = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def make_applicable(
    objects: Sequence[Object],
    *,
    install_namespace: str,
    is_namespaced: ScopeLookup,
    custom: Mapping[Kind, CustomKind] = MappingProxyType({}),
) -> list[Object]:
    """Return the objects as server-side apply accepts them, in the same order.

    Args:
        objects: as a format rendered them.
        install_namespace: of namespaced objects without a namespace. Cluster-scoped objects lose theirs, as the API
            server drops it silently.
        is_namespaced: scope of kinds that no CRD among the objects defines. With None the namespace remains unchanged
            until the API appears.
        custom: what is known of kinds that no CRD among the objects defines.

    Raises: BundleError (InvalidBundle) with object and field of the first problem, and the number of others.
    """
    refuse(find_identity_problems(objects))
    refuse(f"{identify(item)}: {problem}" for item in objects for problem in find_invalid_fields(item))
    defined, custom = scopes_of_crds(objects), {**custom, **custom_kinds(objects)}
    plain = {kind for kind, known in custom.items() if not known.has_status}
    corrected = [correct(item, plain_status=_kind_of(item) in plain) for item in objects]

    @cache
    def _scope(group: str, kind: str) -> bool | None:
        scope = defined.get((group, kind))
        return is_namespaced(group, kind) if scope is None else scope

    result = [
        _set_namespace(item, install_namespace, is_namespaced=_scope(group_of(item), item["kind"]))
        for item in _remove_nulls(corrected, custom)
    ]
    _refuse_equal(result)
    return result


def scopes_of_crds(objects: Sequence[Object]) -> dict[tuple[str, str], bool]:
    """Return whether the kinds that CRDs among the objects define are namespaced, by group and kind."""
    return {
        (str(spec.get("group")), str(field(spec, "names", "kind"))): spec.get("scope") == "Namespaced"
        for spec in crd_specs(objects)
    }


def revision_digest(objects: Sequence[Mapping[str, Any]], hooks: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the `sha256:…` of a revision.

    It covers `{"hooks":[…],"objects":[…]}` in canonical JSON: keys sorted, no spaces, UTF-8.
    """
    digest = hashlib.sha256()
    for opening, items in (('{"hooks":[', hooks), ('],"objects":[', objects)):
        digest.update(opening.encode())
        for index, item in enumerate(items):  # one at a time: the whole text may have 40 MB
            digest.update((("," if index else "") + _ENCODE_SORTED(item)).encode())
    digest.update(b"]}")
    return f"sha256:{digest.hexdigest()}"


def _set_namespace(item: Object, default: str, *, is_namespaced: bool | None) -> Object:
    metadata = item["metadata"]
    if is_namespaced and not metadata.get("namespace"):
        return {**item, "metadata": {**metadata, "namespace": default}}
    if is_namespaced is False and "namespace" in metadata:
        return {**item, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}
    return item


def _remove_nulls(objects: Sequence[Object], custom: Mapping[Kind, CustomKind]) -> list[Object]:
    result = []
    for item in objects:
        # Encoding in C is several times faster than a walk in Python, and few objects contain nulls.
        if ":null" in _ENCODE(item):
            known = custom.get(_kind_of(item))
            schema = known.schema if known else NO_SCHEMA
            item = {**without_nulls(item, schema), "metadata": without_nulls(item["metadata"])}  # noqa: PLW2901
        result.append(item)
    return result


def _refuse_equal(objects: Sequence[Object]) -> None:
    seen: set[ObjectKey] = set()
    problems: list[str] = []
    for identity in map(identify, objects):
        if identity in seen:
            problems.append(f"{identity}: defined twice in the bundle; remove one")
        seen.add(identity)
    refuse(problems)


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
_MATCHED = ("spec.selector.matchLabels",)
_STRING_MAPS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "ConfigMap"): ("data", "binaryData"),
    ("", "ReplicationController"): ("spec.selector",),
    ("", "Secret"): ("data", "stringData"),
    ("", "Service"): ("spec.selector",),
    ("apps", "DaemonSet"): _MATCHED,
    ("apps", "Deployment"): _MATCHED,
    ("apps", "ReplicaSet"): _MATCHED,
    ("apps", "StatefulSet"): _MATCHED,
    ("batch", "Job"): _MATCHED,
    ("policy", "PodDisruptionBudget"): _MATCHED,
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
    wave = mapping(item["metadata"], "annotations").get(WAVE)
    if isinstance(wave, str) and read_wave(wave) is None:
        yield f"metadata.annotations.{WAVE}: must be an integer from -{HIGHEST_WAVE} to {HIGHEST_WAVE}; correct it"
    kind = group_of(item), item["kind"]
    for path in _STRING_MAPS.get(kind, ()):
        yield from _check_strings(field(item, *path.split(".")), path)
    if kind in _KEYED_LISTS:
        path, keys = _KEYED_LISTS[kind]
        yield from _check_items(field(item, *path.split(".")), path, keys)
    if kind == _DEFINITION and field(item, "spec", "preserveUnknownFields") is True:
        yield (
            "spec.preserveUnknownFields: must not be true in apiextensions.k8s.io/v1; "
            "remove it and set x-kubernetes-preserve-unknown-fields: true in the schema"
        )
    template = find_pod_template(item)
    if template:
        yield from _check_pod_template(*template)


def _check_metadata(metadata: Any, path: str) -> Iterator[str]:
    for name in ("labels", "annotations"):
        yield from _check_strings(field(metadata, name), f"{path}.{name}")
    finalizers = [finalizer and {"name": finalizer} for finalizer in sequence(metadata, "finalizers")]
    yield from _check_items(finalizers, f"{path}.finalizers", _NAME)


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
    for name in ("command", "args"):
        for index, word in enumerate(sequence(container, name)):
            if type(word) not in _STRINGS:
                yield f"{path}.{name}[{index}]: {describe_wrong_type(word)}"
    for index, variable in enumerate(sequence(container, "env")):
        if isinstance(variable, dict) and type(variable.get("value")) not in _STRINGS:
            yield f"{path}.env[{index}].value: {describe_wrong_type(variable['value'])}"


def _check_strings(strings: Any, path: str) -> Iterator[str]:
    # null is allowed.
    if strings is None:
        return
    if not isinstance(strings, dict):
        yield f"{path}: must be a mapping, not {describe_type(strings)}"
    elif not _STRINGS.issuperset(map(type, strings.values())):
        for key, value in strings.items():
            if type(value) not in _STRINGS:
                yield f"{path}.{key}: {describe_wrong_type(value)}"


def _check_lists(value: Mapping[str, Any], path: str, lists: Mapping[str, _Keys]) -> Iterator[str]:
    for name, keys in lists.items():
        yield from _check_items(value.get(name), f"{path}.{name}", keys)


def _check_items(items: Any, path: str, keys: _Keys) -> Iterator[str]:
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
            yield f"{path}[{index}]: same {shown} as {path.rpartition('.')[2]}[{seen[key]}]; remove one"
        seen.setdefault(key, index)


def _are_distinct(items: list[Any], name: str) -> bool:
    # Halves the time for objects with many containers and variables.
    try:
        return len({item[name] for item in items}) == len(items)
    except (KeyError, TypeError):
        return False


def _key_of(item: Any, keys: _Keys) -> tuple[Any, ...] | None:
    # The API server reports a missing field well.
    if not isinstance(item, dict):
        return None
    key = tuple(default if item.get(name) is None else item[name] for name, default in keys.items())
    return key if all(isinstance(part, str | int) for part in key) else None


Schema: TypeAlias = Mapping[str, Any]
"""`openAPIV3Schema` of a CRD version, or a part of it; unchecked."""
NO_SCHEMA: Schema = {}
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_FREE_FORM: Schema = {"nullable": True, _PRESERVE: True}
_SERVER_FIELDS = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_RESERVED_ANNOTATIONS = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", OWNER_UID, APPLIED_DIGEST, RELEASED_FROM}
)
RESERVED = {"labels": frozenset({OWNER_LABEL}), "annotations": _RESERVED_ANNOTATIONS}
"""Labels and annotations of the controller, which no bundle sets."""
_WRITTEN_ANNOTATIONS = frozenset(
    {
        "autoscaling.alpha.kubernetes.io/conditions",
        "autoscaling.alpha.kubernetes.io/current-metrics",
        "batch.kubernetes.io/job-tracking",
        "control-plane.alpha.kubernetes.io/leader",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/revision-history",
        "deprecated.daemonset.template.generation",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "kubernetes.io/service-account.uid",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/storage-provisioner",
    }
)
"""Annotations that controllers of Kubernetes write, as in a manifest that was exported from a cluster: they would write
them again after each repair (kubernetes.io/docs/reference/labels-annotations-taints)."""
_NOT_APPLIED = {**RESERVED, "annotations": _RESERVED_ANNOTATIONS | _WRITTEN_ANNOTATIONS}
_INJECT_ANNOTATIONS = frozenset(
    {
        "cert-manager.io/inject-apiserver-ca",
        "cert-manager.io/inject-ca-from",
        "cert-manager.io/inject-ca-from-secret",
        "service.alpha.openshift.io/inject-cabundle",
        "service.beta.openshift.io/inject-cabundle",
    }
)


def custom_kinds(objects: Sequence[Object]) -> dict[Kind, CustomKind]:
    """Return what the CRDs among objects say about the kinds that they define."""
    result: dict[Kind, CustomKind] = {}
    for spec in crd_specs(objects):
        group, kind = str(spec.get("group")), str(field(spec, "names", "kind"))
        for version in map(mapping, sequence(spec, "versions")):
            result[group, str(version.get("name")), kind] = CustomKind(
                has_status=isinstance(field(version, "subresources", "status"), dict),
                schema=mapping(version, "schema", "openAPIV3Schema"),
            )
    return result


def find_kinds_to_know(objects: Sequence[Object], crds: Sequence[Object]) -> set[Kind]:
    """Return the kinds that `make_applicable` should know: of objects with a null or a status, and without a CRD.

    Args:
        objects: with valid identities.
        crds: objects, those that are CRDs count.
    """
    defined = scopes_of_crds(crds)
    custom = (item for item in objects if group_of(item) not in BUILT_IN_GROUPS)
    unknown = (item for item in custom if (group_of(item), item["kind"]) not in defined)
    return {_kind_of(item) for item in unknown if _depends_on_kind(item)}


def _depends_on_kind(item: Object) -> bool:
    # Not in metadata, where no field depends on the kind.
    body = _drop_keys(item, {"metadata"})
    return body.get("status") is not None or (":null" in _ENCODE(body) and without_nulls(body) != body)


def reduce_schema(schema: Schema) -> dict[str, Any]:
    """Return the part of a schema that says where null is allowed: `without_nulls` does the same by it."""
    marks = ("nullable", _PRESERVE)
    result: dict[str, Any] = {mark: True for mark in marks if schema.get(mark) is True}
    for name in ("items", "additionalProperties"):
        rule = schema.get(name)
        # Where unknown fields are preserved, or any name is declared, an empty rule says that null is not allowed.
        if isinstance(rule, dict) and ((reduced := reduce_schema(rule)) or _PRESERVE in result):
            result[name] = reduced
    is_open = _PRESERVE in result or "additionalProperties" in result
    rules = mapping(schema, "properties").items()
    properties = {name: reduce_schema(rule) for name, rule in rules if isinstance(rule, dict)}
    if kept := {name: rule for name, rule in properties.items() if rule or is_open}:
        result["properties"] = kept
    return result


def _kind_of(item: Object) -> Kind:
    return group_of(item), item["apiVersion"].rpartition("/")[2], item["kind"]


def without_nulls(item: Mapping[str, Any], schema: Schema = NO_SCHEMA) -> dict[str, Any]:
    """Return a mapping without the nulls that its schema does not allow.

    A schema allows null if it is `nullable`, and in undeclared fields below `x-kubernetes-preserve-unknown-fields`:
    in the values of a chart, for example, null removes a default.
    """
    result: dict[str, Any] = {}
    properties = mapping(schema, "properties") if schema else schema
    for key, value in item.items():
        rule = _rule(schema, properties.get(key, schema.get("additionalProperties"))) if schema else NO_SCHEMA
        if value is not None:
            result[key] = _without(value, rule)
        elif rule.get("nullable") is True:
            result[key] = None
    return result


def _without(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return without_nulls(value, schema)
    if isinstance(value, list):
        rule = _rule(schema, schema.get("items")) if schema else schema
        return [_without(item, rule) for item in value]
    return value


def _rule(schema: Schema, declared: Any) -> Schema:
    if isinstance(declared, dict):
        return declared
    return _FREE_FORM if schema.get(_PRESERVE) is True else NO_SCHEMA


def correct(item: Object, *, plain_status: bool = False) -> Object:
    """Return the object without the fields that belong to the API server, this controller or another controller.

    `plain_status`: its kind has no status subresource, so that `status` is a field as any other.
    """
    result = dict(item) if plain_status else _drop_keys(item, {"status"})
    result["metadata"] = _drop_marks(_drop_keys(item["metadata"], _SERVER_FIELDS), _NOT_APPLIED)
    correction = _CORRECTIONS.get((group_of(item), item["kind"]))
    return correction(result) if correction else result


def find_reserved_marks(item: Object) -> list[str]:
    """Return the labels and annotations of the controller in the metadata of an object, as field paths."""
    metadata = item["metadata"]
    return [
        f'metadata.{kind}["{name}"]'
        for kind, reserved in RESERVED.items()
        for name in reserved & mapping(metadata, kind).keys()
    ]


def without_reserved_marks(item: Object) -> Object:
    """Return an object without the labels and annotations of the controller."""
    return {**item, "metadata": _drop_marks(item["metadata"], RESERVED)} if find_reserved_marks(item) else item


def _drop_marks(metadata: Mapping[str, Any], dropped: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    result = dict(metadata)
    for kind, names in dropped.items():
        marks = metadata.get(kind)
        if marks and not names.isdisjoint(marks):
            result[kind] = _drop_keys(marks, names)
            if not result[kind]:
                del result[kind]
    return result


def _fill_nulls(item: Object) -> Object:
    # The API server also reads null as the empty string.
    result = item
    for name in ("data", "binaryData"):
        data = item.get(name)
        if data and None in data.values():
            result = {**result, name: {key: "" if value is None else value for key, value in data.items()}}
    return result


def _encode_string_data(item: Object) -> Object:
    # The API server records `stringData` as `f:stringData`, which hides edits of `data`.
    result = _fill_nulls(item)
    if "stringData" not in item:
        return result
    texts = item["stringData"] or {}
    encoded = {key: base64.b64encode((value or "").encode()).decode() for key, value in texts.items()}
    result = _drop_keys(result, {"stringData"})
    return {**result, "data": {**(result.get("data") or {}), **encoded}} if encoded else result


def _drop_aggregated_rules(item: Object) -> Object:
    # Apply would overwrite the rules of the aggregation controller.
    return _drop_keys(item, {"rules"}) if item.get("aggregationRule") is not None else item


def _drop_ca(path: tuple[str, ...], item: Object) -> Object:
    # Two writers would overwrite each other.
    if _INJECT_ANNOTATIONS.isdisjoint(item["metadata"].get("annotations") or ()):
        return item
    result: Object = _drop_at(item, *path)
    return result


def _drop_at(value: Any, name: str, *below: str) -> Any:
    if isinstance(value, list):
        return [_drop_at(item, name, *below) for item in value]
    if not isinstance(value, dict) or name not in value:
        return value
    return {**value, name: _drop_at(value[name], *below)} if below else _drop_keys(value, {name})


def _drop_keys(value: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys}


_OF_CLIENT = ("clientConfig", "caBundle")
_DROP_CAS_OF_WEBHOOKS = partial(_drop_ca, ("webhooks", *_OF_CLIENT))
_CORRECTIONS: dict[tuple[str, str], Callable[[Object], Object]] = {
    ("", "ConfigMap"): _fill_nulls,
    ("", "Secret"): _encode_string_data,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _DROP_CAS_OF_WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _DROP_CAS_OF_WEBHOOKS,
    _DEFINITION: partial(_drop_ca, ("spec", "conversion", "webhook", *_OF_CLIENT)),
    ("apiregistration.k8s.io", "APIService"): partial(_drop_ca, ("spec", "caBundle")),
    ("rbac.authorization.k8s.io", "ClusterRole"): _drop_aggregated_rules,
}
