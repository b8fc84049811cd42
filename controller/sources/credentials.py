"""The values of a Secret that a source uses. Pure: revisions/source_access.py reads the Secret.

Types and keys are Kubernetes' (kubernetes.io/docs/concepts/configuration/secret/#secret-types) and, in a Secret of any
type, Flux's: `identity`, `known_hosts`, `bearerToken`, `ca.crt`, `tls.crt` and `tls.key`. A line break at the end of a
value, which editors leave, is ignored.

Invariant: no message contains a value, and no exception raised here keeps one, not even as its context.

Which registry credentials are for a repository, is decided by the rules of the kubelet for pull secrets, with their
oddities: `BasicDockerKeyring` and `URLsMatch` in k8s.io/kubernetes/pkg/credentialprovider, keyring.go. Hosts match
element by element with wildcards, ports only exactly, and paths as plain prefixes (so `quay.io/foo` also matches
`quay.io/foobar`); all that match are tried, the most specific first, so that credentials can be rotated.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Credentials, RegistryCredentials
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.image.reference import HUB, HUB_NAMES
from rukpak.controller.sources.trust import client_problem, is_certificate_data

DOCKER_CONFIG_JSON = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG = "kubernetes.io/dockercfg"
_DOCKER_KEYS = {DOCKER_CONFIG_JSON: ".dockerconfigjson", DOCKER_CONFIG: ".dockercfg"}
_CERTIFICATES = "ca.crt"
_CLIENT, _CLIENT_KEY = "tls.crt", "tls.key"
_IDENTITY_TOKEN_USER = "<token>"  # noqa: S105 - the user name that Docker's credential helpers then return
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# The keys that a kind of source uses, for the message that lists them.
_USEFUL = {
    "image": (
        "type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg, or keys username and password, tls.crt and "
        "tls.key, or ca.crt"
    ),
    "git": (
        "keys username and password, bearerToken, ssh-privatekey (or identity) and known_hosts, tls.crt and tls.key, "
        "or ca.crt"
    ),
    "http": "keys username and password, bearerToken, tls.crt and tls.key, or ca.crt",
    "chart": (
        "keys username and password, bearerToken, tls.crt and tls.key, or ca.crt, or type "
        "kubernetes.io/dockerconfigjson for oci://"
    ),
}
_WITHOUT_REGISTRIES = ("git", "http")
_WITHOUT_SSH = ("image", "http", "chart")


def parse_secret(secret: Mapping[str, Any], kind: str, path: str) -> Credentials:
    """Return the credentials in a Secret.

    Args:
        secret: the Secret as the API server sent it.
        kind: of the source; decides which keys are used. The kind of a plug-in may use all.
        path: of the field that names the Secret; starts messages.

    Raises: BundleError (SecretInvalid for a Secret without usable keys, or with a malformed value).
    """
    data = _Data(secret, path)
    certificate, key = data.client()
    tls = Credentials(certificate_authority=data.certificates(), client_certificate=certificate, client_key=key)
    if secret.get("type") in _DOCKER_KEYS and kind not in _WITHOUT_REGISTRIES:
        return replace(tls, registries=data.registries(secret["type"]))
    found = replace(
        tls,
        username=data.line("username"),
        password=data.line("password"),
        bearer_token="" if kind == "image" else data.token("bearerToken"),
        ssh_private_key="" if kind in _WITHOUT_SSH else data.text("ssh-privatekey") or data.text("identity"),
        known_hosts="" if kind in _WITHOUT_SSH else data.text("known_hosts") or data.text("ssh-knownhosts"),
    )
    _check(found, kind, data)
    return found


def parse_pull_secrets(secrets: Iterable[Mapping[str, Any]], path: str) -> Credentials:
    """Return the registry credentials of all pull secrets of a ServiceAccount, skipping Secrets of other types.

    Raises: BundleError (SecretInvalid).
    """
    parsed = [parse_secret(secret, "image", path) for secret in secrets if secret.get("type") in _DOCKER_KEYS]
    return Credentials(registries=tuple(entry for found in parsed for entry in found.registries))


def _check(found: Credentials, kind: str, data: _Data) -> None:
    if bool(found.username) != bool(found.password) and not found.ssh_private_key:
        missing = "password" if found.username else "username"
        raise data.invalid(f"key {quote(missing)} is missing; add it")
    if ":" in found.username:
        raise data.invalid('key "username" contains a colon, which Basic authentication does not allow; correct it')
    usable = (found.username, found.bearer_token, found.ssh_private_key, found.client_key, found.certificate_authority)
    if not any(usable):
        raise data.invalid(f"has no usable credentials; add {_USEFUL.get(kind, 'credentials')}")


class _Data:
    """The values of a Secret, decoded on demand."""

    def __init__(self, secret: Mapping[str, Any], path: str) -> None:
        metadata = secret["metadata"]
        self._name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        self._path = path
        self._values: Mapping[str, str] = secret.get("data") or {}

    def invalid(self, problem: str) -> BundleError:
        """Return the error for a Secret that cannot be used."""
        return BundleError(Reason.SECRET_INVALID, f"Secret {quote(self._name)}: {problem}", place=self._path)

    def text(self, key: str) -> str:
        """Return a value; '' if it is missing. Raises: BundleError (SecretInvalid), as all methods do."""
        decoded = _decode(self._values.get(key) or "")
        if decoded is None:
            raise self.invalid(f"key {quote(key)} is not UTF-8 text; replace it")
        return decoded

    def line(self, key: str) -> str:
        """Return a value that must be one line of text, since it becomes part of a header. Raises: as `text`."""
        value = self.text(key).rstrip("\r\n")
        if _CONTROL.search(value):
            raise self.invalid(f"key {quote(key)} contains a line break or another control character; replace it")
        return value

    def token(self, key: str) -> str:
        """Return a value that is sent in a header unchanged. Raises: as `text`."""
        value = self.line(key)
        if not value.isascii() or " " in value:
            raise self.invalid(f"key {quote(key)} contains a blank or a character that is not ASCII; replace it")
        return value

    def certificates(self) -> str:
        """Return the CA certificates; '' if there are none. Raises: as `text`."""
        pem = self.text(_CERTIFICATES)
        if not is_certificate_data(pem):
            raise self.invalid(f"key {quote(_CERTIFICATES)} is not a bundle of PEM certificates; replace it")
        return pem

    def client(self) -> tuple[str, str]:
        """Return the client certificate and its key; '' if there is none. Raises: as `text`."""
        certificate, key = self.text(_CLIENT), self.text(_CLIENT_KEY)
        if bool(certificate) != bool(key):
            raise self.invalid(f"key {quote(_CLIENT_KEY if certificate else _CLIENT)} is missing; add it")
        if key and (problem := client_problem(certificate, key)):
            raise self.invalid(problem)
        return certificate, key

    def registries(self, secret_type: str) -> tuple[RegistryCredentials, ...]:
        """Return the entries of a Docker configuration, without empty ones. Raises: as `text`."""
        key = _DOCKER_KEYS[secret_type]
        if not self._values.get(key):
            raise self.invalid(f"key {quote(key)} is missing; add it")
        config = _parse_docker(self.text(key), secret_type)
        if config is None:
            raise self.invalid(
                f"key {quote(key)} is not a Docker configuration; "
                'create it with "kubectl create secret docker-registry"'
            )
        return tuple(entry for entry in config if entry.username or entry.identity_token)


def _decode(value: str) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode()
    except ValueError:
        return None


# Docker's configuration

_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class _Entry(BaseModel):
    """The credentials for one registry. `auth` is base64 of `username:password`, and takes precedence."""

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
    try:
        is_new = secret_type == DOCKER_CONFIG_JSON
        entries = (_Config.model_validate_json(text).auths or {}) if is_new else _ENTRIES.validate_json(text)
        return tuple(_credentials(entries))
    except ValueError:  # pydantic's is one, too
        return None


def _credentials(entries: Mapping[str, _Entry]) -> Iterator[RegistryCredentials]:
    """Yield the credentials as k8s.io/kubernetes/pkg/credentialprovider/config.go reads them.

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


