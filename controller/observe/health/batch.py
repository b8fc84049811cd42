"""Job. CronJobs are healthy by existence (rules.py); a Job that its TTL has removed is presence.py's matter."""

from __future__ import annotations

import re

from controller.observe.health.subject import Condition, Subject
from controller.observe.health.verdict import HEALTHY, Verdict, failed, healthy, progressing, reason_or

# `Container main for pod foo/job-x7k2p failed with exit code 42 …`
_GENERATED_POD = re.compile(r" for pod \S+")


def job(subject: Subject) -> Verdict:
    """Judge a Job: running is not healthy, and SuccessCriteriaMet is not completion yet."""
    failure = subject.conditions.get("Failed")
    if failure and failure.holds:
        return failed(reason_or(failure.reason, "JobFailed"), _message(failure))
    if subject.holds("Complete"):
        return HEALTHY
    if subject.spec("suspend") is True:
        return healthy("Suspended", "spec.suspend is true")
    failing = subject.conditions.get("FailureTarget")
    if failing and failing.holds:
        return progressing(reason_or(failing.reason, "FailureTarget"), _message(failing))
    return progressing("JobRunning", "it has neither completed nor failed yet")


def _message(condition: Condition) -> str:
    return _GENERATED_POD.sub("", condition.message)
