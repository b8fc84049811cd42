"""What the API server does on apply and deletion, as far as the controller builds on it (controller/apply/README.md).

No code of the controller but its client, and the two tests of drift: where one of these fails, the ground has moved.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import SECONDS, Manifest, config_map, definition
from tests.support.inside import ApiError, covers, entry_hash, entry_of
from tests.support.objects import (
    APPS,
    CORE,
    NOBODY,
    OURS,
    Place,
    deployment,
    labelled,
    make,
    managers,
    new_place,
    read,
    remove,
    service,
    template,
)

APPLY_PATCH = "application/apply-patch+yaml"


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    with new_place(cluster) as made:
        yield made


# the request


def test_the_reply_may_be_metadata_alone_with_managed_fields(place: Place) -> None:
    path = place.path("configmaps")
    first = place.client.apply(path, config_map("a"), manager=OURS, force=False)
    second = place.client.apply(path, config_map("a"), manager=OURS, force=False)
    assert (first.status, second.status) == (201, 200)
    assert first.value["kind"] == "PartialObjectMetadata"
    assert "data" not in first.value
    assert managers(first.value) == {OURS: "Apply"}


def test_an_identical_apply_changes_nothing(place: Place) -> None:
    # Of all kinds with pods the one that no controller writes to.
    path, pods = place.path("podtemplates", "web"), make("v1", "PodTemplate", "web", template=template("web"))
    first, second = (place.apply(path, pods) for _ in range(2))
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert entry_of(second, OURS) == entry_of(first, OURS)


def test_an_apply_that_sets_no_fields_changes_nothing(place: Place) -> None:
    path = f"/api/v1/namespaces/{place.namespace}"
    before = place.client.get(path).value["metadata"]
    reply = place.client.apply(path, make("v1", "Namespace", place.namespace), manager=OURS, force=False)
    after = reply.value["metadata"]
    assert (reply.status, after["resourceVersion"]) == (200, before["resourceVersion"])
    assert after["managedFields"] == before["managedFields"]


def test_without_force_equal_values_are_owned_by_both(place: Place) -> None:
    path = place.path("configmaps")
    place.apply(path, config_map("a"), "first")
    assert managers(place.apply(path, config_map("a"), force=False)) == {"first": "Apply", OURS: "Apply"}


def test_without_force_another_spelling_of_a_quantity_is_a_conflict(place: Place) -> None:
    path = place.path("resourcequotas")
    quotas = [make("v1", "ResourceQuota", "a", spec={"hard": {"requests.cpu": cpu}}) for cpu in ("1", "1000m")]
    place.apply(path, quotas[0], "first")
    with pytest.raises(ApiError) as caught:
        place.apply(path, quotas[1], force=False)
    assert caught.value.status == 409
    assert caught.value.causes[0].reason == "FieldManagerConflict"


def test_what_is_created_by_post_is_owned_by_an_update_for_ever(place: Place) -> None:
    place.client.create(place.path("configmaps", ""), config_map("a", one="1", two="2"), manager=OURS)
    applied = place.apply(place.path("configmaps"), config_map("a", one="1"))
    assert sorted(entry["operation"] for entry in applied["metadata"]["managedFields"]) == ["Apply", "Update"]
    assert applied["data"] == {"one": "1", "two": "2"}


def test_an_object_that_is_being_deleted_takes_an_apply(place: Place) -> None:
    path = place.path("configmaps")
    held = make("v1", "ConfigMap", "a", data={"color": "blue"})
    held["metadata"]["finalizers"] = ["example.com/hold"]
    place.apply(path, held)
    place.client.delete(path)
    assert place.apply(path, {**held, "data": {"color": "red"}})["metadata"]["deletionTimestamp"]
    place.client.merge_patch(path, {"metadata": {"finalizers": None}})


def test_a_namespace_and_a_definition_that_are_being_deleted_take_an_apply(place: Place, group: str) -> None:
    holds = {"finalizers": ["example.com/hold"]}
    place.apply(place.path("configmaps"), labelled(config_map("a"), **holds))
    spaces, held = f"/api/v1/namespaces/{place.namespace}", labelled(definition(group, "Widget"), **holds)
    defined = f"{CRDS}/widgets.{group}"
    place.client.apply(defined, {**held, "metadata": {**held["metadata"], **holds}}, manager=OURS, force=True)
    for path, body in ((spaces, make("v1", "Namespace", place.namespace)), (defined, held)):
        place.client.delete(path)
        reply = place.client.apply(path, body, manager=OURS, force=True)
        assert (reply.status, bool(reply.value["metadata"].get("deletionTimestamp"))) == (200, True)
    place.client.merge_patch(place.path("configmaps"), {"metadata": {"finalizers": None}})


def test_field_validation_softens_no_apply(place: Place) -> None:
    query = [("fieldManager", OURS), ("force", "true"), ("fieldValidation", "Ignore")]
    body = {**config_map("a"), "colour": "blue", "metadata": {"name": "a", "namespace": place.namespace}}
    with pytest.raises(ApiError) as caught:
        place.client.request("PATCH", place.path("configmaps"), query=query, body=body, content_type=APPLY_PATCH)
    assert (caught.value.status, "field not declared in schema" in caught.value.message) == (500, True)


def test_a_uid_is_a_conflict_where_there_is_nothing_and_immutable_where_there_is(place: Place) -> None:
    path, other = place.path("configmaps"), labelled(config_map("a"), uid=str(uuid.uuid4()))
    with pytest.raises(ApiError) as absent:
        place.apply(path, other)
    place.apply(path, config_map("a"))
    with pytest.raises(ApiError) as changed:
        place.apply(path, other)
    assert (absent.value.status, changed.value.status) == (409, 422)


def test_the_name_of_a_manager_has_at_most_128_bytes(place: Place) -> None:
    path = place.path("configmaps")
    place.apply(path, config_map("a"), "x" * 128)
    with pytest.raises(ApiError):
        place.apply(path, config_map("a"), "x" * 129)


def test_applying_at_another_version_replaces_the_entry(place: Place) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": reference, "maxReplicas": 3}
    for version in ("v1", "v2"):
        scaler = make(f"autoscaling/{version}", "HorizontalPodAutoscaler", "a", spec=spec)
        path = place.path("horizontalpodautoscalers", prefix=f"/apis/autoscaling/{version}")
        applied = place.apply(path, scaler)
    [entry] = applied["metadata"]["managedFields"]
    assert entry["apiVersion"] == "autoscaling/v2"


# drift


class Edit(NamedTuple):
    name: str
    manifest: Manifest
    patch: Manifest
    drift: bool
    prefix: str = CORE
    plural: str = "configmaps"


def _account(**content: Any) -> Manifest:
    return {**make("v1", "ServiceAccount", "a", **content), "automountServiceAccountToken": False}


def _template(**content: Any) -> Manifest:
    return {"spec": {"template": content}}


def _workload(**pod: Any) -> Manifest:
    made = deployment("a")
    made["spec"]["template"]["spec"] |= pod
    return made


SIDECAR = [{"name": "main", "image": "example.com/main:1"}, {"name": "sidecar", "image": "example.com/s:1"}]
RESTARTED = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
# fmt: off
EDITS = [
    Edit("a label of another client", config_map("a"), {"metadata": {"labels": {"x": "y"}}}, drift=False),
    Edit("the same value again", config_map("a"), {"data": {"color": "blue"}}, drift=False),
    Edit("kubectl rollout restart", deployment("a"), _template(**RESTARTED), False, APPS, "deployments"),
    Edit("secrets of a ServiceAccount", _account(), {"secrets": [{"name": "x"}]}, False, plural="serviceaccounts"),
    Edit("pull secrets of a ServiceAccount", _account(imagePullSecrets=[{"name": "a"}]),
         {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}, True, plural="serviceaccounts"),
    Edit("a selector", service("a"), {"spec": {"selector": {"app": "a", "x": "y"}}}, True, plural="services"),
    Edit("a toleration", _workload(tolerations=[{"key": "a", "operator": "Exists"}]),
         _template(spec={"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}),
         True, APPS, "deployments"),
    Edit("a node selector", _workload(nodeSelector={"a": "b"}), _template(spec={"nodeSelector": {"c": "d"}}), True,
         APPS, "deployments"),
]
# fmt: on


@pytest.mark.parametrize("case", EDITS, ids=attrgetter("name"))
def test_what_is_drift(place: Place, case: Edit) -> None:
    path = place.path(case.plural, prefix=case.prefix)
    before = place.apply(path, case.manifest)
    after = place.client.merge_patch(path, case.patch, manager="somebody").value
    entries = [entry_of(value, OURS) for value in (before, after)]
    assert (entry_hash(entries[0]) != entry_hash(entries[1])) is case.drift
    assert covers((entries[1] or {}).get("fieldsV1", {}), case.manifest) is not case.drift


def test_a_sidecar_is_no_drift(place: Place) -> None:
    path = place.path("deployments", prefix=APPS)
    before = place.apply(path, deployment("a"))
    add = [{"op": "add", "path": "/spec/template/spec/containers/-", "value": SIDECAR[1]}]
    after = place.client.json_patch(path, add).value
    assert len(after["spec"]["template"]["spec"]["containers"]) == 2
    assert entry_hash(entry_of(after, OURS)) == entry_hash(entry_of(before, OURS))


def test_after_a_wipe_our_apply_brings_an_owner_of_everything(place: Place) -> None:
    path = place.path("configmaps")
    place.apply(path, config_map("a", one="1", two="2"))
    wiped = place.client.merge_patch(path, {"metadata": {"managedFields": [{}]}}).value
    assert managers(wiped) == {}
    applied = place.apply(path, config_map("a", one="1"))
    assert managers(applied) == {OURS: "Apply", "before-first-apply": "Update"}
    assert applied["data"] == {"one": "1", "two": "2"}


# replicas


def _scale(place: Place, number: int, manager: str) -> Manifest:
    path = place.path("deployments", prefix=APPS)
    place.client.merge_patch(f"{path}/scale", {"spec": {"replicas": number}}, manager=manager)
    value: Manifest = place.client.get(path).value
    return value


def test_an_autoscaler_takes_replicas_once_and_then_leaves_our_entry_alone(place: Place) -> None:
    before = place.apply(place.path("deployments", prefix=APPS), deployment("a"))
    first, second = (_scale(place, number, "kube-controller-manager") for number in (2, 3))
    hashes = [entry_hash(entry_of(value, OURS)) for value in (before, first, second)]
    assert hashes[0] != hashes[1] == hashes[2]
    [entry] = [one for one in second["metadata"]["managedFields"] if one.get("subresource") == "scale"]
    assert (entry["manager"], entry["operation"]) == ("kube-controller-manager", "Update")


@pytest.mark.parametrize(("scaled", "left"), [(False, 1), (True, 3)], ids=["ours alone", "of another client, too"])
def test_replicas_that_are_dropped(place: Place, scaled: bool, left: int) -> None:
    path = place.path("deployments", prefix=APPS)
    place.apply(path, deployment("a", 2))
    if scaled:
        _scale(place, 3, "kubectl")
    without = deployment("a")
    del without["spec"]["replicas"]
    assert place.apply(path, without)["spec"]["replicas"] == left


def test_a_field_that_another_manager_of_ours_holds_stays_when_it_is_dropped(place: Place) -> None:
    path = place.path("deployments", prefix=APPS)
    place.apply(path, deployment("a", 2))
    place.apply(path, make("apps/v1", "Deployment", "a", spec={"replicas": 2}), "rukpak-initial/x")
    without = deployment("a")
    del without["spec"]["replicas"]
    assert place.apply(path, without)["spec"]["replicas"] == 2
    _scale(place, 5, "kubectl")
    assert place.apply(path, without)["spec"]["replicas"] == 5


# ownership


def _controlled(place: Place, name: str) -> Manifest:
    uid = place.apply(place.path("configmaps", name), config_map(name))["metadata"]["uid"]
    made = config_map("a")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


@pytest.mark.parametrize(("manager", "status"), [("rukpak/y", 422), (OURS, 200)], ids=["its own", "one for all"])
def test_a_second_controller_is_refused_only_to_a_manager_of_its_own(place: Place, manager: str, status: int) -> None:
    path, second = place.path("configmaps"), _controlled(place, "second")
    place.apply(path, _controlled(place, "first"))
    try:
        place.apply(path, second, manager)
    except ApiError as error:
        assert error.status == status
    else:
        assert status == 200


def test_a_stale_version_is_a_conflict_in_a_merge_patch_and_unspecific_in_a_json_patch(place: Place) -> None:
    path = place.path("configmaps")
    place.apply(path, config_map("a"))
    test = [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}]
    with pytest.raises(ApiError) as merged:
        place.client.merge_patch(path, {"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}})
    with pytest.raises(ApiError) as patched:
        place.client.json_patch(path, test)
    assert (merged.value.status, patched.value.status) == (409, 422)


def test_an_empty_apply_deletes_what_we_own(place: Place) -> None:
    path = place.path("configmaps")
    place.apply(path, config_map("a"))
    empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert "data" not in place.apply(path, empty)


# custom resources


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def group(place: Place) -> Iterator[str]:
    """An API group whose kind Widget, stored at v1 and served at v2, too, is deleted again."""
    name = f"{place.namespace}.example.com"
    yield name
    remove(place.client, f"{CRDS}/widgets.{name}")


def define(place: Place, group: str, **spec: Any) -> None:
    made = definition(group, "Widget")
    [stored] = made["spec"]["versions"]
    versions = [stored, {**stored, "name": "v2", "storage": False}]
    made["spec"] |= {"versions": versions, **spec}
    place.client.apply(f"{CRDS}/widgets.{group}", made, manager=OURS, force=True)


def status_of(place: Place, path: str) -> int:
    try:
        return place.client.get(path).status
    except ApiError as error:
        return error.status


def test_the_path_of_a_new_kind_is_not_found_or_not_ready_until_it_is_served(place: Place, group: str) -> None:
    define(place, group)
    seen: list[int] = []
    path = place.path("widgets", "", f"/apis/{group}/v1").rstrip("/")

    def is_served() -> bool:
        seen.append(status_of(place, path))
        return seen[-1] == 200

    wait_for(is_served, SECONDS, "served")
    # 429 while its cache is filled: "storage is (re)initializing", with Retry-After.
    assert set(seen) <= {404, 429, 200}


@pytest.mark.thorough
def test_without_its_conversion_webhook_a_kind_is_served_at_the_storage_version_alone(place: Place, group: str) -> None:
    review = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": NOBODY}}
    define(place, group, conversion={"strategy": "Webhook", "webhook": review})
    stored, other = (place.path("widgets", prefix=f"/apis/{group}/{version}") for version in ("v1", "v2"))
    wait_for(lambda: status_of(place, other.rpartition("/")[0]) == 200, SECONDS, "served")
    widget = make(f"{group}/v1", "Widget", "a", spec={"color": "blue"})
    assert place.apply(stored, widget)["spec"] == {"color": "blue"}

    collection = other.rpartition("/")[0]
    attempts: list[Callable[[], object]] = [
        lambda: place.client.get(other),
        lambda: place.client.get(other, metadata=True),
        lambda: list(place.client.list(collection)),
        lambda: list(place.client.list(collection, metadata=True)),
        lambda: place.apply(other, {**widget, "apiVersion": f"{group}/v2"}),
        lambda: place.client.delete(other),
    ]
    for attempt in attempts:
        with pytest.raises(ApiError) as caught:
            attempt()
        assert caught.value.status == 500
    place.client.delete(stored)


# deletion


def test_a_deletion_names_the_object_that_was_seen(place: Place) -> None:
    path = place.path("configmaps")
    metadata = place.apply(path, config_map("a"))["metadata"]
    others = ({"uid": str(uuid.uuid4())}, {"uid": metadata["uid"], "resource_version": "1"})
    for other in others:
        with pytest.raises(ApiError) as caught:
            place.client.delete(path, **other)
        assert caught.value.status == 409
    place.client.delete(path, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    assert read(place.client, path) is None


def owner_and_dependent(place: Place) -> tuple[str, str]:
    """Make an object that a finalizer holds, and one that it owns; returns their paths."""
    owner, dependent = (place.path("configmaps", name) for name in ("owner", "a"))
    held = config_map("owner")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    uid = place.apply(owner, held)["metadata"]["uid"]
    place.apply(dependent, owned_config_map("a", "owner", uid))
    # The collector sees ConfigMaps in their order: once this one is gone, it knows the one before.
    probe = place.path("configmaps", "probe")
    place.apply(probe, owned_config_map("probe", "nobody", str(uuid.uuid4())))
    wait_for(lambda: read(place.client, probe) is None, SECONDS, "the probe gone")
    return owner, dependent


def owned_config_map(name: str, owner: str, uid: str) -> Manifest:
    owned = config_map(name)
    # Of dependents that do not block the collector may let the owner go first.
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}
    owned["metadata"]["ownerReferences"] = [reference]
    return owned


def test_a_foreground_deletion_takes_dependents_while_a_finalizer_stands(place: Place) -> None:
    owner, dependent = owner_and_dependent(place)
    place.client.delete(owner, propagation="Foreground")
    wait_for(lambda: read(place.client, dependent) is None, SECONDS, "the dependent gone")
    assert place.client.merge_patch(owner, {"metadata": {"finalizers": None}}).status == 200


def test_an_orphaning_deletion_strips_the_references_while_a_finalizer_stands(place: Place) -> None:
    owner, dependent = owner_and_dependent(place)
    place.client.delete(owner, propagation="Orphan")

    def is_alone() -> bool:
        found = read(place.client, dependent)
        return found is not None and not found["metadata"].get("ownerReferences")

    wait_for(is_alone, SECONDS, "the reference gone")
    assert place.client.merge_patch(owner, {"metadata": {"finalizers": None}}).status == 200


@pytest.mark.thorough
def test_in_a_namespace_that_is_terminating_nothing_is_created_and_what_is_there_is_let_go(place: Place) -> None:
    path = place.path("configmaps")
    held = config_map("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    place.apply(path, held)
    place.client.delete(f"/api/v1/namespaces/{place.namespace}")
    wait_for(lambda: place.client.get(path).value["metadata"].get("deletionTimestamp"), SECONDS, "being deleted")

    with pytest.raises(ApiError) as created:
        place.apply(place.path("configmaps", "b"), config_map("b"))
    more = {**held, "metadata": {"name": "a", "finalizers": ["example.com/hold", "example.com/more"]}}
    with pytest.raises(ApiError) as added:
        place.apply(path, more)
    assert (created.value.status, added.value.status) == (403, 422)

    assert place.apply(path, {**held, "data": {"color": "red"}})["data"] == {"color": "red"}
    place.apply(path, config_map("a"))
    wait_for(lambda: read(place.client, path) is None, SECONDS, "let go")
