"""Why something takes so long: what one more request tells about a workload, or about a Namespace that does not go.

Not here: when to ask. A workload that is Progressing for 15 s, by one LIST of its Pods, at most every 30 s
(reference/health.md 6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from controller.observe.health.pods import FATAL, NOT_OBSERVED, NOT_READY, PENDING, UNSCHEDULABLE, pod
from controller.observe.health.subject import Context, Manifest, field, subject_of
from controller.observe.health.verdict import State, Verdict, progressing

_NAMESPACE_CONDITIONS = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
)
# `pods. has 3 resource instances`, `example.com/x in 3 resource instances`: numbers that fall while it goes on.
_INSTANCES = re.compile(r" (has|in) \d+ resource instances")


def explain(pods: Iterable[Manifest]) -> Verdict | None:
    """Return the verdict on the worst Pod of a workload, by reason and container; None if no Pod is in trouble.

    Failed only where waiting does not help (CrashLoopBackOff, InvalidImageName, ErrImageNeverPull): that makes the
    workload Failed before its deadline. A Pod that has ended is replaced by its workload, so that it fails nothing.
    """
    verdicts = [
        pod(subject_of(manifest, Context()))
        for manifest in pods
        if not field(manifest, "metadata", "deletionTimestamp")
    ]
    troubles = [verdict for verdict in verdicts if verdict.state is not State.HEALTHY]
    worst = min(troubles, key=_severity, default=None)
    if worst is None or _is_fatal(worst):
        return worst
    return progressing(worst.reason, worst.message)


def explain_namespace(namespace: Manifest) -> Verdict | None:
    """Return why a Namespace is still Terminating; None if it does not say."""
    conditions = subject_of(namespace, Context()).conditions
    for reason in _NAMESPACE_CONDITIONS:
        condition = conditions.get(reason)
        if condition and condition.holds:
            return Verdict(State.TERMINATING, reason, _INSTANCES.sub("", condition.message))
    return None


def _severity(verdict: Verdict) -> tuple[int, str, str]:
    """Order verdicts, the worst first; equal ones so that the same is found each time, whatever the Pods are called."""
    return _rank(verdict), verdict.reason, verdict.message


def _rank(verdict: Verdict) -> int:
    if verdict.state is State.FAILED:
        return 0 if _is_fatal(verdict) else 3
    return {UNSCHEDULABLE: 2, NOT_READY: 4, PENDING: 5, NOT_OBSERVED: 6}.get(verdict.reason, 1)


def _is_fatal(verdict: Verdict) -> bool:
    return verdict.reason in FATAL
