"""Extensions of the API: CustomResourceDefinition and APIService."""

from __future__ import annotations

from controller.observe.health.subject import Subject
from controller.observe.health.verdict import HEALTHY, Verdict, failed, progressing, reason_or


def custom_resource_definition(subject: Subject) -> Verdict:
    """Judge a CustomResourceDefinition.

    Established=False is never Failed: InvalidCABundle ends once the caBundle of the conversion webhook is injected.
    """
    conflict = subject.denied("NamesAccepted")
    if conflict:
        return failed(reason_or(conflict.reason, "NamesNotAccepted"), conflict.message)
    established = subject.conditions.get("Established")
    if established and established.holds:
        return HEALTHY
    if established:
        return progressing(reason_or(established.reason, "Installing"), established.message)
    return progressing("Installing", "not established yet")


def api_service(subject: Subject) -> Verdict:
    """Judge an APIService."""
    available = subject.conditions.get("Available")
    if available is None:
        return progressing("NotAvailable", "availability not reported yet")
    if available.holds:
        return HEALTHY
    return progressing(reason_or(available.reason, "NotAvailable"), available.message)
