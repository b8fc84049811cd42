"""What keeps workloads at their size: HorizontalPodAutoscaler and PodDisruptionBudget."""

from __future__ import annotations

from controller.observe.health.subject import Subject
from controller.observe.health.verdict import HEALTHY, Verdict, failed, healthy, progressing, reason_or


def horizontal_pod_autoscaler(subject: Subject) -> Verdict:
    """Judge a HorizontalPodAutoscaler at autoscaling/v2; v1 has no conditions.

    Messages are not repeated: they hold metric values.
    """
    target = subject.denied("AbleToScale")
    if target:
        return progressing(reason_or(target.reason, "NotAbleToScale"), "the condition AbleToScale is False")
    metric = subject.denied("ScalingActive")
    if metric and metric.reason == "ScalingDisabled":
        return healthy("ScalingDisabled", "its target has 0 replicas")
    if metric:
        return progressing(reason_or(metric.reason, "ScalingNotActive"), "the condition ScalingActive is False")
    return HEALTHY


def pod_disruption_budget(subject: Subject) -> Verdict:
    """Judge a PodDisruptionBudget: one that allows no disruption now does what it is for."""
    disruption = subject.denied("DisruptionAllowed")
    if disruption and disruption.reason == "SyncFailed":
        return failed("SyncFailed", disruption.message)
    return HEALTHY
