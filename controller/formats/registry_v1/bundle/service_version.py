"""The fields of a ClusterServiceVersion that rendering uses, decoded like upstream's typed structure.

Install modes say which namespaces an operator may watch (upstream's `render.go`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from controller.formats.registry_v1.bundle.typed import (
    FieldPath,
    Reader,
    Types,
    kubernetes_types,
    parse_types,
    write_path,
)

ALL, MULTI, OWN, SINGLE = "AllNamespaces", "MultiNamespace", "OwnNamespace", "SingleNamespace"
ALL_NAMESPACES = ("",)
"""The targets of an operator that watches every namespace."""
VALIDATING, MUTATING, CONVERSION = "ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"
_DEFAULT_PORT = 443
# Descriptions for consoles: typed, but not used.
_DESCRIBED = {
    "displayName": "string",
    "description": "string",
    "resources": "[]ReferencedResource",
    "statusDescriptors": "[]Descriptor",
    "specDescriptors": "[]Descriptor",
    "actionDescriptors": "[]Descriptor",
}
# operator-framework/api, pkg/operators/v1alpha1/clusterserviceversion_types.go; for `*` and `!` see `typed.py`.
_TYPES: Types = parse_types(
    {
        "ClusterServiceVersion": {
            "apiVersion": "string",
            "kind": "string",
            "metadata": "!ObjectMeta",
            "spec": "!ClusterServiceVersionSpec",
            "status": "any",
        },
        "ClusterServiceVersionSpec": {
            "install": "!NamedInstallStrategy",
            "version": "version",
            "maturity": "string",
            "customresourcedefinitions": "!CustomResourceDefinitions",
            "apiservicedefinitions": "!APIServiceDefinitions",
            "webhookdefinitions": "[]WebhookDescription",
            "nativeAPIs": "[]GroupVersionKind",
            "minKubeVersion": "string",
            "displayName": "string",
            "description": "string",
            "keywords": "[]string",
            "maintainers": "[]Maintainer",
            "provider": "!AppLink",
            "links": "[]AppLink",
            "icon": "[]Icon",
            "installModes": "[]InstallMode",
            "replaces": "string",
            "labels": "{}string",
            "annotations": "{}string",
            "selector": "*LabelSelector",
            "cleanup": "!CleanupSpec",
            "skips": "[]string",
            "relatedImages": "[]RelatedImage",
        },
        "NamedInstallStrategy": {"strategy": "!string", "spec": "!StrategyDetailsDeployment"},
        "StrategyDetailsDeployment": {
            "deployments": "[]StrategyDeploymentSpec",
            "permissions": "[]StrategyDeploymentPermissions",
            "clusterPermissions": "[]StrategyDeploymentPermissions",
        },
        "StrategyDeploymentSpec": {"name": "!string", "spec": "!DeploymentSpec", "label": "{}string"},
        "StrategyDeploymentPermissions": {"serviceAccountName": "!string", "rules": "![]PolicyRule"},
        "CustomResourceDefinitions": {"owned": "[]CRDDescription", "required": "[]CRDDescription"},
        "CRDDescription": {"name": "!string", "version": "string", "kind": "string", **_DESCRIBED},
        "APIServiceDefinitions": {"owned": "[]APIServiceDescription", "required": "[]APIServiceDescription"},
        "APIServiceDescription": {
            "name": "string",
            "group": "!string",
            "version": "!string",
            "kind": "!string",
            "deploymentName": "string",
            "containerPort": "int32",
            **_DESCRIBED,
        },
        "WebhookDescription": {
            "generateName": "!string",
            "type": "!string",
            "deploymentName": "string",
            "containerPort": "int32",
            "targetPort": "*intOrString",
            "rules": "[]RuleWithOperations",
            "failurePolicy": "*string",
            "matchPolicy": "*string",
            "objectSelector": "*LabelSelector",
            "sideEffects": "*string",
            "timeoutSeconds": "*int32",
            "admissionReviewVersions": "![]string",
            "reinvocationPolicy": "*string",
            "webhookPath": "*string",
            "conversionCRDs": "[]string",
        },
        "GroupVersionKind": {"group": "!string", "version": "!string", "kind": "!string"},
        "ReferencedResource": {"name": "string", "kind": "string", "version": "string"},
        "Descriptor": {
            "path": "string",
            "displayName": "string",
            "description": "string",
            "x-descriptors": "[]string",
            "value": "any",
        },
        "InstallMode": {"type": "!string", "supported": "!bool"},
        "Maintainer": {"name": "string", "email": "string"},
        "AppLink": {"name": "string", "url": "string"},
        "Icon": {"base64data": "string", "mediatype": "string"},
        "CleanupSpec": {"enabled": "bool"},
        "RelatedImage": {"name": "string", "image": "string"},
    }
)
_USED = ("spec.install.", "spec.webhookdefinitions[")
# In the order of rbacv1.PolicyRule, after `verbs`.
_RULE_FIELDS = ("apiGroups", "resources", "resourceNames", "nonResourceURLs")


def write_list(items: Collection[str], separator: str = " ") -> str:
    """Return a list as Go prints it."""
    return f"[{separator.join(items)}]"


def find_target_problem(modes: Collection[str], namespace: str, targets: Sequence[str]) -> str:
    """Return why the supported modes do not allow the watched namespaces; empty if they do."""
    reason = _find_reason(modes, namespace, targets)
    return f"invalid option(s): invalid target namespaces {write_list(targets)}: {reason}" if reason else ""


def _find_reason(modes: Collection[str], namespace: str, targets: Sequence[str]) -> str:
    supported = f"supported install modes {write_list(sorted(modes))} do not support"
    if not targets:
        number = "at least" if MULTI in modes else "exactly"
        return f"{number} one target namespace must be specified"
    if set(targets) == {""}:
        return "" if ALL in modes else f"{supported} targeting all namespaces"
    if namespace in targets and OWN not in modes:
        return f"{supported} targeting own namespace"
    needed = MULTI if len(set(targets)) > 1 else OWN if namespace in targets else SINGLE
    return "" if needed in modes and "" not in targets else f"{supported} target namespaces {write_list(targets)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Rules for one ServiceAccount."""

    service_account: str
    """'' means `default`."""
    rules: tuple[Mapping[str, Any], ...] | None
    """Keys in the order of the Go structure."""

    def as_hashed(self) -> dict[str, Any]:
        """Return the value whose hash is part of names."""
        rules = None if self.rules is None else list(self.rules)
        return {"serviceAccountName": self.service_account, "rules": rules}


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyDeployment:
    """A Deployment of the install strategy."""

    name: str
    label: Mapping[str, str]
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An entry of `spec.webhookdefinitions`."""

    type: str
    generate_name: str
    """Name of the configuration object and of its webhook."""
    deployment: str
    port: int
    """Of the Service: `containerPort`, or 443."""
    target_port: int | str
    path: str | None
    conversion_crds: tuple[str, ...]
    definition: Mapping[str, Any]
    """As Go writes it: fields that are not set are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An API that the operator requires."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceVersion:
    """The fields of a ClusterServiceVersion that rendering uses."""

    name: str
    annotations: Mapping[str, str]
    install_modes: frozenset[str]
    """The supported ones."""
    deployments: tuple[StrategyDeployment, ...]
    permissions: tuple[Permission, ...]
    cluster_permissions: tuple[Permission, ...]
    owned_crds: tuple[str, ...]
    owns_api_services: bool
    webhooks: tuple[Webhook, ...]
    minimum_kubernetes: str
    required_apis: tuple[Api, ...]
    unknown_fields: tuple[str, ...]
    """Paths of the fields that were removed, in the sections that rendering uses."""


