"""Service, and the Gateway and routes of the Gateway API."""

from __future__ import annotations

from dataclasses import replace

from controller.observe.health.checks import describe_acceptance
from controller.observe.health.subject import Condition, Manifest, Subject, read_conditions
from controller.observe.health.verdict import HEALTHY, Verdict, progressing, reason_or
from controller.untrusted import field, mappings, text

_ROUTE_CONDITIONS = ("Accepted", "ResolvedRefs")


def service(subject: Subject) -> Verdict:
    """Judge a Service."""
    balanced = subject.spec("type") == "LoadBalancer"
    if balanced and not any(True for _ in mappings(subject.manifest, "status", "loadBalancer", "ingress")):
        hint = describe_acceptance(subject)
        return progressing("LoadBalancerPending", "no load balancer address assigned yet", deadline=False, hint=hint)
    return HEALTHY


def gateway(subject: Subject) -> Verdict:
    """Judge a Gateway."""
    programmed = subject.conditions.get("Programmed")
    if programmed and programmed.holds:
        return HEALTHY
    return replace(_not_yet("Programmed", programmed), hint=describe_acceptance(subject))


def route(subject: Subject) -> Verdict:
    """Judge a route of any protocol by all of its parents."""
    parents = list(mappings(subject.manifest, "status", "parents"))
    if not parents:
        return progressing("NoParents", "no Gateway has accepted it yet", hint=describe_acceptance(subject))
    gaps = (_parent_gap(parent, subject.generation) for parent in parents)
    return next((gap for gap in gaps if gap), HEALTHY)


def _parent_gap(parent: Manifest, generation: int | None) -> Verdict | None:
    conditions, _ = read_conditions(field(parent, "conditions"), generation)
    name = text(parent, "parentRef", "name")
    for condition_type in _ROUTE_CONDITIONS:
        condition = conditions.get(condition_type)
        if condition is None or not condition.holds:
            return _not_yet(condition_type, condition, prefix=f'parent "{name}": ')
    return None


def _not_yet(condition_type: str, condition: Condition | None, prefix: str = "") -> Verdict:
    if condition is None:
        return progressing(f"Not{condition_type}", f"{prefix}condition {condition_type} is not reported yet")
    message = condition.message or f"condition {condition_type} is not True"
    return progressing(reason_or(condition.reason, f"Not{condition_type}"), f"{prefix}{message}")
