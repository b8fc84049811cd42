"""The steps in order: read, gates, config, validations, the ten generators.

Pure: equal requests give equal renderings. Objects are in upstream's order, which is not the order of applying.

A bundle is refused by gates, then by validations, all problems at once (upstream's `provider.go`, `validator.go`).
Messages are upstream's, too, and in the order of the table; then follow our own. Requirements of a bundle are not
resolved: those that are not met cause warnings, never failures.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from rukpak.api import names as rukpak
from rukpak.api.bounds import read_count
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities, ContentTree, Rendering, RenderRequest
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.manifests import TextBudget
from rukpak.controller.formats.objects import Object, ObjectKey, find_identity_problem, identify, refuse
from rukpak.controller.formats.registry_v1.bundle import (
    ALL,
    CONVERSION,
    MULTI,
    MUTATING,
    OWN,
    SINGLE,
    VALIDATING,
    Api,
    Bundle,
    ServiceVersion,
    Webhook,
    find_bundle,
    read_bundle,
    read_template,
    suggest_namespace,
    write_list,
)
from rukpak.controller.formats.registry_v1.config import Options, check_additions, configure, read_options
from rukpak.controller.formats.registry_v1.generators import (
    PROVIDERS,
    SCOPES,
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
    name_of,
    place,
)
from rukpak.controller.untrusted import mapping

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
        return suggest_namespace(find_bundle(tree))

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects of the bundle.

        Raises: BundleError (NoContent, InvalidBundle, NotSupported, InvalidConfig; RenderLimitExceeded),
            LargeTextError.
        """
        bundle = read_bundle(find_bundle(request.tree), TextBudget.of(request.means))
        version, capabilities = bundle.service_version, request.capabilities
        provider_name = mapping(request.config).get("certificateProvider") or choose_provider(capabilities)
        check_gates(version, capabilities, has_provider=bool(provider_name))
        options = read_options(request.config, version.install_modes, request.install_namespace)
        validate(bundle)
        accounts = make_service_accounts(version, request.install_namespace)
        provider = PROVIDERS[provider_name]
        generated = _charged(_generate(bundle, options, provider, request), TextBudget.of(request.means))
        objects = _merge_duplicates(accounts, generated)
        marks, unread = read_template(version.annotations)
        conversions = find_unnamed_conversions(bundle.definitions, version.webhooks)
        found = (*bundle.warnings, *find_version_warnings(version), *unread)
        warnings = (*found, *conversions, *find_unmet(bundle, capabilities))
        return Rendering(objects=objects, warnings=warnings, namespace=marks, bundle=version.name)


def _generate(bundle: Bundle, options: Options, provider: Provider, request: RenderRequest) -> Iterator[Object]:
    version, namespace, targets = bundle.service_version, request.install_namespace, options.targets
    serving = frozenset(webhook.deployment for webhook in version.webhooks)
    yield from make_roles(version, namespace, targets)
    yield from make_cluster_roles(version, namespace, targets)
    yield from convert_definitions(bundle.definitions, version.webhooks, namespace, provider)
    others = [place(item, namespace, request.capabilities) for item in bundle.others]
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
    for name in (deployment["name"] for deployment in version.deployments if deployment["name"] in serving):
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
    first: dict[ObjectKey, Object] = {}
    problems = []
    for item in candidates:
        identity = identify(item)
        if first.setdefault(identity, item) != item:
            problems.append(f"{identity}: the bundle contains two different objects with this name; rename one")
    refuse(problems)
    return [item for item in accounts if identify(item) not in first] + list(first.values())


_APIS = frozenset({"olm.gvk", "olm.gvk.required"})
_REQUIRING_PROPERTIES = frozenset({"olm.gvk.required", "olm.package.required", "olm.constraint"})
# apimachinery, pkg/util/validation: IsDNS1123Subdomain and its messages.
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_IS_SUBDOMAIN = re.compile(_SUBDOMAIN + r"\Z", re.ASCII).match
_NOT_A_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LONGEST = 253
_TOO_LONG = f"must be no more than {_LONGEST} characters"
_LEAST_LABELS = 3
_PROBLEMS, _CHARACTERS = 200, 1000
"""Problems that are told, and the length of one: those of all pairs of two lists would be many."""
# A webhook for these could prevent the controller from deleting it.
_FORBIDDEN_GROUPS = frozenset({"*", "olm.operatorframework.io", rukpak.GROUP})
_ADMISSION_GROUP = "admissionregistration.k8s.io"
_FORBIDDEN_RESOURCES = frozenset(
    {
        "*",
        "mutatingwebhookconfiguration",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "validatingwebhookconfigurations",
    }
)
_LARGEST = 10**9
_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?:[-+].*)?\Z").match


