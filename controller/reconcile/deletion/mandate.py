"""As whom the objects of a BundleDeployment are taken away when it is deleted, and which.

As they were applied, whatever the spec has come to say since; where that account cannot act, nobody does for it, unless
an administrator says that the controller is to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.possession import Named
from controller.kube.client import User
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.holdings import Holdings
from controller.revisions.account import account_of
from controller.revisions.kept import KeptRevisions
from controller.revisions.service_accounts import Accounts

_LOST = "none of its revisions can be read, so that nothing says which objects it has installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """As whom objects are taken away, and which."""

    user: User | None
    """None: as the controller."""
    named: Mapping[ObjectKey, Named] | None
    """What revisions name; None: none can be read, and only the marks say anything."""
    hindrance: BundleError | None = None
    """Why nobody may act."""
    without_hooks: bool = False
    """There is nobody to run them."""
    unreadable: Mapping[ObjectKey, BundleError] = field(default_factory=dict)
    """What is named and not watched, and cannot be read: why."""


class Mandates:
    """Finds out as whom objects are taken away."""

    def __init__(self, *, watches: Watches, kept: KeptRevisions, accounts: Accounts, holdings: Holdings) -> None:
        self._watches, self._kept, self._accounts, self._holdings = watches, kept, accounts, holdings

    def of(self, context: Context) -> Mandate:
        """Return as whom objects go, and which; what no watch sees has been read by then.

        Raises: ApiError.
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
