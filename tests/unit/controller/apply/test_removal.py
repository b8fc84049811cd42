"""Objects that are deleted, released or labeled, over a cluster in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.ownership import Disposal, Owner, RemovalCause, dispose, make_body
from rukpak.controller.apply.removal import Removal, Remover, mark_to_take_back, release
from rukpak.controller.apply.requests import Pool
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import Record, project
from tests.support.fake_cluster import CONFIG_MAPS, SERVED, VERBS, FakeCluster

CONFIG = ObjectKey("", "ConfigMap", "shop", "a")
CLAIM = ObjectKey("", "PersistentVolumeClaim", "shop", "data")
DEFINITION = ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com")
NAMESPACE = ObjectKey("", "Namespace", "", "shop")
KEEP = {"resource_policy": " Keep "}


class Case(NamedTuple):
    name: str
    key: ObjectKey
    prune: Disposal
    teardown: Disposal
    marks: Mapping[str, Any] = {}


# fmt: off
CASES = [
    Case("an ordinary object is deleted", CONFIG, Disposal.DELETE, Disposal.DELETE),
    Case("a claim keeps its data", CLAIM, Disposal.RELEASE, Disposal.RELEASE),
    Case("a claim that may be pruned is deleted", CLAIM, Disposal.DELETE, Disposal.DELETE, {"prune": "true"}),
    Case("a claim that must not is kept", CLAIM, Disposal.RELEASE, Disposal.RELEASE, {"prune": "false"}),
    Case("a definition goes with the bundle, if nobody uses it", DEFINITION, Disposal.RELEASE, Disposal.DELETE_UNUSED),
    Case("a definition that may be pruned goes with its revision", DEFINITION, Disposal.DELETE, Disposal.DELETE_UNUSED,
         {"prune": "true"}),
    Case("a Namespace goes if nobody uses it", NAMESPACE, Disposal.DELETE_UNUSED, Disposal.DELETE_UNUSED),
    Case("what our annotation keeps is kept", CONFIG, Disposal.RELEASE, Disposal.RELEASE, {"prune": "false"}),
    Case("what Helm's annotation keeps is kept, as loosely as Helm reads it", CONFIG, Disposal.RELEASE,
         Disposal.RELEASE, KEEP),
    Case("a kept Namespace is kept", NAMESPACE, Disposal.RELEASE, Disposal.RELEASE, KEEP),
    Case("another policy of Helm's keeps nothing", CONFIG, Disposal.DELETE, Disposal.DELETE,
         {"resource_policy": "delete"}),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_done_with_an_object_that_is_to_go(case: Case) -> None:
    record = Record(key=case.key, **case.marks)
    assert dispose(record, RemovalCause.PRUNE) is case.prune
    assert dispose(record, RemovalCause.TEARDOWN) is case.teardown
    assert dispose(record, RemovalCause.ORPHAN) is Disposal.RELEASE


# requests

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True, verbs=VERBS)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True, verbs=VERBS)
REVIEWS = Resource("", "v1", "Review", "reviews", namespaced=True, verbs=frozenset({"create"}))
CONFIG_PATH = "/api/v1/namespaces/shop/configmaps/a"
NAMESPACE_PATH = "/api/v1/namespaces/shop"
DEFINITION_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"


def manifest(kind: str, name: str, namespace: str = "shop", *, group: str = "", **metadata: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    api_version = f"{group}/v1" if group else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **place, **metadata}}


def ours(kind: str, name: str, namespace: str = "shop", *, group: str = "", **annotations: str) -> dict[str, Any]:
    marks = {names.OWNER_UID: "uid-foo", names.APPLIED_DIGEST: "v1:sha256:aa", **annotations}
    return manifest(kind, name, namespace, group=group, labels={names.OWNER_LABEL: "foo"}, annotations=marks)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(*SERVED, WIDGETS, EVENTS, REVIEWS)


def remover(cluster: FakeCluster, *stored: Resource) -> Remover:
    """Return what removes; of all kinds but these it is not known at which version they are stored."""
    known = {(each.group, each.kind): each for each in stored}
    in_turn = cast("Pool", SimpleNamespace(run=lambda function, items, _user: [function(item) for item in items]))
    return Remover(cluster.client, cluster.discovery, in_turn, lambda group, kind: known.get((group, kind)))


def remove(
    cluster: FakeCluster, *manifests: dict[str, Any], cause: RemovalCause = RemovalCause.TEARDOWN
) -> list[Removal]:
    records = [project(one, one["apiVersion"].rpartition("/")[0], one["kind"]) for one in map(cluster.put, manifests)]
    return remover(cluster).remove(records, "foo", cause, None)


def test_objects_go_in_reverse_order_of_applying(cluster: FakeCluster) -> None:
    removals = remove(
        cluster,
        ours("ConfigMap", "a"),
        ours("Deployment", "web", group="apps"),
        ours("Secret", "s"),
        cause=RemovalCause.PRUNE,
    )
    assert cluster.requests == [
        "DELETE /apis/apps/v1/namespaces/shop/deployments/web",
        "DELETE /api/v1/namespaces/shop/secrets/s",
        "DELETE /api/v1/namespaces/shop/configmaps/a",
    ]
    assert not any(removal.kept or removal.error for removal in removals)
    assert not cluster.objects


def test_what_is_being_deleted_already_is_left_to_it(cluster: FakeCluster) -> None:
    going = ours("ConfigMap", "a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not remove(cluster, going)
    assert not cluster.requests


def test_what_is_kept_is_released_and_says_why(cluster: FakeCluster) -> None:
    (removal,) = remove(cluster, ours("PersistentVolumeClaim", "data"))
    assert removal.kept == "kept because of its kind, its annotations or the deletionPolicy"
    metadata = cluster.objects["/api/v1/namespaces/shop/persistentvolumeclaims/data"]["metadata"]
    assert names.OWNER_LABEL not in metadata["labels"]
    assert metadata["annotations"] == {names.RELEASED_FROM: "foo"}


def test_each_object_is_logged_once_it_is_deleted_or_released(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.faults["DELETE /api/v1/namespaces/shop/secrets/s"] = [ApiError(403, "Forbidden", "no")]
    with caplog.at_level("INFO"):
        remove(cluster, ours("ConfigMap", "a"), ours("Secret", "s"), ours("PersistentVolumeClaim", "data"))
    lines = [(line.getMessage(), vars(line)["object"], vars(line)["cause"]) for line in caplog.records]
    assert sorted(lines) == [
        ("object deleted", "ConfigMap shop/a", "teardown"),
        (
            "object released",
            "PersistentVolumeClaim shop/data",
            "kept because of its kind, its annotations or the deletionPolicy",
        ),
    ]
    assert {vars(line)["BundleDeployment"] for line in caplog.records} == {"foo"}


def test_what_is_gone_is_gone(cluster: FakeCluster) -> None:
    cluster.faults[f"DELETE {CONFIG_PATH}"] = [ApiError(404, "NotFound", "gone")]
    (removal,) = remove(cluster, ours("ConfigMap", "a"))
    assert (removal.kept, removal.error) == ("", None)


def test_a_kind_that_is_not_served_has_no_objects(cluster: FakeCluster) -> None:
    record = Record(key=ObjectKey("example.org", "Gadget", "shop", "g"))
    (removal,) = remover(cluster).remove([record], "foo", RemovalCause.TEARDOWN, None)
    assert removal == Removal(record=record)
    assert not cluster.requests


@pytest.mark.parametrize(("cause", "verb"), [(RemovalCause.TEARDOWN, "DELETE"), (RemovalCause.ORPHAN, "MERGE")])
def test_a_custom_resource_goes_at_its_storage_version(cluster: FakeCluster, cause: RemovalCause, verb: str) -> None:
    stored = replace(WIDGETS, version="v0")
    cluster.served.append(stored)
    widget = cluster.put({**ours("Widget", "w", group="example.com"), "apiVersion": "example.com/v0"})
    [removal] = remover(cluster, stored).remove([project(widget, "example.com", "Widget")], "foo", cause, None)
    assert removal.error is None
    assert cluster.requests[-1] == f"{verb} /apis/example.com/v0/namespaces/shop/widgets/w"


def test_who_uses_a_definition_is_looked_up_at_the_storage_version(cluster: FakeCluster) -> None:
    definition = cluster.put(ours("CustomResourceDefinition", DEFINITION.name, "", group="apiextensions.k8s.io"))
    record = project(definition, *DEFINITION[:2])
    remover(cluster, replace(WIDGETS, version="v0")).remove([record], "foo", RemovalCause.TEARDOWN, None)
    assert cluster.requests == ["LIST /apis/example.com/v0/widgets", f"DELETE {DEFINITION_PATH}"]


def test_a_refusal_is_a_failure_of_that_object_alone(cluster: FakeCluster) -> None:
    cluster.faults[f"DELETE {CONFIG_PATH}"] = [ApiError(403, "Forbidden", "no", retry_after=7)]
    secret, config_map = remove(cluster, ours("ConfigMap", "a"), ours("Secret", "s"))
    assert secret.error is None
    assert config_map.error is not None
    assert (config_map.error.reason, config_map.error.retry_after) == (Reason.FORBIDDEN, 7)


def stale(cluster: FakeCluster, **change: Any) -> Removal:
    """Remove an object that has changed since it was seen."""
    seen = project(cluster.put(ours("ConfigMap", "a")), "", "ConfigMap")
    cluster.patch(CONFIG_PATH, change)
    return remover(cluster).remove([seen], "foo", RemovalCause.PRUNE, None)[0]


def test_an_object_whose_status_has_changed_since_goes_all_the_same(cluster: FakeCluster) -> None:
    removal = stale(cluster, status={"replicas": 1})
    assert removal.error is None
    assert cluster.requests == [f"DELETE {CONFIG_PATH}", f"GET {CONFIG_PATH}", f"DELETE {CONFIG_PATH}"]
    assert not cluster.objects


CHANGES: list[Any] = [
    pytest.param({"labels": {names.OWNER_LABEL: "bar"}}, id="another took it"),
    pytest.param({"annotations": {names.OWNER_UID: None}}, id="somebody took our mark off"),
    pytest.param({"annotations": {names.PRUNE: "false"}}, id="somebody wants it kept"),
]


@pytest.mark.parametrize("metadata", CHANGES)
def test_an_object_that_has_to_be_judged_again_stays(cluster: FakeCluster, metadata: dict[str, Any]) -> None:
    removal = stale(cluster, metadata=metadata)
    assert removal.error is not None
    assert removal.error.reason is Reason.API_UNAVAILABLE
    assert CONFIG_PATH in cluster.objects


def test_another_object_of_that_name_stays(cluster: FakeCluster) -> None:
    removal = stale(cluster, metadata={"uid": "another"})
    assert removal.error is None
    assert CONFIG_PATH in cluster.objects


class Use(NamedTuple):
    name: str
    others: tuple[dict[str, Any], ...]
    kept: str


SHARED = manifest("ConfigMap", "b", labels={names.OWNER_LABEL: "bar"}, ownerReferences=[{"name": "bar"}])
# fmt: off
NAMESPACES = [
    Use("an empty one goes", (), ""),
    Use("what the server puts there is nobody's",
         (manifest("ConfigMap", "kube-root-ca.crt"), manifest("Event", "web.17")), ""),
    Use("what goes anyway does not hold it", (manifest("Secret", "s", deletionTimestamp="2026-01-01T00:00:00Z"),), ""),
    Use("what its owner in it takes along does not", (manifest("Secret", "s", ownerReferences=[{"name": "x"}]),), ""),
    Use("somebody's object keeps it", (manifest("Secret", "s"),), "kept because Secret shop/s still exists"),
    Use("a claim that was released keeps it", (manifest("PersistentVolumeClaim", "data"),), "PersistentVolumeClaim"),
    Use("an object of another BundleDeployment keeps it", (SHARED,), "kept because ConfigMap shop/b still exists"),
    Use("objects elsewhere do not", (manifest("Secret", "s", "elsewhere"),), ""),
    Use("a custom resource keeps it", (manifest("Widget", "w", group="example.com"),), "Widget shop/w still exists"),
]
# fmt: on


@pytest.mark.parametrize("case", NAMESPACES, ids=attrgetter("name"))
def test_a_namespace_goes_if_nothing_of_others_is_left_in_it(case: Use, cluster: FakeCluster) -> None:
    for other in case.others:
        cluster.put(other)
    (removal,) = remove(cluster, ours("Namespace", "shop", ""))
    assert case.kept in removal.kept
    assert (NAMESPACE_PATH in cluster.objects) is bool(case.kept)
    assert bool(removal.kept) is bool(case.kept)


DEFINITIONS = [
    Use("an unused one goes", (), ""),
    Use("our own custom resources go with it", (ours("Widget", "w", group="example.com"),), ""),
    Use(
        "somebody's keeps it",
        (manifest("Widget", "w", "x", group="example.com"),),
        "kept because Widget x/w still exists",
    ),
]


@pytest.mark.parametrize("case", DEFINITIONS, ids=attrgetter("name"))
def test_a_definition_goes_if_no_custom_resource_of_others_is_left(case: Use, cluster: FakeCluster) -> None:
    for other in case.others:
        cluster.put(other)
    definition = ours("CustomResourceDefinition", "widgets.example.com", "", group="apiextensions.k8s.io")
    (removal,) = remove(cluster, definition)
    assert removal.kept == case.kept
    assert (DEFINITION_PATH in cluster.objects) is bool(case.kept)


def test_what_cannot_be_looked_into_stays(cluster: FakeCluster) -> None:
    cluster.faults["LIST /apis/example.com/v1/widgets"] = [ApiError(500, "InternalError", "conversion webhook")]
    definition = ours("CustomResourceDefinition", "widgets.example.com", "", group="apiextensions.k8s.io")
    (removal,) = remove(cluster, definition)
    assert removal.error is not None
    assert DEFINITION_PATH in cluster.objects


KEY = ObjectKey("", "ConfigMap", "shop", "a")
PATH = "/api/v1/namespaces/shop/configmaps/a"
CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
OTHER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod"}
OWNER = Owner("foo", "uid-foo")
UNMARKED = {names.RELEASED_FROM: None}


@pytest.fixture
def released_cluster() -> FakeCluster:
    """A released_cluster with one object of ours, which another client has written to, too."""
    released_cluster = FakeCluster()
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}, "data": {}}
    released_cluster.client.apply(PATH, make_body(manifest, OWNER), manager="rukpak/foo", force=True)
    released_cluster.patch(PATH, {"data": {"color": "red"}, "metadata": {"annotations": {"example.com/a": "b"}}})
    released_cluster.taken()
    return released_cluster


def metadata(released_cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = released_cluster.objects[PATH]["metadata"]
    return found


def test_what_is_released_keeps_its_data_and_says_whose_it_was(released_cluster: FakeCluster) -> None:
    release(released_cluster.client, PATH, "foo")
    assert released_cluster.objects[PATH]["data"] == {"color": "red"}
    assert metadata(released_cluster)["labels"] == {}
    assert metadata(released_cluster)["annotations"] == {"example.com/a": "b", names.RELEASED_FROM: "foo"}
    assert "ownerReferences" not in metadata(released_cluster)
    assert released_cluster.requests == [f"GET {PATH}", f"MERGE {PATH}"]


def test_other_owners_and_other_managers_stay(released_cluster: FakeCluster) -> None:
    theirs = {"manager": "kubectl", "operation": "Update"}
    ours = metadata(released_cluster)["managedFields"]
    references = [*metadata(released_cluster)["ownerReferences"], OTHER]
    released_cluster.patch(PATH, {"metadata": {"managedFields": [*ours, theirs], "ownerReferences": references}})
    release(released_cluster.client, PATH, "foo")
    assert metadata(released_cluster)["managedFields"] == [theirs]
    assert metadata(released_cluster)["ownerReferences"] == [OTHER]


def test_where_nobody_else_has_an_entry_all_are_cleared_as_the_server_wants_it(released_cluster: FakeCluster) -> None:
    release(released_cluster.client, PATH, "foo")
    assert metadata(released_cluster)["managedFields"] == [{}]


def test_what_is_gone_is_released(released_cluster: FakeCluster) -> None:
    released_cluster.remove(PATH)
    release(released_cluster.client, PATH, "foo")
    assert released_cluster.requests == [f"GET {PATH}"]


def conflicts(count: int) -> list[ApiError]:
    return [ApiError(409, "Conflict", "it has changed") for _ in range(count)]


def test_one_that_changes_meanwhile_is_tried_once_more(released_cluster: FakeCluster) -> None:
    released_cluster.faults[f"MERGE {PATH}"] = conflicts(1)
    release(released_cluster.client, PATH, "foo")
    assert metadata(released_cluster)["annotations"][names.RELEASED_FROM] == "foo"


def test_one_that_goes_on_changing_is_given_up(released_cluster: FakeCluster) -> None:
    released_cluster.faults[f"MERGE {PATH}"] = conflicts(3)
    with pytest.raises(ApiError) as caught:
        release(released_cluster.client, PATH, "foo")
    assert caught.value.status == 409
    assert len(released_cluster.requests) == 4


def judged(released_cluster: FakeCluster, *references: Any) -> Record:
    """Release the object, have others refer to it, and return it as it is judged then."""
    release(released_cluster.client, PATH, "foo")
    changed = released_cluster.patch(PATH, {"metadata": {"ownerReferences": list(references), "annotations": UNMARKED}})
    return project(changed, "", "ConfigMap")


def test_an_object_that_another_controls_is_marked_as_ours_in_the_same_write(released_cluster: FakeCluster) -> None:
    record = judged(released_cluster, CONTROLLER, OTHER)
    released_cluster.taken()
    marked = mark_to_take_back(released_cluster.client, CONFIG_MAPS, record, "foo")
    assert metadata(released_cluster)["ownerReferences"] == [OTHER]
    assert metadata(released_cluster)["annotations"][names.RELEASED_FROM] == "foo"
    assert marked == metadata(released_cluster)
    assert released_cluster.requests == [f"GET {PATH}", f"MERGE {PATH}"]


def test_an_object_that_another_controls_is_not_read_again(released_cluster: FakeCluster) -> None:
    record = judged(released_cluster, CONTROLLER, OTHER)
    live = released_cluster.client.get(PATH).value
    released_cluster.taken()
    mark_to_take_back(released_cluster.client, CONFIG_MAPS, record, "foo", live=live)
    assert metadata(released_cluster)["ownerReferences"] == [OTHER]
    assert released_cluster.requests == [f"MERGE {PATH}"]


def test_an_object_that_nobody_controls_is_marked_without_being_read(released_cluster: FakeCluster) -> None:
    record = judged(released_cluster, OTHER)
    released_cluster.taken()
    mark_to_take_back(released_cluster.client, CONFIG_MAPS, record, "foo")
    assert metadata(released_cluster)["ownerReferences"] == [OTHER]
    assert released_cluster.requests == [f"MERGE {PATH}"]


def test_an_object_that_has_changed_since_it_was_judged_is_not_touched(released_cluster: FakeCluster) -> None:
    record = judged(released_cluster, CONTROLLER)
    released_cluster.patch(PATH, {"data": {"color": "green"}})
    with pytest.raises(ApiError) as caught:
        mark_to_take_back(released_cluster.client, CONFIG_MAPS, record, "foo")
    assert caught.value.status == 409
    assert metadata(released_cluster)["ownerReferences"] == [CONTROLLER]
