"""Which objects the target of a patch selects, also by label selectors as `kubectl get --selector` takes them.

See labels.Parse of k8s.io/apimachinery.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from api.plugins import ProcessRequest
from controller.formats.applicable import scopes_of_crds
from controller.formats.objects import Object, group_of
from controller.untrusted import mapping

Selector: TypeAlias = Callable[[Mapping[str, str]], bool]
_KEY = r"(?P<key>(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EXISTS = re.compile(rf"(?P<not>!)?\s*{_KEY}").fullmatch
_EQUALS = re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=)\s*(?P<value>{_VALUE})").fullmatch
_IN = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)").fullmatch
# Commas between requirements, not those between the values of one.
_COMMA = re.compile(r",(?![^()]*\))")
_ANY_LABELS = "labelSelector"


def parse_selector(text: str) -> Selector:
    """Return a function that tells whether labels match the selector.

    Raises: ValueError with the requirement that is malformed.
    """
    requirements = [_parse_requirement(part.strip()) for part in _COMMA.split(text)]
    return lambda labels: all(matches(labels) for matches in requirements)


def _parse_requirement(text: str) -> Selector:
    if found := _EXISTS(text):
        key, wanted = found["key"], not found["not"]
        return lambda labels: (key in labels) is wanted
    if found := _EQUALS(text):
        return _one_of(found["key"], frozenset({found["value"]}), excluded=found["operator"] == "!=")
    if found := _IN(text):
        values = frozenset(value.strip() for value in found["values"].split(","))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return _one_of(found["key"], values, excluded=found["operator"] == "notin")
    raise ValueError(f'"{text}" is not a requirement; write it like app=web, tier!=cache, app in (a, b), app or !app')


def _one_of(key: str, values: frozenset[str], *, excluded: bool) -> Selector:
    """Return the selector of a label with one of the values or, if these are excluded, with another one or none."""
    if excluded:
        return lambda labels: key not in labels or labels[key] not in values
    return lambda labels: key in labels and labels[key] in values


class Target:
    """Selects the objects of a request; its selector must be valid.

    An object without a namespace is in the install namespace unless its kind is cluster-scoped.
    """

    def __init__(self, target: Mapping[str, Any], request: ProcessRequest) -> None:
        self._target, self._request = target, request
        selector = target.get(_ANY_LABELS)
        self._selects = parse_selector(selector) if selector else None
        self._scopes = scopes_of_crds(request.rendering.objects)

    def selects(self, item: Object) -> bool:
        """Return whether an object with a valid identity matches all fields of the target."""
        wanted = self._target
        metadata = item["metadata"]
        found = {"group": group_of(item), "kind": item["kind"], "name": metadata["name"]}
        if any(wanted.get(field) not in (None, value) for field, value in found.items()):
            return False
        if wanted.get("namespace") not in (None, self._namespace_of(item)):
            return False
        labels = mapping(metadata, "labels").items()
        # Other values are no labels, and what to do about them is not for a selector to say.
        return not self._selects or self._selects({key: value for key, value in labels if isinstance(value, str)})

    def _namespace_of(self, item: Object) -> str:
        group, kind = group_of(item), item["kind"]
        scope = self._scopes.get((group, kind), self._request.capabilities.is_namespaced(group, kind))
        if scope is False:
            return ""
        return item["metadata"].get("namespace") or self._request.install_namespace
