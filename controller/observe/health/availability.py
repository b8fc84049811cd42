"""HorizontalPodAutoscaler and PodDisruptionBudget."""

from __future__ import annotations

import re

from controller.observe.health.checks import describe_acceptance
from controller.observe.health.subject import Condition, Subject
from controller.observe.health.verdict import HEALTHY, Verdict, failed, healthy, progressing, reason_or

# Metric values with their units, and counts of metrics: `(1 invalid out of 3)`, `512Mi`, `10.5%`.
_NUMBER = re.compile(r"\b\d+(\.\d+)?([munkMGTPE]i?|Ki|%)?(?!\w|\.\d)")
# `missing request for cpu in container app of Pod web-5c7f9d8b6-x7k2p`
_POD = re.compile(r" of Pod \S+")


def horizontal_pod_autoscaler(subject: Subject) -> Verdict:
    """Judge a HorizontalPodAutoscaler of autoscaling/v2; v1 has no conditions."""
    target, hint = subject.denied("AbleToScale"), describe_acceptance(subject)
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
    """Return the message of a condition without the parts that differ between attempts."""
    return _NUMBER.sub("…", _POD.sub("", condition.message)) or f"condition {condition.type} is False"
