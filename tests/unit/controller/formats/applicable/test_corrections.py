"""Changes to objects so that server-side apply does what their author meant."""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any

import pytest

from tests.unit.controller.formats.objects import Case, Object, applicable, make, with_container, with_pod

INJECT = {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}
CLIENT = {"service": {"name": "s", "namespace": "n"}}
WEBHOOKS = "admissionregistration.k8s.io/v1"
EXTENSIONS = "apiextensions.k8s.io/v1"
SERVICE_CA = {"annotations": {"service.beta.openshift.io/inject-cabundle": "true"}}


def conversion(**client: Any) -> Object:
    return {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT | client}}}


# fmt: off
CORRECTED = [
    Case("what needs nothing stays as it is", make("Secret", data={"a": "eA=="}), make("Secret", data={"a": "eA=="})),
    Case(
        "metadata that only a server may set goes",
        make(
            "Secret",
            metadata={
                "uid": "u",
                "resourceVersion": "1",
                "managedFields": [{}],
                "creationTimestamp": "2020-01-01T00:00:00Z",
                "generation": 1,
                "selfLink": "/",
                "deletionTimestamp": "2020-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 0,
                "generateName": "a-",
                "ownerReferences": [{"uid": "u"}],
                "finalizers": ["a/b"],
            },
        ),
        make("Secret", metadata={"finalizers": ["a/b"]}),
    ),
    Case("what a controller of Kubernetes writes goes, as if it had not been exported",
         make("Deployment", metadata={"annotations": {"deployment.kubernetes.io/revision": "3"}}), make("Deployment")),
    Case("the UID of an account elsewhere, for which the token would be deleted",
         make("Secret", metadata={"annotations": {"kubernetes.io/service-account.uid": "x"}}), make("Secret")),
    Case("last-applied-configuration goes, other annotations stay",
         make("Secret", metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}}),
         make("Secret", metadata={"annotations": {"a": "b"}})),
    Case(
        "our own marks go",
        make(
            "BundleDeployment",
            "core.rukpak.io/v1alpha2",
            {
                "labels": {"core.rukpak.io/bundle-deployment": "x"},
                "annotations": {
                    "core.rukpak.io/owner-uid": "u",
                    "core.rukpak.io/applied-digest": "d",
                    "core.rukpak.io/released-from": "x",
                },
            },
            spec={"paused": True},
        ),
        make("BundleDeployment", "core.rukpak.io/v1alpha2", spec={"paused": True}),
    ),
    Case("what users may say in annotations of ours stays",
         make("Secret", metadata={"annotations": {"core.rukpak.io/prune": "true"}}),
         make("Secret", metadata={"annotations": {"core.rukpak.io/prune": "true"}})),
    Case("empty labels stay as they are", make("Secret", metadata={"labels": {}}),
         make("Secret", metadata={"labels": {}})),
    Case("status goes", make("Service", spec={}, status={"loadBalancer": {}}), make("Service", spec={})),
    Case("status of null goes", make("Service", status=None), make("Service")),
    Case("nulls go, wherever they stand",
         with_pod(nodeName=None, containers=[{"name": "c", "ports": [{"containerPort": 1, "protocol": None}]}]),
         with_pod(containers=[{"name": "c", "ports": [{"containerPort": 1}]}])),
    Case("nulls in metadata go", make("Secret", metadata={"labels": None, "annotations": {"a": None, "b": "c"}}),
         make("Secret", metadata={"annotations": {"b": "c"}})),
    Case("nulls that are items of a list stay", with_container(args=["a", None]), with_container(args=["a", None])),
    Case("text that looks like a null stays", make("Secret", type=":null"), make("Secret", type=":null")),
    Case("null data of a ConfigMap is written as the empty string",
         make("ConfigMap", metadata={"namespace": "n"}, data={"a": None, "b": "c"}, binaryData={"d": None}),
         make("ConfigMap", metadata={"namespace": "n"}, data={"a": "", "b": "c"}, binaryData={"d": ""})),
    Case("null data of a Secret, too", make("Secret", data={"a": None, "b": "eA=="}),
         make("Secret", data={"a": "", "b": "eA=="})),
    Case("a ConfigMap without data stays so", make("ConfigMap", metadata={"namespace": "n"}, data=None),
         make("ConfigMap", metadata={"namespace": "n"})),
    Case("stringData is converted, and precedes data",
         make("Secret", data={"a": "eA==", "b": "eQ=="}, stringData={"a": "ä", "c": "", "d": None}),
         make("Secret", data={"a": "w6Q=", "b": "eQ==", "c": "", "d": ""})),
    Case("stringData without data makes data", make("Secret", stringData={"a": "x"}),
         make("Secret", data={"a": "eA=="})),
    Case("empty stringData goes", make("Secret", stringData={}), make("Secret")),
    Case("stringData of null goes", make("Secret", stringData=None), make("Secret")),
    Case("stringData of another kind stays", make("Secret", "e.x/v1", stringData={"a": "x"}),
         make("Secret", "e.x/v1", stringData={"a": "x"})),
    Case("empty atomic and keyed lists stay", with_container(args=[], env=[]), with_container(args=[], env=[])),
    Case("rules of an aggregated ClusterRole go",
         make("ClusterRole", "rbac.authorization.k8s.io/v1", aggregationRule={"clusterRoleSelectors": []}, rules=[]),
         make("ClusterRole", "rbac.authorization.k8s.io/v1", aggregationRule={"clusterRoleSelectors": []})),
    Case("rules of an ordinary ClusterRole stay",
         make("ClusterRole", "rbac.authorization.k8s.io/v1", aggregationRule=None, rules=[{"verbs": ["get"]}]),
         make("ClusterRole", "rbac.authorization.k8s.io/v1", rules=[{"verbs": ["get"]}])),
    Case("caBundle of a webhook goes beside an inject annotation",
         make("ValidatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks=[{"name": "w", "clientConfig": {**CLIENT,
         "caBundle": "Cg=="}}]),
         make("ValidatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks=[{"name": "w", "clientConfig": CLIENT}])),
    Case("caBundle of a webhook stays without one",
         make("MutatingWebhookConfiguration", WEBHOOKS, webhooks=[{"name": "w", "clientConfig": {"caBundle": "Cg=="}}]),
         make("MutatingWebhookConfiguration", WEBHOOKS, webhooks=[{"name": "w",
         "clientConfig": {"caBundle": "Cg=="}}])),
    Case("caBundle of a conversion webhook goes beside an inject annotation",
         make("CustomResourceDefinition", EXTENSIONS, SERVICE_CA, spec=conversion(caBundle="Cg==")),
         make("CustomResourceDefinition", EXTENSIONS, SERVICE_CA, spec=conversion())),
    Case("caBundle of an APIService goes beside an inject annotation",
         make("APIService", "apiregistration.k8s.io/v1", INJECT, spec={"group": "g", "caBundle": "Cg=="}),
         make("APIService", "apiregistration.k8s.io/v1", INJECT, spec={"group": "g"})),
    Case("preserveUnknownFields of false stays",
         make("CustomResourceDefinition", EXTENSIONS, spec={"preserveUnknownFields": False}),
         make("CustomResourceDefinition", EXTENSIONS, spec={"preserveUnknownFields": False})),
]
# fmt: on


@pytest.mark.parametrize("case", CORRECTED, ids=attrgetter("name"))
def test_changed(case: Case) -> None:
    before = copy.deepcopy(case.given)
    assert applicable(case.given) == [case.expect]
    assert case.given == before


@pytest.mark.parametrize("case", CORRECTED, ids=attrgetter("name"))
def test_applicable_objects_are_not_changed_again(case: Case) -> None:
    once = applicable(case.given)
    assert applicable(*once) == once
