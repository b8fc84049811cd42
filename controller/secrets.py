"""Reading the Secrets that sources name: as whom, from which namespaces, and what a failure means (DESIGN, section 2).

With `spec.serviceAccountName` a Secret is read as that account, so that a tenant cannot use what it may not read;
without one only from the namespaces that the administrator allows. Values go to the source and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any

from api.errors import BundleError
from api.plugins import Credentials
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, SecretReference, Source
from controller.kube.client import ApiError, Client, User
from controller.kube.resources import SECRETS, Resource
from controller.observe.secrets import WatchedSecret
from controller.sources.credentials import parse_pull_secrets, parse_secret

ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)

Seen = Callable[[WatchedSecret, str], None]
"""Told which Secret is read, and its resourceVersion; empty: there was nothing to read."""


class SecretReader:
    """Thread-safe; a Secret is read when it is used and not kept.

    Args:
        namespaces: where Secrets may be without an account to read them as, besides the install namespace.
    """

    def __init__(self, client: Client, namespaces: Collection[str]) -> None:
        self._client, self._namespaces = client, frozenset(namespaces)

    def credentials(self, deployment: BundleDeployment, index: int, source: Source, seen: Seen) -> Credentials | None:
        """Return what the Secret of a source says; None if it has none, nor pull secrets of its account.

        Raises: BundleError (SecretNotFound, SecretInvalid, SecretForbidden, ServiceAccountNotFound, APIUnavailable).
        """
        path = f"spec.sources[{index}].{source.block}.auth"
        if source.secret:
            return parse_secret(self._read(deployment, source.secret, path, seen), source.kind, path)
        account = deployment.spec.service_account_name
        return self._pull_secrets(deployment, account, path, seen) if account and source.kind == "image" else None

    def _pull_secrets(self, deployment: BundleDeployment, account: str, path: str, seen: Seen) -> Credentials | None:
        """Return the credentials of an account's imagePullSecrets."""
        namespace = deployment.spec.install_namespace or ""
        manifest = self._get_account(namespace, account)
        references = [
            SecretReference(namespace=namespace, name=reference["name"])
            for reference in manifest.get("imagePullSecrets") or []
            if reference.get("name")
        ]
        secrets = [self._read(deployment, reference, path, seen) for reference in references]
        return parse_pull_secrets(secrets, path) if secrets else None

    def _read(self, deployment: BundleDeployment, reference: SecretReference, path: str, seen: Seen) -> dict[str, Any]:
        namespace = reference.namespace or deployment.spec.install_namespace or ""
        user = _reader_of(deployment)
        self._check_namespace(deployment, namespace, user, path)
        secret = WatchedSecret(namespace, reference.name, user.name if user else "")
        seen(secret, "")
        what = f'{path}: Secret "{namespace}/{reference.name}"'
        manifest = self._get(SECRETS.path(namespace, reference.name), user, what, Reason.SECRET_NOT_FOUND)
        seen(secret, manifest["metadata"]["resourceVersion"])
        return manifest

    def _check_namespace(self, deployment: BundleDeployment, namespace: str, user: User | None, path: str) -> None:
        if user is None and namespace not in {*self._namespaces, deployment.spec.install_namespace}:
            message = (
                f'{path}: Secrets of namespace "{namespace}" may not be used; put it into the install namespace, or '
                "let the administrator allow the namespace by --secret-namespaces"
            )
            raise BundleError(Reason.SECRET_FORBIDDEN, message)

    def _get_account(self, namespace: str, name: str) -> dict[str, Any]:
        what = f'spec.serviceAccountName: ServiceAccount "{namespace}/{name}"'
        return self._get(ACCOUNTS.path(namespace, name), None, what, Reason.SERVICE_ACCOUNT_NOT_FOUND)

    def _get(self, path: str, user: User | None, what: str, missing: Reason) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = self._client.get(path, user=user).value
        except ApiError as error:
            raise _translate(error, user, what, missing) from None
        return manifest


def _reader_of(deployment: BundleDeployment) -> User | None:
    """Return as whom the Secrets of a BundleDeployment are read; None: as the controller."""
    spec = deployment.spec
    if not spec.service_account_name:
        return None
    return User.service_account(spec.install_namespace or "", spec.service_account_name)


def _translate(error: ApiError, user: User | None, what: str, missing: Reason) -> BundleError:
    if error.status == HTTPStatus.NOT_FOUND:
        return BundleError(missing, f"{what} does not exist; create it, or correct its name")
    if error.status == HTTPStatus.FORBIDDEN:
        whom = f'"{user.name}"' if user else "the controller"
        return BundleError(Reason.SECRET_FORBIDDEN, f"{what} may not be read by {whom}; grant get on it")
    message = f"{what} cannot be read: the API server answers {error.status or 'nothing'}; it is tried again by itself"
    return BundleError(Reason.API_UNAVAILABLE, message, retry_after=error.retry_after)
