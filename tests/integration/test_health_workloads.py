"""What status says of workloads, as a person reads it: which object is the cause, and why."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from tests.support.bundles import Deployed, Manifest, World, config_map, exists, image, refused_config_map
from tests.support.objects import deployment, job, make, template

TROUBLE_SECONDS = 60.0
"""Pods are asked after 15 s."""
NO_PODS = {"hard": {"pods": "0"}}


def web(replicas: int = 1, **spec: Any) -> Manifest:
    value = deployment("web", replicas)
    return {**value, "spec": {**value["spec"], **spec}}


def waiting(reason: str) -> Manifest:
    """Return a Deployment whose containers wait for ever."""
    return web(template=labelled_template(annotations={"example.com/waits": reason}))


def labelled_template(*, annotations: dict[str, str] | None = None, **pod: Any) -> Manifest:
    value = template("web")
    metadata = {**value["metadata"], "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {**value["spec"], **pod}}


def not_ready(deployed: Deployed) -> dict[str, str]:
    """Return what status says of each object that is not healthy: by kind and name, reason and message."""
    return {
        f"{each['kind']} {each['name']}": f"{each['reason']}: {each.get('message', '')}"
        for each in deployed.status().get("notReady", ())
    }


def wait_told(world: World, deployed: Deployed, cause: str, reason: str, condition: str) -> str:
    """Wait until an object is named with its reason, and Healthy says so; return what is said of it."""

    def told() -> str | None:
        said = not_ready(deployed).get(cause, "")
        healthy = deployed.conditions().get("Healthy", {})
        matches = said.startswith(f"{reason}: ") and healthy.get("reason") == condition
        return said if matches and reason in healthy["message"] else None

    return str(world.wait(told, f"{cause}: {reason}, not {not_ready(deployed)}", TROUBLE_SECONDS))


def wait_settled(world: World, deployed: Deployed, count: int) -> Manifest:
    """Wait until so many objects are all there is, and healthy; return the status."""

    def settled() -> Manifest | None:
        status = deployed.status()
        objects = status.get("objects", {})
        is_so = objects.get("total") == objects.get("healthy") == count and status.get("managedState")
        return status if is_so and deployed.conditions().get("Ready", {}).get("status") == "True" else None

    return world.wait(settled, f"{count} objects healthy", TROUBLE_SECONDS)


def test_a_bundle_is_ready_when_its_workloads_are_and_again_after_a_rollout(kwok_world: World) -> None:
    sets = {"serviceName": "web", "replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "template": template("db")}
    agents = {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")}
    others = [make("apps/v1", "StatefulSet", "db", spec=sets), make("apps/v1", "DaemonSet", "agent", spec=agents)]
    deployed = kwok_world.deploy(web(2), job("once"), *others)
    before = wait_settled(kwok_world, deployed, 4)

    deployed.change(sources=[{"kind": "image", "image": {"ref": kwok_world.push(deployed.name, web(3), tag="v2")}}])

    after = wait_settled(kwok_world, deployed, 1)
    assert after["installedRevision"] != before["installedRevision"]
    assert "notReady" not in after


class Trouble(NamedTuple):
    name: str
    objects: list[Manifest]
    cause: str
    reason: str
    condition: str = "Progressing"
    says: str = ""


NOWHERE = {"example.com/nowhere": "true"}
SET = {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db")}
# fmt: off
TROUBLES = [
    Trouble("crashing pods fail it", [waiting("CrashLoopBackOff")], "Deployment web", "CrashLoopBackOff", "Failed"),
    Trouble("so does an impossible image", [waiting("InvalidImageName")], "Deployment web", "InvalidImageName",
         "Failed"),
    Trouble("an image that is not there may come", [waiting("ImagePullBackOff")], "Deployment web", "ImagePullBackOff",
         says='container "main": image "example.com/main:1"; Available: 0/1'),
    Trouble("so may a node", [web(template=labelled_template(nodeSelector=NOWHERE))], "Deployment web", "Unschedulable",
         says="no node can run the pod: node(s) didn't match Pod's node affinity/selector; Available: 0/1"),
    Trouble("a quota is named, and no pod that it refused", [make("v1", "ResourceQuota", "none", spec=NO_PODS), web()],
         "Deployment web", "FailedCreate",
         says="pods is forbidden: exceeded quota: none, requested: pods=1, limited: pods=0"),
    Trouble("a StatefulSet has no condition for that, but Events",
         [make("v1", "ResourceQuota", "none", spec=NO_PODS), make("apps/v1", "StatefulSet", "db", spec=SET)],
         "StatefulSet db", "FailedCreate",
         says="pods is forbidden: exceeded quota: none, requested: pods=1, limited: pods=0; Replicas: 0/1"),
    Trouble("a rollout that is stuck has failed when its controller says so",
         [web(progressDeadlineSeconds=5, template=labelled_template(nodeSelector=NOWHERE))], "Deployment web",
         "ProgressDeadlineExceeded", "ProgressDeadlineExceeded"),
    Trouble("a Service waits for its load balancer",
         [make("v1", "Service", "front", spec={"type": "LoadBalancer", "ports": [{"port": 80}]})], "Service front",
         "LoadBalancerPending"),
    Trouble("a paused Deployment for somebody", [web(paused=True)], "Deployment web", "DeploymentPaused"),
]
# fmt: on


@pytest.fixture(scope="module")
def troubled(shared_kwok_world: World) -> dict[str, Deployed]:
    """All of them at once, since each takes its time."""
    return {case.name: shared_kwok_world.deploy(config_map("a"), *case.objects) for case in TROUBLES}


@pytest.mark.parametrize("case", TROUBLES, ids=[case.name for case in TROUBLES])
def test_status_names_the_cause(case: Trouble, troubled: dict[str, Deployed], kwok_world: World) -> None:
    said = wait_told(kwok_world, troubled[case.name], case.cause, case.reason, case.condition)

    assert case.says in said
    assert troubled[case.name].conditions()["Installed"]["status"] == "True"


def test_what_is_late_says_for_what_it_waits(kwok_world: World) -> None:
    stuck = web(template=labelled_template(nodeSelector=NOWHERE))
    deployed = kwok_world.deploy(stuck, progressDeadline="2s")

    said = wait_told(kwok_world, deployed, "Deployment web", "ProgressDeadlineExceeded", "ProgressDeadlineExceeded")

    assert re.match(r"ProgressDeadlineExceeded: [A-Z]\w+: ", said)
    deployed.wait_for("Stalled", "True", "ProgressDeadlineExceeded")
    deployed.change(progressDeadline="10m")
    deployed.wait_for("Reconciling", "True", "Progressing")


def test_a_job_that_its_ttl_removes_stays_done_and_is_not_run_again(kwok_world: World) -> None:
    deployed = kwok_world.deploy(config_map("a"), job("once", ttlSecondsAfterFinished=2))
    deployed.wait_ready()
    path = deployed.path_of("once", "jobs", "/apis/batch/v1")
    deployed.wait(lambda: not exists(kwok_world.client, path), "removed by its TTL")

    position = kwok_world.position()
    deployed.edit("a", color="red")
    deployed.wait(lambda: deployed.data("a") == {"color": "blue"}, "something else is repaired meanwhile")

    assert not [request for request in kwok_world.requests_about(deployed.name, position) if "/jobs" in request]
    deployed.wait_ready()


HINDRANCES = {
    "an object is refused": refused_config_map("bad"),
    "a kind is not served yet": make("nowhere.example.com/v1", "Widget", "w"),
    "a field is immutable": {**config_map("fixed", color="red"), "immutable": True},
    "an object is owned by nobody here": config_map("theirs"),
    "an object is not healthy": web(template=labelled_template(nodeSelector=NOWHERE)),
}
"""What keeps a revision from being installed or healthy while its Job runs and goes."""


@pytest.mark.repeats
@pytest.mark.parametrize("hindrance", HINDRANCES.values(), ids=HINDRANCES)
def test_a_job_runs_once_whatever_becomes_of_the_other_objects(kwok_world: World, hindrance: Manifest) -> None:
    before = {**config_map("fixed"), "immutable": True}
    deployed = kwok_world.deploy(before, config_map("a"))
    deployed.wait_ready()
    theirs = deployed.path_of("theirs")
    kwok_world.client.create(theirs.rpartition("/")[0], config_map("theirs"))
    once = job("once", ttlSecondsAfterFinished=1)
    position = kwok_world.position()
    objects = [before, config_map("a"), once] if hindrance["metadata"]["name"] != "fixed" else [config_map("a"), once]
    ref = kwok_world.push(deployed.name, *objects, hindrance, tag="v2")
    deployed.change(sources=[image(ref)])
    path = deployed.path_of("once", "jobs", "/apis/batch/v1")
    deployed.wait(lambda: exists(kwok_world.client, path), "it runs")
    deployed.wait(lambda: not exists(kwok_world.client, path), "removed by its TTL")

    deployed.edit("a", color="red")
    deployed.wait(lambda: deployed.data("a") == {"color": "blue"}, "something else is repaired meanwhile")
    kwok_world.restart()
    deployed.request_reconcile("again")
    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "again", "another pass")
    assert runs(kwok_world, deployed, position) == 1
    assert not any(each["kind"] == "Job" for each in deployed.status().get("notReady", []))

    # What is not changed is not run again by the next revision, as if it had no TTL.
    deployed.change(sources=[image(kwok_world.push(deployed.name, before, config_map("b"), once, tag="v3"))])
    deployed.wait_ready()
    assert runs(kwok_world, deployed, position) == 1
    changed = job("once", ttlSecondsAfterFinished=1, backoffLimit=2)
    deployed.change(sources=[image(kwok_world.push(deployed.name, before, config_map("b"), changed, tag="v4"))])
    deployed.wait(lambda: runs(kwok_world, deployed, position) == 2, "what is changed is run")
    deployed.wait_ready()


def runs(world: World, deployed: Deployed, since: int) -> int:
    """Return how many Jobs the controller has created since then."""
    asked = world.requests_about(deployed.name, since)
    return len([request for request in asked if "/jobs" in request and request.startswith(("create", "patch"))])


def test_a_job_that_fails_says_why(kwok_world: World) -> None:
    late = job("late", activeDeadlineSeconds=1)
    late["spec"]["template"]["metadata"] = {"annotations": {"example.com/waits": "ContainerCreating"}}
    deployed = kwok_world.deploy(late)

    assert "DeadlineExceeded: " in wait_told(kwok_world, deployed, "Job late", "DeadlineExceeded", "Failed")


def test_of_several_objects_that_are_refused_each_is_named_with_its_refusal(kwok_world: World) -> None:
    refused = [refused_config_map(name) for name in ("one", "two")]
    deployed = kwok_world.deploy(config_map("a"), *refused, make("nowhere.example.com/v1", "Widget", "w"))
    deployed.wait_for("Installed", "False", "Refused", saying="(and 2 more)")

    told = not_ready(deployed)

    assert [told[f"ConfigMap {name}"].partition(":")[0] for name in ("one", "two")] == ["Refused", "Refused"]
    assert "immutable" in told["ConfigMap one"]
    assert told["Widget w"].startswith("KindNotServed: the cluster does not serve nowhere.example.com/v1/Widget")
    assert "ConfigMap a" not in told


def test_what_is_waited_for_without_a_deadline_does_not_hold_prune(kwok_world: World) -> None:
    deployed = kwok_world.deploy(config_map("old"), config_map("a"))
    deployed.wait_ready()
    front = make("v1", "Service", "front", spec={"type": "LoadBalancer", "ports": [{"port": 80}]})
    kwok_world.push(deployed.name, front, web(paused=True))
    deployed.request_reconcile("once")

    deployed.wait(lambda: deployed.get("old") is None, "pruned")
    deployed.wait_for("Healthy", "False", "Progressing")


def test_a_user_s_check_replaces_the_rule_of_a_kind_and_can_be_taken_away(kwok_world: World) -> None:
    always = {"kind": "Service", "always": "Healthy"}
    ready = {"kind": "ConfigMap", "name": "a", "healthy": [{"field": {"path": 'data["is.ready"]', "in": ["true"]}}]}
    front = make("v1", "Service", "front", spec={"type": "LoadBalancer", "ports": [{"port": 80}]})
    deployed = kwok_world.deploy(config_map("a", **{"is.ready": "false"}), front, healthChecks=[always, ready])
    said = wait_told(kwok_world, deployed, "ConfigMap a", "HealthCheckNotMet", "Progressing")
    assert said.endswith('data["is.ready"] is not one of true')
    kwok_world.wait(lambda: "Service front" not in not_ready(deployed), "the Service is taken as it is")

    deployed.change(healthChecks=[always])
    deployed.wait_ready()
    deployed.change(healthChecks=None)
    wait_told(kwok_world, deployed, "Service front", "LoadBalancerPending", "Progressing")
