"""A ServiceAccount that a BundleDeployment acts as, by its name. Pure.

Not here: its UID (identities.py), and whether it exists (service_accounts.py).
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
        """The user name that the API server knows it by."""
        return User.service_account(self.namespace, self.name)


def account_of(terms: Terms) -> Account | None:
    """Return the account that applies the objects of a revision; None: the controller."""
    return Account(terms.install_namespace, terms.service_account_name) if terms.service_account_name else None


def account_in(spec: Spec) -> Account | None:
    """Return the account that a spec names; None: the controller."""
    return Account(spec.install_namespace or "", spec.service_account_name) if spec.service_account_name else None
