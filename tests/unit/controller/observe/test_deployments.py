from __future__ import annotations

import json
import tracemalloc
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.types import BundleDeployment, Status
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.observe.deployments import SeenDeployment, SeenDeployments, make_seen
from rukpak.controller.playground.processes import wait_for
from tests.support.deployments import DIGEST, manifest
from tests.support.fake_api import FakeApi
from tests.support.watching import CONFIG_MAP, DEPLOYMENTS, World, serving


class Change(NamedTuple):
    name: str
    parts: dict[str, Any]
    needs_pass: bool


CHANGES = [
    Change("another spec needs a pass", {"metadata": {"generation": 2}}, needs_pass=True),
    Change(
        "so does the annotation",
        {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: "now"}}},
        needs_pass=True,
    ),
    Change("so does a finalizer", {"metadata": {"finalizers": ["orphan"]}}, needs_pass=True),
    Change("so does a deletion", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, needs_pass=True),
    Change("so does one that can no longer be read", {"spec": {"installNamespace": "A B"}}, needs_pass=True),
    Change("our own status does not", {"status": {"revision": "sha256:" + "a" * 64}}, needs_pass=False),
    Change("another annotation does not", {"metadata": {"annotations": {"example.com/a": "b"}}}, needs_pass=False),
    Change("so does the label of another shard", {"metadata": {"labels": {names.SHARD: "b"}}}, needs_pass=True),
    Change("a label does not", {"metadata": {"labels": {"a": "b"}}}, needs_pass=False),
]


@pytest.mark.parametrize("case", CHANGES, ids=attrgetter("name"))
def test_what_of_a_bundle_deployment_asks_for_a_pass(case: Change, world: World) -> None:
    world.deployment()
    world.start()
    world.hear("deployment shop")
    world.deployment(**case.parts)
    world.deployment("marker")
    heard = world.hear("deployment marker")
    assert ("deployment shop" in heard) is case.needs_pass


def test_one_without_finalizer_asks_for_a_pass_whatever_changes(world: World) -> None:
    """Another client may have removed the one that was just set, and the watch may have shown neither."""
    world.deployment(metadata={"finalizers": []})
    world.start()
    world.hear("deployment shop")
    world.deployment(metadata={"finalizers": [], "labels": {"a": "b"}})
    world.hear("deployment shop")


STATUSES = [
    Change("one that was wiped does", {}, needs_pass=True),
    Change("one that was garbled does", {"status": {"revision": "x", "installedRevision": "y"}}, needs_pass=True),
    Change("one that cannot be read does", {"status": {"revision": DIGEST, "managedKinds": 3}}, needs_pass=True),
    Change("any other does not", {"status": {"revision": "sha256:" + "a" * 64}}, needs_pass=False),
]


@pytest.mark.parametrize("case", STATUSES, ids=attrgetter("name"))
def test_which_status_of_another_client_asks_for_a_pass(case: Change, world: World) -> None:
    world.deployment(status={"revision": DIGEST})
    world.start()
    world.hear("deployment shop")
    world.deployment(**case.parts)
    world.deployment("marker")
    assert ("deployment shop" in world.hear("deployment marker")) is case.needs_pass


GARBLED = [
    pytest.param(
        {"revision": "x", "managedKinds": ["v1/ConfigMap"]}, {"managedKinds": ["v1/ConfigMap"]}, id="no digest"
    ),
    pytest.param({"revision": DIGEST, "managedKinds": 3}, {"revision": DIGEST}, id="a field of another type"),
    pytest.param({"managedKinds": ["nonsense", "v1/Secret"]}, {"managedKinds": ["v1/Secret"]}, id="no kind"),
    pytest.param({"revision": DIGEST, "managedState": "great"}, {"revision": DIGEST}, id="no state"),
]


@pytest.mark.parametrize(("written", "usable"), GARBLED)
def test_a_pass_uses_of_a_status_what_the_controller_may_have_written(written: Any, usable: Any, world: World) -> None:
    world.deployment(status=written)
    world.start()
    world.hear("deployment shop")
    found = world.watches.deployments.find("shop")
    assert found
    assert found.status == Status.model_validate(usable)


