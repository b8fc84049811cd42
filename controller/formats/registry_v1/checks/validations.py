"""Validations: all problems of a bundle at once (upstream's `validator.go`, then our own).

Messages are upstream's, too, and in the order of the table.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from api import names as rukpak
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.registry_v1.bundle.bundle import Bundle
from controller.formats.registry_v1.bundle.install_modes import ALL, write_list
from controller.formats.registry_v1.bundle.service_version import CONVERSION, MUTATING, VALIDATING, Webhook
from controller.formats.registry_v1.generators.kinds import SCOPES, name_of

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


def validate(bundle: Bundle) -> None:
    """Refuse a bundle with all of its problems, one per line, as far as anybody would read.

    Raises: BundleError (InvalidBundle).
    """
    found = chain.from_iterable(check(bundle) for check in _CHECKS)
    errors = [error[:_CHARACTERS] for error in islice(found, _PROBLEMS)]
    if errors:
        raise BundleError(Reason.INVALID_BUNDLE, "\n".join(errors))


def _check_distinct_deployments(bundle: Bundle) -> Iterator[str]:
    for name in _duplicates(deployment.name for deployment in bundle.service_version.deployments):
        yield f"cluster service version contains duplicate strategy deployment spec '{name}'"


def _check_deployment_names(bundle: Bundle) -> Iterator[str]:
    for name in sorted({deployment.name for deployment in bundle.service_version.deployments}):
        if problems := _find_name_problems(name):
            yield f"invalid cluster service version strategy deployment name '{name}': {', '.join(sorted(problems))}"


def _check_distinct_definitions(bundle: Bundle) -> Iterator[str]:
    for name in _duplicates(map(name_of, bundle.definitions)):
        yield f"bundle contains duplicate custom resource definition '{name}'"


def _check_owned_definitions(bundle: Bundle) -> Iterator[str]:
    for name in sorted(set(bundle.service_version.owned_crds) - set(map(name_of, bundle.definitions))):
        yield f"cluster service definition references owned custom resource definition '{name}' not found in bundle"


def _check_package(bundle: Bundle) -> Iterator[str]:
    if not bundle.package:
        yield "package name is empty"


def _check_conversion_modes(bundle: Bundle) -> Iterator[str]:
    modes = bundle.service_version.install_modes
    for webhook in _of_type(bundle, CONVERSION) if modes != {ALL} else ():
        yield (
            f'bundle contains conversion webhook "{webhook.generate_name}" and supports install modes'
            f" {write_list(sorted(modes))} - conversion webhooks are only supported for bundles that only support"
            f" {ALL} install mode"
        )


def _check_webhook_deployments(bundle: Bundle) -> Iterator[str]:
    existing = {deployment.name for deployment in bundle.service_version.deployments}
    for deployment, type_, name in sorted(
        (webhook.deployment, webhook.type, webhook.generate_name) for webhook in bundle.service_version.webhooks
    ):
        if deployment not in existing:
            yield f"webhook of type '{type_}' with name '{name}' references non-existent deployment '{deployment}'"


def _check_distinct_webhooks(bundle: Bundle) -> Iterator[str]:
    for type_, name in _duplicates((each.type, each.generate_name) for each in bundle.service_version.webhooks):
        yield f"duplicate webhook '{name}' of type '{type_}'"


def _check_webhook_names(bundle: Bundle) -> Iterator[str]:
    for type_, name in sorted({(each.type, each.generate_name) for each in bundle.service_version.webhooks}):
        if problems := _find_name_problems(name):
            yield f"webhook of type '{type_}' has invalid name '{name}': {','.join(problems)}"


def _check_one_conversion_each(bundle: Bundle) -> Iterator[str]:
    webhooks: dict[str, list[str]] = defaultdict(list)
    for webhook in _of_type(bundle, CONVERSION):
        for crd in webhook.conversion_crds:
            webhooks[crd].append(webhook.generate_name)
    for crd, converting in sorted(webhooks.items()):
        if len(converting) > 1:
            names = write_list(sorted(converting), ",")
            yield f"conversion webhooks {names} reference same custom resource definition '{crd}'"


def _check_conversions_of_owned(bundle: Bundle) -> Iterator[str]:
    owned = set(bundle.service_version.owned_crds)
    for name, crd in sorted(
        (webhook.generate_name, crd) for webhook in _of_type(bundle, CONVERSION) for crd in webhook.conversion_crds
    ):
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


def _check_webhook_types(bundle: Bundle) -> Iterator[str]:
    known = {VALIDATING, MUTATING, CONVERSION}
    for webhook in bundle.service_version.webhooks:
        if webhook.type not in known:
            yield (
                f'webhook "{webhook.generate_name}" has unknown type "{webhook.type}";'
                f" use one of {write_list(sorted(known))}"
            )


def _check_webhook_labels(bundle: Bundle) -> Iterator[str]:
    """Report what the API server reports (admissionregistration's ValidateWebhook), before objects are applied."""
    for webhook in _of_type(bundle, VALIDATING, MUTATING):
        name = webhook.generate_name
        if not _find_name_problems(name) and name.count(".") + 1 < _LEAST_LABELS:
            yield f'webhook name "{name}" should be a domain with at least three segments separated by dots'


def _check_ports(bundle: Bundle) -> Iterator[str]:
    ports: dict[tuple[str, int], set[int | str]] = defaultdict(set)
    for webhook in bundle.service_version.webhooks:
        ports[webhook.deployment, webhook.port].add(webhook.target_port)
    for (deployment, port), targets in sorted(ports.items()):
        if len(targets) > 1:
            yield (
                f"webhooks of deployment '{deployment}' have port {port} with several target ports"
                f" {write_list(sorted(map(str, targets)))}; use one target port for each port"
            )


_CHECKS: tuple[Callable[[Bundle], Iterator[str]], ...] = (
    _check_distinct_deployments,
    _check_deployment_names,
    _check_distinct_definitions,
    _check_owned_definitions,
    _check_package,
    _check_conversion_modes,
    _check_webhook_deployments,
    _check_distinct_webhooks,
    _check_webhook_names,
    _check_one_conversion_each,
    _check_conversions_of_owned,
    _check_webhook_rules,
    _check_kinds,
    # Not in upstream, which drops the webhook or leaves it to the API server.
    _check_webhook_types,
    _check_webhook_labels,
    _check_ports,
)


def _of_type(bundle: Bundle, *types: str) -> Iterator[Webhook]:
    return (webhook for webhook in bundle.service_version.webhooks if webhook.type in types)


def _duplicates(items: Iterable[Any]) -> list[Any]:
    return sorted(item for item, number in Counter(items).items() if number > 1)


def _find_name_problems(name: str) -> list[str]:
    """Return Kubernetes' messages for a name that is not a subdomain, in its order."""
    too_long = [_TOO_LONG] if len(name.encode()) > _LONGEST else []
    return [*too_long, *([] if _IS_SUBDOMAIN(name) else [_NOT_A_SUBDOMAIN])]
