"""Expressions in a spec that are not well-formed: nothing new is applied, and the message says where."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.controller.observe.health.expressions import MISSING
from tests.support.reconciling import World

A = "/api/v1/namespaces/shop/configmaps/a"


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    for tag in ("v1", "v2"):
        data = {"data": {"a": tag}}
        made.shelf.put(tag, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **data})
    yield made
    made.applier.stop()


def check(**expressions: str) -> list[dict[str, Any]]:
    return [{"kind": "Secret", "always": "Healthy"}, {"kind": "ConfigMap", "expressions": expressions}]


def test_a_wrong_expression_is_told_with_its_place_and_what_is_installed_stays(world: World) -> None:
    world.wish("v1", healthChecks=check(current="data.a == 'v1'"))
    world.settle()
    assert world.conditions["Installed"] == "True Installed"

    world.wish("v2", healthChecks=check(failed="data.a = 'x'", current="date.a == 'v2'"))
    world.settle()
    assert world.conditions["Installed"] == "False InvalidConfig"
    assert world.message("Ready").partition("; ")[2] == (
        "spec.healthChecks[1].expressions.current: line 1, column 5: undeclared reference to 'date.a' "
        "(fields are named directly: apiVersion, kind, metadata, spec, status, data; self is the object), "
        "spec.healthChecks[1].expressions.failed: line 1, column 8: Syntax error: token recognition error at: '= '; "
        "correct the expression"
    )
    assert world.cluster.objects[A]["data"]["a"] == "v1"


def test_without_the_extra_expressions_are_refused_by_name_and_what_is_installed_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.wish("v1", healthChecks=check(current="data.a == 'v1'"))
    world.settle()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    world.restart()
    world.settle()
    assert world.conditions["Installed"] == "True Installed"

    world.wish("v2", healthChecks=check(current="data.a == 'v2'"))
    world.settle()
    assert world.conditions["Installed"] == "False NotSupported"
    assert world.message("Ready").endswith(f"spec.healthChecks[1].expressions.current: {MISSING}")
    assert world.cluster.objects[A]["data"]["a"] == "v1"

    world.wish("v2")
    world.settle()
    assert world.conditions["Ready"] == "True Ready"
