"""Objects that `rukpak lint` finds something wrong with, and others that it must not complain about; for both tests.

What is wrong is refused by a real API server, too (tests/integration/test_lint.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Wrong:
    name: str
    item: Manifest
    expect: tuple[str, ...]
    """What is found: path and problem."""


def changed(item: Any, path: str, value: Any = None) -> Any:
    """Return an object with another value at a path (`spec/ports/0/name`); without it, if that is None."""
    step, _, rest = path.partition("/")
    key: Any = int(step) if isinstance(item, list) else step
    copy: Any = list(item) if isinstance(item, list) else dict(item)
    if rest:
        copy[key] = changed(copy[key], rest, value)
    elif value is None:
        del copy[key]
    else:
        copy[key] = value
    return copy


def made(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


CONTAINER = {
    "name": "web",
    "image": "example.com/web:1",
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "0.5"}},
    "livenessProbe": {"httpGet": {"path": "/", "port": "http", "httpHeaders": [{"name": "X-Empty"}]}},
    "readinessProbe": {"tcpSocket": {"port": 80}},
}
LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
DEPLOYMENT = made("Deployment", "web", "apps/v1", spec={"selector": {"matchLabels": LABELS}, "template": TEMPLATE})
SERVICE = made("Service", "web", spec={"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]})
SECRET = made("Secret", "keys", data={"a": "YQ==", "folded": "YWFh\nYWE="}, type="Opaque")
READING = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ROLE = made("Role", "reader", "rbac.authorization.k8s.io/v1", rules=[READING])
SHELVES: Manifest = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["width"],
            "properties": {
                "width": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
                "depth": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                "color": {"type": "string", "enum": ["red", "green"]},
                "code": {"type": "string", "pattern": "^(?i)[a-z]+$", "minLength": 2, "maxLength": 4},
                "port": {"x-kubernetes-int-or-string": True},
                "owner": {"type": "string", "nullable": True},
                "since": {"type": "string", "format": "date-time"},
                "books": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {"type": "object", "properties": {"title": {"type": "string"}}},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "extra": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"count": {"type": "integer"}},
                },
                "nothing": {"type": "object"},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
                },
                "either": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
            },
        }
    },
}
DEFINITION = made(
    "CustomResourceDefinition",
    "shelves.lint.example.com",
    "apiextensions.k8s.io/v1",
    spec={
        "group": "lint.example.com",
        "names": {"kind": "Shelf", "plural": "shelves"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SHELVES}},
            {"name": "v1alpha1", "served": False, "storage": False, "schema": {"openAPIV3Schema": SHELVES}},
        ],
    },
)
SHELF = made(
    "Shelf",
    "shelf",
    "lint.example.com/v1",
    spec={
        "width": 3,
        "depth": 0.5,
        "color": "red",
        "code": "AbC",
        "port": "http",
        "since": "2026-01-02T03:04:05Z",
        "books": [{"title": "Emma"}],
        "labels": {"any/thing": "1"},
        "extra": {"anything": [1], "count": 1},
        "nothing": {},
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}},
        "either": {"a": "x"},
    },
)

GOOD: Mapping[str, Manifest] = {
    "a Deployment": DEPLOYMENT,
    "a Service": SERVICE,
    "a CustomResourceDefinition": DEFINITION,
    "what is dropped from the items of a CustomResourceDefinition": changed(
        DEFINITION, "spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/books/items/propertys", {}
    ),
    "quantities of all forms": made(
        "ResourceQuota",
        "all",
        spec={"hard": {"pods": 3, "requests.cpu": "1.5", "limits.cpu": "100m", "requests.memory": "1e3"}},
    ),
    "a Secret": SECRET,
    "a Role": ROLE,
    "an object of a kind that the bundle defines": SHELF,
    "a number where text is allowed, too": changed(SHELF, "spec/port", 8080),
    "what is dropped from an object without fields": changed(SHELF, "spec/nothing/a", 1),
    "a StatefulSet without a Service": made(
        "StatefulSet", "web", "apps/v1", spec={"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    ),
    "a PriorityClass without a value": made("PriorityClass", "nothing-special", "scheduling.k8s.io/v1"),
    "an EndpointSlice without endpoints": made("EndpointSlice", "none", "discovery.k8s.io/v1", addressType="IPv4"),
    "a ControllerRevision without a number": made("ControllerRevision", "first", "apps/v1", data={"any": ["thing"]}),
    "a CSIDriver without anything": made("CSIDriver", "csi.example.com", "storage.k8s.io/v1"),
    "a LimitRange without limits": made("LimitRange", "none", spec={}),
    "a CronJob with a suspended Job": made(
        "CronJob",
        "nightly",
        "batch/v1",
        spec={
            "schedule": "@daily",
            "jobTemplate": {
                "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}
            },
        },
    ),
    "a ConfigMap with bytes": made("ConfigMap", "bytes", data={"a": "b"}, binaryData={"c": "AAE="}),
}
POD = "spec/template/spec/containers/0"
IN_POD = "spec.template.spec.containers[0]"
BOOKS = "spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/books"
IN_BOOKS = BOOKS.replace("/0/", "[0].").replace("/", ".")
WRONG = [
    Wrong("a misspelt field", changed(changed(DEPLOYMENT, "spec/replica", 2), "spec/paused", False),
          ('spec.replica: unknown field; did you mean "replicas"?',)),
    Wrong("a field of another kind", changed(SERVICE, "spec/containers", []), ("spec.containers: unknown field",)),
    Wrong("a misspelt field of metadata", changed(SERVICE, "metadata/label", {}),
          ('metadata.label: unknown field; did you mean "labels"?',)),
    Wrong("a quoted number", changed(DEPLOYMENT, "spec/replicas", "2"),
          ("spec.replicas: must be an integer, not a string; remove the quotes",)),
    Wrong("a number that is no integer", changed(DEPLOYMENT, "spec/replicas", 1.5),
          ("spec.replicas: must be an integer, not a number",)),
    Wrong("a number that is too large", changed(DEPLOYMENT, "spec/replicas", 1 << 31),
          ("spec.replicas: must fit 32 bits",)),
    Wrong("a number instead of a text", changed(DEPLOYMENT, f"{POD}/image", 1.0),
          (f"{IN_POD}.image: must be a string, not a number; put it in quotes",)),
    Wrong("a word instead of a boolean", changed(DEPLOYMENT, "spec/paused", "yes"),
          ("spec.paused: must be a boolean, not a string",)),
    Wrong("a list instead of a mapping", changed(DEPLOYMENT, f"{POD}/resources", []),
          (f"{IN_POD}.resources: must be a mapping, not a list",)),
    Wrong("a mapping instead of a list", changed(DEPLOYMENT, f"{POD}/ports", {"containerPort": 80}),
          (f"{IN_POD}.ports: must be a list, not a mapping",)),
    Wrong("a quantity that is a boolean", changed(DEPLOYMENT, f"{POD}/resources/limits/cpu", True),
          (f"{IN_POD}.resources.limits.cpu: must be a string or a number, not a boolean",)),
    Wrong("a quantity that is none", changed(DEPLOYMENT, f"{POD}/resources/limits/memory", "1 GB"),
          (f"{IN_POD}.resources.limits.memory: must be a quantity such as 500m or 1Gi",)),
    Wrong("a quantity with the unit of another", changed(DEPLOYMENT, f"{POD}/resources/limits/memory", "1ki"),
          (f"{IN_POD}.resources.limits.memory: must be a quantity such as 500m or 1Gi",)),
    Wrong("a port that is a list", changed(SERVICE, "spec/ports/0/targetPort", [80]),
          ("spec.ports[0].targetPort: must be a string or an integer, not a list",)),
    Wrong("a missing field", changed(DEPLOYMENT, f"{POD}/name"), (f"{IN_POD}.name: required field is missing",)),
    Wrong("several problems", changed(changed(DEPLOYMENT, "spec/selector"), "spec/replica", 1),
          ('spec.replica: unknown field; did you mean "replicas"?', "spec.selector: required field is missing")),
    Wrong("text that is not base64", changed(SECRET, "data/a", "!"), ("data.a: must be base64",)),
    Wrong("a time that is none",
          made("Lease", "mine", "coordination.k8s.io/v1", spec={"renewTime": "yesterday"}),
          ("spec.renewTime: must be a time such as 2006-01-02T15:04:05Z",)),
    Wrong("a version that is gone", made("PodDisruptionBudget", "web", "policy/v1beta1", spec={}),
          ('apiVersion: policy/v1beta1 has no kind "PodDisruptionBudget"; use policy/v1',)),
    Wrong("a misspelt kind", made("Deploymnet", "web", "apps/v1", spec={}),
          ('kind: apps/v1 has no kind "Deploymnet"; did you mean "Deployment"?',)),
    Wrong("a group that is gone", made("Ingress", "web", "extensions/v1beta1", spec={}),
          ('kind: extensions/v1beta1 has no kind "Ingress"',)),
    Wrong("a misspelt field of a CustomResourceDefinition",
          changed(DEFINITION, "spec/versions/0/schema/openAPIV3Schema/propertys", {}),
          ('spec.versions[0].schema.openAPIV3Schema.propertys: unknown field; did you mean "properties"?',)),
    Wrong("a wrong type in the schema of a CustomResourceDefinition",
          changed(DEFINITION, f"{BOOKS}/items/type", 1),
          (f"{IN_BOOKS}.items.type: must be a string, not a number; put it in quotes",)),
    Wrong("text in place of a schema", changed(DEFINITION, f"{BOOKS}/additionalProperties", "yes"),
          (f"{IN_BOOKS}.additionalProperties: must be a mapping, not a string",)),
    Wrong("an unknown field of a custom kind", changed(SHELF, "spec/colour", "red"),
          ('spec.colour: unknown field; did you mean "color"?',)),
    Wrong("an unknown field in a list", changed(SHELF, "spec/books/0/pages", 1),
          ("spec.books[0].pages: unknown field",)),
    Wrong("an unknown field of a custom object's metadata", changed(SHELF, "metadata/lables", {}),
          ('metadata.lables: unknown field; did you mean "labels"?',)),
    Wrong("a missing field of a custom kind", changed(SHELF, "spec/width"), ("spec.width: required field is missing",)),
    Wrong("a number below its minimum", changed(SHELF, "spec/width", 0), ("spec.width: must be at least 1",)),
    Wrong("a number above its maximum", changed(SHELF, "spec/width", 11), ("spec.width: must be at most 10",)),
    Wrong("a number that must be above its minimum", changed(SHELF, "spec/depth", 0),
          ("spec.depth: must be greater than 0",)),
    Wrong("a word that is not in the list", changed(SHELF, "spec/color", "gren"),
          ('spec.color: must be one of "red", "green"; did you mean "green"?',)),
    Wrong("a text that does not match", changed(SHELF, "spec/code", "a1"),
          ('spec.code: does not match the pattern "^(?i)[a-z]+$"',)),
    Wrong("a text that is too short", changed(SHELF, "spec/code", "a"),
          ("spec.code: must have at least 2 characters",)),
    Wrong("a text that is too long", changed(SHELF, "spec/code", "abcde"),
          ("spec.code: must have at most 4 characters",)),
    Wrong("a list that is too long", changed(SHELF, "spec/books", [{}, {}, {}]),
          ("spec.books: must have at most 2 items",)),
    Wrong("neither a number nor a text", changed(SHELF, "spec/port", True),
          ("spec.port: must be an integer or a string, not a boolean",)),
    Wrong("a value of a mapping", changed(SHELF, "spec/labels/a", 1),
          ("spec.labels.a: must be a string, not a number; put it in quotes",)),
    Wrong("a known field where others are kept", changed(SHELF, "spec/extra/count", "1"),
          ("spec.extra.count: must be an integer, not a string; remove the quotes",)),
    Wrong("an unknown field of an embedded object", changed(SHELF, "spec/template/dta", {}),
          ('spec.template.dta: unknown field; did you mean "data"?',)),
    Wrong("an embedded object without a kind", changed(SHELF, "spec/template/kind"),
          ("spec.template.kind: required field is missing",)),
    Wrong("a time of a custom kind that is none", changed(SHELF, "spec/since", "2026-13-01T00:00:00Z"),
          ("spec.since: must be a time such as 2006-01-02T15:04:05Z",)),
    Wrong("two of which one is allowed", changed(SHELF, "spec/either/b", "y"),
          ('spec.either: does not match what the schema says in "oneOf"',)),
    Wrong("a version that is not served", changed(SHELF, "apiVersion", "lint.example.com/v1alpha1"),
          ('apiVersion: lint.example.com/v1alpha1 has no kind "Shelf"; use lint.example.com/v1',)),
]  # fmt: skip
