"""The clusters and registries that tests run on do what a real one does, and survive being killed."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.cluster import Cluster, ControlPlane, KubectlError, load_control_plane
from rukpak.controller.playground.processes import wait_for
from tests.support.registry import INDEX, MANIFEST, LocalRegistry

ROOT = Path(__file__).parents[2]
DEPLOYMENT = ["create", "deployment", "web", "--image=nginx", "--replicas=3"]


def test_a_failure_of_kubectl_says_what_kubectl_said(cluster: Cluster) -> None:
    with pytest.raises(KubectlError, match='namespaces "nowhere" not found'):
        cluster.kubectl("get", "namespace", "nowhere")


def test_rights_are_those_of_rbac(cluster: Cluster, namespace: str) -> None:
    account = f"--as=system:serviceaccount:{namespace}:default"
    with pytest.raises(KubectlError, match="Forbidden"):
        cluster.kubectl("get", "secrets", "--namespace", namespace, account)


def test_pods_become_ready_and_jobs_complete_where_there_is_a_node(kwok_cluster: Cluster) -> None:
    kwok_cluster.kubectl(*DEPLOYMENT)
    kwok_cluster.kubectl("create", "job", "task", "--image=busybox")
    kwok_cluster.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    kwok_cluster.kubectl("wait", "--for=condition=Complete", "job/task", "--timeout=60s")
    kwok_cluster.kubectl("delete", "deployment/web", "job/task")


@pytest.mark.own_cluster
def test_the_audit_log_tells_who_asked_for_what(cluster: ControlPlane) -> None:
    since = cluster.audit_position()
    cluster.kubectl("create", "configmap", "audited", "--namespace=default")
    cluster.kubectl("delete", "configmap", "audited", "--namespace=default")

    def verbs() -> list[str]:
        requests = cluster.audit_requests(since)
        return [one["verb"] for one in requests if one.get("objectRef", {}).get("name") == "audited"]

    wait_for(lambda: verbs()[:1] == ["create"] and "delete" in verbs(), 10, "both requests in the audit log")
    assert {one["user"]["username"] for one in cluster.audit_requests(since)} >= {"admin"}


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_objects_outlive_a_kill_of_etcd_and_api_server(cluster: ControlPlane, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "kept", "--namespace", namespace)
    cluster.stop("kube-apiserver")
    with pytest.raises(KubectlError, match="refused"):
        cluster.kubectl("get", "configmap", "kept", "--namespace", namespace)
    cluster.stop("etcd")
    cluster.start("etcd")
    cluster.start("kube-apiserver")
    kept = cluster.kubectl("get", "configmap", "kept", "--namespace", namespace, "-o", "name")
    assert kept == "configmap/kept\n"


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_workloads_stand_still_while_their_controllers_are_dead(cluster: ControlPlane, namespace: str) -> None:
    def replica_sets() -> str:
        return cluster.kubectl("get", "replicasets", "--namespace", namespace, "-o", "name")

    cluster.stop("kube-controller-manager")
    try:
        cluster.kubectl(*DEPLOYMENT, "--namespace", namespace)
        assert not replica_sets()
    finally:
        cluster.start("kube-controller-manager")
    wait_for(replica_sets, 20, "ReplicaSet created")


@pytest.mark.thorough
def test_the_command_starts_shows_and_takes_down_a_cluster() -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "hack.control_plane", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    name = f"test-{time.monotonic_ns()}"
    try:
        exported = run("up", name, "--audit", "--registry")
        script = f'{exported}kubectl get --raw /readyz; echo " $REGISTRY"; command -v rukpak'
        bare = {**os.environ, "PATH": os.defpath}
        answer = subprocess.run(["bash", "-c", script], env=bare, capture_output=True, text=True, check=True)
        readiness, host, program = answer.stdout.split()
        assert readiness == "ok"
        assert program == str(Path(sys.prefix) / "bin/rukpak")
        with urllib.request.urlopen(f"http://{host}/v2/", timeout=10) as response:
            assert response.status == 200
        assert run("env", name) == exported
        assert f"{name}" in run("list")
        assert "running" in next(line for line in run("list").splitlines() if line.startswith(name))
    finally:
        run("down", name)
    assert name not in run("list")


@pytest.mark.own_cluster
def test_a_cluster_can_be_used_by_another_process(cluster: ControlPlane) -> None:
    found = load_control_plane(cluster.folder)
    assert found.is_running()
    assert found.kubectl("get", "--raw", "/readyz") == "ok"


def pull(registry: LocalRegistry, path: str, media_type: str = "*/*") -> bytes:
    request = urllib.request.Request(f"http://{registry.host}/v2/{path}", headers={"Accept": media_type})
    with urllib.request.urlopen(request, timeout=10) as response:
        body: bytes = response.read()
        return body


def manifest_of(registry: LocalRegistry, path: str, media_type: str = MANIFEST) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(pull(registry, path, media_type))
    return manifest


def test_a_pushed_image_can_be_pulled_by_tag_and_by_digest(registry: LocalRegistry) -> None:
    digest = registry.push_image("cluster/image", "v1", [{"manifests/a.yaml": b"a: 1"}, {"manifests/b.yaml": b"b: 2"}])
    manifest = manifest_of(registry, "cluster/image/manifests/v1")
    assert manifest == manifest_of(registry, f"cluster/image/manifests/{digest}")
    layer = pull(registry, f"cluster/image/blobs/{manifest['layers'][1]['digest']}")
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer))) as archive:
        assert archive.getnames() == ["manifests/b.yaml"]


def test_an_index_names_an_image_for_each_platform(registry: LocalRegistry) -> None:
    images = {"linux/amd64": [{"a": b"amd64"}], "linux/arm/v7": [{"a": b"arm"}]}
    registry.push_index("cluster/index", "v1", images)
    entries = manifest_of(registry, "cluster/index/manifests/v1", INDEX)["manifests"]
    assert [entry["platform"].get("variant") for entry in entries] == [None, "v7"]
    assert all(manifest_of(registry, f"cluster/index/manifests/{entry['digest']}")["layers"] for entry in entries)


def test_a_registry_keeps_its_content_over_a_restart_and_loses_what_is_deleted(fresh_registry: LocalRegistry) -> None:
    digest = fresh_registry.push_image("cluster/kept", "v1", [{"a": b"1"}])
    fresh_registry.stop()
    with pytest.raises(urllib.error.URLError, match="refused"):
        pull(fresh_registry, f"cluster/kept/manifests/{digest}", MANIFEST)
    fresh_registry.start()
    assert manifest_of(fresh_registry, f"cluster/kept/manifests/{digest}")
    fresh_registry.delete_manifest("cluster/kept", digest)
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        pull(fresh_registry, f"cluster/kept/manifests/{digest}", MANIFEST)
    refused.value.close()


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_a_cluster_that_the_user_has_is_used_but_neither_killed_nor_audited(cluster: ControlPlane) -> None:
    since = cluster.audit_position()
    selected = ["--all", "-k", "rbac or audit_log or outlive", f"--kubeconfig={cluster.kubeconfig}"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__, *selected]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
    left_out = done.stdout.partition("left out: these kill or audit their cluster")[2]
    assert "::test_the_audit_log_tells_who_asked_for_what" in left_out
    assert "::test_objects_outlive_a_kill_of_etcd_and_api_server" in left_out
    assert cluster.audit_requests(since), "the requests went to that cluster"