def find_unmet(bundle: Bundle, capabilities: Capabilities) -> list[str]:
    """Return a warning for each required API that is not served, and one for requirements that are not checked."""
    needed = [
        *bundle.dependencies,
        *(item for item in bundle.properties if item["type"] in _REQUIRING_PROPERTIES),
    ]
    apis = [*bundle.service_version.required_apis, *_apis(needed)]
    unmet = [
        f"bundle requires {_write(api)}, which the cluster does not serve; install its API"
        for api in dict.fromkeys(apis)
        if not _is_served(api, capabilities)
    ]
    unchecked = sorted({item["type"] for item in needed if item["type"] not in _APIS})
    if unchecked:
        unmet.append(
            f"bundle has dependencies that are not checked: {', '.join(unchecked)}; make sure that they are met"
        )
    return unmet


def _apis(needed: list[Mapping[str, Any]]) -> Iterator[Api]:
    for item in needed:
        if item["type"] in _APIS:
            value = mapping(item, "value")
            yield Api(**{key: str(value.get(key) or "") for key in ("group", "version", "kind")})


def _is_served(api: Api, capabilities: Capabilities) -> bool:
    # A CSV may omit the version.
    if api.group in capabilities.unknown:
        return True
    if api.version:
        return api in capabilities.kinds
    return capabilities.is_namespaced(api.group, api.kind) is not None


def _write(api: Api) -> str:
    return f"{'/'.join(part for part in (api.group, api.version) if part)} {api.kind}"


def validate(bundle: Bundle) -> None:
    """Refuse a bundle with all of its problems, one per line, as far as anybody would read.

    Raises: BundleError (InvalidBundle).
    """
    found = chain.from_iterable(check(bundle) for check in _CHECKS)
    errors = [error[:_CHARACTERS] for error in islice(found, _PROBLEMS)]
    if errors:
        raise BundleError(Reason.INVALID_BUNDLE, "\n".join(errors))


def _check_content(bundle: Bundle) -> Iterator[str]:
    version = bundle.service_version
    deployments = [deployment["name"] for deployment in version.deployments]
    definitions = list(map(name_of, bundle.definitions))
    for name in _duplicates(deployments):
        yield f"cluster service version contains duplicate strategy deployment spec '{name}'"
    for name in sorted(set(deployments)):
        if problems := _find_name_problems(name):
            yield f"invalid cluster service version strategy deployment name '{name}': {', '.join(sorted(problems))}"
    for name in _duplicates(definitions):
        yield f"bundle contains duplicate custom resource definition '{name}'"
    for name in sorted(set(version.owned_crds) - set(definitions)):
        yield f"cluster service definition references owned custom resource definition '{name}' not found in bundle"
    if not bundle.package:
        yield "package name is empty"


def _check_webhooks(bundle: Bundle) -> Iterator[str]:
    version = bundle.service_version
    for webhook in _of_type(bundle, CONVERSION) if version.install_modes != {ALL} else ():
        yield (
            f'bundle contains conversion webhook "{webhook.generate_name}" and supports install modes'
            f" {write_list(sorted(version.install_modes))} - conversion webhooks are only supported for bundles that"
            f" only support {ALL} install mode"
        )
    existing = {deployment["name"] for deployment in version.deployments}
    for deployment, type_, name in sorted(
        (webhook.deployment, webhook.type, webhook.generate_name) for webhook in version.webhooks
    ):
        if deployment not in existing:
            yield f"webhook of type '{type_}' with name '{name}' references non-existent deployment '{deployment}'"
    named = [(webhook.type, webhook.generate_name) for webhook in version.webhooks]
    for type_, name in _duplicates(named):
        yield f"duplicate webhook '{name}' of type '{type_}'"
    for type_, name in sorted(set(named)):
        if problems := _find_name_problems(name):
            yield f"webhook of type '{type_}' has invalid name '{name}': {','.join(problems)}"


def _check_conversions(bundle: Bundle) -> Iterator[str]:
    pairs = sorted(
        (webhook.generate_name, crd) for webhook in _of_type(bundle, CONVERSION) for crd in webhook.conversion_crds
    )
    webhooks: dict[str, list[str]] = defaultdict(list)
    for name, crd in pairs:
        webhooks[crd].append(name)
    for crd, converting in sorted(webhooks.items()):
        if len(converting) > 1:
            yield f"conversion webhooks {write_list(converting, ',')} reference same custom resource definition '{crd}'"
    owned = set(bundle.service_version.owned_crds)
    for name, crd in pairs:
        if crd not in owned:
            yield f"conversion webhook '{name}' references custom resource definition '{crd}' not owned bundle"


