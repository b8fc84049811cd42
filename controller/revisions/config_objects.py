"""Reads the ConfigMaps and Secrets that a spec needs, as the account of the BundleDeployment, and follows them.

They are those of `spec.configFrom`, and the Secrets of processors.

They are read when a pass needs the config, and again only after a change of one of them or of the spec. The values are
dropped when nothing is left to do; what is remembered then is only that they are known.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment, ConfigReference
from rukpak.controller.building.config_values import (
    Confidential,
    SecretValues,
    confidential_of,
    find_secrets,
    merge_config,
)
from rukpak.controller.kube.client import ApiError, Client, User
from rukpak.controller.kube.resources import CONFIG_MAPS, SECRETS
from rukpak.controller.observe.following import ObjectFollower, ObjectReference, Topic
from rukpak.controller.revisions.accounts import Account, Seen, account_in, check_before_reading

_RESOURCES = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConfig:
    """What was read for one version of the spec and of its objects."""

    version: str
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    """The merged config; None: it was dropped."""
    confidential: Confidential | None = None
    """What of it is secret; dropped together with it."""
    secrets: SecretValues = field(default_factory=dict, repr=False)
    """Values for processors; dropped together with it."""

    def rest(self) -> KnownConfig:
        """Return the same without the values."""
        return replace(self, config=None, confidential=None, secrets={})


class ConfigObjects:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        client: reads as the account.
        follower: wakes a BundleDeployment when one of its objects changes.
    """

    def __init__(self, client: Client, follower: ObjectFollower) -> None:
        self._client, self._follower = client, follower

    def read(self, deployment: BundleDeployment, version: str, known: KnownConfig | None, share: str) -> KnownConfig:
        """Return the merged config.

        Args:
            deployment: completed with its default account.
            version: of its spec and of the objects, as far as changes are known.
            known: what was read before.
            share: that pays for following the objects.

        Raises: BundleError if there is none; ApiError if the API server does not answer, which ends the pass.
        """
        if known and known.version == version and known.config is not None:
            return known
        versions: dict[ObjectReference, str] = {}
        try:
            found = read_values(self._client, deployment, account_in(deployment.spec), versions.__setitem__)
            made = KnownConfig(
                version=version,
                config=merge_config(deployment.spec, found.texts),
                confidential=confidential_of(deployment, found.texts, found.secrets),
                secrets=found.secrets,
            )
        except BundleError:
            self._follower.follow(deployment.metadata.name, Topic.CONFIG, versions, share=share)
            raise
        self._follower.follow(deployment.metadata.name, Topic.CONFIG, versions, share=share)
        return made

    def release(self, name: str) -> None:
        """Follow nothing for a BundleDeployment any more."""
        self._follower.follow(name, Topic.CONFIG, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What was read."""

    texts: Sequence[bytes | None] = field(repr=False)
    """The text of each reference of `spec.configFrom`; None if it is optional and missing."""
    secrets: SecretValues = field(repr=False)


def read_values(client: Client, deployment: BundleDeployment, account: Account | None, seen: Seen) -> Values:
    """Return what a spec needs.

    Args:
        client: of the controller, or of the user of a command.
        deployment: with an install namespace.
        account: to read as; None: the user of the client.
        seen: gets what was read.

    Raises: BundleError (ConfigNotFound, ConfigForbidden, InvalidConfig, ServiceAccountNotFound and its kin), ApiError.
    """
    references, needed = deployment.spec.config_from, find_secrets(deployment.spec)
    namespace = deployment.spec.install_namespace or ""
    if needed and not namespace:
        problem = "required, since a processor needs Secrets of that namespace; set it"
        raise BundleError(Reason.INVALID_CONFIG, f"spec.installNamespace: {problem}")
    if account and (references or needed):
        check_before_reading(client, deployment, account, seen)
    reader = _Reader(client, account, namespace, seen)
    texts: list[bytes | None] = []
    for index, reference in enumerate(references):
        place = f"spec.configFrom[{index}]: "
        watched, manifest = reader.read(reference.kind, reference.name, place)
        text = _text_of(manifest, reference, place)
        if text is None and not reference.optional:
            raise BundleError(Reason.CONFIG_NOT_FOUND, place + _describe_missing(watched, reference, manifest))
        texts.append(text)
    secrets: dict[str, Mapping[str, bytes]] = {}
    for path, name in needed:
        watched, manifest = reader.read("Secret", name, f"{path}: ")
        if manifest is None:
            problem = f"{path}: {_name(watched)} does not exist; create it, or correct the name"
            raise BundleError(Reason.CONFIG_NOT_FOUND, problem)
        data = manifest.get("data") or {}
        secrets[name] = {key: _decode(value, key, f"{path}: ") for key, value in data.items()}
    return Values(texts=texts, secrets=secrets)


class _Reader:
    """Reads each object once, and tells what was seen."""

    def __init__(self, client: Client, account: Account | None, namespace: str, seen: Seen) -> None:
        self._client, self._account, self._namespace, self._seen = client, account, namespace, seen
        self._manifests: dict[ObjectReference, Mapping[str, Any] | None] = {}

    def read(self, kind: str, name: str, place: str) -> tuple[ObjectReference, Mapping[str, Any] | None]:
        user = self._account.user.name if self._account else ""
        watched = ObjectReference(self._namespace, name, user, _RESOURCES[kind])
        if watched not in self._manifests:
            self._manifests[watched] = found = _get(self._client, watched, self._account, place)
            self._seen(watched, found["metadata"]["resourceVersion"] if found else "")
        return watched, self._manifests[watched]


def _get(client: Client, watched: ObjectReference, account: Account | None, place: str) -> Mapping[str, Any] | None:
    user: User | None = account.user if account else None
    try:
        found: Mapping[str, Any] = (
            client.acting_as(user).get(watched.resource.path(watched.namespace, watched.name)).value
        )
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        if error.status == HTTPStatus.FORBIDDEN:
            whom = f'"{user.name}"' if user else "the controller"
            problem = f"{_name(watched)} cannot be read by {whom}; grant get, list and watch on it"
            raise BundleError(Reason.CONFIG_FORBIDDEN, place + problem) from None
        raise
    return found


def _text_of(manifest: Mapping[str, Any] | None, reference: ConfigReference, place: str) -> bytes | None:
    data = (manifest or {}).get("data") or {}
    binary = data if reference.kind == "Secret" else (manifest or {}).get("binaryData") or {}
    if reference.key in binary:
        return _decode(binary[reference.key], reference.key, place)
    text: str | None = data.get(reference.key)
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _decode(value: Any, key: str, place: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise BundleError(Reason.INVALID_CONFIG, f'{place}key "{key}" is not base64') from None


def _describe_missing(watched: ObjectReference, reference: ConfigReference, manifest: Mapping[str, Any] | None) -> str:
    if manifest is None:
        return f"{_name(watched)} does not exist; create it, or correct the name"
    return f'{_name(watched)} has no key "{reference.key}"; add it, or correct the key'


def _name(watched: ObjectReference) -> str:
    return f'{watched.resource.kind} "{watched.namespace}/{watched.name}"'
