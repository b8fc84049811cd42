"""Identities outside the cluster: what ServiceAccounts and CredentialsRequests ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.permissions.statement import Severity, Statement, Topic, is_kind, name_object, shortened
from controller.untrusted import mapping, path_below

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
    """Yield each value with its path; the actions of one statement stay together with its resource."""
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
