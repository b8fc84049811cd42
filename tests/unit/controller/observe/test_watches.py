from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api import names
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.health import HEALTHY, NOT_OBSERVED
from controller.observe.managed.kind_watch import KindWatch
from controller.observe.records import ObjectKey, Record, project
from controller.observe.watches import Watches
from hack.control_plane.waiting import wait_for
from tests.support.deployments import manifest
from tests.support.fake_api import FakeApi, Fault
from tests.support.fake_cluster import CLAIMS as CLAIM_RESOURCE
from tests.support.fake_cluster import CONFIG_MAPS, WORKLOADS, FakeCluster

DEPLOYMENTS = "/apis/core.rukpak.io/v1alpha2/bundledeployments"
MAPS, WEBS, WIDGETS = "/api/v1/configmaps", "/apis/apps/v1/deployments", "/apis/example.com/v1/widgets"
NEW_WIDGETS = "/apis/example.com/v2/widgets"
CLAIMS, CLASSES = "/api/v1/persistentvolumeclaims", "/apis/storage.k8s.io/v1/storageclasses"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
OTHERS = (DEFINITIONS, SERVICES, "/api/v1/namespaces")
CONFIG_MAP, WORKLOAD = CONFIG_MAPS.gvk, WORKLOADS.gvk
WIDGET = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
KEY = ObjectKey("", "ConfigMap", "shop", "a")
SECONDS = 10


class Told:
    """A listener that notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._lock = threading.Lock()

    def deployment_changed(self, name: str) -> None:
        self._note(f"deployment {name}")

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        self._note(f"{'objects' if urgent else 'health'} {name}")

    def cluster_changed(self) -> None:
        self._note("cluster")

    def _note(self, text: str) -> None:
        with self._lock:
            self.heard.append(text)

    def taken(self) -> list[str]:
        """Return what was heard since the last call."""
        with self._lock:
            heard, self.heard = self.heard, []
            return heard


class ToldWatches(Watches):
    """Watches that say when their listener has been told of the first lists: that is after these are known."""

    def __init__(self, client: Client, discovery: Discovery, listener: Told) -> None:
        self.all_are_told, self.kinds_are_told = threading.Event(), threading.Event()
        super().__init__(client, discovery, listener)

    def _deployments_synced(self) -> None:
        super()._deployments_synced()
        self.all_are_told.set()

    def _definitions_settled(self) -> None:
        super()._definitions_settled()
        self.kinds_are_told.set()


class World:
    """Watches of a small API server; its kinds are those of a FakeCluster."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.cluster, self.told = api, FakeCluster(CONFIG_MAPS, WORKLOADS, WIDGET, CLAIM_RESOURCE), Told()
        self.watches = ToldWatches(api.client(), self.cluster.discovery, self.told)

    def deployment(self, name: str = "shop", **parts: Any) -> None:
        value = manifest(name, **parts)
        metadata = value.pop("metadata")
        self.api.put(DEPLOYMENTS, name, uid=metadata["uid"], about=metadata, **value)

    def managed(self, owner: str = "shop", name: str = "a", *, path: str = MAPS, **content: Any) -> dict[str, Any]:
        labels = {names.OWNER_LABEL: owner} if owner else {}
        annotations = content.pop("annotations", {})
        about = {"namespace": "shop", "labels": labels, "annotations": annotations}
        about["managedFields"] = [{"manager": names.field_manager(owner), "operation": "Apply"}]
        return self.api.put(path, name, about=about, **content)

    def start(self) -> None:
        """Begin, and wait until everything that is there is known and told."""
        self.watches.start()
        self.wait(self.watches.all_are_told.is_set, "BundleDeployments are known")
        self.wait(lambda: all(self.api.lists(path) for path in OTHERS), "the rest is listed")
        self.wait(self.watches.kinds_are_told.is_set, "custom kinds are known")

    def know(self, *kinds: GroupVersionKind, name: str = "shop") -> None:
        """Have kinds watched, wait for their first list, and forget what was told of it."""
        self.api.frozen.set()  # a list that ends before both are noted is told to one of them, or to nobody
        unknown = self.watches.need(name, kinds)
        self.watches.need("last", kinds)  # whoever came last is told last
        self.api.frozen.clear()
        self.wait(lambda: self.told.heard.count("objects last") == len(unknown), "the kinds are known")
        self.watches.forget("last")
        self.told.taken()

    def wait(self, condition: Callable[[], object], what: str) -> None:
        wait_for(condition, SECONDS, lambda: f"{what}; heard {self.told.heard}")

    def hear(self, text: str) -> list[str]:
        """Wait until something is told; return all that was."""
        self.wait(lambda: text in self.told.heard, text)
        return self.told.taken()


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi(DEPLOYMENTS, MAPS, WEBS, WIDGETS, NEW_WIDGETS, CLAIMS, CLASSES, *OTHERS) as api:
        made = World(api)
        yield made
        made.watches.stop()


