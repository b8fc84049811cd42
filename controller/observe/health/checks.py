"""`spec.healthChecks`: rules that users write for a kind or an object (README.md). They are data, never code.

Checks are plain dictionaries in the form of `api.v1alpha2.policies.HealthCheck`. A missing field or condition matches
nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from controller.observe.health.subject import Manifest, Subject
from controller.observe.health.verdict import HEALTHY, State, Verdict, failed, healthy, progressing, reason_or
from controller.untrusted import field, mappings, text

_STEP = re.compile(r'\["([^"\\]+)"\]|([A-Za-z0-9_$-]+)')

_WORST_FIRST = (State.FAILED, State.PROGRESSING, State.HEALTHY)


def matching(checks: Iterable[Manifest], manifest: Manifest) -> tuple[Manifest, ...]:
    """Return the checks that apply to an object: those that name it, else those for its whole kind."""
    group, kind = text(manifest, "apiVersion").rpartition("/")[0], text(manifest, "kind")
    of_kind = [check for check in checks if concerns(check, group, kind)]
    name = text(manifest, "metadata", "name")
    named = [check for check in of_kind if check.get("name") == name]
    return tuple(named or [check for check in of_kind if not check.get("name")])


def concerns(check: Manifest, group: str, kind: str) -> bool:
    """Return whether a check applies to a kind, or to one object of it."""
    return (check.get("group") or "") == group and check.get("kind") == kind


def always_healthy(subject: Subject) -> Verdict | None:
    """Return Healthy if a check sets `always: Healthy`."""
    if any(check.get("always") == "Healthy" for check in subject.context.checks):
        return healthy("AlwaysHealthy", 'spec.healthChecks sets "always: Healthy"')
    return None


def describe_acceptance(subject: Subject) -> str:
    """Return the health check that would accept an object as it is, as YAML to paste.

    For objects that wait for something that the cluster may lack for good.
    """
    manifest = subject.manifest
    about = {"group": subject.group, "kind": subject.kind, "name": json.dumps(text(manifest, "metadata", "name"))}
    check = ", ".join(f"{key}: {value}" for key, value in about.items() if value)
    return f"to accept it as it is, add to spec.healthChecks: - {{{check}, always: Healthy}}"


def judge_by_checks(subject: Subject) -> Verdict | None:
    """Return the worst verdict of the checks; None if there are no checks."""
    verdicts = [_judge(check, subject) for check in subject.context.checks]
    return min(verdicts, key=lambda verdict: _WORST_FIRST.index(verdict.state), default=None)


def _judge(check: Manifest, subject: Subject) -> Verdict:
    """Judge by one check: any of `failed`, else any of `progressing`, else all of `healthy`, else Progressing."""
    for matcher in mappings(check, "failed"):
        if _matches(matcher, subject):
            return failed(*_describe(matcher, subject, "HealthCheckFailed"))
    for matcher in mappings(check, "progressing"):
        if _matches(matcher, subject):
            return progressing(*_describe(matcher, subject, "HealthCheckProgressing"))
    for matcher in mappings(check, "healthy"):
        if not _matches(matcher, subject):
            return progressing(*_describe(matcher, subject, "HealthCheckNotMet", negated=True))
    return HEALTHY


def _matches(matcher: Manifest, subject: Subject) -> bool:
    condition, of_field = matcher.get("condition"), matcher.get("field")
    if isinstance(condition, Mapping):
        return _condition_matches(condition, subject)
    return isinstance(of_field, Mapping) and _field_matches(of_field, subject.manifest)


def _condition_matches(matcher: Manifest, subject: Subject) -> bool:
    found = subject.conditions.get(text(matcher, "type"))
    reasons = matcher.get("reasons") or ()
    return found is not None and found.status == matcher.get("status") and (not reasons or found.reason in reasons)


def _field_matches(matcher: Manifest, manifest: Manifest) -> bool:
    value = _at(manifest, text(matcher, "path"))
    if value is None:
        return False
    if matcher.get("equalsPath"):
        return _same(value, _at(manifest, text(matcher, "equalsPath")))
    return _as_text(value) in (matcher.get("in") or ())


def _at(manifest: Manifest, path: str) -> Any:
    return field(manifest, *_keys(path)) if path else None


@lru_cache(maxsize=1024)
def _keys(path: str) -> tuple[str, ...]:
    """Return the keys of a dotted path; keys with dots are written ["quoted.key"]."""
    return tuple(quoted or plain for quoted, plain in _STEP.findall(path))


def _same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _as_text(value: Any) -> str | None:
    """Return a scalar as checks write it; None for lists and maps, which match nothing."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _describe(matcher: Manifest, subject: Subject, default: str, *, negated: bool = False) -> tuple[str, str]:
    """Return reason and message: those of the condition if it has any, else what the matcher requires.

    The value of a field is never shown: it may change with every event, or be confidential.
    """
    found = subject.conditions.get(text(matcher, "condition", "type"))
    reason, message = (found.reason, found.message) if found else ("", "")
    return reason_or(reason, default), message or _sentence(matcher, negated=negated)


def _sentence(matcher: Manifest, *, negated: bool) -> str:
    verb = "is not" if negated else "is"
    condition, of_field = matcher.get("condition"), matcher.get("field")
    if isinstance(condition, Mapping):
        reasons = f" with reason {' or '.join(condition['reasons'])}" if condition.get("reasons") else ""
        return f"condition {text(condition, 'type')} {verb} {text(condition, 'status')}{reasons}"
    path, other = text(of_field, "path"), text(of_field, "equalsPath")
    if other:
        return f"{path} {verb} equal to {other}"
    return f"{path} {verb} one of {', '.join(field(of_field, 'in') or ())}"
