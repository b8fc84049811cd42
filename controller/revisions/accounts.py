"""The ServiceAccount as which the objects of a BundleDeployment are applied and its Secrets read (README.md, rule 10).

The spec names the account, else the administrator by option; content never does. If an account is required and none is
named, nothing is written: no account would mean the controller itself.

A tenant leaves, its namespace is deleted, and another tenant gets a namespace and an account with the same names: a
bundle of the first tenant must not be installed there or read a Secret. So the UIDs of both are recorded in status
before the account is used, and checked before each use. A replacement between check and write goes unnoticed: a request
that impersonates an account cannot name its UID. Users who may change the BundleDeployment under the admission policies
accept the new UIDs by a change of the spec, or by an annotation that names them.

Not here: what the account may do (apply/rights.py), and when it is recorded in status (reconcile/reconciler.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import OF_ABSENCE, Reason
from rukpak.api.v1alpha2.status import AccountUsed
from rukpak.api.v1alpha2.types import BundleDeployment, Spec
from rukpak.controller.building.revision import Terms
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.configuration import User
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from rukpak.controller.observe.following import ObjectFollower, ObjectReference, Topic
from rukpak.controller.sharing import share_of_accounts

# Failures that other RBAC rules may resolve.
OF_RIGHTS = frozenset({Reason.FORBIDDEN, Reason.SECRET_FORBIDDEN, Reason.CONFIG_FORBIDDEN})
Seen = Callable[[ObjectReference, str | None], None]
"""Called with each object that is read, and its resourceVersion; empty: it does not exist; None: it never changes."""
RIGHTS_SECONDS = 0.5
"""How long the API server may use outdated RBAC rules; also joins a Role and its binding into one pass."""


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount; neither part is empty."""

    namespace: str
    name: str

    @property
    def user(self) -> User:
        """The user name that the API server knows it by."""
        return User.service_account(self.namespace, self.name)

    @property
    def place(self) -> str:
        """How messages about it begin."""
        return f'spec.serviceAccountName: ServiceAccount "{self.namespace}/{self.name}"'


def account_of(terms: Terms) -> Account | None:
    """Return the account that applies the objects of a revision; None: the controller."""
    return Account(terms.install_namespace, terms.service_account_name) if terms.service_account_name else None


