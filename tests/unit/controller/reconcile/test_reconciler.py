from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.order import BLOCKED_AFTER_SECONDS, SLOW_AFTER_SECONDS
from rukpak.controller.apply.ownership import MORE
from rukpak.controller.kube.client import Response
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.following import Topic
from rukpak.controller.reconcile import installation
from rukpak.controller.reconcile.context import NEVER, UNKNOWN_SECONDS, UNSYNCED, Context
from rukpak.controller.reconcile.memory import KNOWN
from rukpak.controller.reconcile.planning import Work
from rukpak.controller.revisions.accounts import RIGHTS_SECONDS, AccountPolicy
from rukpak.controller.revisions.store import remove_orphans
from rukpak.controller.status.report import short
from rukpak.controller.telemetry import InternalError, reconcile_id
from tests.support.deployments import manifest
from tests.support.fake_cluster import VERBS, Json, KilledError
from tests.support.reconciling import NAME, PATH, World

A, B, OLD = (f"/api/v1/namespaces/shop/configmaps/{name}" for name in ("a", "b", "old"))
CLAIM = "/api/v1/namespaces/shop/persistentvolumeclaims/data"
NAMESPACE = "/api/v1/namespaces/shop"
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


def claim() -> Json:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}


def workload(name: str = "web") -> Json:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 1}}


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with content for three tags, and a namespace to install it in."""
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", config_map("a"), config_map("old"))
    made.shelf.put("v2", config_map("a", "2"), config_map("b"))
    made.shelf.put("rolling", config_map("a", "3"), workload())
    yield made
    made.applier.stop()


STORE = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}/secrets/"


def installed(world: World, tag: str = "v1", **spec: Any) -> None:
    world.wish(tag, **spec)
    world.settle()


# rows: what exists, what happens, the exact requests, the exact status


class Row(NamedTuple):
    name: str
    before: Callable[[World], object]
    requests: list[str]
    conditions: dict[str, str]


def fails(world: World) -> None:
    installed(world)
    world.wish("v9")


def paused(world: World, *, edit: bool = False) -> None:
    installed(world)
    world.wish("v1", paused=True)
    world.settle()
    if edit:
        world.cluster.edit(A, data={"a": "hot fix"})


def resumed(world: World) -> None:
    paused(world, edit=True)
    world.reconcile()
    world.wish("v1", paused=False)


def edited(world: World) -> None:
    installed(world)
    world.cluster.edit(A, data={"a": "x"})


def removed(world: World) -> None:
    installed(world)
    world.cluster.remove(A)


def foreign(world: World) -> None:
    world.cluster.put({**config_map("a"), "metadata": {"name": "a", "namespace": "shop"}})
    world.wish("v1")


def upgraded(world: World, **spec: Any) -> None:
    installed(world, **spec)
    world.wish("v2", **spec)


def rolling(world: World) -> None:
    installed(world)
    world.wish("rolling")


def restarted(world: World) -> None:
    installed(world)
    world.restart()


def refused(world: World) -> None:
    world.cluster.faults[f"TRY {A}"] = [ApiError(422, "Invalid", "no")]
    world.wish("v1")


def configured(world: World) -> None:
    installed(world)
    world.wish("v1", prune="AfterApply")


STATUS = "PATCH BundleDeployment/status"
READ = "GET revision"
SEEN = "GET BundleDeployment"
INSTALL = [
    "MERGE BundleDeployment",
    "APPLY revision",
    STATUS,
    "GET configmaps/a",
    "GET configmaps/old",
    "GET namespaces/shop",
    "TRY configmaps/a",
    "TRY configmaps/old",
    STATUS,
]

# fmt: off
ROWS = [
    Row("a new one is installed", lambda world: world.wish("v1"), INSTALL, READY),
    Row("an installed one costs nothing", installed, [], READY),
    Row("nor does a restart", restarted, [], READY),
    Row("what somebody changed is put back", edited, ["GET configmaps/a", "APPLY configmaps/a"], READY),
    Row("what somebody removed is made again", removed, ["GET configmaps/a", "TRY configmaps/a"], READY),
    Row("another revision replaces the one before", upgraded,
         [READ, "APPLY revision", STATUS, "GET configmaps/b", "APPLY configmaps/a", "TRY configmaps/b",
         "DELETE configmaps/old", SEEN, "APPLY revision", "LIST revision", "MERGE revision", STATUS], READY),
    Row(
        "what only the new one lacks waits until it is healthy",
        rolling,
        [
            READ,
            "APPLY revision",
            STATUS,
            "APPLY configmaps/a",
            "GET apps/v1/namespaces/shop/deployments/web",
            "TRY apps/v1/namespaces/shop/deployments/web",
            STATUS,
        ],
        {**READY, "Healthy": "False Progressing", "Ready": "False Progressing", "Reconciling": "True PrunePending"},
    ),
    Row("what another spec does not change is not sent", configured, [READ, STATUS], READY),
    Row("a source that fails leaves what is installed", fails, [READ, STATUS],
         {"Unpacked": "False NotFound", "Installed": "False NotFound", "Healthy": "True Healthy",
         "Ready": "False NotFound", "Stalled": "True NotFound"}),
    Row("while it is paused it is looked at and not touched", lambda world: paused(world, edit=True),
         ["GET configmaps/a", STATUS], {**READY, "Paused": "True Paused", "Drifted": "True Paused"}),
    Row("when it is resumed, modified objects are repaired", resumed,
        ["GET configmaps/a", "APPLY configmaps/a", STATUS], READY),
    Row("an object of another owner is refused, the others are applied", foreign,
         [request for request in INSTALL if request != "TRY configmaps/a"],
         {"Unpacked": "True Unpacked", "Installed": "False Collision", "Healthy": "False Progressing",
         "Ready": "False Collision", "Reconciling": "True Collision"}),
    Row("an object that is refused does not hold up the others", refused, INSTALL,
         {"Unpacked": "True Unpacked", "Installed": "False Refused", "Healthy": "False Failed",
         "Ready": "False Refused", "Stalled": "True Refused"}),
]
# fmt: on


@pytest.mark.parametrize("case", ROWS, ids=attrgetter("name"))
def test_one_pass(case: Row, world: World) -> None:
    case.before(world)
    world.cluster.taken()
    world.reconcile()
    assert world.requests() == case.requests
    assert world.conditions == case.conditions


# what status records


def test_status_says_what_is_installed_and_where_to_look_for_it(world: World) -> None:
    installed(world)
    status = world.deployment.status
    assert status.revision == status.installed_revision != ""
    assert status.managed_kinds == ("v1/ConfigMap",)
    assert status.managed_state.startswith("v2:sha256:")
    assert status.install_namespace == "shop"
    assert (status.objects.total, status.objects.healthy, status.display.objects) == (2, 2, "2/2")
    assert [pin.resolved.partition("@")[0] for pin in status.sources] == ["v1"]


def test_the_revision_and_its_kinds_are_recorded_before_the_first_object_is_written(world: World) -> None:
    seen: list[tuple[str, tuple[str, ...], str]] = []
    apply = world.cluster.apply

    def watched(path: str, body: Any, **options: Any) -> Any:
        if path == A:
            status = world.deployment.status
            seen.append((status.revision, status.managed_kinds, status.managed_state))
        return apply(path, body, **options)

    world.cluster.apply = watched  # type: ignore[method-assign]
    installed(world)
    assert seen == [(world.deployment.status.revision, ("v1/ConfigMap",), "")]


def test_a_failure_that_goes_on_is_written_once(world: World) -> None:
    world.wish("v9")
    world.reconcile()
    world.cluster.taken()
    for _ in range(3):
        world.seconds += 400
        world.reconcile()
    assert world.requests() == []
    assert world.shelf.calls == ["resolve v9"] * 4


def test_a_plugin_of_a_source_that_fails_is_no_content_at_each_try(world: World) -> None:
    world.shelf.refusal = Reason.PLUGIN_FAILED
    world.wish("v9")
    for _ in range(6):
        world.reconcile()
        assert world.conditions["Unpacked"] == "False PluginFailed"
        world.seconds += 1


def test_what_is_gone_from_status_is_taken_out_of_it(world: World) -> None:
    installed(world)
    before = world.deployment.status
    assert before.sources == before.installed_sources != ()
    world.wish("v9")
    world.settle()
    after = world.deployment.status
    assert (after.sources, after.installed_sources) == ((), before.installed_sources)
    assert after.display.sources == before.display.sources != ""


def test_what_is_installed_stays_ready_while_it_is_resolved_and_rendered_once_more(world: World) -> None:
    installed(world)
    world.ask("now")
    seen = set()
    for _ in range(8):
        world.reconcile()
        seen.add((world.conditions["Ready"], world.conditions["Unpacked"], world.conditions["Installed"]))
    assert seen == {("True Ready", "True Unpacked", "True Installed")}
    assert world.deployment.status.last_handled_reconcile_at == "now"


# what is asked for, and how often


def test_a_source_is_resolved_once(world: World) -> None:
    installed(world)
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    world.wish("v1", paused=True)
    world.settle()
    world.wish("v1", config={})
    world.settle()
    world.restart()
    world.settle()
    assert world.shelf.calls == ["resolve v1", "build v1"]


def test_another_config_is_rendered_from_the_same_pin(world: World) -> None:
    installed(world)
    world.shelf.put("v1", config_map("moved"))
    world.wish("v1", installNamespace="shop", progressDeadline="1h")
    world.settle()
    assert world.shelf.calls == ["resolve v1", "build v1"]
    assert world.exists(OLD)


def test_the_annotation_asks_once_and_taking_it_off_asks_for_nothing(world: World) -> None:
    installed(world)
    world.shelf.put("v1", config_map("a", "new"))
    for when in ("now", None, "now"):
        world.ask(when)
        world.settle()
    assert world.shelf.calls == ["resolve v1", "build v1"] * 2
    assert world.deployment.status.last_handled_reconcile_at == "now"
    assert world.cluster.objects[A]["data"] == {"a": "new"}


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_asked_for_again_is_rendered_again_although_its_pins_are_the_same(
    world: World, *, restarts: bool
) -> None:
    installed(world)
    world.ask("now")
    world.background.building = True
    world.reconcile()
    assert world.conditions == {**READY, "Reconciling": "True Fetching"}
    assert world.deployment.status.last_handled_reconcile_at == "now"
    if restarts:
        world.restart()
    world.background.building = False
    world.settle()
    assert world.shelf.calls == ["resolve v1", "build v1"] * 2
    assert world.conditions == READY


def test_what_is_renewed_and_not_found_leaves_the_pin(world: World) -> None:
    installed(world)
    del world.shelf.tags["v1"]
    world.ask("now")
    world.settle()
    assert world.conditions["Unpacked"] == "False NotFound"
    assert len(world.deployment.status.sources) == 1
    world.ask(None)
    world.settle()
    assert world.conditions == READY


def test_while_content_is_being_made_what_is_installed_is_repaired(world: World) -> None:
    installed(world)
    world.background.busy = True
    world.wish("v2")
    world.cluster.edit(A, data={"a": "x"})
    world.reconcile()
    assert world.conditions["Unpacked"] == "False Fetching"
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    world.background.busy = False
    world.settle()
    assert world.cluster.objects[A]["data"] == {"a": "2"}


def test_a_revision_that_was_tampered_with_is_made_again(world: World) -> None:
    installed(world)
    (secret,) = (path for path in world.cluster.objects if "/secrets/revision." in path)
    world.cluster.patch(secret, {"data": {"objects": "AAAA"}})
    world.restart()
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    assert world.shelf.calls == ["resolve v1", "build v1", "build v1"]
    assert world.cluster.objects[A]["data"] == {"a": "1"}


# drift that is only told, and fields that are left to others

REPORT = {"mode": "Report"}


def test_what_is_only_told_is_not_taken_for_as_it_was_left(world: World) -> None:
    world.shelf.put("v3", config_map("a"), config_map("b"))
    installed(world, drift=REPORT)
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    world.restart()
    world.wish("v3", drift=REPORT)
    world.settle()
    assert world.conditions == {**READY, "Drifted": "True ReportOnly"}
    assert (world.cluster.objects[A]["data"], world.exists(B)) == ({"a": "x"}, True)
    world.wish("v3")
    world.settle()
    assert (world.conditions, world.cluster.objects[A]["data"]) == (READY, {"a": "1"})


@pytest.mark.parametrize("drift", [{}, REPORT], ids=["repaired", "reported"])
@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_an_object_that_was_deleted_to_be_recreated_is_no_drift(drift: Json, world: World, *, restarts: bool) -> None:
    world.shelf.put("v3", fixed("1"))
    world.shelf.put("v4", fixed("2"))
    installed(world, "v3", drift=drift)
    world.wish("v4", drift=drift)
    world.reconcile()
    assert world.conditions["Installed"] == "False Applying"
    assert [note.text for note in world.events.notes if note.reason == "Recreating"] == [
        "ConfigMap shop/a: deleted because an immutable field changed; recreated once it is gone"
    ]
    if restarts:
        world.restart()
    world.settle()
    assert world.conditions == READY
    assert world.cluster.objects[A]["data"] == {"a": "2"}


def test_what_has_our_values_is_no_drift_and_is_not_accepted_either(world: World) -> None:
    installed(world, drift=REPORT)
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    world.cluster.edit(A, data={"a": "1"})
    world.settle()
    assert world.conditions == READY
    world.cluster.edit(A, data={"a": "y"})
    world.settle()
    assert world.conditions == {**READY, "Drifted": "True ReportOnly"}


def test_what_is_told_is_looked_at_again_and_read_once_for_each_version(world: World) -> None:
    installed(world, drift=REPORT)
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    assert world.reconcile().after == 300
    assert world.requests() == []


def test_what_is_left_to_others_is_given_up_when_it_was_created(world: World) -> None:
    rule = {"kind": "ConfigMap", "name": "a", "paths": ["data"]}
    installed(world, drift={"ignore": [rule]})
    managers = {entry["manager"]: entry["fieldsV1"] for entry in world.cluster.objects[A]["metadata"]["managedFields"]}
    assert "f:data" in managers[names.initial_field_manager(NAME)]
    assert "f:data" not in managers[names.field_manager(NAME)]
    world.cluster.edit(A, data={"a": "x"})
    world.reconcile()
    assert world.requests() == []
    world.wish("v2", drift={"ignore": [rule]})
    world.settle()
    assert world.cluster.objects[A]["data"] == {"a": "x"}


# prune


class Prune(NamedTuple):
    name: str
    tag: str
    policy: str
    gone: bool
    reconciling: str


PRUNES = [
    Prune("a healthy revision prunes", "v2", "AfterHealthy", gone=True, reconciling=""),
    Prune("one that is not healthy yet waits", "rolling", "AfterHealthy", gone=False, reconciling="True PrunePending"),
    Prune("unless being applied is enough", "rolling", "AfterApply", gone=True, reconciling="True Progressing"),
    Prune("what is never pruned stays", "v2", "Never", gone=False, reconciling=""),
]


@pytest.mark.parametrize("case", PRUNES, ids=attrgetter("name"))
def test_when_what_the_new_revision_lacks_goes(case: Prune, world: World) -> None:
    installed(world, prune=case.policy)
    world.wish(case.tag, prune=case.policy)
    world.settle()
    assert world.exists(OLD) is not case.gone
    assert world.conditions.get("Reconciling", "") == case.reconciling
    assert world.deployment.status.objects.retained == (0 if case.gone else 1)


def test_while_the_wanted_revision_fails_nothing_is_pruned(world: World) -> None:
    installed(world, prune="AfterApply")
    world.cluster.faults[f"APPLY {A}"] = [ApiError(422, "Invalid", "no")]
    world.wish("v2", prune="AfterApply")
    world.settle()
    assert world.exists(A, B, OLD)
    world.wish("v9", prune="AfterApply")
    world.settle()
    assert world.conditions["Installed"] == "False NotFound"
    assert world.exists(A, B, OLD)


def test_what_is_never_pruned_costs_nothing_and_goes_with_the_bundle(world: World) -> None:
    world.shelf.put("claim", claim())
    installed(world, "claim", prune="Never")
    world.wish("v2", prune="Never")
    world.settle()
    assert world.deployment.status.managed_state
    assert world.deployment.status.managed_kinds == ("v1/ConfigMap", "v1/PersistentVolumeClaim")
    world.restart()
    world.settle()
    assert (world.conditions, world.deployment.status.objects.retained) == (READY, 1)
    world.delete()
    world.settle()
    assert names.RELEASED_FROM in world.cluster.objects[CLAIM]["metadata"]["annotations"]


def test_a_prune_that_fails_is_retried_although_nothing_else_has_changed(world: World) -> None:
    world.shelf.put("both", config_map("a"), config_map("old"))
    world.shelf.put("one", config_map("a"))
    installed(world, "both")
    world.wish("one")
    world.cluster.faults[f"DELETE {OLD}"] = [ApiError(503, "ServiceUnavailable", "no")]
    world.settle()
    assert not world.exists(OLD)
    assert world.deployment.status.managed_state


def test_what_waits_for_its_prune_is_repaired_from_its_revision(world: World) -> None:
    rolling(world)
    world.settle()
    world.cluster.edit(OLD, data={"a": "x"})
    world.settle()
    assert world.cluster.objects[OLD]["data"] == {"a": "1"}


def test_what_cannot_be_listed_when_it_would_be_pruned_is_not_forgotten(world: World) -> None:
    world.shelf.put("web", config_map("a"), workload())
    installed(world, "web", prune="AfterApply")
    world.restart()
    world.watches.objects.failing = {"Deployment"}
    installed(world, "v1", prune="AfterApply")
    assert world.conditions["Installed"] == "True Installed"
    assert world.exists(WEB)
    world.watches.objects.failing.clear()
    world.settle()
    assert not world.exists(WEB)
    assert world.deployment.status.managed_kinds == ("v1/ConfigMap",)


def test_a_claim_that_the_new_revision_lacks_is_kept_and_said(world: World) -> None:
    world.shelf.put("claim", claim())
    installed(world, "claim")
    world.wish("v1")
    world.settle()
    assert names.OWNER_LABEL not in world.cluster.objects[CLAIM]["metadata"]["labels"]
    assert [note.text for note in world.events.notes if note.reason == "Retained"] == [
        "PersistentVolumeClaim shop/data: kept because of its kind, its annotations or the deletionPolicy"
    ]


def test_what_cannot_be_pruned_now_is_pruned_later(world: World) -> None:
    upgraded(world)
    world.cluster.faults[f"DELETE {OLD}"] = [ApiError(503, "ServiceUnavailable", "no")]
    world.reconcile()
    assert world.conditions == {**READY, "Reconciling": "True PrunePending"}
    assert world.deployment.status.managed_state == ""
    world.settle()
    assert (world.conditions, world.exists(OLD)) == (READY, False)


def test_an_object_that_changes_while_others_are_applied_is_not_taken_for_as_it_was_left(world: World) -> None:
    world.shelf.put("more", config_map("a"), workload())
    apply = world.cluster.apply

    def edit_first(path: str, body: Any, **options: Any) -> Any:
        if path.endswith("/deployments/web"):
            world.cluster.apply = apply  # type: ignore[method-assign]
            world.cluster.edit(A, data={"a": "x"})
        return apply(path, body, **options)

    world.cluster.apply = edit_first  # type: ignore[method-assign]
    installed(world, "more")
    assert world.cluster.objects[A]["data"] == {"a": "1"}


# deletion


def test_deletion_takes_away_what_was_installed_and_then_lets_go(world: World) -> None:
    installed(world)
    world.delete()
    assert world.reconcile().after is not None
    # The revision is read since it may have hooks.
    read, status, *deletions = world.requests()
    assert (read, status) == ("GET revision", STATUS)
    assert sorted(deletions) == ["DELETE configmaps/a", "DELETE configmaps/old"]  # sent at the same time
    assert world.reconcile() is NEVER
    assert world.requests() == ["LIST revision", "DELETE revision", "MERGE BundleDeployment"]
    assert set(world.cluster.objects) == {NAMESPACE}


def test_a_claim_outlives_its_bundle(world: World) -> None:
    world.shelf.put("claim", claim(), config_map("a"))
    installed(world, "claim")
    world.delete()
    world.settle()
    assert set(world.cluster.objects) == {NAMESPACE, CLAIM}


ORPHANS = [
    pytest.param({"deletionPolicy": "Orphan"}, [], id="by policy"),
    pytest.param({}, ["orphan"], id="by --cascade=orphan"),
]


@pytest.mark.parametrize(("spec", "finalizers"), ORPHANS)
def test_what_is_orphaned_stays_and_belongs_to_nobody(
    world: World, spec: dict[str, Any], finalizers: list[str]
) -> None:
    installed(world, **spec)
    world.delete(*finalizers)
    for _ in range(3):
        world.reconcile()
    assert world.exists(A, OLD)
    metadata = world.cluster.objects[A]["metadata"]
    assert names.OWNER_LABEL not in metadata["labels"]
    assert "ownerReferences" not in metadata
    assert not [path for path in world.cluster.objects if "/secrets/" in path]


def collect_garbage(world: World) -> None:
    """Strip the references from all objects, then the finalizer from their owner, as for `--cascade=orphan`."""
    for path in (A, CLAIM):
        world.cluster.patch(path, {"metadata": {"ownerReferences": None}})
    world.cluster.patch(PATH, {"metadata": {"finalizers": [names.FINALIZER]}})


@pytest.mark.parametrize("refused", [[], [A], [CLAIM], [A, CLAIM]], ids=["unseen", "object", "claim", "both"])
@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "restart"])
def test_what_is_orphaned_is_released_although_the_collector_is_faster(
    world: World, refused: list[str], *, restarts: bool
) -> None:
    world.shelf.put("claim", config_map("a"), claim())
    installed(world, "claim")
    world.delete("orphan")
    if refused:
        for path in refused:
            conflict = ApiError(409, "Conflict", "it has changed")
            world.cluster.faults[f"MERGE {path}"] = [conflict, conflict]
        world.reconcile()
    collect_garbage(world)
    if restarts:
        world.restart()
    world.settle()
    for path in (A, CLAIM):
        metadata = world.cluster.objects[path]["metadata"]
        assert metadata["annotations"] == {names.RELEASED_FROM: "shop"}
        assert names.OWNER_LABEL not in metadata["labels"]
    assert world.watches.deployments.find("shop") is None


def test_what_never_had_a_reference_is_released_although_no_pass_saw_that_it_is_orphaned(world: World) -> None:
    world.shelf.put("claim", claim())
    installed(world, "claim")
    world.delete()
    world.watches.deployments.orphaned.add("uid-shop")
    world.settle()
    assert world.cluster.objects[CLAIM]["metadata"]["annotations"] == {names.RELEASED_FROM: "shop"}
    assert world.watches.deployments.find("shop") is None


def test_nothing_is_repaired_once_it_is_being_deleted(world: World) -> None:
    installed(world)
    world.cluster.patch(OLD, {"metadata": {"finalizers": ["example.com/hold"]}})
    world.cluster.edit(A, data={"a": "x"})
    world.delete()
    for _ in range(3):
        world.reconcile()
    assert not [request for request in world.requests() if request.startswith(("APPLY", "TRY"))]


def said(world: World) -> str:
    return next(each.message for each in world.deployment.status.conditions if each.type == "Ready")


def test_a_deletion_is_told_in_an_event_for_each_pass_that_deletes(world: World) -> None:
    installed(world)
    world.delete()
    world.settle()
    told = [note.text for note in world.events.notes if note.reason == "Deleted"]
    assert told == ["ConfigMap shop/a, ConfigMap shop/old: deleted with the BundleDeployment"]


def test_pruning_is_told_in_one_event(world: World) -> None:
    installed(world)
    world.shelf.put("v2", config_map("a"))
    world.wish("v2")
    world.settle()
    told = [note.text for note in world.events.notes if note.reason == "Pruned"]
    revision = short(world.deployment.status.revision)
    assert told == [f"ConfigMap shop/old: deleted because revision {revision} does not contain it"]


def test_what_blocks_a_deletion_is_named_after_a_while_and_waited_for(world: World) -> None:
    installed(world)
    world.cluster.patch(OLD, {"metadata": {"finalizers": ["example.com/hold"]}})
    world.delete()
    world.reconcile()
    assert world.reconcile().after == pytest.approx(SLOW_AFTER_SECONDS, abs=1)
    assert said(world) == "1 object left to delete"
    world.seconds += SLOW_AFTER_SECONDS
    assert world.reconcile().after == pytest.approx(BLOCKED_AFTER_SECONDS - SLOW_AFTER_SECONDS, abs=1)
    assert world.conditions["Ready"] == "False Deleting"
    assert said(world) == "1 object left to delete; waiting for ConfigMap shop/old (finalizer example.com/hold)"
    world.seconds += BLOCKED_AFTER_SECONDS
    world.reconcile()
    assert world.conditions["Ready"] == "False DeletionBlocked"
    assert said(world).startswith("waiting for ConfigMap shop/old (finalizer example.com/hold); ")
    world.cluster.remove(OLD)
    world.settle()
    assert PATH not in world.cluster.objects


def test_a_paused_one_is_deleted_all_the_same(world: World) -> None:
    paused(world)
    world.delete()
    world.settle()
    assert set(world.cluster.objects) == {NAMESPACE}


def test_a_deletion_waits_while_an_api_group_that_may_hold_objects_does_not_answer(world: World) -> None:
    paused(world)
    world.delete()
    world.watches.objects.failing = {"ConfigMap"}
    assert world.reconcile().failed
    assert names.FINALIZER in world.cluster.objects[PATH]["metadata"]["finalizers"]


def test_one_that_never_got_our_finalizer_is_none_of_our_business(world: World) -> None:
    world.wish("v1")
    world.delete("example.com/other")
    assert world.reconcile() is NEVER
    assert world.requests() == []


def test_one_that_is_gone_is_forgotten(world: World) -> None:
    installed(world)
    world.cluster.remove(PATH)
    assert world.reconcile() is NEVER
    assert NAME not in world.watches.objects.needed


def test_one_that_was_made_again_before_anybody_saw_it_gone_has_nothing_of_the_one_before(world: World) -> None:
    world.wish("v3")
    world.reconcile()
    assert world.conditions["Ready"] == "False NotFound"
    world.delete()
    world.reconcile()
    assert PATH not in world.cluster.objects
    sources = [{"kind": "image", "image": {"ref": "v1"}}]
    world.cluster.put(manifest(NAME, metadata={"uid": "uid-again"}, spec={"sources": sources}))
    world.settle()
    assert world.conditions == READY


# a kill between any two requests


def outcome(world: World) -> dict[str, Any]:
    """Return all that is on the cluster but for versions and identities that differ from run to run."""
    return {
        path: {key: value for key, value in each.items() if key in ("data", "spec")}
        for path, each in world.cluster.objects.items()
        if "/secrets/" not in path
    }


def upgrade(world: World) -> None:
    world.wish("v2")


def repair(world: World) -> None:
    world.cluster.edit(A, data={"a": "x"})
    world.cluster.remove(OLD)


def deletion(world: World) -> None:
    world.delete()


def recreation(world: World) -> None:
    world.wish("fixed-v2")


def fixed(value: str) -> Json:
    metadata = {"name": "a", "annotations": {names.RECREATE: "true"}}
    return {**config_map("a", value), "metadata": metadata, "immutable": True}


@pytest.mark.parametrize("change", [upgrade, repair, recreation, deletion])
def test_a_kill_between_any_two_requests_loses_nothing(change: Callable[[World], None], world: World) -> None:
    world.shelf.put("fixed-v1", fixed("1"), config_map("old"))
    world.shelf.put("fixed-v2", fixed("2"), config_map("old"))
    installed(world, "fixed-v1" if change is recreation else "v1")
    before = {path: dict(value) for path, value in world.cluster.objects.items()}
    change(world)
    world.settle()
    expected, done = outcome(world), 0
    while True:
        world.cluster.objects = {path: dict(value) for path, value in before.items()}
        world.restart()
        world.settle()
        change(world)
        world.cluster.taken()
        world.cluster.dies_after = done
        try:
            for _ in range(3):
                world.reconcile()
        except KilledError:
            pass
        killed = len(world.cluster.requests) >= done
        world.cluster.dies_after = None
        world.restart()
        world.settle()
        assert outcome(world) == expected, f"killed after {done} requests"
        if not killed:
            break
        done += 1
    assert done > 2


# what the controller itself may not, or cannot


def test_what_is_not_known_yet_is_waited_for_without_a_word(world: World) -> None:
    world.watches.objects.unsynced = {"ConfigMap"}
    world.wish("v1")
    assert world.reconcile().after == 30
    world.cluster.taken()
    assert world.reconcile().after == 30
    assert world.requests() == []
    assert world.conditions == {}
    world.watches.objects.unsynced = set()
    world.settle()
    assert world.conditions == READY


def test_that_sources_are_being_resolved_is_told_when_it_takes_longer_than_three_seconds(world: World) -> None:
    world.background.busy = True
    world.wish("v1")
    for _ in range(2):
        assert world.reconcile().after == 3
        assert world.conditions == {}
        world.memory.first_seen[KNOWN] -= 1.5
    world.reconcile()
    assert world.conditions["Unpacked"] == "False Fetching"


def test_that_sources_were_resolved_is_not_told_before_their_content_is_there_or_takes_long(world: World) -> None:
    world.background.building = True
    world.wish("v1")
    assert world.reconcile().after == 3
    assert STATUS not in world.requests()
    world.background.building = False
    world.reconcile()
    assert world.requests().count(STATUS) == 2
    assert world.conditions == READY


def test_a_failure_stays_while_it_is_tried_again_after_a_restart(world: World) -> None:
    fails(world)
    world.settle()
    world.restart()
    world.background.busy = True
    world.cluster.taken()
    world.reconcile()
    assert STATUS not in world.requests()
    world.memory.first_seen[KNOWN] -= 20
    world.reconcile()
    assert world.conditions["Ready"] == "False Fetching"


def test_while_a_kind_is_not_watched_it_is_looked_for_by_the_clock(world: World) -> None:
    installed(world)
    assert world.reconcile().after is None
    world.watches.objects.unwatched.add("ConfigMap")
    assert world.reconcile().after == UNKNOWN_SECONDS
    world.cluster.look_again = 2.0
    assert world.reconcile().after == 2.0


def test_an_optional_object_is_applied_when_its_kind_comes(world: World) -> None:
    metadata = {"name": "w", "namespace": "shop", "annotations": {names.OPTIONAL: "true"}}
    optional = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
    world.shelf.put("v3", config_map("a"), optional)
    installed(world, "v3")
    assert list(world.deployment.status.skipped_kinds) == ["example.com/v1/Widget"]
    world.cluster.served.append(Resource("example.com", "v1", "Widget", "widgets", namespaced=True, verbs=VERBS))
    world.settle()
    assert world.exists("/apis/example.com/v1/namespaces/shop/widgets/w")
    assert list(world.deployment.status.skipped_kinds) == []


def test_a_restart_waits_until_the_recorded_kinds_are_known(world: World) -> None:
    installed(world)
    world.restart()
    world.watches.objects.unsynced = {"ConfigMap"}
    world.cluster.edit(A, data={"a": "x"})
    assert world.reconcile().after == 30
    assert world.requests() == []


def test_a_refusal_of_its_own_state_is_published(world: World) -> None:
    refusal = ApiError(403, "Forbidden", 'User "rukpak" cannot patch resource "secrets"')
    world.wish("v1")
    (path,) = (request.removeprefix("APPLY ") for request in _requests_of(world) if "/secrets/revision." in request)
    world.cluster.faults[f"APPLY {path}"] = [refusal] * 3
    requeue = world.reconcile()
    assert requeue.failed
    assert world.conditions["Stalled"] == "True Forbidden"
    assert not world.exists(A)


def _requests_of(world: World) -> list[str]:
    """Return what an install of the same asks for on another cluster."""
    other = World()
    other.shelf = world.shelf
    other.restart()
    other.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    other.wish("v1")
    other.reconcile()
    other.applier.stop()
    return other.cluster.taken()


def test_a_server_that_is_not_there_ends_the_pass_and_says_nothing(world: World) -> None:
    world.wish("v1")
    world.cluster.faults[f"PATCH {PATH}/status"] = [ApiError(503, "ServiceUnavailable", "no")]
    with pytest.raises(ApiError):
        world.reconcile()
    world.settle()
    assert world.conditions == READY


# when to come back


class Requeued(NamedTuple):
    name: str
    before: Callable[[World], object]
    after: float | None


def unreachable(world: World) -> None:
    digest = world.shelf.tags["v1"]
    world.shelf.contents[digest] = BundleError(Reason.UNREACHABLE, "no answer")
    world.wish("v1")


def invalid(world: World) -> None:
    digest = world.shelf.tags["v1"]
    world.shelf.contents[digest] = BundleError(Reason.INVALID_BUNDLE, "no kind")
    world.wish("v1")


def pruned_in_vain(world: World) -> None:
    upgraded(world)
    world.cluster.faults[f"DELETE {OLD}"] = [ApiError(503, "ServiceUnavailable", "no")]


def pruned_too_fast(world: World) -> None:
    upgraded(world)
    world.cluster.faults[f"DELETE {OLD}"] = [ApiError(429, "TooManyRequests", "no", retry_after=7)]


REQUEUES = [
    Requeued("an installed one waits for events", installed, None),
    Requeued("a failure that ends automatically is retried soon", unreachable, 1),
    Requeued("one that another user may fix is retried slowly", lambda world: world.wish("v9"), 300),
    Requeued("one that only another spec can fix is checked, too", invalid, 300),
    Requeued("so is one that waits for an event", foreign, 300),
    Requeued("a prune that was not answered is tried soon", pruned_in_vain, 1),
    Requeued("a prune is tried when the API server has asked for it", pruned_too_fast, 7),
]


@pytest.mark.parametrize("case", REQUEUES, ids=attrgetter("name"))
def test_when_to_come_back(case: Requeued, world: World) -> None:
    case.before(world)
    assert world.reconcile().after == case.after


def test_a_workload_on_its_way_brings_a_pass_when_its_deadline_ends(world: World) -> None:
    installed(world, "rolling")
    after = world.reconcile().after
    assert after is not None
    assert after == pytest.approx(600, abs=5)


def test_what_failed_and_is_not_wanted_any_more_keeps_nothing_busy(world: World) -> None:
    world.cluster.faults[f"TRY {OLD}"] = [ApiError(503, "ServiceUnavailable", "no")] * 3
    world.wish("v1")
    world.reconcile()
    world.wish("v2")
    world.settle()
    world.seconds += 10
    assert [world.reconcile().after for _ in range(3)][-1] is None


def test_the_end_of_a_wait_lets_it_be_tried_at_once(world: World) -> None:
    foreign(world)
    world.reconcile()
    world.cluster.remove(A)
    assert world.reconciler.memories.cluster_changed() == [NAME]
    world.settle()
    assert world.conditions == READY
    assert world.reconciler.memories.cluster_changed() == []


def interrupted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that has to wait for an object ends before it says so."""

    def follow(_name: str, topic: Topic, _objects: object, *, share: str = "") -> None:
        if topic is Topic.CONTESTED:
            raise ApiError(0, "Unreachable", "no answer")

    foreign(world)
    monkeypatch.setattr(world.follower, "follow", follow)
    with pytest.raises(ApiError):
        world.reconcile()
    monkeypatch.undo()


