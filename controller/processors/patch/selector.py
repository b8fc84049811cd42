"""Label selectors as text, as `kubectl get --selector` takes them. See labels.Parse of k8s.io/apimachinery."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

Selector: TypeAlias = Callable[[Mapping[str, str]], bool]

_KEY = r"(?P<key>(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EXISTS = re.compile(rf"(?P<not>!)?\s*{_KEY}").fullmatch
_EQUALS = re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=)\s*(?P<value>{_VALUE})").fullmatch
_IN = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)").fullmatch
# Commas between requirements, not those between the values of one.
_COMMA = re.compile(r",(?![^()]*\))")


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