_MOST_ENTRIES = 2000
"""Entries of all Secrets that are looked at: each may have a pattern of its own."""
_SCHEME = re.compile(r"https?://")
_API_VERSION = re.compile(r"^/v[12](?=/)")
_PORT = re.compile(r":(\d*)$")


def find_credentials(entries: Iterable[RegistryCredentials], name: str) -> tuple[RegistryCredentials, ...]:
    """Return the entries for a repository, the most specific first, otherwise in their order.

    Args:
        entries: of one or more Secrets.
        name: registry and repository in normal form: `docker.io/library/nginx`, `quay.io/foo/bar`.
    """
    keyed = [(_normal_key(entry.registry), entry) for entry in islice(entries, _MOST_ENTRIES)]
    matching = [(key, entry) for key, entry in keyed if _matches(key, name)]
    return tuple(entry for _, entry in sorted(matching, key=lambda found: found[0], reverse=True))


def _normal_key(registry: str) -> str:
    host, path = _split_name(_SCHEME.sub("", registry, count=1))
    path = _API_VERSION.sub("", path)
    return (HUB if host in HUB_NAMES else host) + ("" if path == "/" else path)


def _matches(key: str, name: str) -> bool:
    (pattern, prefix), (host, path) = _split_name(key), _split_name(name)
    (patterns, pattern_port), (elements, port) = _split_host(pattern), _split_host(host)
    return (
        pattern_port == port
        and len(patterns) == len(elements)
        and path.startswith(prefix)
        # Equality is for IPv6 addresses in brackets.
        and all(a == b or fnmatchcase(a, b) for a, b in zip(elements, patterns, strict=True))
    )


def _split_name(text: str) -> tuple[str, str]:
    host, slash, path = text.partition("/")
    return host, slash + path


def _split_host(host: str) -> tuple[list[str], str]:
    found = _PORT.search(host)
    port = found[1] if found else ""
    return host.removesuffix(f":{port}").split("."), port
