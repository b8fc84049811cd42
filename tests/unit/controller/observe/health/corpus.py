"""Objects that we and kstatus judge; where not alike, the name of the difference."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.controller.observe.health.objects import (
    ROLLED_OUT,
    Manifest,
    claim,
    conditioned,
    crashed,
    custom,
    daemon_set,
    deployment,
    ended,
    job,
    manifest,
    pod,
    stateful_set,
    waiting,
)

CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition"
API_SERVICE = "apiregistration.k8s.io/v1 APIService"
HPA = "autoscaling/v2 HorizontalPodAutoscaler"
PDB = "policy/v1 PodDisruptionBudget"
GATEWAY = "gateway.networking.k8s.io/v1 Gateway"
ROUTE = "gateway.networking.k8s.io/v1 HTTPRoute"


@dataclass(frozen=True, kw_only=True)
class Sample:
    name: str
    given: Manifest
    difference: str = ""


ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
OUTDATED = {"type": "Ready", "status": "True", "observedGeneration": 1}
EXCEEDED = ("Progressing=False/ProgressDeadlineExceeded", "Available=True")

# fmt: off
CORPUS = [
    Sample(name="Reconciling behind Stalled", given=custom("Stalled=True", "Reconciling=True"),
         difference="Reconciling counts more than Stalled"),
    Sample(name="Reconciling before Stalled", given=custom("Reconciling=True", "Stalled=True")),
    Sample(name="Stalled behind Ready", given=custom("Ready=True", "Stalled=True")),
    Sample(name="Ready for another generation",
         given=manifest("example.com/v1 Cache", status={"conditions": [OUTDATED]}, generation=2),
         difference="a condition of another generation is absent"),
    Sample(name="Ready for this generation",
         given=manifest("example.com/v1 Cache", status={"conditions": [OUTDATED]}, generation=1)),
    Sample(name="Ready is Unknown", given=custom("Ready=Unknown")),
    Sample(name="Ready and deleted", given=custom("Ready=True", deletionTimestamp="2026-01-01T00:00:00Z")),
    Sample(name="a custom resource without status", given=manifest("example.com/v1 Cache"),
         difference="a custom resource that says nothing is doubted"),
    Sample(name="a ConfigMap", given=manifest("v1 ConfigMap")),
    Sample(name="a Secret", given=manifest("v1 Secret")),
    Sample(name="an Ingress", given=manifest("networking.k8s.io/v1 Ingress", status={"loadBalancer": {}})),
    Sample(name="a CronJob", given=manifest("batch/v1 CronJob", status={})),
    Sample(name="a Deployment rolled out", given=deployment(*ROLLED_OUT)),
    Sample(name="a Deployment that grows", given=deployment(*ROLLED_OUT, counts=(2, 2, 2, 2))),
    Sample(name="a Deployment past its deadline", given=deployment(*EXCEEDED)),
    Sample(name="a Deployment without observedGeneration", given=deployment(*ROLLED_OUT, observedGeneration=None),
         difference="a Deployment must be observed"),
    Sample(name="a Deployment past its deadline without observedGeneration",
         given=deployment(*EXCEEDED, observedGeneration=None), difference="an unseen Deployment has not failed yet"),
    Sample(name="a paused Deployment",
         given=deployment("Progressing=Unknown/DeploymentPaused", "Available=True", spec={"paused": True}),
         difference="a paused Deployment is healthy while available"),
    Sample(name="a Deployment that was paused past its deadline", given=deployment(*EXCEEDED, spec={"paused": True}),
         difference="a paused Deployment has no deadline that it could miss"),
    Sample(name="a Deployment that was paused past its deadline, not available",
         given=deployment(EXCEEDED[0], "Available=False", spec={"paused": True}),
         difference="a paused Deployment that is not available, or has older pods, waits"),
    Sample(name="a StatefulSet rolled out", given=stateful_set()),
    Sample(name="a StatefulSet that is blocked", given=stateful_set(replicas=0, readyReplicas=0)),
    Sample(name="a StatefulSet before its partition", given=stateful_set(partition=2, updatedReplicas=1)),
    Sample(name="a StatefulSet of two revisions without partition",
         given=stateful_set(partition=None, currentRevision="web-0")),
    Sample(name="a StatefulSet without partition, not all current",
         given=stateful_set(partition=None, currentReplicas=1)),
    Sample(name="a StatefulSet without observedGeneration", given=stateful_set(observedGeneration=None),
         difference="a StatefulSet must be observed"),
    Sample(name="a StatefulSet ready and not yet available",
         given=stateful_set(spec={"minReadySeconds": 30}, availableReplicas=1),
         difference="a StatefulSet must be available for minReadySeconds"),
    Sample(name="a StatefulSet whose available replicas are not counted", given=stateful_set(availableReplicas=0)),
    Sample(name="a StatefulSet of OnDelete, not ready", given=stateful_set(spec=ON_DELETE, readyReplicas=2),
         difference="a StatefulSet of OnDelete must be ready"),
    Sample(name="a StatefulSet of OnDelete, not updated", given=stateful_set(spec=ON_DELETE, updatedReplicas=0)),
    Sample(name="a DaemonSet rolled out", given=daemon_set()),
    Sample(name="a DaemonSet of none", given=daemon_set(0)),
    Sample(name="a DaemonSet of no number", given=daemon_set(None)),
    Sample(name="a DaemonSet that updates", given=daemon_set(updatedNumberScheduled=1)),
    Sample(name="a DaemonSet of OnDelete, not updated", given=daemon_set(strategy="OnDelete", updatedNumberScheduled=1),
         difference="a DaemonSet of OnDelete need not be updated"),
    Sample(name="a ReplicationController that cannot make pods",
         given=conditioned("v1 ReplicationController", "ReplicaFailure=True/FailedCreate"),
         difference="a ReplicationController is judged"),
    Sample(name="a ReplicaSet that cannot make pods",
         given=conditioned("apps/v1 ReplicaSet", "ReplicaFailure=True/FailedCreate")),
    Sample(name="a Pod that is ready", given=pod("Running", "Ready=True")),
    Sample(name="a Pod that is done", given=pod("Succeeded")),
    Sample(name="a Pod that failed", given=pod("Failed", containers=[ended(1)]),
         difference="a Pod that failed has failed"),
    Sample(name="a Pod that crashes", given=pod("Running", containers=[waiting("CrashLoopBackOff")])),
    Sample(name="a Pod that waits after its first crash", given=pod("Running", containers=[waiting("CrashLoopBackOff",
         restarts=0)]), difference="a container that has ended once or twice may be waiting for another one"),
    Sample(name="a Pod that crashed twice", given=pod("Running", containers=[crashed(2)])),
    Sample(name="a Pod between two crashes", given=pod("Running", containers=[crashed(3)]),
         difference="a container that keeps crashing has failed before it runs and between crashes, too"),
    Sample(name="a Pod whose init container crashes", given=pod("Pending", inits=[waiting("CrashLoopBackOff")]),
         difference="a container that keeps crashing has failed before it runs and between crashes, too"),
    Sample(name="a Pod with an impossible image", given=pod("Pending", containers=[waiting("InvalidImageName")]),
         difference="an image that cannot be has failed"),
    Sample(name="a Pod whose image does not exist", given=pod("Pending", containers=[waiting("ImagePullBackOff")])),
    Sample(name="a Pod without a node", given=pod("Pending", "PodScheduled=False/Unschedulable"),
         difference="a Pod that no node can take has not failed"),
    Sample(name="a Job that is done", given=job("SuccessCriteriaMet=True", "Complete=True", startTime="x")),
    Sample(name="a Job that failed", given=job("Failed=True/BackoffLimitExceeded", startTime="x")),
    Sample(name="a Job that was not started", given=job()),
    Sample(name="a Job that runs", given=job(startTime="x", active=1), difference="a Job that runs is not done"),
    Sample(name="a suspended Job", given=job(spec={"suspend": True}),
         difference="a suspended Job is healthy"),
    Sample(name="a Service", given=manifest("v1 Service", spec={"type": "ClusterIP", "clusterIP": "10.0.0.9"})),
    Sample(name="a Service without its load balancer",
         given=manifest("v1 Service", spec={"type": "LoadBalancer", "clusterIP": "10.0.0.9"},
         status={"loadBalancer": {}}), difference="a Service waits for its load balancer"),
    Sample(name="a Service with a load balancer and no address in the cluster",
         given=manifest("v1 Service", spec={"type": "LoadBalancer"},
         status={"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
         difference="a Service has its address when the load balancer has"),
    Sample(name="a claim that is bound", given=claim("Bound")),
    Sample(name="a claim that waits for a volume", given=claim("Pending")),
    Sample(name="a claim that waits for a pod", given=claim("Pending", spec={"storageClassName": "late"}),
         difference="a claim may wait for its first consumer"),
    Sample(name="a claim of no class", given=claim("Pending", spec={"storageClassName": "none"})),
    Sample(name="a claim that lost its volume", given=claim("Lost"),
         difference="a claim that lost its volume has failed"),
    Sample(name="a budget that allows nothing", given=conditioned(PDB, "DisruptionAllowed=False/InsufficientPods")),
    Sample(name="a budget that is broken", given=conditioned(PDB, "DisruptionAllowed=False/SyncFailed"),
         difference="a budget that cannot be reckoned has failed"),
    Sample(name="a CRD",
         given=conditioned(CRD, "NamesAccepted=True/NoConflicts", "Established=True/InitialNamesAccepted")),
    Sample(name="a CRD that is being installed", given=conditioned(CRD, "Established=False/Installing")),
    Sample(name="a CRD without its caBundle",
         given=conditioned(CRD, "NamesAccepted=True", "Established=False/InvalidCABundle"),
         difference="a CRD without its caBundle waits"),
    Sample(name="a CRD with a conflict", given=conditioned(CRD, "NamesAccepted=False/KindConflict")),
    Sample(name="an APIService that answers", given=conditioned(API_SERVICE, "Available=True/Passed")),
    Sample(name="an APIService that does not", given=conditioned(API_SERVICE, "Available=False/MissingEndpoints"),
         difference="an APIService is judged"),
    Sample(name="an autoscaler", given=conditioned(HPA, "AbleToScale=True", "ScalingActive=True")),
    Sample(name="an autoscaler without target", given=conditioned(HPA, "AbleToScale=False/FailedGetScale"),
         difference="an autoscaler is judged"),
    Sample(name="a Gateway that is not programmed", given=conditioned(GATEWAY, "Accepted=Unknown/Pending"),
         difference="a Gateway must be programmed"),
    Sample(name="a route without parents", given=manifest(ROUTE, status={"parents": []}),
         difference="a route must be accepted"),
]
# fmt: on
