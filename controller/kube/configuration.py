"""How to reach the API server, and as whom.

A user is known by a token, a file with one, a password or a certificate. Whoever gets tokens from a plug-in or a login
is left to the kubernetes package, which takes longer to import than everything else that reads a kubeconfig.

What that package ignores silently is an error here: after a failed exec plugin or a missing file, requests
would be anonymous, and `as` in a kubeconfig would have no effect. As in kubectl, proxies follow the rules of Go:
`proxy-url` of the kubeconfig, else HTTPS_PROXY and NO_PROXY, never for loopback. A pod connects directly.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

import urllib3
import yaml

from rukpak.api.proxies import NO_PROXY, VARIABLES, read_proxies
from rukpak.controller.kube.errors import ConfigurationError

DEFAULT_KUBECONFIG = "~/.kube/config"
SERVICE_HOST, SERVICE_PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 60.0
"""After how long the file of a token is read again: the kubelet renews it."""
# What a malformed kubeconfig leads to; the parser, written in Python, does not bear deep nesting.
_MALFORMED = (OSError, yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
_PORTS = {"https": 443, "http": 80}
_RENEWED = ("exec", "auth-provider")
"""Entries of a user whose credential comes from elsewhere, and expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How to reach the API server, and what proves who asks."""

    host: str
    """URL."""
    authorize: Callable[[], str] = field(default=lambda: "", repr=False)
    """Returns the header Authorization, or '' if a certificate or a proxy says who asks. Called for each request.

    Raises: ConfigurationError.
    """
    authorities: str = ""
    """Certificates to trust, as PEM; '' are the system's."""
    is_verified: bool = True
    """Whether the certificate of the server is verified."""
    certificate: str = field(default="", repr=False)
    """The certificate of the user and its key, as PEM."""
    server_name: str = ""
    """Name in the certificate of the server; '' is that of the host."""
    proxy: str = field(default="", repr=False)
    """URL; '' connects directly."""
    pool: int = 1
    """How many connections are kept open; fewer than workers and watches would discard connections."""


def find_loader(kubeconfig: str | None, context: str | None, pool: int) -> Callable[[], Configuration]:
    """Return a function that reads the configuration, and may be called again after a 401.

    Args:
        kubeconfig: a path, or several separated by colons; default: $KUBECONFIG, the ServiceAccount of the pod,
            ~/.kube/config, in this order.
        context: of the kubeconfig; default: its current one. With a context, the ServiceAccount is not considered.
        pool: see Configuration.

    The function raises ConfigurationError.
    """
    paths = _find_paths(kubeconfig, context)
    return partial(_load_kubeconfig, paths, context, pool) if paths else partial(_load_service_account, pool)


def _find_paths(kubeconfig: str | None, context: str | None) -> str:
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    return named or ("" if not context and is_in_pod() else DEFAULT_KUBECONFIG)


def is_in_pod() -> bool:
    """Return whether this process runs in a pod with a ServiceAccount."""
    return bool(os.environ.get(SERVICE_HOST)) and Path(SERVICE_ACCOUNT, "token").exists()


def find_context(kubeconfig: str | None, context: str | None) -> str:
    """Return the context of the kubeconfig that is used; empty for the ServiceAccount of a pod.

    Raises: ConfigurationError.
    """
    paths = _find_paths(kubeconfig, context)
    if context or not paths:
        return context or ""
    with _naming(paths):
        return _current_context(_read(paths))


class _TokenFile:
    """A token in a file, which somebody renews. Thread-safe: two that read it at once read the same."""

    def __init__(self, path: Path) -> None:
        self._path, self._header, self._read_at = path, "", -TOKEN_SECONDS

    def __call__(self) -> str:
        if time.monotonic() - self._read_at >= TOKEN_SECONDS:
            try:
                token = self._path.read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise ConfigurationError(f'token "{self._path}": cannot be read') from error
            if not token:
                raise ConfigurationError(f'token "{self._path}": is empty')
            self._header, self._read_at = f"Bearer {token}", time.monotonic()
        return self._header


