"""How the API server keeps managedFields, as far as the test of drift builds on it (controller/apply/README.md, Drift).

No code of the controller but its client, and the two tests of drift: where one of these fails, the ground has moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import SECONDS, Manifest, config_map, definition, exists
from tests.support.inside import ApiError, covers, entry_hash, entry_of
from tests.support.objects import (
    APPS,
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
    webhook,
)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CONTAINER = 'k:{"name":"main"}'
COLLECTOR_SECONDS = 90.0
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    with new_place(cluster) as made:
        yield made


def fields_of(value: Manifest) -> Manifest:
    """Return what our entry claims."""
    fields: Manifest = (entry_of(value, OURS) or {}).get("fieldsV1", {})
    return fields


def container_of(value: Manifest) -> Manifest:
    """Return what our entry claims of the one container of a Deployment."""
    spec = fields_of(value)["f:spec"]["f:template"]["f:spec"]
    fields: Manifest = spec["f:containers"][CONTAINER]
    return fields


def workload(**container: Any) -> Manifest:
    made = deployment("a")
    made["spec"]["template"]["spec"]["containers"][0] |= container
    return made


# what an entry has


def test_an_item_without_a_key_field_is_recorded_by_its_default(place: Place) -> None:
    made = workload(ports=[{"containerPort": 80}])
    applied = place.apply(place.path("deployments", prefix=APPS), made)
    assert [json.loads(key[2:]) for key in container_of(applied)["f:ports"]] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]
    assert covers(fields_of(applied), made)


def test_an_empty_list_is_recorded_where_it_is_atomic_alone(place: Place) -> None:
    made = workload(args=[], env=[])
    applied = place.apply(place.path("deployments", prefix=APPS), made)
    assert "f:args" in container_of(applied)
    assert "f:env" not in container_of(applied)
    assert covers(fields_of(applied), made)


@pytest.mark.parametrize(
    ("field", "value", "claimed"),
    [
        ("deletionTimestamp", "2026-01-01T00:00:00Z", True),
        ("generation", 7, False),
        ("selfLink", "/a", False),
        ("creationTimestamp", "2020-01-01T00:00:00Z", False),
    ],
)
def test_which_fields_of_the_server_are_recorded_as_ours(
    place: Place, field: str, value: object, claimed: bool
) -> None:
    applied = place.apply(place.path("configmaps"), labelled(config_map("a"), **{field: value}))
    assert (f"f:{field}" in fields_of(applied).get("f:metadata", {})) is claimed


# what changes it


class Edit(NamedTuple):
    name: str
    manifest: Manifest
    changes: list[Manifest]
    """JSON patch of another client."""
    plural: str
    prefix: str = "/api/v1"


def _add(path: str, value: object) -> Manifest:
    return {"op": "add", "path": path, "value": value}


TWO_VARIABLES = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
# fmt: off
HARMLESS = [
    Edit("a variable of another client", workload(env=TWO_VARIABLES),
         [_add("/spec/template/spec/containers/0/env/-", {"name": "C", "value": "3"})], "deployments", APPS),
    Edit("a port of another client", service("a"), [_add("/spec/ports/-", {"name": "more", "port": 81})], "services"),
    Edit("another order", workload(env=TWO_VARIABLES),
         [{"op": "replace", "path": "/spec/template/spec/containers/0/env", "value": TWO_VARIABLES[::-1]}],
         "deployments", APPS),
]
# fmt: on


@pytest.mark.parametrize("case", HARMLESS, ids=attrgetter("name"))
def test_what_is_no_drift(place: Place, case: Edit) -> None:
    path = place.path(case.plural, prefix=case.prefix)
    before = place.apply(path, case.manifest)
    after = place.client.json_patch(path, case.changes).value
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert entry_hash(entry_of(after, OURS)) == entry_hash(entry_of(before, OURS))
    assert covers(fields_of(after), case.manifest)


def test_a_ca_bundle_that_we_did_not_set_is_no_drift(place: Place) -> None:
    path, made = f"{ADMISSION}/validatingwebhookconfigurations/{place.namespace}", webhook(place.namespace)
    before = place.client.apply(path, made, manager=OURS, force=True).value
    try:
        injected = [_add("/webhooks/0/clientConfig/caBundle", "Cg==")]
        after = place.client.json_patch(path, injected).value
    finally:
        remove(place.client, path)
    assert after["webhooks"][0]["clientConfig"]["caBundle"]
    assert entry_hash(entry_of(after, OURS)) == entry_hash(entry_of(before, OURS))


def test_a_container_that_was_renamed_and_is_applied_runs_twice(place: Place) -> None:
    path = place.path("deployments", prefix=APPS)
    place.apply(path, deployment("a"))
    renamed = [{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "theirs"}]
    place.client.json_patch(path, renamed)
    containers = place.apply(path, deployment("a"))["spec"]["template"]["spec"]["containers"]
    assert {container["name"] for container in containers} == {"main", "theirs"}


def test_what_admission_changes_is_still_claimed_by_our_entry(place: Place) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    about = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}}
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": 'Object{data: {"color": "red"}}'},
    }
    spec = {"matchConstraints": {**about, "resourceRules": [rule]}, "failurePolicy": "Fail", "mutations": [mutation]}
    spec |= {"reinvocationPolicy": "Never"}
    version, name = "admissionregistration.k8s.io/v1", place.namespace
    policies, bindings = (f"{ADMISSION}/mutatingadmissionpolic{end}" for end in ("ies", "ybindings"))
    place.client.create(policies, make(version, "MutatingAdmissionPolicy", name, spec=spec))
    place.client.create(bindings, make(version, "MutatingAdmissionPolicyBinding", name, spec={"policyName": name}))
    path = place.path("configmaps")

    def is_changed() -> bool:
        return bool(place.apply(path, config_map("a", color="blue"))["data"] == {"color": "red"})

    try:
        wait_for(is_changed, SECONDS, "the policy is obeyed")
        applied = read(place.client, path)
    finally:
        remove(place.client, f"{bindings}/{name}")
        remove(place.client, f"{policies}/{name}")
    assert applied
    assert covers(fields_of(applied), config_map("a", color="blue"))
    assert managers(applied) == {OURS: "Apply"}


def test_who_loses_the_label_is_deleted_for_the_watch_with_its_last_state(place: Place) -> None:
    applied = place.apply(place.path("configmaps"), labelled(config_map("a"), labels={"ours": "yes"}))
    since: str = applied["metadata"]["resourceVersion"]
    query = [("watch", "true"), ("labelSelector", "ours=yes"), ("timeoutSeconds", "30"), ("resourceVersion", since)]
    with place.client.stream(place.path("configmaps", "").rstrip("/"), query=query, accept=METADATA) as stream:
        place.client.merge_patch(place.path("configmaps"), {"metadata": {"labels": None}})
        event = json.loads(next(iter(stream)))
    assert event["type"] == "DELETED"
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert event["object"]["metadata"]["labels"] == {"ours": "yes"}
    assert fields_of(event["object"])


# custom resources


@pytest.fixture
def group(place: Place) -> Iterator[str]:
    """An API group whose kind Widget is deleted again."""
    name = f"{place.namespace}.example.com"
    yield name
    remove(place.client, f"{CRDS}/widgets.{name}")


def define(place: Place, group: str, *versions: Manifest) -> None:
    """Define Widget with versions, of which the first is stored; return when it is established."""
    made = definition(group, "Widget")
    made["spec"]["versions"] = [{**version, "storage": not index} for index, version in enumerate(versions)]
    path = f"{CRDS}/widgets.{group}"
    place.client.apply(path, made, manager=OURS, force=True)
    wait_for(lambda: is_established(read(place.client, path)), SECONDS, "established")


def is_established(found: Manifest | None) -> bool:
    return conditions_of(found).get("Established") == "True"


def conditions_of(found: Manifest | None) -> dict[str, str]:
    listed = ((found or {}).get("status") or {}).get("conditions") or []
    return {each["type"]: each["status"] for each in listed}


def version(name: str, **spec: Manifest) -> Manifest:
    """Return a version of Widget with these fields in its spec."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {"name": name, "served": True, "schema": {"openAPIV3Schema": schema}}


