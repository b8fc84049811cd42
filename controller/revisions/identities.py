"""Which namespace and ServiceAccount an account is: under the same names there may be others later.

A tenant leaves, the namespace is deleted, and somebody else gets one of that name with an account of that name: a
bundle of the first must not be installed there, nor read a Secret. So the UIDs of both are recorded in status before
the account is used, and looked up again before each use. Between looking and writing a namespace may still be replaced:
a request that acts as an account cannot say which UID it means. Who may change the BundleDeployment, as the policies
say, can accept the new ones: by a change of the spec, or by an annotation that names the UIDs.
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
from controller.revisions.account import Account, account_in, account_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The UIDs of a namespace and of a ServiceAccount in it."""

    namespace: str
    account: str

    def __str__(self) -> str:
        """Return it as the annotation has it that accepts it."""
        return f"{self.namespace}/{self.account}"


def judge(
    deployment: BundleDeployment, account: Account, found: Identity, kept: Iterable[Terms] = ()
) -> BundleError | None:
    """Return why an account may not be used: it is another than the one that was used first.

    Args:
        deployment: for which it is used.
        account: by its name.
        found: which one it is now.
        kept: terms of the revisions that are kept, which know it where status does not.
    """
    known = _known(deployment, account, kept)
    if known is None or known == found or _is_accepted(deployment, account, found):
        return None
    remedy = (
        "nothing is done as that account; if who owns it now wants this bundle, change the spec, or set the annotation "
        f'{names.ACCEPTED_ACCOUNT} to "{found}"; else delete the BundleDeployment'
    )
    if known.namespace != found.namespace:
        what = f'spec.installNamespace: namespace "{account.namespace}" was deleted and made again'
        return BundleError(Reason.NAMESPACE_REPLACED, f"{what}; {remedy}")
    what = f'spec.serviceAccountName: ServiceAccount "{account.namespace}/{account.name}" was deleted and made again'
    return BundleError(Reason.SERVICE_ACCOUNT_REPLACED, f"{what}; {remedy}")


def is_up_to_date(deployment: BundleDeployment) -> bool:
    """Whether status says which account this very spec uses, and nobody asks for another to be accepted."""
    account, used = account_in(deployment.spec), deployment.status.account
    if account is None or used is None:
        return account is None
    asked = deployment.metadata.annotations.get(names.ACCEPTED_ACCOUNT)
    is_same = used.generation == deployment.metadata.generation and _is_of(used, deployment, account)
    return is_same and asked in (None, str(_identity(used)))


def record(deployment: BundleDeployment, account: Account, found: Identity) -> AccountUsed:
    """Return what status says of an account that is used."""
    return AccountUsed(
        service_account_name=account.name,
        namespace_uid=found.namespace,
        service_account_uid=found.account,
        generation=deployment.metadata.generation,
    )


def account_to_keep(deployment: BundleDeployment, kept: Terms | None) -> Mapping[str, str] | None:
    """Return what the terms of a revision say of the account that a spec names; a status may be lost."""
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
    """Whether somebody has said since that these are meant. A deletion makes a generation, too, and says nothing."""
    metadata, used = deployment.metadata, deployment.status.account
    if metadata.annotations.get(names.ACCEPTED_ACCOUNT) == str(found):
        return True
    if used is None or not _is_of(used, deployment, account) or metadata.deletion_timestamp:
        return False
    return metadata.generation > used.generation