def _check_webhook_rules(bundle: Bundle) -> Iterator[str]:
    for webhook in _of_type(bundle, VALIDATING, MUTATING):
        for rule in webhook.definition.get("rules", ()):
            for problem in _find_forbidden(rule):
                yield (
                    f'webhook "{webhook.generate_name}" contains forbidden rule: admission webhook rules cannot'
                    f" reference {problem}"
                )


def _find_forbidden(rule: dict[str, Any]) -> Iterator[str]:
    for group in rule.get("apiGroups", ()):
        if group in _FORBIDDEN_GROUPS:
            yield f'API group "{group}"'
        if group == _ADMISSION_GROUP:
            for resource in rule.get("resources", ()):
                if resource.lower() in _FORBIDDEN_RESOURCES:
                    yield f'resource "{resource}" for API group "{group}"'


def _check_kinds(bundle: Bundle) -> Iterator[str]:
    for item in bundle.others:
        if item["kind"] not in SCOPES:
            yield f'unsupported resource "{name_of(item)}" with kind "{item["kind"]}"'


def _check_beyond_upstream(bundle: Bundle) -> Iterator[str]:
    # Upstream drops such a webhook, or leaves it to the API server.
    webhooks, known = bundle.service_version.webhooks, {VALIDATING, MUTATING, CONVERSION}
    for webhook in webhooks:
        if webhook.type not in known:
            yield (
                f'webhook "{webhook.generate_name}" has unknown type "{webhook.type}";'
                f" use one of {write_list(sorted(known))}"
            )
    # As admissionregistration's ValidateWebhook, before objects are applied.
    for webhook in _of_type(bundle, VALIDATING, MUTATING):
        name = webhook.generate_name
        if not _find_name_problems(name) and name.count(".") + 1 < _LEAST_LABELS:
            yield f'webhook name "{name}" should be a domain with at least three segments separated by dots'
    ports: dict[tuple[str, int], set[int | str]] = defaultdict(set)
    for webhook in webhooks:
        ports[webhook.deployment, webhook.port].add(webhook.target_port)
    for (deployment, port), targets in sorted(ports.items()):
        if len(targets) > 1:
            yield (
                f"webhooks of deployment '{deployment}' have port {port} with several target ports"
                f" {write_list(sorted(map(str, targets)))}; use one target port for each port"
            )


_CHECKS: tuple[Callable[[Bundle], Iterator[str]], ...] = (
    _check_content,
    _check_webhooks,
    _check_conversions,
    _check_webhook_rules,
    _check_kinds,
    _check_beyond_upstream,
)


def _of_type(bundle: Bundle, *types: str) -> Iterator[Webhook]:
    return (webhook for webhook in bundle.service_version.webhooks if webhook.type in types)


def _duplicates(items: Iterable[Any]) -> list[Any]:
    return sorted(item for item, number in Counter(items).items() if number > 1)


def _find_name_problems(name: str) -> list[str]:
    too_long = [_TOO_LONG] if len(name.encode()) > _LONGEST else []
    return [*too_long, *([] if _IS_SUBDOMAIN(name) else [_NOT_A_SUBDOMAIN])]


def check_gates(version: ServiceVersion, capabilities: Capabilities, *, has_provider: bool) -> None:
    """Refuse a bundle that is not supported, with the first reason.

    Raises: BundleError (NotSupported).
    """
    if version.owns_api_services:
        raise _unsupported("unsupported bundle: apiServiceDefintions are not supported")
    if version.webhooks and not has_provider:
        raise _unsupported(
            "spec.config.certificateProvider: the webhooks of this bundle need certificates, which the cluster does not"
            ' issue; install cert-manager, or set it to "none" and bring your own'
            " (controller/formats/registry_v1/README.md)"
        )
    if version.install_modes.isdisjoint((ALL, MULTI, OWN, SINGLE)):
        # Upstream's message, although MultiNamespace is supported here.
        raise _unsupported(
            f"unsupported bundle: bundle must support at least one of [{ALL} {SINGLE} {OWN}] install modes"
        )
    needed, served = _parse(version.minimum_kubernetes), _parse(capabilities.kubernetes_version)
    if needed and served and needed > served:
        raise _unsupported(
            f"bundle requires Kubernetes {_write_version(needed)} or later (minKubeVersion), but the cluster runs"
            f" {_write_version(served)}; upgrade the cluster"
        )


def find_version_warnings(version: ServiceVersion) -> list[str]:
    """Return a warning if `minKubeVersion` is not a version."""
    text = version.minimum_kubernetes
    return [f'spec.minKubeVersion: ignored because "{text}" is not a version'] if text and not _parse(text) else []


def _parse(text: str) -> tuple[int, ...]:
    match = _VERSION(text.strip())
    return tuple(read_count(part or "0", _LARGEST) or 0 for part in match.groups()) if match else ()


def _write_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _unsupported(message: str) -> BundleError:
    return BundleError(Reason.NOT_SUPPORTED, message)
