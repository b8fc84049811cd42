"""How to reach the API server, and as whom.

What the kubernetes package ignores silently is an error here: after a failed exec plugin or a missing file, requests
would be anonymous, and `as` in a kubeconfig would have no effect. As in kubectl, proxies follow the rules of Go:
`proxy-url` of the kubeconfig, else HTTPS_PROXY and NO_PROXY, never for loopback. A pod connects directly.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME
from kubernetes.config.kube_config import KubeConfigMerger

from rukpak.controller.kube.errors import ConfigurationError

RefreshHook = Callable[[Configuration], None]
DEFAULT_KUBECONFIG = "~/.kube/config"
# What the package raises for a malformed kubeconfig; its parser, written in Python, does not bear deep nesting.
_MALFORMED = (ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


def find_loader(kubeconfig: str | None, context: str | None, pool: int) -> Callable[[], Configuration]:
    """Return a function that reads the configuration, and may be called again after a 401.

    Args:
        kubeconfig: a path, or several separated by colons; default: $KUBECONFIG, the ServiceAccount of the pod,
            ~/.kube/config, in this order.
        context: of the kubeconfig; default: its current one. With a context, the ServiceAccount is not considered.
        pool: how many connections are kept open; fewer than workers and watches would discard connections.

    The function raises ConfigurationError.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if not named and not context and is_in_pod():
        return lambda: _tune(_load_service_account(), pool)
    paths = named or DEFAULT_KUBECONFIG
    return lambda: _tune(_load_kubeconfig(paths, context), pool)


def is_in_pod() -> bool:
    """Return whether this process runs in a pod with a ServiceAccount."""
    return bool(os.environ.get(SERVICE_HOST_ENV_NAME)) and Path(SERVICE_TOKEN_FILENAME).exists()


def find_context(kubeconfig: str | None, context: str | None) -> str:
    """Return the context of the kubeconfig that is used; empty for the ServiceAccount of a pod.

    Raises: ConfigurationError.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if context or (not named and is_in_pod()):
        return context or ""
    return _current_context(_read(named or DEFAULT_KUBECONFIG))


def _tune(configuration: Configuration, pool: int) -> Configuration:
    configuration.connection_pool_maxsize = pool
    configuration.retries = False  # the package's default is 3, without backoff
    configuration.keep_alive = True  # ends a half-open watch after 30 + 9 * 15 s
    hook: RefreshHook | None = vars(configuration)["refresh_api_key_hook"]
    if hook is not None:
        vars(configuration)["refresh_api_key_hook"] = _one_at_a_time(hook)
    return configuration


def _one_at_a_time(hook: RefreshHook) -> RefreshHook:
    # Every request calls the hook, which may run a plug-in.
    lock = threading.Lock()

    def _refresh(configuration: Configuration) -> None:
        with lock:
            hook(configuration)
            vars(configuration)["refresh_api_key_hook"] = _refresh  # the hook of the package reinstalls itself

    return _refresh


def _load_service_account() -> Configuration:
    configuration = Configuration(proxy="", no_proxy="")
    try:
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigurationError("the ServiceAccount token of this pod cannot be read; mount it") from error
    return configuration


def _load_kubeconfig(paths: str, context: str | None) -> Configuration:
    user = _check_context(paths, context)
    configuration = Configuration(proxy="", no_proxy="")
    try:
        load_kube_config(paths, context, configuration)  # type: ignore[no-untyped-call]
    except _MALFORMED as error:
        raise ConfigurationError(f'kubeconfig "{paths}": {_explain(error)}') from error
    _check_credential(paths, configuration, user)
    if not configuration.proxy:
        _take_proxy_of_environment(configuration)
    return configuration


def _explain(error: Exception) -> str:
    # ConfigException quotes whole entries, tokens included; only this message is known to be harmless.
    text = str(error)
    return text.splitlines()[0] if text.startswith("File does not exist: ") else "not a valid kubeconfig"


def _check_context(paths: str, context: str | None) -> Mapping[str, Any]:
    files = _read(paths)
    name = context or _current_context(files)
    if not name:
        raise ConfigurationError(f'kubeconfig "{paths}": current-context is not set; set it, or specify a context')
    chosen = _find(paths, files, "context", name)
    _find(paths, files, "cluster", str(chosen.get("cluster") or ""))
    user = _find(paths, files, "user", str(chosen["user"])) if chosen.get("user") else {}
    if user.get("as"):
        raise ConfigurationError(f'kubeconfig "{paths}": user "{chosen["user"]}": "as" is not supported; remove it')
    return user


def _current_context(files: list[dict[str, Any]]) -> str:
    return next((str(text) for file in files if (text := file.get("current-context"))), "")


def _read(paths: str) -> list[dict[str, Any]]:
    try:
        merger = KubeConfigMerger(paths)  # type: ignore[no-untyped-call]
        files = list(merger.config_files.values())
    except OSError as error:
        raise ConfigurationError(f'kubeconfig "{paths}": {error.strerror or "cannot be read"}') from error
    except _MALFORMED as error:
        raise ConfigurationError(f'kubeconfig "{paths}": not a valid kubeconfig') from error
    if not files:
        raise ConfigurationError(f'kubeconfig "{paths}": no such file; specify one, or set KUBECONFIG')
    return [file for file in files if isinstance(file, dict)]


def _find(paths: str, files: list[dict[str, Any]], kind: str, name: str) -> Mapping[str, Any]:
    for file in files:
        for entry in file.get(f"{kind}s") or []:
            if isinstance(entry, dict) and entry.get("name") == name:
                value = entry.get(kind) or {}
                return value if isinstance(value, dict) else {}
    raise ConfigurationError(f'kubeconfig "{paths}": no {kind} "{name}"; check the spelling')


def _check_credential(paths: str, configuration: Configuration, user: Mapping[str, Any]) -> None:
    loopback = _is_loopback(configuration.host)
    token = bool(configuration.api_key.get("BearerToken"))
    if configuration.host.startswith("http://") and not (loopback or not token):
        raise ConfigurationError(f'kubeconfig "{paths}": credentials must not be sent over plain http; use https')
    if token or (configuration.cert_file and configuration.key_file):
        return
    if user.get("exec"):
        raise ConfigurationError(f'kubeconfig "{paths}": the exec plugin returned no credential; run it to see why')
    if not (loopback and not user):  # a proxy on this machine, such as `kubectl proxy`, adds its own
        raise ConfigurationError(
            f'kubeconfig "{paths}": the user has no supported credential; use a token, certificate or exec plugin'
        )


def _take_proxy_of_environment(configuration: Configuration) -> None:
    if not _is_loopback(configuration.host):
        proxies = getproxies()
        configuration.proxy = proxies.get(urlsplit(configuration.host).scheme)
        configuration.no_proxy = proxies.get("no")


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
