"""Healthy means that the pods live: what status says of pods that a real kubelet runs, and what a failed upgrade does.

Every row of a table is installed at once, so that all of them together take no longer than the slowest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import Deployed, Manifest, World, image
from tests.support.objects import claim, make
from tests.support.running import (
    Readiness,
    container,
    deployment_of,
    job_of,
    pod_of,
    watching_readiness,
    workload,
)

pytestmark = pytest.mark.long

VERDICT_SECONDS = 240.0
"""For three ends of a container: a kubelet waits 10 s before the third, and acts on probes when it has time. How soon
after the third it is told is a promise, see below."""
ROLLED_BACK_SECONDS = 30.0
"""A promise: after the third end, or from the upgrade where the container ends after 2 s."""
FAILED, PROGRESSING = "Failed", "Progressing"
TOLD = ("tell", "cannot open database", "exit", "3")
PORT = {"httpGet": {"path": "/", "port": 9}, "periodSeconds": 1}
PROBE = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}


class Row(NamedTuple):
    name: str
    objects: list[Manifest]
    verdict: str
    reason: str
    says: tuple[str, ...] = ()
    is_slow: bool = False


def mounted(volume: Manifest) -> Manifest:
    """Return a Deployment with a volume."""
    mounts = [{"name": "v", "mountPath": "/v"}]
    return workload("Deployment", pod_of(container(volumeMounts=mounts), volumes=[{"name": "v", **volume}]))


def initialized_by(*steps: str, **fields: Any) -> Manifest:
    """Return a Deployment with an init container."""
    return workload("Deployment", pod_of(container(), initContainers=[container(*steps, **{"name": "i", **fields})]))


def killed(*steps: str) -> Manifest:
    """Return a Deployment whose liveness probe fails; a busy kubelet has needed longer than 15 s to act on that."""
    probed = container(*steps, livenessProbe={**PORT, "failureThreshold": 1})
    return workload("Deployment", pod_of(probed), minReadySeconds=60)


MISSING_KEY = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "missing", "key": "k"}}}]
# fmt: off
ROWS = [
    Row("an image that is not there", [deployment_of(image="10.90.0.1:45000/none:1")], PROGRESSING, "",
        ('container "c": ', "10.90.0.1:45000/none:1", "connection refused")),
    Row("a program that is not there", [deployment_of(command=["/nope"])], FAILED, "CrashLoopBackOff",
        ('container "c" ', "/nope", "no such file or directory")),
    Row("a program that ends with an error", [deployment_of(*TOLD)], FAILED, "CrashLoopBackOff",
        ('container "c" ', "exit code 3", "cannot open database")),
    Row("a program that ends after two seconds", [deployment_of("sleep", "2s", "exit", "4")], FAILED,
        "CrashLoopBackOff", ("exit code 4",)),
    Row("a program that has to be killed", [killed("stubborn")], FAILED, "CrashLoopBackOff",
        ("exit code 137 (SIGKILL)",)),
    Row("a readiness probe that fails", [deployment_of("serve", readinessProbe=PORT)], PROGRESSING, "",
        ('container "c": Readiness probe failed', "connection refused")),
    Row("a liveness probe that fails", [killed("serve")], FAILED, "CrashLoopBackOff", ("exit code 0",)),
    Row("more memory than its limit", [deployment_of("allocate", "200", resources={"limits": {"memory": "32Mi"}})],
        FAILED, "CrashLoopBackOff", ("OOMKilled", "32Mi")),
    Row("more processors than there are", [deployment_of(resources={"requests": {"cpu": "500"}})], PROGRESSING,
        "Unschedulable", ("Insufficient cpu",)),
    Row("a ConfigMap that is not there", [mounted({"configMap": {"name": "missing"}})], PROGRESSING, "FailedMount",
        ('configmap "missing" not found',)),
    Row("a user that it must not have", [deployment_of(securityContext={"runAsNonRoot": True})], PROGRESSING,
        "CreateContainerConfigError", ('container "c": ', "runAsNonRoot")),
    Row("a variable of a Secret that is not there", [deployment_of(env=MISSING_KEY)], PROGRESSING,
        "CreateContainerConfigError", ('container "c": secret "missing" not found',)),
    Row("an init container that does not end", [initialized_by()], PROGRESSING, "PodPending",
        ('init container "i" has not ended yet',)),
    Row("an init container that ends with an error", [initialized_by(*TOLD)], FAILED, "CrashLoopBackOff",
        ('init container "i" ', "exit code 3", "cannot open database")),
    Row("a sidecar that ends with an error", [initialized_by(*TOLD, restartPolicy="Always")], FAILED,
        "CrashLoopBackOff", ('"i" ', "exit code 3", "cannot open database")),
    Row("a Job that fails twice", [job_of(pod_of(container(*TOLD)), backoffLimit=1)], FAILED, "BackoffLimitExceeded"),
    Row("a claim without a class", [claim("p"), mounted({"persistentVolumeClaim": {"claimName": "p"}})], PROGRESSING,
        "Unschedulable", ('PersistentVolumeClaim "p" is not bound',)),
    Row("a StatefulSet that crashes", [workload("StatefulSet", pod_of(container(*TOLD)), serviceName="x")], FAILED,
        "CrashLoopBackOff", ("exit code 3",)),
    Row("a DaemonSet that crashes", [workload("DaemonSet", pod_of(container(*TOLD)))], FAILED, "CrashLoopBackOff",
        ("exit code 3",)),
    Row("a Pod that crashes", [make("v1", "Pod", "x", spec=pod_of(container(*TOLD)))], FAILED, "CrashLoopBackOff",
        ("exit code 3",)),
]
LIVING = {
    "without a probe": [deployment_of("serve")],
    "with a probe": [deployment_of("serve", readinessProbe=PROBE)],
    "a Job": [job_of(pod_of(container("exit", "0")))],
    "a Job that is tried again": [
        job_of(pod_of(container("once", "/scratch/a", "exit", "0"), restartPolicy="OnFailure"))
    ],
}
# fmt: on
WAITS_FOR_DATABASE = [deployment_of("once", "/scratch/a", "once", "/scratch/b", "serve")]
ROLL_BACK: dict[str, Any] = {"onFailure": {"action": "RollBack"}}
LATE = {"after 2 s": 2, "after 6 s": 6, "after 20 s": 20, "after 40 s": 40}
SLOW = frozenset({"after 20 s", "after 40 s"})


def parametrize_late() -> list[Any]:
    return [pytest.param(each, marks=[pytest.mark.thorough] if each in SLOW else [], id=each) for each in LATE]


class Installed(NamedTuple):
    rows: dict[str, Deployed]
    living: dict[str, Deployed]
    late: dict[str, Deployed]
    first: dict[str, str]
    """The revision before the upgrade."""
    readiness: Readiness
    since: float


@pytest.fixture(scope="module")
def installed(
    node_world: World, node_cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Installed]:
    """All of them, and the upgrades as soon as their first version is Ready."""
    late = [each for each in LATE if each not in SLOW or pytestconfig.getoption("--all")]
    with watching_readiness(node_cluster, tmp_path_factory.mktemp("seen") / "ready") as readiness:
        upgraded = {each: node_world.deploy(deployment_of("serve"), **ROLL_BACK) for each in late}
        living = {name: node_world.deploy(*objects) for name, objects in LIVING.items()}
        if pytestconfig.getoption("--all"):
            living["waits for its database"] = node_world.deploy(*WAITS_FOR_DATABASE)
        rows = {row.name: node_world.deploy(*row.objects) for row in ROWS}
        first = {name: deployed.wait_ready()["installedRevision"] for name, deployed in upgraded.items()}
        for name, deployed in upgraded.items():
            second = deployment_of("sleep", f"{LATE[name]}s", *TOLD)
            deployed.change(sources=[image(node_world.push(deployed.name, second, tag="v2"))])
        yield Installed(rows, living, upgraded, first, readiness, time.monotonic())


def said_of(deployed: Deployed) -> list[str]:
    return [f"{each['reason']}: {each.get('message', '')}" for each in deployed.status().get("notReady", ())]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_pod_that_does_not_live_is_never_ready(row: Row, installed: Installed) -> None:
    deployed = installed.rows[row.name]

    def is_told() -> bool:
        healthy = deployed.conditions().get("Healthy", {})
        told = [said for said in said_of(deployed) if all(text in said for text in row.says)]
        return healthy.get("reason") == row.verdict and any(said.startswith(row.reason) for said in told)

    remaining = VERDICT_SECONDS - (time.monotonic() - installed.since)
    wait_for(is_told, max(remaining, 1.0), lambda: f"{deployed.conditions().get('Healthy')} {said_of(deployed)}")
    assert not installed.readiness.was_ready(deployed.name)


def test_an_object_that_the_api_server_refuses_is_not_ready(node_world: World) -> None:
    ports = [{"containerPort": 8080, "hostPort": 10250}]
    spec = pod_of(container("serve", ports=ports), hostNetwork=True)
    deployed = node_world.deploy(workload("Deployment", spec))
    deployed.wait_for("Installed", "False", saying="hostPort")
    assert deployed.conditions()["Ready"]["status"] == "False"


@pytest.mark.parametrize("name", LIVING)
def test_a_pod_that_lives_is_ready(name: str, installed: Installed) -> None:
    installed.living[name].wait_ready()


def test_without_a_probe_it_is_ready_when_it_has_run_for_five_seconds(installed: Installed) -> None:
    assert seconds_until_ready(installed.living["without a probe"]) >= 4  # times are of whole seconds


def seconds_until_ready(deployed: Deployed) -> float:
    """Return how long after its pod Ready became True."""
    ready = deployed.wait_for("Ready")["lastTransitionTime"]
    [pod] = pods_of(deployed)
    [since] = [each["lastTransitionTime"] for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    return time.mktime(time.strptime(ready, FORMAT)) - time.mktime(time.strptime(since, FORMAT))


FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def pods_of(deployed: Deployed) -> list[Manifest]:
    return list(deployed.client.list(f"/api/v1/namespaces/{deployed.namespace}/pods"))


@pytest.mark.thorough
def test_one_that_ends_twice_before_its_database_is_there_is_ready_after_a_minute(
    installed: Installed, node_world: World
) -> None:
    deployed = installed.living["waits for its database"]

    def is_ready() -> bool:
        assert deployed.conditions().get("Healthy", {}).get("reason") != FAILED, said_of(deployed)
        return deployed.conditions().get("Ready", {}).get("status") == "True"

    node_world.wait(is_ready, "Ready", 120)
    assert seconds_until_ready(deployed) >= 45  # it is 60 s from its second end, 10 s before it starts again


@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", parametrize_late())
def test_an_upgrade_whose_pods_crash_is_rolled_back(name: str, installed: Installed, node_world: World) -> None:
    deployed, first = installed.late[name], installed.first[name]

    def third_end() -> float | None:
        status = [each for pod in pods_of(deployed) for each in pod["status"].get("containerStatuses", ())]
        ends = max((each["restartCount"] + ("terminated" in each["state"]) for each in status), default=0)
        is_back = deployed.conditions().get("RolledBack") is not None
        return time.monotonic() if ends >= 3 or is_back else None

    ended = node_world.wait(third_end, "the third end", 300)
    deployed.wait_for("RolledBack", "True", saying="exit code 3")
    deployed.wait(lambda: deployed.status()["installedRevision"] == first, "the first revision is back")
    deployed.wait_for("Healthy")
    assert time.monotonic() - ended < ROLLED_BACK_SECONDS
    assert deployed.conditions()["Ready"]["status"] == "False"
    outcomes = {each["revision"]: each.get("outcome") for each in deployed.status()["history"]}
    assert outcomes.pop(first) == "Healthy"
    assert [*outcomes.values()] == ["RolledBack"]
    [pod] = [each for each in pods_of(deployed) if "deletionTimestamp" not in each["metadata"]]
    assert pod["spec"]["containers"][0]["args"] == ["serve"]


def test_an_upgrade_whose_pods_end_within_seconds_was_never_ready(installed: Installed) -> None:
    assert not installed.readiness.was_ready(installed.late["after 2 s"].name, generation=2)
