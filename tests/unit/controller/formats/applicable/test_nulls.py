"""Nulls are left out, unless a CRD of the bundle gives them a meaning."""

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


def test_nulls_stay_where_a_crd_of_the_bundle_gives_them_a_meaning() -> None:
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
def test_nulls_go_where_no_crd_of_the_bundle_knows_them(version: str) -> None:
    objects = parse(CRD.replace("SCOPE", "Namespaced") + "---" + THING.replace("VERSION", version))
    assert applicable(*objects)[1]["spec"] == {"items": [{}], "map": {}, "free": {"deep": {"a": [None, {}]}}}
