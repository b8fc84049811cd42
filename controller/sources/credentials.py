"""From a Secret to the values that a source gets. Pure: revisions/credentials.py reads it.

The types and keys are Kubernetes' own (kubernetes.io/docs/concepts/configuration/secret/#secret-types) and, in a
Secret of any type, Flux's: `identity`, `known_hosts`, `bearerToken`, `ca.crt`. A line break at the end of a value is
what an editor has left, and no part of it.

Invariant: no message holds a value, and no exception raised here keeps one, not even as its context.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from api.errors import BundleError
from api.plugins import Credentials, RegistryCredentials
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote

DOCKER_CONFIG_JSON = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG = "kubernetes.io/dockercfg"
_DOCKER_KEYS = {DOCKER_CONFIG_JSON: ".dockerconfigjson", DOCKER_CONFIG: ".dockercfg"}
_CERTIFICATES = "ca.crt"
_IDENTITY_TOKEN_USER = "<token>"  # noqa: S105 - what credential helpers of Docker give for a user name then
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What a kind of source can make use of, for the message that lists it.
_USEFUL = {
    "image": "type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg, or keys username and password, or ca.crt",
    "git": "keys username and password, bearerToken, ssh-privatekey (or identity) and known_hosts, or ca.crt",
    "http": "keys username and password, bearerToken, or ca.crt",
}


def parse_secret(secret: Mapping[str, Any], kind: str, path: str) -> Credentials:
    """Return what a Secret says.

    Args:
        secret: the Secret as the API server sent it.
        kind: of the source; decides which shapes are of use. A kind of a plug-in may use all.
        path: where the Secret is named, for messages.

    Raises: BundleError (SecretInvalid) if it has none of the shapes, or a value that cannot be read.
    """
    data = _Data(secret, path)
    if secret.get("type") in _DOCKER_KEYS and kind not in ("git", "http"):
        return Credentials(registries=data.registries(secret["type"]), certificate_authority=data.certificates())
    found = Credentials(
        username=data.line("username"),
        password=data.line("password"),
        bearer_token="" if kind == "image" else data.token("bearerToken"),
        ssh_private_key="" if kind in ("image", "http") else data.text("ssh-privatekey") or data.text("identity"),
        known_hosts="" if kind in ("image", "http") else data.text("known_hosts") or data.text("ssh-knownhosts"),
        certificate_authority=data.certificates(),
    )
    _check(found, kind, data)
    return found


def parse_pull_secrets(secrets: Iterable[Mapping[str, Any]], path: str) -> Credentials:
    """Return what all pull secrets of a ServiceAccount say together; those of other types are passed over.

    Raises: BundleError (SecretInvalid).
    """
    parsed = [parse_secret(secret, "image", path) for secret in secrets if secret.get("type") in _DOCKER_KEYS]
    return Credentials(registries=tuple(entry for found in parsed for entry in found.registries))


def _check(found: Credentials, kind: str, data: _Data) -> None:
    if bool(found.username) != bool(found.password) and not found.ssh_private_key:
        missing = "password" if found.username else "username"
        raise data.invalid(f"key {quote(missing)} is missing; add it")
    if ":" in found.username:
        raise data.invalid('key "username" has a colon, which Basic authentication cannot carry; correct it')
    if not any((found.username, found.bearer_token, found.ssh_private_key, found.certificate_authority)):
        raise data.invalid(f"holds nothing that is of use here; give it {_USEFUL.get(kind, 'credentials')}")


class _Data:
    """The values of a Secret, decoded when they are asked for."""

    def __init__(self, secret: Mapping[str, Any], path: str) -> None:
        metadata = secret["metadata"]
        self._name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        self._path = path
        self._values: Mapping[str, str] = secret.get("data") or {}

    def invalid(self, problem: str) -> BundleError:
        """Return the error for a Secret that cannot be used."""
        return BundleError(Reason.SECRET_INVALID, f"{self._path}: Secret {quote(self._name)}: {problem}")

    def text(self, key: str) -> str:
        """Return a value, '' if there is none."""
        decoded = _decode(self._values.get(key) or "")
        if decoded is None:
            raise self.invalid(f"key {quote(key)} is not UTF-8 text; write it anew")
        return decoded

    def line(self, key: str) -> str:
        """Return a value that is one line of text, as one that becomes part of a header must be."""
        value = self.text(key).rstrip("\r\n")
        if _CONTROL.search(value):
            raise self.invalid(f"key {quote(key)} holds a line break or another control character; write it anew")
        return value

    def token(self, key: str) -> str:
        """Return a value that goes into a header as it is."""
        value = self.line(key)
        if not value.isascii() or " " in value:
            raise self.invalid(f"key {quote(key)} holds what no token has; write it anew")
        return value

    def certificates(self) -> str:
        """Return the CA certificates, '' if there are none."""
        pem = self.text(_CERTIFICATES)
        if pem and not _is_bundle(pem):
            raise self.invalid(f"key {quote(_CERTIFICATES)} is not a bundle of PEM certificates; write it anew")
        return pem

    def registries(self, secret_type: str) -> tuple[RegistryCredentials, ...]:
        """Return the entries of a Docker configuration, without those that hold nothing."""
        key = _DOCKER_KEYS[secret_type]
        if not self._values.get(key):
            raise self.invalid(f"key {quote(key)} is missing; add it")
        config = _parse_docker(self.text(key), secret_type)
        if config is None:
            raise self.invalid(f"key {quote(key)} is not a Docker configuration; make it by kubectl create secret")
        return tuple(entry for entry in config if entry.username or entry.identity_token)


def _decode(value: str) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode()
    except ValueError:
        return None


def _is_bundle(pem: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True


# Docker's configuration

_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class _Entry(BaseModel):
    """The credentials for one registry. `auth` is base64 of `username:password`, and wins over the two."""

    model_config = ConfigDict(hide_input_in_errors=True)
    username: _Text = ""
    password: _Text = ""
    auth: _Text = ""
    identity_token: _Text = Field(default="", alias="identitytoken")


class _Config(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)
    auths: dict[str, _Entry] | None = None


_ENTRIES = TypeAdapter(dict[str, _Entry])


def _parse_docker(text: str, secret_type: str) -> tuple[RegistryCredentials, ...] | None:
    """Return the entries of a configuration in either form; None if it is no such thing."""
    try:
        is_new = secret_type == DOCKER_CONFIG_JSON
        entries = (_Config.model_validate_json(text).auths or {}) if is_new else _ENTRIES.validate_json(text)
        return tuple(_credentials(entries))
    except ValueError:  # pydantic's is one, too
        return None


def _credentials(entries: Mapping[str, _Entry]) -> Iterator[RegistryCredentials]:
    """Yield what entries say, as k8s.io/kubernetes/pkg/credentialprovider/config.go reads them.

    Raises: ValueError for an `auth` that is not base64 of `username:password`.
    """
    for registry, entry in entries.items():
        username, password, identity_token = entry.username, entry.password, entry.identity_token
        if entry.auth:
            padded = entry.auth.strip() + "=" * (-len(entry.auth.strip()) % 4)
            username, colon, password = base64.b64decode(padded, validate=True).decode().rstrip("\0").partition(":")
            if not colon:
                raise ValueError
        if username == _IDENTITY_TOKEN_USER:
            username, password, identity_token = "", "", identity_token or password
        yield RegistryCredentials(
            registry=registry, username=username, password=password, identity_token=identity_token
        )
