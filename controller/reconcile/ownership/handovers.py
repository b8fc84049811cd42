"""From which BundleDeployments, and to which, the objects of one may pass (`spec.takeOver`).

Those of the shard are watched anyway. One of another shard is read, and followed by name if it gives. Not here: which
objects pass (apply/ownership.py), and who is woken (observe/handovers.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

from api import names
from api.v1alpha2.conditions import ConditionType
from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Exists, Giver, HandOver, Owner
from controller.apply.possession import name_objects
from controller.kube.resources import DEPLOYMENTS
from controller.observe.following.named import NamedWatches, WatchedObject
from controller.observe.handovers import find_hindrance
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.revisions.accounts.account import account_in
from controller.revisions.accounts.service_accounts import AccountPolicy
from controller.revisions.storage.store import RevisionStore


class HandOvers:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        followed: wakes a BundleDeployment when one of another shard changes.
        policy: gives the default account.
        revisions: of those that take.
    """

    def __init__(
        self, watches: Watches, followed: NamedWatches, policy: AccountPolicy, revisions: RevisionStore
    ) -> None:
        self._watches, self._followed, self._policy, self._revisions = watches, followed, policy, revisions

    def find(self, context: Context) -> HandOver:
        """Return the BundleDeployments from which and to which objects may pass.

        Raises: ApiError.
        """
        read: dict[WatchedObject, str] = {}
        found = [self._find_giver(each.name, read) for each in context.spec.take_over]
        self._followed.watch(context.name, read, share=context.share)
        return HandOver(
            givers={giver.metadata.name: self._describe(giver) for giver in found if giver},
            takers=frozenset(self._watches.takers(context.name)),
            takes=self._takes(context.name),
        )

    def observed(self, context: Context) -> dict[ObjectKey, Record]:
        """Return the objects with the label of a BundleDeployment, or of one that is known to take from it."""
        found: dict[ObjectKey, Record] = {}
        for taker in self._watches.takers(context.name):
            found |= self._watches.managed(taker)
        return {**found, **self._watches.managed(context.name)}

    def describe_awaited(self, context: Context, left: Collection[ObjectKey]) -> str:
        """Return which objects of a deleted BundleDeployment others are about to take over; empty if none.

        Only while it is paused, as any hand-over: who resumes it has them deleted.

        Args:
            context: of the pass.
            left: the objects that it still has.

        Raises: ApiError.
        """
        if not left or find_hindrance(context.deployment):
            return ""
        for taker in self._all_takers(context):
            named = self._named_by(context, taker)
            awaited = left if named is None else named.intersection(left)
            if awaited:
                return _describe_awaited(len(awaited), taker.metadata.name, is_known=named is not None)
        return ""

    def _all_takers(self, context: Context) -> Iterator[BundleDeployment]:
        """Yield those that still take from a BundleDeployment, of whatever shard.

        Raises: ApiError, also while iterating.
        """
        known = (self._watches.outline(name) for name in self._watches.takers(context.name))
        yield from (each for each in known if each and _still_takes(each))
        if not context.state.has_no_other_takers:  # asked once if there are none, since it is a LIST
            others = [each for each in self._watches.takers_elsewhere(context.name) if _still_takes(each)]
            context.state.has_no_other_takers = not others
            yield from others

    def _named_by(self, context: Context, taker: BundleDeployment) -> frozenset[ObjectKey] | None:
        """Return the objects in the wanted revision of a taker; None if that is not known yet."""
        status = taker.status
        digest = status.pending.revision if status.pending else status.revision
        if not digest or status.observed_generation != taker.metadata.generation:
            return None
        known = context.state.named_by_takers.get(digest)
        if known is None and (revision := self._revisions.read(taker.metadata.name, digest)):
            named = name_objects([revision], self._watches.served.is_namespaced, orphan=False)
            known = context.state.named_by_takers[digest] = frozenset(named)
        return known

    def forget(self, name: str) -> None:
        """Follow nothing for a BundleDeployment any more."""
        self._followed.watch(name, {})

    def _find_giver(self, name: str, read: dict[WatchedObject, str]) -> BundleDeployment | None:
        known = self._watches.outline(name)
        if known or not self._watches.may_be_elsewhere(name):
            return known
        seen = self._watches.read_elsewhere(name)
        read[WatchedObject("", name, resource=DEPLOYMENTS)] = seen.resource_version if seen else ""
        return seen.outline if seen else None

    def _describe(self, giver: BundleDeployment) -> Giver:
        completed = self._policy.complete(giver)
        account = account_in(completed.spec)
        return Giver(
            owner=Owner(giver.metadata.name, giver.metadata.uid),
            orphan=giver.spec.deletion_policy == "Orphan",
            user=account.user if account else None,
            hindrance=find_hindrance(giver),
        )

    def _takes(self, name: str) -> Exists:
        """Return a function that asks about each BundleDeployment of another shard once."""

        @cache
        def _takes_from(taker: str, uid: str) -> bool:
            found = self._watches.outline(taker)
            if found is None and self._watches.may_be_elsewhere(taker):
                seen = self._watches.read_elsewhere(taker)
                found = seen.outline if seen else None
            givers = {each.name for each in found.spec.take_over} if found else set()
            return found is not None and found.metadata.uid == uid and name in givers

        return _takes_from


def _still_takes(taker: BundleDeployment) -> bool:
    """Whether a taker does not have everything yet that it wants."""
    installed, generation = taker.status.condition(ConditionType.INSTALLED), taker.metadata.generation
    has_all = installed is not None and (installed.status, installed.observed_generation) == ("True", generation)
    return taker.metadata.deletion_timestamp is None and not (has_all and not taker.status.pending)


def _describe_awaited(count: int, taker: str, *, is_known: bool) -> str:
    objects = "1 object" if count == 1 else f"{count} objects"
    what = f'waiting until {names.KIND} "{taker}" has taken over {objects}'
    if not is_known:
        what = f'{objects} left; it is not known yet which of them {names.KIND} "{taker}" takes over'
    return f"{what} (spec.takeOver); to delete them now, set spec.paused to false"
