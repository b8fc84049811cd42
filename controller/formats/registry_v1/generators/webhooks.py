"""Admission webhook configurations, and the Services that they call (generators 7 to 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.formats.objects import Object
from controller.formats.registry_v1.bundle.install_modes import ALL_NAMESPACES
from controller.formats.registry_v1.bundle.service_version import (
    MUTATING,
    VALIDATING,
    ServiceVersion,
    StrategyDeployment,
    Webhook,
)
from controller.formats.registry_v1.generators import names
from controller.formats.registry_v1.generators.certificates import Provider, annotate

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


def make_webhook_configurations(
    version: ServiceVersion, namespace: str, targets: Sequence[str], provider: Provider
) -> list[Object]:
    """Return a configuration for each validating webhook, then for each mutating one."""
    return [
        annotate(
            _make_configuration(webhook, namespace, targets),
            provider.webhook_annotations(webhook.deployment, namespace),
        )
        for type_ in (VALIDATING, MUTATING)
        for webhook in version.webhooks
        if webhook.type == type_
    ]


def make_webhook_services(version: ServiceVersion, namespace: str, provider: Provider) -> list[Object]:
    """Return a Service for each Deployment that webhooks name, including conversion webhooks."""
    services = []
    for deployment in version.deployments:
        webhooks = [webhook for webhook in version.webhooks if webhook.deployment == deployment.name]
        if webhooks:
            service = _make_service(deployment, webhooks, namespace)
            services.append(annotate(service, provider.service_annotations(deployment.name)))
    return services


def _make_configuration(webhook: Webhook, namespace: str, targets: Sequence[str]) -> Object:
    path = {} if webhook.path is None else {"path": webhook.path}
    service = {"namespace": namespace, "name": names.service_name(webhook.deployment), **path, "port": webhook.port}
    entry = {
        "name": webhook.generate_name,
        "clientConfig": {"service": service},
        **{field: webhook.definition[field] for field in _FIELDS[webhook.type] if field in webhook.definition},
        **_select_namespaces(targets),
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": _KINDS[webhook.type],
        "metadata": {"name": webhook.generate_name},
        "webhooks": [entry],
    }


def _select_namespaces(targets: Sequence[str]) -> dict[str, Any]:
    if tuple(targets) == ALL_NAMESPACES:
        return {}
    expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(targets)}
    return {"namespaceSelector": {"matchExpressions": [expression]}}


def _make_service(deployment: StrategyDeployment, webhooks: Sequence[Webhook], namespace: str) -> Object:
    ports = sorted({(webhook.port, webhook.target_port) for webhook in webhooks}, key=_order_port)
    selector = (deployment.spec.get("selector") or {}).get("matchLabels")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": names.service_name(deployment.name), "namespace": namespace},
        "spec": {
            "ports": [{"name": str(port), "port": port, "targetPort": target} for port, target in ports],
            **({"selector": selector} if selector else {}),
        },
    }


def _order_port(port: tuple[int, int | str]) -> tuple[int, int, str]:
    number, target = port
    return number, target if isinstance(target, int) else 0, str(target)
