"""Nonsense of the right outer shape: what strangers may have written where a function reads content, spec or cluster.

An object remains one: its apiVersion, kind and name are texts. Anything else may be replaced by any JSON value or left
out, so that what a function reads is found, and is of the wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from rukpak.api import names

Place = tuple[str | int, ...]

IDENTITY: frozenset[Place] = frozenset({("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")})
"""Places of an object that remain as they are."""

_TIME = "2026-01-01T00:00:00Z"
_WORDS = [
    "",
    "a",
    "1",
    "-1",
    "*",
    "true",
    "True",
    "%",
    "a/b",
    "a.b",
    "[0]",
    '"',
    "\n",
    "{}",
    "é\u2028",
    "k:{",
    "0x1p-2",
]
SCALARS: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.sampled_from([0, 1, -1, 2**63, 0.5, 1e300, -0.0]) | st.sampled_from(_WORDS)
)


def json_values(*names: str) -> st.SearchStrategy[Any]:
    """Return any JSON value, whose keys and texts may be these."""
    known = list(names) or ["a"]
    keys = st.sampled_from([*known, "a", ""])
    return st.recursive(
        SCALARS | st.sampled_from(known),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the places of all values in a value, outermost first."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def value_at(value: Any, place: Place) -> Any:
    """Return the value at a place."""
    found: Any = value
    for key in place:
        found = found[key]
    return found


def with_value(value: Any, place: Place, new: Any) -> Any:
    """Return a value with another one at a place."""
    if not place:
        return new
    key, *rest = place
    changed: Any = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = with_value(value[key], tuple(rest), new)
    return changed


def without_value(value: Any, place: Place) -> Any:
    """Return a value without the one at a place."""
    *above, key = place
    around = value_at(value, tuple(above))
    rest = (
        {name: each for name, each in around.items() if name != key}
        if isinstance(around, dict)
        else [each for index, each in enumerate(around) if index != key]
    )
    return with_value(value, tuple(above), rest)


def nonsense_in(example: Any, keep: Collection[Place] = (), most: int = 3) -> st.SearchStrategy[Any]:
    """Return an example in which up to `most` values are replaced by any others, also of elsewhere in it, or left out.

    Args:
        example: has every field that a function reads.
        keep: places that remain as they are.
        most: how many places are changed.
    """

    @cache  # once a property draws from it: tests have a thousand of these strategies, and each run few
    def read() -> tuple[list[Place], st.SearchStrategy[Any]]:
        found = [place for place in places(example) if place]
        names_ = sorted({key for place in found for key in place if isinstance(key, str)})
        return found, json_values(*names_) | st.sampled_from([value_at(example, place) for place in found])

    return _changed(example, read, keep, most)


@st.composite
def _changed(
    draw: st.DrawFn,
    example: Any,
    read: Callable[[], tuple[list[Place], st.SearchStrategy[Any]]],
    keep: Collection[Place],
    most: int,
) -> Any:
    left, replacements = read()
    value = example
    for _ in range(draw(st.integers(0, most))):
        changeable = [place for place in left if place not in keep]
        if not changeable:
            break
        place = draw(st.sampled_from(changeable))
        if draw(st.integers(0, 4)) == 0:
            value = without_value(value, place)
        else:
            value = with_value(value, place, draw(replacements))
        left = [each for each in places(value) if each]
    return value


def objects_like(*examples: Mapping[str, Any], most: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Return one of these objects, with nonsense anywhere but in its identity."""
    return st.one_of([nonsense_in(dict(each), IDENTITY, most) for each in examples])


def nested(levels: int, how: str = "map", leaf: Any = 1) -> Any:
    """Return a value that is nested in so many levels: of mappings, of lists, or of both in turn."""
    value = leaf
    for level in range(levels):
        value = [value] if how == "list" or (how == "both" and level % 2) else {"a": value}
    return value


# every field that we read of an object, in one of its kind


def _object(api_version: str, kind: str, **content: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {**metadata, "finalizers": ["example.com/f"]},
        **content,
    }


