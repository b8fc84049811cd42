"""Nulls are removed unless a CRD of the bundle allows them."""

from __future__ import annotations

import pytest

from tests.unit.controller.formats.objects import CRD, applicable, parse

THING = """
apiVersion: VERSION
kind: Thing
metadata: {name: a, labels: {a: null}}
spec:
  strict: null
  unknown: null
  nullable: null
  items: [{a: null, b: null}]
  map: {a: null}
  free: {known: null, unknown: null, deep: {a: [null, {b: null}]}}
"""


def test_nulls_that_a_crd_of_the_bundle_allows_are_kept() -> None:
    objects = parse(CRD.replace("SCOPE", "Namespaced") + "---" + THING.replace("VERSION", "e.x/v1"))
    _, thing = applicable(*objects)
    assert thing["metadata"]["labels"] == {}
    assert thing["spec"] == {
        "nullable": None,
        "items": [{"a": None}],
        "map": {"a": None},
        "free": {"unknown": None, "deep": {"a": [None, {"b": None}]}},
    }


@pytest.mark.parametrize("version", ["e.x/v2", "other.x/v1"])
def test_nulls_of_unknown_fields_are_removed(version: str) -> None:
    objects = parse(CRD.replace("SCOPE", "Namespaced") + "---" + THING.replace("VERSION", version))
    assert applicable(*objects)[1]["spec"] == {"items": [{}], "map": {}, "free": {"deep": {"a": [None, {}]}}}
