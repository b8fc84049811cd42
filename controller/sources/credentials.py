"""From a Secret to the values that a source gets. Pure: who reads the Secret, and as whom, is `controller/secrets.py`.

The types and keys are Kubernetes's own (kubernetes.io/docs/concepts/configuration/secret/#secret-types) and, in a
Secret of any type, Flux's: `identity`, `known_hosts`, `bearerToken`, `ca.crt`. No message here ever holds a value.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

from api.errors import BundleError
from api.plugins import Credentials, RegistryCredentials
from api.v1alpha2.conditions import Reason

DOCKER_CONFIG_JSON = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG = "kubernetes.io/dockercfg"
_DOCKER_KEYS = {DOCKER_CONFIG_JSON: ".dockerconfigjson", DOCKER_CONFIG: ".dockercfg"}
_BASIC = ("username", "password")
# What a kind of source can make use of, for the message that lists it.
_USEFUL = {
    "image": "type kubernetes.io/dockerconfigjson or dockercfg, or keys username and password, or ca.crt",
    "git": "keys username and password, bearerToken, ssh-privatekey (or identity) and known_hosts, or ca.crt",
    "http": "keys username and password, bearerToken, or ca.crt",
}


def parse_secret(secret: Mapping[str, Any], kind: str, path: str) -> Credentials:
    """Return what a Secret says.

    Args:
        secret: the Secret as the API server sent it.
        kind: of the source; decides which shapes are of use.
        path: where the Secret is named, for messages.

    Raises: BundleError (SecretInvalid) if it has none of the shapes, or a value that cannot be read.
    """
    where = f"{path}: Secret {_name(secret)}"
    if secret.get("type") in _DOCKER_KEYS and kind == "image":
        return Credentials(registries=tuple(_parse_docker(secret, where)))
    values = {key: _text(value, f"{where}: key {key}") for key, value in (secret.get("data") or {}).items()}
    found = Credentials(
        username=values.get("username", ""),
        password=values.get("password", ""),
        bearer_token=values.get("bearerToken", "") if kind != "image" else "",
        ssh_private_key=_first(values, "ssh-privatekey", "identity") if kind == "git" else "",
        known_hosts=_first(values, "known_hosts", "ssh-knownhosts") if kind == "git" else "",
        certificate_authority=values.get("ca.crt", ""),
    )
    _check(found, kind, where)
    return found


def parse_pull_secrets(secrets: Iterable[Mapping[str, Any]], path: str) -> Credentials:
    """Return what all pull secrets of a ServiceAccount say together.

    Raises: BundleError (SecretInvalid).
    """
    registries: list[RegistryCredentials] = []
    for secret in secrets:
        registries += parse_secret(secret, "image", path).registries
    return Credentials(registries=tuple(registries))


def _check(found: Credentials, kind: str, where: str) -> None:
    if bool(found.username) != bool(found.password) and not found.ssh_private_key:
        missing = _BASIC[1] if found.username else _BASIC[0]
        raise BundleError(Reason.SECRET_INVALID, f'{where}: key "{missing}" is missing; add it')
    if not any((found.username, found.bearer_token, found.ssh_private_key, found.certificate_authority)):
        raise BundleError(
            Reason.SECRET_INVALID,
            f"{where}: holds nothing that is of use here; give it {_USEFUL.get(kind, 'credentials')}",
        )


def _parse_docker(secret: Mapping[str, Any], where: str) -> Iterable[RegistryCredentials]:
    key = _DOCKER_KEYS[secret["type"]]
    value = (secret.get("data") or {}).get(key)
    if value is None:
        raise BundleError(Reason.SECRET_INVALID, f'{where}: key "{key}" is missing; add it')
    try:
        config = json.loads(_text(value, f"{where}: key {key}"))
        entries = config.get("auths") or {} if secret["type"] == DOCKER_CONFIG_JSON else config
        parsed = [_parse_entry(registry, entry) for registry, entry in entries.items()]
    except (ValueError, AttributeError, TypeError):
        raise BundleError(
            Reason.SECRET_INVALID, f'{where}: key "{key}" is not a Docker configuration; make it anew'
        ) from None
    return [entry for entry in parsed if entry.username]


def _parse_entry(registry: str, entry: Mapping[str, Any]) -> RegistryCredentials:
    """`auth` is base64 of `username:password`, and wins over the two (k8s.io/kubernetes/pkg/credentialprovider)."""
    username, password = entry.get("username") or "", entry.get("password") or ""
    if auth := entry.get("auth"):
        decoded = base64.b64decode(auth, validate=True).decode().rstrip("\0")
        username, _, password = decoded.partition(":")
    return RegistryCredentials(registry=registry, username=username, password=password)


def _text(value: str, what: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BundleError(Reason.SECRET_INVALID, f"{what} is not UTF-8 text; write it anew") from None


def _first(values: Mapping[str, str], *keys: str) -> str:
    return next((values[key] for key in keys if values.get(key)), "")


def _name(secret: Mapping[str, Any]) -> str:
    metadata = secret["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
