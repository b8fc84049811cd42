"""Hosts of sources: how they are written, and which ones the administrator allows (`Network.allowed_hosts`).

Pure. A pattern is a host, or `*.` and a domain for all hosts below it, and optionally a port, by default the usual one
of the scheme. Only the host in the spec is checked: the administrator chooses mirrors, and an allowed host its
redirects.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from api.errors import BundleError
from api.plugins import Network
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote

PORTS = {"https": 443, "http": 80, "ssh": 22}
"""The usual port of each scheme."""
_PATTERN = re.compile(
    r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?::\d{1,5})?|\[[0-9A-Fa-f:]+\](?::\d{1,5})?"
)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own, without resolving it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def authority(host: str, port: int, usual_port: int) -> str:
    """Return a host, and its port unless it is the usual one, as URLs and messages contain them."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == usual_port else f"{shown}:{port}"


def parse_pattern(text: str) -> str:
    """Return a pattern in normal form.

    Raises: ValueError.
    """
    if not _PATTERN.fullmatch(text):
        raise ValueError(f'"{text}" is not a host like example.com, example.com:5000 or *.example.com')
    _split(text)
    return text.lower()


def check_host(field: str, host: str, port: int, usual_port: int, network: Network) -> None:
    """Refuse a host that no pattern allows, if there are any.

    Args:
        field: path of the field that names the host.
        host: without brackets.
        port: of the host.
        usual_port: of the scheme.
        network: has the patterns.

    Raises: BundleError (InsecureRefused).
    """
    patterns = network.allowed_hosts
    if not patterns or any(_is_match(host.lower().rstrip("."), port, usual_port, pattern) for pattern in patterns):
        return
    problem = f"host {quote(authority(host, port, usual_port))} is not in --allowed-hosts"
    message = f"{field}: {problem}; use an allowed host, or ask the administrator to add it"
    raise BundleError(Reason.INSECURE_REFUSED, message)


def _is_match(host: str, port: int, usual_port: int, pattern: str) -> bool:
    wanted, wanted_port = _split(pattern)
    if port != (wanted_port or usual_port):
        return False
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted


def _split(pattern: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{pattern}")
    return parts.hostname or "", parts.port
