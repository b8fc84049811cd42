"""Ask the API server which rights an account lacks for objects that were not applied, all at once.

Only after a refusal that is about rights, and before another account takes over installed objects. The account asks
about itself, which every account may; a question without an answer adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from controller.apply.failures.missing_rights import LackOfRightsError, RbacRight, lack_of
from controller.apply.failures.required_rights import Rules, grants_in, rights_to_apply
from controller.apply.object.pool import Pool
from controller.apply.options import ApplyOptions
from controller.apply.targets import Target
from controller.kube.client import ApiError, Client, User
from controller.kube.resources import CLUSTER_ROLES, RBAC, ROLES, Resource
from controller.observe.records import ObjectKey

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAX_QUESTIONS = 1000
"""For one refusal. The next one, once these rights are granted, reports the others."""
_ROLES = {each.kind: each for each in (ROLES, CLUSTER_ROLES)}


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
        grants = list(grants_in((target.manifest for target, _ in items), partial(self._rules, options)))
        held_instead = self._held(client, options, [grant.instead for grant in grants])
        to_hold = (right for grant in grants if grant.instead not in held_instead for right in grant.rights)
        needed = list(islice(dict.fromkeys([*rights_to_apply(items), *to_hold]), MAX_QUESTIONS))
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