def _load_service_account(pool: int) -> Configuration:
    host, port = os.environ[SERVICE_HOST], os.environ.get(SERVICE_PORT, "443")
    authorize = _TokenFile(Path(SERVICE_ACCOUNT, "token"))
    try:
        authorize()
        authorities = Path(SERVICE_ACCOUNT, "ca.crt").read_text(encoding="ascii")
    except (ConfigurationError, OSError, ValueError) as error:
        raise ConfigurationError("the ServiceAccount token of this pod cannot be read; mount it") from error
    address = f"[{host}]" if ":" in host else host
    return Configuration(host=f"https://{address}:{port}", authorize=authorize, authorities=authorities, pool=pool)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A cluster, context or user."""

    values: Mapping[str, Any]
    folder: Path
    """Of its kubeconfig, where the files are that it names."""

    def text(self, key: str) -> str:
        return str(self.values.get(key) or "")

    def read(self, key: str) -> str:
        """Return PEM that the entry has as data, or as the name of a file; '' without either.

        Raises: ConfigurationError for a file that cannot be read; ValueError for data that is not base64.
        """
        if data := self.text(f"{key}-data"):
            return base64.b64decode(data).decode("ascii", "ignore")
        if not (name := self.text(key)):
            return ""
        try:
            return (self.folder / name).read_bytes().decode("ascii", "ignore")
        except OSError as error:
            raise ConfigurationError(f'{key} "{name}": {error.strerror or "cannot be read"}') from error


@contextmanager
def _naming(paths: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f'kubeconfig "{paths}": {error}') from error.__cause__
    except _MALFORMED as error:
        raise ConfigurationError(f'kubeconfig "{paths}": not a valid kubeconfig') from error


def _load_kubeconfig(paths: str, context: str | None, pool: int) -> Configuration:
    with _naming(paths):
        files = _read(paths)
        return _choose(files, context or _current_context(files), paths, pool)


def _choose(files: list[_Entry], context: str, paths: str, pool: int) -> Configuration:
    if not context:
        raise ConfigurationError("current-context is not set; set it, or specify a context")
    chosen = _find(files, "context", context)
    cluster = _find(files, "cluster", chosen.text("cluster"))
    user = _find(files, "user", chosen.text("user")) if chosen.text("user") else _Entry({}, Path())
    if user.values.get("as"):
        raise ConfigurationError(f'user "{chosen.text("user")}": "as" is not supported; remove it')
    is_renewed = any(user.values.get(key) for key in _RENEWED)
    authorize, certificate = _renew(paths, context) if is_renewed else (_read_credential(user), "")
    host = cluster.text("server").rstrip("/")
    configuration = Configuration(
        host=host,
        authorize=authorize,
        authorities=cluster.read("certificate-authority"),
        is_verified=not cluster.values.get("insecure-skip-tls-verify"),
        certificate=certificate or _read_certificate(user),
        server_name=cluster.text("tls-server-name"),
        proxy=cluster.text("proxy-url") or _find_proxy(host),
        pool=pool,
    )
    _check_credential(configuration, user)
    return configuration


def _current_context(files: list[_Entry]) -> str:
    return next((text for file in files if (text := file.text("current-context"))), "")


def _read(paths: str) -> list[_Entry]:
    found = [path for name in paths.split(":") if name and (path := Path(name).expanduser()).exists()]
    if not found:
        raise ConfigurationError("no such file; specify one, or set KUBECONFIG")
    try:
        # Only texts of it are read, which YAML 1.1 and 1.2 have alike.
        files = [(yaml.safe_load(path.read_text(encoding="utf-8")), path.parent) for path in found]  # noqa: TID251
    except OSError as error:
        raise ConfigurationError(error.strerror or "cannot be read") from error
    if not all(isinstance(file, dict) for file, _ in files):
        raise ConfigurationError("not a valid kubeconfig")
    return [_Entry(*file) for file in files]


def _find(files: list[_Entry], kind: str, name: str) -> _Entry:
    for file in files:
        for entry in file.values.get(f"{kind}s") or []:
            if isinstance(entry, dict) and entry.get("name") == name:
                value = entry.get(kind) or {}
                return _Entry(value if isinstance(value, dict) else {}, file.folder)
    raise ConfigurationError(f'no {kind} "{name}"; check the spelling')


def _read_credential(user: _Entry) -> Callable[[], str]:
    header = ""
    if token := user.text("token"):
        header = f"Bearer {token}"
    elif name := user.text("tokenFile"):
        return _TokenFile(user.folder / name)
    elif (username := user.text("username")) and (password := user.text("password")):
        header = urllib3.util.make_headers(basic_auth=f"{username}:{password}")["authorization"]
    return lambda: header


def _read_certificate(user: _Entry) -> str:
    certificate, key = user.read("client-certificate"), user.read("client-key")
    return f"{certificate}\n{key}" if certificate and key else ""


def _renew(paths: str, context: str) -> tuple[Callable[[], str], str]:
    """Return what a plug-in or a login gives: the token, which the package renews when it is due, or a certificate."""
    from kubernetes import client, config  # noqa: PLC0415 - slow to import

    found = client.Configuration()
    try:
        config.load_kube_config(paths, context, found)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:  # quotes whole entries, tokens included
        raise ConfigurationError("not a valid kubeconfig") from error
    lock = threading.Lock()

    def _authorize() -> str:
        with lock:  # each request asks for the token, which may run the plug-in
            try:
                return found.get_api_key_with_prefix("BearerToken") or ""
            except config.ConfigException as error:
                raise ConfigurationError("the credential cannot be renewed") from error

    if not (found.cert_file and found.key_file):
        return _authorize, ""
    return _authorize, "\n".join(Path(name).read_text(encoding="ascii") for name in (found.cert_file, found.key_file))


def _check_credential(configuration: Configuration, user: _Entry) -> None:
    loopback, header = _is_loopback(configuration.host), configuration.authorize()
    if configuration.host.startswith("http://") and header and not loopback:
        raise ConfigurationError("credentials must not be sent over plain http; use https")
    if header or configuration.certificate:
        return
    if user.values.get("exec"):
        raise ConfigurationError("the exec plugin returned no credential; run it to see why")
    if not (loopback and not user.values):  # a proxy on this machine, such as `kubectl proxy`, adds its own
        raise ConfigurationError("the user has no supported credential; use a token, certificate or exec plugin")


def _find_proxy(host: str) -> str:
    url, proxies = urlsplit(host), getproxies()
    # Any proxy that urllib3 knows may be named; the rules say only where it is not asked.
    rules = read_proxies({**dict.fromkeys(VARIABLES, "http://any"), NO_PROXY: proxies.get("no", "")})
    is_asked = rules.find(url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme, 0))
    return proxies.get(url.scheme, "") if is_asked else ""


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class User:
    """A user to act as. A ServiceAccount needs no groups: the API server adds them.

    Raises: ValueError for a name or group that is empty, or not allowed in a header.
    """

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for text in (self.name, *self.groups, *(value for values in self.extra.values() for value in values)):
            if not text.strip() or not text.isascii() or not text.isprintable():
                raise ValueError(f"impersonation: {text!r} cannot be a user, group or extra value")

    @classmethod
    def service_account(cls, namespace: str, name: str) -> User:
        """Return the user of a ServiceAccount.

        Raises: ValueError if either is empty, or contains a colon.
        """
        if not namespace or not name or ":" in namespace + name:
            raise ValueError(f'impersonation: "{namespace}/{name}" cannot be a ServiceAccount')
        return cls(f"system:serviceaccount:{namespace}:{name}")

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers; one for each group, since `a,b` would be a single group."""
        yield "Impersonate-User", self.name
        yield from (("Impersonate-Group", group) for group in self.groups)
        for key, values in self.extra.items():
            yield from ((f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values)
