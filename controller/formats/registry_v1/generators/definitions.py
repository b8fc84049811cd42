"""CustomResourceDefinitions, with conversion webhooks of the bundle (generator 4)."""

from __future__ import annotations

from collections.abc import Sequence

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.objects import Object
from controller.formats.registry_v1.bundle.service_version import CONVERSION, Webhook
from controller.formats.registry_v1.generators import names
from controller.formats.registry_v1.generators.certificates import Provider, annotate
from controller.untrusted import mapping


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
    service = {
        "namespace": namespace,
        "name": names.service_name(webhook.deployment),
        "path": "/" if webhook.path is None else webhook.path,
        "port": webhook.port,
    }
    versions = webhook.definition.get("admissionReviewVersions")
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": service},
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
