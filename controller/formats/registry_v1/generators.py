"""From a bundle to objects: upstream's generators, in their order.

1 to 3: ServiceAccounts, Roles and ClusterRoles with their bindings. 4: CustomResourceDefinitions, with conversion
webhooks. 5: other objects, by the supported kinds and their namespaces; kinds are matched whatever their group
(operator-registry, `supported_resources.go`). 6: Deployments of the install strategy, with webhook certificates
mounted. 7 and 8: admission webhook configurations. 9: the Services that webhooks call, unless the bundle brings one
that serves them, which gets generated fields where it has none; otherwise it conflicts with the generated one. Then
certificates of webhooks: who issues them, and the objects for it (upstream's `certproviders`).

Names are shortened and hashed as in operator-controller (`util.go`, `hash.go`).
"""

from __future__ import annotations

import copy
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.formats.objects import Object, drop_nulls, group_of
from rukpak.controller.formats.registry_v1.bundle import (
    ALL_NAMESPACES,
    CONVERSION,
    MUTATING,
    VALIDATING,
    Permission,
    ServiceVersion,
    StrategyDeployment,
    Targets,
    Webhook,
)
from rukpak.controller.formats.registry_v1.typed import write as write_json
from rukpak.controller.untrusted import integer, mapping, mappings, text

LONGEST = 63
"""Bytes of a name that is a DNS label."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DEFAULT_ACCOUNT = "default"
_GROUP = "rbac.authorization.k8s.io"
_SEE_NAMESPACES: Mapping[str, Any] = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}
CERT_MANAGER, SERVICE_CA, NONE = "cert-manager", "service-ca", "none"
PROVIDER_NAMES = (CERT_MANAGER, SERVICE_CA, NONE)
_CERT_MANAGER_API = ("cert-manager.io", "v1")
# Groups that only OpenShift serves; operators install other groups of openshift.io on any cluster.
_OPENSHIFT_GROUPS = frozenset(
    {"config.openshift.io", "operator.openshift.io", "project.openshift.io", "security.openshift.io"}
)
# cert-manager rejects longer ones.
_LONGEST_COMMON_NAME = 64
_NAMESPACED = (
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Secret",
    "ConfigMap",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "PrometheusRule",
    "ServiceMonitor",
    "PodMonitor",
    "VerticalPodAutoscaler",  # cluster-scoped in upstream
)
_CLUSTER_SCOPED = (
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
)
SCOPES = {**dict.fromkeys(_NAMESPACED, True), **dict.fromkeys(_CLUSTER_SCOPED, False)}
"""Supported kinds, and whether they are namespaced."""
_COPIED = (
    "rules",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "sideEffects",
    "timeoutSeconds",
    "admissionReviewVersions",
)
_FIELDS: Mapping[str, tuple[str, ...]] = {VALIDATING: _COPIED, MUTATING: (*_COPIED, "reinvocationPolicy")}
_KINDS: Mapping[str, str] = {
    VALIDATING: "ValidatingWebhookConfiguration",
    MUTATING: "MutatingWebhookConfiguration",
}
_REVISION_HISTORY_LIMIT = 1
# apimachinery, ValidateAnnotationsSize: keys and values of all annotations.
_ANNOTATIONS_LIMIT = 256 * 1024


def join_name(base: str, suffix: str) -> str:
    """Return `base-suffix`, with the base shortened to fit.

    If base and suffix have exactly 63 bytes together, the result is one byte too long, as in upstream.
    """
    kept, tail = base.encode(), suffix.encode()
    if len(kept) + len(tail) > LONGEST:
        kept = kept[: max(LONGEST - len(tail) - 1, 0)]
    return f"{kept.decode(errors='ignore')}-{suffix}"


def service_name(deployment: str) -> str:
    """Return the name of the Service of a Deployment, of at most 63 bytes: upstream's may be invalid."""
    name = _upstream_service_name(deployment)
    return name if len(name) <= LONGEST else join_name(deployment.replace(".", "-")[:-1], "service")


def certificate_name(deployment: str) -> str:
    """Return the name of the Certificate and the Secret of a Deployment."""
    return join_name(_upstream_service_name(deployment), "cert")


def issuer_name(deployment: str) -> str:
    """Return the name of the Issuer of a Deployment."""
    return join_name(certificate_name(deployment), "selfsigned-issuer")


