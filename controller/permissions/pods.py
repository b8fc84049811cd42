"""What pods may do to their node and to others, and which Pod Security Standard allows it.

A version of a bundle that drops `runAsNonRoot` gains a power without asking for one, so what is missing is stated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.formats.objects import find_pod_template, list_containers
from controller.permissions.statement import Severity, Statement, Topic, is_kind, name_object, shortened, texts
from controller.untrusted import mapping, mappings, text

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
Name = tuple[str, str]
"""Namespace and name."""


def find_unrestricted(spec: Mapping[str, Any], containers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each control that a pod lacks, with the name of the container; without one for its volumes."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What a bundle brings itself, by namespace and name."""

    accounts: Collection[Name]
    secrets: Collection[Name]


def find_pod_powers(objects: Iterable[Mapping[str, Any]]) -> Iterator[Statement]:
    """Yield what the pods of a bundle may do, and what its tokens, volumes and priority classes allow."""
    items = list(objects)
    brought = Brought(
        accounts={_name(item) for item in items if is_kind(item, "", "ServiceAccount")},
        secrets={_name(item) for item in items if is_kind(item, "", "Secret")},
    )
    for item in items:
        template = find_pod_template(dict(item))
        if template:
            yield from _Pod(item, template[1], brought).statements()
        yield from _around(item, brought)


def _name(item: Mapping[str, Any]) -> Name:
    metadata = mapping(item, "metadata")
    return str(metadata.get("namespace") or ""), str(metadata.get("name"))


def _around(item: Mapping[str, Any], brought: Brought) -> Iterator[Statement]:
    """Yield what objects other than workloads allow to pods."""
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
        namespace, _ = _name(item)
        account = str(mapping(item, "metadata", "annotations").get(_TOKEN_OF))
        of_others = "" if (namespace, account) in brought.accounts else _OF_OTHERS
        what = f"a token that never expires of ServiceAccount {namespace}/{account}"
        yield _power(who, what, verb="holds", where=of_others)


def _power(who: str, what: str, *, verb: str = "", where: str = "", severity: Severity = Severity.HIGH) -> Statement:
    return Statement(topic=Topic.PODS, who=who, verb=verb, what=what, where=where, severity=severity)


