"""A program as a child process: confined to limits, accessible files, and no more network than needed; ended as one.

A child can access its working folder, programs with their libraries, and public files of /etc; it has no network, or
one TCP port. Landlock and seccomp apply to the calling thread and its children. So a thread restricts itself, starts
the child, and ends: the controller stays unrestricted, and no Python code runs between fork and exec, which is unsafe
with other threads. prlimit(1) sets the limits. No shell is involved.

If the kernel lacks these, no program is started, unless the administrator accepts what the kernel supports.

A program and its children are one process group in a session of its own, watched and killed as one.
Not here: rulesets and filters (kernel.py), and the meaning of output.
"""

from __future__ import annotations

import os
import resource
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Self, TypeVar

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.processes import kernel
from rukpak.controller.processes.kernel import Right

Child = TypeVar("Child")

STARTING = threading.Lock()
"""Held while starting a program, and while writing a file that will be started itself.

A child forked during the write has that file open until it executes its own program, and the kernel refuses to execute
a file that is open for writing (execve(2), ETXTBSY).
"""

WITHOUT_NETWORK = ("unshare", "--user", "--net")
"""Runs a program in an empty network namespace, where the kernel allows unprivileged ones."""

_PROGRAMS = (
    *("/bin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec"),
    *("/usr/local/bin", "/usr/local/lib", "/nix/store"),
)
"""Folders of programs and libraries, which are world-readable on every system."""
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
"""Users, certificate authorities, time zones. No resolver: children with network access get addresses."""
_FOR_ALL = {
    **{Path(path): Right.RUN for path in _PROGRAMS},
    **{Path(path): Right.READ for path in _PUBLIC},
    Path(os.devnull): Right.READ | Right.WRITE_FILE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one child may access in addition to what all may."""

    programs: tuple[Path, ...] = ()
    """That it may run, wherever they are."""
    read: tuple[Path, ...] = ()
    change: tuple[Path, ...] = ()
    """Folders in which it may create, change and delete files."""
    port: int = 0
    """The TCP port that it may connect to; 0: it may not open sockets."""

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
    # /opt/git/libexec for /opt/git/bin/git.
    folder = program.resolve().parent
    return (folder.parent / "lib", folder.parent / "libexec") if folder.name == "bin" else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanisms:
    """The confinement that this machine supports."""

    landlock: int
    """ABI version; 0: unavailable."""
    seccomp: bool
    network_namespace: bool

    @staticmethod
    @cache
    def found() -> Mechanisms:
        """Probe the machine, once."""
        return Mechanisms(
            landlock=kernel.landlock_version(),
            seccomp=kernel.has_seccomp(),
            network_namespace=_has_network_namespaces(),
        )

    def lack(self) -> str:
        """Return which required mechanism is missing, and its effect; empty if none is."""
        if not self.landlock:
            return "the kernel has no Landlock, so it could access any file"
        return "" if self.seccomp else "the kernel has no seccomp filters, so it could access the network"

    def counted(self) -> Mapping[str, int]:
        """Return the mechanisms as metric values; 0: unavailable."""
        return {name: int(getattr(self, name)) for name in ("landlock", "seccomp", "network_namespace")}

    def described(self) -> Mapping[str, str]:
        """Return the effective confinement, for the log."""
        files = f"landlock ABI {self.landlock}" if self.landlock else "not confined: the kernel has no Landlock"
        network = [name for name, has in (("seccomp", self.seccomp), ("namespace", self.network_namespace)) if has]
        return {"files": files, "network": " and ".join(network) or "not confined: the kernel has no seccomp"}


def _has_network_namespaces() -> bool:
    quiet = subprocess.DEVNULL
    with suppress(OSError, subprocess.SubprocessError):
        command = [*WITHOUT_NETWORK, "true"]
        subprocess.run(command, check=True, stdin=quiet, stdout=quiet, stderr=quiet, timeout=10)
        return True
    return False


def start_confined(spawn: Callable[[], Child], view: View, subject: str, *, required: bool) -> Child:
    """Start a program that is confined to a view.

    Args:
        spawn: starts the program and does nothing else, on a confined thread: it can only open files of the view.
        view: what the program may access.
        subject: field path that errors start with.
        required: fail if the kernel lacks a mechanism, instead of using the others.

    Raises: BundleError (NotSupported); whatever `spawn` raises.
    """
    found = Mechanisms.found()
    if required and (lack := found.lack()):
        remedy = "use a kernel and container runtime with both, or allow it with --confinement=best-effort"
        raise BundleError(Reason.NOT_SUPPORTED, f"{subject}: cannot confine a program: {lack}; {remedy}")
    with ThreadPoolExecutor(1, thread_name_prefix="confined") as pool:
        return pool.submit(_spawn_restricted, found, view, spawn).result()


def _spawn_restricted(found: Mechanisms, view: View, spawn: Callable[[], Child]) -> Child:
    ports = (view.port,) if view.port else ()
    if found.landlock:
        with kernel.ruleset(view.rights(), ports, abi=found.landlock) as rules:
            kernel.restrict_access(rules)
    if found.seccomp:
        kernel.restrict_calls(tcp=bool(view.port))
    with STARTING:
        return spawn()


def confined(command: Sequence[str], *, raisable: bool = False, **limits: int) -> list[str]:
    """Return a command that runs a program within limits; its status is 126 or 127 if the program cannot be started.

    Limits have the names and units of setrlimit(2), such as `fsize`, and are capped at the hard limits of this process.
    If they are `raisable`, programs that the program starts may have higher ones.

    Raises: RuntimeError if prlimit is not installed.
    """
    if shutil.which("prlimit") is None:
        raise RuntimeError("prlimit not found on PATH; install util-linux")
    end = ":" if raisable else ""
    return ["prlimit", *(f"--{name}={_bounded(name, amount)}{end}" for name, amount in limits.items()), "--", *command]


def programs(*names: str) -> tuple[Path, ...]:
    """Return the paths of programs on PATH; missing ones are left out."""
    found = (shutil.which(name) for name in names)
    return tuple(Path(path).resolve() for path in found if path)


def _bounded(name: str, amount: int) -> int:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return amount if hard == resource.RLIM_INFINITY else min(amount, hard)


TICK = 0.05
"""Longest time between two calls of a check, in seconds."""
NICENESS = 10
"""Above that of the controller, whose own is 0: a tenth of its weight for the scheduler."""
_FIRST_PAUSE = 0.001  # most programs end right after their output
CHUNK = 64 * 1024
"""Most bytes that one read of a pipe returns."""


class ProcessGroup:
    """A running program that leads a process group, as a context manager that kills the whole group on exit.

    The process must have been started with `start_new_session`. Thread-safe: nothing is killed after the program was
    reaped, since its PID may have been reused. The group gets the processor while the controller does not need it, so
    that what a tenant has to compute delays passes over the BundleDeployments of others as little as possible.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reaping = threading.Lock()
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PGRP, process.pid, NICENESS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def kill(self) -> None:
        """Kill the whole group, unless the program was reaped."""
        with self._reaping:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, check: Callable[[], None] | None = None) -> int:
        """Wait for the program as `await_end` does, and reap it; see `reap` for the result."""
        self.await_end(check)
        return self.reap()

    def await_end(self, check: Callable[[], None] | None = None) -> None:
        """Wait until the program ends and kill the rest of the group; the program keeps its PID until it is reaped.

        `check` is called at least every `TICK`; what it raises ends the wait.
        """
        if check is None:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._poll(check)
        self.kill()

    def reap(self) -> int:
        """Return the exit status of a program that has ended; negative: the signal that killed it."""
        with self._reaping:
            return self._process.wait()

    def _poll(self, check: Callable[[], None]) -> None:
        pause = _FIRST_PAUSE
        while os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            check()
            time.sleep(pause)
            pause = min(2 * pause, TICK)

    def close(self) -> None:
        """Kill the group if it still runs, and close the pipes."""
        if self._process.returncode is None:
            self.kill()
            self.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()


def read_pipes(
    takers: Mapping[BinaryIO, Callable[[bytes], None]],
    check: Callable[[], None],
    ended: threading.Event | None = None,
) -> None:
    """Pass the output of each pipe to its taker until all pipes are closed, or `ended` is set and no data is pending.

    `check` is called at least every `TICK`; what it or a taker raises ends the reading.
    """
    with selectors.DefaultSelector() as selector:
        for pipe, take in takers.items():
            selector.register(pipe, selectors.EVENT_READ, take)
        while selector.get_map():
            # Asked first: between a look at the pipes and the question, the program may write its last words and end.
            is_over = ended is not None and ended.is_set()
            ready = selector.select(0 if is_over else TICK)
            if is_over and not ready:
                return
            for key, _ in ready:
                data = os.read(key.fd, CHUNK)
                key.data(data)
                if not data:
                    selector.unregister(key.fileobj)
            check()
