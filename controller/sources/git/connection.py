"""How git reaches a repository: which URLs and refs it gets, allowed addresses, credentials, and what to trust.

Git takes `ext::` and `file://` for a transport, a leading "-" for an option and a name for a pattern, so only these
forms are passed on: https, http, ssh and scp-like URLs (git-clone(1), "GIT URLS"), and refs that
git-check-ref-format(1) accepts.

Invariants: git connects only to addresses that were checked, even if the name resolves to others later; with a proxy
only to that. Credentials are sent over verified https to the host that they are for, or used as a key over ssh to a
host in known_hosts. They, and those of the proxy, are in the environment of the child and in files of its scratch
folder. Git follows no redirects. Ssh uses no proxy.

Not here: following redirects (source.py).
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote
from rukpak.controller.processes.programs import STARTING
from rukpak.controller.sources.hosts import HTTP, PORTS, Location, Place, check_host, is_address
from rukpak.controller.sources.pace import RATE_SECONDS
from rukpak.controller.sources.routes import NOT_RESOLVED, Route, find_route
from rukpak.controller.sources.trust import DEFAULT_TLS, TLSSettings, credential_headers, read_tls

FULL_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""A full object name, SHA-1 or SHA-256."""
SHORT_COMMIT = re.compile(r"[0-9a-f]{4,63}")
"""An abbreviated object name; git requires at least four digits."""
PEELED = "^{}"
"""Suffix of an annotated tag: the object that it tags."""
SSH = "ssh"
_URL_BYTES, _REF_BYTES = 2048, 255
AUTHORITY = "http.sslCAInfo"
"""The setting that names the certificates to trust, if they are given."""
_FORMS = "is not https://host/path, ssh://user@host/path or user@host:path; correct it"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NO_HOSTS = ("https", "http", "ssh", "git", "file", "ext")  # schemes without slashes
_USER = re.compile(r"[A-Za-z0-9._~][A-Za-z0-9._~-]*")
# Without blanks, control characters (also encoded: git decodes them), backslash, query and fragment.
_PATH = re.compile(r"(?:[^\s\x00-\x20\x7f-\x9f\\%?#]|%(?![01]|7[Ff])[0-9A-Fa-f]{2})+")
# A second colon would be a remote helper (ext::), two slashes another scheme (file://).
_SCP_LIKE = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^@/:]+):(?P<path>(?!//)[^:-].*)", re.DOTALL)
_REF_CHARACTERS = re.compile(r"[^\x00-\x20\x7f-\x9f~^:?*\[\\]+")
_OPENSSH_KEY = b"openssh-key-v1\0"
_SSH_OPTIONS = (
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "BatchMode=yes",
    "PreferredAuthentications=publickey",
    "StrictHostKeyChecking=yes",
    f"GlobalKnownHostsFile={os.devnull}",
    "UpdateHostKeys=no",
    "CheckHostIP=no",
    "ClearAllForwardings=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=2",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository(Location):
    """The parts of a repository URL; the scheme of an scp-like one is ssh."""

    url: str
    """For git: without the user for http and https, where headers carry the credentials."""
    user: str = ""
    normal: str
    """The URL in normal form."""

    @property
    def host_key_name(self) -> str:
        """The name of the host in known_hosts (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT")."""
        return self.host if self.port == PORTS[SSH] else f"[{self.host}]:{self.port}"


def parse_repository(text: str) -> Repository:
    """Parse the URL of a repository.

    Raises: ValueError with the problem and the remedy.
    """
    if len(text.encode(errors="replace")) > _URL_BYTES:
        raise ValueError(f"is longer than {_URL_BYTES} bytes; shorten it")
    if not text.isprintable() or " " in text:  # urlsplit would drop some of them
        raise ValueError("contains blanks or control characters; correct it")
    return _parse_url(text) if "://" in text else _parse_scp_like(text)


def _parse_url(text: str) -> Repository:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_FORMS) from None
    has_more = parts.query or parts.fragment  # before the first slash; what is behind it is checked with the path
    if parts.scheme not in PORTS or not text.lower().startswith(f"{parts.scheme}://") or has_more:
        raise ValueError(_FORMS)
    user, host = parts.username or "", _host(parts)
    if parts.password is not None:
        raise ValueError("must not contain a password; use a Secret in auth")
    if "@" in parts.netloc and not _USER.fullmatch(user):
        raise ValueError("has a user with characters other than letters, digits and . _ ~ -; correct it")
    _check_path(text.partition("://")[2].partition("/")[2])
    location = Location(scheme=parts.scheme, host=host, port=PORTS[parts.scheme] if port is None else port)
    prefix = f"{user}@" if user and parts.scheme == SSH else ""
    url = f"{parts.scheme}://{prefix}{location.authority}{parts.path}"
    return Repository(url=url, scheme=parts.scheme, host=host, port=location.port, user=user, normal=url.rstrip("/"))


def _host(parts: SplitResult) -> str:
    location = parts.netloc.rpartition("@")[2]
    host = parts.hostname or ""
    if location.startswith("["):
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError("has brackets around an invalid IPv6 address; correct it") from None
        if "%" in host:
            raise ValueError("has an address with a zone; remove the zone")
    elif not _HOST.fullmatch(host):
        raise ValueError("has an invalid host name; correct it")
    if location.endswith(":") or parts.port == 0:
        raise ValueError("has a port outside 1 to 65535; correct it")
    return host


def _parse_scp_like(text: str) -> Repository:
    match = _SCP_LIKE.fullmatch(text)
    if not match:
        raise ValueError(_FORMS)
    user, host, path = match["user"] or "", match["host"], match["path"]
    if host.lower() in _NO_HOSTS or not _HOST.fullmatch(host) or (user and not _USER.fullmatch(user)):
        raise ValueError(_FORMS)
    _check_path(path)
    host, prefix = host.lower(), f"{user}@" if user else ""
    url = f"{prefix}{host}:{path}"
    # Not ssh://, whose path is absolute: here it is relative to the user's home.
    return Repository(url=url, scheme=SSH, host=host, port=PORTS[SSH], user=user, normal=url.rstrip("/"))


def _check_path(path: str) -> None:
    if not path.strip("/"):
        raise ValueError("has no path; add the path of the repository")
    if path.startswith("-") or not _PATH.fullmatch(path):
        raise ValueError('has a path with a leading "-", blanks, control characters, a backslash, ? or #; correct it')


def check_ref(ref: str) -> None:
    """Refuse a ref that cannot be a commit, tag, branch or full ref.

    Raises: ValueError with the problem and the remedy.
    """
    parts = ref.split("/")
    if len(ref.encode(errors="replace")) > _REF_BYTES:
        raise ValueError(f"is longer than {_REF_BYTES} bytes; shorten it")
    if ref.startswith("-") or ref == "@":
        raise ValueError("is an option or an operator of git; use a commit, a tag or a branch")
    if not _REF_CHARACTERS.fullmatch(ref) or not ref.isprintable():
        raise ValueError(r"is empty, or contains a blank, a control character or one of ~^:?*[\; correct it")
    if ".." in ref or "@{" in ref or ref.endswith("."):
        raise ValueError('contains "..", "@{" or a final dot, which are not allowed in refs; correct it')
    if any(part == "" or part.startswith(".") or part.endswith(".lock") for part in parts):
        raise ValueError('has an element that is empty, starts with "." or ends in ".lock"; correct it')


def candidates(ref: str) -> tuple[str, ...]:
    """Return the full names of a ref, of which the first that exists counts (gitrevisions(7))."""
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"refs/{ref}", f"refs/tags/{ref}", f"refs/heads/{ref}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Connection:
    """What git needs to reach one repository; by default none. It contains secrets, so it has no repr."""

    protocol: str = ""
    """The only one that git may use; '' without network."""
    config: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    """The only TCP port that git may connect to; 0 without network."""
    program: Path | None = None
    """The program in the scratch folder that git starts in place of ssh."""


def connect(repository: Repository, parameters: Mapping[str, Any], access: Access) -> Connection:
    """Check addresses and credentials, and write the files for git into the scratch folder.

    Raises: BundleError (Unreachable, InsecureRefused, Unauthorized, HostKeyUnknown, SecretInvalid).
    """
    subject, is_ssh = f"{access.path}.repository", repository.scheme == SSH
    check_host(subject, repository, access.network)
    tls = DEFAULT_TLS if is_ssh else read_tls(parameters, access, repository)
    plain = repository.scheme == HTTP and tls.verify
    try:
        route = find_route(subject, repository, access.network, plain=plain, keys=tls.keys)
    except (OSError, UnicodeError):
        raise Place(subject=subject, host=repository.host).unreachable(NOT_RESOLVED) from None
    if is_ssh:
        return _connect_ssh(repository, route.addresses, access.credentials or Credentials(), access)
    headers = credential_headers(parameters, access, repository, repository.user)
    config = {"remote.origin.url": repository.url, **_http_settings(route, tls, access)}
    for name, value in headers.items():
        config[f"http.{repository.scheme}://{repository.authority}/.extraHeader"] = f"{name}: {value}"
    return Connection(protocol=repository.scheme, config=config, port=route.port)


def _http_settings(route: Route, tls: TLSSettings, access: Access) -> dict[str, str]:
    """Return the settings by which git, and curl in it, take this route only."""
    scratch = access.scratch
    found = {
        "http.followRedirects": "false",  # it would connect to addresses that were not checked
        "http.sslVerify": "true" if tls.verify else "false",
        "http.lowSpeedLimit": str(access.network.bytes_per_second),
        "http.lowSpeedTime": f"{RATE_SECONDS:.0f}",
    }
    if not is_address(route.host):  # curl must use exactly these addresses, whatever the name resolves to later
        shown = ",".join(f"[{address}]" if ":" in address else address for address in route.addresses)
        found["http.curloptResolve"] = f"{route.host}:{route.port}:{shown}"
    if route.proxy:
        found |= {"http.proxy": route.proxy.url, "http.proxyAuthMethod": "basic"}
    if tls.certificate_data:
        empty = scratch / "no-certificates"  # otherwise curl adds the system's folder
        empty.mkdir(exist_ok=True)
        found[AUTHORITY] = str(_write(scratch / "certificates.pem", tls.certificate_data))
        found["http.sslCAPath"] = str(empty)
    if route.keys:  # which are for this host: git follows no redirects
        found["http.sslCert"] = str(_write(scratch / "client.pem", _lines(route.keys.certificate)))
        found["http.sslKey"] = str(_write(scratch / "client.key", _lines(route.keys.key)))
    return found


# ssh


def _connect_ssh(
    repository: Repository, addresses: Sequence[str], credentials: Credentials, access: Access
) -> Connection:
    if not credentials.ssh_private_key:
        problem = "ssh requires a private key; use a Secret with ssh-privatekey and known_hosts"
        raise BundleError(Reason.UNAUTHORIZED, problem, place=f"{access.path}.auth")
    if _is_encrypted(credentials.ssh_private_key):
        problem = "the private key in the Secret has a passphrase; use a key without one"
        raise BundleError(Reason.SECRET_INVALID, problem, place=f"{access.path}.auth")
    if not credentials.known_hosts.strip():
        problem = f"the Secret has no known_hosts to verify the host key of {quote(repository.authority)}"
        raise BundleError(Reason.HOST_KEY_UNKNOWN, f"{problem}; add the key known_hosts", place=f"{access.path}.auth")
    key = _write(access.scratch / "identity", _lines(credentials.ssh_private_key))
    known_hosts = _write(access.scratch / "known_hosts", _lines(credentials.known_hosts))
    options = [
        *_SSH_OPTIONS,
        f"IdentityFile={_quoted(key)}",
        f"UserKnownHostsFile={_quoted(known_hosts)}",
        # ssh tries a single address: IPv4 if there is a choice, since it is reachable from more networks
        f"HostName={min(addresses, key=lambda address: ':' in address)}",
        f"HostKeyAlias={repository.host_key_name}",
        *([] if repository.user else ["User=git"]),
    ]
    config = {"remote.origin.url": repository.url}
    return Connection(protocol=SSH, config=config, port=repository.port, program=_write_program(options, access))


def _write_program(options: list[str], access: Access) -> Path:
    """Write the settings of ssh as an executable file that runs ssh with these settings.

    git passes custom options to ssh only through a shell, which may be missing. The kernel runs this file as
    `ssh -F FILE` because of its first line, a comment to ssh, which then reads no other configuration.
    """
    program = shutil.which("ssh")
    if program is None:
        raise RuntimeError("ssh not found; install the OpenSSH client where the controller runs")
    with STARTING:
        path = _write(access.scratch / "ssh", "\n".join((f"#!{program} -F", *options, "")), 0o700)
    if not os.access(path, os.X_OK):
        problem = "cannot start ssh from the content store, whose volume is mounted noexec; mount it without noexec"
        raise BundleError(Reason.NOT_SUPPORTED, f"{problem}, or use https", place=f"{access.path}.repository")
    return path


def _is_encrypted(key: str) -> bool:
    # ssh would silently offer no key.
    if "ENCRYPTED" in key:  # PEM, old and new
        return True
    body = "".join(line for line in _lines(key).splitlines() if not line.startswith("-"))
    try:
        decoded = base64.b64decode(body)
    except ValueError:
        return False
    # https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.key: magic bytes, then the name of the cipher
    return decoded.startswith(_OPENSSH_KEY) and not decoded.startswith(_OPENSSH_KEY + b"\0\0\0\4none")


def _lines(text: str) -> str:
    # ssh fails at carriage returns, blanks, and a byte order mark.
    return "".join(f"{line.strip()}\n" for line in text.removeprefix("\ufeff").strip().splitlines())


def _quoted(path: Path) -> str:
    # ssh splits values at blanks and expands %.
    return '"' + str(path).replace("%", "%%") + '"'


def _write(path: Path, text: str, mode: int = 0o600) -> Path:
    # Fetching may overwrite what resolving wrote into the same folder.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return path.resolve()
