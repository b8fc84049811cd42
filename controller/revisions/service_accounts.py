"""As whom a BundleDeployment's objects are applied and its Secrets read: whether that account is there, and the same.

The spec names the account, else the administrator does by option; content never does. Where
an account is demanded and none is named, nothing is written: an empty target would mean the controller itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, Spec
from controller.build.revision import Terms
from controller.kube.client import ApiError, Client
from controller.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from controller.observe.grants import GrantWatches
from controller.observe.named import NamedWatches, WatchedObject
from controller.revisions.account import Account
from controller.revisions.identities import Identity, judge
from controller.sharing.shares import share_of_accounts

OF_ABSENCE = frozenset({Reason.SERVICE_ACCOUNT_NOT_FOUND, Reason.NAMESPACE_NOT_FOUND})
# What another right may mend.
OF_RIGHTS = frozenset({Reason.FORBIDDEN, Reason.SECRET_FORBIDDEN})
RIGHTS_SECONDS = 0.5
"""How long the API server may go by old rights; a Role and its binding, made one after the other, are one pass."""


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
        return _nowhere(account)
    return _absent(account)


def _nowhere(account: Account) -> BundleError:
    message = (
        f'spec.installNamespace: namespace "{account.namespace}" does not exist; create it, and the ServiceAccount '
        f'"{account.name}" in it'
    )
    return BundleError(Reason.NAMESPACE_NOT_FOUND, message)


def _absent(account: Account) -> BundleError:
    what = f'spec.serviceAccountName: ServiceAccount "{account.namespace}/{account.name}"'
    return BundleError(Reason.SERVICE_ACCOUNT_NOT_FOUND, f"{what} does not exist; create it, or correct its name")


def _exists(client: Client, path: str) -> bool:
    try:
        return bool(_find_uid(client, path))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
    return True


def identify(client: Client, account: Account) -> Identity:
    """Return which namespace and ServiceAccount an account is now.

    Raises: BundleError (ServiceAccountNotFound, NamespaceNotFound; Forbidden where none may look), ApiError.
    """
    try:
        namespace = _find_uid(client, NAMESPACES.path(name=account.namespace))
        found = _find_uid(client, SERVICE_ACCOUNTS.path(account.namespace, account.name))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        message = f"the controller cannot look up the account that it acts as; grant it what config/ does: {error}"
        raise BundleError(Reason.FORBIDDEN, message) from None
    if namespace and found:
        return Identity(namespace=namespace, account=found)
    raise _absent(account) if namespace else _nowhere(account)


def _find_uid(client: Client, path: str) -> str:
    """Return the UID of an object; nothing if there is none."""
    try:
        uid: str = client.get(path, metadata=True).value["metadata"]["uid"]
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return ""
    return uid


def check_identity(client: Client, deployment: BundleDeployment, account: Account) -> None:
    """Refuse an account that is not there, was not recorded before its use, or is another than what was recorded.

    Raises: BundleError (ServiceAccountNotFound, NamespaceNotFound, ServiceAccountReplaced, NamespaceReplaced; Forbidden
        where none may look), ApiError.
    """
    found = identify(client, account)
    if deployment.status.account is None:  # it came while the sources were asked: the next pass records it
        raise _absent(account)
    if refusal := judge(deployment, account, found):
        raise refusal


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

    def identify(self, account: Account) -> Identity:
        """Return which namespace and ServiceAccount an account is now; see `identify`."""
        return identify(self._client, account)

    def hindrance(
        self, deployment: BundleDeployment, account: Account | None, kept: Iterable[Terms] = ()
    ) -> BundleError | None:
        """Return why the account of a BundleDeployment may not act; while it is missing it is watched.

        Args:
            deployment: for which it acts.
            account: None: the controller itself.
            kept: terms of revisions that may know which one it was.

        Raises: ApiError.
        """
        if account is None:
            return None
        name = deployment.metadata.name
        try:
            found = identify(self._client, account)
        except BundleError as error:
            self._note_missing(name, account, is_missing=error.reason in OF_ABSENCE)
            return error
        self._note_missing(name, account, is_missing=False)
        return judge(deployment, account, found, kept)

    def _note_missing(self, name: str, account: Account, *, is_missing: bool) -> None:
        # One pass may act as two: what was applied last is repaired as another than its upgrade waits for.
        others = self._missing.get(name, frozenset()) - {account}
        self._watch(name, others | {account} if is_missing else others)

    def note(self, name: str, errors: Iterable[BundleError | None]) -> None:
        """Watch for what a BundleDeployment fails for want of, rights and accounts, and for nothing else any more."""
        reasons = {error.reason for error in errors if error}
        self._grants.update(name, lacks=bool(reasons & OF_RIGHTS))
        if not reasons & OF_ABSENCE:
            self._watch(name, frozenset())

    def forget(self, name: str) -> None:
        """Watch nothing for a BundleDeployment any more."""
        self.note(name, ())

    def _watch(self, name: str, missing: frozenset[Account]) -> None:
        self._missing.pop(name, None)
        if missing:
            self._missing[name] = missing
        watched = (WatchedObject(each.namespace, each.name, resource=SERVICE_ACCOUNTS) for each in missing)
        share = share_of_accounts(min((each.namespace for each in missing), default=""))
        self._absent.watch(name, dict.fromkeys(watched, ""), share=share)
