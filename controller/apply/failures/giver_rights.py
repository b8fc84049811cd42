"""Whether the account that gives objects away may still apply them, so that a hand-over launders nobody's rights.

The account that takes them proves its own rights by its requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.failures.access_review import AccessReviewer
from controller.apply.failures.missing_rights import RbacRight
from controller.apply.options import ApplyOptions
from controller.apply.ownership import Giver
from controller.apply.plan import Action, Task
from controller.kube.resources import Resource

_SHOWN = 5


class GiverRights:
    """Thread-safe."""

    def __init__(self, reviewer: AccessReviewer) -> None:
        self._reviewer = reviewer

    def examine(self, items: Sequence[tuple[Task, Resource]], options: ApplyOptions) -> list[tuple[Task, Resource]]:
        """Return tasks with those refused that take over objects which the giver's account may not apply.

        Raises: CancelledError if the pool was stopped.
        """
        found = list(items)
        for giver in options.hand_over.givers.values():
            taken = [item for item in found if _is_taken_from(item[0], giver)]
            if not taken or giver.user in (None, options.user):
                continue
            as_giver = replace(options, user=giver.user)
            missing = self._reviewer.missing([(task.target, resource) for task, resource in taken], as_giver)
            if missing:
                found = [(_refuse(item[0], giver, missing), item[1]) if item in taken else item for item in found]
        return found


def _is_taken_from(task: Task, giver: Giver) -> bool:
    return task.action is Action.TAKE_OVER and task.record is not None and task.record.owner == giver.owner.name


def _refuse(task: Task, giver: Giver, missing: Sequence[RbacRight]) -> Task:
    account = giver.user.name if giver.user else ""
    listed = "; ".join(map(str, missing[:_SHOWN])) + (f"; and {len(missing) - _SHOWN} more" if missing[_SHOWN:] else "")
    message = (
        f'{task.target.key}: "{account}", the account of BundleDeployment "{giver.owner.name}", may not hand it over; '
        f"grant it {listed}"
    )
    return replace(task, action=Action.REFUSE, refusal=BundleError(Reason.FORBIDDEN, message))
