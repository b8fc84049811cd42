"""What a program that is started may use and reach: limits, a view of the files, and no network but what it needs.

A child sees the folder of its call, the programs with their libraries, and some public files of /etc; of the network it
has nothing, or one TCP port. Landlock and seccomp hold for the thread that asks for them and for what it starts. So a
thread is restricted, starts the child, and ends: the controller stays free, and nothing of ours runs between fork and
exec, which is not safe beside other threads. prlimit(1) sets the limits. No shell takes part.

Where the kernel cannot do that nothing is started, unless the administrator takes what there is.
Not here: rulesets and filters (landlock.py, seccomp.py), and how a program ends (group.py).
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.processes import landlock, seccomp
from controller.processes.landlock import Right

Child = TypeVar("Child")

STARTING = threading.Lock()
"""Held while a program is started, and while a file is written that is to be started itself.

A child that is forked meanwhile has that file open for writing until it is another program, and so long the kernel
refuses to start it (execve(2), ETXTBSY).
"""

WITHOUT_NETWORK = ("unshare", "--user", "--net")
"""What puts a program into a network namespace of its own, where the kernel lets everybody make one."""

_PROGRAMS = (
    *("/bin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec"),
    *("/usr/local/bin", "/usr/local/lib", "/nix/store"),
)
"""Where programs and libraries are, which everybody may read on every system."""
_PUBLIC = (
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/services"),
    *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf"),
    *("/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf", "/etc/ca-certificates", "/var/lib/ca-certificates"),
    *("/etc/pki/ca-trust/extracted", "/etc/crypto-policies", "/etc/gnutls", "/usr/share/ca-certificates"),
    *(
        "/usr/local/share/ca-certificates",
        "/etc/localtime",
        "/usr/share/zoneinfo",
        "/dev/urandom",
        "/dev/random",
        "/dev/zero",
    ),
)
"""Users, certificate authorities, time zones. No resolver: who may use the network gets addresses."""
_FOR_ALL = {
    **{Path(path): Right.RUN for path in _PROGRAMS},
    **{Path(path): Right.READ for path in _PUBLIC},
    Path(os.devnull): Right.READ | Right.WRITE_FILE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one child may reach, beside what all may."""

    programs: tuple[Path, ...] = ()
    """That are started, wherever they are."""
    read: tuple[Path, ...] = ()
    change: tuple[Path, ...] = ()
    """Folders in which it may make, change and remove files."""
    port: int = 0
    """Of TCP, that it may connect to; 0: it opens no socket at all."""

    def rights(self) -> dict[Path, Right]:
        """Return the rights by path."""
        programs = (found for program in self.programs for found in (program, *_installed_with(program)))
        return {
            **_FOR_ALL,
            **dict.fromkeys(self.read, Right.READ),
            **dict.fromkeys(self.change, Right.CHANGE),
            **dict.fromkeys(programs, Right.RUN),
        }


def _installed_with(program: Path) -> tuple[Path, ...]:
    """Return where what a program needs is, if it is installed by itself: /opt/git/bin/git and /opt/git/libexec."""
    folder = program.resolve().parent
    return (folder.parent / "lib", folder.parent / "libexec") if folder.name == "bin" else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanisms:
    """What this machine has for keeping a child in its place."""

    landlock: int
    """The ABI; 0: none."""
    seccomp: bool
    network_namespace: bool

    @staticmethod
    @cache
    def found() -> Mechanisms:
        """Return what there is; it is tried once."""
        return Mechanisms(
            landlock=landlock.version(), seccomp=seccomp.is_available(), network_namespace=_makes_namespaces()
        )

    def lack(self) -> str:
        """Return what a child cannot be kept from; empty if there is nothing."""
        if not self.landlock:
            return "the kernel has no Landlock, so that nothing keeps it from other files"
        return "" if self.seccomp else "the kernel has no seccomp filters, so that nothing keeps it from the network"

    def counted(self) -> Mapping[str, int]:
        """Return the strength of each mechanism, for metrics; 0: there is none."""
        return {name: int(getattr(self, name)) for name in ("landlock", "seccomp", "network_namespace")}

    def described(self) -> Mapping[str, str]:
        """Return what is in force, for the log."""
        files = f"landlock ABI {self.landlock}" if self.landlock else "not confined: the kernel has no Landlock"
        network = [name for name, has in (("seccomp", self.seccomp), ("namespace", self.network_namespace)) if has]
        return {"files": files, "network": " and ".join(network) or "not confined: the kernel has no seccomp"}


def _makes_namespaces() -> bool:
    quiet = subprocess.DEVNULL
    with suppress(OSError, subprocess.SubprocessError):
        command = [*WITHOUT_NETWORK, "true"]
        subprocess.run(command, check=True, stdin=quiet, stdout=quiet, stderr=quiet, timeout=10)
        return True
    return False


def start_confined(spawn: Callable[[], Child], view: View, subject: str, *, required: bool) -> Child:
    """Call what starts a program on a thread that is confined to a view, as the program is then.

    Args:
        spawn: is to do nothing else. Its files have to be open already, or be in the view.
        view: what the program may reach.
        subject: field path that messages begin with.
        required: start nothing where the kernel lacks a mechanism; otherwise those that there are are used.

    Raises: BundleError (NotSupported); what `spawn` raises.
    """
    found = Mechanisms.found()
    if required and (lack := found.lack()):
        remedy = "use a kernel, and a runtime, with both, or allow it by --confinement=best-effort"
        raise BundleError(Reason.NOT_SUPPORTED, f"{subject}: a program must not be started: {lack}; {remedy}")
    with ThreadPoolExecutor(1, thread_name_prefix="confined") as pool:
        return pool.submit(_restricted, found, view, spawn).result()


def _restricted(found: Mechanisms, view: View, spawn: Callable[[], Child]) -> Child:
    ports = (view.port,) if view.port else ()
    if found.landlock:
        with landlock.ruleset(view.rights(), ports, abi=found.landlock) as rules:
            landlock.restrict(rules)
    if found.seccomp:
        seccomp.restrict(tcp=bool(view.port))
    with STARTING:
        return spawn()


def confined(command: Sequence[str], **limits: int) -> list[str]:
    """Return the command that runs a program within limits; 126 and 127 tell that it could not be started.

    Args:
        command: program and arguments.
        limits: by the names of setrlimit(2), such as `fsize`, in its units. What this process may not exceed itself
            is not raised.

    Raises: RuntimeError: there is no prlimit.
    """
    if shutil.which("prlimit") is None:
        raise RuntimeError("prlimit cannot be found; install util-linux beside the controller")
    return ["prlimit", *(f"--{name}={_bounded(name, amount)}" for name, amount in limits.items()), "--", *command]


def programs(*names: str) -> tuple[Path, ...]:
    """Return where the programs with these names are; those that are not there are left out."""
    found = (shutil.which(name) for name in names)
    return tuple(Path(path).resolve() for path in found if path)


def _bounded(name: str, amount: int) -> int:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return amount if hard == resource.RLIM_INFINITY else min(amount, hard)
