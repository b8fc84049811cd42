"""Finds a program that a format or processor runs, checks its version, and runs it, confined, on untrusted content.

The program has its own session, and its process group is killed at the deadline, on cancel, above its output limit, and
when it exits. Memory, processor time and open files are limited before it starts. It cannot write files, reads only the
scratch folder and what it is given, and opens no sockets; it also gets its own network namespace if the kernel permits
it. Of our environment it inherits only PATH: no home and no cluster.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Means, ProgramResult, ProgramVersion
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.disk import Spool, disk_errors_reported
from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.processes.memory_limit import RESERVED_BYTES
from rukpak.controller.processes.programs import (
    CHUNK,
    STARTING,
    WITHOUT_NETWORK,
    Mechanisms,
    ProcessGroup,
    View,
    confined,
    programs,
    read_pipes,
    start_confined,
)

_STDERR_BYTES = 256 * 1024  # kept of stderr: enough for a thousand templates that include one another
_PROCESSORS = 2
_FILES = 256
_PROXY = "http://127.0.0.1:1"  # where nothing listens
_NOWHERE = "/nonexistent"
_HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
LEAST_BYTES = 64 * MEBIBYTE
log = logging.getLogger(__name__)
_State: TypeAlias = tuple[int, int, int]


def run_program(
    command: Sequence[str],
    means: Means,
    *,
    subject: str,
    text: bytes = b"",
    environment: Mapping[str, str] | None = None,
    read: Sequence[Path] = (),
) -> ProgramResult:
    """Run a program in the scratch folder and wait until it exits.

    Args:
        command: absolute path and arguments: no secrets, no names from content.
        means: its limits, scratch folder and cancel token.
        subject: messages start with it.
        text: its standard input.
        environment: variables in addition to those of all programs, or instead of them.
        read: files and folders that it may read in addition to the scratch folder.

    Raises: BundleError (RenderLimitExceeded for time and output; RenderFailed if it is canceled; NotSupported if the
        kernel cannot confine it).
    """
    variables = {**_environment(means), **(environment or {})}
    with Spool(scratch_of(means), "input") as spool:
        spool.append(text)
        process = _spawn(command, spool.rewind(), means, variables, read)
        with ProcessGroup(process) as group:
            return _collect(process, group, means, f"{subject}: ", Path(command[0]).name)


def program_memory(means: Means) -> int:
    """Return the bytes of memory that a program may use: its address space without what Go reserves and never uses."""
    return max(means.memory_bytes - RESERVED_BYTES, LEAST_BYTES)


def copy_program(program: Path, copy: Path, means: Means) -> str:
    """Copy a program to where nobody else can change it, so that what runs is what was compared with a digest.

    Args:
        program: a file, executable or not.
        copy: does not exist, in the scratch folder; it can be passed to `run_program`.
        means: its limit of one file and its share of the disk.

    Returns: the digest of the copy, `sha256:…`.
    Raises: BundleError (NotSupported if it cannot be read or is too large, StorageFull).
    """
    digest, size = hashlib.sha256(), 0
    with _opened(program) as source, disk_errors_reported(program.name), copy.open("xb") as target:
        while data := source.read(CHUNK):
            size += len(data)
            if size > means.limits.file_bytes:
                problem = f'"{program}" exceeds the limit of {describe_bytes(means.limits.file_bytes)} for one file'
                raise BundleError(Reason.NOT_SUPPORTED, f"{problem}; install a smaller program")
            means.occupy(len(data))
            digest.update(data)
            target.write(data)
        copy.chmod(0o500)
    with STARTING:
        pass  # A child that was forked before has the copy open for writing no longer.
    return f"sha256:{digest.hexdigest()}"


def _opened(program: Path) -> BinaryIO:
    try:
        return program.open("rb")
    except OSError as error:
        problem = f'"{program}" cannot be read: {error.strerror}'
        raise BundleError(Reason.NOT_SUPPORTED, f"{problem}; correct its permissions") from None


def scratch_of(means: Means) -> Path:
    """Return the scratch folder.

    Raises: RuntimeError if there is none, which is a bug of the caller.
    """
    if means.scratch is None:
        raise RuntimeError("there is no scratch folder")
    return means.scratch


def _spawn(
    command: Sequence[str],
    source: BinaryIO,
    means: Means,
    environment: Mapping[str, str],
    read: Sequence[Path],
) -> subprocess.Popen[bytes]:
    folder = scratch_of(means)
    namespaces = WITHOUT_NETWORK if Mechanisms.found().network_namespace else ()
    seconds = int(means.seconds * _PROCESSORS) + 1
    limits = {"core": 0, "fsize": 0, "nofile": _FILES, "cpu": seconds, "as": means.memory_bytes}
    wrapped = confined([*namespaces, *command], raisable=False, **limits)

    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            wrapped,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )

    view = View(programs=(Path(command[0]), *programs("prlimit", "unshare")), read=(folder.resolve(), *read))
    return start_confined(_start, view, Path(command[0]).name, required=means.confinement_required)


def _environment(means: Means) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "KUBECONFIG": os.devnull,
        "NO_COLOR": "1",
        "GOMAXPROCS": str(_PROCESSORS),
        "GOMEMLIMIT": str(means.memory_bytes * 3 // 4),
        **dict.fromkeys(_HOMES, _NOWHERE),
        **dict.fromkeys(_PROXIES, _PROXY),
    }


def _collect(
    process: subprocess.Popen[bytes], group: ProcessGroup, means: Means, subject: str, name: str
) -> ProgramResult:
    deadline = time.monotonic() + means.seconds
    output, stderr = bytearray(), bytearray()

    def _take_output(data: bytes) -> None:
        output.extend(data)
        if len(output) > means.output_bytes:
            problem = f"output of {name} exceeds the limit of {describe_bytes(means.output_bytes)}; split the bundle"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, subject + problem)

    def _check() -> None:
        if means.cancelled.is_set():
            raise BundleError(Reason.RENDER_FAILED, f"{subject}canceled: the result is no longer needed")
        if time.monotonic() >= deadline:
            problem = f"timed out: {name} takes more than {means.seconds:g} s"
            remedy = "simplify the bundle or raise --render-timeout"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{subject}{problem}; {remedy}")

    takers = {
        cast("BinaryIO", process.stdout): _take_output,
        cast("BinaryIO", process.stderr): lambda data: stderr.extend(data[: _STDERR_BYTES - len(stderr)]),
    }
    read_pipes(takers, _check)
    return ProgramResult(status=group.wait(_check), output=bytes(output), stderr=stderr.decode(errors="replace"))


class ProgramFinder:
    """Finds a program, and logs its version once, and again if the file changes. Thread-safe.

    Args:
        name: of the program, as on PATH and in `Means.programs`.
        arguments: make it print its version.
        read_version: returns the version in what it prints; empty if this version is not supported.
        remedy: what to install, and what else to do; errors end with it.
        fallback: returns the path of a program to use where PATH has none; empty if there is none.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        read_version: Callable[[str], str],
        *,
        remedy: str,
        fallback: Callable[[], str] = str,
    ) -> None:
        self._name, self._arguments, self._read_version = name, tuple(arguments), read_version
        self._remedy, self._fallback = remedy, fallback
        self._checked: dict[Path, tuple[_State, ProgramVersion]] = {}
        self._lock = threading.Lock()

    def find(self, means: Means, field: str) -> ProgramVersion:
        """Return the program that `means` names, else the one on PATH, else the fallback; errors start with `field`.

        Raises: BundleError (NotSupported) if there is none, or its version is not supported.
        """
        path = self._locate(means.programs.get(self._name, ""), field)
        try:
            found = path.stat()
        except OSError as error:
            raise self._missing(f'"{path}" cannot be read: {error.strerror}', field) from None
        state = found.st_ino, found.st_size, found.st_mtime_ns  # changes when the file is replaced, as by an upgrade
        with self._lock:
            checked, program = self._checked.get(path, (None, None))
            if program is None or checked != state:
                program = self._check(path, means, field)
                self._checked[path] = state, program
        return program

    def _missing(self, problem: str, field: str) -> BundleError:
        return BundleError(Reason.NOT_SUPPORTED, f"{problem}; {self._remedy}", place=field)

    def _locate(self, named: str, field: str) -> Path:
        found = shutil.which(named or self._name) or ("" if named else shutil.which(self._fallback()))
        if found:
            return Path(os.path.abspath(found))  # noqa: PTH100 - by the name of a link, a program may know what it is
        raise self._missing(f'no program "{named}"' if named else f"no {self._name} on PATH", field)

    def _check(self, path: Path, means: Means, field: str) -> ProgramVersion:
        result = run_program([str(path), *self._arguments], means, subject=f"the version of {self._name}")
        version = self._read_version(result.output.decode(errors="replace").strip())
        if result.status or not version:
            raise self._missing(f'"{path}" is no supported version of {self._name}', field)
        with path.open("rb") as file:
            digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        log.info(
            "program found", extra={"program": self._name, "path": str(path), "version": version, "digest": digest}
        )
        return ProgramVersion(path=path, version=version, digest=digest)
