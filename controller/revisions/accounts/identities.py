"""Recognizes a namespace or ServiceAccount that was replaced by another one under the same name.

A tenant leaves, its namespace is deleted, and another tenant gets a namespace and an account with the same names: a
bundle of the first tenant must not be installed there or read a Secret. So the UIDs of both are recorded in status
before the account is used, and checked before each use. A replacement between check and write goes unnoticed: a request
that impersonates an account cannot name its UID. Users who may change the BundleDeployment under the admission policies
accept the new UIDs by a change of the spec, or by an annotation that names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.status import AccountUsed
from api.v1alpha2.types import BundleDeployment
from controller.build.revision import Terms
from controller.revisions.accounts.account import Account, account_in, account_of


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
    what = f'spec.serviceAccountName: ServiceAccount "{account.namespace}/{account.name}" was deleted and recreated'
    return BundleError(Reason.SERVICE_ACCOUNT_REPLACED, f"{what}; {remedy}")


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
    """Whether a user has accepted these UIDs since. A deletion also changes the generation, and accepts nothing."""
    metadata, used = deployment.metadata, deployment.status.account
    if metadata.annotations.get(names.ACCEPTED_ACCOUNT) == str(found):
        return True
    if used is None or not _is_of(used, deployment, account) or metadata.deletion_timestamp:
        return False
    return metadata.generation > used.generation