_LABELS = {
    "app": "web",
    "rbac.authorization.k8s.io/aggregate-to-edit": "true",
    "pod-security.kubernetes.io/enforce": "privileged",
    "operators.coreos.com/a.b": "",
}
_ANNOTATIONS = {
    names.DRIFT: "ignore",
    names.IGNORE_FIELDS: 'spec.replicas, data["a"]',
    names.OPTIONAL: "true",
    names.PRUNE: "false",
    names.RECREATE: "true",
    names.SAFE_CRD_UPGRADE_VALIDATION: "false",
    "helm.sh/resource-policy": "keep",
    "helm.sh/hook": "pre-install, post-upgrade",
    "helm.sh/hook-weight": "-1",
    "helm.sh/hook-delete-policy": "hook-succeeded",
    "cert-manager.io/inject-ca-from": "a/b",
    "deployment.kubernetes.io/revision": "1",
    "eks.amazonaws.com/role-arn": "arn",
    "kubernetes.io/service-account.name": "web",
    "meta.helm.sh/release-name": "web",
}
_SECURITY = {
    "runAsUser": 0,
    "runAsNonRoot": False,
    "privileged": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"add": ["SYS_TIME"], "drop": ["ALL"]},
    "seccompProfile": {"type": "Unconfined"},
    "appArmorProfile": {"type": "Unconfined"},
    "seLinuxOptions": {"type": "t"},
    "sysctls": [{"name": "a", "value": "b"}],
    "windowsOptions": {"hostProcess": True},
    "procMount": "Unmasked",
}
_CONTAINER = {
    "name": "main",
    "image": "example.com/a/b:1",
    "command": ["a"],
    "args": ["b"],
    "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    "envFrom": [{"secretRef": {"name": "s"}}],
    "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}, {"containerPort": 81}],
    "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
    "volumeDevices": [{"name": "v", "devicePath": "/d"}],
    "resources": {"limits": {"cpu": "100m", "memory": "0.5Gi"}, "requests": {"cpu": 1}},
    "securityContext": _SECURITY,
}
_TEMPLATE: dict[str, Any] = {
    "metadata": {
        "labels": {"app": "web"},
        "annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
    },
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "volumes": [
            {"name": "v", "hostPath": {"path": "/"}},
            {"name": "w", "secret": {"secretName": "s"}},
            {
                "name": "x",
                "projected": {"sources": [{"serviceAccountToken": {"audience": "a"}}, {"secret": {"name": "s"}}]},
            },
        ],
        "serviceAccountName": "web",
        "serviceAccount": "web",
        "priorityClassName": "system-node-critical",
        "imagePullSecrets": [{"name": "s"}],
        "hostAliases": [{"ip": "1.2.3.4"}],
        "topologySpreadConstraints": [{"topologyKey": "a", "whenUnsatisfiable": "b"}],
        "nodeSelector": {"a": "b"},
        "hostNetwork": True,
        "securityContext": _SECURITY,
    },
}
_CONDITIONS = [
    {"type": kind, "status": status, "reason": "A", "message": "m", "observedGeneration": 1}
    for kind, status in (
        ("Ready", "True"),
        ("Available", "False"),
        ("Progressing", "True"),
        ("Stalled", "True"),
        ("Reconciling", "False"),
        ("Failed", "True"),
        ("Established", "True"),
    )
]
_SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}],
}
_STATUS = {
    "observedGeneration": 1,
    "conditions": _CONDITIONS,
    "replicas": 1,
    "readyReplicas": 1,
    "desiredNumberScheduled": 1,
    "succeeded": 1,
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "main",
            "ready": False,
            "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}, "terminated": {"exitCode": 1, "reason": "Error"}},
            "lastState": {"terminated": {"exitCode": 1}},
        }
    ],
    "loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]},
    "parents": [{"parentRef": {"name": "g"}, "conditions": _CONDITIONS}],
    "storedVersions": ["v1"],
}
_RULES = [
    {
        "apiGroups": ["", "apps"],
        "resources": ["pods", "secrets"],
        "verbs": ["get", "*"],
        "resourceNames": ["a"],
        "nonResourceURLs": ["/healthz"],
    }
]
_WEBHOOK_SERVER = {
    "service": {"namespace": "shop", "name": "web", "path": "/a"},
    "caBundle": "QQ==",
    "url": "https://a",
}
_REQUEST_RULES = [
    {
        "operations": ["CREATE"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*"],
        "resourceNames": ["a"],
        "scope": "*",
    }
]
_SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "description": "d",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "nullable": True,
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-validations": [{"rule": "true", "message": "m"}],
            "additionalProperties": {"type": "string", "pattern": "^a", "format": "date-time", "maxLength": 3},
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2, "exclusiveMaximum": True},
                "list": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["a", "b"]},
                    "maxItems": 3,
                    "uniqueItems": True,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a"],
                },
                "any": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}], "oneOf": [{}], "not": {}},
            },
        },
        "status": {"type": "object", "properties": {"conditions": {"type": "array"}}},
    },
}
_VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}
_ADMISSION, _RBAC = "admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1"