# BundleDeployments


class Change(NamedTuple):
    name: str
    parts: dict[str, Any]
    told: bool


CHANGES = [
    Change("another spec asks for a pass", {"metadata": {"generation": 2}}, told=True),
    Change(
        "so does the annotation",
        {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: "now"}}},
        told=True,
    ),
    Change("so does a finalizer", {"metadata": {"finalizers": ["orphan"]}}, told=True),
    Change("so does a deletion", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, told=True),
    Change("so does what cannot be read any more", {"spec": {"format": 3}}, told=True),
    Change("our own status does not", {"status": {"revision": "sha256:" + "a" * 64}}, told=False),
    Change("another annotation does not", {"metadata": {"annotations": {"example.com/a": "b"}}}, told=False),
    Change("a label does not", {"metadata": {"labels": {"a": "b"}}}, told=False),
]


@pytest.mark.parametrize("case", CHANGES, ids=attrgetter("name"))
def test_what_of_a_bundle_deployment_asks_for_a_pass(case: Change, world: World) -> None:
    world.deployment()
    world.start()
    world.hear("deployment shop")
    world.deployment(**case.parts)
    world.deployment("marker")
    heard = world.hear("deployment marker")
    assert ("deployment shop" in heard) is case.told


def test_one_that_is_gone_asks_for_a_last_pass(world: World) -> None:
    world.deployment()
    world.start()
    world.hear("deployment shop")
    world.api.delete(DEPLOYMENTS, "shop")
    world.hear("deployment shop")
    assert world.watches.deployment("shop") is None


def test_all_are_asked_for_when_they_are_known_at_first(world: World) -> None:
    for name in ("a", "b"):
        world.deployment(name)
    world.start()
    world.wait(lambda: {"deployment a", "deployment b"} <= set(world.told.heard), "both are told")


def test_one_that_cannot_be_read_does_not_hide_the_others(world: World) -> None:
    world.deployment("odd", spec={"sources": "none"})
    world.deployment("good")
    world.start()
    assert world.watches.deployment("odd") is None
    assert world.watches.deployment("good") is not None
    assert world.watches.deployment_names() == {"odd", "good"}
    assert world.watches.exists("odd", "uid-odd")
    assert not world.watches.exists("odd", "another")


def test_the_kinds_that_status_records_are_watched_from_the_start(world: World) -> None:
    world.deployment(status={"managedKinds": ["v1/ConfigMap"]})
    world.managed()
    world.start()
    world.wait(lambda: world.watches.managed("shop"), "its objects are known")


def test_the_reply_to_a_write_is_known_at_once(world: World) -> None:
    world.deployment()
    world.start()
    value = {**manifest(status={"revision": "sha256:" + "b" * 64})}
    value["metadata"] = {**value["metadata"], "resourceVersion": "999"}
    world.watches.learn_deployment(value)
    known = world.watches.deployment("shop")
    assert known is not None
    assert known.status.revision == "sha256:" + "b" * 64


def test_one_that_a_reply_said_is_gone_is_not_known_any_more_but_one_of_its_name_may_be(world: World) -> None:
    world.deployment()
    world.start()
    world.watches.forget_deployment("shop", "uid-another")
    assert world.watches.deployment("shop") is not None
    world.watches.forget_deployment("shop", "uid-shop")
    assert world.watches.deployment("shop") is None
    assert world.watches.deployment_names() == set()


# managed objects