def account_in(spec: Spec) -> Account | None:
    """Return the account that a spec names; None: the controller."""
    return Account(spec.install_namespace or "", spec.service_account_name) if spec.service_account_name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The UIDs of a namespace and of a ServiceAccount in it."""

    namespace: str
    account: str

    def __str__(self) -> str:
        """Return the value of the annotation that accepts it."""
        return f"{self.namespace}/{self.account}"


def judge(
    deployment: BundleDeployment, account: Account, found: Identity, kept: Iterable[Terms] = ()
) -> BundleError | None:
    """Return why an account may not be used: it is not the one that was used first.

    Args:
        deployment: that uses it.
        account: by its name.
        found: its current identity.
        kept: terms of kept revisions, which record it if status does not.
    """
    known = _known(deployment, account, kept)
    if known is None or known == found or _is_accepted(deployment, account, found):
        return None
    remedy = (
        "the controller no longer acts as this account; if its new owner wants this bundle, change the spec or set the "
        f'annotation {names.ACCEPTED_ACCOUNT} to "{found}"; otherwise delete the BundleDeployment'
    )
    if known.namespace != found.namespace:
        what = f'spec.installNamespace: namespace "{account.namespace}" was deleted and recreated'
        return BundleError(Reason.NAMESPACE_REPLACED, f"{what}; {remedy}")
    return BundleError(Reason.SERVICE_ACCOUNT_REPLACED, f"{account.place} was deleted and recreated; {remedy}")


def is_up_to_date(deployment: BundleDeployment) -> bool:
    """Whether status records the account that this spec uses, and no annotation accepts another one."""
    account, used = account_in(deployment.spec), deployment.status.account
    if account is None or used is None:
        return account is None
    asked = deployment.metadata.annotations.get(names.ACCEPTED_ACCOUNT)
    is_same = used.generation == deployment.metadata.generation and _is_of(used, deployment, account)
    return is_same and asked in (None, str(_identity(used)))


def record(deployment: BundleDeployment, account: Account, found: Identity) -> AccountUsed:
    """Return what status records of an account that is used."""
    return AccountUsed(
        service_account_name=account.name,
        namespace_uid=found.namespace,
        service_account_uid=found.account,
        generation=deployment.metadata.generation,
    )


def account_to_keep(deployment: BundleDeployment, kept: Terms | None) -> Mapping[str, str] | None:
    """Return what the terms of a revision record of the account, since a status may be lost."""
    account, used = account_in(deployment.spec), deployment.status.account
    if account and used and _is_of(used, deployment, account):
        return {
            "deploymentUID": deployment.metadata.uid,
            "namespaceUID": used.namespace_uid,
            "serviceAccountUID": used.service_account_uid,
        }
    return kept.account if kept and account and account_of(kept) == account else None


def _known(deployment: BundleDeployment, account: Account, kept: Iterable[Terms]) -> Identity | None:
    used = deployment.status.account
    if used and _is_of(used, deployment, account):
        return _identity(used)
    for terms in kept:
        about = terms.account or {}
        if account_of(terms) == account and about.get("deploymentUID") == deployment.metadata.uid:
            return Identity(namespace=about["namespaceUID"], account=about["serviceAccountUID"])
    return None


def _is_of(used: AccountUsed, deployment: BundleDeployment, account: Account) -> bool:
    namespace = deployment.spec.install_namespace or deployment.status.install_namespace
    return (namespace, used.service_account_name) == (account.namespace, account.name)


def _identity(used: AccountUsed) -> Identity:
    return Identity(namespace=used.namespace_uid, account=used.service_account_uid)


def _is_accepted(deployment: BundleDeployment, account: Account, found: Identity) -> bool:
    # A deletion also changes the generation, and accepts nothing.
    metadata, used = deployment.metadata, deployment.status.account
    if metadata.annotations.get(names.ACCEPTED_ACCOUNT) == str(found):
        return True
    if used is None or not _is_of(used, deployment, account) or metadata.deletion_timestamp:
        return False
    return metadata.generation > used.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPolicy:
    """The administrator's options for accounts."""

    required: bool = False
    """Whether a spec must name one."""
    default: str = ""
    """The name of the ServiceAccount, in the install namespace, of a spec that names none."""

    def complete(self, deployment: BundleDeployment) -> BundleDeployment:
        """Return a BundleDeployment with its default account, if its spec names none."""
        spec = deployment.spec
        if spec.service_account_name or not (self.default and spec.install_namespace):
            return deployment
        completed = spec.model_copy(update={"service_account_name": self.default})
        return deployment.model_copy(update={"spec": completed})

    def check(self, spec: Spec) -> None:
        """Refuse a completed spec without a required account, or without the namespace of its account.

        Raises: BundleError (InsecureRefused).
        """
        if not (spec.service_account_name or self.requires_one):
            return
        if not spec.install_namespace:
            name = spec.service_account_name or self.default
            whose = f'ServiceAccount "{name}"' if name else "a ServiceAccount"
            message = f"spec.installNamespace: required to apply objects as {whose}; set it to the account's namespace"
            raise BundleError(Reason.INSECURE_REFUSED, message)
        if not spec.service_account_name:
            message = (
                "spec.serviceAccountName: required by the administrator; set it to a ServiceAccount in namespace "
                f'"{spec.install_namespace}"'
            )
            raise BundleError(Reason.INSECURE_REFUSED, message)

    def allows(self, terms: Terms) -> bool:
        """Whether the objects of a revision may be written under its terms."""
        return bool(terms.service_account_name) or not self.requires_one

    @property
    def requires_one(self) -> bool:
        """Whether the controller may apply nothing as itself."""
        return self.required or bool(self.default)


def find_absence(client: Client, account: Account) -> BundleError:
    """Return why an account that was not found is missing: its namespace may be, too, as far as the client may look.

    The API server allows to impersonate an account that does not exist, with the rights that are bound to its name.

    Raises: ApiError.
    """
    try:
        has_namespace = bool(_find_uid(client, NAMESPACES.path(name=account.namespace)))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        has_namespace = True
    return _absent(account, has_namespace=has_namespace)


def _absent(account: Account, *, has_namespace: bool = True) -> BundleError:
    if not has_namespace:
        problem = f'namespace "{account.namespace}" does not exist'
        remedy = f'create it and the ServiceAccount "{account.name}" in it'
        return BundleError(Reason.NAMESPACE_NOT_FOUND, f"spec.installNamespace: {problem}; {remedy}")
    problem = f"{account.place} does not exist; create it or correct the name"
    return BundleError(Reason.SERVICE_ACCOUNT_NOT_FOUND, problem)


