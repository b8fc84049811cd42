"""A Service of the bundle with the name of the generated one: when it is used, and what is added to it."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.conditions import Reason
from tests.support.operator_bundles import (
    NAMESPACE,
    OPENSHIFT,
    Manifest,
    deployment,
    object_of,
    of_kind,
    only,
    refusal,
    render,
    service_version,
    webhook,
    write_bundle,
)

GENERATED: Manifest = {"ports": [{"name": "443", "port": 443, "targetPort": 9443}], "selector": {"app": "manager"}}
CONTAINER = {"name": "main", "image": "x", "ports": [{"name": "hooks", "containerPort": 9443}]}


def port(**fields: Any) -> Manifest:
    return {"port": 443, "targetPort": 9443, **fields}


class Case(NamedTuple):
    name: str
    spec: Any
    expect: Manifest | None = None


# fmt: off
USED = [
    Case("no fields", {}, GENERATED),
    Case("nulls", {"ports": None, "selector": None}, GENERATED),
    Case("the port with another name and a protocol",
         {"ports": [port(name="webhook", protocol="TCP")], "selector": {"app": "manager"}}),
    Case("more ports", {"ports": [port(name="a"), {"name": "b", "port": 8443}], "selector": {"app": "manager"}}),
    Case("the name of the target port", {"ports": [port(targetPort="hooks")], "selector": {"app": "manager"}}),
    Case("other fields, but no selector", {"ports": [port()], "type": "NodePort", "sessionAffinity": "ClientIP"},
         {"ports": [port()], "type": "NodePort", "sessionAffinity": "ClientIP", "selector": {"app": "manager"}}),
    Case("a wider selector", {"ports": [port()], "selector": {}}),
]
REFUSED = [
    Case("another port", {"ports": [port(port=8443)]}),
    Case("another target port", {"ports": [port(targetPort=8443)]}),
    Case("no target port", {"ports": [{"port": 443}]}),
    Case("the name of another target port", {"ports": [port(targetPort="metrics")]}),
    Case("another protocol", {"ports": [port(protocol="UDP")]}),
    Case("no ports", {"ports": []}),
    Case("ports that are none", {"ports": "443"}),
    Case("other pods", {"selector": {"app": "other"}}),
    Case("a selector that is none", {"selector": "app"}),
    Case("an external name", {"type": "ExternalName", "externalName": "example.com"}),
]
# fmt: on


def write(tmp_path: Path, *services: Manifest) -> Path:
    csv = service_version(webhooks=[webhook()], deployments=[deployment(containers=[CONTAINER])])
    return write_bundle(tmp_path, csv, *services)


@pytest.mark.parametrize("case", USED, ids=attrgetter("name"))
def test_a_service_that_serves_the_webhooks_is_used(case: Case, tmp_path: Path) -> None:
    service = object_of("Service", "manager-service", spec=case.spec)
    assert only(render(write(tmp_path, service)), "Service") == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "manager-service", "namespace": NAMESPACE},
        "spec": case.expect or case.spec,
    }


def test_its_metadata_is_kept_and_the_annotation_of_the_certificate_added(tmp_path: Path) -> None:
    service = object_of("Service", "manager-service", spec={"ports": [port()]})
    service["metadata"] |= {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    made = only(render(write(tmp_path, service), kinds=OPENSHIFT), "Service")
    secret = {"service.beta.openshift.io/serving-cert-secret-name": "manager-service-cert"}
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {"c": "d", **secret}


def test_other_services_are_left_alone(tmp_path: Path) -> None:
    others = [object_of("Service", "other", spec={"ports": [port(port=1)]}), object_of("Service", "manager-service")]
    rendering = render(write(tmp_path, *others))
    assert [item["metadata"]["name"] for item in of_kind(rendering, "Service")] == ["other", "manager-service"]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_a_service_that_does_not_serve_them_is_refused(case: Case, tmp_path: Path) -> None:
    root = write(tmp_path, object_of("Service", "manager-service", spec=case.spec))
    assert refusal(root) == (
        Reason.INVALID_BUNDLE,
        "Service inst/manager-service: the bundle contains two different objects with this name; rename one",
    )
