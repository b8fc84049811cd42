"""What is said of an object that is not seen as it was applied: absent, refused, or still as it was before."""

from __future__ import annotations

from api.errors import BundleError
from controller.observe.health.subject import Manifest, integer, text
from controller.observe.health.verdict import State, Verdict, failed, healthy, progressing

NOT_OBSERVED = progressing("NotObserved", "applied, and not seen since")


def assess_absent(desired: Manifest, *, installed: bool) -> Verdict:
    """Judge an object that is not on the cluster.

    Args:
        desired: as the revision has it.
        installed: whether that revision is installed in full. Then a Job is gone because its TTL has removed it, and
            applying it again would run it for ever (pagerduty-operator#402, korifi#2094).
    """
    is_job = text(desired, "apiVersion").startswith("batch/") and text(desired, "kind") == "Job"
    if is_job and installed and integer(desired, "spec", "ttlSecondsAfterFinished") is not None:
        return healthy("FinishedAndRemoved", "spec.ttlSecondsAfterFinished has removed it")
    return Verdict(State.MISSING, "Missing", "it is not on the cluster")


def as_observed(verdict: Verdict, *, seen_digest: str, applied_digest: str) -> Verdict:
    """Return the verdict on an object, or NotObserved while what is seen is not what was applied last.

    After a PATCH of ours the watch still shows the old object with its old, healthy status.

    Args:
        verdict: on the object as it is seen.
        seen_digest: its applied-digest annotation there.
        applied_digest: the one that it was given last.
    """
    if verdict.state is State.TERMINATING or seen_digest == applied_digest:
        return verdict
    return NOT_OBSERVED


def refused(error: BundleError, identity: str) -> Verdict:
    """Judge an object that could not be applied, however the one that is there may be.

    Args:
        error: why; what somebody has to act on is a failure, what an event ends is on its way.
        identity: of the object, with which its message may begin.
    """
    message = error.message.removeprefix(f"{identity}: ")
    return (
        failed(error.reason.value, message) if error.reason.retry.stalls else progressing(error.reason.value, message)
    )