def _upstream_service_name(deployment: str) -> str:
    return join_name(deployment.replace(".", "-"), "service")


def hash_of(value: Any) -> str:
    """Return the SHA-224 of a value's JSON and a newline in base 36, 43 or 44 characters; keys are in Go's order."""
    number = int.from_bytes(hashlib.sha224(f"{write_json(value)}\n".encode()).digest(), "big")
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def make_service_accounts(version: ServiceVersion, namespace: str) -> list[Object]:
    """Return the accounts that permissions name, sorted, except `default`, which every namespace has."""
    permissions = (*version.permissions, *version.cluster_permissions)
    accounts = sorted({_account(permission) for permission in permissions} - {_DEFAULT_ACCOUNT})
    return [_make_object("v1", "ServiceAccount", name, namespace) for name in accounts]


def make_roles(version: ServiceVersion, namespace: str, targets: Targets) -> Iterator[Object]:
    """Yield a Role and a RoleBinding for each watched namespace and permission; none if all are watched.

    One after the other: a bundle and a config of little text combine to very many.
    """
    if targets == ALL_NAMESPACES:
        return
    for target in targets:
        for permission in version.permissions:
            yield from _make_pair(version.name, permission, namespace, target)


def make_cluster_roles(version: ServiceVersion, namespace: str, targets: Targets) -> list[Object]:
    """Return a ClusterRole and a ClusterRoleBinding for each cluster permission, or for each if all are watched."""
    promoted = (
        {**permission, "rules": [*(permission["rules"] or ()), copy.deepcopy(_SEE_NAMESPACES)]}
        for permission in (version.permissions if targets == ALL_NAMESPACES else ())
    )
    return [
        item
        for permission in (*version.cluster_permissions, *promoted)
        for item in _make_pair(version.name, permission, namespace, "", "Cluster")
    ]


def _make_pair(
    version: str, permission: Permission, namespace: str, target: str, prefix: str = ""
) -> tuple[Object, Object]:
    account = _account(permission)
    name = join_name(f"{version}-{account}", hash_of(permission))
    role = _make_object(f"{_GROUP}/v1", f"{prefix}Role", name, target)
    if permission["rules"] is not None:
        role["rules"] = [drop_nulls(rule) for rule in permission["rules"]]
    binding = _make_object(f"{_GROUP}/v1", f"{prefix}RoleBinding", name, target)
    binding["roleRef"] = {"apiGroup": _GROUP, "kind": role["kind"], "name": name}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    return role, binding


def _account(permission: Permission) -> str:
    return permission["serviceAccountName"] or _DEFAULT_ACCOUNT


