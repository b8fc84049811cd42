"""How git reaches a repository: the address that was judged, who asks, and whom to trust.

Invariants: git connects to an address that was judged beforehand, and not to what the name means a moment later;
credentials go over verified https to the host that they are for, or by key over ssh to a host that known_hosts knows.
They are in the environment of the child and in files of its scratch folder. Git follows no redirect.

Not here: where a redirect leads (redirect.py).
"""

from __future__ import annotations

import base64
import ipaddress
import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Credentials
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.processes.confinement import STARTING
from controller.sources.addresses import forbidden
from controller.sources.git.reference import HTTP, SSH, Repository
from controller.sources.hosts import check_host
from controller.sources.pace import RATE_SECONDS
from controller.sources.transport import is_certificate_data

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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Connection:
    """What git is given to reach one repository; secrets are in it, so it has no repr."""

    protocols: str
    """For GIT_ALLOW_PROTOCOL."""
    config: Mapping[str, str]
    port: int
    """Of TCP: the only one that git gets."""
    environment: Mapping[str, str] = field(default_factory=dict)
    program: Path | None = None
    """That git starts, in the scratch folder."""


def connect(repository: Repository, parameters: Mapping[str, Any], access: Access) -> Connection:
    """Judge addresses and credentials, and write what git reads from files into the scratch folder.

    Raises: BundleError (Unreachable, InsecureRefused, Unauthorized, HostKeyUnknown, SecretInvalid).
    """
    check_host(f"{access.path}.repository", repository.host, repository.port, repository.usual_port, access.network)
    credentials = access.credentials or Credentials()
    insecure = bool(parameters.get("insecureSkipTLSVerify"))
    addresses = _admitted(repository, access, plain=repository.scheme == HTTP and not insecure)
    if repository.scheme == SSH:
        return _connect_ssh(repository, addresses, credentials, access)
    header = header_of(repository, credentials, access)
    if header and (insecure or repository.scheme == HTTP):
        why = "plain http" if repository.scheme == HTTP else "a connection that insecureSkipTLSVerify leaves unverified"
        message = f"{access.path}.auth: credentials must not go over {why}; use https and certificateData"
        raise BundleError(Reason.INSECURE_REFUSED, message)
    config = {
        "remote.origin.url": repository.url,
        "http.followRedirects": "false",  # it would connect to addresses that nobody has judged
        "http.sslVerify": "false" if insecure else "true",
        "http.lowSpeedLimit": str(access.network.bytes_per_second),
        "http.lowSpeedTime": f"{RATE_SECONDS:.0f}",
        **_pin(repository, addresses),
        **_trust(authority_of(parameters, access), access),
    }
    if header:
        config[f"http.{repository.scheme}://{repository.authority}/.extraHeader"] = f"Authorization: {header}"
    return Connection(protocols=repository.scheme, config=config, port=repository.port)


# the address


def _admitted(repository: Repository, access: Access, *, plain: bool) -> list[str]:
    """Return the addresses of the host that may be talked to, in the resolver's order."""
    problems: list[str] = []
    found: list[str] = []
    for address in _resolve(repository, access):
        problem = forbidden(address, access.network, plain=plain)
        (problems if problem else found).append(problem or address)
    if not found:
        message = (
            f"{access.path}.repository: {quote(repository.host)} must not be used: {problems[0]}; use another address"
        )
        raise BundleError(Reason.INSECURE_REFUSED, message)
    return found


