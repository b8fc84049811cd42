"""Where we judge otherwise than kstatus: what is marked ≠ in controller/observe/health/README.md, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rukpak.controller.observe.health.verdict import State
from tests.unit.controller.observe.health.objects import Manifest

HEALTHY, PROGRESSING, FAILED = State.HEALTHY, State.PROGRESSING, State.FAILED


def status_of(subject: Manifest, condition_type: str) -> str:
    found = subject.get("status", {}).get("conditions") or []
    return next((f"{c['status']}/{c.get('reason', '')}" for c in found if c["type"] == condition_type), "")


def spec_of(subject: Manifest, key: str) -> Any:
    return subject.get("spec", {}).get(key)


def strategy_of(subject: Manifest) -> Any:
    return (spec_of(subject, "updateStrategy") or {}).get("type")


def statuses_of(subject: Manifest, *keys: str) -> list[Manifest]:
    return [status for key in keys for status in subject["status"].get(key) or []]


def waits_for(subject: Manifest, *reasons: str) -> bool:
    statuses = statuses_of(subject, "containerStatuses", "initContainerStatuses")
    return any(status.get("state", {}).get("waiting", {}).get("reason") in reasons for status in statuses)


def has_outdated_condition(subject: Manifest) -> bool:
    found = subject.get("status", {}).get("conditions") or []
    return any(c.get("observedGeneration", 0) != subject["metadata"].get("generation") for c in found)


def has_older_pods(subject: Manifest) -> bool:
    return int(spec_of(subject, "replicas") or 1) > int(subject["status"].get("updatedReplicas", 0))


def short_of_available(subject: Manifest) -> bool:
    status: Manifest = subject["status"]
    return bool(spec_of(subject, "minReadySeconds")) and status["availableReplicas"] < subject["spec"]["replicas"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One mark: which objects it is about, and what either says of them."""

    name: str
    kinds: str
    ours: State
    theirs: State
    when: Callable[[Manifest], bool] = lambda _subject: True

    def covers(self, subject: Manifest, ours: State, theirs: State) -> bool:
        agrees = (ours, theirs) == (self.ours, self.theirs)
        return agrees and self.kinds in ("*", subject["kind"]) and self.when(subject)