def _make_object(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **place}, **fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Issues certificates. Functions take the name of a Deployment and the install namespace."""

    certifies: bool = True
    """Whether a Secret must be mounted."""
    webhook_annotations: Callable[[str, str], dict[str, str]] = lambda _deployment, _namespace: {}
    """For objects that call the Deployment: webhook configurations, and CRDs with conversion."""
    service_annotations: Callable[[str], dict[str, str]] = lambda _deployment: {}
    objects: Callable[[str, str], list[Object]] = lambda _deployment, _namespace: []


def choose_provider(capabilities: Capabilities) -> str:
    """Return the name of the provider in the cluster; empty if there is none."""
    # Also if its API server is down: discovery still lists the group.
    if _OPENSHIFT_GROUPS & {*capabilities.unknown, *(group for group, _, _ in capabilities.kinds)}:
        return SERVICE_CA
    served = any((group, version) == _CERT_MANAGER_API for group, version, _ in capabilities.kinds)
    return CERT_MANAGER if served else ""


def _make_certificate(deployment: str, namespace: str) -> list[Object]:
    issuer, certificate = issuer_name(deployment), certificate_name(deployment)
    host = f"{service_name(deployment)}.{namespace}"
    common_name = {"commonName": host} if len(host.encode()) <= _LONGEST_COMMON_NAME else {}
    spec: dict[str, Any] = {
        "secretName": certificate,
        **common_name,
        "dnsNames": [host, f"{host}.svc", f"{host}.svc.cluster.local"],
        "duration": "17520h0m0s",
        "renewBefore": "24h0m0s",
        "usages": ["server auth"],
        "issuerRef": {"name": issuer},
    }
    return [
        _make_object("cert-manager.io/v1", "Issuer", issuer, namespace, spec={"selfSigned": {}}),
        _make_object("cert-manager.io/v1", "Certificate", certificate, namespace, spec=spec),
    ]


PROVIDERS: Mapping[str, Provider] = {
    CERT_MANAGER: Provider(
        webhook_annotations=lambda deployment, namespace: {
            "cert-manager.io/inject-ca-from": f"{namespace}/{certificate_name(deployment)}"
        },
        objects=_make_certificate,
    ),
    SERVICE_CA: Provider(
        webhook_annotations=lambda _deployment, _namespace: {"service.beta.openshift.io/inject-cabundle": "true"},
        service_annotations=lambda deployment: {
            "service.beta.openshift.io/serving-cert-secret-name": certificate_name(deployment)
        },
    ),
    NONE: Provider(certifies=False),
    "": Provider(certifies=False),
}
"""By their names; '' is for bundles that need none."""


def annotate(item: Object, annotations: Mapping[str, str]) -> Object:
    """Return an object with annotations, which replace those of the same keys."""
    if not annotations:
        return item
    metadata = item["metadata"]
    return {**item, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def find_bundled_services(version: ServiceVersion, others: Sequence[Object]) -> dict[str, Object]:
    """Return the Services among others that serve the webhooks of a Deployment, by the name of the Deployment."""
    services = {
        name_of(item): item for item in others if (item.get("apiVersion"), item.get("kind")) == ("v1", "Service")
    }
    found = {}
    for deployment, webhooks in _serving(version):
        service = services.get(service_name(deployment["name"]))
        if service is not None and _serves(mapping(service, "spec"), deployment, webhooks):
            found[deployment["name"]] = service
    return found


def make_webhook_services(
    version: ServiceVersion, namespace: str, provider: Provider, bundled: Mapping[str, Object]
) -> list[Object]:
    """Return a Service for each Deployment that webhooks name, including conversion webhooks.

    `bundled` are those of `find_bundled_services`.
    """
    services = []
    for deployment, webhooks in _serving(version):
        service = _make_service(deployment, webhooks, namespace)
        if own := bundled.get(deployment["name"]):
            service = {**service, **own, "spec": {**service["spec"], **drop_nulls(mapping(own, "spec"))}}
        services.append(annotate(service, provider.service_annotations(deployment["name"])))
    return services


def _serving(version: ServiceVersion) -> Iterator[tuple[StrategyDeployment, Sequence[Webhook]]]:
    serving: defaultdict[str, list[Webhook]] = defaultdict(list)
    for webhook in version.webhooks:
        serving[webhook.deployment].append(webhook)
    for deployment in version.deployments:
        if webhooks := serving.get(deployment["name"]):
            yield deployment, webhooks


def _make_service(deployment: StrategyDeployment, webhooks: Sequence[Webhook], namespace: str) -> Object:
    ports = sorted({(webhook.port, webhook.target_port) for webhook in webhooks}, key=_order_port)
    selector = (deployment["spec"].get("selector") or {}).get("matchLabels")
    spec = {
        "ports": [{"name": str(port), "port": port, "targetPort": target} for port, target in ports],
        **({"selector": selector} if selector else {}),
    }
    return _make_object("v1", "Service", service_name(deployment["name"]), namespace, spec=spec)


def _order_port(port: tuple[int, int | str]) -> tuple[int, int, str]:
    number, target = port
    return number, target if isinstance(target, int) else 0, str(target)


def _serves(spec: Mapping[str, Any], deployment: StrategyDeployment, webhooks: Sequence[Webhook]) -> bool:
    pod = mapping(deployment, "spec", "template")
    labels = mapping(pod, "metadata", "labels")
    selector = spec.get("selector")
    selects = selector is None or (isinstance(selector, dict) and selector.items() <= labels.items())
    return spec.get("type") != "ExternalName" and selects and _has_ports(spec.get("ports"), pod, webhooks)


def _has_ports(ports: Any, pod: Mapping[str, Any], webhooks: Sequence[Webhook]) -> bool:
    if ports is None:
        return True
    containers = mappings(pod, "spec", "containers")
    named = {
        text(each, "name"): integer(each, "containerPort") for item in containers for each in mappings(item, "ports")
    }
    served = {
        (integer(port, "port"), _resolve(port.get("targetPort") or port.get("port"), named))
        for port in mappings(ports)
        if port.get("protocol") in (None, "TCP")
    }
    return all((webhook.port, _resolve(webhook.target_port, named)) in served for webhook in webhooks)


def _resolve(target: Any, named: Mapping[str, int | None]) -> int | str | None:
    return named.get(target, target) if isinstance(target, str) else integer(target)


def convert_definitions(
    definitions: Sequence[Object], webhooks: Sequence[Webhook], namespace: str, provider: Provider
) -> list[Object]:
    """Return the CRDs; those that a conversion webhook lists are configured to call it.

    Raises: BundleError (InvalidBundle) for `preserveUnknownFields` in one of these.
    """
    by_crd = {crd: each for each in webhooks if each.type == CONVERSION for crd in each.conversion_crds}
    return [
        _convert(definition, by_crd[name], namespace, provider)
        if (name := definition["metadata"].get("name", "")) in by_crd
        else definition
        for definition in definitions
    ]


def _convert(definition: Object, webhook: Webhook, namespace: str, provider: Provider) -> Object:
    name, spec = definition["metadata"]["name"], definition["spec"]
    if spec.get("preserveUnknownFields"):
        raise BundleError(
            Reason.INVALID_BUNDLE,
            f"custom resource definition '{name}' must have .spec.preserveUnknownFields set to false to let API Server"
            " call webhook to do the conversion",
        )
    versions = webhook.definition.get("admissionReviewVersions")
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": _call_service(webhook, namespace, "/"),
            **({} if versions is None else {"conversionReviewVersions": versions}),
        },
    }
    converted = {**definition, "spec": {**spec, "conversion": conversion}}
    return annotate(converted, provider.webhook_annotations(webhook.deployment, namespace))


def find_unnamed_conversions(definitions: Sequence[Object], webhooks: Sequence[Webhook]) -> list[str]:
    """Return a warning for each CRD with a conversion webhook of its own, which no definition names."""
    named = {crd for each in webhooks if each.type == CONVERSION for crd in each.conversion_crds}
    return [
        f'CustomResourceDefinition "{name}": has a conversion webhook that no webhook definition of the bundle names; '
        "it is left as it is; name it in spec.webhookdefinitions"
        for definition in definitions
        if (name := definition["metadata"].get("name", "")) not in named
        and mapping(definition, "spec", "conversion").get("strategy") == "Webhook"
    ]


def name_of(item: Object) -> str:
    """Return the name of an unchecked object."""
    return str(mapping(item, "metadata").get("name", ""))


def place(item: Object, namespace: str, capabilities: Capabilities) -> Object:
    """Return an object in the install namespace if its kind is namespaced, or without a namespace."""
    kind = item["kind"]
    served = capabilities.is_namespaced(group_of(item), kind) if isinstance(item.get("apiVersion"), str) else None
    metadata = item.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return item  # refused later, when identities are checked
    kept = {key: value for key, value in (metadata or {}).items() if key != "namespace"}
    is_namespaced = SCOPES[kind] if served is None else served
    return {**item, "metadata": {**kept, "namespace": namespace} if is_namespaced else kept}


def make_webhook_configurations(
    version: ServiceVersion, namespace: str, targets: Targets, provider: Provider
) -> Iterator[Object]:
    """Yield a configuration for each validating webhook, then for each mutating one."""
    for type_ in (VALIDATING, MUTATING):
        for webhook in version.webhooks:
            if webhook.type == type_:
                made = _make_configuration(webhook, namespace, targets)
                yield annotate(made, provider.webhook_annotations(webhook.deployment, namespace))


def _make_configuration(webhook: Webhook, namespace: str, targets: Targets) -> Object:
    name = webhook.generate_name
    entry = {
        "name": name,
        "clientConfig": _call_service(webhook, namespace),
        **{field: webhook.definition[field] for field in _FIELDS[webhook.type] if field in webhook.definition},
    }
    if targets != ALL_NAMESPACES:
        expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(targets)}
        entry["namespaceSelector"] = {"matchExpressions": [expression]}
    return _make_object("admissionregistration.k8s.io/v1", _KINDS[webhook.type], name, webhooks=[entry])


def _call_service(webhook: Webhook, namespace: str, default_path: str | None = None) -> dict[str, Any]:
    path = default_path if webhook.path is None else webhook.path
    service = {"namespace": namespace, "name": service_name(webhook.deployment), "path": path, "port": webhook.port}
    return {"service": drop_nulls(service)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    volume: str
    path: str
    files: Mapping[str, str]
    """Keys of the Secret to file names."""


_MOUNTS = (
    _Mount(
        volume="webhook-cert",
        path="/tmp/k8s-webhook-server/serving-certs",  # noqa: S108 - where controller-runtime looks
        files={"tls.crt": "tls.crt", "tls.key": "tls.key"},
    ),
    _Mount(
        volume="apiservice-cert",
        path="/apiserver.local.config/certificates",
        files={"tls.crt": "apiserver.crt", "tls.key": "apiserver.key"},
    ),
)


def make_deployments(
    version: ServiceVersion, namespace: str, targets: Targets, certified: frozenset[str]
) -> Iterator[Object]:
    """Yield the Deployments in order of the CSV; those named in `certified` serve webhooks with certificates."""
    marks = {"olm.targetNamespaces": ",".join(targets), "olm.operatorNamespace": namespace}
    for deployment in version.deployments:
        template = deployment["spec"]["template"]
        metadata = template["metadata"]
        merged = {**version.annotations, **metadata.get("annotations", {}), **marks}
        spec = {
            **deployment["spec"],
            "revisionHistoryLimit": _REVISION_HISTORY_LIMIT,
            "template": {**template, "metadata": {**metadata, "annotations": merged}},
        }
        made = _make_object("apps/v1", "Deployment", deployment["name"], namespace, spec=spec)
        if label := deployment.get("label"):
            made["metadata"]["labels"] = dict(label)
        yield _mount_certificates(made) if deployment["name"] in certified else made


def check_annotations(deployment: Object) -> None:
    """Refuse a pod template with more annotations than the API server accepts.

    Raises: BundleError (InvalidBundle).
    """
    annotations: Mapping[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        largest = max(annotations, key=lambda key: len(annotations[key].encode()))
        raise BundleError(
            Reason.INVALID_BUNDLE,
            f"Deployment {deployment['metadata']['name']}: spec.template.metadata.annotations: {describe_bytes(size)},"
            f" but the API server accepts {describe_bytes(_ANNOTATIONS_LIMIT)}; these include the annotations of the"
            f' CSV, shorten "{largest}"',
        )


def _mount_certificates(deployment: Object) -> Object:
    spec = deployment["spec"]
    template, secret = spec["template"], certificate_name(deployment["metadata"]["name"])
    pod = template["spec"]
    containers = pod.get("containers") or []
    successors = _find_successors(containers)
    volumes = [volume for volume in pod.get("volumes", ()) if volume["name"] not in successors]
    mounted = {
        **pod,
        "containers": [_mount_in_container(container, successors) for container in containers],
        "volumes": [*volumes, *(_make_volume(mount, secret) for mount in _MOUNTS)],
    }
    if "initContainers" in pod:
        mounted["initContainers"] = [_follow_volumes(container, successors) for container in pod["initContainers"]]
    return {**deployment, "spec": {**spec, "template": {**template, "spec": mounted}}}


def _find_successors(containers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    by_path = {mount.path: mount.volume for mount in _MOUNTS}
    mounts = [mount for container in containers for mount in container.get("volumeMounts", ())]
    found = {mount["name"]: by_path[mount["mountPath"]] for mount in mounts if mount["mountPath"] in by_path}
    return {**found, **{mount.volume: mount.volume for mount in _MOUNTS}}


def _mount_in_container(container: Mapping[str, Any], successors: Mapping[str, str]) -> dict[str, Any]:
    kept = [mount for mount in container.get("volumeMounts", ()) if mount["name"] not in successors]
    added = [{"name": mount.volume, "mountPath": mount.path} for mount in _MOUNTS]
    return {**container, "volumeMounts": [*kept, *added]}


def _follow_volumes(container: Mapping[str, Any], successors: Mapping[str, str]) -> dict[str, Any]:
    # Upstream leaves these mounts, and the API server rejects the pod.
    if "volumeMounts" not in container:
        return dict(container)
    mounts = [{**mount, "name": successors.get(mount["name"], mount["name"])} for mount in container["volumeMounts"]]
    return {**container, "volumeMounts": mounts}


def _make_volume(mount: _Mount, secret: str) -> dict[str, Any]:
    items = [{"key": key, "path": path} for key, path in mount.files.items()]
    return {"name": mount.volume, "secret": {"secretName": secret, "items": items}}
