"""Ask the API server which rights an account lacks, and find out by reading what would prevent a revision.

Only after a refusal that is about rights, and before another account takes over installed objects. The account asks
about itself, which every account may; a question without an answer adds nothing. Where objects change hands, the
account of the giver is asked whether it may still apply them, so that a hand-over launders nobody's rights. Nothing is
written here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.crd_upgrade.validation import Inspector
from controller.apply.ownership import Giver
from controller.apply.plan import Action, ApplyOptions, Task
from controller.apply.pool import Pool
from controller.apply.replies import classify
from controller.apply.rights import LackOfRightsError, RbacRight, Rules, grants_in, lack_of, rights_to_apply
from controller.apply.targets import Target
from controller.kube.client import ApiError, Client, User
from controller.kube.resources import CLUSTER_ROLES, RBAC, ROLES, Resource
from controller.observe.records import ObjectKey

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


MAX_QUESTIONS = 1000
"""For one refusal. The next one, once these rights are granted, reports the others."""
_MOST_RIGHTS = 20 * MAX_QUESTIONS
"""That are looked at for the questions: rules may repeat rights."""


_ROLES = {each.kind: each for each in (ROLES, CLUSTER_ROLES)}


_SHOWN = 5


_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")


class AccessReviewer:
    """Thread-safe.

    Args:
        client: acts as the controller.
        pool: sends concurrent requests.
    """

    def __init__(self, client: Client, pool: Pool) -> None:
        self._client, self._pool = client, pool

    def missing(self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions) -> list[RbacRight]:
        """Return the rights that objects need and the account does not have.

        Raises: CancelledError if the pool was stopped.
        """
        client = self._client.acting_as(options.user)
        granting = grants_in((target.manifest for target, _ in items), partial(self._rules, options))
        grants = list(islice(granting, MAX_QUESTIONS))
        held_instead = self._held(client, options, [grant.instead for grant in grants])
        to_hold = (right for grant in grants if grant.instead not in held_instead for right in grant.rights)
        some = islice(chain(rights_to_apply(items), to_hold), _MOST_RIGHTS)
        needed = list(islice(dict.fromkeys(some), MAX_QUESTIONS))
        held = self._held(client, options, needed)
        return [right for right in needed if right not in held]

    def lack(
        self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions, user: User
    ) -> LackOfRightsError | None:
        """Return all rights that an account lacks if it could not repair the objects; None if it could.

        Raises: CancelledError if the pool was stopped.
        """
        missing = self.missing(items, options)
        deletions = {right for right in rights_to_apply(items) if right.verbs == ("delete",)}  # no repair needs them
        return None if deletions.issuperset(missing) else lack_of(missing, user.name)

    def _held(self, client: Client, options: ApplyOptions, rights: Iterable[RbacRight]) -> set[RbacRight]:
        """Return which rights, with one verb each, are held or cannot be asked about."""
        asked = list(dict.fromkeys(rights))
        denied = self._pool.run(partial(_is_denied, client), asked, options.user)
        return {right for right, is_denied in zip(asked, denied, strict=True) if not is_denied}

    def _rules(self, options: ApplyOptions, kind: str, namespace: str, name: str) -> Rules:
        """Return the rules of a bound Role, from the bundle or the cluster."""
        bundled = options.wanted.by_key.get(ObjectKey(RBAC, kind, namespace, name))
        if bundled:
            return bundled.manifest.get("rules") or ()
        try:
            found: Mapping[str, Any] = self._client.get(_ROLES[kind].path(namespace, name)).value
        except (ApiError, KeyError, ValueError):  # the API server will refuse the binding
            return ()
        return found.get("rules") or ()


def _is_denied(client: Client, right: RbacRight) -> bool:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": _question(right)}
    try:
        value = client.create(REVIEWS, body).value
    except ApiError:
        return False
    return not (value.get("status") or {}).get("allowed")


def _question(right: RbacRight) -> dict[str, Any]:
    [verb] = right.verbs
    if right.paths:
        return {"nonResourceAttributes": {"path": right.paths[0], "verb": verb}}
    plural, _, subresource = right.resources[0].partition("/")
    attributes = {
        "namespace": right.namespace,
        "group": right.groups[0],
        "resource": plural,
        "subresource": subresource,
        "name": "".join(right.resource_names),
        "verb": verb,
    }
    return {"resourceAttributes": {name: value for name, value in attributes.items() if value}}


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
                found = [
                    (_refuse(task, giver, missing), resource) if _is_taken_from(task, giver) else (task, resource)
                    for task, resource in found
                ]
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


class Examiner:
    """Thread-safe.

    Args:
        client: acts as the controller.
        pool: sends concurrent requests.
        reviewer: asks for missing rights.
    """

    def __init__(self, client: Client, pool: Pool, reviewer: AccessReviewer) -> None:
        self._client, self._pool, self._reviewer = client, pool, reviewer

    def find_problems(
        self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions, changed: Collection[ObjectKey]
    ) -> list[BundleError]:
        """Return the rights that the account lacks, and unsafe upgrades of CustomResourceDefinitions.

        Args:
            items: the objects of the revision.
            options: of the revision.
            changed: objects that differ from those of the revision on the cluster.

        Raises: CancelledError if the pool was stopped.
        """
        user = options.user
        lack = self._reviewer.lack(items, options, user) if user else None
        upgraded = [item for item in items if item[0].key[:2] == _CRD and item[0].key in changed]
        unsafe = self._pool.run(lambda item: self._judge_upgrade(*item, options), upgraded, user)
        return [error for error in (lack, *unsafe) if error]

    def _judge_upgrade(self, target: Target, resource: Resource, options: ApplyOptions) -> BundleError | None:
        inspector = Inspector(self._client.acting_as(options.user))
        try:
            inspector.inspect(resource.path("", target.key.name), target.manifest, options.crd_upgrade_safety)
        except BundleError as error:
            return error
        except ApiError as error:
            failure = classify(error, target.key, install_namespace="")
            return BundleError(failure.reason, failure.message, retry_after=failure.retry_after)
        return None
