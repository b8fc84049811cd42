from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.apply.holders import (
    STAND_IN,
    Candidate,
    Refused,
    Trial,
    describe_supposed,
    find_allocated,
    find_holders,
    held_by,
    in_place_of,
    may_be_deleted,
    read_replaced,
    without_values,
)
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import Record

Manifest = dict[str, Any]
SERVICE, DEPLOYMENT, CUSTOM = ("", "Service"), ("apps", "Deployment"), ("example.com", "Site")


def record(name: str, kind: tuple[str, str] = SERVICE, namespace: str = "a", **fields: Any) -> Record:
    return Record(key=ObjectKey(*kind, namespace, name), uid=f"uid-{name}", **fields)


def service(name: str, *ports: int) -> Manifest:
    metadata = {"name": name, "namespace": "a"}
    return {"metadata": metadata, "spec": {"ports": [{"nodePort": port} for port in ports]}}


def named(name: str, **content: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "a"}, **content}


def candidate(name: str, manifest: Manifest, kind: tuple[str, str] = SERVICE) -> Candidate:
    return Candidate(record(name, kind), manifest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    body: Manifest
    candidates: tuple[Candidate, ...]
    own_place: Trial = Trial.ACCEPTED
    """Of the dry run without the values."""
    places: Mapping[str, Trial] = field(default_factory=dict)
    """Of those in the places of candidates; accepted by default."""
    by_quota: bool = False
    replaces: tuple[ObjectKey, ...] = ()
    known: tuple[str, ...] = ()
    supposed: tuple[str, ...] = ()


OLD, OTHER = candidate("old", service("old", 30001)), candidate("other", service("other", 30002))
SITE = candidate("old", named("old", spec={"domain": "a"}), CUSTOM)
FIRST, SECOND = (candidate(each, named(each), DEPLOYMENT) for each in ("first", "second"))
CASES = [
    Case(name="one has the value", body=service("new", 30001), candidates=(OLD,), known=("old",)),
    Case(name="one of two has the value", body=service("new", 30001), candidates=(OTHER, OLD), known=("old",)),
    Case(
        name="each of two has one", body=service("new", 30001, 30002), candidates=(OLD, OTHER), known=("old", "other")
    ),
    Case(
        name="none has the value, and none would be accepted in its place",
        body=service("new", 30003),
        candidates=(OLD,),
        places={"old": Trial.REFUSED},
    ),
    Case(
        name="something else is wrong, too",
        body=service("new", 30001),
        candidates=(OLD,),
        own_place=Trial.REFUSED,
        places={"old": Trial.REFUSED},
    ),
    Case(
        name="it has the value, and another one does as well",
        body=service("new", 30001),
        candidates=(OLD,),
        places={"old": Trial.REFUSED},
    ),
    Case(
        name="other fields cannot be changed in its place, and nothing else has the value",
        body=service("new", 30001),
        candidates=(OLD,),
        places={"old": Trial.IMMUTABLE},
        known=("old",),
    ),
    Case(
        name="other fields cannot be changed, and two have the value",
        body=service("new", 30001),
        candidates=(OLD, candidate("twin", service("twin", 30001))),
        places={"old": Trial.IMMUTABLE, "twin": Trial.IMMUTABLE},
        supposed=("old", "twin"),
    ),
    Case(name="a custom resource", body=named("new", spec={"domain": "a"}), candidates=(SITE,), supposed=("old",)),
    Case(
        name="a custom resource that does not have it",
        body=named("new", spec={"domain": "a"}),
        candidates=(SITE,),
        places={"old": Trial.REFUSED},
    ),
    Case(
        name="a custom resource that the annotation names",
        body=named("new", spec={"domain": "a"}),
        candidates=(SITE,),
        replaces=(SITE.record.key,),
        known=("old",),
    ),
    Case(
        name="a quota counts two: one makes way",
        body=named("new"),
        candidates=(FIRST, SECOND),
        places={"first": Trial.IMMUTABLE, "second": Trial.IMMUTABLE},
        by_quota=True,
        known=("first",),
    ),
    Case(
        name="a quota counts objects of another namespace only",
        body={"metadata": {"name": "new", "namespace": "b"}},
        candidates=(FIRST,),
        by_quota=True,
    ),
    Case(
        name="a quota counts what is not known to be only its manifest",
        body=named("new"),
        candidates=(candidate("old", named("old"), ("apps", "StatefulSet")),),
        by_quota=True,
        supposed=("old",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_dropped_objects_have_what_is_needed(case: Case) -> None:
    def attempt(_body: Mapping[str, Any], place: Record | None) -> Trial:
        return case.places.get(place.key.name, Trial.ACCEPTED) if place else case.own_place

    found = find_holders(
        Refused(body=case.body, by_quota=case.by_quota, replaces=case.replaces), case.candidates, attempt
    )
    assert [each.key.name for each in found.known] == list(case.known)
    assert [each.key.name for each in found.supposed] == list(case.supposed)


INGRESS = ("networking.k8s.io", "Ingress")
STORAGE = ("storage.k8s.io", "StorageClass")
DEFAULT = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT = "storageclass.beta.kubernetes.io/is-default-class"
HELD: list[tuple[str, tuple[str, str], Manifest, Manifest]] = [
    ("a port", SERVICE, service("a", 30001), {"spec": {"ports": [{}]}}),
    ("no port", SERVICE, service("a", 0), {"spec": {"ports": [{"nodePort": 0}]}}),
    ("no address", SERVICE, {"spec": {"clusterIP": "None"}}, {"spec": {"clusterIP": "None"}}),
    (
        "an address",
        SERVICE,
        {"spec": {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}},
        {"spec": {"clusterIPs": []}},
    ),
    ("an IPv6 address", SERVICE, {"spec": {"externalIPs": ["fd00::1", "fd00::2"]}}, {"spec": {"externalIPs": []}}),
    (
        "a host",
        INGRESS,
        {"spec": {"rules": [{"host": "a.example.com", "http": {}}], "tls": [{"hosts": ["a.example.com"]}]}},
        {
            "spec": {
                "rules": [{"host": f"{STAND_IN}.example.com", "http": {}}],
                "tls": [{"hosts": [f"{STAND_IN}.example.com"]}],
            }
        },
    ),
    ("the default", STORAGE, {"metadata": {"annotations": {DEFAULT: "true"}}}, {"metadata": {"annotations": {}}}),
    (
        "the default, as the beta version has it",
        STORAGE,
        {"metadata": {"annotations": {BETA_DEFAULT: "true"}}},
        {"metadata": {"annotations": {}}},
    ),
    (
        "not the default",
        STORAGE,
        {"metadata": {"annotations": {DEFAULT: "false"}}},
        {"metadata": {"annotations": {DEFAULT: "false"}}},
    ),
    ("values of other types", SERVICE, {"spec": {"ports": "x"}}, {"spec": {"ports": "x"}}),
]


@pytest.mark.parametrize(("name", "kind", "given", "without"), HELD, ids=[row[0] for row in HELD])
def test_an_object_without_its_values(name: str, kind: tuple[str, str], given: Manifest, without: Manifest) -> None:
    expected = {"spec": {"ports": [{}]}} if name == "a port" else without
    made = without_values(given, held_by(given, kind))
    assert {key: value for key, value in made.items() if key in expected} == (
        expected if name != "no port" else {"spec": {"ports": [{"nodePort": 0}]}}
    )


KEPT: list[tuple[str, Record, bool]] = [
    ("a Service", record("a"), True),
    ("a Service that is marked to be kept", record("a", prune="false"), False),
    ("what Helm keeps", record("a", resource_policy="keep"), False),
    ("a claim", record("a", ("", "PersistentVolumeClaim")), False),
    ("a claim that may be pruned", record("a", ("", "PersistentVolumeClaim"), prune="true"), False),
    ("a volume", record("a", ("", "PersistentVolume"), ""), False),
    ("a Namespace", record("a", ("", "Namespace"), ""), False),
    ("a definition", record("a", ("apiextensions.k8s.io", "CustomResourceDefinition"), "", prune="true"), False),
    ("a custom resource", record("a", CUSTOM), True),
]


@pytest.mark.parametrize(("name", "dropped", "may"), KEPT, ids=[row[0] for row in KEPT])
def test_data_and_what_is_kept_is_never_deleted_for_another_object(name: str, dropped: Record, may: bool) -> None:
    assert may_be_deleted(dropped) is may, name


OWN = ObjectKey("apps", "Deployment", "a", "new")
REPLACED: list[tuple[str, set[ObjectKey]]] = [
    ("", set()),
    ("old", {OWN._replace(name="old")}),
    (" old , b/older", {OWN._replace(name="old"), OWN._replace(namespace="b", name="older")}),
    ("Pod/old", {ObjectKey("", "Pod", "a", "old"), ObjectKey("", "Pod", "", "old")}),
    ("Site.example.com/b/old", {ObjectKey("example.com", "Site", "b", "old")}),
    ("a/b/c/d", set()),
]


@pytest.mark.parametrize(("written", "found"), REPLACED, ids=[row[0] or "nothing" for row in REPLACED])
def test_what_an_annotation_replaces(written: str, found: set[ObjectKey]) -> None:
    manifest = {"metadata": {"annotations": {names.REPLACES: written}}}
    assert read_replaced(manifest, OWN) == found


def test_the_place_of_another_object() -> None:
    made = in_place_of(service("new", 30001), record("old", namespace="b"))
    assert made["metadata"] == {"name": "old", "namespace": "b", "uid": "uid-old"}


def test_the_way_out_is_an_annotation_that_finds_the_holder() -> None:
    holder, own = record("old", CUSTOM, "b"), ObjectKey(*CUSTOM, "a", "new")
    text = describe_supposed(holder, own, makes_way=True)
    assert f'set the annotation {names.REPLACES}: "b/old" on this object' in text
    assert read_replaced({"metadata": {"annotations": {names.REPLACES: "b/old"}}}, own) == {holder.key}
    assert describe_supposed(holder, own, makes_way=False).endswith("and is kept: delete it yourself")


def balancer(name: str, port: int, **content: Any) -> Manifest:
    return named(
        name, spec={"healthCheckNodePort": port, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}, **content
    )


ALLOCATED: dict[str, tuple[Manifest, tuple[Manifest, ...], str]] = {
    "another one": (
        service("new", 1),
        (service("other", 2), service("old", 1)),
        "Service a/old has it: choose another",
    ),
    "the second of two ports": (service("new", 1, 2), (service("old", 3, 2),), "Service a/old has it: choose another"),
    "itself": (service("new", 1), (service("new", 1),), "find the Service that has it with"),
    "one of the same bundle": (
        service("new", 1),
        (service("wanted", 1),),
        "Service a/wanted of the same bundle has it",
    ),
    "a port of a health check": (service("new", 7), (balancer("old", 7),), "Service a/old has it: choose another"),
    "an address": (balancer("new", 8), (balancer("old", 9),), "Service a/old has it: choose another"),
    "no address": (
        named("new", spec={"clusterIP": "None"}),
        (named("old", spec={"clusterIP": "None"}),),
        "find the Service that has it with",
    ),
    "nobody who may be seen": (service("new", 1), (), "find the Service that has it with"),
}


@pytest.mark.parametrize("case", ALLOCATED)
def test_who_has_a_port_or_address_is_told(case: str) -> None:
    body, services, says = ALLOCATED[case]
    key, wanted = ObjectKey("", "Service", "a", "new"), {ObjectKey("", "Service", "a", "wanted")}
    assert says in find_allocated(body, key, services, wanted)


def test_the_bundle_deployment_of_who_has_a_port_is_told() -> None:
    old = service("old", 1)
    old["metadata"]["labels"] = {names.OWNER_LABEL: "shop"}
    says = 'Service a/old of BundleDeployment "shop" has it: choose another value, or change or delete that one'
    assert find_allocated(service("new", 1), ObjectKey("", "Service", "a", "new"), [old], ()) == says
