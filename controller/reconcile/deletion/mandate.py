"""As which account the objects of a deleted BundleDeployment are deleted, and which objects.

The account is the one that applied them, even if the spec names another one now. If it cannot act, the controller does
not act in its place, unless an administrator requests that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.possession import RevisionObject
from controller.kube.client import User
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.ownership.holdings import Holdings
from controller.revisions.accounts.account import account_of
from controller.revisions.accounts.service_accounts import Accounts
from controller.revisions.kept import KeptRevisions

_LOST = "no kept revision can be read, so the installed objects are not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """As which account objects are deleted, and which objects."""

    user: User | None
    """None: as the controller."""
    named: Mapping[ObjectKey, RevisionObject] | None
    """What revisions name; None: none can be read, and only the marks identify objects."""
    hindrance: BundleError | None = None
    """Why the account may not act."""
    without_hooks: bool = False
    """No account may run them."""
    unreadable: Mapping[ObjectKey, BundleError] = field(default_factory=dict)
    """Why named objects that are not watched cannot be read."""


class Mandates:
    """Finds the account that deletes objects."""

    def __init__(self, *, watches: Watches, kept: KeptRevisions, accounts: Accounts, holdings: Holdings) -> None:
        self._watches, self._kept, self._accounts, self._holdings = watches, kept, accounts, holdings

    def of(self, context: Context) -> Mandate:
        """Return the account and the objects, after reading those that are not watched.

        Raises: CrowdedError, ApiError.
        """
        mandate = self._find(context)
        if mandate.hindrance:
            return mandate
        return replace(mandate, unreadable=self._holdings.read_unwatched(context, mandate.named or {}, mandate.user))

    def _find(self, context: Context) -> Mandate:
        named = self._holdings.all(context)
        revision = self._kept.last_good(context)
        account = account_of(revision.terms) if revision else context.account
        hindrance = self._accounts.hindrance(context.deployment, account, [revision.terms] if revision else ())
        if context.metadata.annotations.get(names.TEARDOWN_AS) == names.CONTROLLER:
            return Mandate(user=None, named=named, without_hooks=hindrance is not None)
        if account is None and named is None and self._watches.managed(context.name):
            return Mandate(user=None, named=named, hindrance=BundleError(Reason.REVISION_LOST, _LOST))
        return Mandate(user=account.user if account else None, named=named, hindrance=hindrance)
