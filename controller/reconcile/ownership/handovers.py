"""From which BundleDeployments, and to which, the objects of one may pass (`spec.takeOver`).

Those of the shard are watched anyway. One of another shard is read, and followed by name if it gives. Not here: which
objects pass (apply/ownership.py), and who is woken (observe/handovers.py).
"""

from __future__ import annotations

from functools import cache

from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Exists, Giver, HandOver, Owner
from controller.kube.resources import DEPLOYMENTS
from controller.observe.following.named import NamedWatches, WatchedObject
from controller.observe.handovers import find_hindrance
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.revisions.accounts.account import account_in
from controller.revisions.accounts.service_accounts import AccountPolicy


class HandOvers:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        followed: wakes a BundleDeployment when one of another shard changes.
        policy: gives the default account.
    """

    def __init__(self, watches: Watches, followed: NamedWatches, policy: AccountPolicy) -> None:
        self._watches, self._followed, self._policy = watches, followed, policy

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
            names = {each.name for each in found.spec.take_over} if found else set()
            return found is not None and found.metadata.uid == uid and name in names

        return _takes_from
