"""What a bundle may do beside what RBAC grants it: by its pods, requests of others, clouds, and objects elsewhere.

Pods: what they may do to their node and to others, and which Pod Security Standard allows it. A version of a bundle
that drops `runAsNonRoot` gains a power without asking for one, so what is missing is stated.

Requests: which requests of others webhooks, aggregated APIs and admission policies see, change or refuse.
Clouds: the identities that ServiceAccounts and CredentialsRequests ask for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.formats.objects import (
    BUILT_IN_GROUPS,
    ObjectKey,
    crd_specs,
    find_pod_template,
    group_of,
    identify,
    list_containers,
    list_references,
)
from rukpak.controller.permissions.statement import Severity, Statement, Topic, is_kind, name_object, shortened, texts
from rukpak.controller.untrusted import mapping, mappings, path_below, text

# Kubernetes, Pod Security Standards: the volume types of "restricted".
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_SECCOMP = ("RuntimeDefault", "Localhost")
_HOST_NAMESPACES = {"hostNetwork": "network", "hostPID": "processes", "hostIPC": "shared memory"}
_UNCONFINED_NOTES = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
)
_POD_SECCOMP_NOTE = "seccomp.security.alpha.kubernetes.io/pod"
# What Pod Security Standards allow at most, and containers usually have anyway.
_COMMON_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
_CRITICAL = ("system-node-critical", "system-cluster-critical")
_TOKEN_OF = "kubernetes.io/service-account.name"  # noqa: S105 - the name of an annotation
_OF_OTHERS = "that the bundle does not bring"


def _find_unrestricted(spec: Mapping[str, Any], containers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    pod = mapping(spec, "securityContext")
    for container in containers:
        own = mapping(container, "securityContext")
        for control in _lacking(own, pod):
            yield control, shortened(str(container.get("name")))
    for volume in mappings(spec, "volumes"):
        for kind in sorted(set(volume) - _VOLUMES - {"name", "hostPath"}):
            yield f"volumes of type {kind}", ""


def _lacking(own: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    if own.get("allowPrivilegeEscalation") is not False:
        yield "privilege escalation"
    if "ALL" not in texts(mapping(own, "capabilities").get("drop")):
        yield "capabilities"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "root"
    seccomp = mapping(own, "seccompProfile") or mapping(pod, "seccompProfile")
    if seccomp.get("type") not in _SECCOMP:
        yield "system calls"


def find_pod_powers(objects: Iterable[Mapping[str, Any]]) -> Iterator[Statement]:
    """Yield what the pods of a bundle may do, and what its tokens, volumes and priority classes allow."""
    items = list(objects)
    brought = {identify(item) for item in items if is_kind(item, "", "ServiceAccount", "Secret")}
    for item in items:
        template = find_pod_template(dict(item))
        if template:
            yield from _find_powers_of_pod(item, template[1], brought)
        yield from _around(item, brought)


def _around(item: Mapping[str, Any], brought: Collection[ObjectKey]) -> Iterator[Statement]:
    who = name_object(item)
    if is_kind(item, "", "PersistentVolume"):
        spec = mapping(item, "spec")
        for kind in ("hostPath", "local"):
            if path := mapping(spec, kind).get("path"):
                yield _power(who, f"node path {path}", verb="offers", severity=Severity.HIGH)
    elif is_kind(item, "scheduling.k8s.io", "PriorityClass"):
        yield _power(who, f"pods with priority {item.get('value')}", verb="allows", severity=Severity.NORMAL)
        if item.get("globalDefault") is True:
            yield _power(who, "the priority of all pods that name none", verb="sets", severity=Severity.HIGH)
    elif is_kind(item, "", "Namespace"):
        level = mapping(item, "metadata", "labels").get("pod-security.kubernetes.io/enforce")
        if level in ("privileged", "baseline"):
            severity = Severity.HIGH if level == "privileged" else Severity.NORMAL
            yield _power(who, f"pods of the Pod Security Standard {level}", verb="allows", severity=severity)
    elif is_kind(item, "", "Secret") and item.get("type") == "kubernetes.io/service-account-token":
        name = str(mapping(item, "metadata", "annotations").get(_TOKEN_OF))
        account = ObjectKey("", "ServiceAccount", identify(item).namespace, name)
        of_others = "" if account in brought else _OF_OTHERS
        what = f"a token that never expires of ServiceAccount {account.namespace}/{name}"
        yield _power(who, what, verb="holds", where=of_others)


def _power(who: str, what: str, *, verb: str = "", where: str = "", severity: Severity = Severity.HIGH) -> Statement:
    return Statement(topic=Topic.PODS, who=who, verb=verb, what=what, where=where, severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pod:
    """The pod template of one object."""

    who: str
    namespace: str
    spec: Mapping[str, Any]
    containers: Sequence[Mapping[str, Any]]
    volumes: Mapping[str, Mapping[str, Any]]
    brought: Collection[ObjectKey]
    """Its ServiceAccounts and Secrets."""


def _find_powers_of_pod(
    item: Mapping[str, Any], template: Mapping[str, Any], brought: Collection[ObjectKey]
) -> Iterator[Statement]:
    spec = mapping(template, "spec")
    pod = _Pod(
        who=name_object(item),
        namespace=identify(item).namespace,
        spec=spec,
        containers=[container for _, container in list_containers(spec, "")],
        volumes={str(volume.get("name")): volume for volume in mappings(spec, "volumes")},
        brought=brought,
    )
    for field, what in _HOST_NAMESPACES.items():
        if spec.get(field) is True:
            yield _power(pod.who, f"the {what} of its node", verb="uses")
    yield from _accounts(pod)
    yield from _volume_powers(pod)
    yield from _secrets(pod)
    if name := text(spec, "priorityClassName"):
        severity = Severity.HIGH if name in _CRITICAL else Severity.NORMAL
        yield _power(pod.who, f"priority class {name}", verb="uses", severity=severity)
    yield from _confinement(pod, mapping(spec, "securityContext"), "all containers")
    for key, value in sorted(mapping(template, "metadata", "annotations").items()):
        if value == "unconfined" and (key == _POD_SECCOMP_NOTE or key.startswith(_UNCONFINED_NOTES)):
            yield _power(pod.who, f"with annotation {key}: unconfined", verb="runs")
    for container in pod.containers:
        yield from _container(pod, container, f"container {shortened(str(container.get('name')))}")
    for control, name in _find_unrestricted(spec, pod.containers):
        where = f"in container {name}" if name else "in its volumes"
        yield _power(pod.who, control, verb="does not restrict", where=where, severity=Severity.LOW)


def _accounts(pod: _Pod) -> Iterator[Statement]:
    account = str(pod.spec.get("serviceAccountName") or pod.spec.get("serviceAccount") or "default")
    has_token = pod.spec.get("automountServiceAccountToken") is not False
    # Nearly every workload without rights uses the account "default".
    if (
        has_token
        and account != "default"
        and ObjectKey("", "ServiceAccount", pod.namespace, account) not in pod.brought
    ):
        yield _power(pod.who, f"ServiceAccount {pod.namespace}/{account}", verb="runs as", where=_OF_OTHERS)
    for volume in pod.volumes.values():
        for source in mappings(volume, "projected", "sources"):
            audience = mapping(source, "serviceAccountToken").get("audience")
            if audience:
                what = f"a token of its ServiceAccount for {audience}"
                yield Statement(topic=Topic.CLOUD, who=pod.who, verb="gets", what=what)


def _volume_powers(pod: _Pod) -> Iterator[Statement]:
    mounts = (mount for each in pod.containers for mount in mappings(each, "volumeMounts"))
    writable = {text(mount, "name") for mount in mounts if mount.get("readOnly") is not True}
    for name, volume in pod.volumes.items():
        path = mapping(volume, "hostPath").get("path")
        if not path:
            continue
        yield _power(pod.who, f"node path {path}", verb="reads")
        if name in writable:
            yield _power(pod.who, f"node path {path}", verb="writes")


def _secrets(pod: _Pod) -> Iterator[Statement]:
    names = {name for kind, name, _ in list_references(pod.spec) if kind == "Secret"}
    for name in sorted(names):
        if ObjectKey("", "Secret", pod.namespace, name) not in pod.brought:
            what = f"Secret {pod.namespace}/{name}"
            yield _power(pod.who, what, verb="reads", where=_OF_OTHERS, severity=Severity.LOW)


def _container(pod: _Pod, container: Mapping[str, Any], where: str) -> Iterator[Statement]:
    context = mapping(container, "securityContext")
    if context.get("privileged") is True:
        yield _power(pod.who, f"privileged in {where}", verb="runs")
    for name in texts(mapping(context, "capabilities").get("add")):
        severity = Severity.NORMAL if name in _COMMON_CAPABILITIES else Severity.HIGH
        yield _power(pod.who, f"capability {name} in {where}", verb="has", severity=severity)
    for port in mappings(container, "ports"):
        if port.get("hostPort"):
            what = f"port {port['hostPort']}/{port.get('protocol') or 'TCP'} of its node"
            yield _power(pod.who, what, verb="uses")
    if container.get("volumeDevices"):
        yield _power(pod.who, f"block devices in {where}", verb="uses")
    yield from _confinement(pod, context, where)


def _confinement(pod: _Pod, context: Mapping[str, Any], where: str) -> Iterator[Statement]:
    if context.get("runAsUser") == 0 or context.get("runAsNonRoot") is False:
        yield _power(pod.who, f"as root in {where}", verb="runs", severity=Severity.NORMAL)
    for field, what in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        if mapping(context, field).get("type") == "Unconfined":
            yield _power(pod.who, f"without {what} in {where}", verb="runs")
    if context.get("procMount") == "Unmasked":
        yield _power(pod.who, f"with unmasked /proc in {where}", verb="runs")
    if mapping(context, "windowsOptions").get("hostProcess") is True:
        yield _power(pod.who, f"as a process of its Windows node in {where}", verb="runs")
    for field, value in sorted(mapping(context, "seLinuxOptions").items()):
        yield _power(pod.who, f"with SELinux {field} {value} in {where}", verb="runs", severity=Severity.NORMAL)
    for sysctl in mappings(context, "sysctls"):
        yield _power(pod.who, f"sysctl {sysctl.get('name')}={sysctl.get('value')}", verb="sets")


ADMISSION = "admissionregistration.k8s.io"
MAX_RESOURCES = 2_000
"""Resources of one rule, times its operations; a rule that is larger is stated as a whole."""
MAX_REQUESTS = 20_000
"""Statements about the rules of one bundle."""
_WEBHOOKS = {"MutatingWebhookConfiguration": "may change", "ValidatingWebhookConfiguration": "may refuse"}
_POLICIES = {"MutatingAdmissionPolicy": "may change", "ValidatingAdmissionPolicy": "may refuse"}
_OF_RULES = (*_WEBHOOKS, *_POLICIES)
_BINDINGS = ("MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding")
# Whoever sees or changes these gets what is in them, or acts with the ServiceAccounts of pods.
_SENSITIVE = frozenset({"*", "*/*", "secrets", "pods", "pods/*", "serviceaccounts/token"})


def find_all_requests(items: Iterable[Mapping[str, Any]]) -> Iterator[Statement]:
    """Yield what a bundle has to do with requests of others. With very many, resources are summed up by a digest."""
    found = list(items)
    most = MAX_RESOURCES if sum(map(_count, found)) <= MAX_REQUESTS else 0
    return (statement for item in found for statement in find_requests(item, most))


def _count(item: Mapping[str, Any]) -> int:
    rules = [rule for webhook in mappings(item, "webhooks") for rule in mappings(webhook, "rules")]
    rules += mappings(item, "spec", "matchConstraints", "resourceRules")
    is_concerned = is_kind(item, ADMISSION, *_OF_RULES)
    return sum(min(_count_resources(rule), MAX_RESOURCES) for rule in rules) if is_concerned else 0


def find_requests(item: Mapping[str, Any], most: int = MAX_RESOURCES) -> Iterator[Statement]:
    """Yield which requests of others an object sees, changes or refuses."""
    if is_kind(item, ADMISSION, *_WEBHOOKS):
        for webhook in mappings(item, "webhooks"):
            yield from _webhook(item, webhook, most)
    elif is_kind(item, ADMISSION, *_POLICIES):
        yield from _policy(item, most)
    elif is_kind(item, ADMISSION, *_BINDINGS):
        yield _binding(item)
    elif is_kind(item, "apiregistration.k8s.io", "APIService"):
        yield from _api_service(item)
    elif is_kind(item, "apiextensions.k8s.io", "CustomResourceDefinition"):
        yield from _definition(item)


def _webhook(item: Mapping[str, Any], webhook: Mapping[str, Any], most: int) -> Iterator[Statement]:
    server, is_external = _server(mapping(webhook, "clientConfig"))
    where = [f"by {server}", f"failurePolicy {webhook.get('failurePolicy') or 'Fail'}", _selected(webhook)]
    for statement in _rules(item, webhook.get("rules"), _WEBHOOKS[item["kind"]], ", ".join(where), most=most):
        yield replace(statement, severity=Severity.HIGH) if is_external else statement


def _policy(item: Mapping[str, Any], most: int) -> Iterator[Statement]:
    spec = mapping(item, "spec")
    constraints = mapping(spec, "matchConstraints")
    where = f"where it is bound, {_selected({**constraints, 'matchConditions': spec.get('matchConditions')})}"
    yield from _rules(item, constraints.get("resourceRules"), _POLICIES[item["kind"]], where, said=spec, most=most)


def _binding(item: Mapping[str, Any]) -> Statement:
    spec = mapping(item, "spec")
    actions = f" ({', '.join(texts(spec.get('validationActions')))})" if spec.get("validationActions") else ""
    return Statement(
        topic=Topic.REQUESTS,
        who=name_object(item),
        verb="enforces",
        what=f"policy {spec.get('policyName')}{actions}",
        where=_selected(mapping(spec, "matchResources")),
        right=("binding", digest_of_json(spec), "", ""),
    )


def _rules(
    item: Mapping[str, Any], rules: Any, does: str, where: str, *, most: int, said: Mapping[str, Any] | None = None
) -> Iterator[Statement]:
    content, where = digest_of_json(said) if said else "", shortened(where)
    for rule in mappings(rules):
        scope = shortened(str(rule.get("scope") or "*"))
        place = where if scope == "*" else f"{where}, scope {scope}"
        for operation, what, is_sensitive in _split(rule, most):
            yield Statement(
                topic=Topic.REQUESTS,
                who=name_object(item),
                verb=operation,
                what=what,
                where=place,
                right=("requests", does, content, ""),
                mark=does,
                severity=Severity.HIGH if is_sensitive else Severity.NORMAL,
            )


def _split(rule: Mapping[str, Any], most: int) -> Iterator[tuple[str, str, bool]]:
    if _count_resources(rule) > most:
        yield "all operations", f"resources too many to list ({digest_of_json(rule)[:19]})", True
        return
    for operation, group, version, resource, name in product(*_lists(rule)):
        text = f"{resource}{group and f'.{group}'}{'' if version == '*' else f' at {version}'}"
        is_sensitive = group in ("", "*") and resource in _SENSITIVE
        yield operation, f'{text} "{name}"' if name else text, is_sensitive


def _lists(rule: Mapping[str, Any]) -> list[list[str]]:
    *lists, names = (
        texts(rule.get(field)) for field in ("operations", "apiGroups", "apiVersions", "resources", "resourceNames")
    )
    return [*lists, names or [""]]


def _count_resources(rule: Mapping[str, Any]) -> int:
    return math.prod(map(len, _lists(rule)))


def _selected(value: Mapping[str, Any]) -> str:
    fields = ("namespaceSelector", "objectSelector", "matchConditions", "excludeResourceRules")
    parts = [f"{field} {_json(value[field])}" for field in fields if value.get(field)]
    return shortened(f"with {', '.join(parts)}") if parts else "in all namespaces"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _server(config: Mapping[str, Any]) -> tuple[str, bool]:
    if config.get("url"):
        return str(config["url"]), True
    service = mapping(config, "service")
    return f"Service {service.get('namespace')}/{service.get('name')}", False


def _api_service(item: Mapping[str, Any]) -> Iterator[Statement]:
    spec = mapping(item, "spec")
    if not spec.get("service"):
        return
    server, _ = _server({"service": spec["service"]})
    yield _served(item, f"the API {spec.get('group')}/{spec.get('version')} by {server}")
    if spec.get("insecureSkipTLSVerify") is True:
        yield _served(item, f"{server} without checking its certificate", verb="trusts")


def _served(item: Mapping[str, Any], what: str, verb: str = "serves", severity: Severity = Severity.HIGH) -> Statement:
    return Statement(topic=Topic.REQUESTS, who=name_object(item), verb=verb, what=what, severity=severity)


def _definition(item: Mapping[str, Any]) -> Iterator[Statement]:
    conversion = mapping(item, "spec", "conversion")
    if conversion.get("strategy") == "Webhook":
        server, is_external = _server(mapping(conversion, "webhook", "clientConfig"))
        severity = Severity.HIGH if is_external else Severity.NORMAL
        yield _served(item, f"all its objects by {server}", "converts", severity)


_ANNOTATIONS = {
    "eks.amazonaws.com/role-arn": "AWS role",
    "iam.gke.io/gcp-service-account": "Google service account",
    "azure.workload.identity/client-id": "Azure client",
    "azure.workload.identity/tenant-id": "Azure tenant",
}
_CREDENTIALS = "cloudcredential.openshift.io"


def find_identities(item: Mapping[str, Any]) -> Iterator[Statement]:
    """Yield the identities outside the cluster that an object asks for."""
    who = name_object(item)
    if is_kind(item, "", "ServiceAccount"):
        annotations = mapping(item, "metadata", "annotations")
        for key, text in _ANNOTATIONS.items():
            if annotations.get(key):
                yield _identity(who, "acts as", f"{text} {annotations[key]}")
    elif is_kind(item, _CREDENTIALS, "CredentialsRequest"):
        for path, value in _leaves(mapping(item, "spec", "providerSpec"), ""):
            if path not in ("apiVersion", "kind"):
                yield _identity(who, "requests", f"{path}: {value}")


def _identity(who: str, verb: str, what: str) -> Statement:
    return Statement(topic=Topic.CLOUD, who=who, verb=verb, what=what, severity=Severity.HIGH)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if "resource" in value and isinstance(value.get("action"), list):
            rest = {key: member for key, member in value.items() if key != "action"}
            about = shortened(", ".join(f"{key} {member}" for key, member in sorted(rest.items())))
            yield from ((path, f"{action} ({about})") for action in value["action"])
            return
        for key, member in value.items():
            yield from _leaves(member, path_below(path, f".{key}" if path else str(key)))
    elif isinstance(value, list):
        for member in value:
            yield from _leaves(member, path)
    else:
        yield path, value


def find_outside(objects: Iterable[Mapping[str, Any]], install_namespace: str) -> Iterator[Statement]:
    """Yield the objects outside a namespace, and the kinds that neither the API server nor the bundle defines."""
    items = list(map(dict, objects))
    own = {(text(spec, "group"), text(spec, "names", "kind")) for spec in crd_specs(items)}
    for item in items:
        metadata, group = mapping(item, "metadata"), group_of(item)
        kind = item["kind"] if group in BUILT_IN_GROUPS else f"{item['kind']}.{group}"
        namespace = metadata.get("namespace")
        if namespace != install_namespace or not namespace:
            where = f"in namespace {namespace}" if namespace else "in the whole cluster"
            yield _beside(kind, "", str(metadata.get("name")), where)
        if group not in BUILT_IN_GROUPS and (group, item["kind"]) not in own:
            yield _beside("bundle", "instructs controllers of others by", kind)


def _beside(who: str, verb: str, what: str, where: str = "") -> Statement:
    return Statement(topic=Topic.SCOPE, who=who, verb=verb, what=what, where=where, severity=Severity.LOW)
