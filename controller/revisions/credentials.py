"""Reads the Secrets and ConfigMaps that sources name: as which account, from where, and what failures mean.

With `spec.serviceAccountName` a Secret is read as that account, so that a tenant cannot use a Secret that it may not
read; without one only in namespaces that the administrator allows. Values are passed to the source and nowhere else;
which Secrets they are from is passed on by UID and version (`Credentials.identity`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from api.errors import BundleError
from api.plugins import Credentials, LocalContent
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, SecretReference, Source
from controller.content.digests import digest_of_json
from controller.kube.client import ApiError, Client
from controller.kube.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from controller.observe.following import WatchedObject
from controller.revisions.accounts import (
    Account,
    Seen,
    account_in,
    check_before_reading,
    find_absence,
    translate_refusal,
    watched_account,
)
from controller.sources.chart_registry import chart_reference
from controller.sources.credentials import find_credentials, parse_pull_secrets, parse_secret
from controller.sources.image.reference import find_endpoint, parse_reference

SeenContent = Callable[[WatchedObject, str | None], None]
"""Called with an object that is read, and its resourceVersion; empty: it does not exist; None: it never changes."""
_NO_MIRRORS: Mapping[str, str] = MappingProxyType({})


def read_config_map(
    client: Client, deployment: BundleDeployment, account: Account | None, *, name: str, place: str, seen: SeenContent
) -> LocalContent:
    """Return the content of a ConfigMap in the install namespace.

    Args:
        client: of the controller, or of the user of a command.
        deployment: with an install namespace.
        account: to read as; None: the user of the client.
        name: of the ConfigMap.
        place: starts messages.
        seen: gets what was read.

    Raises: BundleError (NotFound, SecretForbidden, ContentRejected, ServiceAccountNotFound and its kin,
        APIUnavailable).
    """
    namespace = deployment.spec.install_namespace or ""
    watched = WatchedObject(namespace, name, account.user.name if account else "", CONFIG_MAPS)
    what = f'{place}: ConfigMap "{namespace}/{name}"'
    try:
        if account:
            check_before_reading(client, deployment, account, seen)
        manifest = client.acting_as(account.user if account else None).get(CONFIG_MAPS.path(namespace, name)).value
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            seen(watched, "")
        missing, verbs = Reason.NOT_FOUND, "get, list and watch"
        raise translate_refusal(error, account, what, missing=missing, verbs=verbs) from None
    seen(watched, None if manifest.get("immutable") else manifest["metadata"]["resourceVersion"])
    return LocalContent(files=_files_of(manifest, what), annotations=manifest["metadata"].get("annotations") or {})


def _files_of(manifest: dict[str, Any], what: str) -> dict[str, bytes]:
    texts = {key: text.encode("utf-8", "surrogatepass") for key, text in (manifest.get("data") or {}).items()}
    try:
        binary = {key: base64.b64decode(data) for key, data in (manifest.get("binaryData") or {}).items()}
    except (binascii.Error, ValueError):
        raise BundleError(Reason.CONTENT_REJECTED, f"{what}: binaryData is not base64; correct it") from None
    return texts | binary


class SecretReader:
    """Reads Secrets when they are used, and keeps none. Thread-safe.

    Args:
        namespaces: where a BundleDeployment without an account may use Secrets, in addition to its install namespace.
            None: the command line, which reads as its user.
        mirrors: of registries, by host: pull Secrets may be for these.
    """

    def __init__(
        self, client: Client, namespaces: Collection[str] | None, mirrors: Mapping[str, str] = _NO_MIRRORS
    ) -> None:
        self._client, self._namespaces = client, None if namespaces is None else frozenset(namespaces)
        self._mirrors = mirrors

    def credentials(self, deployment: BundleDeployment, index: int, source: Source, seen: Seen) -> Credentials | None:
        """Return the credentials of a source, from its Secret or the imagePullSecrets of its account; None without any.

        Raises: BundleError (SecretNotFound, SecretInvalid, SecretForbidden, ServiceAccountNotFound, APIUnavailable).
        """
        path = f"spec.sources[{index}].{source.block}.auth"
        if source.secret:
            secret = self._read(deployment, source.secret, path, seen)
            return replace(parse_secret(secret, source.kind, path), identity=_identity_of([secret]))
        account = account_in(deployment.spec)
        if not (account and source.is_in_registry):
            return None
        secrets = self._pull_secrets(deployment, account, path, seen)
        # Only these are sent: others would keep accounts from sharing what they fetch from public registries.
        name = self._repository_of(source)
        used = [each for each in secrets if find_credentials(parse_pull_secrets([each], path).registries, name)]
        identity = _identity_of(used) if used else ""
        return replace(parse_pull_secrets(secrets, path), identity=identity) if secrets else None

    def local_content(self, deployment: BundleDeployment, name: str, place: str, seen: SeenContent) -> LocalContent:
        """Return the content of a ConfigMap in the install namespace.

        Raises: BundleError, as `read_config_map`.
        """
        account = account_in(deployment.spec) if self._namespaces is not None else None
        return read_config_map(self._client, deployment, account, name=name, place=place, seen=seen)

    def _repository_of(self, source: Source) -> str:
        """Return registry and repository of a valid source as credentials name them."""
        image, chart = source.image, source.chart
        found = chart_reference(chart.repository, chart.name) if chart else parse_reference(image.ref if image else "")
        return find_endpoint(found, self._mirrors).name

    def _pull_secrets(
        self, deployment: BundleDeployment, account: Account, path: str, seen: Seen
    ) -> list[dict[str, Any]]:
        manifest = self._get_account(account, seen)
        references = [
            SecretReference(namespace=account.namespace, name=reference["name"])
            for reference in manifest.get("imagePullSecrets") or []
            if reference.get("name")
        ]
        return [self._read(deployment, reference, path, seen) for reference in references]

    def _read(self, deployment: BundleDeployment, reference: SecretReference, path: str, seen: Seen) -> dict[str, Any]:
        namespace = reference.namespace or deployment.spec.install_namespace or ""
        account = account_in(deployment.spec) if self._namespaces is not None else None
        self._check_namespace(deployment, namespace, account, path)
        secret = WatchedObject(namespace, reference.name, account.user.name if account else "")
        seen(secret, "")
        if account:
            self._check(deployment, account, seen)
        what = f'{path}: Secret "{namespace}/{reference.name}"'
        manifest = self._get(SECRETS.path(namespace, reference.name), account, what)
        seen(secret, manifest["metadata"]["resourceVersion"])
        return manifest

    def _check_namespace(
        self, deployment: BundleDeployment, namespace: str, account: Account | None, path: str
    ) -> None:
        if self._namespaces is None:
            return
        if account is None and namespace not in {*self._namespaces, deployment.spec.install_namespace}:
            message = (
                f'{path}: Secrets in namespace "{namespace}" are not allowed; move the Secret to the install namespace '
                "or ask the administrator to add the namespace to --secret-namespaces"
            )
            raise BundleError(Reason.SECRET_FORBIDDEN, message)

    def _get_account(self, account: Account, seen: Seen) -> dict[str, Any]:
        try:
            manifest = self._get(SERVICE_ACCOUNTS.path(account.namespace, account.name), None, _describe(account))
        except BundleError as error:
            if error.reason is Reason.SECRET_NOT_FOUND:
                self._require(account, seen)
            raise
        seen(watched_account(account), manifest["metadata"]["resourceVersion"])
        return manifest

    def _check(self, deployment: BundleDeployment, account: Account, seen: Seen) -> None:
        """Check that the account is still the recorded one: its successor's Secrets are not for these sources."""
        try:
            check_before_reading(self._client, deployment, account, seen)
        except ApiError as error:
            raise _translate(error, None, _describe(account)) from None

    def _require(self, account: Account, seen: Seen) -> None:
        seen(watched_account(account), "")
        try:
            absence = find_absence(self._client, account)
        except ApiError as error:
            raise _translate(error, None, _describe(account)) from None
        if absence:
            raise absence

    def _get(self, path: str, account: Account | None, what: str) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = self._client.acting_as(account.user if account else None).get(path).value
        except ApiError as error:
            raise _translate(error, account, what) from None
        return manifest


def _identity_of(secrets: Iterable[Mapping[str, Any]]) -> str:
    found = (secret["metadata"] for secret in secrets)
    return digest_of_json([[each.get("uid", ""), each.get("resourceVersion", "")] for each in found])


def _describe(account: Account) -> str:
    return f'spec.serviceAccountName: ServiceAccount "{account.namespace}/{account.name}"'


def _translate(error: ApiError, account: Account | None, what: str) -> BundleError:
    return translate_refusal(error, account, what, missing=Reason.SECRET_NOT_FOUND, verbs="get")
