"""Recording in status which account a BundleDeployment uses, before it is used (revisions/identities.py)."""

from __future__ import annotations

from api.errors import BundleError
from api.v1alpha2.status import AccountUsed
from api.v1alpha2.types import BundleDeployment
from controller.reconcile.holdings import Holdings
from controller.reconcile.state import Memory
from controller.revisions.account import account_in
from controller.revisions.identities import is_up_to_date, judge, record
from controller.revisions.service_accounts import OF_ABSENCE, Accounts
from controller.status.writer import Publisher


class Registrar:
    """Thread-safe."""

    def __init__(self, accounts: Accounts, holdings: Holdings, publisher: Publisher) -> None:
        self._accounts, self._holdings, self._publisher = accounts, holdings, publisher

    def register(self, deployment: BundleDeployment, memory: Memory) -> tuple[BundleDeployment, BundleError | None]:
        """Look up the account of a spec where status does not say yet that this spec uses it.

        Returns: the BundleDeployment with what was recorded, and why the account may not be used.
        Raises: ApiError.
        """
        account = account_in(deployment.spec)
        if account is None or not account.namespace or is_up_to_date(deployment):
            return deployment, None
        used = deployment.status.account
        try:
            found = self._accounts.identify(account)
        except BundleError as error:
            if error.reason not in OF_ABSENCE:
                return deployment, error
            return self._note_generation(deployment), None  # that it is missing is told when it is needed
        kept = [] if used else self._holdings.terms(deployment, memory)
        if refusal := judge(deployment, account, found, kept):
            return deployment, refusal
        return self._write(deployment, record(deployment, account, found)), None

    def _note_generation(self, deployment: BundleDeployment) -> BundleDeployment:
        """Note that this spec was there before whoever comes next under that name: it accepts nobody."""
        used = deployment.status.account
        if used is None:
            return deployment
        return self._write(deployment, used.model_copy(update={"generation": deployment.metadata.generation}))

    def _write(self, deployment: BundleDeployment, used: AccountUsed) -> BundleDeployment:
        if used == deployment.status.account:
            return deployment
        return self._publisher.write_status(deployment, deployment.status.model_copy(update={"account": used}))
