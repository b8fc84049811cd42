"""As whom a BundleDeployment's objects are applied and its Secrets read, and whether that account is there.

The spec names the account, else the administrator does by option; content never does (DESIGN, sections 2 and 8). Where
an account is demanded and none is named, nothing is written: an empty target would mean the controller itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, Spec
from controller.kube.client import ApiError, Client, User
from controller.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from controller.observe.grants import GrantWatches
from controller.observe.named import NamedWatches, WatchedObject
from controller.revision import Terms

_OF_ABSENCE = frozenset({Reason.SERVICE_ACCOUNT_NOT_FOUND, Reason.NAMESPACE_NOT_FOUND})
# What another right may mend.
OF_RIGHTS = frozenset({Reason.FORBIDDEN, Reason.SECRET_FORBIDDEN})
RIGHTS_SECONDS = 0.5
"""How long the API server may go by old rights; a Role and its binding, made one after the other, are one pass."""


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


def tenant_of(deployment: BundleDeployment) -> str:
    """Return who shares with whom what there is for one tenant, as a message names it.

    All BundleDeployments of a namespace that act as an account are one tenant; each of those with the controller's
    rights, which no tenant has, is its own.
    """
    account = account_in(deployment.spec)
    return f'namespace "{account.namespace}"' if account else f'BundleDeployment "{deployment.metadata.name}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPolicy:
    """What the administrator says about accounts."""

    required: bool = False
    """Whether a spec has to name one."""
    default: str = ""
    """Of a spec that names none: the ServiceAccount of this name in its install namespace."""

    def complete(self, deployment: BundleDeployment) -> BundleDeployment:
        """Return a BundleDeployment with the account that counts."""
        spec = deployment.spec
        if spec.service_account_name or not (self.default and spec.install_namespace):
            return deployment
        completed = spec.model_copy(update={"service_account_name": self.default})
        return deployment.model_copy(update={"spec": completed})

    def check(self, spec: Spec) -> None:
        """Refuse a completed spec that has no account where one is demanded, or no namespace to find it in.

        Raises: BundleError (InsecureRefused).
        """
        if not (spec.service_account_name or self.demands_one):
            return
        if not spec.install_namespace:
            name = spec.service_account_name or self.default
            whose = f'the ServiceAccount "{name}" in it' if name else "a ServiceAccount in it"
            message = f"spec.installNamespace: is required, since objects are applied as {whose}; set it"
            raise BundleError(Reason.INSECURE_REFUSED, message)
        if not spec.service_account_name:
            message = (
                "spec.serviceAccountName: is required by the administrator; name a ServiceAccount in "
                f'"{spec.install_namespace}"'
            )
            raise BundleError(Reason.INSECURE_REFUSED, message)

    def allows(self, terms: Terms) -> bool:
        """Whether the objects of a revision may be written as its terms say."""
        return bool(terms.service_account_name) or not self.demands_one

    @property
    def demands_one(self) -> bool:
        """Whether nothing may be applied as the controller."""
        return self.required or bool(self.default)


def find_absence(client: Client, account: Account) -> BundleError | None:
    """Return what is missing for an account to act: itself, or its namespace; None if nothing is, or none may look.

    The API server would let one act as an account that does not exist, and have the rights that are bound to its name.

    Raises: ApiError.
    """
    if _exists(client, SERVICE_ACCOUNTS.path(account.namespace, account.name)):
        return None
    if not _exists(client, NAMESPACES.path(name=account.namespace)):
        message = (
            f'spec.installNamespace: namespace "{account.namespace}" does not exist; create it, and the '
            f'ServiceAccount "{account.name}" in it'
        )
        return BundleError(Reason.NAMESPACE_NOT_FOUND, message)
    what = f'spec.serviceAccountName: ServiceAccount "{account.namespace}/{account.name}"'
    return BundleError(Reason.SERVICE_ACCOUNT_NOT_FOUND, f"{what} does not exist; create it, or correct its name")


def _exists(client: Client, path: str) -> bool:
    try:
        client.get(path, metadata=True)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        if error.status != HTTPStatus.FORBIDDEN:
            raise
    return True


class Accounts:
    """Looks whether accounts are there, and watches for what a BundleDeployment lacks of its own. Thread-safe.

    Args:
        client: looks as the controller.
        policy: of the administrator.
        absent: watches accounts that are missing.
        grants: watches for rights that are missing.
    """

    def __init__(self, client: Client, policy: AccountPolicy, absent: NamedWatches, grants: GrantWatches) -> None:
        self._client, self.policy = client, policy
        self._absent, self._grants = absent, grants
        self._missing: dict[str, frozenset[Account]] = {}
        """By BundleDeployment, each of which has one pass at a time."""

    def absence(self, name: str, account: Account | None) -> BundleError | None:
        """Return why the account of a BundleDeployment cannot act; while it is missing it is watched.

        Raises: ApiError.
        """
        if account is None:
            return None
        missing = find_absence(self._client, account)
        # One pass may act as two: what was applied last is repaired as another than its upgrade waits for.
        others = self._missing.get(name, frozenset()) - {account}
        self._watch(name, others | {account} if missing else others)
        return missing

    def note(self, name: str, errors: Iterable[BundleError | None]) -> None:
        """Watch for what a BundleDeployment fails for want of, rights and accounts, and for nothing else any more."""
        reasons = {error.reason for error in errors if error}
        self._grants.want(name, lacks=bool(reasons & OF_RIGHTS))
        if not reasons & _OF_ABSENCE:
            self._watch(name, frozenset())

    def forget(self, name: str) -> None:
        """Watch nothing for a BundleDeployment any more."""
        self.note(name, ())

    def _watch(self, name: str, missing: frozenset[Account]) -> None:
        self._missing.pop(name, None)
        if missing:
            self._missing[name] = missing
        watched = (WatchedObject(each.namespace, each.name, resource=SERVICE_ACCOUNTS) for each in missing)
        self._absent.watch(name, dict.fromkeys(watched, ""))