OBJECTS: tuple[dict[str, Any], ...] = (
    _object(
        "apps/v1",
        "Deployment",
        spec={
            "replicas": 1,
            "paused": True,
            "minReadySeconds": 1,
            "progressDeadlineSeconds": 600,
            "selector": _SELECTOR,
            "template": _TEMPLATE,
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
        },
    ),
    _object("apps/v1", "StatefulSet", spec={"replicas": 1, "selector": _SELECTOR, "template": _TEMPLATE}),
    _object("apps/v1", "DaemonSet", spec={"selector": _SELECTOR, "template": _TEMPLATE}),
    _object("v1", "ReplicationController", spec={"selector": {"app": "web"}, "template": _TEMPLATE}),
    _object("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"template": _TEMPLATE}}}),
    _object("batch/v1", "Job", spec={"suspend": True, "ttlSecondsAfterFinished": 1, "template": _TEMPLATE}),
    {**_object("v1", "Pod"), **_TEMPLATE, "metadata": {**_object("v1", "Pod")["metadata"], **_TEMPLATE["metadata"]}},
    _object(
        "v1",
        "Service",
        spec={"type": "LoadBalancer", "selector": {"a": "b"}, "ports": [{"name": "p", "port": 80, "protocol": "TCP"}]},
    ),
    _object("v1", "ConfigMap", data={"a": "b"}, binaryData={"c": "ZA=="}),
    _object(
        "v1",
        "Secret",
        type="kubernetes.io/service-account-token",
        data={"a": "QQ=="},
        stringData={"b": "c"},
    ),
    _object("v1", "ServiceAccount", secrets=[{"name": "s"}], imagePullSecrets=[{"name": "s"}]),
    _object("v1", "Namespace"),
    _object(
        "v1",
        "PersistentVolume",
        spec={"hostPath": {"path": "/"}, "local": {"path": "/"}, "capacity": {"storage": "1Gi"}},
    ),
    _object(
        "v1",
        "PersistentVolumeClaim",
        spec={"storageClassName": "a", "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
    ),
    _object("policy/v1", "PodDisruptionBudget", spec={"selector": _SELECTOR}),
    _object("scheduling.k8s.io/v1", "PriorityClass", value=1, globalDefault=True),
    _object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    ),
    _object("keda.sh/v1alpha1", "ScaledObject", spec={"scaleTargetRef": {"name": "web"}}),
    _object(
        _RBAC,
        "ClusterRole",
        rules=_RULES,
        aggregationRule={"clusterRoleSelectors": [_SELECTOR, {"matchLabels": {"app": "web"}}]},
    ),
    _object(_RBAC, "Role", rules=_RULES),
    _object(
        _RBAC,
        "ClusterRoleBinding",
        roleRef={"kind": "ClusterRole", "name": "web"},
        subjects=[{"kind": "Group", "name": "system:serviceaccounts:a"}, {"kind": "User", "name": "system:anonymous"}],
    ),
    _object(
        _RBAC,
        "RoleBinding",
        roleRef={"kind": "Role", "name": "web"},
        subjects=[{"kind": "ServiceAccount", "name": "web"}],
    ),
    _object(
        _ADMISSION,
        "MutatingWebhookConfiguration",
        webhooks=[
            {
                "name": "a",
                "clientConfig": _WEBHOOK_SERVER,
                "failurePolicy": "Fail",
                "rules": _REQUEST_RULES,
                "namespaceSelector": _SELECTOR,
                "matchConditions": [{"name": "a", "expression": "true"}],
            }
        ],
    ),
    _object(
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        spec={
            "matchConstraints": {"resourceRules": _REQUEST_RULES, "namespaceSelector": _SELECTOR},
            "matchConditions": [{"name": "a"}],
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "true"}],
        },
    ),
    _object(
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        spec={"policyName": "a", "validationActions": ["Deny"], "matchResources": {"namespaceSelector": _SELECTOR}},
    ),
    _object(
        "apiregistration.k8s.io/v1",
        "APIService",
        spec={
            "group": "a.io",
            "version": "v1",
            "service": {"namespace": "shop", "name": "web"},
            "insecureSkipTLSVerify": True,
            "caBundle": "QQ==",
        },
    ),
    _object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        spec={
            "group": "example.com",
            "scope": "Namespaced",
            "preserveUnknownFields": False,
            "names": {"kind": "Cache", "plural": "caches", "singular": "cache", "listKind": "CacheList"},
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": _WEBHOOK_SERVER}},
            "versions": [_VERSION, {**_VERSION, "name": "v2", "storage": False}],
        },
    ),
    _object("gateway.networking.k8s.io/v1", "Gateway", spec={"listeners": [{"name": "a"}]}),
    _object("gateway.networking.k8s.io/v1", "HTTPRoute", spec={"parentRefs": [{"name": "g"}]}),
    _object("example.com/v1", "Cache", spec={"size": 1, "list": ["a"], "any": 1, "nothing": None}),
    _object(
        "cloudcredential.openshift.io/v1",
        "CredentialsRequest",
        spec={"providerSpec": {"statementEntries": [{"effect": "Allow", "action": ["s3:*"], "resource": "*"}]}},
    ),
)
"""As bundles bring them."""

