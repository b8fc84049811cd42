"""Health, judged on what a real control plane says of real objects (controller/observe/health/README.md)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.controller.playground import processes
from rukpak.controller.playground.cluster import Cluster, ControlPlane
from tests.support.inside import Context, State, Verdict, assess, explain_namespace

SECONDS = 60
Json = dict[str, Any]
POD = {"containers": [{"name": "app", "image": "web"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
RESOURCES = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
def home(kwok_cluster: Cluster) -> Iterator[str]:
    """A new namespace."""
    name = f"health-{uuid.uuid4().hex[:10]}"
    kwok_cluster.kubectl("create", "namespace", name)
    yield name
    if not isinstance(kwok_cluster, ControlPlane):  # which goes as a whole
        kwok_cluster.kubectl("delete", "namespace", name, "--wait=false")


def apply(cluster: Cluster, kind: str, name: str, namespace: str = "", **parts: Any) -> None:
    api_version, _, kind = kind.rpartition(" ")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **parts.pop("metadata", {})}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(manifest))


def read(cluster: Cluster, *query: str) -> Json:
    found: Json = json.loads(cluster.kubectl("get", *query, "-o", "json"))
    return found


def binding_mode(cluster: Cluster) -> Context:
    """Return what knows the StorageClasses of a cluster."""

    def look_up(name: str | None) -> str:
        mode: str = read(cluster, "storageclass", str(name))["volumeBindingMode"]
        return mode

    return Context(binding_mode=look_up)


def wait_for(cluster: Cluster, query: tuple[str, ...], state: State, reason: str) -> Verdict:
    """Wait until an object is judged so."""
    context = binding_mode(cluster)

    def judge() -> Verdict:
        return assess(read(cluster, *query), context)

    def judged_so() -> Verdict | None:
        verdict = judge()
        return verdict if (verdict.state, verdict.reason) == (state, reason) else None

    return processes.wait_for(judged_so, SECONDS, lambda: f"{reason} of {query}: {judge()}")


def deployment(cluster: Cluster, namespace: str, **spec: Any) -> tuple[str, ...]:
    selector = {"matchLabels": {"app": "web"}}
    wanted = {"replicas": 2, "selector": selector, "template": TEMPLATE, **spec}
    apply(cluster, "apps/v1 Deployment", "web", namespace, spec=wanted)
    return "deployment", "web", "-n", namespace


def test_a_deployment_of_none_and_a_paused_one_are_healthy(kwok_cluster: Cluster, home: str) -> None:
    query = deployment(kwok_cluster, home, replicas=0)
    wait_for(kwok_cluster, query, State.HEALTHY, "Healthy")

    deployment(kwok_cluster, home, replicas=0, paused=True)
    wait_for(kwok_cluster, query, State.HEALTHY, "Paused")


def test_a_job_is_healthy_when_it_is_done_or_suspended(kwok_cluster: Cluster, home: str) -> None:
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    apply(kwok_cluster, "batch/v1 Job", "done", home, spec={"template": template})
    apply(kwok_cluster, "batch/v1 Job", "rests", home, spec={"template": template, "suspend": True})

    wait_for(kwok_cluster, ("job", "done", "-n", home), State.HEALTHY, "Healthy")
    wait_for(kwok_cluster, ("job", "rests", "-n", home), State.HEALTHY, "Suspended")


def test_a_crd_is_healthy_once_established(kwok_cluster: Cluster) -> None:
    group = f"s{uuid.uuid4().hex[:8]}.example.com"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "caches", "singular": "cache", "kind": "Cache"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    apply(kwok_cluster, "apiextensions.k8s.io/v1 CustomResourceDefinition", f"caches.{group}", spec=spec)
    try:
        wait_for(kwok_cluster, ("crd", f"caches.{group}"), State.HEALTHY, "Healthy")
    finally:
        kwok_cluster.kubectl("delete", "crd", f"caches.{group}")


@pytest.fixture
def storage_class(kwok_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A StorageClass that nobody provisions for, with the binding mode that is asked for."""
    name = f"disk-{uuid.uuid4().hex[:8]}"
    parts = {"provisioner": "example.com/none", "volumeBindingMode": request.param}
    apply(kwok_cluster, "storage.k8s.io/v1 StorageClass", name, **parts)
    yield name
    kwok_cluster.kubectl("delete", "storageclass", name)


@pytest.mark.parametrize("storage_class", ["WaitForFirstConsumer"], indirect=True)
def test_a_claim_waits_for_a_pod_and_then_for_its_volume(kwok_cluster: Cluster, home: str, storage_class: str) -> None:
    claim = {**RESOURCES, "storageClassName": storage_class}
    apply(kwok_cluster, "v1 PersistentVolumeClaim", "data", home, spec=claim)
    query = ("pvc", "data", "-n", home)
    wait_for(kwok_cluster, query, State.HEALTHY, "WaitForFirstConsumer")

    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    apply(kwok_cluster, "v1 Pod", "user", home, spec={**POD, "volumes": volumes})

    wait_for(kwok_cluster, query, State.PROGRESSING, "NotBound")


def test_a_namespace_that_does_not_go_says_what_holds_it(kwok_cluster: Cluster) -> None:
    name = f"held-{uuid.uuid4().hex[:10]}"
    kwok_cluster.kubectl("create", "namespace", name)
    apply(kwok_cluster, "v1 ConfigMap", "held", name, metadata={"finalizers": ["example.com/held"]})
    kwok_cluster.kubectl("delete", "namespace", name, "--wait=false")
    try:
        held = "--for=condition=NamespaceFinalizersRemaining"
        kwok_cluster.kubectl("wait", f"namespace/{name}", held, "--timeout=60s")
        namespace = read(kwok_cluster, "namespace", name)
    finally:
        free = '[{"op": "remove", "path": "/metadata/finalizers"}]'
        kwok_cluster.kubectl("patch", "configmap", "held", "-n", name, "--type=json", f"--patch={free}")

    explanation = explain_namespace(namespace)

    assert assess(namespace, Context()).state is State.TERMINATING
    assert explanation is not None
    assert explanation.reason == "NamespaceFinalizersRemaining"
    assert explanation.message == "Some content in the namespace has finalizers remaining: example.com/held"
