"""Corrections: changes to valid objects so that server-side apply does what their author meant.

Nulls are removed, unless a CRD of the same bundle allows them: the API server records a null as an owned leaf, rejects
it in a custom field that is not nullable, and starts a new generation at every apply if it is in the key of a list
item. Nulls that are list items are kept: removing one would move the others. In data of ConfigMaps and Secrets, null
means the empty string.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from api.names import APPLIED_DIGEST, OWNER_LABEL, OWNER_SHARD, OWNER_UID, RELEASED_FROM
from controller.formats.objects import Object, crd_specs, group_of
from controller.untrusted import mapping

_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): ("spec", "template"),
}
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
Schema: TypeAlias = Mapping[str, Any]
"""`openAPIV3Schema` of a CRD version, or a part of it; unchecked."""
NO_SCHEMA: Schema = {}
_FREE_FORM: Schema = {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}
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
RESERVED = {"labels": frozenset({OWNER_LABEL, OWNER_SHARD}), "annotations": _RESERVED_ANNOTATIONS}
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
_INJECT_ANNOTATIONS = frozenset(
    {
        "cert-manager.io/inject-apiserver-ca",
        "cert-manager.io/inject-ca-from",
        "cert-manager.io/inject-ca-from-secret",
        "service.alpha.openshift.io/inject-cabundle",
        "service.beta.openshift.io/inject-cabundle",
    }
)


def pod_template_path(group: str, kind: str) -> tuple[str, ...] | None:
    """Return where objects of a kind have their pod template: () for a Pod, None if its kind has none."""
    return _TEMPLATES.get((group, kind))


def find_pod_template(item: Object) -> tuple[str, Mapping[str, Any]] | None:
    """Return the path and the value of the pod template of an object; None if its kind has none."""
    path = pod_template_path(group_of(item), item["kind"])
    if path is None:
        return None
    value: Any = item
    for field in path:
        value = value.get(field) if isinstance(value, dict) else None
    return (".".join(path), value) if isinstance(value, dict) else None


def list_containers(pod_spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the value of every container of a pod."""
    for field in _CONTAINER_LISTS:
        containers = pod_spec.get(field)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict):
                yield f"{path}.{field}[{index}]", container


def schemas_of_crds(objects: Sequence[Object]) -> dict[tuple[str, str, str], Schema]:
    """Return the schemas that the CRDs among objects declare, by group, version and kind."""
    result: dict[tuple[str, str, str], Schema] = {}
    for spec in crd_specs(objects):
        kind = str(mapping(spec, "names").get("kind"))
        versions = spec.get("versions")
        for version in map(mapping, versions if isinstance(versions, list) else ()):
            schema = mapping(version, "schema", "openAPIV3Schema")
            result[str(spec.get("group")), str(version.get("name")), kind] = schema
    return result


def without_nulls(item: Mapping[str, Any], schema: Schema = NO_SCHEMA) -> dict[str, Any]:
    """Return a mapping without the nulls that its schema does not allow.

    A schema allows null if it is `nullable`, and in undeclared fields below `x-kubernetes-preserve-unknown-fields`:
    in the values of a chart, for example, null removes a default.
    """
    if not schema:
        return {key: _without_any(value) for key, value in item.items() if value is not None}
    result: dict[str, Any] = {}
    for key, value in item.items():
        rule = _schema_of_property(schema, key)
        if value is not None:
            result[key] = _without(value, rule)
        elif rule.get("nullable") is True:
            result[key] = None
    return result


def _without_any(value: Any) -> Any:
    kind = value.__class__  # this runs for every value of most objects
    if kind is dict:
        return {key: _without_any(item) for key, item in value.items() if item is not None}
    if kind is list:
        return [_without_any(item) for item in value]
    return value


