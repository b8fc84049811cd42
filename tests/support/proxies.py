"""Squid of this machine as a proxy. Nothing is downloaded: without one, tests are skipped and say so.

It knows names that nobody else does, as the proxy of a company does: `NAMES`, which are all this machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rukpak.controller.playground.processes import Process, free_ports, wait_for

MISSING = "no Squid on PATH; where there is root: apt-get install squid"
NAMES = ("files.acme.example", "forge.acme.example", "registry.acme.example", "tokens.acme.example")
USER, PASSWORD = "robot", "canary@p:w/rd #1%"
_PASSWORDS = f"{USER}:$apr1$abcdefgh$Ha29.7ICE0ASM/FmbJRWb/\n"
"""As `openssl passwd -apr1` makes it."""
_ACCOUNT = "proxy"  # Debian's; Squid refuses to be root
_HELPERS = ("/usr/lib/squid/basic_ncsa_auth", "/usr/lib64/squid/basic_ncsa_auth")
_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Squid:
    """A running proxy."""

    port: int
    log: Path
    url: str
    """With the credentials that it wants, if it wants some."""

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    def requests(self) -> list[str]:
        """Return status, method and address of the requests that have ended, in order."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [line.removeprefix("rukpak ") for line in lines if line.startswith("rukpak ")]


@contextmanager
def running_squid(*, has_password: bool = False, denied: str = "") -> Iterator[Squid]:
    """Provide a proxy that connects to any port.

    Args:
        has_password: whether it wants `USER` and `PASSWORD`.
        denied: a host that it does not connect to.

    Raises: pytest's Skipped if there is none.
    """
    program = shutil.which("squid") or shutil.which("squid", path="/usr/sbin")
    helper = next(filter(os.path.exists, _HELPERS), None)
    if program is None or helper is None:
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="squid-"))
    try:
        folder.chmod(0o755)
        (port,) = free_ports(1)
        (folder / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in NAMES), encoding="ascii")
        (folder / "passwords").write_text(_PASSWORDS, encoding="ascii")
        (folder / "squid.conf").write_text(
            "".join(f"{line}\n" for line in _configuration(folder, port, helper if has_password else "", denied)),
            encoding="ascii",
        )
        if os.geteuid() == 0:
            shutil.chown(folder, _ACCOUNT)
        process = Process("squid", folder, [program, "-N", "-f", folder / "squid.conf"], {})
        process.start()
        try:
            wait_for(lambda: _is_listening(port, process), _SECONDS, lambda: f"squid: {process.last_words()}")
            user = "robot:canary%40p%3Aw%2Frd%20%231%25@" if has_password else ""
            yield Squid(port=port, log=folder / "access.log", url=f"http://{user}127.0.0.1:{port}")
        finally:
            process.kill()
    finally:
        shutil.rmtree(folder)


def _configuration(folder: Path, port: int, helper: str, denied: str) -> Iterator[str]:
    yield f"http_port 127.0.0.1:{port}"
    yield f"hosts_file {folder}/hosts"
    yield f"pid_filename {folder}/squid.pid"
    yield f"cache_log {folder}/cache.log"
    yield "logformat short rukpak %>Hs %rm %ru"
    yield f"access_log stdio:{folder}/access.log logformat=short"
    yield f"coredump_dir {folder}"
    yield "cache deny all"
    yield "visible_hostname proxy.acme.example"
    yield "shutdown_lifetime 0 seconds"
    yield "pinger_enable off"
    yield "via off"
    if os.geteuid() == 0:
        yield f"cache_effective_user {_ACCOUNT}"
    if denied:
        yield f"acl denied dstdomain {denied}"
        yield "http_access deny denied"
    if helper:
        yield f"auth_param basic program {helper} {folder}/passwords"
        yield "acl users proxy_auth REQUIRED"
        yield "http_access allow users"
        yield "http_access deny all"
    else:
        yield "http_access allow all"


def _is_listening(port: int, process: Process) -> bool:
    if not process.is_running():
        raise RuntimeError(f"squid ended: {process.last_words()}")
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
