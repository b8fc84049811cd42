"""The order in which an object is judged, and the rule of each kind (README.md).

Rules are found by group and kind, never by version. Nothing in an object makes them raise.

Not here: objects that are missing or not observed yet (presence.py), time (aggregate.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from controller.kube.resources import BUILT_IN_GROUPS
from controller.observe.health.availability import horizontal_pod_autoscaler, pod_disruption_budget
from controller.observe.health.checks import always_healthy, concerns, describe_acceptance, judge_by_checks
from controller.observe.health.extension import api_service, custom_resource_definition
from controller.observe.health.networking import gateway, route, service
from controller.observe.health.pods import pod
from controller.observe.health.storage import persistent_volume_claim
from controller.observe.health.subject import Context, Manifest, Subject, subject_of
from controller.observe.health.verdict import HEALTHY, State, Verdict, failed, progressing, reason_or
from controller.observe.health.workloads import daemon_set, deployment, job, replica_set, stateful_set
from controller.untrusted import field

_GATEWAY_API = "gateway.networking.k8s.io"

_RULES: Mapping[tuple[str, str], Callable[[Subject], Verdict]] = {
    ("apps", "Deployment"): deployment,
    ("apps", "StatefulSet"): stateful_set,
    ("apps", "DaemonSet"): daemon_set,
    ("apps", "ReplicaSet"): replica_set,
    ("", "ReplicationController"): replica_set,
    ("", "Pod"): pod,
    ("batch", "Job"): job,
    ("", "Service"): service,
    ("", "PersistentVolumeClaim"): persistent_volume_claim,
    ("policy", "PodDisruptionBudget"): pod_disruption_budget,
    ("autoscaling", "HorizontalPodAutoscaler"): horizontal_pod_autoscaler,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): custom_resource_definition,
    ("apiregistration.k8s.io", "APIService"): api_service,
    (_GATEWAY_API, "Gateway"): gateway,
    **{(_GATEWAY_API, f"{protocol}Route"): route for protocol in ("HTTP", "GRPC", "TCP", "TLS", "UDP")},
}


def assess(manifest: Manifest, context: Context) -> Verdict:
    """Judge an object as it is on the cluster.

    Args:
        manifest: with apiVersion and kind; metadata only suffices unless `needs_full_object`.
        context: what health depends on outside the object.
    """
    subject = subject_of(manifest, context)
    return next((verdict for judge in _ORDER if (verdict := judge(subject))), HEALTHY)


def needs_full_object(group: str, kind: str, checks: Iterable[Manifest] = ()) -> bool:
    """Return whether health needs more than metadata: kinds with a rule or one of `checks`, and all custom ones."""
    if (group, kind) in _RULES or group not in BUILT_IN_GROUPS:
        return True
    return any(concerns(check, group, kind) and not check.get("always") for check in checks)


def _terminating(subject: Subject) -> Verdict | None:
    if not field(subject.manifest, "metadata", "deletionTimestamp"):
        return None
    finalizers = field(subject.manifest, "metadata", "finalizers")
    names = [name for name in finalizers if isinstance(name, str)] if isinstance(finalizers, list) else []
    return Verdict(State.TERMINATING, "Terminating", f"finalizers: {', '.join(names)}" if names else "")


def _generation_not_observed(subject: Subject) -> Verdict | None:
    generation, observed = subject.generation, subject.observed_generation
    if generation is None or observed is None or generation == observed:
        return None
    return _LATEST_GENERATION_NOT_OBSERVED


def _standard_conditions(subject: Subject) -> Verdict | None:
    """Judge by the conditions that kstatus recommends to controllers; Reconciling takes precedence over Stalled."""
    reconciling, stalled = subject.conditions.get("Reconciling"), subject.conditions.get("Stalled")
    if reconciling and reconciling.holds:
        return progressing(reason_or(reconciling.reason, "Reconciling"), reconciling.message)
    if stalled and stalled.holds:
        return failed(reason_or(stalled.reason, "Stalled"), stalled.message)
    return None


def _by_kind(subject: Subject) -> Verdict | None:
    rule = _RULES.get((subject.group, subject.kind))
    return rule(subject) if rule else None


def _by_ready(subject: Subject) -> Verdict | None:
    if "Ready" in subject.outdated:
        return _LATEST_GENERATION_NOT_OBSERVED
    ready = subject.conditions.get("Ready")
    if ready is None:
        return None
    return HEALTHY if ready.holds else progressing(reason_or(ready.reason, "NotReady"), ready.message)


def _status_not_reported(subject: Subject) -> Verdict | None:
    """Doubt a custom resource whose schema declares a status that is missing: its operator may be down."""
    has_status = subject.conditions or subject.outdated or subject.observed_generation is not None
    if has_status or subject.group in BUILT_IN_GROUPS or not subject.context.reports_status:
        return None
    message = "its controller has not reported a status"
    return progressing("StatusNotReported", message, deadline=False, hint=describe_acceptance(subject))


_LATEST_GENERATION_NOT_OBSERVED = progressing(
    "LatestGenerationNotObserved", "its controller has not observed the latest generation yet"
)

_ORDER = (
    _terminating,
    always_healthy,  # before the generation: some controllers never report one (kustomize-controller#1737)
    _generation_not_observed,
    judge_by_checks,
    _standard_conditions,
    _by_kind,
    _by_ready,
    _status_not_reported,
)
"""The first verdict wins."""
