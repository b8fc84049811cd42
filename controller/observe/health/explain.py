"""Why a workload is not healthy, from its pods and their Events. Pure.

Messages name the container, and quote what it has written to its terminationMessagePath, and what Kubernetes says about
it, as far as that stays the same (kubelet.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from rukpak.controller.observe.health.kubelet import (
    IMAGE_REASONS,
    Container,
    containers_of,
    describe_end,
    describe_pending,
    describe_unready,
    describe_unscheduled,
    describe_waiting,
    quote,
    read_hindrance,
    read_killing,
    read_probe,
    unready_container,
)
from rukpak.controller.observe.health.verdict import (
    HEALTHY,
    Context,
    Manifest,
    State,
    Subject,
    Verdict,
    failed,
    kind_of,
    progressing,
    reason_or,
    subject_of,
)
from rukpak.controller.untrusted import field, integer, mapping, mappings, strings, text, texts

CRASH_LOOP = "CrashLoopBackOff"
FATAL = frozenset({CRASH_LOOP, "InvalidImageName", "ErrImageNeverPull"})
"""Reasons of a waiting container that only a change of the Pod resolves."""
# Other reasons worth reporting end in Error (CreateContainerConfigError, RunContainerError).
CRASHES = 3
"""Ends of the same container after which it is not expected to recover: an application that ends once or twice may be
waiting for its database. A container runs for a while between two crashes: counting keeps the verdict stable."""
NOT_OBSERVED = "PodNotObserved"
PENDING = "PodPending"
NOT_READY = "PodNotReady"
UNSCHEDULABLE = "Unschedulable"
_STUCK = frozenset({UNSCHEDULABLE, "FailedMount", "FailedMapVolume", "FailedCreatePodSandBox"})
MAY_NOT_LIST_EVENTS = (
    "Events may say why, but the controller may not list them; allow it to list events, as the ClusterRole "
    "rukpak-controller of config/restricted does"
)
"""The hint of a verdict that Events would explain."""
_NAMESPACE_CONDITIONS = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
)
# `pods. has 3 resource instances`, `example.com/x in 3 resource instances`: the numbers fall as deletion proceeds.
_INSTANCES = re.compile(r" (has|in) \d+ resource instances")
OF_PODS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("apps", "ReplicaSet"),
        ("", "ReplicationController"),
        ("batch", "Job"),
    }
)
# Reasons that pods cannot explain: they were not created, or not even requested yet.
_TELL_ALL = frozenset(
    {"FailedCreate", "FailedDelete", "ReplicaFailure", "NoObservedGeneration", "LatestGenerationNotObserved"}
)
_OPERATORS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}
_SELECTOR_CHARACTERS = 4096
"""Length of a label selector, which is part of a URL."""
TEMPLATE = "pod-template-hash"
"""Label by which a Deployment tells pods of different templates apart."""


def pod(subject: Subject) -> Verdict:
    """Judge a Pod."""
    phase = text(subject.manifest, "status", "phase")
    if phase == "Failed":
        return _ended(subject)
    if phase == "Succeeded" or subject.holds("Ready"):
        return HEALTHY
    return _worst_container(subject) or _unscheduled(subject) or _waiting(subject, phase)


def _ended(subject: Subject) -> Verdict:
    pod, reason = subject.manifest, reason_or(text(subject.manifest, "status", "reason"), "")
    if said := quote(text(pod, "status", "message"), pod):
        return failed(reason or "PodFailed", said)
    for each in containers_of(pod):
        if integer(each.status, "state", "terminated", "exitCode"):
            return failed(reason or _exit_reason(each.status), describe_end(each))
    if disrupted := subject.held("DisruptionTarget"):
        return failed(reason or reason_or(disrupted.reason, "PodFailed"), quote(disrupted.message, pod))
    return failed(reason or "PodFailed", "status.phase is Failed")


def _exit_reason(status: Manifest) -> str:
    reason = reason_or(text(status, "state", "terminated", "reason"), "Error")
    return "ContainerFailed" if reason == "Error" else reason


def _worst_container(subject: Subject) -> Verdict | None:
    verdicts = [verdict for each in containers_of(subject.manifest) if (verdict := _judge_container(each))]
    return min(verdicts, key=lambda verdict: verdict.state is not State.FAILED, default=None)


def _judge_container(container: Container) -> Verdict | None:
    waiting = reason_or(text(container.status, "state", "waiting", "reason"), "")
    ends = _count_ends(container.status)
    crashes = bool(container.end) and ends >= CRASHES and container.status.get("ready") is not True
    if waiting == CRASH_LOOP or (waiting not in FATAL and crashes):
        make = failed if ends >= CRASHES else progressing
        return make(CRASH_LOOP, describe_end(container))
    if waiting in FATAL:
        return failed(waiting, describe_waiting(container))
    return progressing(waiting, describe_waiting(container)) if _is_hindered(waiting) else None


def _is_hindered(reason: str) -> bool:
    return reason in IMAGE_REASONS or reason.endswith("Error")


def is_pod_stuck(reason: str) -> bool:
    """Whether the reason of a verdict says that pods do not run, which hardly ends without a person."""
    return reason in FATAL or reason in _STUCK or _is_hindered(reason)


def _count_ends(status: Manifest) -> int:
    # Once for each restart, and once if it does not run now.
    is_waiting = field(status, "state", "waiting") is not None and field(status, "lastState", "terminated") is not None
    is_backing_off = text(status, "state", "waiting", "reason") == CRASH_LOOP
    has_ended = is_waiting or is_backing_off or field(status, "state", "terminated") is not None
    return (integer(status, "restartCount") or 0) + has_ended


@dataclass(frozen=True, slots=True, order=True)
class Ends:
    """How often a container has ended that should run as long as its pod."""

    count: int = 0
    """Ends of the container that has ended most often, if its last end was an error or it has ended `CRASHES` times."""
    text: str = ""
    """The container, and how it has ended last."""


NO_ENDS = Ends()


def ends_of(pods: Iterable[Manifest], since: str) -> Ends:
    """Return how often a container of these pods has ended.

    An init container that has succeeded has not ended in this sense.

    Args:
        pods: all of a workload, or some; those of older templates of it do not count, nor what is being deleted.
        since: older pods do not count either; as the API server writes times, empty for all.
    """
    new = (each for each in _of_newest_template(pods) if text(each, "metadata", "creationTimestamp") >= since)
    return max(map(_ends_in, new), default=NO_ENDS)


def _ends_in(pod: Manifest) -> Ends:
    restarts = text(pod, "spec", "restartPolicy") not in ("Never", "OnFailure")
    found = [
        Ends(count, describe_end(each))
        for each in containers_of(pod)
        if (count := _count_errors(each, stays=restarts and (each.is_sidecar or not each.is_init)))
    ]
    return max(found, default=NO_ENDS)


def _count_errors(container: Container, *, stays: bool) -> int:
    """Return how often a container has ended; 0 if it has succeeded, or may have ended on purpose.

    Args:
        container: of a pod.
        stays: whether it should run as long as its pod, so that it is started again whatever its exit code.
    """
    ends, code = _count_ends(container.status), integer(container.end, "exitCode")
    has_succeeded = not stays and integer(container.status, "state", "terminated", "exitCode") == 0
    return 0 if has_succeeded or (not code and ends < CRASHES) else ends


def _unscheduled(subject: Subject) -> Verdict | None:
    # Never Failed without its deadline: an autoscaler needs minutes to add a node.
    scheduled = subject.denied("PodScheduled")
    if scheduled and scheduled.reason == UNSCHEDULABLE:
        return progressing(UNSCHEDULABLE, describe_unscheduled(subject.manifest, scheduled.message))
    if scheduled and scheduled.reason in ("SchedulingGated", "SchedulerError"):
        return progressing(scheduled.reason, quote(scheduled.message, subject.manifest))
    return None


def _waiting(subject: Subject, phase: str) -> Verdict:
    if not phase:
        return progressing(NOT_OBSERVED, "the pod has no status yet")
    if phase == "Pending":
        return progressing(PENDING, describe_pending(subject)[0])
    return progressing(NOT_READY, describe_unready(subject)[0])


def pods_of(workload: Manifest, verdict: Verdict) -> str:
    """Return the label selector of the pods that may explain why a workload is not healthy, or show that it is not.

    Empty if none can: a Job is done once it is healthy.
    """
    group, kind = kind_of(workload)
    troubled = verdict.state in (State.PROGRESSING, State.FAILED) and verdict.deadline
    asks = (troubled and verdict.reason not in _TELL_ALL) or (verdict.state is State.HEALTHY and kind != "Job")
    if not asks or (group, kind) not in OF_PODS:
        return ""
    selector = field(workload, "spec", "selector")
    labels = strings(selector) if kind == "ReplicationController" else strings(selector, "matchLabels")
    requirements = [*map(_requirement, mappings(selector, "matchExpressions"))]
    selected = ",".join([*(f"{key}={value}" for key, value in labels.items()), *requirements])
    return selected if all(requirements) and len(selected) <= _SELECTOR_CHARACTERS else ""


def _requirement(expression: Manifest) -> str:
    written = _OPERATORS.get(text(expression, "operator"), "")
    return written.format(key=text(expression, "key"), values=",".join(texts(expression, "values")))


def without_crash(verdict: Verdict) -> Verdict:
    """Do not count a crash as a failure: a Job says itself how often its pods may crash (`spec.backoffLimit`)."""
    return replace(verdict, state=State.PROGRESSING) if verdict.reason == CRASH_LOOP else verdict


def explained(verdict: Verdict, explanation: Verdict, *, kind: str) -> Verdict:
    """Return the verdict on a workload, or on a Terminating Namespace, with its explanation.

    A fatal Pod makes a workload of another kind than Job Failed. One that is Failed already keeps its reason.
    """
    explanation = without_crash(explanation) if kind == "Job" else explanation
    if explanation.state is State.TERMINATING or verdict.reason in (PENDING, NOT_READY):
        return explanation  # of a Namespace, or a Pod: it is about the object itself
    if verdict.state is State.FAILED:
        message = f"{verdict.message}; {explanation.reason}: {explanation.message}"
        return failed(verdict.reason, message, hint=explanation.hint)
    message = f"{explanation.message}; {verdict.message}" if explanation.message else verdict.message
    make = failed if explanation.state is State.FAILED else progressing
    return make(explanation.reason, message, hint=explanation.hint)


def judge_pod(manifest: Manifest) -> Verdict:
    """Judge a Pod by its manifest."""
    return pod(subject_of(manifest, Context()))


def explain(pods: Iterable[Manifest], judge: Callable[[Manifest], Verdict] = judge_pod) -> Verdict | None:
    """Return the verdict on the worst Pod of a workload; None if all are healthy.

    Failed only where waiting does not help (`FATAL`), which makes the workload Failed before its deadline. A Pod that
    has terminated does not: its workload replaces it.

    Args:
        pods: of which only the metadata is read here.
        judge: returns the verdict on one.
    """
    verdicts = map(judge, _of_newest_template(pods))
    troubles = [verdict for verdict in verdicts if verdict.state is not State.HEALTHY]
    worst = min(troubles, key=_severity, default=None)
    if worst is None or _is_fatal(worst):
        return worst
    return progressing(worst.reason, worst.message)


def find_silent(pods: Iterable[Manifest], verdict: Verdict) -> Manifest | None:
    """Return a Pod that a verdict of `explain` is about, if its Events may say more; None if its status says it all."""
    for manifest in _of_newest_template(pods):
        subject = subject_of(manifest, Context())
        found = pod(subject)
        if (found.reason, found.message) == (verdict.reason, verdict.message) and _is_silent(subject, found):
            return manifest
    return None


def _is_silent(subject: Subject, verdict: Verdict) -> bool:
    if verdict.reason == PENDING:
        return not describe_pending(subject)[1]
    if verdict.reason == NOT_READY:
        return not describe_unready(subject)[1]
    return any(each.may_be_killed for each in _crashed(subject.manifest, verdict))


def _crashed(pod: Manifest, verdict: Verdict) -> Iterator[Container]:
    for each in containers_of(pod) if verdict.reason == CRASH_LOOP else ():
        found = _judge_container(each)
        if found and found.message == verdict.message:
            yield each


def explain_by_events(verdict: Verdict, silent: Manifest, events: Iterable[Manifest] | None) -> Verdict:
    """Return a verdict with what the Events of a Pod say beside.

    Args:
        verdict: of `explain`.
        silent: the Pod that it is about, see `find_silent`.
        events: about the Pod; None if the controller may not list them.
    """
    if events is None:
        return verdict if verdict.reason == CRASH_LOOP else replace(verdict, hint=MAY_NOT_LIST_EVENTS)
    found = list(events)
    if verdict.reason == CRASH_LOOP:
        said = (read_killing(each, found) for each in _crashed(silent, verdict))
        return replace(verdict, message="; ".join(filter(None, (verdict.message, *said))))
    unready = unready_container(silent)
    if unready and (told := read_probe(unready, found)):
        return told
    is_running = unready and "running" in mapping(unready.status, "state")
    return (None if is_running else read_hindrance(silent, found)) or verdict


def explain_ends(ends: Ends, verdict: Verdict, told: Verdict) -> Ends:
    """Return how a container has ended, with what `explain_by_events` adds to a verdict if that is about the same."""
    is_same = (verdict.reason, verdict.message) == (CRASH_LOOP, ends.text)
    return replace(ends, text=told.message) if is_same else ends


def explain_namespace(namespace: Manifest) -> Verdict | None:
    """Return why a Namespace is still Terminating; None if its conditions do not say."""
    subject = subject_of(namespace, Context())
    for reason in _NAMESPACE_CONDITIONS:
        if condition := subject.held(reason):
            return Verdict(State.TERMINATING, reason, _INSTANCES.sub("", condition.message))
    return None


def _of_newest_template(pods: Iterable[Manifest]) -> list[Manifest]:
    # The rollout may be repairing those that are older or being deleted.
    present = [each for each in pods if not field(each, "metadata", "deletionTimestamp")]
    newest = max(present, key=lambda each: text(each, "metadata", "creationTimestamp"), default={})
    template = text(newest, "metadata", "labels", TEMPLATE)
    return [each for each in present if text(each, "metadata", "labels", TEMPLATE) == template]


def _severity(verdict: Verdict) -> tuple[int, str, str]:
    rank = {UNSCHEDULABLE: 2, NOT_READY: 4, PENDING: 5, NOT_OBSERVED: 6}.get(verdict.reason, 1)
    if verdict.state is State.FAILED:
        rank = 0 if _is_fatal(verdict) else 3
    return rank, verdict.reason, verdict.message


def _is_fatal(verdict: Verdict) -> bool:
    return verdict.state is State.FAILED and verdict.reason in FATAL
