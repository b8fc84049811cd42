"""How objects are: `assess` judges one, `aggregate` a revision. Pure functions over plain dictionaries, no I/O.

Read `verdict` (what is said), `rules` (in which order, by which rule), then the kinds: `workloads`, `pods`, `batch`,
`storage`, `networking`, `extension`, `availability`; `checks` (a user's rules), `presence` (absent, not seen yet),
`explain` (why it takes so long), `aggregate` (deadlines, the condition Healthy).
"""

from __future__ import annotations

from controller.observe.health.aggregate import (
    Health,
    Published,
    aggregate,
    deadline_start,
    publish_after,
    with_deadline,
)
from controller.observe.health.checks import matching
from controller.observe.health.explain import explain, explain_namespace
from controller.observe.health.presence import as_observed, assess_absent
from controller.observe.health.rules import assess, needs_full_object
from controller.observe.health.subject import Context, StorageClassInfo
from controller.observe.health.verdict import HEALTHY, State, Verdict

__all__ = [
    "HEALTHY",
    "Context",
    "Health",
    "Published",
    "State",
    "StorageClassInfo",
    "Verdict",
    "aggregate",
    "as_observed",
    "assess",
    "assess_absent",
    "deadline_start",
    "explain",
    "explain_namespace",
    "matching",
    "needs_full_object",
    "publish_after",
    "with_deadline",
]
