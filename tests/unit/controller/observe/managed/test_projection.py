from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from rukpak.controller.observe.health.rules import NOT_OBSERVED
from rukpak.controller.observe.health.verdict import HEALTHY
from rukpak.controller.observe.records import Record
from tests.support.fake_api import Fault
from tests.support.fake_cluster import CLAIMS as CLAIM_RESOURCE
from tests.support.watching import (
    CLAIMS,
    CLASSES,
    CONFIG_MAP,
    DEFINITIONS,
    NEW_WIDGETS,
    WIDGET,
    WIDGETS,
    WORKLOAD,
    World,
    define,
    reply,
    workload,
)


def widget(world: World, path: str = WIDGETS, **content: Any) -> None:
    world.managed(name="w", path=path, **content)


def verdict_of(world: World, name: str = "w") -> str:
    """Return what is said of an object; nothing while it is not known."""
    found = [record for key, record in world.watches.objects.of("shop").items() if key.name == name]
    return found[0].verdict.reason if found and found[0].verdict else ""


def wait_for_verdict(world: World, reason: str, name: str = "w") -> None:
    world.wait(lambda: verdict_of(world, name) == reason, f"{reason}, not {verdict_of(world, name)}")


def test_a_custom_resource_is_watched_at_the_version_at_which_it_is_stored(world: World) -> None:
    define(world, stored="v2")
    world.start()
    world.know(WIDGET.gvk)
    assert (world.api.lists(WIDGETS), world.api.lists(NEW_WIDGETS)) == (0, 1)


def test_another_storage_version_is_followed_and_nothing_is_lost_meanwhile(world: World) -> None:
    define(world)
    widget(world)
    world.start()
    world.know(WIDGET.gvk)
    world.api.watch_faults = [Fault(500)]
    define(world, stored="v2")
    world.wait(lambda: not world.api.watch_faults, "its conversion webhook is down")
    assert verdict_of(world) == "Healthy"
    widget(world, NEW_WIDGETS, status={"conditions": [{"type": "Ready", "status": "False", "reason": "Broken"}]})
    wait_for_verdict(world, "Broken")
    assert world.watches.objects.require("shop", [WIDGET.gvk]) == []


def test_a_custom_resource_is_not_judged_before_definitions_are_known(world: World) -> None:
    widget(world)
    assert world.watches.objects.require("shop", [WIDGET.gvk]) == ["Widget"]
    define(world, announces="v1")
    world.start()
    world.hear("objects shop")
    world.know(WIDGET.gvk)
    assert verdict_of(world) == "StatusNotReported"


def test_a_schema_that_announces_a_status_is_taken_up(world: World) -> None:
    define(world)
    widget(world)
    world.start()
    world.know(WIDGET.gvk)
    assert verdict_of(world) == "Healthy"
    define(world, announces="v1")
    wait_for_verdict(world, "StatusNotReported")


def test_where_definitions_may_not_be_listed_custom_resources_are_watched_all_the_same(world: World) -> None:
    del world.api.objects[DEFINITIONS]
    widget(world)
    world.watches.start()
    world.wait(lambda: world.watches.objects.require("shop", [WIDGET.gvk]) == [], "it is watched")
    wait_for_verdict(world, "Healthy")


BROKEN_IF_OLD = {"group": "example.com", "kind": "Widget", "failed": [{"field": {"path": "spec.age", "in": ["old"]}}]}
HEALTHY_ALWAYS = {"kind": "ConfigMap", "healthy": [{"field": {"path": "data.ready", "in": ["yes"]}}]}


def test_the_health_checks_of_the_owner_count_and_no_others(world: World) -> None:
    world.deployment(spec={"healthChecks": [BROKEN_IF_OLD]})
    world.deployment("bar")
    define(world)
    widget(world, spec={"age": "old"})
    world.managed("bar", "theirs", path=WIDGETS, spec={"age": "old"})
    world.start()
    world.know(WIDGET.gvk)
    assert verdict_of(world) == "HealthCheckFailed"
    (theirs,) = world.watches.objects.of("bar").values()
    assert theirs.verdict == HEALTHY


