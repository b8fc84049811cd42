"""Pod: judged by itself where a bundle brings one, and to explain the workload that it belongs to (explain.py).

Messages name the container and nothing else: what a Pod says holds times, its own name and counters.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.observe.health.subject import Manifest, Subject, field, integer, mappings, text
from controller.observe.health.verdict import HEALTHY, State, Verdict, failed, progressing, reason_or

FATAL = frozenset({"CrashLoopBackOff", "InvalidImageName", "ErrImageNeverPull"})
"""Reasons why a container waits that do not go away without a change."""

# Others that are worth telling end in Error (CreateContainerConfigError, RunContainerError).
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})

# Between two crashes a container runs for a while: by its restarts the verdict stays.
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
    return failed(reason or "PodFailed", "its phase is Failed")


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
        return failed("CrashLoopBackOff", label)
    if waiting in _PULLING or waiting.endswith("Error"):
        return progressing(waiting, label)
    return None


def _crash_loops(status: Manifest) -> bool:
    restarts = integer(status, "restartCount") or 0
    crashed = field(status, "lastState", "terminated") is not None
    return crashed and restarts >= _CRASH_LOOP_RESTARTS and status.get("ready") is not True


def _unscheduled(subject: Subject) -> Verdict | None:
    # Never Failed by itself: an autoscaler needs minutes to bring a node.
    scheduled = subject.denied("PodScheduled")
    if scheduled and scheduled.reason == UNSCHEDULABLE:
        return progressing(UNSCHEDULABLE, "no node can take it")
    return None


def _waiting(subject: Subject, phase: str) -> Verdict:
    if not phase:
        return progressing(NOT_OBSERVED, "no node has seen it yet")
    if phase == "Pending":
        return progressing(PENDING, "its containers do not run yet")
    unready = next((label for label, status in _containers(subject) if status.get("ready") is not True), "")
    return progressing(NOT_READY, unready)


def _containers(subject: Subject) -> Iterator[tuple[str, Manifest]]:
    """Yield what messages call a container, and its status: init containers first, as they run."""
    for key, word in _CONTAINERS:
        for status in mappings(subject.manifest, "status", key):
            yield f'{word} "{text(status, "name")}"', status