def test_a_garbled_kind_in_status_hides_no_change(world: World) -> None:
    world.deployment(status={"managedKinds": ["nonsense", "v1/ConfigMap"]})
    world.start()
    world.hear("deployment shop")
    assert world.watches.objects.require("shop", [CONFIG_MAP]) in ([], ["ConfigMap"])
    world.deployment(status={"managedKinds": ["a/b/c/d"]}, metadata={"generation": 2})
    world.hear("deployment shop")


def test_one_that_is_gone_asks_for_a_last_pass(world: World) -> None:
    world.deployment()
    world.start()
    world.hear("deployment shop")
    world.api.delete(DEPLOYMENTS, "shop")
    world.hear("deployment shop")
    wait_for(lambda: world.watches.deployments.find("shop") is None, 60, "it is gone")


def test_who_was_orphaned_is_known_although_the_finalizer_is_gone(world: World) -> None:
    world.deployment()
    world.start()
    for finalizers in (["orphan", names.FINALIZER], [names.FINALIZER]):
        world.deployment(metadata={"finalizers": finalizers})
    world.wait(lambda: world.watches.deployments.was_orphaned("shop", "uid-shop"), "it was seen")
    assert not world.watches.deployments.was_orphaned("shop", "uid-another")
    world.api.delete(DEPLOYMENTS, "shop")
    world.wait(lambda: not world.watches.deployments.was_orphaned("shop", "uid-shop"), "it is forgotten")


def test_all_are_asked_for_when_they_are_known_at_first(world: World) -> None:
    for name in ("a", "b"):
        world.deployment(name)
    world.start()
    world.wait(lambda: {"deployment a", "deployment b"} <= set(world.told.heard), "both are told")


def test_one_that_cannot_be_read_does_not_hide_the_others(world: World) -> None:
    world.deployment("odd", spec={"sources": "none"})
    world.deployment("odder", spec={"installNamespace": "A B"})
    world.deployment("good")
    world.start()
    odd, good = world.watches.deployments.find("odd"), world.watches.deployments.find("good")
    assert odd is not None
    assert odd.problem.startswith("spec.sources: ")
    assert good is not None
    assert not good.problem
    assert world.watches.deployments.find("odder") is None
    assert world.watches.deployments.names() == {"odd", "odder", "good"}
    assert world.watches.deployments.exists("odder", "uid-odder")
    assert not world.watches.deployments.exists("odder", "another")


def test_the_kinds_that_status_records_are_watched_from_the_start(world: World) -> None:
    world.deployment(status={"managedKinds": ["v1/ConfigMap"]})
    world.managed()
    world.start()
    world.wait(lambda: world.watches.objects.of("shop"), "its objects are known")


def test_the_reply_to_a_write_is_known_at_once(world: World) -> None:
    world.deployment()
    world.start()
    value = {**manifest(status={"revision": "sha256:" + "b" * 64})}
    value["metadata"] = {**value["metadata"], "resourceVersion": "999"}
    world.watches.deployments.learn(value)
    known = world.watches.deployments.find("shop")
    assert known is not None
    assert known.status.revision == "sha256:" + "b" * 64


def test_one_that_a_reply_said_is_gone_is_not_known_any_more_but_one_of_its_name_may_be(world: World) -> None:
    world.deployment()
    world.start()
    world.watches.deployments.learn_gone("shop", "uid-another")
    assert world.watches.deployments.find("shop") is not None
    world.watches.deployments.learn_gone("shop", "uid-shop")
    assert world.watches.deployments.find("shop") is None
    assert world.watches.deployments.names() == set()


