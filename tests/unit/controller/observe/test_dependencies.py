from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.observe.deployments import Dependency, dependency_of, find_cycle, find_dependents
from tests.support.deployments import deployment
from tests.support.watching import World

TIME = "2026-01-01T00:00:00Z"


def ready(status: str = "True", reason: str = "Ready", generation: int = 1) -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "reason": reason, "message": "secret"}
    return {"conditions": [{**condition, "observedGeneration": generation, "lastTransitionTime": TIME}]}


class Case(NamedTuple):
    name: str
    parts: dict[str, Any]
    hindrance: str


CASES = [
    Case("one that is Ready hinders nobody", {"status": ready()}, ""),
    Case("one that is not has a reason", {"status": ready("False", Reason.PROGRESSING)}, "Progressing"),
    Case("one of an unknown state has one, too", {"status": ready("Unknown", "NotInstalled")}, "NotInstalled"),
    Case("one without conditions is new", {"status": {}}, "is new"),
    Case(
        "one that was Ready before it was changed is waited for",
        {"status": ready(), "metadata": {"generation": 2}},
        "has not been looked at since it changed",
    ),
    Case(
        "one that is being deleted is waited for",
        {"status": ready(), "metadata": {"deletionTimestamp": TIME}},
        "is being deleted",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_whether_others_wait_for_one(case: Case) -> None:
    assert dependency_of(deployment("a", **case.parts)).hindrance == case.hindrance


class Graph(NamedTuple):
    name: str
    depends_on: dict[str, list[str]]
    cycle: tuple[str, ...]


GRAPHS = [
    Graph("nothing depends on anything", {}, ()),
    Graph("a chain is no cycle", {"a": ["b"], "b": ["c"]}, ()),
    Graph("two ways to the same are no cycle", {"a": ["b", "c"], "b": ["d"], "c": ["d"]}, ()),
    Graph("one may name itself", {"a": ["a"]}, ("a", "a")),
    Graph("two name each other", {"a": ["b"], "b": ["a"]}, ("a", "b", "a")),
    Graph("three form a circle", {"a": ["b"], "b": ["c"], "c": ["a"]}, ("a", "b", "c", "a")),
    Graph("the shortest is found", {"a": ["b", "d"], "b": ["c"], "c": ["a"], "d": ["a"]}, ("a", "d", "a")),
    Graph("a cycle of others is theirs", {"a": ["b"], "b": ["c"], "c": ["b"]}, ()),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=attrgetter("name"))
def test_who_depends_on_itself(graph: Graph) -> None:
    assert find_cycle(graph.depends_on, "a") == graph.cycle


def of(*names: str, hindrance: str = "") -> Dependency:
    return Dependency(names, hindrance)


DEPENDENTS = {"a": ["b"], "b": ["c"], "c": []}


def concerned(name: str, before: Dependency | None, now: Dependency | None, **dependents: list[str]) -> set[str]:
    """Return whom a change concerns: c depends on b, and b on a, unless told otherwise."""
    return find_dependents(name, before, now, (DEPENDENTS | dependents).__getitem__)


def test_a_change_concerns_those_that_depend_on_it_directly() -> None:
    assert concerned("a", of(hindrance="Progressing"), of()) == {"b"}
    assert concerned("a", of(), of()) == set()


def test_a_new_dependency_concerns_all_that_may_be_in_a_cycle_with_it() -> None:
    assert concerned("a", of(), of("c"), c=["a"]) == {"b", "c"}
    assert concerned("a", of("c"), of()) == {"b", "c"}


def test_a_deletion_concerns_those_that_depend_on_it() -> None:
    assert concerned("a", of(), None) == {"b"}
    assert concerned("b", of("a"), None) == {"c"}


def test_who_depends_on_one_is_known_as_long_as_it_does(world: World) -> None:
    world.deployment("shop", spec={"dependsOn": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})
    world.start()
    assert [world.watches.deployments.dependents(name) for name in "abc"] == [["shop"], ["shop"], []]
    world.told.taken()
    world.deployment("shop", spec={"dependsOn": [{"name": "b"}, {"name": "c"}]}, metadata={"generation": 2})
    world.hear("deployment shop")
    assert [world.watches.deployments.dependents(name) for name in "abc"] == [[], ["shop"], ["shop"]]


def test_those_that_wait_are_named_when_a_status_changes(world: World) -> None:
    world.deployment("database")
    world.deployment("shop", spec={"dependsOn": [{"name": "database"}]})
    world.start()
    world.hear("deployment shop")

    world.deployment("database", status=ready())
    assert "deployment shop" in world.hear("deployment shop")
    assert world.watches.deployments.dependents("database") == ["shop"]


def test_those_that_wait_are_named_when_what_they_wait_for_is_created(world: World) -> None:
    world.deployment("shop", spec={"dependsOn": [{"name": "database"}]})
    world.start()
    world.hear("deployment shop")
    assert world.watches.deployments.dependency("database") is None

    world.deployment("database")
    assert "deployment shop" in world.hear("deployment shop")
    assert world.watches.deployments.dependency("database") == of(hindrance="is new")