# fmt: off
DIFFERENCES = [
    Difference(name="Reconciling counts more than Stalled", kinds="*", ours=PROGRESSING, theirs=FAILED,
         when=lambda o: status_of(o, "Reconciling").startswith("True") and status_of(o, "Stalled").startswith("True")),
    Difference(name="a condition of another generation is absent", kinds="Cache", ours=PROGRESSING, theirs=HEALTHY,
         when=has_outdated_condition),
    Difference(name="a Deployment must be observed", kinds="Deployment", ours=PROGRESSING, theirs=HEALTHY,
         when=lambda o: o["status"].get("observedGeneration") is None),
    Difference(name="an unseen Deployment has not failed yet", kinds="Deployment", ours=PROGRESSING, theirs=FAILED,
         when=lambda o: o["status"].get("observedGeneration") is None),
    Difference(name="a paused Deployment is healthy while available", kinds="Deployment", ours=HEALTHY,
         theirs=PROGRESSING,
         when=lambda o: spec_of(o, "paused") is True and status_of(o, "Available").startswith("True")),
    Difference(name="a paused Deployment has no deadline that it could miss", kinds="Deployment", ours=HEALTHY,
         theirs=FAILED, when=lambda o: spec_of(o, "paused") is True and status_of(o, "Available").startswith("True")),
    Difference(name="a paused Deployment that is not available, or has older pods, waits", kinds="Deployment",
         ours=PROGRESSING, theirs=FAILED,
         when=lambda o: spec_of(o, "paused") is True
         and (not status_of(o, "Available").startswith("True") or has_older_pods(o))),
    Difference(name="a StatefulSet must be observed", kinds="StatefulSet", ours=PROGRESSING, theirs=HEALTHY,
         when=lambda o: o["status"].get("observedGeneration") is None),
    Difference(name="a StatefulSet must be available for minReadySeconds", kinds="StatefulSet", ours=PROGRESSING,
         theirs=HEALTHY, when=short_of_available),
    Difference(name="a StatefulSet of OnDelete must be ready", kinds="StatefulSet", ours=PROGRESSING, theirs=HEALTHY,
         when=lambda o: strategy_of(o) == "OnDelete"),
    Difference(
        name="a DaemonSet of OnDelete need not be updated",
        kinds="DaemonSet",
        ours=HEALTHY,
        theirs=PROGRESSING,
        when=lambda o: (
            strategy_of(o) == "OnDelete"
            and o["status"]["updatedNumberScheduled"] < o["status"]["desiredNumberScheduled"]
        ),
    ),
    Difference(name="a ReplicationController is judged", kinds="ReplicationController", ours=PROGRESSING,
         theirs=HEALTHY),
    Difference(name="a Pod that failed has failed", kinds="Pod", ours=FAILED, theirs=HEALTHY,
         when=lambda o: o["status"]["phase"] == "Failed"),
    Difference(name="a container that has ended once or twice may be waiting for another one", kinds="Pod",
         ours=PROGRESSING, theirs=FAILED,
         when=lambda o: any(status.get("restartCount", 0) < 2 for status in statuses_of(o, "containerStatuses",
         "initContainerStatuses") if status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")),
    Difference(name="a container that keeps crashing has failed before it runs and between crashes, too", kinds="Pod",
         ours=FAILED, theirs=PROGRESSING,
         when=lambda o: waits_for(o, "CrashLoopBackOff") or any(status.get("restartCount",
         0) >= 3 for status in statuses_of(o, "containerStatuses", "initContainerStatuses"))),
    Difference(name="an image that cannot be has failed", kinds="Pod", ours=FAILED, theirs=PROGRESSING,
         when=lambda o: waits_for(o, "InvalidImageName", "ErrImageNeverPull")),
    Difference(name="a Pod that no node can take has not failed", kinds="Pod", ours=PROGRESSING, theirs=FAILED,
         when=lambda o: status_of(o, "PodScheduled") == "False/Unschedulable"),
    Difference(name="a Job that runs is not done", kinds="Job", ours=PROGRESSING, theirs=HEALTHY,
         when=lambda o: bool(o["status"].get("startTime"))),
    Difference(name="a suspended Job is healthy", kinds="Job", ours=HEALTHY, theirs=PROGRESSING,
         when=lambda o: spec_of(o, "suspend") is True),
    Difference(name="a Service waits for its load balancer", kinds="Service", ours=PROGRESSING, theirs=HEALTHY,
         when=lambda o: not o["status"]["loadBalancer"].get("ingress")),
    Difference(name="a Service has its address when the load balancer has", kinds="Service", ours=HEALTHY,
         theirs=PROGRESSING,
         when=lambda o: bool(o["status"]["loadBalancer"].get("ingress")) and not spec_of(o, "clusterIP")),
    Difference(name="a claim that lost its volume has failed", kinds="PersistentVolumeClaim", ours=FAILED,
         theirs=PROGRESSING, when=lambda o: o["status"]["phase"] == "Lost"),
    Difference(name="a claim may wait for its first consumer", kinds="PersistentVolumeClaim", ours=HEALTHY,
         theirs=PROGRESSING,
         when=lambda o: spec_of(o, "storageClassName") == "late" and o["status"]["phase"] == "Pending"),
    Difference(name="a budget that cannot be reckoned has failed", kinds="PodDisruptionBudget", ours=FAILED,
         theirs=HEALTHY, when=lambda o: status_of(o, "DisruptionAllowed") == "False/SyncFailed"),
    Difference(name="a CRD without its caBundle waits", kinds="CustomResourceDefinition", ours=PROGRESSING,
         theirs=FAILED, when=lambda o: status_of(o, "Established").startswith("False")),
    Difference(name="an APIService is judged", kinds="APIService", ours=PROGRESSING, theirs=HEALTHY),
    Difference(name="an autoscaler is judged", kinds="HorizontalPodAutoscaler", ours=PROGRESSING, theirs=HEALTHY),
    Difference(name="a Gateway must be programmed", kinds="Gateway", ours=PROGRESSING, theirs=HEALTHY),
    Difference(name="a route must be accepted", kinds="HTTPRoute", ours=PROGRESSING, theirs=HEALTHY),
    Difference(name="a custom resource that says nothing is doubted", kinds="Cache", ours=PROGRESSING, theirs=HEALTHY,
         when=lambda o: not any(o.get("status", {}).get(key) for key in ("conditions", "observedGeneration"))),
]
# fmt: on
