"""Which rights amount to cluster-admin, and which others need attention.

From "Role Based Access Control Good Practices" of Kubernetes. Who may start pods in kube-system, or take over those
that run there, acts with the ServiceAccounts of that namespace.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.permissions.statement import EVERYWHERE, WHERE_BOUND, Severity

ADMIN = "amounts to cluster-admin"
ADMIN_IF_BOUND = "amounts to cluster-admin if bound in all namespaces"
SECRETS = "reads every Secret"
WILDCARD = "wildcard"
SYSTEM_NAMESPACE = "in namespace kube-system"

_WRITE = ("create", "patch", "update")
_READ = ("get", "list", "watch")
_POWERFUL_NAMES = frozenset({"cluster-admin", "system:masters", "admin", "edit", "kubernetes.io/*"})
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_CERTIFICATES = "certificates.k8s.io"


class _Danger(NamedTuple):
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    mark: str = ADMIN
    even_named: bool = False
    """Whether it is as dangerous for a single object."""


_DANGERS = (
    _Danger(_RBAC, ("clusterroles", "roles"), ("escalate",), even_named=True),
    _Danger(_RBAC, ("clusterroles", "roles"), ("bind",)),
    _Danger("", ("users", "groups", "serviceaccounts"), ("impersonate",)),
    _Danger("", ("serviceaccounts/token",), ("create",)),
    _Danger("", ("pods", "replicationcontrollers"), _WRITE),
    _Danger("", ("pods/exec", "pods/attach"), ("create", "get")),
    _Danger("", ("pods/ephemeralcontainers",), ("patch", "update")),
    _Danger("", ("nodes/proxy",), ("create", "get"), even_named=True),
    _Danger("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), _WRITE),
    _Danger("batch", ("cronjobs", "jobs"), _WRITE),
    _Danger(_ADMISSION, ("mutatingwebhookconfigurations", "mutatingadmissionpolicies"), _WRITE, even_named=True),
    _Danger(_CERTIFICATES, ("signers",), ("approve", "sign")),
    _Danger("", ("secrets",), _READ, SECRETS),
    _Danger(_ADMISSION, ("validatingwebhookconfigurations",), _WRITE, "may see every request that writes", True),
    _Danger("", ("persistentvolumes",), ("create",), "may reach the file systems of nodes"),
    _Danger("apiregistration.k8s.io", ("apiservices",), _WRITE, "may answer for other APIs", True),
)


class Judgement(NamedTuple):
    """Why a right needs attention, and how much."""

    mark: str
    severity: Severity


def judge(right: tuple[str, ...], verb: str, where: str) -> Judgement:
    """Return why a right needs attention: its group, resource and name, or its path; with an empty mark if not."""
    if len(right) == 1:
        return Judgement(WILDCARD, Severity.NORMAL) if right[0] == "*" or verb == "*" else _ORDINARY
    if where in (EVERYWHERE, SYSTEM_NAMESPACE, WHERE_BOUND):
        danger = next((each for each in _DANGERS if _is(right, verb, each)), None)
        if danger:
            return _grade(danger.mark, where)
    group, resource, _ = right
    if (group, resource) == ("*", "*"):
        return Judgement(WILDCARD, Severity.HIGH)
    return Judgement(WILDCARD, Severity.NORMAL) if "*" in (group, verb, *resource.split("/")) else _ORDINARY


_ORDINARY = Judgement("", Severity.NORMAL)


def _is(right: tuple[str, ...], verb: str, danger: _Danger) -> bool:
    group, resource, name = right
    return (
        group in ("*", danger.group)
        and verb in ("*", *danger.verbs)
        and any(matches_resource(resource, each) for each in danger.resources)
        and (not name or danger.even_named or name in _POWERFUL_NAMES)
    )


def matches_resource(pattern: str, resource: str) -> bool:
    """Return whether the resource of a rule includes a resource: itself, all, or all with its subresource."""
    _, slash, subresource = resource.partition("/")
    return pattern in ("*", resource) or (bool(slash) and pattern == f"*/{subresource}")


def _grade(mark: str, where: str) -> Judgement:
    if mark != ADMIN:
        in_one = mark == SECRETS and where == SYSTEM_NAMESPACE
        return Judgement("reads the Secrets of the control plane" if in_one else mark, Severity.HIGH)
    if where == WHERE_BOUND:
        return Judgement(ADMIN_IF_BOUND, Severity.HIGH)
    return Judgement(ADMIN, Severity.ADMIN)