def silent(world: World, _: pytest.MonkeyPatch) -> None:
    """A pass that has to wait for an object says nothing, as another spec is being tried again."""
    fails(world)
    world.settle()
    world.restart()
    world.background.busy = True
    world.cluster.put({**config_map("a"), "metadata": {"name": "a", "namespace": "shop"}})
    world.cluster.taken()
    world.reconcile()
    assert STATUS not in world.requests()


@pytest.mark.parametrize("waits", [interrupted, silent])
def test_the_end_of_a_wait_that_was_not_told_counts(
    waits: Callable[[World, pytest.MonkeyPatch], None], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(world, monkeypatch)
    world.cluster.remove(A)
    world.reconciler.memories.cluster_changed()
    world.reconcile()
    assert world.exists(A)


def test_what_somebody_else_has_is_watched_until_it_is_ours_or_not_wanted_any_more(world: World) -> None:
    foreign(world)
    world.reconcile()
    assert world.follower.names(Topic.CONTESTED) == ["a"]
    world.reconcile()  # it is not tried again yet, and still watched
    assert world.follower.names(Topic.CONTESTED) == ["a"]
    world.cluster.remove(A)
    world.reconciler.memories.objects_changed(NAME)
    world.settle()
    assert (world.conditions, world.follower.names(Topic.CONTESTED)) == (READY, [])


@pytest.mark.parametrize("owner", ["", "other"], ids=["nobody's", "another bundle's"])
def test_what_is_on_its_way_out_is_awaited(world: World, owner: str) -> None:
    labels = {names.OWNER_LABEL: owner} if owner else {}
    about = {"namespace": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": labels}
    world.cluster.put({**config_map("a", "x"), "metadata": {"name": "a", "finalizers": ["example.com/x"], **about}})
    world.wish("v1", collisionProtection="None")
    world.reconcile()
    assert world.conditions["Installed"] == "False Applying"
    assert world.follower.names(Topic.CONTESTED) == ([] if owner else ["a"])
    assert world.reconciler.memories.cluster_changed() == [NAME]


# others


def test_a_revision_that_is_made_while_orphans_are_looked_for_is_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = world.cluster.list

    def list_late(path: str, **options: Any) -> Iterator[Json]:
        monkeypatch.undo()
        installed(world)
        return listed(path, **options)

    monkeypatch.setattr(world.cluster, "list", list_late)
    remove_orphans(world.cluster.client, names.DEFAULT_NAMESPACE)
    assert [path for path in world.cluster.objects if "/secrets/" in path]


def test_revisions_of_what_is_gone_are_removed(world: World) -> None:
    installed(world)
    remove_orphans(world.cluster.client, names.DEFAULT_NAMESPACE)
    assert [path for path in world.cluster.objects if "/secrets/" in path]
    world.cluster.remove(PATH)
    world.cluster.put(manifest("other"))
    remove_orphans(world.cluster.client, names.DEFAULT_NAMESPACE)
    assert not [path for path in world.cluster.objects if "/secrets/" in path]


def kept(world: World) -> list[Json]:
    return [value for path, value in world.cluster.objects.items() if "/secrets/" in path]


def test_the_revisions_of_one_that_was_made_again_are_not_the_new_one_s(world: World) -> None:
    installed(world)
    world.cluster.remove(PATH)
    world.cluster.put(manifest(metadata={"uid": "another"}))
    remove_orphans(world.cluster.client, names.DEFAULT_NAMESPACE)
    assert not kept(world)


def test_a_revision_that_has_lost_its_label_is_found_and_gets_it_back(world: World) -> None:
    installed(world)
    (secret,) = kept(world)
    world.cluster.patch(STORE + secret["metadata"]["name"], {"metadata": {"labels": None}})
    remove_orphans(world.cluster.client, names.DEFAULT_NAMESPACE)
    assert kept(world)[0]["metadata"]["labels"] == {names.REVISION_LABEL: NAME}


def test_a_revision_without_its_label_goes_with_its_bundle_deployment(world: World) -> None:
    installed(world)
    (secret,) = kept(world)
    world.cluster.patch(STORE + secret["metadata"]["name"], {"metadata": {"labels": None}})
    world.cluster.remove(PATH)
    remove_orphans(world.cluster.client, names.DEFAULT_NAMESPACE)
    assert not kept(world)


def test_what_was_written_again_meanwhile_is_no_orphan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(world)
    (secret,) = kept(world)
    world.cluster.remove(PATH)
    listed = world.cluster.list

    def list_late(path: str, **options: Any) -> Iterator[Json]:
        found = listed(path, **options)
        if "bundledeployments" in path:
            world.cluster.patch(STORE + secret["metadata"]["name"], {"metadata": {"annotations": {"a": "b"}}})
        return found

    monkeypatch.setattr(world.cluster, "list", list_late)
    remove_orphans(world.cluster.client, names.DEFAULT_NAMESPACE)
    assert kept(world)


def test_one_whose_finalizer_was_taken_off_is_swept_up_after(world: World) -> None:
    installed(world)
    world.cluster.remove(PATH)
    world.reconcile()
    assert world.sweeps.times == 1


def test_one_that_was_torn_down_leaves_nothing_to_sweep(world: World) -> None:
    installed(world)
    world.delete()
    world.settle()
    world.reconcile()
    assert (PATH in world.cluster.objects, world.sweeps.times) == (False, 0)


def test_transitions_are_told_in_events(world: World) -> None:
    installed(world)
    fails(world)
    world.settle()
    assert [note.reason for note in world.events.notes] == ["Ready", "NotFound"]


def test_a_restart_says_nothing_else_of_what_was_never_installed(world: World) -> None:
    world.wish("v1", paused=True)
    world.settle()
    before = world.deployment.status
    assert world.conditions["Healthy"] == "Unknown NotInstalled"
    world.restart()
    world.settle()
    assert world.deployment.status == before


def test_a_failed_attempt_at_the_content_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    fails(world)
    for _ in range(3):
        world.settle()
    logged = [vars(each) for each in caplog.records if each.message == "revision not available"]
    assert [(each["BundleDeployment"], each["reason"]) for each in logged] == [("shop", "NotFound")]


# a spec that changes, or that nobody can serve


def test_a_spec_that_changes_while_pins_are_recorded_is_not_taken_for_the_one_that_was_resolved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to that write brings the newer spec; with the older pins it would be called installed for ever."""
    json_patch = world.cluster.json_patch

    def change_meanwhile(path: str, operations: list[Json], **options: Any) -> Response:
        if world.deployment.metadata.generation == 1 and "sources" in operations[-1]["value"]:
            world.wish("v2")
        return json_patch(path, operations, **options)

    monkeypatch.setattr(world.cluster, "json_patch", change_meanwhile)
    world.wish("v1")
    with pytest.raises(ApiError, match="has changed"):  # what the pass has found is of the older spec
        world.reconcile()
    world.settle()
    assert [pin.resolved.partition("@")[0] for pin in world.deployment.status.sources] == ["v2"]
    assert world.exists(B)
    assert world.conditions == READY


@pytest.mark.parametrize("interval", ["", "30s"], ids=["without polls", "with polls"])
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"kind": "image", "image": {"ref": "UPPER"}}, "InvalidReference"),
        ({"kind": "example.com/s3", "parameters": {}}, "UnknownSourceKind"),
    ],
    ids=["a reference that cannot be one", "a kind that nobody serves"],
)
def test_a_source_that_nobody_can_serve_is_told(world: World, source: Json, reason: str, interval: str) -> None:
    installed(world)
    world.wish("", sources=[{**source, "pollInterval": interval}])
    world.settle()
    assert world.conditions["Installed"] == f"False {reason}"
    assert world.exists(A, OLD)


# accounts


DEPLOYER = "system:serviceaccount:shop:deployer"
DEPLOYER_PATH = "/api/v1/namespaces/shop/serviceaccounts/deployer"


def with_account(world: World, uid: str = "uid-deployer", name: str = "deployer") -> None:
    world.cluster.objects[DEPLOYER_PATH.replace("deployer", name)] = {
        "kind": "ServiceAccount",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": uid},
    }


def acted(world: World) -> dict[str, set[str]]:
    """Return what was asked for as whom, by the first word of the request."""
    return {user: {request.partition(" ")[0] for who, request in world.cluster.acted if who == user}
            for user, _ in world.cluster.acted}  # fmt: skip


def test_objects_are_read_applied_repaired_and_pruned_as_the_account(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    installed(world, "v2", serviceAccountName="deployer")
    assert world.conditions == READY
    assert acted(world) == {DEPLOYER: {"GET", "TRY", "APPLY", "DELETE"}}


def test_it_goes_as_the_account_that_applied_it_whatever_the_spec_says_by_now(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    world.wish("missing", serviceAccountName="other")
    run(world)
    world.cluster.acted.clear()
    world.delete()
    world.settle()
    assert acted(world) == {DEPLOYER: {"DELETE"}}
    assert not world.exists(PATH)


def test_without_its_account_nothing_is_applied(world: World) -> None:
    world.wish("v1", serviceAccountName="deployer")
    world.reconcile()
    assert not world.exists(A)
    assert world.conditions["Installed"] == "False ServiceAccountNotFound"
    with_account(world)
    world.settle()
    assert world.conditions == READY


def test_another_account_is_checked_at_once_although_nothing_is_to_be_done(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    world.wish("v1", serviceAccountName="other")
    world.reconcile()
    assert world.conditions["Installed"] == "False ServiceAccountNotFound"
    assert world.conditions["Healthy"] == "True Healthy"
    world.restart()
    world.reconcile()
    assert world.conditions["Installed"] == "False ServiceAccountNotFound"
    with_account(world, name="other")
    world.settle()
    assert world.conditions == READY


def reviews(world: World) -> list[str]:
    """Return as whom rights were reviewed."""
    return [user for user, request in world.cluster.acted if request.endswith("/selfsubjectaccessreviews")]


def test_rights_are_reviewed_only_for_another_account_and_once(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    installed(world, serviceAccountName="deployer", progressDeadline="9m")
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    assert reviews(world) == []
    with_account(world, name="other")
    installed(world, serviceAccountName="other")
    assert world.conditions == READY
    once = [DEPLOYER.replace("deployer", "other")] * 4
    assert reviews(world) == once
    installed(world, "v2", serviceAccountName="other")
    assert reviews(world) == once


def test_with_a_default_account_that_is_the_one(world: World) -> None:
    with_account(world)
    world.policy = AccountPolicy(default="deployer")
    world.restart()
    installed(world)
    assert acted(world) == {DEPLOYER: {"GET", "TRY"}}


def test_what_was_installed_without_an_account_is_not_repaired_where_one_is_demanded(world: World) -> None:
    installed(world)
    world.policy = AccountPolicy(required=True)
    world.restart()
    world.cluster.edit(A, data={"a": "x"})
    world.reconcile()
    assert world.cluster.objects[A]["data"] == {"a": "x"}
    assert world.conditions["Ready"] == "False InsecureRefused"


# what only looks like ours


def forged(world: World, manifest: Json) -> str:
    """Put an object with all marks of the BundleDeployment, and return its path."""
    uid = world.deployment.metadata.uid
    owner = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": NAME, "uid": uid, "controller": True}
    metadata = {
        **manifest["metadata"],
        "namespace": "shop",
        "labels": {names.OWNER_LABEL: NAME},
        "annotations": {names.OWNER_UID: uid, names.PRUNE: "true"},
        **({"ownerReferences": [owner]} if manifest["kind"] == "ConfigMap" else {}),
    }
    world.cluster.put({**manifest, "metadata": metadata})
    return world.cluster.path({**manifest, "metadata": metadata})


def told(world: World, reason: str) -> list[str]:
    return [note.text for note in world.events.notes if note.reason == reason]


STRAYS = {"a ConfigMap": config_map("stray"), "a claim": {**claim(), "metadata": {"name": "stray"}}}


@pytest.mark.parametrize("stray", STRAYS.values(), ids=STRAYS)
def test_what_no_revision_names_is_told_of_once_and_left_alone(stray: Json, world: World) -> None:
    world.shelf.put("v1", config_map("a"), config_map("old"), claim())
    installed(world)
    path = forged(world, stray)
    before = world.cluster.objects[path]
    world.settle()
    assert len(told(world, "Stray")) == 1
    upgraded(world)
    world.settle()
    assert world.conditions == READY | {"Drifted": "True Strays"}
    assert not world.exists(OLD)
    world.restart()
    world.settle()
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert world.cluster.objects[path] == before


def test_strays_that_are_planted_one_after_the_other_are_no_flood_of_events(world: World) -> None:
    installed(world)
    for index in range(3):
        forged(world, config_map(f"stray-{index}"))
        world.settle()
    assert len(told(world, "Stray")) == 1
    world.restart()
    world.settle()
    assert [text.partition(":")[0].count("stray-") for text in told(world, "Stray")] == [1, 3]


def test_what_several_upgrades_left_goes_with_the_last_of_them(world: World) -> None:
    """Of three revisions none is healthy; each names what the one before lacks."""
    installed(world)
    for tag, name in (("one", "b"), ("two", "c")):
        world.shelf.put(tag, config_map(name), workload())
        world.wish(tag)
        world.settle()
    world.restart()
    world.shelf.put("three", config_map("d"))
    stray = forged(world, config_map("stray"))
    installed(world, "three")
    left = sorted(path.rpartition("/")[2] for path in world.cluster.objects if "/configmaps/" in path)
    assert (world.conditions, left) == (READY | {"Drifted": "True Strays"}, ["d", "stray"])
    assert world.exists(stray)


def test_what_is_never_pruned_is_known_by_name_when_that_is_changed(world: World) -> None:
    installed(world, prune="Never")
    for tag in ("v2", "rolling"):
        installed(world, tag, prune="Never")
    stray = forged(world, config_map("stray"))
    world.restart()
    installed(world, "rolling", prune="AfterApply")
    assert not world.exists(OLD)
    assert not world.exists(B)
    assert world.exists(A, WEB, stray)


def test_very_many_that_are_left_are_known_by_the_revisions_that_have_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rukpak.controller.reconcile.inventory.write_left", lambda left: (MORE,) if left else ())
    test_what_is_never_pruned_is_known_by_name_when_that_is_changed(world)
    assert len(world.revision_store.digests(NAME)) == 1


def lose_revisions(world: World) -> None:
    for path in [path for path in world.cluster.objects if "/secrets/revision." in path]:
        world.cluster.remove(path)
    world.restart()


def test_without_any_revision_nothing_is_taken_away_by_its_marks(world: World) -> None:
    world.shelf.put("claim", config_map("a"), claim())
    installed(world, "claim")
    lose_revisions(world)
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert world.exists(A, CLAIM)  # the first is the garbage collector's
    [text] = told(world, "RevisionLost")
    assert "PersistentVolumeClaim shop/data: not deleted" in text


def test_without_any_revision_objects_are_deleted_if_an_administrator_says_so(world: World) -> None:
    installed(world)
    lose_revisions(world)
    world.cluster.patch(PATH, {"metadata": {"annotations": {names.TEARDOWN_AS: names.CONTROLLER}}})
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert not world.exists(A)


def test_without_any_revision_objects_are_deleted_with_the_rights_of_the_account(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    lose_revisions(world)
    world.cluster.acted.clear()
    world.delete()
    world.settle()
    assert not world.exists(A)
    assert acted(world) == {DEPLOYER: {"DELETE"}}


# where the account is gone


def claim_that_goes() -> Json:
    return {**claim(), "metadata": {"name": "data", "annotations": {names.PRUNE: "true"}}}


def test_where_the_account_is_gone_nobody_takes_anything_away(world: World) -> None:
    with_account(world)
    world.shelf.put("claim", config_map("a"), claim_that_goes())
    installed(world, "claim", serviceAccountName="deployer")
    world.cluster.remove(DEPLOYER_PATH)
    before = world.cluster.objects[CLAIM]
    world.delete()
    world.reconcile()
    assert not world.exists(PATH)
    assert world.cluster.objects[CLAIM] == before
    [text] = told(world, "ServiceAccountNotFound")
    assert "PersistentVolumeClaim shop/data: not deleted" in text


def test_where_the_account_is_gone_an_administrator_can_let_the_controller_delete(world: World) -> None:
    with_account(world)
    world.shelf.put("claim", config_map("a"), claim_that_goes())
    installed(world, "claim", serviceAccountName="deployer")
    world.cluster.remove(DEPLOYER_PATH)
    world.cluster.patch(PATH, {"metadata": {"annotations": {names.TEARDOWN_AS: names.CONTROLLER}}})
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert not world.exists(A)
    assert not world.exists(CLAIM)


def test_what_the_account_may_neither_delete_nor_change_stays_and_blocks_nothing(world: World) -> None:
    with_account(world)
    world.shelf.put("claim", config_map("a"), claim())
    installed(world, "claim", serviceAccountName="deployer")
    denied = f'User "{DEPLOYER}" cannot patch resource "persistentvolumeclaims" in API group "" in the namespace "shop"'
    world.cluster.faults[f"MERGE {CLAIM}"] = [ApiError(403, "Forbidden", denied) for _ in range(2)]
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert names.OWNER_LABEL in world.cluster.objects[CLAIM]["metadata"]["labels"]
    assert told(world, "Forbidden")


# a recreated account


def replace_account(world: World) -> None:
    """Delete the account and have another made under its name."""
    world.cluster.remove(DEPLOYER_PATH)
    with_account(world, "uid-of-another")


def replace_namespace(world: World) -> None:
    """Delete the namespace with its objects, and let another user recreate both."""
    for path in [path for path in world.cluster.objects if path.startswith(NAMESPACE)]:
        world.cluster.remove(path)
    world.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "uid-of-another"}})
    with_account(world, "uid-of-another")


def run(world: World) -> None:
    """Run passes: each looks which account it is."""
    for _ in range(4):
        world.reconcile()


def used(world: World) -> tuple[str, str]:
    found = world.deployment.status.account
    assert found
    return found.namespace_uid, found.service_account_uid


REPLACED = {"ServiceAccountReplaced": replace_account, "NamespaceReplaced": replace_namespace}


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
@pytest.mark.parametrize("reason", REPLACED)
def test_where_another_has_come_nothing_is_done_until_somebody_accepts_it(
    world: World, reason: str, restarts: bool
) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    before = used(world)
    REPLACED[reason](world)
    if restarts:
        world.restart()
    world.cluster.acted.clear()
    if world.exists(A):
        world.cluster.edit(A, data={"a": "theirs"})
    run(world)
    assert world.conditions["Installed"] == f"False {reason}"
    assert world.conditions["Stalled"] == f"True {reason}"
    assert used(world) == before
    assert acted(world) == {}
    now = next(text for text in world.message("Installed").split('"') if text.endswith("/uid-of-another"))
    world.cluster.patch(PATH, {"metadata": {"annotations": {names.ACCEPTED_ACCOUNT: now}}})
    world.settle()
    assert world.conditions == READY
    assert "/".join(used(world)) == now
    assert world.cluster.objects[A]["data"] == {"a": "1"}


def test_a_change_of_the_spec_accepts_it_too(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    replace_namespace(world)
    run(world)
    assert not world.exists(A)
    installed(world, "v2", serviceAccountName="deployer")
    assert world.conditions == READY


def test_a_change_of_the_spec_before_the_account_was_replaced_does_not_accept_it(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    world.cluster.remove(DEPLOYER_PATH)
    world.wish("v2", serviceAccountName="deployer")
    run(world)
    with_account(world, "uid-of-another")
    run(world)
    assert world.conditions["Installed"] == "False ServiceAccountReplaced"
    assert not world.exists(B)


def test_a_change_that_writes_nothing_does_not_accept_a_later_account(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    installed(world, serviceAccountName="deployer", progressDeadline="5m")
    replace_namespace(world)
    run(world)
    assert world.conditions["Installed"] == "False NamespaceReplaced"


def test_which_account_it_is_outlives_a_status_that_is_lost(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    world.cluster.objects[PATH]["status"] = {}
    world.restart()
    replace_namespace(world)
    run(world)
    assert world.conditions["Installed"] == "False NamespaceReplaced"
    assert not world.exists(A)


def test_what_a_release_before_did_not_record_is_recorded_when_there_is_something_to_do(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    world.cluster.objects[PATH]["status"].pop("account")
    world.restart()
    world.settle()
    assert world.deployment.status.account is None
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    assert used(world)[1] == "uid-deployer"
    assert world.conditions == READY


@pytest.mark.parametrize("reason", REPLACED)
def test_a_deletion_does_nothing_as_another(world: World, reason: str) -> None:
    with_account(world)
    world.shelf.put("claim", config_map("a"), claim_that_goes())
    installed(world, "claim", serviceAccountName="deployer")
    REPLACED[reason](world)
    forged(world, claim())  # it has been made again as well, with all marks
    before = world.cluster.objects[CLAIM]
    world.cluster.acted.clear()
    world.delete()
    world.reconcile()
    assert not world.exists(PATH)
    assert world.cluster.objects[CLAIM] == before
    assert acted(world) == {}
    assert told(world, reason)


def test_a_deletion_waits_while_the_controller_may_not_look_which_account_it_is(world: World) -> None:
    with_account(world)
    installed(world, serviceAccountName="deployer")
    world.cluster.faults[f"GET {NAMESPACE}"] = [ApiError(403, "Forbidden", "no")]
    world.delete()
    assert world.reconcile().failed
    assert world.conditions["Ready"] == "False Forbidden"
    world.settle()
    assert not world.exists(PATH)
    assert not world.exists(A)


# kinds that may not be watched


SECRET = "/api/v1/namespaces/shop/secrets/s"


def unwatched(world: World) -> None:
    """Install a Secret, of a kind that the controller may not list."""
    with_account(world)
    world.watches.objects.denied = {"Secret"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "eA=="}}
    world.shelf.put("secret", config_map("a"), secret)
    installed(world, "secret", serviceAccountName="deployer")


def restart_blind(world: World) -> None:
    world.restart()
    world.watches.objects.told.clear()


def test_that_drift_of_a_kind_is_not_seen_is_said(world: World) -> None:
    unwatched(world)
    assert world.conditions == READY
    assert world.deployment.status.warnings == (
        "v1/Secret: drift is not detected because the controller may not watch this kind; grant it list and watch",
    )


def test_what_is_not_watched_is_looked_at_after_a_restart_and_nothing_is_written(world: World) -> None:
    unwatched(world)
    restart_blind(world)
    world.cluster.taken()
    world.reconcile()
    assert {request.partition(" ")[0] for request in world.requests()} <= {"GET", "LIST"}
    world.reconcile()
    assert world.requests() == []


RESTARTS = pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])


@RESTARTS
def test_what_is_not_watched_goes_with_its_bundle(world: World, restarts: bool) -> None:
    unwatched(world)
    if restarts:
        restart_blind(world)
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert not world.exists(SECRET)


@RESTARTS
def test_what_is_not_watched_is_pruned(world: World, restarts: bool) -> None:
    unwatched(world)
    if restarts:
        restart_blind(world)
    installed(world, "v1", serviceAccountName="deployer")
    assert world.conditions == READY
    assert not world.exists(SECRET)
    world.reconcile()
    assert told(world, "Stray") == []


def test_what_is_not_watched_and_may_not_be_read_blocks_no_deletion(world: World) -> None:
    unwatched(world)
    denied = f'User "{DEPLOYER}" cannot get resource "secrets" in API group "" in the namespace "shop"'
    world.cluster.faults[f"GET {SECRET}"] = [ApiError(403, "Forbidden", denied) for _ in range(9)]
    world.delete()
    world.settle()
    assert not world.exists(PATH)
    assert told(world, "Forbidden")


def test_who_lacks_rights_is_known_until_it_has_them(world: World) -> None:
    with_account(world)
    denied = ApiError(403, "Forbidden", f'User "{DEPLOYER}" cannot patch resource "configmaps" in API group "" '
                      'in the namespace "shop"')  # fmt: skip
    world.cluster.faults[f"TRY {A}"] = [denied]
    world.wish("v1", serviceAccountName="deployer")
    world.reconcile()
    assert world.follower.lacking == {NAME}
    assert world.conditions["Installed"] == "False Forbidden"
    world.reconciler.memories.rights_changed(NAME)
    world.cluster.taken()
    assert world.reconcile().after == RIGHTS_SECONDS  # the API server may not go by the new ones yet
    assert f"TRY {A}" not in world.cluster.taken()
    world.seconds += RIGHTS_SECONDS
    world.settle()
    assert (world.follower.lacking, world.conditions) == (set(), READY)


# a spec that cannot be read

UNREADABLE = [{"kind": "http", "http": {"url": "http://127.0.0.1\u0085:9/a"}}]


def test_a_new_spec_that_cannot_be_read_is_told_in_status(world: World) -> None:
    world.wish("v1", sources=UNREADABLE)
    world.settle()
    assert world.conditions["Ready"] == "False InvalidConfig"
    assert "spec.sources[0].http.url: " in world.message("Ready")
    assert world.shelf.calls == []


def test_what_is_installed_stays_while_the_spec_cannot_be_read_and_is_not_called_ready(world: World) -> None:
    installed(world)
    world.wish("v1", sources=UNREADABLE)
    assert world.reconcile() == NEVER
    assert world.conditions["Ready"] == "False InvalidConfig"
    assert {A, OLD} <= world.cluster.objects.keys()
    installed(world)
    assert world.conditions == READY


def test_the_deletion_of_one_that_cannot_be_read_goes_on(world: World) -> None:
    installed(world)
    world.wish("v1", sources=UNREADABLE)
    world.settle()
    world.delete()
    world.settle()
    assert not {A, OLD, PATH} & world.cluster.objects.keys()


# bugs


def bug_in_pass(world: World, identity: str, bug: BaseException) -> None:
    """Have a pass end with a bug, as a worker does."""
    token = reconcile_id.set(identity)
    try:
        world.reconciler.report_bug(NAME, bug)
    finally:
        reconcile_id.reset(token)


def test_a_bug_is_shown_once_beside_the_last_state_and_goes_with_the_next_pass(world: World) -> None:
    installed(world)
    before = world.deployment.status
    bug_in_pass(world, "111", KeyError("secret"))
    assert world.conditions == {
        "Unpacked": "True Unpacked",
        "Installed": "True Installed",
        "Healthy": "True Healthy",
        "Ready": "False InternalError",
        "Reconciling": "True InternalError",
    }
    assert world.message("Ready").startswith("reconcileID 111: the controller has a bug (KeyError);")
    assert world.events.notes[-1].reason == "InternalError"

    world.requests()
    bug_in_pass(world, "222", KeyError("another secret"))
    assert world.requests() == []
    bug_in_pass(world, "333", ValueError())
    assert world.message("Ready").startswith("reconcileID 333: the controller has a bug (ValueError);")

    world.reconcile()
    after = world.deployment.status
    assert world.conditions == READY
    assert after.model_dump(exclude={"conditions"}) == before.model_dump(exclude={"conditions"})
    bug_in_pass(world, "444", ValueError())
    assert world.message("Ready").startswith("reconcileID 444:")


def test_a_bug_after_a_change_of_the_spec_leaves_the_conditions_of_the_last_generation(world: World) -> None:
    installed(world)
    world.wish("v2")
    bug_in_pass(world, "111", KeyError())
    found = {each.type: each.observed_generation for each in world.deployment.status.conditions}
    assert found == {"Unpacked": 1, "Installed": 1, "Healthy": 1, "Ready": 2, "Reconciling": 2}
    assert world.deployment.status.observed_generation == 2
    world.settle()
    assert world.conditions == READY
    assert world.cluster.objects[A]["data"] == {"a": "2"}


def test_a_bug_in_the_first_pass_is_all_that_status_shows(world: World) -> None:
    world.wish("v1")
    bug_in_pass(world, "111", KeyError())
    assert world.conditions == {"Ready": "False InternalError", "Reconciling": "True InternalError"}
    world.settle()
    assert world.conditions == READY


def test_a_bug_in_a_pass_over_what_is_gone_is_shown_nowhere(world: World) -> None:
    bug_in_pass(world, "111", KeyError())
    assert world.requests() == []


def test_a_bug_during_deletion_is_shown_and_the_deletion_goes_on(world: World) -> None:
    installed(world)
    world.delete()
    bug_in_pass(world, "111", KeyError())
    assert world.conditions["Ready"] == "False InternalError"
    for _ in range(5):
        world.reconcile()
    assert PATH not in world.cluster.objects
    assert A not in world.cluster.objects


def test_a_bug_in_a_rendering_is_shown_with_its_first_id_however_often_it_is_retried(world: World) -> None:
    installed(world)
    world.wish("v2")
    digest = world.shelf.tags["v2"]
    intact = world.shelf.contents[digest]
    for identity in ("111", "222"):
        token = reconcile_id.set(identity)
        world.shelf.contents[digest] = InternalError(KeyError())
        reconcile_id.reset(token)
        world.reconcile()
        assert world.conditions["Ready"] == "False InternalError"
        assert world.message("Ready").startswith("reconcileID 111: ")
        world.seconds += 10
    assert world.conditions["Unpacked"] == "False InternalError"
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    world.shelf.contents[digest] = intact
    world.seconds += 400
    world.settle()
    assert world.conditions == READY


# a cluster that was restored from a backup


def test_until_bundle_deployments_are_known_again_nothing_is_done_with_them(world: World) -> None:
    installed(world)
    world.reconciler.start_over()
    world.wish("v2")
    world.cluster.taken()
    assert (world.reconcile(), world.requests()) == (UNSYNCED, [])
    world.watches.deployments.synced = True
    world.settle()
    assert world.deployment.status.installed_revision == world.deployment.status.revision


def test_a_pass_that_began_before_writes_nothing_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(world)
    world.wish("v2")
    begin = world.reconciler._begin

    def restore_and_begin(deployment: BundleDeployment) -> Context:
        world.reconciler.start_over()
        return begin(deployment)

    monkeypatch.setattr(world.reconciler, "_begin", restore_and_begin)
    world.cluster.taken()
    assert (world.reconcile(), world.requests(), world.reconciler.memories._memories) == (UNSYNCED, [], {})


def test_a_pass_that_is_overtaken_applies_nothing_and_writes_no_status(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(world)
    world.wish("v2")
    announce = installation.announce

    def announce_and_restore(work: Work) -> Work:
        announced = announce(work)
        world.reconciler.start_over()
        world.cluster.taken()
        return announced

    monkeypatch.setattr(installation, "announce", announce_and_restore)
    with pytest.raises(ApiError, match="listed again"):
        world.reconcile()
    assert world.requests() == []
    assert world.cluster.objects[A]["data"] == {"a": "1"}


def test_what_is_remembered_of_the_newer_state_does_not_count(world: World) -> None:
    installed(world)
    before = world.memory
    world.reconciler.start_over()
    assert world.memory is not before
