"""Pod: judged as an object of a bundle, and to explain the workload that it belongs to (explain.py).

Messages name the container only: those of the Pod contain times, its name and counters.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.observe.health.subject import Manifest, Subject
from controller.observe.health.verdict import HEALTHY, State, Verdict, failed, progressing, reason_or
from controller.untrusted import field, integer, mappings, text

CRASH_LOOP = "CrashLoopBackOff"
FATAL = frozenset({CRASH_LOOP, "InvalidImageName", "ErrImageNeverPull"})
"""Reasons of a waiting container that only a change of the Pod resolves."""

# Other reasons worth reporting end in Error (CreateContainerConfigError, RunContainerError).
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})

# A container runs for a while between two crashes: counting restarts keeps the verdict stable.
_CRASH_LOOP_RESTARTS = 3

_CONTAINERS = (("initContainerStatuses", "init container"), ("containerStatuses", "container"))

NOT_OBSERVED = "PodNotObserved"
PENDING = "PodPending"
NOT_READY = "PodNotReady"
UNSCHEDULABLE = "Unschedulable"


def pod(subject: Subject) -> Verdict:
    """Judge a Pod."""
    phase = text(subject.manifest, "status", "phase")
    if phase == "Failed":
        return _ended(subject)
    if phase == "Succeeded" or subject.holds("Ready"):
        return HEALTHY
    return _worst_container(subject) or _unscheduled(subject) or _waiting(subject, phase)


def _ended(subject: Subject) -> Verdict:
    reason = reason_or(text(subject.manifest, "status", "reason"), "")
    for label, status in _containers(subject):
        code = integer(status, "state", "terminated", "exitCode")
        if code:
            return failed(reason or _exit_reason(status), f"{label} exited with code {code}")
    return failed(reason or "PodFailed", "status.phase is Failed")


def _exit_reason(status: Manifest) -> str:
    reason = reason_or(text(status, "state", "terminated", "reason"), "Error")
    return "ContainerFailed" if reason == "Error" else reason


def _worst_container(subject: Subject) -> Verdict | None:
    verdicts = [verdict for label, status in _containers(subject) if (verdict := _container(label, status))]
    return min(verdicts, key=lambda verdict: verdict.state is not State.FAILED, default=None)


def _container(label: str, status: Manifest) -> Verdict | None:
    waiting = reason_or(text(status, "state", "waiting", "reason"), "")
    if waiting in FATAL:
        return failed(waiting, label)
    if _crash_loops(status):
        return failed(CRASH_LOOP, label)
    return progressing(waiting, label) if _is_hindered(waiting) else None


def _is_hindered(reason: str) -> bool:
    """Whether a waiting container cannot start now."""
    return reason in _PULLING or reason.endswith("Error")


def is_pod_stuck(reason: str) -> bool:
    """Whether the reason of a verdict says that pods do not run, which hardly ends without a person."""
    return reason in FATAL or reason == UNSCHEDULABLE or _is_hindered(reason)


def _crash_loops(status: Manifest) -> bool:
    restarts = integer(status, "restartCount") or 0
    crashed = field(status, "lastState", "terminated") is not None
    return crashed and restarts >= _CRASH_LOOP_RESTARTS and status.get("ready") is not True


def _unscheduled(subject: Subject) -> Verdict | None:
    # Never Failed without its deadline: an autoscaler needs minutes to add a node.
    scheduled = subject.denied("PodScheduled")
    if scheduled and scheduled.reason == UNSCHEDULABLE:
        return progressing(UNSCHEDULABLE, "no node can run the pod")
    return None


def _waiting(subject: Subject, phase: str) -> Verdict:
    if not phase:
        return progressing(NOT_OBSERVED, "the pod has no status yet")
    if phase == "Pending":
        return progressing(PENDING, "containers are not running yet")
    unready = next((label for label, status in _containers(subject) if status.get("ready") is not True), "")
    return progressing(NOT_READY, unready)


def _containers(subject: Subject) -> Iterator[tuple[str, Manifest]]:
    """Yield the label of each container for messages, and its status; init containers first."""
    for key, word in _CONTAINERS:
        for status in mappings(subject.manifest, "status", key):
            yield f'{word} "{text(status, "name")}"', status
