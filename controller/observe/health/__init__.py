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
from controller.observe.health.checks import concerns, matching
from controller.observe.health.explain import explain, explain_namespace, explained, pods_of
from controller.observe.health.presence import NOT_OBSERVED, as_observed, assess_absent, refused
from controller.observe.health.rules import assess, needs_full_object
from controller.observe.health.storage import UNBOUND
from controller.observe.health.subject import Context, StorageClassInfo
from controller.observe.health.verdict import HEALTHY, State, Verdict

__all__ = [
    "HEALTHY",
    "NOT_OBSERVED",
    "UNBOUND",
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
    "concerns",
    "deadline_start",
    "explain",
    "explain_namespace",
    "explained",
    "matching",
    "needs_full_object",
    "pods_of",
    "publish_after",
    "refused",
    "with_deadline",
]