_ENTRY = {
    "manager": "rukpak/web",
    "operation": "Apply",
    "apiVersion": "apps/v1",
    "fieldsType": "FieldsV1",
    "time": _TIME,
    "fieldsV1": {
        "f:metadata": {
            "f:labels": {"f:app": {}},
            "f:finalizers": {'v:"example.com/f"': {}},
        },
        "f:data": {"f:a": {}},
        "f:spec": {
            "f:replicas": {},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}},
            "f:template": {
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"main"}': {
                            ".": {},
                            "f:image": {},
                            "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                        }
                    }
                }
            },
        },
    },
}
MANAGED_FIELDS: list[dict[str, Any]] = [
    _ENTRY,
    {**_ENTRY, "manager": "rukpak-initial/web"},
    {**_ENTRY, "manager": "rukpak/other"},
    {**_ENTRY, "manager": "kubectl-edit", "operation": "Update"},
    {**_ENTRY, "manager": "helm", "operation": "Update", "subresource": "status"},
    {
        **_ENTRY,
        "manager": "kube-controller-manager",
        "operation": "Update",
        "subresource": "scale",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    },
]


def _live(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        **item["metadata"],
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "deletionTimestamp": _TIME,
        "creationTimestamp": _TIME,
        "managedFields": MANAGED_FIELDS,
        "ownerReferences": [
            {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": "web", "uid": "o", "controller": True}
        ],
    }
    labels = {**metadata["labels"], names.OWNER_LABEL: "web", "pod-template-hash": "a"}
    notes = {
        **metadata["annotations"],
        names.OWNER_UID: "o",
        names.APPLIED_DIGEST: "v1:sha256:a",
        names.RELEASED_FROM: "web",
        names.HOOK_RUN: "a",
        "volume.kubernetes.io/selected-node": "n",
    }
    return {**item, "metadata": {**metadata, "labels": labels, "annotations": notes}, "status": _STATUS}


LIVE: tuple[dict[str, Any], ...] = tuple(map(_live, OBJECTS))
"""As they are on a cluster, installed by a BundleDeployment `web`."""

_CONDITION = {"status": "False", "reason": "A", "message": "m", "observedGeneration": 1, "lastTransitionTime": _TIME}
_DIGEST = "sha256:" + "a" * 64
PIN: dict[str, Any] = {
    "kind": "image",
    "resolved": f"r.example.com/a@{_DIGEST}",
    "digest": _DIGEST,
    "specDigest": "v1:a",
    "origin": "v1:a",
    "resolvedAt": _TIME,
}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": f"{names.GROUP}/v1alpha2",
    "kind": names.KIND,
    "metadata": {
        "name": "web",
        "uid": "o",
        "generation": 1,
        "resourceVersion": "1",
        "labels": {names.SHARD: "a"},
        "annotations": {names.RECONCILE_REQUESTED_AT: "1"},
        "managedFields": MANAGED_FIELDS,
        "finalizers": [names.FINALIZER],
        "deletionTimestamp": _TIME,
    },
    "spec": {
        "format": "helm",
        "installNamespace": "shop",
        "serviceAccountName": "a",
        "config": {"values": {"a": [1]}, "valuesFiles": ["a.yaml"], "releaseName": "a", "includeCRDs": True},
        "configFrom": [{"kind": "Secret", "name": "a", "key": "k", "path": "a.b", "optional": True}],
        "sources": [
            {
                "kind": "image",
                "image": {"ref": "r.example.com/a", "semver": ">=1 <2 || ~3", "semverFilter": "^a", "platform": "a/b"},
                "auth": {"secretName": "x"},
                "destination": "a",
            },
            {"kind": "git", "git": {"repository": "https://a.example.com/a.git", "ref": "main", "directory": "a"}},
            {"kind": "http", "http": {"url": "https://a.example.com/a.tgz", "sha256": "a" * 64, "stripComponents": 1}},
            {"kind": "configMap", "configMap": {"names": ["a"]}},
            {"kind": "chart", "chart": {"repository": "https://a.example.com", "name": "a", "version": "1.x"}},
        ],
        "processors": [
            {"kind": "metadata", "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}, "podTemplates": True}},
            {"kind": "images", "images": [{"from": "a.io/", "to": "b.io/"}]},
            {"kind": "patch", "patch": {"target": {"kind": "a", "labelSelector": "a in (b)"}, "merge": {"a": [1]}}},
            {"kind": "patch", "patch": {"target": {"kind": "a"}, "json": [{"op": "add", "path": "/a", "value": 1}]}},
        ],
        "drift": {"ignore": [{"group": "apps", "kind": "Deployment", "name": "a", "paths": ["spec.replicas"]}]},
        "healthChecks": [
            {"group": "a", "kind": "b", "name": "c", "failed": [{"field": {"path": "a.b", "in": ["c"]}}]},
            {"kind": "b", "healthy": [{"condition": {"type": "a", "status": "True", "reasons": ["b"]}}]},
        ],
        "dependsOn": [{"name": "a"}],
        "takeOver": [{"name": "b"}],
        "optional": [{"group": "a", "kind": "b"}],
        "paused": True,
        "approval": "Manual",
        "deletionPolicy": "Orphan",
        "pollInterval": "1m",
        "progressDeadline": "5m",
        "prune": "Never",
        "revisionHistoryLimit": 3,
        "crdUpgradeSafety": {"enforcement": "Warn"},
        "collisionProtection": "None",
    },
    "status": {
        "observedGeneration": 1,
        "conditions": [
            {"type": kind, **_CONDITION} for kind in ("Ready", "Installed", "Healthy", "Unpacked", "Drifted")
        ],
        "notReady": [{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "reason": "Progressing"}],
        "revision": _DIGEST,
        "installedRevision": _DIGEST,
        "sources": [PIN],
        "history": [{"revision": _DIGEST, "outcome": "Healthy", "installedAt": _TIME, "sources": "a"}],
        "strays": [{"apiVersion": "v1", "kind": "Pod", "name": "a"}],
        "managedKinds": ["v1/ConfigMap"],
        "objects": {"total": 1},
        "pending": {"revision": _DIGEST, "since": _TIME},
        "managedState": "v2:sha256:a",
        "warnings": ["a"],
    },
}
"""A BundleDeployment with nearly every field, which can be read."""
