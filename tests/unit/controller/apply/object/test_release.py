from __future__ import annotations

from typing import Any

import pytest

from api import names
from controller.apply.ownership import Owner, make_body
from controller.apply.removal import make_way, release
from controller.kube.errors import ApiError
from controller.observe.records import ObjectKey, Record, project
from tests.support.fake_cluster import CONFIG_MAPS, FakeCluster

KEY = ObjectKey("", "ConfigMap", "shop", "a")
PATH = "/api/v1/namespaces/shop/configmaps/a"
CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
OTHER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod"}
OWNER = Owner("foo", "uid-foo")
UNMARKED = {names.RELEASED_FROM: None}


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster with one object of ours, which another client has written to, too."""
    cluster = FakeCluster()
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}, "data": {}}
    cluster.client.apply(PATH, make_body(manifest, OWNER, orphan=False), manager="rukpak/foo", force=True)
    cluster.patch(PATH, {"data": {"color": "red"}, "metadata": {"annotations": {"example.com/a": "b"}}})
    cluster.taken()
    return cluster


def metadata(cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.objects[PATH]["metadata"]
    return found


def test_what_is_released_keeps_its_data_and_says_whose_it_was(cluster: FakeCluster) -> None:
    release(cluster.client, CONFIG_MAPS, KEY, "foo")
    assert cluster.objects[PATH]["data"] == {"color": "red"}
    assert metadata(cluster)["labels"] == {}
    assert metadata(cluster)["annotations"] == {"example.com/a": "b", names.RELEASED_FROM: "foo"}
    assert "ownerReferences" not in metadata(cluster)
    assert cluster.requests == [f"GET {PATH}", f"MERGE {PATH}"]


def test_other_owners_and_other_managers_stay(cluster: FakeCluster) -> None:
    theirs = {"manager": "kubectl", "operation": "Update"}
    ours = metadata(cluster)["managedFields"]
    references = [*metadata(cluster)["ownerReferences"], OTHER]
    cluster.patch(PATH, {"metadata": {"managedFields": [*ours, theirs], "ownerReferences": references}})
    release(cluster.client, CONFIG_MAPS, KEY, "foo")
    assert metadata(cluster)["managedFields"] == [theirs]
    assert metadata(cluster)["ownerReferences"] == [OTHER]


def test_where_nobody_else_has_an_entry_all_are_cleared_as_the_server_wants_it(cluster: FakeCluster) -> None:
    release(cluster.client, CONFIG_MAPS, KEY, "foo")
    assert metadata(cluster)["managedFields"] == [{}]


def test_what_is_gone_is_released(cluster: FakeCluster) -> None:
    cluster.remove(PATH)
    release(cluster.client, CONFIG_MAPS, KEY, "foo")
    assert cluster.requests == [f"GET {PATH}"]


def conflicts(count: int) -> list[ApiError]:
    return [ApiError(409, "Conflict", "it has changed") for _ in range(count)]


def test_one_that_changes_meanwhile_is_tried_once_more(cluster: FakeCluster) -> None:
    cluster.faults[f"MERGE {PATH}"] = conflicts(1)
    release(cluster.client, CONFIG_MAPS, KEY, "foo")
    assert metadata(cluster)["annotations"][names.RELEASED_FROM] == "foo"


def test_one_that_goes_on_changing_is_given_up(cluster: FakeCluster) -> None:
    cluster.faults[f"MERGE {PATH}"] = conflicts(3)
    with pytest.raises(ApiError) as caught:
        release(cluster.client, CONFIG_MAPS, KEY, "foo")
    assert caught.value.status == 409
    assert len(cluster.requests) == 4


def judged(cluster: FakeCluster, *references: Any) -> Record:
    """Release the object, have others refer to it, and return it as it is judged then."""
    release(cluster.client, CONFIG_MAPS, KEY, "foo")
    changed = cluster.patch(PATH, {"metadata": {"ownerReferences": list(references), "annotations": UNMARKED}})
    return project(changed, "", "ConfigMap")


def test_an_object_that_another_controls_is_marked_as_ours_in_the_same_write(cluster: FakeCluster) -> None:
    record = judged(cluster, CONTROLLER, OTHER)
    cluster.taken()
    version = make_way(cluster.client, CONFIG_MAPS, record, "foo")
    assert metadata(cluster)["ownerReferences"] == [OTHER]
    assert metadata(cluster)["annotations"][names.RELEASED_FROM] == "foo"
    assert version == metadata(cluster)["resourceVersion"]
    assert cluster.requests == [f"GET {PATH}", f"MERGE {PATH}"]


def test_an_object_that_nobody_controls_is_marked_without_being_read(cluster: FakeCluster) -> None:
    record = judged(cluster, OTHER)
    cluster.taken()
    make_way(cluster.client, CONFIG_MAPS, record, "foo")
    assert metadata(cluster)["ownerReferences"] == [OTHER]
    assert cluster.requests == [f"MERGE {PATH}"]


def test_an_object_that_has_changed_since_it_was_judged_is_not_touched(cluster: FakeCluster) -> None:
    record = judged(cluster, CONTROLLER)
    cluster.patch(PATH, {"data": {"color": "green"}})
    with pytest.raises(ApiError) as caught:
        make_way(cluster.client, CONFIG_MAPS, record, "foo")
    assert caught.value.status == 409
    assert metadata(cluster)["ownerReferences"] == [CONTROLLER]