def _resolve(repository: Repository, access: Access) -> list[str]:
    try:
        answers = socket.getaddrinfo(repository.host, repository.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        message = f"{quote(repository.host)} cannot be used: its name cannot be resolved; check address and network"
        raise BundleError(Reason.UNREACHABLE, f"{access.path}.repository: {message}") from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _pin(repository: Repository, addresses: list[str]) -> dict[str, str]:
    """Return the setting that makes curl use just these addresses, whatever the name means by then."""
    if _is_address(repository.host):
        return {}
    shown = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
    return {"http.curloptResolve": f"{repository.host}:{repository.port}:{shown}"}


# http


def authority_of(parameters: Mapping[str, Any], access: Access) -> str:
    """Return the certificate authorities to trust, in PEM; '' for the usual ones."""
    return parameters.get("certificateData") or (access.credentials or Credentials()).certificate_authority


def header_of(repository: Repository, credentials: Credentials, access: Access) -> str:
    """Return what `Authorization` is to say; '' for nothing.

    Raises: BundleError (SecretInvalid).
    """
    if credentials.bearer_token:
        token = credentials.bearer_token.strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            message = f"{access.path}.auth: key bearerToken of the Secret is no token; write it anew"
            raise BundleError(Reason.SECRET_INVALID, message)
        return f"Bearer {token}"
    if credentials.password:
        user = credentials.username or repository.user
        return "Basic " + base64.b64encode(f"{user}:{credentials.password}".encode()).decode()
    return ""


def _trust(authority: str, access: Access) -> dict[str, str]:
    if not authority:
        return {}
    if not is_certificate_data(authority):
        message = f"{access.path}.auth: key ca.crt of the Secret is not a bundle of PEM certificates; correct it"
        raise BundleError(Reason.SECRET_INVALID, message)
    nothing = access.scratch / "no-certificates"  # else curl adds the system's folder
    nothing.mkdir(exist_ok=True)
    return {
        "http.sslCAInfo": str(_write(access.scratch / "certificates.pem", authority)),
        "http.sslCAPath": str(nothing),
    }


# ssh


def _connect_ssh(repository: Repository, addresses: list[str], credentials: Credentials, access: Access) -> Connection:
    if not credentials.ssh_private_key:
        message = f"{access.path}.auth: ssh needs a key; name a Secret with ssh-privatekey and known_hosts"
        raise BundleError(Reason.UNAUTHORIZED, message)
    if _is_encrypted(credentials.ssh_private_key):
        message = f"{access.path}.auth: the private key of the Secret needs a passphrase; put one there that needs none"
        raise BundleError(Reason.SECRET_INVALID, message)
    if not credentials.known_hosts.strip():
        message = (
            f"{access.path}.auth: the Secret does not say which host key {quote(repository.authority)} has; add the "
            "key known_hosts"
        )
        raise BundleError(Reason.HOST_KEY_UNKNOWN, message)
    key = _write(access.scratch / "identity", credentials.ssh_private_key.strip() + "\n")
    known_hosts = _write(access.scratch / "known_hosts", credentials.known_hosts.strip() + "\n")
    options = [
        *_SSH_OPTIONS,
        f"IdentityFile={_quoted(key)}",
        f"UserKnownHostsFile={_quoted(known_hosts)}",
        # ssh tries the one address that it gets: one that can be reached from everywhere, if there is a choice
        f"HostName={min(addresses, key=lambda address: ':' in address)}",
        f"HostKeyAlias={repository.host_key_name}",
        *([] if repository.user else ["User=git"]),
    ]
    program = _write_program(options, access)
    return Connection(
        protocols=SSH,
        config={"remote.origin.url": repository.url},
        port=repository.port,
        environment={"GIT_SSH": str(program), "GIT_SSH_VARIANT": "ssh"},
        program=program,
    )


def _write_program(options: list[str], access: Access) -> Path:
    """Write the settings of ssh as a file that is ssh with these settings when it is started.

    git starts ssh with options of ours through a shell only, and there may be none. This file the kernel starts as
    `ssh -F FILE`, for its first line, which is a comment to ssh: nothing else is read, no file of the user's either.
    """
    program = shutil.which("ssh")
    if program is None:
        raise RuntimeError("ssh cannot be found; install the OpenSSH client beside the controller")
    with STARTING:
        path = _write(access.scratch / "ssh", "\n".join((f"#!{program} -F", *options, "")), 0o700)
    if not os.access(path, os.X_OK):
        message = (
            f"{access.path}.repository: ssh cannot be started in the folder of the content store, which is mounted "
            "noexec; mount it without that, or use https"
        )
        raise BundleError(Reason.NOT_SUPPORTED, message)
    return path


def _is_encrypted(key: str) -> bool:
    """Return whether a private key needs a passphrase; ssh would not say so, and offer no key."""
    if "ENCRYPTED" in key:  # PEM, old and new
        return True
    body = "".join(line for line in key.splitlines() if not line.startswith("-"))
    try:
        decoded = base64.b64decode(body)
    except ValueError:
        return False
    # https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.key: a magic word, then the name of the cipher
    return decoded.startswith(_OPENSSH_KEY) and not decoded.startswith(_OPENSSH_KEY + b"\0\0\0\4none")


def _quoted(path: Path) -> str:
    """Return a path as the value of an option of ssh, which splits at blanks and expands %."""
    return '"' + str(path).replace("%", "%%") + '"'


def _write(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file that git or ssh reads; resolving and fetching make it anew in one folder at most once each."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return path.resolve()
