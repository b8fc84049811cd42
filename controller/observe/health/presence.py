"""Verdicts on objects that are not on the cluster as applied: missing, refused, or not observed yet."""

from __future__ import annotations

from api.errors import BundleError
from controller.observe.health.subject import Manifest
from controller.observe.health.verdict import State, Verdict, failed, healthy, progressing
from controller.untrusted import integer, text

NOT_OBSERVED = progressing("NotObserved", "applied; waiting for the watch to show it")


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


def as_observed(verdict: Verdict, *, seen_digest: str, applied_digest: str) -> Verdict:
    """Return the verdict on an object, or NotObserved while the watch is behind our last apply.

    Until it catches up, it shows the old object with its old, healthy status.

    Args:
        verdict: on the object as the watch shows it.
        seen_digest: the applied-digest annotation that the watch shows.
        applied_digest: the one that was applied last.
    """
    if verdict.state is State.TERMINATING or seen_digest == applied_digest:
        return verdict
    return NOT_OBSERVED


def refused(error: BundleError, identity: str) -> Verdict:
    """Judge an object that could not be applied, whatever its health on the cluster.

    Args:
        error: why. Failed if its reason stalls, Progressing if it may resolve without a user.
        identity: of the object; dropped where the message starts with it.
    """
    make = failed if error.reason.retry.stalls else progressing
    return make(error.reason.value, error.message.removeprefix(f"{identity}: "))
