"""Webhooks, aggregated APIs and admission policies: which requests of others they see, change or refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from controller.content.digests import digest_of_json
from controller.permissions.statement import Severity, Statement, Topic, is_kind, name_object, shortened, texts
from controller.untrusted import mapping, mappings

ADMISSION = "admissionregistration.k8s.io"
MAX_RESOURCES = 2_000
"""Of one rule, times its operations; a rule that is larger is stated as a whole."""
MAX_REQUESTS = 20_000
"""Statements about the rules of one bundle."""
_WEBHOOKS = {"MutatingWebhookConfiguration": "may change", "ValidatingWebhookConfiguration": "may refuse"}
_POLICIES = {"MutatingAdmissionPolicy": "may change", "ValidatingAdmissionPolicy": "may refuse"}
_OF_RULES = (*_WEBHOOKS, *_POLICIES)
_BINDINGS = ("MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding")
# Whoever sees or changes these gets what is in them, or acts with the ServiceAccounts of pods.
_SENSITIVE = frozenset({"*", "*/*", "secrets", "pods", "pods/*", "serviceaccounts/token"})


def find_all_requests(items: Iterable[Mapping[str, Any]]) -> Iterator[Statement]:
    """Yield what a bundle has to do with requests of others. With very many, resources are summed up by a digest."""
    found = list(items)
    most = MAX_RESOURCES if sum(map(_count, found)) <= MAX_REQUESTS else 0
    return (statement for item in found for statement in find_requests(item, most))


def _count(item: Mapping[str, Any]) -> int:
    """Return how many statements the rules of an object give, if those of one are not too many to list."""
    rules = [rule for webhook in mappings(item, "webhooks") for rule in mappings(webhook, "rules")]
    rules += mappings(item, "spec", "matchConstraints", "resourceRules")
    is_concerned = is_kind(item, ADMISSION, *_OF_RULES)
    return sum(min(_count_resources(rule), MAX_RESOURCES) for rule in rules) if is_concerned else 0


def find_requests(item: Mapping[str, Any], most: int = MAX_RESOURCES) -> Iterator[Statement]:
    """Yield which requests of others an object sees, changes or refuses."""
    if is_kind(item, ADMISSION, *_WEBHOOKS):
        for webhook in mappings(item, "webhooks"):
            yield from _webhook(item, webhook, most)
    elif is_kind(item, ADMISSION, *_POLICIES):
        yield from _policy(item, most)
    elif is_kind(item, ADMISSION, *_BINDINGS):
        yield _binding(item)
    elif is_kind(item, "apiregistration.k8s.io", "APIService"):
        yield from _api_service(item)
    elif is_kind(item, "apiextensions.k8s.io", "CustomResourceDefinition"):
        yield from _definition(item)


def _webhook(item: Mapping[str, Any], webhook: Mapping[str, Any], most: int) -> Iterator[Statement]:
    server, is_external = _server(mapping(webhook, "clientConfig"))
    where = [f"by {server}", f"failurePolicy {webhook.get('failurePolicy') or 'Fail'}", _selected(webhook)]
    for statement in _rules(item, webhook.get("rules"), _WEBHOOKS[item["kind"]], ", ".join(where), most=most):
        yield replace(statement, severity=Severity.HIGH) if is_external else statement


def _policy(item: Mapping[str, Any], most: int) -> Iterator[Statement]:
    spec = mapping(item, "spec")
    constraints = mapping(spec, "matchConstraints")
    where = f"where it is bound, {_selected({**constraints, 'matchConditions': spec.get('matchConditions')})}"
    yield from _rules(item, constraints.get("resourceRules"), _POLICIES[item["kind"]], where, said=spec, most=most)


def _binding(item: Mapping[str, Any]) -> Statement:
    spec = mapping(item, "spec")
    actions = f" ({', '.join(texts(spec.get('validationActions')))})" if spec.get("validationActions") else ""
    return Statement(
        topic=Topic.REQUESTS,
        who=name_object(item),
        verb="enforces",
        what=f"policy {spec.get('policyName')}{actions}",
        where=_selected(mapping(spec, "matchResources")),
        right=("binding", digest_of_json(spec), "", ""),
    )


def _rules(
    item: Mapping[str, Any], rules: Any, does: str, where: str, *, most: int, said: Mapping[str, Any] | None = None
) -> Iterator[Statement]:
    content, where = digest_of_json(said) if said else "", shortened(where)
    for rule in mappings(rules):
        scope = shortened(str(rule.get("scope") or "*"))
        place = where if scope == "*" else f"{where}, scope {scope}"
        for operation, what, is_sensitive in _split(rule, most):
            yield Statement(
                topic=Topic.REQUESTS,
                who=name_object(item),
                verb=operation,
                what=what,
                where=place,
                right=("requests", does, content, ""),
                mark=does,
                severity=Severity.HIGH if is_sensitive else Severity.NORMAL,
            )


def _split(rule: Mapping[str, Any], most: int) -> Iterator[tuple[str, str, bool]]:
    """Yield each operation with each resource of a rule, and whether that is sensitive."""
    if _count_resources(rule) > most:
        yield "all operations", f"resources too many to list ({digest_of_json(rule)[:19]})", True
        return
    for operation, group, version, resource, name in product(*_lists(rule)):
        text = f"{resource}{group and f'.{group}'}{'' if version == '*' else f' at {version}'}"
        is_sensitive = group in ("", "*") and resource in _SENSITIVE
        yield operation, f'{text} "{name}"' if name else text, is_sensitive


def _lists(rule: Mapping[str, Any]) -> list[list[str]]:
    """Return the lists of a rule, all combinations of which it matches."""
    *lists, names = (
        texts(rule.get(field)) for field in ("operations", "apiGroups", "apiVersions", "resources", "resourceNames")
    )
    return [*lists, names or [""]]


def _count_resources(rule: Mapping[str, Any]) -> int:
    return math.prod(map(len, _lists(rule)))


def _selected(value: Mapping[str, Any]) -> str:
    """Return which objects are selected, with every selector and condition in it."""
    fields = ("namespaceSelector", "objectSelector", "matchConditions", "excludeResourceRules")
    parts = [f"{field} {_json(value[field])}" for field in fields if value.get(field)]
    return shortened(f"with {', '.join(parts)}") if parts else "in all namespaces"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _server(config: Mapping[str, Any]) -> tuple[str, bool]:
    """Return who answers for a client config, and whether that is a URL."""
    if config.get("url"):
        return str(config["url"]), True
    service = mapping(config, "service")
    return f"Service {service.get('namespace')}/{service.get('name')}", False


def _api_service(item: Mapping[str, Any]) -> Iterator[Statement]:
    spec = mapping(item, "spec")
    if not spec.get("service"):
        return
    server, _ = _server({"service": spec["service"]})
    yield _served(item, f"the API {spec.get('group')}/{spec.get('version')} by {server}")
    if spec.get("insecureSkipTLSVerify") is True:
        yield _served(item, f"{server} without checking its certificate", verb="trusts")


def _served(item: Mapping[str, Any], what: str, verb: str = "serves") -> Statement:
    return Statement(topic=Topic.REQUESTS, who=name_object(item), verb=verb, what=what, severity=Severity.HIGH)


def _definition(item: Mapping[str, Any]) -> Iterator[Statement]:
    conversion = mapping(item, "spec", "conversion")
    if conversion.get("strategy") == "Webhook":
        webhook = mapping(conversion, "webhook")
        server, is_external = _server(mapping(webhook, "clientConfig"))
        yield Statement(
            topic=Topic.REQUESTS,
            who=name_object(item),
            verb="converts",
            what=f"all its objects by {server}",
            severity=Severity.HIGH if is_external else Severity.NORMAL,
        )
