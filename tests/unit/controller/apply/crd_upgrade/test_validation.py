"""What a schema finds wrong with an object, as the API server would after an update to that schema.

That the API server agrees on all of these is tested in integration/test_crd_upgrade.py.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from controller.apply.crd_upgrade.validation import admit, validate
from tests.support.definitions import CASES, Fitting, schema

NAMED = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}


def said(value: Any, of: Any) -> list[str]:
    return [f"{violation.field}: {violation.reason}" for violation in validate(admit(value, of), of)]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_wrong_with_a_value(case: Fitting) -> None:
    found = said({"metadata": {"name": "x"}, "spec": {"value": case.value}}, schema(value=case.schema))
    assert found == ([f"spec.value{case.says}"] if case.says else [])


def test_of_metadata_only_the_name_counts() -> None:
    value = {"metadata": {"name": "long", "labels": 1, "uid": "x"}}
    assert said(value, {"type": "object", "properties": {"metadata": NAMED}}) == [
        "metadata.name: has more than 3 characters"
    ]


def test_the_status_counts_and_paths_lead_through_the_schema() -> None:
    color = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string", "enum": ["a"]}}}
    of = {"type": "object", "properties": {"status": {"type": "object", "properties": {"colors": color}}}}
    [violation] = validate({"metadata": {"name": "x"}, "status": {"colors": [{"k": "b"}]}}, of)
    assert violation.field == "status.colors[0].k"
    assert violation.path == "^.status.colors.items.additionalProperties"


def test_no_reason_quotes_a_value() -> None:
    of = schema(a={"type": "string", "enum": ["x"], "pattern": "y", "maxLength": 1, "format": "uuid", "not": {}})
    value = {"metadata": {"name": "x"}, "spec": {"a": "secret"}}
    assert len(said(value, of)) == 5
    assert "secret" not in str(said(value, of))


def test_neither_object_nor_schema_is_changed() -> None:
    of = schema(a={"type": "object", "default": {"b": {}}, "properties": {"b": {"type": "object", "properties": {}}}})
    value: Any = {"metadata": {"name": "x"}, "spec": {"c": 1}}
    before = repr((of, value))
    assert admit(value, of) == {"metadata": {"name": "x"}, "spec": {"a": {"b": {}}}}
    assert repr((of, value)) == before


def test_what_cannot_be_a_pattern_matches_everything() -> None:
    assert said({"metadata": {"name": "x"}, "spec": {"a": "b"}}, schema(a={"pattern": "("})) == []


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1.5])
def test_what_is_no_whole_number_is_no_integer(value: float) -> None:
    of = schema(value={"type": "integer"})
    assert said({"metadata": {"name": "x"}, "spec": {"value": value}}, of) == ["spec.value: must be of type integer"]
