"""Certificates of webhooks: who issues them, and the objects for it (upstream's `certproviders`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from api.plugins import Capabilities
from controller.formats.objects import Object
from controller.formats.registry_v1.generators import names

CERT_MANAGER, SERVICE_CA, NONE = "cert-manager", "service-ca", "none"
PROVIDERS = (CERT_MANAGER, SERVICE_CA, NONE)
_CERT_MANAGER_API = ("cert-manager.io", "v1")
# Groups that only OpenShift serves; operators install other groups of openshift.io on any cluster.
_OPENSHIFT_GROUPS = frozenset(
    {"config.openshift.io", "operator.openshift.io", "project.openshift.io", "security.openshift.io"}
)
# cert-manager rejects longer ones.
_LONGEST_COMMON_NAME = 64


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


def _name_certificate(deployment: str, namespace: str) -> dict[str, str]:
    return {"cert-manager.io/inject-ca-from": f"{namespace}/{names.certificate_name(deployment)}"}


def _make_certificate(deployment: str, namespace: str) -> list[Object]:
    issuer, certificate = names.issuer_name(deployment), names.certificate_name(deployment)
    host = f"{names.service_name(deployment)}.{namespace}"
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
        _make_object("Issuer", issuer, namespace, {"selfSigned": {}}),
        _make_object("Certificate", certificate, namespace, spec),
    ]


def _make_object(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }


_BY_NAME: Mapping[str, Provider] = {
    CERT_MANAGER: Provider(webhook_annotations=_name_certificate, objects=_make_certificate),
    SERVICE_CA: Provider(
        webhook_annotations=lambda _deployment, _namespace: {"service.beta.openshift.io/inject-cabundle": "true"},
        service_annotations=lambda deployment: {
            "service.beta.openshift.io/serving-cert-secret-name": names.certificate_name(deployment)
        },
    ),
    NONE: Provider(certifies=False),
    "": Provider(certifies=False),
}


def provider_of(name: str) -> Provider:
    """Return a provider by its name; '' is for bundles that need none."""
    return _BY_NAME[name]


def annotate(item: Object, annotations: Mapping[str, str]) -> Object:
    """Return an object with annotations, which replace those of the same keys."""
    if not annotations:
        return item
    metadata = item["metadata"]
    return {**item, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}
