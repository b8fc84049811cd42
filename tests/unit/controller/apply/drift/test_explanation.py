from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.apply.drift import DriftedField, DriftedObject, explain
from controller.observe.records import ObjectKey

KEY = ObjectKey("", "ConfigMap", "shop", "a")
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"one": "1", "two": "2"}}
MANY = {f"k{number:02}": "" for number in range(20)}


def entry(manager: str, *fields: str, time: str = "2026-01-01T00:00:00Z", **changes: str) -> dict[str, Any]:
    data: dict[str, Any] = {f"f:{field}": {} for field in fields}
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:data": data}, **changes}


OURS = entry("rukpak/foo", "one", operation="Apply")
NOTHING_OURS = {**OURS, "fieldsV1": {"f:metadata": {}}}
LATER = "2026-01-02T00:00:00Z"


class Case(NamedTuple):
    name: str
    entries: list[dict[str, Any]]
    expect: str


CASES = [
    Case("somebody has changed a field", [OURS, entry("kubectl-edit", "two")], '(data.two, owned by "kubectl-edit")'),
    Case("somebody has removed a field", [OURS, entry("kubectl-edit", "other")], "(data.two)"),
    Case(
        "the latest of those who hold it is named",
        [OURS, entry("old", "two"), entry("new", "two", time="2026-01-02T00:00:00Z")],
        '(data.two, owned by "new")',
    ),
    Case("what a status has does not count", [OURS, entry("x", "two", subresource="status")], "(data.two)"),
    Case("our entry is gone, and somebody holds a field", [entry("x", "two")], '(data.two, owned by "x")'),
    Case("our entry is gone, and nobody holds anything", [], ""),
    Case(
        "all fields of one edit are named",
        [NOTHING_OURS, entry("edit", "one", "two")],
        '(data.one, data.two, owned by "edit")',
    ),
    Case(
        "a later edit by another client hides no earlier one",
        [NOTHING_OURS, entry("edit", "one"), entry("scale", "two", time=LATER)],
        '(data.one, owned by "edit"; data.two, owned by "scale")',
    ),
    Case(
        "an edit by a subresource hides no other one",
        [NOTHING_OURS, entry("edit", "one"), entry("kubectl", "two", subresource="scale", time=LATER)],
        '(data.one, owned by "edit"; data.two, owned by "kubectl")',
    ),
    Case(
        "the same client may have edited twice",
        [NOTHING_OURS, entry("edit", "one"), entry("edit", "two", operation="Apply", time=LATER)],
        '(data.one, data.two, owned by "edit")',
    ),
    Case(
        "a field that was removed is named beside one that was changed",
        [NOTHING_OURS, entry("edit", "two")],
        '(data.one; data.two, owned by "edit")',
    ),
    Case("all fields that were removed are named", [NOTHING_OURS], "(data.one, data.two)"),
    Case(
        "without our entry, all fields that somebody holds are named",
        [entry("x", "one"), entry("y", "two")],
        '(data.one, owned by "x"; data.two, owned by "y")',
    ),
    Case("our own entry says nothing of who holds it", [OURS], "(data.two)"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_has_become_of_an_object(case: Case) -> None:
    found = explain(KEY, {"metadata": {"managedFields": case.entries}}, BODY, "rukpak/foo")
    assert str(found) == f"ConfigMap shop/a {case.expect}".rstrip()


def test_of_many_fields_the_first_are_shown_and_the_others_counted() -> None:
    fields = tuple(DriftedField(f"data.{name}", "x") for name in MANY)
    found = DriftedObject(key=KEY, fields=fields)
    assert found.describe(1) == 'ConfigMap shop/a (data.k00, owned by "x"; 19 more fields)'
    assert found.describe(19).endswith('data.k18, owned by "x"; 1 more field)')
    assert str(found).endswith('data.k19, owned by "x")')


def test_what_goes_is_told_as_that() -> None:
    manifest = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [OURS]}}
    assert explain(KEY, manifest, BODY, "rukpak/foo") == DriftedObject(key=KEY, state="being deleted")