def define(world: World, *, stored: str = "v1", announces: str = "") -> None:
    """Have the kind of WIDGET defined: two versions, one of them stored, and perhaps one that announces a status."""
    status: dict[str, Any] = {"properties": {"status": {"properties": {"conditions": {}}}}}
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == stored,
            "schema": {"openAPIV3Schema": status if version == announces else {}},
        }
        for version in ("v1", "v2")
    ]
    world.api.put(
        DEFINITIONS,
        "widgets.example.com",
        spec={
            "group": WIDGET.group,
            "names": {"kind": WIDGET.kind, "plural": WIDGET.plural},
            "scope": "Namespaced",
            "versions": versions,
        },
        status={"conditions": [{"type": "Established", "status": "True"}]},
    )


def test_objects_are_filed_under_the_owner_that_their_label_names(world: World) -> None:
    world.managed("shop", "a")
    world.managed("bar", "b")
    world.managed("", "nobodys")
    world.know(CONFIG_MAP)
    assert set(world.watches.managed("shop")) == {KEY}
    assert set(world.watches.managed("bar")) == {KEY._replace(name="b")}
    assert world.watches.managed("") == {}


def test_a_kind_whose_list_is_under_way_is_named_and_told_when_it_is_known(world: World) -> None:
    world.api.frozen.set()
    assert world.watches.need("shop", [CONFIG_MAP]) == ["ConfigMap"]
    assert world.watches.need("other", [CONFIG_MAP]) == ["ConfigMap"]
    world.api.frozen.clear()
    world.hear("objects shop")
    assert world.watches.need("shop", [CONFIG_MAP]) == []


def test_a_kind_is_watched_once_for_all(world: World) -> None:
    for name in ("a", "b"):
        world.know(CONFIG_MAP, name=name)
    assert world.api.lists(MAPS) == 1


def test_a_kind_that_is_not_served_has_no_objects_and_holds_nothing_up(world: World) -> None:
    world.start()
    gadget = GroupVersionKind("example.org", "v1", "Gadget")
    assert world.watches.need("shop", [gadget]) == []
    assert world.watches.is_namespaced(gadget) is None
    assert world.watches.is_namespaced(CONFIG_MAP) is True


def test_a_kind_that_may_not_be_listed_holds_nothing_up(world: World) -> None:
    world.api.watch_faults = [Fault(403)] * 100
    world.wait(lambda: not world.watches.need("shop", [CONFIG_MAP]), "it is not waited for")


def test_a_kind_that_is_served_at_another_version_is_watched_there(world: World) -> None:
    world.managed()
    world.know(GroupVersionKind("", "v2", "ConfigMap"))
    assert set(world.watches.managed("shop")) == {KEY}


def digest(value: str) -> dict[str, Any]:
    return {"annotations": {names.APPLIED_DIGEST: value}}


class Event(NamedTuple):
    name: str
    act: Callable[[World], object]
    expect: list[str]


EVENTS = [
    Event("a change of what a plan depends on is urgent", lambda w: w.managed(**digest("new")), ["objects shop"]),
    Event("a change of nothing of ours is not told", lambda w: w.managed(data={"a": "1"}, **digest("old")), []),
    Event("a new object is urgent", lambda w: w.managed(name="b"), ["objects shop"]),
    Event(
        "one that is gone is urgent, and may end the wait of another",
        lambda w: w.api.delete(MAPS, "a"),
        ["objects shop", "cluster"],
    ),
    Event(
        "one that changes hands concerns both",
        lambda w: w.managed("bar"),
        ["objects bar", "objects shop", "cluster"],
    ),
    Event(
        "one that was made again under its name concerns its owner",
        lambda w: w.api.put(MAPS, "a", uid="again", about={"namespace": "shop", "labels": {names.OWNER_LABEL: "shop"}}),
        ["objects shop"],
    ),
]


@pytest.mark.parametrize("case", EVENTS, ids=attrgetter("name"))
def test_what_an_event_tells(case: Event, world: World) -> None:
    world.managed(**digest("old"))
    world.know(CONFIG_MAP)
    case.act(world)
    world.managed("marker", "z")
    heard = [text for text in world.hear("objects marker") if text != "objects marker"]
    assert sorted(set(heard)) == sorted(case.expect)


def workload(world: World, ready: int) -> dict[str, Any]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]
    status = {"observedGeneration": 0, "conditions": conditions, **dict.fromkeys(counts, ready)}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}
    return world.managed(path=WEBS, apiVersion="apps/v1", kind="Deployment", spec=spec, status=status)


