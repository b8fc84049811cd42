"""The steps in order: read, gates, config, validations, the ten generators.

Pure: equal requests give equal renderings. Objects are in upstream's order, which is not the order of applying.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from api.plugins import ContentTree, Rendering, RenderRequest
from controller.formats.budget import TextBudget
from controller.formats.objects import Identity, Object, find_identity_problem, identify, refuse
from controller.formats.registry_v1.bundle.bundle import (
    Bundle,
    find_layout,
    read_bundle,
    read_namespace_hints,
    read_template,
    suggest_name,
)
from controller.formats.registry_v1.checks import check_gates, find_unmet, find_version_warnings, validate
from controller.formats.registry_v1.config import Options, check_additions, configure, read_options
from controller.formats.registry_v1.generators import (
    Provider,
    check_annotations,
    choose_provider,
    convert_definitions,
    find_bundled_services,
    find_unnamed_conversions,
    make_cluster_roles,
    make_deployments,
    make_roles,
    make_service_accounts,
    make_webhook_configurations,
    make_webhook_services,
    place_others,
    provider_of,
)
from controller.untrusted import mapping

_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class RegistryV1Format:
    """Renders OLM bundles."""

    reads_part = True

    def validate(self, config: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - the contract of Format
        """Return nothing: the valid options depend on the install modes of the bundle, so `render` checks them."""
        return []

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:  # noqa: ARG002 - see above
        """Return the namespace that the CSV suggests, by default one named after the package.

        Raises: BundleError (NoContent, InvalidBundle; RenderLimitExceeded).
        """
        package, annotations = read_namespace_hints(find_layout(tree))
        return suggest_name(package, annotations)

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects of the bundle.

        Raises: BundleError (NoContent, InvalidBundle, NotSupported, InvalidConfig; RenderLimitExceeded),
            LargeTextError.
        """
        bundle = read_bundle(find_layout(request.tree), TextBudget.of(request.means))
        version, capabilities = bundle.service_version, request.capabilities
        provider_name = mapping(request.config).get("certificateProvider") or choose_provider(capabilities)
        check_gates(version, capabilities, has_provider=bool(provider_name))
        options = read_options(request.config, version.install_modes, request.install_namespace)
        validate(bundle)
        provider = provider_of(provider_name)
        accounts = make_service_accounts(version, request.install_namespace)
        generated = _charged(_generate(bundle, options, provider, request), TextBudget.of(request.means))
        objects = _merge_duplicates(accounts, generated)
        marks, unread = read_template(version.annotations)
        conversions = find_unnamed_conversions(bundle.definitions, version.webhooks)
        found = (*bundle.warnings, *find_version_warnings(version), *unread)
        warnings = (*found, *conversions, *find_unmet(bundle, capabilities))
        return Rendering(objects=objects, warnings=warnings, namespace=marks)


def _generate(bundle: Bundle, options: Options, provider: Provider, request: RenderRequest) -> Iterator[Object]:
    version, namespace, targets = bundle.service_version, request.install_namespace, options.targets
    serving = frozenset(webhook.deployment for webhook in version.webhooks)
    for target in targets:
        yield from make_roles(version, namespace, (target,))
    yield from make_cluster_roles(version, namespace, targets)
    yield from convert_definitions(bundle.definitions, version.webhooks, namespace, provider)
    others = place_others(bundle.others, namespace, request.capabilities.is_namespaced)
    services = find_bundled_services(version, others)
    replaced = set(map(id, services.values()))
    yield from (item for item in others if id(item) not in replaced)
    for deployment in make_deployments(version, namespace, targets, serving if provider.certifies else frozenset()):
        check_additions(deployment, options.deployment)
        configured = configure(deployment, options.deployment)
        check_annotations(configured)
        yield configured
    yield from make_webhook_configurations(version, namespace, targets, provider)
    yield from make_webhook_services(version, namespace, provider, services)
    for name in (deployment.name for deployment in version.deployments if deployment.name in serving):
        yield from provider.objects(name, namespace)


def _charged(objects: Iterable[Object], budget: TextBudget) -> Iterator[Object]:
    """Yield objects as long as there is room for their text: a CSV makes many of few lists that are combined.

    Raises: BundleError (RenderLimitExceeded); LargeTextError.
    """
    for item in objects:
        budget.charge_text(len(_ENCODE(item)), "the objects of the CSV", is_manifest=False)
        yield item


def _merge_duplicates(accounts: Sequence[Object], objects: Iterable[Object]) -> list[Object]:
    """Return the generated accounts, then the objects; of equal objects, and of accounts that objects replace, one.

    Raises: BundleError (InvalidBundle) for objects that share an identity and differ, or have none.
    """
    candidates = list(objects)
    refuse(f"{item.get('kind')} {problem}" for item in candidates if (problem := find_identity_problem(item)))
    first: dict[Identity, Object] = {}
    problems = []
    for item in candidates:
        identity = identify(item)
        if first.setdefault(identity, item) != item:
            problems.append(f"{identity}: the bundle contains two different objects with this name; rename one")
    refuse(problems)
    return [item for item in accounts if identify(item) not in first] + list(first.values())
