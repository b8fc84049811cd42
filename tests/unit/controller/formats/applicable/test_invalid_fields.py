"""Invalid fields that are refused, and those that are left to the API server."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from tests.unit.controller.formats.objects import Case, Object, applicable, make, refusal, with_container, with_pod

WEBHOOKS = "admissionregistration.k8s.io/v1"
EXTENSIONS = "apiextensions.k8s.io/v1"
INJECT = {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}


def env(*variables: Any) -> Object:
    return with_container(env=list(variables))


POD = "Deployment a: spec.template.spec"
NUMBER = "must be a string, not a number; put it in quotes"
BOOLEAN = "must be a string, not a boolean; put it in quotes"
# fmt: off
REFUSED = [
    Case("a number in a ConfigMap", make("ConfigMap", metadata={"namespace": "n"}, data={"port": 80}),
         f"ConfigMap n/a: data.port: {NUMBER}"),
    Case("a boolean in a ConfigMap", make("ConfigMap", data={"on": True}), f"ConfigMap a: data.on: {BOOLEAN}"),
    Case("a mapping in a ConfigMap", make("ConfigMap", data={"c": {}}),
         "ConfigMap a: data.c: must be a string, not a mapping"),
    Case("a list as data", make("ConfigMap", data=[]), "ConfigMap a: data: must be a mapping, not a list"),
    Case("a number in binaryData", make("ConfigMap", binaryData={"a": 1}), f"ConfigMap a: binaryData.a: {NUMBER}"),
    Case("a number in a Secret", make("Secret", data={"a": 1.5}), f"Secret a: data.a: {NUMBER}"),
    Case("a number in stringData", make("Secret", stringData={"pin": 1234}), f"Secret a: stringData.pin: {NUMBER}"),
    Case("a boolean as a label", make("Secret", metadata={"labels": {"a": False}}),
         f"Secret a: metadata.labels.a: {BOOLEAN}"),
    Case("a list as labels", make("Secret", metadata={"labels": []}),
         "Secret a: metadata.labels: must be a mapping, not a list"),
    Case("a number as an annotation", make("Secret", metadata={"annotations": {"a": 1}}),
         f"Secret a: metadata.annotations.a: {NUMBER}"),
    Case("a number as an environment variable", env({"name": "A", "value": "b"}, {"name": "B", "value": 1}),
         f"{POD}.containers[0].env[1].value: {NUMBER}"),
    Case("a boolean as an argument", with_container(args=["-v", True]), f"{POD}.containers[0].args[1]: {BOOLEAN}"),
    Case("a number in a command", with_pod(initContainers=[{"name": "c", "command": [1]}]),
         f"{POD}.initContainers[0].command[0]: {NUMBER}"),
    Case("a boolean in a node selector", with_pod(nodeSelector={"ssd": True}), f"{POD}.nodeSelector.ssd: {BOOLEAN}"),
    Case("a number in the selector of a Service", make("Service", spec={"selector": {"a": 1}}),
         f"Service a: spec.selector.a: {NUMBER}"),
    Case("a number in the selector of a ReplicationController",
         make("ReplicationController", spec={"selector": {"a": 1}}),
         f"ReplicationController a: spec.selector.a: {NUMBER}"),
    Case("a number in the selector of a workload",
         make("StatefulSet", "apps/v1", spec={"selector": {"matchLabels": {"a": 1}}}),
         f"StatefulSet a: spec.selector.matchLabels.a: {NUMBER}"),
    Case("a number as a label of pods", make("Job", "batch/v1", spec={"template": {"metadata": {"labels": {"a": 1}}}}),
         f"Job a: spec.template.metadata.labels.a: {NUMBER}"),
    Case("a number in the pods of a CronJob",
         make("CronJob", "batch/v1",
         spec={"jobTemplate": {"spec": {"template": {"spec": {"nodeSelector": {"a": 1}}}}}}),
         f"CronJob a: spec.jobTemplate.spec.template.spec.nodeSelector.a: {NUMBER}"),
    Case("a number in a Pod", make("Pod", spec={"nodeSelector": {"a": 1}}), f"Pod a: spec.nodeSelector.a: {NUMBER}"),
    Case("a label of a Pod, once", make("Pod", metadata={"labels": {"a": 1}}, spec={}),
         f"Pod a: metadata.labels.a: {NUMBER}"),
    Case("two environment variables of one name",
         env({"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}),
         f'{POD}.containers[0].env[2]: same name "A" as env[0]; remove one'),
    Case("two equal ports, one of them by default",
         with_container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80,
         "protocol": "TCP"}]),
         f'{POD}.containers[0].ports[2]: same containerPort "80", protocol "TCP" as ports[0]; remove one'),
    Case("two mounts at one path",
         with_container(volumeMounts=[{"mountPath": "/a", "name": "x"}, {"mountPath": "/a", "name": "y"}]),
         f'{POD}.containers[0].volumeMounts[1]: same mountPath "/a" as volumeMounts[0]; remove one'),
    Case("two containers of one name", with_pod(containers=[{"name": "c"}] * 2),
         f'{POD}.containers[1]: same name "c" as containers[0]; remove one'),
    Case("two volumes of one name", with_pod(volumes=[{"name": "v"}] * 2),
         f'{POD}.volumes[1]: same name "v" as volumes[0]; remove one'),
    Case("two pull secrets without a name", with_pod(imagePullSecrets=[{}, {}]),
         f'{POD}.imagePullSecrets[1]: same name "" as imagePullSecrets[0]; remove one'),
    Case("two ports of a Service",
         make("Service", spec={"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}, {"port": 53,
         "protocol": None}]}), 'Service a: spec.ports[2]: same port "53", protocol "TCP" as ports[1]; remove one'),
    Case("two equal secrets of a ServiceAccount", make("ServiceAccount", secrets=[{"name": "s"}] * 2),
         'ServiceAccount a: secrets[1]: same name "s" as secrets[0]; remove one'),
    Case("two equal finalizers", make("Secret", metadata={"finalizers": ["a/b", "a/b"]}),
         'Secret a: metadata.finalizers[1]: same name "a/b" as finalizers[0]; remove one'),
    Case("two webhooks of one name",
         make("MutatingWebhookConfiguration", WEBHOOKS, webhooks=[{"name": "w"}, {"name": "w"}]),
         'MutatingWebhookConfiguration a: webhooks[1]: same name "w" as webhooks[0]; remove one'),
    Case("a null in a keyed list", env({"name": "A"}, None),
         f"{POD}.containers[0].env[1]: must not be null; remove it"),
    Case("a null finalizer", make("Secret", metadata={"finalizers": [None]}),
         "Secret a: metadata.finalizers[0]: must not be null; remove it"),
    Case(
        "preserveUnknownFields of true",
        make("CustomResourceDefinition", EXTENSIONS, spec={"preserveUnknownFields": True}),
        "CustomResourceDefinition a: spec.preserveUnknownFields: must not be true in apiextensions.k8s.io/v1; "
        "remove it and set x-kubernetes-preserve-unknown-fields: true in the schema",
    ),
    Case("an object without kind", {"apiVersion": "v1", "metadata": {"name": "a"}}, "objects[0]: kind: missing"),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_refused(case: Case) -> None:
    assert refusal(case.given) == case.expect


# fmt: off
LEFT_TO_THE_SERVER = [
    Case("a workload without a spec", make("Deployment", "apps/v1"), None),
    Case("text as a spec", make("Deployment", "apps/v1", spec="x"), None),
    Case("text as containers", with_pod(containers="x"), None),
    Case("text as a container", with_pod(containers=["x"]), None),
    Case("text as an environment", with_container(env="x", args="y", ports=["z"]), None),
    Case("keys of other types", with_container(env=[{"name": []}, {"name": {}}, {"name": []}]), None),
    Case("items without a key", with_container(env=[{}, {}, {"value": "x"}]), None),
    Case("webhooks that are none", make("MutatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks={"a": 1}), None),
    Case("a webhook that is none", make("MutatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks=["a"]), None),
    Case("a CRD of nonsense", make("CustomResourceDefinition", EXTENSIONS, spec={"versions": 1, "names": []}), None),
    Case("a CRD of worse nonsense", make("CustomResourceDefinition", EXTENSIONS, spec={"versions": [1, {"schema": 1}]}),
         None),
    Case("finalizers that are none", make("Secret", metadata={"finalizers": {"a": 1}}), None),
]
# fmt: on


@pytest.mark.parametrize("case", LEFT_TO_THE_SERVER, ids=attrgetter("name"))
def test_left_to_the_api_server(case: Case) -> None:
    assert applicable(case.given) == [case.given]


def test_all_problems_are_counted() -> None:
    message = refusal(make("Secret", data={"a": 1, "b": 2}), make("ConfigMap", data={"c": 3}))
    assert message == f"Secret a: data.a: {NUMBER} (and 2 more)"


def test_a_message_never_shows_a_value() -> None:
    assert "7391" not in refusal(make("Secret", stringData={"pin": 7391}))
