"""Records in status which account a BundleDeployment uses, before it is used (revisions/accounts/identities.py)."""

from __future__ import annotations

from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.status import AccountUsed
from controller.reconcile.context import Context
from controller.reconcile.ownership.holdings import Holdings
from controller.revisions.accounts.identities import is_up_to_date, judge, record
from controller.revisions.accounts.service_accounts import OF_ABSENCE, Accounts
from controller.status.writer import StatusWriter


class Registrar:
    """Thread-safe."""

    def __init__(self, accounts: Accounts, holdings: Holdings, writer: StatusWriter) -> None:
        self._accounts, self._holdings, self._writer = accounts, holdings, writer

    def register(self, context: Context) -> tuple[Context, BundleError | None]:
        """Record the account of a spec, unless status records it already.

        Returns: the context with the new status, and why the account may not be used.
        Raises: ApiError.
        """
        account = context.account
        if account is None or not account.namespace or is_up_to_date(context.deployment):
            return context, None
        used = context.status.account
        try:
            found = self._accounts.identify(account)
        except BundleError as error:
            if error.reason not in OF_ABSENCE:
                return context, error
            return self._note_generation(context), None  # reported when it is needed
        kept = [] if used else self._holdings.terms(context)
        if refusal := judge(context.deployment, account, found, kept):
            return context, refusal
        return self._write(context, record(context.deployment, account, found)), None

    def _note_generation(self, context: Context) -> Context:
        """Record that this spec is older than the next account of that name, and so does not accept it."""
        used = context.status.account
        if used is None:
            return context
        return self._write(context, used.model_copy(update={"generation": context.metadata.generation}))

    def _write(self, context: Context, used: AccountUsed) -> Context:
        if used == context.status.account:
            return context
        status = context.status.model_copy(update={"account": used})
        return replace(context, deployment=self._writer.write_status(context.deployment, status))
