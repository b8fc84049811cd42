"""The Services that webhooks call (generator 9).

The bundle may bring such a Service itself. It is used if it serves the webhooks, with generated fields where it has
none; otherwise it conflicts with the generated one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.formats.objects import Object, drop_nulls
from controller.formats.registry_v1.bundle.service_version import ServiceVersion, StrategyDeployment, Webhook
from controller.formats.registry_v1.generators import names
from controller.formats.registry_v1.generators.certificates import Provider, annotate
from controller.formats.registry_v1.generators.kinds import name_of
from controller.untrusted import integer, mapping, mappings


def find_bundled_services(version: ServiceVersion, others: Sequence[Object]) -> dict[str, Object]:
    """Return the Services among others that serve the webhooks of a Deployment, by the name of the Deployment."""
    services = {
        name_of(item): item for item in others if (item.get("apiVersion"), item.get("kind")) == ("v1", "Service")
    }
    found = {}
    for deployment, webhooks in _serving(version):
        service = services.get(names.service_name(deployment.name))
        if service is not None and _serves(mapping(service, "spec"), deployment, webhooks):
            found[deployment.name] = service
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
        if own := bundled.get(deployment.name):
            service = {**service, **own, "spec": {**service["spec"], **drop_nulls(mapping(own, "spec"))}}
        services.append(annotate(service, provider.service_annotations(deployment.name)))
    return services


def _serving(version: ServiceVersion) -> Iterator[tuple[StrategyDeployment, Sequence[Webhook]]]:
    """Yield the Deployments that webhooks name, with these webhooks."""
    serving: defaultdict[str, list[Webhook]] = defaultdict(list)
    for webhook in version.webhooks:
        serving[webhook.deployment].append(webhook)
    for deployment in version.deployments:
        if webhooks := serving.get(deployment.name):
            yield deployment, webhooks


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


def _serves(spec: Mapping[str, Any], deployment: StrategyDeployment, webhooks: Sequence[Webhook]) -> bool:
    """Return whether a Service selects the pods and has the ports of webhooks; fields that it lacks are generated."""
    pod = mapping(deployment.spec, "template")
    labels = mapping(pod, "metadata", "labels")
    selector = spec.get("selector")
    selects = selector is None or (isinstance(selector, dict) and selector.items() <= labels.items())
    return spec.get("type") != "ExternalName" and selects and _has_ports(spec.get("ports"), pod, webhooks)


def _has_ports(ports: Any, pod: Mapping[str, Any], webhooks: Sequence[Webhook]) -> bool:
    if ports is None:
        return True
    containers = mapping(pod, "spec").get("containers", ())
    named = {each.get("name"): each.get("containerPort") for item in containers for each in item.get("ports", ())}
    served = {
        (integer(port, "port"), _resolve(port.get("targetPort") or port.get("port"), named))
        for port in mappings(ports)
        if port.get("protocol") in (None, "TCP")
    }
    return all((webhook.port, _resolve(webhook.target_port, named)) in served for webhook in webhooks)


def _resolve(target: Any, named: Mapping[Any, Any]) -> Any:
    """Return the number of a port that a container names."""
    return named.get(target, target) if isinstance(target, str) else target
