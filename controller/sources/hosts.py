"""Which hosts sources may name, where the administrator limits them (`Network.allowed_hosts`).

Pure. A pattern is a host, or `*.` and a domain for all hosts below it, and perhaps a port; without one it is for the
usual port of the scheme. The name in the spec counts: a mirror is the administrator's choice, and where an allowed host
redirects to is that host's.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from api.errors import BundleError
from api.plugins import Network
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote

_PATTERN = re.compile(
    r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?::\d{1,5})?|\[[0-9A-Fa-f:]+\](?::\d{1,5})?"
)


def parse_pattern(text: str) -> str:
    """Return a pattern in normal spelling.

    Raises: ValueError.
    """
    if not _PATTERN.fullmatch(text):
        raise ValueError(f'"{text}" is not a host like example.com, example.com:5000 or *.example.com')
    _split(text)
    return text.lower()


def check_host(field: str, host: str, port: int, usual_port: int, network: Network) -> None:
    """Refuse a host that no pattern allows, if there are any.

    Args:
        field: path in the spec where the host is named.
        host: without brackets.
        port: that is used.
        usual_port: of the scheme.
        network: has the patterns.

    Raises: BundleError (InsecureRefused).
    """
    patterns = network.allowed_hosts
    if not patterns or any(_is_match(host.lower().rstrip("."), port, usual_port, pattern) for pattern in patterns):
        return
    shown = f"[{host}]" if ":" in host else host
    shown = shown if port == usual_port else f"{shown}:{port}"
    problem = f"host {quote(shown)} is not one of --allowed-hosts"
    message = f"{field}: {problem}; use one of these, or ask the administrator to add it"
    raise BundleError(Reason.INSECURE_REFUSED, message)


def _is_match(host: str, port: int, usual_port: int, pattern: str) -> bool:
    wanted, wanted_port = _split(pattern)
    if port != (wanted_port or usual_port):
        return False
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted


def _split(pattern: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{pattern}")
    return parts.hostname or "", parts.port
