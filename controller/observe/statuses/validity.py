"""What of a status can be used: anything else counts as unknown, since another client may have edited it. Pure.

What is unknown is found out again, from the revision store and from all kinds that it names.
"""

from __future__ import annotations

import re
from typing import Any

from api.v1alpha2.conditions import ConditionType, Reason
from api.v1alpha2.types import Condition, Status
from controller.content.digests import is_digest
from controller.kube.resources import read_kinds

_STATE = re.compile(r"v[0-9]{1,9}:(?P<digest>.*)")
_TYPES, _REASONS = frozenset(each.value for each in ConditionType), frozenset(each.value for each in Reason)


def only_valid(status: Status) -> Status:
    """Return a status without texts that the controller never writes; the status itself if there are none."""
    state = _STATE.fullmatch(status.managed_state)
    usable: dict[str, Any] = {
        "revision": status.revision if is_digest(status.revision) else "",
        "installed_revision": status.installed_revision if is_digest(status.installed_revision) else "",
        "managed_state": status.managed_state if state and is_digest(state["digest"]) else "",
        "managed_kinds": tuple(map(str, read_kinds(status.managed_kinds))),
        "skipped_kinds": tuple(map(str, read_kinds(status.skipped_kinds))),
        "conditions": tuple(filter(_is_known, status.conditions)),
    }
    changes = {name: value for name, value in usable.items() if value != getattr(status, name)}
    return status.model_copy(update=changes) if changes else status


def _is_known(condition: Condition) -> bool:
    """Whether this release knows type and reason; a newer one may write others."""
    return condition.type in _TYPES and condition.reason in _REASONS