def read_service_version(manifest: Mapping[str, Any]) -> ServiceVersion:
    """Return the fields of a manifest that rendering uses.

    Raises: WrongTypeError.
    """
    reader = Reader(_all_types())
    value = reader.read(manifest, "ClusterServiceVersion")
    metadata, spec = value["metadata"], value["spec"]
    strategy = spec["install"]["spec"]
    return ServiceVersion(
        name=metadata.get("name", ""),
        annotations=metadata.get("annotations", {}),
        install_modes=frozenset(mode["type"] for mode in spec.get("installModes", ()) if mode["supported"]),
        deployments=tuple(_read_deployment(item) for item in strategy.get("deployments", ())),
        permissions=tuple(_read_permission(item) for item in strategy.get("permissions", ())),
        cluster_permissions=tuple(_read_permission(item) for item in strategy.get("clusterPermissions", ())),
        owned_crds=tuple(crd["name"] for crd in spec["customresourcedefinitions"].get("owned", ())),
        owns_api_services=bool(spec["apiservicedefinitions"].get("owned")),
        webhooks=tuple(_read_webhook(item) for item in spec.get("webhookdefinitions", ())),
        minimum_kubernetes=spec.get("minKubeVersion", ""),
        required_apis=tuple(_required_apis(spec)),
        unknown_fields=tuple(write_path(path) for path in reader.unknown if _is_used(path)),
    )


@cache
def _all_types() -> Types:
    return {**kubernetes_types(), **_TYPES}


def _read_deployment(item: Mapping[str, Any]) -> StrategyDeployment:
    return StrategyDeployment(name=item["name"], label=item.get("label", {}), spec=item["spec"])


def _read_permission(item: Mapping[str, Any]) -> Permission:
    rules = item.get("rules")
    return Permission(
        service_account=item["serviceAccountName"],
        rules=None if rules is None else tuple(_read_rule(rule) for rule in rules),
    )


def _read_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {"verbs": rule.get("verbs"), **{key: rule[key] for key in _RULE_FIELDS if key in rule}}


def _read_webhook(item: Mapping[str, Any]) -> Webhook:
    port = item.get("containerPort", 0)
    port = port if port > 0 else _DEFAULT_PORT
    return Webhook(
        type=item["type"],
        generate_name=item["generateName"],
        deployment=item.get("deploymentName", ""),
        port=port,
        target_port=item.get("targetPort", port),
        path=item.get("webhookPath"),
        conversion_crds=tuple(item.get("conversionCRDs", ())),
        definition=item,
    )


def _required_apis(spec: Mapping[str, Any]) -> Iterator[Api]:
    for crd in spec["customresourcedefinitions"].get("required", ()):
        yield Api(group=crd["name"].partition(".")[2], version=crd.get("version", ""), kind=crd.get("kind", ""))
    for api in (*spec["apiservicedefinitions"].get("required", ()), *spec.get("nativeAPIs", ())):
        yield Api(group=api["group"], version=api["version"], kind=api["kind"])


def _is_used(path: FieldPath) -> bool:
    return write_path(path).startswith(_USED)