def test_a_change_of_health_alone_is_not_urgent(world: World) -> None:
    workload(world, ready=0)
    world.know(WORKLOAD)
    workload(world, ready=1)
    assert set(world.hear("health shop")) == {"health shop"}
    (record,) = world.watches.managed("shop").values()
    assert record.verdict == HEALTHY


def reply(version: str, *, owner: str = "shop", **metadata: Any) -> Record:
    about = {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": version}
    return project({"metadata": {**about, "labels": {names.OWNER_LABEL: owner}, **metadata}}, "", "ConfigMap")


def test_what_a_reply_said_is_known_before_the_watch_says_it(world: World) -> None:
    world.know(CONFIG_MAP)
    fresh = reply("500", annotations={names.APPLIED_DIGEST: "new"})
    assert world.watches.learn(fresh) is fresh
    assert world.watches.managed("shop") == {KEY: fresh}


def test_who_loses_an_object_by_an_apply_for_another_is_told(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    world.told.taken()
    world.watches.learn(reply("500", owner="other"))
    assert world.told.taken() == ["objects shop"]
    assert world.watches.managed("shop") == {}


def test_an_apply_of_ours_tells_nobody(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    world.told.taken()
    world.watches.learn(reply("500", annotations={names.APPLIED_DIGEST: "new"}))
    assert world.told.taken() == []


def test_an_older_event_does_not_hide_what_a_reply_said(world: World) -> None:
    world.know(CONFIG_MAP)
    fresh = reply("500", annotations={names.APPLIED_DIGEST: "new"})
    world.watches.learn(fresh)
    world.managed(**digest("old"))
    world.managed("marker", "z")
    world.hear("objects marker")
    assert world.watches.managed("shop")[KEY] is fresh


def test_what_is_not_watched_cannot_be_learnt(world: World) -> None:
    fresh = reply("500")
    assert world.watches.learn(fresh) is fresh
    assert world.watches.managed("shop") == {}


def test_an_apply_that_changed_nothing_leaves_the_health_that_is_known(world: World) -> None:
    value = workload(world, ready=1)
    world.know(WORKLOAD)
    unseen = project(value, "apps", "Deployment")
    assert world.watches.learn(unseen).verdict == HEALTHY


def test_what_nobody_needs_any_more_is_not_watched_and_not_kept(world: World) -> None:
    world.managed()
    for name in ("shop", "bar"):
        world.know(CONFIG_MAP, name=name)
    world.watches.forget("bar")
    assert world.watches.managed("shop")
    world.watches.need_only("shop", [WORKLOAD])
    assert world.watches.managed("shop") == {}
    world.watches.need("shop", [CONFIG_MAP])
    world.wait(lambda: world.api.lists(MAPS) == 2, "it is listed anew")


def watch_of(world: World, kind: GroupVersionKind) -> KindWatch:
    watch = world.watches._registry.find((kind.group, kind.kind))
    assert watch is not None
    return watch


def test_what_a_watch_tells_after_its_end_is_not_kept(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    ended = watch_of(world, CONFIG_MAP).reflector
    world.watches.need_only("shop", [WORKLOAD])
    world.watches._registry.file(KEY, ended)
    assert world.watches.managed("shop") == {}


# what health depends on beside the object


def widget(world: World, path: str = WIDGETS, **content: Any) -> None:
    world.managed(name="w", path=path, **content)


def verdict_of(world: World, name: str = "w") -> str:
    """Return what is said of an object; nothing while it is not known."""
    found = [record for key, record in world.watches.managed("shop").items() if key.name == name]
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
    assert world.watches.need("shop", [WIDGET.gvk]) == []


def test_a_custom_resource_is_not_judged_before_definitions_are_known(world: World) -> None:
    widget(world)
    assert world.watches.need("shop", [WIDGET.gvk]) == ["Widget"]
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
    world.wait(lambda: world.watches.need("shop", [WIDGET.gvk]) == [], "it is watched")
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
    (theirs,) = world.watches.managed("bar").values()
    assert theirs.verdict == HEALTHY


def test_other_health_checks_judge_anew_and_passes_wait_for_that(world: World) -> None:
    world.deployment()
    define(world)
    widget(world, spec={"age": "old"})
    world.start()
    world.know(WIDGET.gvk)
    world.api.frozen.set()
    world.deployment(spec={"healthChecks": [BROKEN_IF_OLD]}, metadata={"generation": 2})
    world.wait(lambda: world.watches.need("shop", [WIDGET.gvk]) == ["Widget"], "it is waited for")
    assert verdict_of(world) == "Healthy"
    world.api.frozen.clear()
    wait_for_verdict(world, "HealthCheckFailed")
    world.wait(lambda: world.watches.need("shop", [WIDGET.gvk]) == [], "it is not waited for")
    world.deployment(metadata={"generation": 3})
    wait_for_verdict(world, "Healthy")


def test_a_check_of_a_kind_without_a_rule_has_its_objects_read_in_full(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    assert verdict_of(world, "a") == ""
    world.deployment(spec={"healthChecks": [HEALTHY_ALWAYS]})
    world.start()
    world.wait(lambda: world.watches.deployment("shop"), "it is known")
    world.watches.need("shop", [CONFIG_MAP])
    wait_for_verdict(world, "HealthCheckNotMet", "a")
    assert world.watches.learn(reply("500")).verdict == NOT_OBSERVED


def claim(world: World) -> None:
    world.managed(name="data", path=CLAIMS, spec={"storageClassName": "disk"}, status={"phase": "Pending"})


def storage_class(world: World, mode: str) -> None:
    world.api.put(CLASSES, "disk", volumeBindingMode=mode)


def test_a_claim_is_judged_by_its_storage_class_and_again_when_that_changes(world: World) -> None:
    claim(world)
    storage_class(world, "WaitForFirstConsumer")
    assert world.watches.need("shop", [CLAIM_RESOURCE.gvk]) == ["PersistentVolumeClaim"]
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
    projection = world.watches._kinds._projection
    project_object = projection.project

    def judge(*args: Any, **options: Any) -> Record:
        monkeypatch.undo()
        record = project_object(*args, **options)
        change()
        return record

    monkeypatch.setattr(projection, "project", judge)


def test_a_storage_class_that_changes_while_claims_are_listed_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        storage_class(world, "Immediate")
        storage_class(world, "Immediate")  # when that is known the one before was told
        world.wait(is_known, "it is known")

    def is_known() -> bool:
        known = world.watches._classes.reflector.get(("", "disk"))
        return known is not None and known.resource_version == str(world.api.version)

    claim(world)
    storage_class(world, "WaitForFirstConsumer")
    changes_while_listing(world, monkeypatch, change)
    world.watches.need("shop", [CLAIM_RESOURCE.gvk])
    world.hear("objects shop")
    world.watches.need("shop", [CLAIM_RESOURCE.gvk])
    wait_for_verdict(world, "NotBound", "data")


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
    world.watches.need("shop", [WIDGET.gvk])
    wait_for_verdict(world, "HealthCheckFailed")


def test_storage_classes_that_may_not_be_read_leave_claims_undecided(world: World) -> None:
    del world.api.objects[CLASSES]
    claim(world)
    world.watches.need("shop", [CLAIM_RESOURCE.gvk])
    world.hear("objects shop")
    world.know(CLAIM_RESOURCE.gvk)
    assert verdict_of(world, "data") == "StorageClassUnreadable"


def test_without_claims_no_storage_class_is_read(world: World) -> None:
    world.start()
    world.know(CONFIG_MAP)
    assert not world.api.lists(CLASSES)


def test_only_of_a_workload_in_trouble_its_pods_are_known(world: World) -> None:
    for ready, expect in ((0, "app=web"), (1, "")):
        workload(world, ready)
        world.know(WORKLOAD)
        world.wait(lambda: [r.pods for r in world.watches.managed("shop").values()] == [expect], expect)  # noqa: B023


def test_who_has_objects_of_a_kind_that_cannot_be_looked_up_is_told_of_nevertheless(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()

    def resource(_kind: GroupVersionKind) -> Resource | None:
        raise ApiError(0, "Unreachable", "the API server did not answer")

    monkeypatch.setattr(world.cluster, "resource", resource)
    world.deployment(status={"managedKinds": ["v1/ConfigMap"]})
    world.hear("deployment shop")


@pytest.mark.parametrize("is_hook", [True, False])
def test_of_a_hook_whatever_changes_is_told_since_it_may_have_ended(world: World, is_hook: bool) -> None:
    annotations = {names.HOOK_RUN: "pre-install sha256:a"} if is_hook else {}
    world.managed(annotations=annotations)
    world.know(CONFIG_MAP)
    world.managed(annotations=annotations, status={"phase": "Succeeded"})
    world.managed(name="b")
    assert ("health shop" in world.hear("objects shop")) is is_hook


# what nobody knows


def test_of_a_kind_that_cannot_be_listed_nobody_knows_the_objects(world: World) -> None:
    world.start()
    world.api.watch_faults = [Fault(500)] * 1000
    world.watches.need("shop", [CONFIG_MAP])
    world.wait(lambda: not world.watches.need("shop", [CONFIG_MAP]), "nothing waits for it")
    assert world.watches.find_unknown("shop", [CONFIG_MAP]) == ["v1/ConfigMap"]
    world.api.watch_faults = []
    world.wait(lambda: not world.watches.find_unknown("shop", [CONFIG_MAP]), "it is listed")


@pytest.mark.parametrize("status", [403, 404])
def test_what_may_not_be_listed_is_not_waited_for(world: World, status: int) -> None:
    world.start()
    world.api.watch_faults = [Fault(status)] * 1000
    world.watches.need("shop", [CONFIG_MAP])
    world.wait(lambda: not world.watches.need("shop", [CONFIG_MAP]), "nothing waits for it")
    assert world.watches.find_unknown("shop", [CONFIG_MAP]) == []


def test_what_discovery_is_behind_is_looked_up_anew_where_it_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    world.cluster.served.remove(WIDGET)
    world.watches.need("shop", [WIDGET.gvk])
    monkeypatch.setattr(world.cluster, "refresh", lambda: world.cluster.served.append(WIDGET))
    world.api.frozen.set()
    assert world.watches.find_unknown("shop", [WIDGET.gvk]) == [str(WIDGET.gvk)]
    world.api.frozen.clear()
    world.wait(lambda: not world.watches.find_unknown("shop", [WIDGET.gvk]), "it is listed")


# what ends a wait


def test_a_definition_that_comes_makes_its_kind_known(world: World) -> None:
    world.start()
    world.api.watch_faults = [Fault(404)] * 2
    world.watches.need("shop", [WIDGET.gvk])
    world.wait(lambda: not world.api.watch_faults, "it is not served")
    world.managed(path=WIDGETS)
    define(world)
    heard = world.hear("cluster")
    assert "INVALIDATE" in world.cluster.requests
    world.wait(lambda: world.watches.managed("shop"), f"its objects are known; heard {heard}")


def test_who_has_objects_of_a_kind_is_told_when_its_definition_comes_later_than_they(world: World) -> None:
    world.cluster.served.remove(WIDGET)
    world.start()
    world.managed(path=WIDGETS)
    world.know(CONFIG_MAP, name="other")
    assert world.watches.need("shop", [WIDGET.gvk]) == []
    assert (world.watches.is_blind("shop"), world.watches.is_blind("other")) == (True, False)
    define(world)
    heard = world.hear("cluster")
    assert [text for text in heard if text.startswith("objects")] == ["objects shop"]
    world.watches.need("shop", [WIDGET.gvk])
    world.wait(lambda: world.watches.managed("shop"), "its objects are known")
    assert not world.watches.is_blind("shop")


def test_who_has_objects_of_an_aggregated_kind_is_told_when_its_service_changes(world: World) -> None:
    world.cluster.served.remove(WIDGET)
    world.start()
    world.know(CONFIG_MAP, name="other")
    world.watches.need("shop", [WIDGET.gvk])
    world.api.put(SERVICES, "v1.other.com")
    assert "objects shop" not in world.hear("cluster")
    world.api.put(SERVICES, "v1.example.com")
    assert [text for text in world.hear("cluster") if text.startswith("objects")] == ["objects shop"]


def test_a_namespace_ends_waits_and_has_nothing_to_do_with_discovery(world: World) -> None:
    world.start()
    world.api.put("/api/v1/namespaces", "shop")
    world.hear("cluster")
    assert not world.cluster.requests
