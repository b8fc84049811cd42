"""Which API server to talk to, and as whom: a kubeconfig, or the service account of a pod.

What the kubernetes package does silently is made an error here: a failed exec plug-in or a missing file would make the
requests anonymous, `as` in a kubeconfig would be ignored. Proxies follow Go's rules, as kubectl does: `proxy-url` of
the kubeconfig, else HTTPS_PROXY and NO_PROXY, never for loopback; a pod talks to its own API server directly.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME
from kubernetes.config.kube_config import KubeConfigMerger

from controller.kube.errors import ConfigurationError

RefreshHook = Callable[[Configuration], None]

DEFAULT_KUBECONFIG = "~/.kube/config"
# What the package raises for a kubeconfig that has not the shape it expects.
_MALFORMED = (ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError)


def find_loader(kubeconfig: str | None, context: str | None, pool: int) -> Callable[[], Configuration]:
    """Return what reads the configuration, now and again after a 401.

    Args:
        kubeconfig: a path, or several with a colon between; else $KUBECONFIG, the pod's service account,
            ~/.kube/config, in this order.
        context: of the kubeconfig; its current one by default. With a context, the service account is not considered.
        pool: how many connections are kept open: workers, watches and a few, or connections are thrown away.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if not named and not context and is_in_pod():
        return lambda: _tune(_load_service_account(), pool)
    paths = named or DEFAULT_KUBECONFIG
    return lambda: _tune(_load_kubeconfig(paths, context), pool)


def is_in_pod() -> bool:
    """Whether this process runs in a pod with a ServiceAccount."""
    return bool(os.environ.get(SERVICE_HOST_ENV_NAME)) and Path(SERVICE_TOKEN_FILENAME).exists()


def _tune(configuration: Configuration, pool: int) -> Configuration:
    configuration.connection_pool_maxsize = pool
    configuration.retries = False  # the package's default is 3, without backoff
    configuration.keep_alive = True  # a half-open watch ends after 30 + 9 * 15 s
    hook: RefreshHook | None = vars(configuration)["refresh_api_key_hook"]
    if hook is not None:
        vars(configuration)["refresh_api_key_hook"] = _one_at_a_time(hook)
    return configuration


def _one_at_a_time(hook: RefreshHook) -> RefreshHook:
    """Guard the hook, which every request calls and which may run a plug-in."""
    lock = threading.Lock()

    def refresh(configuration: Configuration) -> None:
        with lock:
            hook(configuration)
            vars(configuration)["refresh_api_key_hook"] = refresh  # the package's hook has put itself back

    return refresh


def _load_service_account() -> Configuration:
    configuration = Configuration(proxy="", no_proxy="")
    try:
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigurationError("the service account of this pod cannot be read; mount its token") from error
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
    # ConfigException names entries by their whole content, tokens included; only this one is known to be harmless.
    text = str(error)
    return text.splitlines()[0] if text.startswith("File does not exist: ") else "not a valid kubeconfig"


def _check_context(paths: str, context: str | None) -> Mapping[str, Any]:
    """Return the user of the context, {} if it has none.

    Raises: ConfigurationError where a file, the context, its cluster or its user is missing.
    """
    files = _read(paths)
    name = context or next((text for file in files if (text := file.get("current-context"))), "")
    if not name:
        raise ConfigurationError(f'kubeconfig "{paths}": current-context is not set; name a context')
    chosen = _find(paths, files, "context", name)
    _find(paths, files, "cluster", str(chosen.get("cluster") or ""))
    user = _find(paths, files, "user", str(chosen["user"])) if chosen.get("user") else {}
    if user.get("as"):
        raise ConfigurationError(f'kubeconfig "{paths}": user "{chosen["user"]}": "as" is not supported')
    return user


def _read(paths: str) -> list[dict[str, Any]]:
    try:
        merger = KubeConfigMerger(paths)  # type: ignore[no-untyped-call]
        files = list(merger.config_files.values())
    except OSError as error:
        raise ConfigurationError(f'kubeconfig "{paths}": {error.strerror or "cannot be read"}') from error
    except _MALFORMED as error:
        raise ConfigurationError(f'kubeconfig "{paths}": not a valid kubeconfig') from error
    if not files:
        raise ConfigurationError(f'kubeconfig "{paths}": no such file; name one, or set KUBECONFIG')
    return [file for file in files if isinstance(file, dict)]


def _find(paths: str, files: list[dict[str, Any]], kind: str, name: str) -> Mapping[str, Any]:
    for file in files:
        for entry in file.get(f"{kind}s") or []:
            if isinstance(entry, dict) and entry.get("name") == name:
                value = entry.get(kind) or {}
                return value if isinstance(value, dict) else {}
    raise ConfigurationError(f'kubeconfig "{paths}": there is no {kind} "{name}"')


def _check_credential(paths: str, configuration: Configuration, user: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if requests would be anonymous, or if a token would go over plain http."""
    loopback = _is_loopback(configuration.host)
    token = bool(configuration.api_key.get("BearerToken"))
    if configuration.host.startswith("http://") and not (loopback or not token):
        raise ConfigurationError(f'kubeconfig "{paths}": credentials over plain http; use https')
    if token or (configuration.cert_file and configuration.key_file):
        return
    if user.get("exec"):
        raise ConfigurationError(
            f'kubeconfig "{paths}": the exec plug-in gave no credential; run it by hand to see why'
        )
    if not (loopback and not user):  # a proxy on this machine, such as `kubectl proxy`, adds its own
        raise ConfigurationError(f'kubeconfig "{paths}": the user has no credential that is supported')


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
