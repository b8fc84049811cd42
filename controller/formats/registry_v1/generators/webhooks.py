"""Admission webhook configurations (generators 7 and 8). `services` makes the Services that they call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.formats.objects import Object
from controller.formats.registry_v1.bundle.install_modes import ALL_NAMESPACES
from controller.formats.registry_v1.bundle.service_version import (
    MUTATING,
    VALIDATING,
    ServiceVersion,
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
) -> Iterator[Object]:
    """Yield a configuration for each validating webhook, then for each mutating one."""
    for type_ in (VALIDATING, MUTATING):
        for webhook in version.webhooks:
            if webhook.type == type_:
                made = _make_configuration(webhook, namespace, targets)
                yield annotate(made, provider.webhook_annotations(webhook.deployment, namespace))


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
