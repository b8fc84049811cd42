"""The order in which an object is judged, and the rule of each kind (README.md).

The StorageClass of a PersistentVolumeClaim tells whether a pending claim waits for a pod.

Checks are plain dictionaries in the form of `rukpak.api.v1alpha2.policies.HealthCheck`. A missing field or condition
matches nothing.

Rules are found by group and kind, never by version. Nothing in an object makes them raise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.objects import BUILT_IN_GROUPS
from rukpak.controller.observe.health.explain import pod
from rukpak.controller.observe.health.verdict import (
    HEALTHY,
    Condition,
    Context,
    Manifest,
    State,
    Subject,
    Verdict,
    failed,
    healthy,
    kind_of,
    progressing,
    read_conditions,
    reason_or,
    subject_of,
    terminating,
)
from rukpak.controller.untrusted import field, integer, mapping, mappings, text, texts

_ROUTE_CONDITIONS = ("Accepted", "ResolvedRefs")
# Set by the scheduler once a pod that uses the claim is assigned to a node.
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
UNBOUND = frozenset({"NotBound", "StorageClassUnreadable", "StorageClassNotFound", "WaitForFirstConsumer"})
"""Reasons of verdicts that a change of StorageClasses may alter."""
_PENDING = progressing("NotBound", "no volume bound yet")
# Metric values with their units, and counts of metrics: `(1 invalid out of 3)`, `512Mi`, `10.5%`.
_NUMBER = re.compile(r"\b\d+(\.\d+)?([munkMGTPE]i?|Ki|%)?(?!\w|\.\d)")
# `missing request for cpu in container app of Pod web-5c7f9d8b6-x7k2p`
_POD = re.compile(r" of Pod \S+")
SUSPENDED = "Suspended"
ALWAYS_HEALTHY = "AlwaysHealthy"
STATUS_NOT_REPORTED = "StatusNotReported"
# Means no deadline: such a Deployment never gets the condition Progressing.
_NO_DEADLINE = 2**31 - 1
# `pods "web-9z8y7" is forbidden: …` names a pod that never existed, with each attempt another.
_REFUSED = re.compile(r'\b(\w+) "[^"]*" is (forbidden|invalid)')
# The usage of a quota changes with every pod of the namespace.
_QUOTA_USED = re.compile(r", used: .*?(?=, limited: |$)")
# `Container main for pod foo/job-x7k2p failed with exit code 42 …`
_GENERATED_POD = re.compile(r" for pod \S+")
_NOT_OBSERVED = progressing("NoObservedGeneration", "its controller has not observed it yet")
NOT_OBSERVED = progressing("NotObserved", "applied; waiting for the watch to show it")
NOT_EVALUATED = progressing("NotEvaluated", "its expressions have not been evaluated yet")
_STEP = re.compile(r'\["([^"\\]+)"\]|([A-Za-z0-9_$-]+)')
_EXPRESSIONS = ("inProgress", "failed", "current")
_Gap = tuple[bool, str, str]
"""Whether it is there, and its reason and message."""
_WORST_FIRST = (State.FAILED, State.PROGRESSING, State.HEALTHY)
_GATEWAY_API = "gateway.networking.k8s.io"
_LATEST_GENERATION_NOT_OBSERVED = progressing(
    "LatestGenerationNotObserved", "its controller has not observed the latest generation yet"
)
UNOBSERVED = frozenset({each.reason for each in (NOT_OBSERVED, _NOT_OBSERVED, _LATEST_GENERATION_NOT_OBSERVED)})
"""Reasons of verdicts while a controller has not seen the latest spec."""
_UNASKED = (
    "spec.healthChecks is not asked before; if that controller never reports one, `always: Healthy` there accepts the "
    "object as it is"
)


def custom_resource_definition(subject: Subject) -> Verdict:
    """Judge a CustomResourceDefinition.

    Established=False is never Failed: InvalidCABundle ends once the caBundle of the conversion webhook is injected.
    """
    if conflict := subject.denied("NamesAccepted"):
        return failed(reason_or(conflict.reason, "NamesNotAccepted"), conflict.message)
    return _by_condition(subject.conditions.get("Established"), "Installing", "not established yet")


def api_service(subject: Subject) -> Verdict:
    """Judge an APIService."""
    return _by_condition(subject.conditions.get("Available"), "NotAvailable", "availability not reported yet")


def _by_condition(condition: Condition | None, reason: str, missing: str) -> Verdict:
    if condition is None:
        return progressing(reason, missing)
    return HEALTHY if condition.holds else progressing(reason_or(condition.reason, reason), condition.message)


def service(subject: Subject) -> Verdict:
    """Judge a Service."""
    balanced = subject.spec("type") == "LoadBalancer"
    if balanced and not any(True for _ in mappings(subject.manifest, "status", "loadBalancer", "ingress")):
        hint = describe_acceptance(subject)
        return progressing("LoadBalancerPending", "no load balancer address assigned yet", deadline=False, hint=hint)
    return HEALTHY


def gateway(subject: Subject) -> Verdict:
    """Judge a Gateway."""
    if subject.holds("Programmed"):
        return HEALTHY
    return replace(_not_yet("Programmed", subject.conditions.get("Programmed")), hint=describe_acceptance(subject))


def route(subject: Subject) -> Verdict:
    """Judge a route of any protocol by all of its parents."""
    parents = list(mappings(subject.manifest, "status", "parents"))
    if not parents:
        return progressing("NoParents", "no Gateway has accepted it yet", hint=describe_acceptance(subject))
    gaps = (_parent_gap(parent, subject.generation) for parent in parents)
    return next((gap for gap in gaps if gap), HEALTHY)


def _parent_gap(parent: Manifest, generation: int | None) -> Verdict | None:
    conditions, _ = read_conditions(field(parent, "conditions"), generation)
    name = text(parent, "parentRef", "name")
    for condition_type in _ROUTE_CONDITIONS:
        condition = conditions.get(condition_type)
        if condition is None or not condition.holds:
            return _not_yet(condition_type, condition, prefix=f'parent "{name}": ')
    return None


def _not_yet(condition_type: str, condition: Condition | None, prefix: str = "") -> Verdict:
    if condition is None:
        return progressing(f"Not{condition_type}", f"{prefix}condition {condition_type} is not reported yet")
    message = condition.message or f"condition {condition_type} is not True"
    return progressing(reason_or(condition.reason, f"Not{condition_type}"), f"{prefix}{message}")


def persistent_volume_claim(subject: Subject) -> Verdict:
    """Judge a PersistentVolumeClaim."""
    phase = text(subject.manifest, "status", "phase")
    if phase == "Bound":
        return HEALTHY
    if phase == "Lost":
        return failed("Lost", "the bound volume no longer exists")
    if volume := text(subject.manifest, "spec", "volumeName"):
        shows = "shows whether it exists, has another claim or does not fit"
        hint = f'"kubectl describe persistentvolume {volume}" {shows}; if its claim is gone, remove its spec.claimRef'
        return progressing("NotBound", f'waiting for PersistentVolume "{volume}"', hint=hint)
    is_used = field(subject.manifest, "metadata", "annotations", _SELECTED_NODE)
    return _PENDING if is_used or subject.spec("storageClassName") == "" else _unbound(subject)


def _unbound(subject: Subject) -> Verdict:
    name = text(subject.manifest, "spec", "storageClassName")
    mode = subject.context.binding_mode(name or None)
    if mode is None:
        message = "not bound; its StorageClass cannot be read, so it may be waiting for a pod"
        return progressing("StorageClassUnreadable", message, deadline=False, hint=describe_acceptance(subject))
    if not mode:
        missing = f'StorageClass "{name}" does not exist' if name else "no default StorageClass exists"
        return progressing("StorageClassNotFound", missing, hint=describe_acceptance(subject))
    if mode == "WaitForFirstConsumer":
        return healthy("WaitForFirstConsumer", "will be bound when a pod uses it")
    return _PENDING


def horizontal_pod_autoscaler(subject: Subject) -> Verdict:
    """Judge a HorizontalPodAutoscaler of autoscaling/v2; v1 has no conditions."""
    target, hint = subject.denied("AbleToScale"), describe_acceptance(subject)
    if not subject.conditions:
        return progressing("NoConditions", "its controller has not looked at it yet", hint=hint)
    if target:
        return progressing(reason_or(target.reason, "NotAbleToScale"), _message(target), hint=hint)
    metric = subject.denied("ScalingActive")
    if metric and metric.reason == "ScalingDisabled":
        return healthy("ScalingDisabled", "the scale target has 0 replicas")
    if metric:
        return progressing(reason_or(metric.reason, "ScalingNotActive"), _message(metric), hint=hint)
    return HEALTHY


def pod_disruption_budget(subject: Subject) -> Verdict:
    """Judge a PodDisruptionBudget. One that currently allows no disruption is healthy."""
    disruption = subject.denied("DisruptionAllowed")
    if disruption and disruption.reason == "SyncFailed":
        return failed("SyncFailed", disruption.message)
    return HEALTHY


def _message(condition: Condition) -> str:
    return _NUMBER.sub("…", _POD.sub("", condition.message)) or f"condition {condition.type} is False"


def deployment(subject: Subject) -> Verdict:
    """Judge a Deployment."""
    if subject.observed_generation is None:
        return _NOT_OBSERVED
    if subject.spec("paused") is True:
        return _paused_deployment(subject)
    rollout = subject.conditions.get("Progressing")
    if rollout and rollout.reason == "ProgressDeadlineExceeded":
        # The condition's message names a ReplicaSet by its hash.
        return failed("ProgressDeadlineExceeded", "the rollout made no progress within spec.progressDeadlineSeconds")
    if gap := _deployment_gap(subject):
        return _creation_failure(subject) or gap
    return _deployment_availability(subject, rollout)


def stateful_set(subject: Subject) -> Verdict:
    """Judge a StatefulSet. It has no conditions: refused pods show only as too few replicas."""
    if subject.observed_generation is None:
        return _NOT_OBSERVED
    if gap := _stateful_set_gap(subject):
        return gap
    if subject.spec("updateStrategy", "type") == "OnDelete":
        return healthy("OnDelete", "pods are updated when they are deleted")
    return _stateful_set_rollout(subject) or HEALTHY


def daemon_set(subject: Subject) -> Verdict:
    """Judge a DaemonSet. It is healthy if no node matches."""
    desired = integer(subject.manifest, "status", "desiredNumberScheduled")
    if subject.generation is None or subject.observed_generation is None or desired is None:
        return _NOT_OBSERVED
    rolling = subject.spec("updateStrategy", "type") != "OnDelete"
    gap = _first(
        _less("Scheduled", subject.count("currentNumberScheduled"), desired, reason="LessCurrent"),
        _less("Updated", subject.count("updatedNumberScheduled"), desired if rolling else 0),
        _less("Available", subject.count("numberAvailable"), desired),
        _less("Ready", subject.count("numberReady"), desired),
    )
    return gap or HEALTHY


def replica_set(subject: Subject) -> Verdict:
    """Judge a ReplicaSet or a ReplicationController."""
    wanted = subject.replicas
    gap = _creation_failure(subject) or _first(
        _less("Labelled", subject.count("fullyLabeledReplicas"), wanted),
        _less("Available", subject.count("availableReplicas"), wanted),
        _less("Ready", subject.count("readyReplicas"), wanted),
        _extra_pods(subject),
    )
    return gap or HEALTHY


def job(subject: Subject) -> Verdict:
    """Judge a Job: one that is running is not healthy yet, nor is SuccessCriteriaMet completion."""
    if failure := subject.held("Failed"):
        return failed(reason_or(failure.reason, "JobFailed"), _job_message(failure))
    if subject.holds("Complete"):
        return HEALTHY
    if subject.spec("suspend") is True:
        return healthy(SUSPENDED, "spec.suspend is true")
    if failing := subject.held("FailureTarget"):
        return progressing(reason_or(failing.reason, "FailureTarget"), _job_message(failing))
    return progressing("JobRunning", "not finished yet")


def _job_message(condition: Condition) -> str:
    return _GENERATED_POD.sub("", condition.message)


def _paused_deployment(subject: Subject) -> Verdict:
    # Its controller reports Progressing=Unknown/DeploymentPaused meanwhile: a user wants it so, it is no failure.
    if not subject.holds("Available"):
        problem = "spec.paused is true and the Deployment is not available"
    elif subject.replicas > subject.count("updatedReplicas"):
        problem = "spec.paused is true and its pods are of an older template"
    else:
        return healthy("Paused", "spec.paused is true")
    return progressing("DeploymentPaused", problem, deadline=False)


def _deployment_gap(subject: Subject) -> Verdict | None:
    wanted, updated = subject.replicas, subject.count("updatedReplicas")
    return _first(
        _less("Replicas", subject.count("replicas"), wanted),
        _less("Updated", updated, wanted),
        _extra_pods(subject),
        _less("Available", subject.count("availableReplicas"), updated),
        _less("Ready", subject.count("readyReplicas"), wanted),
    )


def _deployment_availability(subject: Subject, rollout: Condition | None) -> Verdict:
    has_deadline = integer(subject.manifest, "spec", "progressDeadlineSeconds") not in (None, _NO_DEADLINE)
    if has_deadline and not (rollout and rollout.holds and rollout.reason == "NewReplicaSetAvailable"):
        return progressing("ReplicaSetNotAvailable", "the new ReplicaSet is not available yet")
    if not subject.holds("Available"):
        return progressing("DeploymentNotAvailable", "condition Available is not True")
    return HEALTHY


def _stateful_set_gap(subject: Subject) -> Verdict | None:
    wanted = subject.replicas
    waits = bool(integer(subject.manifest, "spec", "minReadySeconds"))
    return _first(
        _less("Replicas", subject.count("replicas"), wanted),
        _less("Ready", subject.count("readyReplicas"), wanted),
        _extra_pods(subject),
        _less("Available", subject.count("availableReplicas"), wanted if waits else 0),
    )


def _stateful_set_rollout(subject: Subject) -> Verdict | None:
    if subject.spec("updateStrategy", "rollingUpdate") is not None:
        partition = integer(subject.manifest, "spec", "updateStrategy", "rollingUpdate", "partition") or 0
        wanted = subject.replicas - partition
        return _first(_less("Updated", subject.count("updatedReplicas"), wanted, reason="PartitionRollout"))
    # Rare: the API server sets its partition by default.
    current, latest = (text(subject.manifest, "status", key) for key in ("currentRevision", "updateRevision"))
    return _first(
        _less("Current", subject.count("currentReplicas"), subject.replicas),
        (current != latest, "RevisionMismatch", "not all pods are at the new revision yet"),
    )


def _creation_failure(subject: Subject) -> Verdict | None:
    failure = subject.held("ReplicaFailure")
    if failure is None:
        return None
    message = _QUOTA_USED.sub("", _REFUSED.sub(r"\1 is \2", failure.message))
    return progressing(reason_or(failure.reason, "ReplicaFailure"), message)


def _less(what: str, count: int, wanted: int, *, reason: str = "") -> _Gap:
    return wanted > count, reason or f"Less{what}", f"{what}: {count}/{wanted}"


def _extra_pods(subject: Subject) -> _Gap:
    extra = subject.count("replicas") - subject.replicas
    return extra > 0, "ExtraPods", f"Pending termination: {extra}"


def _first(*gaps: _Gap) -> Verdict | None:
    return next((progressing(reason, message) for applies, reason, message in gaps if applies), None)


def goes_when_done(desired: Manifest) -> bool:
    """Whether an object is a Job that its TTL removes once it is finished."""
    is_job = text(desired, "apiVersion").startswith("batch/") and text(desired, "kind") == "Job"
    return is_job and integer(desired, "spec", "ttlSecondsAfterFinished") is not None


def assess_absent(desired: Manifest, *, started: bool) -> Verdict:
    """Judge an object that is not on the cluster.

    Args:
        desired: the object of the revision.
        started: whether it has been created as it is. If so, a missing Job was removed by its TTL, and applying it
            again would run it forever (pagerduty-operator#402, korifi#2094).
    """
    if started and goes_when_done(desired):
        return healthy("FinishedAndRemoved", "removed by spec.ttlSecondsAfterFinished")
    return Verdict(State.MISSING, "Missing", "not found on the cluster")


def refused(error: BundleError, identity: str) -> Verdict:
    """Judge an object that could not be applied, whatever its health on the cluster.

    Args:
        error: why. Failed if its reason stalls, Progressing if it may resolve without a user.
        identity: of the object; left out where the failure is about it.
    """
    reason, message = error.reason.value, error.problem if error.place == identity else error.message
    if error.reason.retry.stalls:
        return failed(reason, message)
    # The deadline of an object starts with its wave, however long the earlier ones take.
    return progressing(reason, message, deadline=error.reason is not Reason.WAITING_FOR_WAVE)


def matching(checks: Iterable[Manifest], manifest: Manifest) -> tuple[Manifest, ...]:
    """Return the checks that apply to an object: those that name it, else those for its whole kind."""
    kind = kind_of(manifest)
    of_kind = [check for check in checks if concerns(check, *kind)]
    name = text(manifest, "metadata", "name")
    named = [check for check in of_kind if check.get("name") == name]
    return tuple(named or [check for check in of_kind if not check.get("name")])


def concerns(check: Manifest, group: str, kind: str) -> bool:
    """Return whether a check applies to a kind, or to one object of it."""
    return (check.get("group") or "") == group and check.get("kind") == kind


def always_healthy(subject: Subject) -> Verdict | None:
    """Return Healthy if a check sets `always: Healthy`."""
    if any(check.get("always") == "Healthy" for check in subject.context.checks):
        return healthy(ALWAYS_HEALTHY, 'spec.healthChecks sets "always: Healthy"')
    return None


def describe_acceptance(subject: Subject) -> str:
    """Return the health check that would accept an object as it is, as YAML to paste.

    For objects that wait for something that the cluster may lack for good.
    """
    manifest = subject.manifest
    about = {"group": subject.group, "kind": subject.kind, "name": json.dumps(text(manifest, "metadata", "name"))}
    check = ", ".join(f"{key}: {value}" for key, value in about.items() if value)
    return f"to accept it as it is, add to spec.healthChecks: - {{{check}, always: Healthy}}"


def judge_by_checks(subject: Subject) -> Verdict | None:
    """Return the worst verdict of the checks; None if there are no checks."""
    verdicts = [_judge(check, subject) for check in subject.context.checks]
    # What is not evaluated yet may be worse than what is known to be progressing.
    return min(verdicts, key=lambda each: (_WORST_FIRST.index(each.state), each != NOT_EVALUATED), default=None)


def _judge(check: Manifest, subject: Subject) -> Verdict:
    for matcher in mappings(check, "failed"):
        if _matches(matcher, subject):
            return failed(*_describe(matcher, subject, "HealthCheckFailed"))
    for matcher in mappings(check, "progressing"):
        if _matches(matcher, subject):
            return progressing(*_describe(matcher, subject, "HealthCheckProgressing"))
    for matcher in mappings(check, "healthy"):
        if not _matches(matcher, subject):
            return progressing(*_describe(matcher, subject, "HealthCheckNotMet", negated=True))
    return _judge_by_expressions(mapping(check, "expressions"), subject)


def _judge_by_expressions(given: Manifest, subject: Subject) -> Verdict:
    """Judge by expressions: `inProgress`, else `failed`, else `current`, as Flux does.

    Other than there, an error in one leaves the next ones: what has failed is not said to be on its way.
    """
    evaluate, expressions = subject.context.evaluate, {name: given[name] for name in _EXPRESSIONS if given.get(name)}
    if evaluate is None or not expressions:
        return NOT_EVALUATED if expressions else HEALTHY
    answers = dict(zip(expressions, evaluate(list(expressions.values()), subject.manifest), strict=True))
    if answers.get("inProgress") is True:
        return progressing("HealthCheckProgressing", f"{expressions['inProgress']} is true")
    if answers.get("failed") is True:
        return failed("HealthCheckFailed", f"{expressions['failed']} is true")
    if unknown := next((name for name, answer in answers.items() if isinstance(answer, str)), ""):
        return progressing("HealthCheckNotMet", f"{expressions[unknown]} is not known yet: {answers[unknown]}")
    if answers.get("current") is False:
        return progressing("HealthCheckNotMet", f"{expressions['current']} is not true")
    return HEALTHY


def _matches(matcher: Manifest, subject: Subject) -> bool:
    if condition := mapping(matcher, "condition"):
        return _condition_matches(condition, subject)
    return _field_matches(mapping(matcher, "field"), subject.manifest)


def _condition_matches(matcher: Manifest, subject: Subject) -> bool:
    found = subject.conditions.get(text(matcher, "type"))
    reasons = matcher.get("reasons") or ()
    return found is not None and found.status == matcher.get("status") and (not reasons or found.reason in reasons)


def _field_matches(matcher: Manifest, manifest: Manifest) -> bool:
    value = _at(manifest, text(matcher, "path"))
    if value is None:
        return False
    if matcher.get("equalsPath"):
        return _same(value, _at(manifest, text(matcher, "equalsPath")))
    return _as_text(value) in (matcher.get("in") or ())


def _at(manifest: Manifest, path: str) -> Any:
    return field(manifest, *_keys(path)) if path else None


@lru_cache(maxsize=1024)
def _keys(path: str) -> tuple[str, ...]:
    return tuple(quoted or plain for quoted, plain in _STEP.findall(path))


def _same(left: Any, right: Any) -> bool:
    # true is not 1.
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _describe(matcher: Manifest, subject: Subject, default: str, *, negated: bool = False) -> tuple[str, str]:
    """Return reason and message: those of the condition if it has any, else what the matcher requires.

    The value of a field is never shown: it may change with every event, or be confidential.
    """
    found = subject.conditions.get(text(matcher, "condition", "type"))
    reason, message = (found.reason, found.message) if found else ("", "")
    return reason_or(reason, default), message or _sentence(matcher, negated=negated)


def _sentence(matcher: Manifest, *, negated: bool) -> str:
    verb = "is not" if negated else "is"
    if condition := mapping(matcher, "condition"):
        reasons = f" with reason {' or '.join(condition['reasons'])}" if condition.get("reasons") else ""
        return f"condition {text(condition, 'type')} {verb} {text(condition, 'status')}{reasons}"
    path, other = text(matcher, "field", "path"), text(matcher, "field", "equalsPath")
    if other:
        return f"{path} {verb} equal to {other}"
    return f"{path} {verb} one of {', '.join(field(matcher, 'field', 'in') or ())}"


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
    return terminating(texts(subject.manifest, "metadata", "finalizers"))


def _generation_not_observed(subject: Subject) -> Verdict | None:
    generation, observed = subject.generation, subject.observed_generation
    if generation is None or observed is None or generation == observed:
        return None
    if subject.context.checks:
        return replace(_LATEST_GENERATION_NOT_OBSERVED, hint=_UNASKED)
    return _LATEST_GENERATION_NOT_OBSERVED


def _standard_conditions(subject: Subject) -> Verdict | None:
    # Reconciling takes precedence over Stalled.
    for condition_type, make in (("Reconciling", progressing), ("Stalled", failed)):
        if condition := subject.held(condition_type):
            return make(reason_or(condition.reason, condition_type), condition.message)
    return None


def _by_kind(subject: Subject) -> Verdict | None:
    rule = _RULES.get((subject.group, subject.kind))
    return rule(subject) if rule else None


def _by_ready(subject: Subject) -> Verdict | None:
    if "Ready" in subject.outdated:
        return _LATEST_GENERATION_NOT_OBSERVED
    ready = subject.conditions.get("Ready")
    return _by_condition(ready, "NotReady", "") if ready else None


def _status_not_reported(subject: Subject) -> Verdict | None:
    # Its operator may be down.
    has_status = subject.conditions or subject.outdated or subject.observed_generation is not None
    if has_status or subject.group in BUILT_IN_GROUPS or not subject.context.reports_status:
        return None
    message = "its controller has not reported a status"
    return progressing(STATUS_NOT_REPORTED, message, deadline=False, hint=describe_acceptance(subject))


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