class _Pod:
    """The pod template of one object."""

    def __init__(self, item: Mapping[str, Any], template: Mapping[str, Any], brought: Brought) -> None:
        self._who, self._brought = name_object(item), brought
        self._namespace = _name(item)[0]
        self._notes = mapping(template, "metadata", "annotations")
        self._spec = mapping(template, "spec")
        self._context = mapping(self._spec, "securityContext")
        self._containers = [container for _, container in list_containers(self._spec, "")]
        self._volumes = {str(volume.get("name")): volume for volume in mappings(self._spec, "volumes")}

    def statements(self) -> Iterator[Statement]:
        """Yield what the pod may do."""
        for field, what in _HOST_NAMESPACES.items():
            if self._spec.get(field) is True:
                yield _power(self._who, f"the {what} of its node", verb="uses")
        yield from self._accounts()
        yield from self._volume_powers()
        yield from self._secrets()
        yield from self._priority()
        yield from self._confinement(self._context, "all containers")
        for container in self._containers:
            yield from self._container(container, f"container {shortened(str(container.get('name')))}")
        for control, name in find_unrestricted(self._spec, self._containers):
            where = f"in container {name}" if name else "in its volumes"
            yield _power(self._who, control, verb="does not restrict", where=where, severity=Severity.LOW)

    def _accounts(self) -> Iterator[Statement]:
        account = str(self._spec.get("serviceAccountName") or self._spec.get("serviceAccount") or "default")
        has_token = self._spec.get("automountServiceAccountToken") is not False
        if has_token and (self._namespace, account) not in self._brought.accounts:
            what = f"ServiceAccount {self._namespace}/{account}"
            yield _power(self._who, what, verb="runs as", where=_OF_OTHERS, severity=_importance(account))
        for volume in self._volumes.values():
            for source in mappings(volume, "projected", "sources"):
                audience = mapping(source, "serviceAccountToken").get("audience")
                if audience:
                    what = f"a token of its ServiceAccount for {audience}"
                    yield Statement(topic=Topic.CLOUD, who=self._who, verb="gets", what=what)

    def _volume_powers(self) -> Iterator[Statement]:
        writable = {name for each in self._containers for name in _writable_mounts(each)}
        for name, volume in self._volumes.items():
            path = mapping(volume, "hostPath").get("path")
            if not path:
                continue
            yield _power(self._who, f"node path {path}", verb="reads")
            if name in writable:
                yield _power(self._who, f"node path {path}", verb="writes")

    def _secrets(self) -> Iterator[Statement]:
        for name in sorted(set(self._secret_names())):
            if (self._namespace, name) not in self._brought.secrets:
                what = f"Secret {self._namespace}/{name}"
                yield _power(self._who, what, verb="reads", where=_OF_OTHERS, severity=Severity.LOW)

    def _secret_names(self) -> Iterator[str]:
        for volume in self._volumes.values():
            yield from _text(volume, "secret", "secretName")
            for source in mappings(volume, "projected", "sources"):
                yield from _text(source, "secret", "name")
        for container in self._containers:
            for source in mappings(container, "envFrom"):
                yield from _text(source, "secretRef", "name")
            for variable in mappings(container, "env"):
                reference = mapping(variable, "valueFrom", "secretKeyRef")
                yield from _text(reference, "name")

    def _priority(self) -> Iterator[Statement]:
        for name in _text(self._spec, "priorityClassName"):
            severity = Severity.HIGH if name in _CRITICAL else Severity.NORMAL
            yield _power(self._who, f"priority class {name}", verb="uses", severity=severity)

    def _container(self, container: Mapping[str, Any], where: str) -> Iterator[Statement]:
        context = mapping(container, "securityContext")
        if context.get("privileged") is True:
            yield _power(self._who, f"privileged in {where}", verb="runs")
        for name in texts(mapping(context, "capabilities").get("add")):
            severity = Severity.NORMAL if name in _COMMON_CAPABILITIES else Severity.HIGH
            yield _power(self._who, f"capability {name} in {where}", verb="has", severity=severity)
        for port in mappings(container, "ports"):
            if port.get("hostPort"):
                what = f"port {port['hostPort']}/{port.get('protocol') or 'TCP'} of its node"
                yield _power(self._who, what, verb="uses")
        if container.get("volumeDevices"):
            yield _power(self._who, f"block devices in {where}", verb="uses")
        yield from self._confinement(context, where)

    def _confinement(self, context: Mapping[str, Any], where: str) -> Iterator[Statement]:
        """Yield which security context asks for less confinement than the default."""
        if context.get("runAsUser") == 0 or context.get("runAsNonRoot") is False:
            yield _power(self._who, f"as root in {where}", verb="runs", severity=Severity.NORMAL)
        for field, what in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
            if mapping(context, field).get("type") == "Unconfined":
                yield _power(self._who, f"without {what} in {where}", verb="runs")
        if context.get("procMount") == "Unmasked":
            yield _power(self._who, f"with unmasked /proc in {where}", verb="runs")
        if mapping(context, "windowsOptions").get("hostProcess") is True:
            yield _power(self._who, f"as a process of its Windows node in {where}", verb="runs")
        for field, value in sorted(mapping(context, "seLinuxOptions").items()):
            yield _power(self._who, f"with SELinux {field} {value} in {where}", verb="runs", severity=Severity.NORMAL)
        for sysctl in mappings(context, "sysctls"):
            yield _power(self._who, f"sysctl {sysctl.get('name')}={sysctl.get('value')}", verb="sets")
        if where == "all containers":
            yield from self._unconfined_notes()

    def _unconfined_notes(self) -> Iterator[Statement]:
        for key, value in sorted(self._notes.items()):
            if value == "unconfined" and (key == _POD_SECCOMP_NOTE or key.startswith(_UNCONFINED_NOTES)):
                yield _power(self._who, f"with annotation {key}: unconfined", verb="runs")


def _importance(account: str) -> Severity:
    # Nearly every workload without rights uses the account "default".
    return Severity.LOW if account == "default" else Severity.HIGH


def _writable_mounts(container: Mapping[str, Any]) -> Iterator[str]:
    mounts = mappings(container, "volumeMounts")
    return (text(mount, "name") for mount in mounts if mount.get("readOnly") is not True)


def _text(value: Any, *path: str) -> Iterator[str]:
    if found := text(value, *path):
        yield found