def test_other_health_checks_judge_again_and_passes_wait_for_that(world: World) -> None:
    world.deployment()
    define(world)
    widget(world, spec={"age": "old"})
    world.start()
    world.know(WIDGET.gvk)
    world.api.frozen.set()
    world.deployment(spec={"healthChecks": [BROKEN_IF_OLD]}, metadata={"generation": 2})
    world.wait(lambda: world.watches.objects.require("shop", [WIDGET.gvk]) == ["Widget"], "it is waited for")
    assert verdict_of(world) == "Healthy"
    world.api.frozen.clear()
    wait_for_verdict(world, "HealthCheckFailed")
    world.wait(lambda: world.watches.objects.require("shop", [WIDGET.gvk]) == [], "it is not waited for")
    world.deployment(metadata={"generation": 3})
    wait_for_verdict(world, "Healthy")


def test_a_check_of_a_kind_without_a_rule_has_its_objects_read_in_full(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    assert verdict_of(world, "a") == ""
    world.deployment(spec={"healthChecks": [HEALTHY_ALWAYS]})
    world.start()
    world.wait(lambda: world.watches.deployments.find("shop"), "it is known")
    world.watches.objects.require("shop", [CONFIG_MAP])
    wait_for_verdict(world, "HealthCheckNotMet", "a")
    assert world.watches.objects.learn(reply("500")).verdict == NOT_OBSERVED


def claim(world: World) -> None:
    world.managed(name="data", path=CLAIMS, spec={"storageClassName": "disk"}, status={"phase": "Pending"})


def storage_class(world: World, mode: str) -> None:
    world.api.put(CLASSES, "disk", volumeBindingMode=mode)


def test_a_claim_is_judged_by_its_storage_class_and_again_when_that_changes(world: World) -> None:
    claim(world)
    storage_class(world, "WaitForFirstConsumer")
    assert world.watches.objects.require("shop", [CLAIM_RESOURCE.gvk]) == ["PersistentVolumeClaim"]
    world.hear("objects shop")
    world.know(CLAIM_RESOURCE.gvk)
    assert verdict_of(world, "data") == "WaitForFirstConsumer"
    assert world.api.lists(CLAIMS) == 1
    world.api.delete(CLASSES, "disk")
    wait_for_verdict(world, "StorageClassNotFound", "data")
    storage_class(world, "Immediate")
    wait_for_verdict(world, "NotBound", "data")


def changes_while_listing(world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Have something change just after the first object of a list was judged."""
    projection = world.watches.projection
    project_object = projection.project

    def judge(*args: Any, **options: Any) -> Record:
        monkeypatch.undo()
        record = project_object(*args, **options)
        change()
        return record

    monkeypatch.setattr(projection, "project", judge)


def list_claim(world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Have a claim listed that waits for its first consumer, and something change just after it was judged."""
    claim(world)
    storage_class(world, "WaitForFirstConsumer")
    changes_while_listing(world, monkeypatch, change)
    world.watches.objects.require("shop", [CLAIM_RESOURCE.gvk])
    world.hear("objects shop")
    world.watches.objects.require("shop", [CLAIM_RESOURCE.gvk])


def test_a_storage_class_that_changes_while_claims_are_listed_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        storage_class(world, "Immediate")
        storage_class(world, "Immediate")  # once that is known, the one before was reported
        world.wait(is_known, "it is known")

    def is_known() -> bool:
        known = world.watches._classes.reflector.cache.get(("", "disk"))
        return known is not None and known.resource_version == str(world.api.version)

    list_claim(world, monkeypatch, change)
    wait_for_verdict(world, "NotBound", "data")


def test_a_list_that_ends_while_a_storage_class_changes_is_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def judge() -> None:
        begun.set()
        may_end.wait(30)

    def records(_cache: object) -> list[Record]:
        may_end.set()
        world.wait(lambda: reflector.synced, "the list ends")
        return []

    list_claim(world, monkeypatch, judge)
    found = world.watches.objects.find_watch(("", "PersistentVolumeClaim"))
    assert found
    world.wait(begun.is_set, "a claim is judged")
    reflector = found.reflector
    monkeypatch.setattr(type(reflector.cache), "records", records)
    world.watches.objects.classes_changed()
    monkeypatch.undo()
    world.wait(lambda: world.api.lists(CLAIMS) == 2, "it is made again")


def test_health_checks_that_change_while_objects_are_listed_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        world.deployment(spec={"healthChecks": [BROKEN_IF_OLD]}, metadata={"generation": 2})
        world.wait(lambda: "deployment shop" in world.told.heard, "the other spec is told")

    world.deployment()
    define(world)
    widget(world, spec={"age": "old"})
    world.start()
    world.told.taken()
    changes_while_listing(world, monkeypatch, change)
    world.watches.objects.require("shop", [WIDGET.gvk])
    wait_for_verdict(world, "HealthCheckFailed")


def test_storage_classes_that_may_not_be_read_leave_claims_undecided(world: World) -> None:
    del world.api.objects[CLASSES]
    claim(world)
    world.watches.objects.require("shop", [CLAIM_RESOURCE.gvk])
    world.hear("objects shop")
    world.know(CLAIM_RESOURCE.gvk)
    assert verdict_of(world, "data") == "StorageClassUnreadable"


def test_without_claims_no_storage_class_is_read(world: World) -> None:
    world.start()
    world.know(CONFIG_MAP)
    assert not world.api.lists(CLASSES)


def test_the_pods_of_a_workload_are_known_also_once_it_is_available(world: World) -> None:
    for ready in (0, 1):
        workload(world, ready)
        world.know(WORKLOAD)
        world.wait(lambda: [r.pods for r in world.watches.objects.of("shop").values()] == ["app=web"], "app=web")


# expressions

EXPRESSION = [{"group": "example.com", "kind": "Widget", "expressions": {"current": "status.phase == 'Up'"}}]
EXPENSIVE = [
    {"group": "example.com", "kind": "Widget", "expressions": {"current": "spec.items.map(n, spec.items) == []"}}
]


def test_an_object_is_judged_by_its_expressions_after_its_event(world: World) -> None:
    define(world)
    world.deployment(spec={"healthChecks": EXPRESSION})
    widget(world, status={"phase": "Up"})
    world.start()
    world.know(WIDGET.gvk)
    wait_for_verdict(world, "Healthy")
    widget(world, status={"phase": "Down"})
    wait_for_verdict(world, "HealthCheckNotMet")
    assert "health shop" in world.told.taken()
    paths = [each.path for each in world.api.received]
    assert "/apis/example.com/v1/namespaces/shop/widgets" in paths
    assert "/apis/example.com/v1/namespaces/shop/widgets/w" not in paths  # it may be allowed to list and watch only


def test_expressions_of_one_owner_do_not_hold_up_the_objects_of_another(world: World) -> None:
    define(world)
    world.deployment("hostile", spec={"healthChecks": EXPENSIVE, "installNamespace": "hostile"})
    world.deployment(spec={"healthChecks": EXPRESSION})
    for index in range(20):
        world.managed("hostile", f"h{index}", path=WIDGETS, spec={"items": list(range(9_000))})
    widget(world, status={"phase": "Up"})
    world.start()
    world.know(WIDGET.gvk)
    wait_for_verdict(world, "Healthy")
    judged = [each.verdict.reason for each in world.watches.objects.of("hostile").values() if each.verdict]
    assert judged.count("NotEvaluated") >= 15


def test_an_object_that_changes_while_it_is_evaluated_is_judged_as_it_is_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(world)
    world.deployment(spec={"healthChecks": EXPRESSION})
    widget(world, status={"phase": "Down"})
    evaluate, changed = world.watches.evaluator.evaluate, threading.Event()

    def change(*given: Any) -> Any:
        if not changed.is_set():
            changed.set()
            widget(world, status={"phase": "Up"})
        return evaluate(*given)

    monkeypatch.setattr(world.watches.evaluator, "evaluate", change)
    world.start()
    world.know(WIDGET.gvk)
    wait_for_verdict(world, "Healthy")
