from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from api.v1alpha2.conditions import Reason
from controller.apply.ownership import Giver, HandOver, Owner
from controller.apply.plan import Action, ApplyOptions, Task
from controller.apply.reviews import AccessReviewer, GiverRights
from controller.apply.rights import RbacRight
from controller.apply.targets import Target
from controller.kube.configuration import User
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.records import ObjectKey, Record
from tests.support.deployments import options_for

KEY = ObjectKey("", "ConfigMap", "shop", "a")
TARGET = Target(key=KEY, kind=GroupVersionKind("", "v1", "ConfigMap"), digest="d", carries_reference=True, manifest={})
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
TASK = Task(target=TARGET, action=Action.TAKE_OVER, record=Record(key=KEY, owner="bar", owner_uid="uid-bar"))
ACCOUNT = User.service_account("shop", "installer")
PATCH = RbacRight(namespace="shop", groups=("",), resources=("configmaps",), verbs=("patch",))


class Reviewer:
    """Says that accounts lack a right, and remembers which ones were asked about."""

    def __init__(self) -> None:
        self.asked: list[User | None] = []

    def missing(self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions) -> list[RbacRight]:
        self.asked.append(options.user)
        return [PATCH] if items else []


def examine(task: Task, giver: User | None, taker: User | None = None) -> tuple[Task, list[User | None]]:
    reviewer = Reviewer()
    givers = {"bar": Giver(owner=Owner("bar", "uid-bar"), orphan=False, user=giver)}
    options = options_for(TARGET, user=taker, hand_over=HandOver(givers=givers))
    found = GiverRights(cast("AccessReviewer", reviewer)).examine([(task, CONFIG_MAPS)], options)
    assert [resource for _, resource in found] == [CONFIG_MAPS]
    return found[0][0], reviewer.asked


def test_what_the_account_of_the_giver_may_not_apply_is_not_taken_over() -> None:
    refused, asked = examine(TASK, ACCOUNT)
    assert (refused.action, asked) == (Action.REFUSE, [ACCOUNT])
    assert refused.refusal
    assert refused.refusal.reason is Reason.FORBIDDEN
    assert refused.refusal.message == (
        'ConfigMap shop/a: "system:serviceaccount:shop:installer", the account of BundleDeployment "bar", may not hand '
        'it over; grant it patch configmaps in namespace "shop"'
    )


def test_the_controller_and_the_account_that_takes_over_are_not_asked_about() -> None:
    assert examine(TASK, None) == (TASK, [])
    assert examine(TASK, ACCOUNT, ACCOUNT) == (TASK, [])


def test_only_what_is_taken_over_from_it_is_asked_about() -> None:
    for task in (replace(TASK, action=Action.APPLY), replace(TASK, record=Record(key=KEY, owner="other"))):
        assert examine(task, ACCOUNT) == (task, [])