def identify(client: Client, account: Account) -> Identity:
    """Return the current UIDs of an account and its namespace.

    Raises: BundleError (ServiceAccountNotFound, NamespaceNotFound; Forbidden if the controller may not look), ApiError.
    """
    try:
        namespace = _find_uid(client, NAMESPACES.path(name=account.namespace))
        found = _find_uid(client, SERVICE_ACCOUNTS.path(account.namespace, account.name))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        message = f"the controller cannot read the account that it acts as; grant it the rules of config/rbac: {error}"
        raise BundleError(Reason.FORBIDDEN, message) from None
    if namespace and found:
        return Identity(namespace=namespace, account=found)
    raise _absent(account, has_namespace=bool(namespace))


def _find_uid(client: Client, path: str) -> str:
    found = attempt(lambda: client.get(path, metadata=True), HTTPStatus.NOT_FOUND)
    uid: str = found.value["metadata"]["uid"] if found else ""
    return uid


def check_before_reading(client: Client, deployment: BundleDeployment, account: Account | None, seen: Seen) -> None:
    """Refuse an account that is absent, not recorded yet, or not the recorded one, before something is read as it.

    Args:
        client: of the controller.
        deployment: that uses the account.
        account: None: nothing is read as an account, and nothing is refused.
        seen: learns of an account that is absent.

    Raises: BundleError (ServiceAccountNotFound, NamespaceNotFound, ServiceAccountReplaced, NamespaceReplaced; Forbidden
        if the controller may not look), ApiError.
    """
    if account is None:
        return
    try:
        found = identify(client, account)
        # Created while sources are resolved: the next pass records it.
        refusal = judge(deployment, account, found) if deployment.status.account else _absent(account)
    except BundleError as error:
        refusal = error
    if refusal and refusal.reason in OF_ABSENCE:
        seen(watched_account(account), "")
    if refusal:
        raise refusal


def watched_account(account: Account) -> ObjectReference:
    """Return what to follow to hear of changes of an account."""
    return ObjectReference(account.namespace, account.name, resource=SERVICE_ACCOUNTS)


def translate_refusal(
    error: ApiError,
    account: Account | None,
    what: str,
    *,
    missing: Reason = Reason.SECRET_NOT_FOUND,
    verbs: str = "get",
) -> BundleError:
    """Return why an object cannot be read, for a user.

    Args:
        error: of the read.
        account: that read it; None: the controller.
        what: names the object, and starts the message.
        missing: the reason if it does not exist.
        verbs: that the account needs.
    """
    if error.status == HTTPStatus.NOT_FOUND:
        return BundleError(missing, f"{what} does not exist; create it or correct the name")
    if error.status == HTTPStatus.FORBIDDEN:
        whom = f'"{account.user.name}"' if account else "the controller"
        return BundleError(Reason.SECRET_FORBIDDEN, f"{what} cannot be read by {whom}; grant {verbs} on it")
    problem = f"the API server answered with status {error.status}" if error.status else "the API server did not answer"
    message = f"{what} cannot be read: {problem}; will be retried"
    return BundleError(Reason.API_UNAVAILABLE, message, retry_after=error.retry_after)


class Accounts:
    """Checks accounts, and follows the accounts and rights that BundleDeployments lack. Thread-safe.

    Args:
        client: reads as the controller.
        policy: of the administrator.
        follower: of missing accounts and rights.
    """

    def __init__(self, client: Client, policy: AccountPolicy, follower: ObjectFollower) -> None:
        self._client, self.policy, self._follower = client, policy, follower

    def identify(self, account: Account) -> Identity:
        """Return the current UIDs of an account and its namespace.

        Raises: BundleError, ApiError, as the function `identify`.
        """
        return identify(self._client, account)

    def hindrance(
        self, deployment: BundleDeployment, account: Account | None, kept: Iterable[Terms] = ()
    ) -> BundleError | None:
        """Return why the controller may not act as an account; watches for the account while it is missing.

        Args:
            deployment: that uses the account.
            account: None: the controller itself.
            kept: terms of revisions that may record its identity.

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
        # One pass may need two: the one that repairs what is installed, and the missing one of an upgrade.
        own = {watched_account(account)}
        others = {*self._follower.followed(name, Topic.ACCOUNTS)} - own
        self._watch(name, others | own if is_missing else others)

    def note(self, name: str, errors: Iterable[BundleError | None]) -> None:
        """Watch for the rights and accounts that these errors say are missing, and for nothing else."""
        reasons = {error.reason for error in errors if error}
        self._follower.follow_rights(name, lacks=bool(reasons & OF_RIGHTS))
        if not reasons & OF_ABSENCE:
            self._watch(name, ())

    def _watch(self, name: str, missing: Collection[ObjectReference]) -> None:
        share = share_of_accounts(min((each.namespace for each in missing), default=""))
        self._follower.follow(name, Topic.ACCOUNTS, dict.fromkeys(missing, ""), share=share)