def test_who_has_objects_of_a_kind_that_cannot_be_looked_up_is_told_of_nevertheless(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()

    def resource(_kind: GroupVersionKind) -> Resource | None:
        raise ApiError(0, "Unreachable", "the API server did not answer")

    monkeypatch.setattr(world.cluster, "resource", resource)
    world.deployment(status={"managedKinds": ["v1/ConfigMap"]})
    world.hear("deployment shop")


LARGE: dict[str, Any] = {"values": {"a": [{}] * 100_000}}


def seen(number: int, **spec: Any) -> SeenDeployment:
    """See one as received from the API server, with objects of its own."""
    return make_seen(json.loads(json.dumps(manifest(f"shop-{number}", spec=spec))))


FAT: list[tuple[str, dict[str, Any]]] = [
    ("a config of many small values", {"config": LARGE}),
    ("a config of many names", {"config": {"values": {f"name-{number}": 1 for number in range(30_000)}}}),
    ("parameters of a plug-in", {"sources": [{"kind": "example.com/s3", "parameters": {"a": [{}] * 100_000}}]}),
    (
        "a patch of many small values",
        {"processors": [{"kind": "patch", "patch": {"target": {"kind": "A"}, "merge": {"a": [{}] * 100_000}}}]},
    ),
    (
        "patches of many operations",
        {
            "processors": [
                {
                    "kind": "patch",
                    "patch": {
                        "target": {"kind": f"A{patch}"},
                        "json": [
                            {"op": "add", "path": f"/{patch}/{number}", "value": [{}] * 40} for number in range(64)
                        ],
                    },
                }
                for patch in range(32)
            ]
        },
    ),
    (
        "many fields to ignore",
        {
            "drift": {
                "ignore": [
                    {"kind": f"A{rule}", "paths": [f"a{rule}.{number}{'b' * 200}" for number in range(32)]}
                    for rule in range(64)
                ]
            }
        },
    ),
    (
        "long certificates",
        {
            "sources": [
                {
                    "kind": "http",
                    "destination": f"d{number}",
                    "http": {
                        "url": "https://a/b.tar",
                        "certificateData": f"-----BEGIN CERTIFICATE-----{number}" + "a" * 200_000,
                    },
                }
                for number in range(5)
            ]
        },
    ),
]
FAT_METADATA: list[tuple[str, dict[str, Any]]] = [
    ("labels", {"labels": {f"a{number}": "" for number in range(50_000)}}),
    ("annotations", {"annotations": {f"a{number}": "" for number in range(20_000)}}),
    ("finalizers", {"finalizers": [f"example.com/a{number}" for number in range(30_000)]}),
    ("managers", {"managedFields": [{"manager": f"a{number}", "fieldsV1": {"f:spec": {}}} for number in range(5_000)]}),
]


@pytest.mark.parametrize(("_name", "spec"), FAT, ids=[name for name, _ in FAT])
def test_the_heap_stays_small_for_large_specs(_name: str, spec: dict[str, Any]) -> None:
    seen(0, **spec)
    tracemalloc.start()
    try:
        kept = seen(1, **spec)
        resident, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.name
    assert resident < 1 << 18


@pytest.mark.parametrize(("_name", "metadata"), FAT_METADATA, ids=[name for name, _ in FAT_METADATA])
def test_the_heap_stays_small_for_many(_name: str, metadata: dict[str, Any]) -> None:
    whole = json.dumps(manifest(metadata=metadata))
    make_seen(json.loads(whole))
    tracemalloc.start()
    try:
        kept = make_seen(json.loads(whole))
        resident, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.name
    assert resident < 1 << 18


def test_an_outline_of_large_metadata_has_what_is_asked_for_and_the_whole_is_whole() -> None:
    orders = {names.RECONCILE_REQUESTED_AT: "now", **{f"a{number}": "" for number in range(5_000)}}
    metadata = {
        "annotations": orders,
        "labels": {names.SHARD: "blue", **{f"a{number}": "" for number in range(5_000)}},
        "finalizers": [*(f"example.com/a{number}" for number in range(5_000)), names.FINALIZER],
    }
    found = make_seen(manifest(metadata=metadata), "blue")
    assert found.outline is not None
    assert found.outline.metadata.labels == {names.SHARD: "blue"}
    assert found.outline.metadata.annotations == {names.RECONCILE_REQUESTED_AT: "now"}
    assert found.outline.metadata.finalizers == (names.FINALIZER,)
    assert found.outline.spec == BundleDeployment.model_validate(manifest()).spec
    assert found.deployment == BundleDeployment.model_validate(manifest(metadata=metadata))


def test_a_large_spec_is_whole_when_a_pass_asks_and_its_outline_has_all_that_is_small(world: World) -> None:
    whole = manifest(spec={"config": LARGE, "paused": True}, status={"revision": "sha256:" + "b" * 64})
    world.deployment(spec=whole["spec"], status=whole["status"])
    world.start()
    found, outline = world.watches.deployments.find("shop"), world.watches.deployments.outline("shop")
    assert found is not None
    assert outline is not None
    expect = BundleDeployment.model_validate(whole)
    assert (found.spec, found.status) == (expect.spec, expect.status)
    assert found.metadata == outline.metadata
    assert (outline.spec.paused, outline.spec.config, outline.status) == (True, {}, expect.status)
    assert [source.kind for source in outline.spec.sources] == ["image"]
    assert world.watches.deployments.outlines() == [outline]


def test_what_is_small_is_kept_as_it_is() -> None:
    small = make_seen(manifest(spec={"config": {"values": {"a": 1}}}))
    assert small.deployment is small.outline
    assert small.outline is not None
    assert small.outline.spec.config == {"values": {"a": 1}}


def test_another_large_config_asks_for_a_pass(world: World) -> None:
    world.deployment(spec={"config": LARGE})
    world.start()
    world.hear("deployment shop")
    world.deployment(spec={"config": {"values": {"a": [{}] * 50_000}}}, metadata={"generation": 2})
    world.hear("deployment shop")
    found = world.watches.deployments.find("shop")
    assert found is not None
    assert len(found.spec.config["values"]["a"]) == 50_000


class Move(NamedTuple):
    name: str
    shard: str
    before: str | None
    after: str | None
    heard: bool
    served: bool


MOVES = [
    Move("one that comes gets a pass", "a", None, "a", heard=True, served=True),
    Move("so does one that comes from another shard", "a", "b", "a", heard=True, served=True),
    Move("and one that goes, which is its last", "a", "a", "b", heard=True, served=False),
    Move("one that comes back to the default shard gets a pass", "", "a", None, heard=True, served=True),
    Move("so does one that leaves it", "", None, "a", heard=True, served=False),
    Move("one between two others gets none", "a", "b", "c", heard=False, served=False),
    Move("nor does one that stays in another shard", "a", "b", "b", heard=False, served=False),
]


@pytest.mark.parametrize("case", MOVES, ids=attrgetter("name"))
def test_who_looks_at_one_that_moves(case: Move) -> None:
    with serving(case.shard) as world:
        own = {"labels": {names.SHARD: case.shard} if case.shard else {}}
        world.deployment(metadata=_labeled(case.before))
        world.deployment("other", metadata=own)
        world.start()
        world.hear("deployment other")
        world.wait(lambda: world.watches.deployments.outline("shop"), "it is known, whoever serves it")
        world.told.heard.clear()

        world.deployment(metadata={**_labeled(case.after), "generation": 2})
        world.deployment("marker", metadata=own)
        assert ("deployment shop" in world.hear("deployment marker")) is case.heard
        assert (world.watches.deployments.find("shop") is not None) is case.served
        assert world.watches.deployments.names() == {"other", "marker", *(["shop"] if case.served else [])}
        assert world.watches.deployments.exists("shop", "uid-shop")
        assert not world.watches.deployments.exists("shop", "another")


def _labeled(shard: str | None) -> dict[str, Any]:
    return {"labels": {names.SHARD: shard} if shard else {}}


def test_of_one_of_another_shard_only_the_outline_is_kept() -> None:
    spec = {
        "config": {"values": {"a": ["b"] * 50_000}},
        "healthChecks": [{"kind": "b", "healthy": [{"condition": {"type": "a", "status": "True"}}]}],
        "dependsOn": [{"name": "database"}],
    }
    value = manifest(metadata={"labels": {names.SHARD: "b"}}, spec=spec)
    found = make_seen(value, "a")
    assert (found.served, found.packed, found.checks) == (False, b"", ())
    assert found.outline is not None
    assert (found.outline.spec.config, found.outline.spec.sources) == ({}, ())
    assert found.outline.spec.required_deployments == ("database",)
    own = make_seen(value, "b")
    assert own.served
    assert own.packed
    assert own.checks


def test_one_is_read_again_unless_a_reply_is_as_new() -> None:
    with FakeApi(DEPLOYMENTS) as api:
        seen = SeenDeployments(api.client(), lambda _old, _new: None, lambda: None)
        seen.learn(manifest(metadata={"generation": 1, "resourceVersion": "7"}))
        now = manifest(metadata={"generation": 2, "resourceVersion": "8"})
        api.documents = {f"{DEPLOYMENTS}/shop": (now, "")}
        seen.confirm("shop", 60)  # what a watch has shown may be old
        assert _generation(seen) == 2
        api.documents = {}
        seen.confirm("shop", 60)
        assert _generation(seen) == 2
        seen.confirm("shop", 0)
        assert seen.get("shop") is None


def _generation(seen: SeenDeployments) -> int:
    found = seen.get("shop")
    assert found is not None
    assert found.outline is not None
    return found.outline.metadata.generation