def widget(group: str, api_version: str = "v1", **spec: Any) -> Manifest:
    return make(f"{group}/{api_version}", "Widget", "a", spec=spec)


def apply_soon(place: Place, path: str, manifest: Manifest) -> Manifest:
    """Apply an object as soon as its kind is served."""

    def attempt() -> Manifest | None:
        try:
            return place.apply(path, manifest)
        except ApiError as error:
            assert error.status in (404, 429)
            return None

    return wait_for(attempt, SECONDS, "served")


def test_entries_are_rewritten_at_the_next_write_after_a_schema_made_a_field_atomic(place: Place, group: str) -> None:
    limits: Manifest = {"type": "object", "additionalProperties": {"type": "string"}}
    define(place, group, version("v1", limits=limits))
    path = place.path("widgets", prefix=f"/apis/{group}/v1")
    before = apply_soon(place, path, widget(group, limits={"a": "1"}))
    assert fields_of(before)["f:spec"]["f:limits"] == {"f:a": {}}

    define(place, group, version("v1", limits={**limits, "x-kubernetes-map-type": "atomic"}))

    def labels() -> Manifest:
        value: Manifest = place.client.merge_patch(path, {"metadata": {"labels": {"n": str(len(seen))}}}).value
        seen.append(value)
        return value

    seen: list[Manifest] = []
    wait_for(lambda: fields_of(labels())["f:spec"]["f:limits"] == {}, SECONDS, "the new schema counts")
    assert covers(fields_of(seen[-1]), widget(group, limits={"a": "1"}))


