from __future__ import annotations

import base64
import copy
import json
from functools import cache
from typing import Any

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.schema import crd
from rukpak.controller.cli import install_controller, main
from rukpak.controller.cli.install_controller import (
    Step,
    describe_progress,
    find_manifests,
    find_superseded,
    make_plan,
)
from rukpak.controller.cli.installation import find_loss
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import Resource
from rukpak.controller.views import FailedError
from tests.support.fake_cluster import DEFINITIONS, NAMESPACES, WORKLOADS, FakeCluster

IMAGE = "registry.example.com/rukpak:v9"
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
READ = cache(install_controller.read_manifests)


def read_manifests(*, restricted: bool, image: str, namespace: str) -> list[dict[str, Any]]:
    """Return manifests that a test may change; to read them takes long."""
    return copy.deepcopy(READ(restricted=restricted, image=image, namespace=namespace))


def find(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(each for each in manifests if each["kind"] == kind)


@pytest.mark.parametrize("restricted", [False, True])
def test_the_deployment_runs_the_given_image(restricted: bool) -> None:
    found = read_manifests(restricted=restricted, image=IMAGE, namespace=names.DEFAULT_NAMESPACE)
    assert found[0]["kind"] == "Namespace", "the first that is applied"
    [container] = find(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert ("--require-service-account" in container["args"]) is restricted


@pytest.mark.parametrize("restricted", [False, True])
def test_what_pods_need_is_applied_before_the_deployment(restricted: bool) -> None:
    kinds = [each["kind"] for each in read_manifests(restricted=restricted, image=IMAGE, namespace="bundles")]
    assert kinds[-1] == "Deployment"
    assert kinds.index("Namespace") < kinds.index("CustomResourceDefinition") < kinds.index("ServiceAccount")
    assert kinds.index("ServiceAccount") < kinds.index("ClusterRole") < kinds.index("ClusterRoleBinding")


PODS = Resource("", "v1", "Pod", "pods", namespaced=True, verbs=frozenset({"list"}))
LACKS = "deployment.apps/rukpak: {}Available: 0/2"
SCHEDULING = 'PodPending: the scheduler "default-scheduler" has not chosen a node yet; '


def unavailable(*statuses: dict[str, Any]) -> tuple[FakeCluster, Step]:
    """Return a cluster with the Deployment of the controller, with pods of these statuses."""
    cluster = FakeCluster(WORKLOADS, PODS)
    deployment = find(read_manifests(restricted=False, image=IMAGE, namespace=names.DEFAULT_NAMESPACE), "Deployment")
    progressing = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "conditions": [progressing]}
    spec = {**deployment["spec"], "replicas": 2}
    cluster.put({**deployment, "metadata": {**deployment["metadata"], "generation": 1}, "spec": spec, "status": status})
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for number, each in enumerate(statuses):
        metadata = {"name": f"rukpak-{number}", "namespace": names.DEFAULT_NAMESPACE, "labels": labels}
        cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": each})
    return cluster, Step(manifest=deployment, path=cluster.path(deployment), outcome="created")


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "manager", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": reason}}}


PROGRESS = [
    ("no pods yet", [], ""),
    (
        "an image that nobody has",
        [{"phase": "Pending", "containerStatuses": [waiting("ErrImagePull")]}],
        "ErrImagePull: container",
    ),
    (
        "a Secret that is missing",
        [{"phase": "Pending", "containerStatuses": [waiting("CreateContainerConfigError")]}],
        "CreateContainerConfigError: container",
    ),
    (
        "a container that crashes",
        [{"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}],
        "CrashLoopBackOff: container",
    ),
    (
        "no node",
        [{"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}],
        "Unschedulable: ",
    ),
]


@pytest.mark.parametrize(("statuses", "told"), [case[1:] for case in PROGRESS], ids=[case[0] for case in PROGRESS])
def test_waiting_says_why_there_is(statuses: list[dict[str, Any]], told: str) -> None:
    cluster, step = unavailable(*statuses)
    lacks = describe_progress(cluster.client, step)
    assert lacks.startswith(LACKS.partition("{")[0] + told)
    assert lacks.endswith("Available: 0/2")


def test_waiting_goes_on_where_pods_may_not_be_read() -> None:
    cluster, step = unavailable({"phase": "Pending"})
    assert describe_progress(cluster.client, step) == LACKS.format(SCHEDULING)
    cluster.faults["LIST /api/v1/namespaces/rukpak-system/pods"] = [ApiError(403, "Forbidden", "pods is forbidden")]
    assert describe_progress(cluster.client, step) == LACKS.format("")


@pytest.mark.parametrize("restricted", [False, True])
def test_another_namespace_is_named_everywhere(restricted: bool) -> None:
    found = read_manifests(restricted=restricted, image=IMAGE, namespace="bundles")
    assert find(found, "Namespace")["metadata"]["name"] == "bundles"
    assert names.DEFAULT_NAMESPACE not in json.dumps(found)


def test_the_api_is_that_of_this_release() -> None:
    found = read_manifests(restricted=False, image=IMAGE, namespace=names.DEFAULT_NAMESPACE)
    assert find(found, "CustomResourceDefinition")["spec"] == json.loads(json.dumps(crd()["spec"]))


def test_manifests_are_printed_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-controller", "--image", IMAGE, "-o", "yaml", "--kubeconfig=/nonexistent"]) == 0
    printed = [document.value for document in read_documents(capsys.readouterr().out.encode(), "printed")]
    assert printed == read_manifests(restricted=False, image=IMAGE, namespace=names.DEFAULT_NAMESPACE)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["install-controller", "--image", IMAGE, "-o", "yaml", *arguments]) == 0
    return [document.value for document in read_documents(capsys.readouterr().out.encode(), "printed")]


PROXY = "http://robot:secret@proxy.example:3128"


@pytest.mark.parametrize(
    ("arguments", "direct"),
    [([], ".svc,.cluster.local"), (["--no-proxy=10.0.0.0/8,.acme.example"], "10.0.0.0/8,.acme.example")],
)
def test_the_proxy_is_in_a_secret_that_the_controller_reads(
    arguments: list[str], direct: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(capsys, f"--https-proxy={PROXY}", "--namespace=bundles", *arguments)
    kinds = [each["kind"] for each in found]
    secret = find(found, "Secret")
    assert kinds.index("Namespace") < kinds.index("Secret") < kinds.index("Deployment")
    assert (secret["metadata"]["namespace"], secret["metadata"]["name"]) == ("bundles", names.PROXY)
    values = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert values == {"HTTPS_PROXY": PROXY, "NO_PROXY": direct}
    deployment = find(found, "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": names.PROXY, "optional": True}}]
    assert "secret@" not in json.dumps(deployment)


def test_without_a_proxy_the_secret_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Secret" not in {each["kind"] for each in printed(capsys)}


@pytest.mark.parametrize("url", ["socks5h://robot:secret@proxy.example:1080", "http://robot:secret@:3128"])
def test_a_proxy_that_cannot_be_used(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-controller", "--image", IMAGE, "-o", "yaml", "--https-proxy", url]) == 2
    told = capsys.readouterr()
    assert "--https-proxy: " in told.err
    assert "secret" not in told.out + told.err


def test_an_image_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["install-controller"])
    assert "--image" in capsys.readouterr().err


def test_manifests_of_the_sources_are_those_of_config() -> None:
    assert find_manifests("install.yaml").parent.name == "config"


def other(**changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = copy.deepcopy(crd())
    schema = value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"] |= changes.get("fields", {})
    for name in changes.get("without", ()):
        del schema["properties"]["spec"]["properties"][name]
    return {**value, "status": {"storedVersions": changes.get("stored", ["v1alpha2"])}}


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        pytest.param({}, "", id="the same"),
        pytest.param({"without": ["prune"]}, "", id="an older one"),
        pytest.param({"fields": {"new": {"type": "string"}}}, "spec.new", id="a newer one"),
        pytest.param({"stored": ["v1alpha2", "v1"]}, "stored objects of v1", id="a newer version is stored"),
    ],
)
def test_what_an_older_definition_would_lose_is_named(changes: dict[str, Any], loss: str) -> None:
    assert find_loss(other(**changes)) == loss


def test_a_newer_definition_is_not_replaced() -> None:
    cluster = FakeCluster()
    cluster.put(other(fields={"new": {"type": "string"}}))
    with pytest.raises(
        FailedError, match=r"the API of the cluster has spec.new, which this release does not know; use"
    ):
        list(make_plan(cluster.client, cluster.discovery, [crd()]))
    assert not [request for request in cluster.requests if not request.startswith("GET")]


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        pytest.param(
            {"annotations": {"meta.helm.sh/release-name": "r"}},
            'is managed by the Helm release "r"; use helm upgrade',
            id="of Helm",
        ),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted", id="being deleted"),
    ],
)
def test_what_cannot_be_taken_over_is_named(metadata: dict[str, Any], problem: str) -> None:
    cluster = FakeCluster()
    deployment = find(read_manifests(restricted=False, image=IMAGE, namespace="bundles"), "Deployment")
    cluster.put({**deployment, "metadata": deployment["metadata"] | metadata})
    with pytest.raises(FailedError, match=f"deployment.apps/rukpak {problem}"):
        list(make_plan(cluster.client, cluster.discovery, [deployment]))


def test_a_restriction_is_not_lost_by_an_upgrade() -> None:
    cluster = FakeCluster()
    default, restricted = (
        find(read_manifests(restricted=restricted, image=IMAGE, namespace="bundles"), "Deployment")
        for restricted in (False, True)
    )
    cluster.put(restricted)
    with pytest.raises(FailedError, match=r"is restricted to accounts of tenants; pass --restricted, or uninstall it"):
        list(make_plan(cluster.client, cluster.discovery, [default]))


def test_the_permission_to_install_anything_goes_with_restricted() -> None:
    cluster = FakeCluster(DEFINITIONS, NAMESPACES, WORKLOADS, BINDINGS)
    both = [read_manifests(restricted=restricted, image=IMAGE, namespace="bundles") for restricted in (False, True)]
    default, restricted = ([each for each in found if each["kind"] == "ClusterRoleBinding"] for found in both)
    cluster.put(next(each for each in default if each["metadata"]["name"] == "rukpak-installer"))
    plan = [Step(manifest=each, path=cluster.path(each), outcome="created") for each in restricted]
    [superseded] = find_superseded(cluster.client, cluster.discovery, plan, default)
    assert str(superseded) == "clusterrolebinding.rbac.authorization.k8s.io/rukpak-installer deleted"