def _without(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return without_nulls(value, schema)
    if isinstance(value, list):
        rule = _schema_of_items(schema)
        return [_without(item, rule) for item in value]
    return value


def _schema_of_property(schema: Schema, key: str) -> Schema:
    declared = mapping(schema, "properties").get(key, schema.get("additionalProperties"))
    if isinstance(declared, dict):
        return declared
    return _FREE_FORM if schema.get("x-kubernetes-preserve-unknown-fields") is True else NO_SCHEMA


def _schema_of_items(schema: Schema) -> Schema:
    items = schema.get("items")
    if isinstance(items, dict):
        return items
    return _FREE_FORM if schema.get("x-kubernetes-preserve-unknown-fields") is True else NO_SCHEMA


def correct(item: Object) -> Object:
    """Return the object without the fields that belong to the API server, this controller or another controller."""
    result = _drop_keys(item, {"status"})
    result["metadata"] = _correct_metadata(item["metadata"])
    correction = _CORRECTIONS.get((group_of(item), item["kind"]))
    return correction(result) if correction else result


def find_reserved_marks(item: Object) -> list[str]:
    """Return the labels and annotations of the controller in the metadata of an object, as field paths."""
    given = {field: mapping(item["metadata"].get(field)) for field in RESERVED}
    return [
        f'metadata.{field}["{name}"]' for field, reserved in RESERVED.items() for name in reserved & given[field].keys()
    ]


def without_reserved_marks(item: Object) -> Object:
    """Return an object without the labels and annotations of the controller."""
    return {**item, "metadata": _drop_reserved_marks(dict(item["metadata"]))} if find_reserved_marks(item) else item


def _correct_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    corrected = _drop_reserved_marks(_drop_keys(metadata, _SERVER_FIELDS))
    annotations = corrected.get("annotations")
    if annotations and not _WRITTEN_ANNOTATIONS.isdisjoint(annotations):
        corrected["annotations"] = _drop_keys(annotations, _WRITTEN_ANNOTATIONS)
        if not corrected["annotations"]:
            del corrected["annotations"]
    return corrected


def _drop_reserved_marks(metadata: dict[str, Any]) -> dict[str, Any]:
    """Remove the labels and annotations of the controller in place; return the metadata."""
    for field, reserved in RESERVED.items():
        marks = metadata.get(field)
        if marks and not reserved.isdisjoint(marks):
            metadata[field] = _drop_keys(marks, reserved)
            if not metadata[field]:
                del metadata[field]
    return metadata


def _fill_nulls(item: Object) -> Object:
    """Replace nulls in data with the empty string, as the API server does."""
    result = item
    for field in ("data", "binaryData"):
        data = item.get(field)
        if data and None in data.values():
            result = {**result, field: {key: "" if value is None else value for key, value in data.items()}}
    return result


def _encode_string_data(item: Object) -> Object:
    """Move `stringData` to `data`: the API server records it as `f:stringData`, which hides edits of `data`."""
    result = _fill_nulls(item)
    if "stringData" not in item:
        return result
    encoded = {key: _encode(value or "") for key, value in (item["stringData"] or {}).items()}
    result = _drop_keys(result, {"stringData"})
    return {**result, "data": {**(result.get("data") or {}), **encoded}} if encoded else result


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _drop_aggregated_rules(item: Object) -> Object:
    """Leave the rules of an aggregated ClusterRole to the aggregation controller: apply would overwrite them."""
    return _drop_keys(item, {"rules"}) if item.get("aggregationRule") is not None else item


def _drop_webhook_ca(item: Object) -> Object:
    if not _is_injected(item) or not isinstance(item.get("webhooks"), list):
        return item
    return {**item, "webhooks": [_drop_at(webhook, "clientConfig", "caBundle") for webhook in item["webhooks"]]}


def _drop_conversion_ca(item: Object) -> Object:
    return _drop_at(item, "spec", "conversion", "webhook", "clientConfig", "caBundle") if _is_injected(item) else item


def _drop_service_ca(item: Object) -> Object:
    return _drop_at(item, "spec", "caBundle") if _is_injected(item) else item


def _is_injected(item: Object) -> bool:
    """Whether another controller sets the CA bundle: two writers would overwrite each other."""
    return not _INJECT_ANNOTATIONS.isdisjoint(item["metadata"].get("annotations") or ())


def _drop_at(value: Any, field: str, *below: str) -> Any:
    """Return the value without the field at a path."""
    if not isinstance(value, dict) or field not in value:
        return value
    return {**value, field: _drop_at(value[field], *below)} if below else _drop_keys(value, {field})


def _drop_keys(value: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys}


_CORRECTIONS: dict[tuple[str, str], Callable[[Object], Object]] = {
    ("", "ConfigMap"): _fill_nulls,
    ("", "Secret"): _encode_string_data,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _drop_webhook_ca,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _drop_webhook_ca,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _drop_conversion_ca,
    ("apiregistration.k8s.io", "APIService"): _drop_service_ca,
    ("rbac.authorization.k8s.io", "ClusterRole"): _drop_aggregated_rules,
}
