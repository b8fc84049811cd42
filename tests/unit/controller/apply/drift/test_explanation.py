from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.apply.drift.explanation import DriftedObject, explain
from controller.observe.records import ObjectKey

KEY = ObjectKey("", "ConfigMap", "shop", "a")
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"one": "1", "two": "2"}}


def entry(manager: str, *fields: str, time: str = "2026-01-01T00:00:00Z", **changes: str) -> dict[str, Any]:
    data: dict[str, Any] = {f"f:{field}": {} for field in fields}
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:data": data}, **changes}


OURS = entry("rukpak/foo", "one", operation="Apply")


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
    Case("our own entry says nothing of who holds it", [OURS], "(data.two)"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_has_become_of_an_object(case: Case) -> None:
    found = explain(KEY, {"metadata": {"managedFields": case.entries}}, BODY, "rukpak/foo")
    assert str(found) == f"ConfigMap shop/a {case.expect}".rstrip()


def test_a_field_that_nobody_holds_does_not_hide_one_that_somebody_does() -> None:
    entries = [{**OURS, "fieldsV1": {"f:metadata": {}}}, entry("x", "two")]
    assert explain(KEY, {"metadata": {"managedFields": entries}}, BODY, "rukpak/foo").path == "data.two"


def test_what_goes_is_told_as_that() -> None:
    manifest = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [OURS]}}
    assert explain(KEY, manifest, BODY, "rukpak/foo") == DriftedObject(key=KEY, state="being deleted")