def test_a_write_at_another_version_that_has_a_default_there_wipes_all_entries(place: Place, group: str) -> None:
    """kubernetes#133704: an operator that writes status so does it every time."""
    text: Manifest = {"type": "string"}
    open_version = version("v2", color=text, size={**text, "default": "big"})
    define(place, group, version("v1", color=text), open_version)
    path = place.path("widgets", prefix=f"/apis/{group}/v1")
    apply_soon(place, path, widget(group, color="blue"))
    wait_for(lambda: exists(place.client, path.replace("/v1/", "/v2/")), SECONDS, "v2 served")
    label = {"metadata": {"labels": {"x": "y"}}}
    wiped = place.client.merge_patch(path.replace("/v1/", "/v2/"), label, manager="operator").value
    assert managers(wiped) == {}


def test_a_definition_with_a_ca_bundle_that_is_none_is_not_established(place: Place, group: str) -> None:
    made = definition(group, "Widget")
    client = {"url": "https://127.0.0.1:1/", "caBundle": "Cg=="}
    review = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": review}
    path = f"{CRDS}/widgets.{group}"
    place.client.apply(path, made, manager=OURS, force=True)
    try:
        # One that came later is: so there was time.
        define(place, f"later.{group}", version("v1"))
    finally:
        remove(place.client, f"{CRDS}/widgets.later.{group}")
    wait_for(lambda: "NamesAccepted" in conditions_of(read(place.client, path)), SECONDS, "it was looked at")
    assert not is_established(read(place.client, path))


# others that act on objects


def test_an_owner_that_does_not_exist_takes_the_object_along(place: Place) -> None:
    uid = "00000000-0000-0000-0000-00000000dead"
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": uid}
    path = place.path("configmaps")
    place.apply(path, labelled(config_map("a"), ownerReferences=[reference]))
    wait_for(lambda: read(place.client, path) is None, COLLECTOR_SECONDS, "collected")


def test_to_apply_rules_of_an_aggregated_role_wipes_what_was_aggregated(place: Place) -> None:
    label = {place.namespace: "yes"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    part = labelled(make("rbac.authorization.k8s.io/v1", "ClusterRole", f"{place.namespace}-part", rules=rules))
    part["metadata"]["labels"] = label
    whole = make("rbac.authorization.k8s.io/v1", "ClusterRole", place.namespace)
    whole["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": label}]}
    paths = [f"{RBAC}/clusterroles/{each['metadata']['name']}" for each in (whole, part)]

    def apply(path: str, manifest: Manifest) -> Manifest:
        value: Manifest = place.client.apply(path, manifest, manager=OURS, force=True, metadata=False).value
        return value

    try:
        apply(paths[1], part)
        apply(paths[0], whole)
        wait_for(lambda: (read(place.client, paths[0]) or {}).get("rules"), SECONDS, "aggregated")
        assert apply(paths[0], whole)["rules"] == rules
        assert not apply(paths[0], {**whole, "rules": []})["rules"]
    finally:
        for path in paths:
            remove(place.client, path)
