"""Reading the Secrets that sources name: as whom, from which namespaces, and what a failure means (DESIGN, section 2).

With `spec.serviceAccountName` a Secret is read as that account, so that a tenant cannot use what it may not read;
without one only from the namespaces that the administrator allows. Values go to the source and nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Any

from api.errors import BundleError
from api.plugins import Credentials
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, SecretReference, Source
from controller.kube.client import ApiError, Client, User
from controller.kube.resources import Resource
from controller.sources.credentials import parse_pull_secrets, parse_secret

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)


def reader_of(deployment: BundleDeployment) -> User | None:
    """Return as whom the Secrets of a BundleDeployment are read; None: as the controller."""
    spec = deployment.spec
    if not spec.service_account_name:
        return None
    return User.service_account(spec.install_namespace or "", spec.service_account_name)


class SecretReader:
    """Thread-safe; a Secret is read when it is used and not kept.

    Args:
        namespaces: where Secrets may be without an account to read them as, besides the install namespace.
    """

    def __init__(self, client: Client, namespaces: Collection[str]) -> None:
        self._client, self._namespaces = client, frozenset(namespaces)

    def credentials(self, deployment: BundleDeployment, index: int, source: Source) -> Credentials | None:
        """Return what the Secret of a source says; None if it has none, nor pull secrets of its account.

        Raises: BundleError (SecretNotFound, SecretInvalid, SecretForbidden, ServiceAccountNotFound, APIUnavailable).
        """
        path = f"spec.sources[{index}].{source.kind}.auth"
        if source.secret:
            return parse_secret(self._read(deployment, source.secret, path), source.kind, path)
        account = deployment.spec.service_account_name
        return self._pull_secrets(deployment, account, path) if account and source.kind == "image" else None

    def _pull_secrets(self, deployment: BundleDeployment, account: str, path: str) -> Credentials | None:
        """Return the credentials of an account's imagePullSecrets, as the kubelet uses them."""
        namespace = deployment.spec.install_namespace or ""
        manifest = self._get(ACCOUNTS.path(namespace, account), None, f"spec.serviceAccountName: {namespace}/{account}")
        references = [
            reference["name"] for reference in manifest.get("imagePullSecrets") or [] if reference.get("name")
        ]
        secrets = [self._read(deployment, SecretReference(namespace=namespace, name=name), path) for name in references]
        return parse_pull_secrets(secrets, path) if secrets else None

    def _read(self, deployment: BundleDeployment, reference: SecretReference, path: str) -> dict[str, Any]:
        spec = deployment.spec
        namespace = reference.namespace or spec.install_namespace or ""
        user = reader_of(deployment)
        if user is None and namespace not in {*self._namespaces, spec.install_namespace}:
            message = (
                f'{path}: Secrets of namespace "{namespace}" may not be used; put it into the install namespace, or '
                "let the administrator allow the namespace by --secret-namespaces"
            )
            raise BundleError(Reason.SECRET_FORBIDDEN, message)
        return self._get(SECRETS.path(namespace, reference.name), user, f"{path}: Secret {namespace}/{reference.name}")

    def _get(self, resource_path: str, user: User | None, what: str) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = self._client.get(resource_path, user=user).value
        except ApiError as error:
            is_account = "/serviceaccounts/" in resource_path
            if error.status == HTTPStatus.NOT_FOUND:
                reason = Reason.SERVICE_ACCOUNT_NOT_FOUND if is_account else Reason.SECRET_NOT_FOUND
                raise BundleError(reason, f"{what} does not exist; create it, or correct its name") from None
            if error.status == HTTPStatus.FORBIDDEN:
                whom = user.name if user else "the controller"
                raise BundleError(
                    Reason.SECRET_FORBIDDEN, f"{what} may not be read by {whom}; grant get on it"
                ) from None
            raise BundleError(
                Reason.API_UNAVAILABLE, f"{what} cannot be read: {error}", retry_after=error.retry_after
            ) from None
        return manifest
