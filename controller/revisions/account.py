"""A ServiceAccount that a BundleDeployment acts as, by its name. Pure.

Which one is behind that name is identities.py's to say, and whether there is one, service_accounts.py's.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.v1alpha2.types import Spec
from controller.build.revision import Terms
from controller.kube.impersonation import User


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount; neither part is empty."""

    namespace: str
    name: str

    @property
    def user(self) -> User:
        """The user that it is."""
        return User.service_account(self.namespace, self.name)


def account_of(terms: Terms) -> Account | None:
    """Return as whom the objects of a revision are applied; None: as the controller."""
    return Account(terms.install_namespace, terms.service_account_name) if terms.service_account_name else None


def account_in(spec: Spec) -> Account | None:
    """Return the account that a spec names; None: the controller's own."""
    return Account(spec.install_namespace or "", spec.service_account_name) if spec.service_account_name else None
