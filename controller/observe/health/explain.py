"""Why a workload is not healthy, from its pods and their Events. Pure.

Messages name the container, and quote what it has written to its terminationMessagePath, and what Kubernetes says about
it, as far as that stays the same (kubelet.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from rukpak.controller.observe.health.kubelet import (
    IMAGE_REASONS,
    MOST_CONTAINERS,
    describe_end,
    describe_pending,
    describe_unready,
    describe_unscheduled,
    describe_waiting,
    is_sidecar,
    last_end,
    may_be_killed,
    quote,
    read_hindrance,
    read_killing,
    read_probe,
    read_refusal,
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
_FIRST = (("initContainerStatuses", "init container"),)
_CONTAINERS = (*_FIRST, ("containerStatuses", "container"))
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
    for label, status in _containers(subject):
        if integer(status, "state", "terminated", "exitCode"):
            return failed(reason or _exit_reason(status), describe_end(pod, label, status))
    if disrupted := subject.held("DisruptionTarget"):
        return failed(reason or reason_or(disrupted.reason, "PodFailed"), quote(disrupted.message, pod))
    return failed(reason or "PodFailed", "status.phase is Failed")


def _exit_reason(status: Manifest) -> str:
    reason = reason_or(text(status, "state", "terminated", "reason"), "Error")
    return "ContainerFailed" if reason == "Error" else reason


def _worst_container(subject: Subject) -> Verdict | None:
    verdicts = [each for label, status in _containers(subject) if (each := _container(subject, label, status))]
    return min(verdicts, key=lambda verdict: verdict.state is not State.FAILED, default=None)


def _container(subject: Subject, label: str, status: Manifest) -> Verdict | None:
    waiting = reason_or(text(status, "state", "waiting", "reason"), "")
    if waiting == CRASH_LOOP or (waiting not in FATAL and _crash_loops(status)):
        make = failed if _count_ends(status) >= CRASHES else progressing
        return make(CRASH_LOOP, describe_end(subject.manifest, label, status))
    if waiting in FATAL:
        return failed(waiting, describe_waiting(subject.manifest, label, status))
    return progressing(waiting, describe_waiting(subject.manifest, label, status)) if _is_hindered(waiting) else None


def _is_hindered(reason: str) -> bool:
    return reason in IMAGE_REASONS or reason.endswith("Error")


def is_pod_stuck(reason: str) -> bool:
    """Whether the reason of a verdict says that pods do not run, which hardly ends without a person."""
    return reason in FATAL or reason in _STUCK or _is_hindered(reason)


def _crash_loops(status: Manifest) -> bool:
    crashed = any(field(status, state, "terminated") is not None for state in ("state", "lastState"))
    return crashed and _count_ends(status) >= CRASHES and status.get("ready") is not True


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
    return max((_ends_in(subject_of(each, Context())) for each in new), default=NO_ENDS)


def _ends_in(pod: Subject) -> Ends:
    restarts = text(pod.manifest, "spec", "restartPolicy") not in ("Never", "OnFailure")
    first = [each for _, each in _containers(pod, _FIRST) if not is_sidecar(pod.manifest, text(each, "name"))]
    found = [
        Ends(count, describe_end(pod.manifest, label, status))
        for label, status in _containers(pod)
        if (count := _count_errors(status, stays=restarts and status not in first))
    ]
    return max(found, default=NO_ENDS)


def _count_errors(status: Manifest, *, stays: bool) -> int:
    """Return how often a container has ended; 0 if it has succeeded, or may have ended on purpose.

    Args:
        status: of the container.
        stays: whether it should run as long as its pod, so that it is started again whatever its exit code.
    """
    ends, code = _count_ends(status), integer(last_end(status), "exitCode")
    has_succeeded = not stays and integer(status, "state", "terminated", "exitCode") == 0
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
        return progressing(PENDING, describe_pending(subject, _containers(subject, _FIRST))[0])
    return progressing(NOT_READY, describe_unready(subject, _containers(subject))[0])


def _containers(subject: Subject, kinds: Iterable[tuple[str, str]] = _CONTAINERS) -> Iterator[tuple[str, Manifest]]:
    for key, word in kinds:
        for status in islice(mappings(subject.manifest, "status", key), MOST_CONTAINERS):
            name = text(status, "name")
            is_beside = key == "initContainerStatuses" and is_sidecar(subject.manifest, name)
            yield f'{"sidecar" if is_beside else word} "{name}"', status


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
        return not describe_pending(subject, _containers(subject, _FIRST))[1]
    if verdict.reason == NOT_READY:
        return not describe_unready(subject, _containers(subject))[1]
    return any(may_be_killed(subject.manifest, status) for status in _crashed(subject, verdict))


def _crashed(subject: Subject, verdict: Verdict) -> Iterator[Manifest]:
    for label, status in _containers(subject):
        found = _container(subject, label, status) if verdict.reason == CRASH_LOOP else None
        if found and found.message == verdict.message:
            yield status


def explain_by_events(verdict: Verdict, silent: Manifest, events: Iterable[Manifest] | None) -> Verdict:
    """Return a verdict with what the Events of a Pod say beside.

    Args:
        verdict: of `explain`.
        silent: the Pod that it is about, see `find_silent`.
        events: about the Pod; None if the controller may not list them.
    """
    if events is None:
        return verdict if verdict.reason == CRASH_LOOP else replace(verdict, hint=MAY_NOT_LIST_EVENTS)
    found, subject = list(events), subject_of(silent, Context())
    if verdict.reason == CRASH_LOOP:
        said = (read_killing(silent, status, found) for status in _crashed(subject, verdict))
        return replace(verdict, message="; ".join(filter(None, (verdict.message, *said))))
    unready = unready_container(_containers(subject))
    if unready and (told := read_probe(silent, unready[1], found)):
        return progressing(told.reason, f"{unready[0]}: {told.message}")
    is_running = unready and "running" in mapping(unready[1], "state")
    told = None if is_running else read_hindrance(silent, found)
    return progressing(told.reason, told.message) if told else verdict


def explain_ends(ends: Ends, verdict: Verdict, told: Verdict) -> Ends:
    """Return how a container has ended, with what `explain_by_events` adds to a verdict if that is about the same."""
    is_same = (verdict.reason, verdict.message) == (CRASH_LOOP, ends.text)
    return replace(ends, text=told.message) if is_same else ends


def explain_refusal(events: Iterable[Manifest]) -> Verdict | None:
    """Return why the Pods of a workload are not created, from its Events; None if these do not say."""
    told = read_refusal(events)
    return progressing(told.reason, told.message) if told else None


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
