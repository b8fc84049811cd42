"""Reads ConfigMaps that are the content of a source, as the account of the BundleDeployment."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from api.errors import BundleError
from api.plugins import LocalContent
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment
from controller.kube.client import ApiError, Client
from controller.kube.resources import CONFIG_MAPS
from controller.observe.following import WatchedObject
from controller.revisions.accounts import Account, check_before_reading, translate_refusal

Seen = Callable[[WatchedObject, str | None], None]
"""Called with an object that is read, and its resourceVersion; empty: it does not exist; None: it never changes."""


def read_config_map(
    client: Client, deployment: BundleDeployment, account: Account | None, *, name: str, place: str, seen: Seen
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
