"""One guarded run of a program that works on content from outside.

Invariants: it is in a session of its own, whose whole process group is killed at the deadline, on cancel, over its
budget of output, and once it has ended; memory, processor time and open files are bounded before it starts, and it can
write no file; it gets no variable of our environment but PATH, no home, and no cluster. It works in the scratch folder,
sees no other content, and opens no socket; where the kernel grants one it is in a network namespace of its own, too.

Not here: what is run (format.py, program.py), and what is made of its stderr (stderr.py).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from api.errors import BundleError
from api.plugins import Means
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes, quote
from controller.content.spool import Spool
from controller.processes.confinement import WITHOUT_NETWORK, Mechanisms, View, confined, programs, start_confined
from controller.processes.group import ProcessGroup, read_pipes

_STDERR_BYTES = 256 * 1024  # of stderr that is kept: a thousand templates that include one another
_PROCESSORS = 2
_FILES = 256
_PROXY = "http://127.0.0.1:1"  # where nothing listens


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended."""

    status: int
    """Below zero: the signal that ended it."""
    output: bytes
    stderr: str
    """The beginning of what it wrote to stderr: not for messages as it stands."""


def run_guarded(command: Sequence[str], text: bytes, means: Means, subject: str) -> RunResult:
    """Run a program to its end.

    Args:
        command: absolute path and arguments: paths are relative to the scratch folder; no secrets, and no name that
            content brings.
        text: its standard input.
        means: its limits, the scratch folder that holds its input, and the cancel token.
        subject: what is worked on; messages begin with it.

    Raises: BundleError (RenderLimitExceeded for time and output, RenderFailed once nobody waits any more,
        NotSupported where the kernel cannot confine it).
    """
    with _input(text, means) as source:
        process = _spawn(command, source, means)
        with ProcessGroup(process) as group:
            return _Run(process, group, means, subject).collect()


@contextmanager
def _input(text: bytes, means: Means) -> Iterator[BinaryIO | None]:
    if not text:
        yield None
        return
    with Spool(scratch_of(means), "helm") as spool:
        spool.append(text)
        yield spool.rewind()


def scratch_of(means: Means) -> Path:
    """Return the scratch folder, without which there is no rendering."""
    if means.scratch is None:
        raise RuntimeError("rendering a chart needs a scratch folder")
    return means.scratch


def _spawn(command: Sequence[str], source: BinaryIO | None, means: Means) -> subprocess.Popen[bytes]:
    wrapped, environment, folder = _wrapped(command, means), _environment(means), scratch_of(means)

    def start() -> subprocess.Popen[bytes]:
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
    return start_confined(start, view, "spec.format", required=means.confinement_required)


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
        "GOMAXPROCS": str(_PROCESSORS),
        "GOMEMLIMIT": str(means.memory_bytes * 3 // 4),
        **dict.fromkeys(homes, nowhere),
        **dict.fromkeys(proxies, _PROXY),
    }


class _Run:
    """Reads what a process writes, within its budgets."""

    def __init__(self, process: subprocess.Popen[bytes], group: ProcessGroup, means: Means, subject: str) -> None:
        self._process, self._group, self._means, self._subject = process, group, means, subject
        self._deadline = time.monotonic() + means.seconds
        self._output, self._stderr = bytearray(), bytearray()

    def collect(self) -> RunResult:
        """Return how the process ended, once it has."""
        output, stderr = cast("BinaryIO", self._process.stdout), cast("BinaryIO", self._process.stderr)
        read_pipes({output: self._take_output, stderr: self._take_stderr}, self._check)
        return RunResult(
            status=self._group.wait(self._check),
            output=bytes(self._output),
            stderr=self._stderr.decode(errors="replace"),
        )

    def _take_output(self, data: bytes) -> None:
        self._output += data
        if len(self._output) > self._means.output_bytes:
            budget = describe_bytes(self._means.output_bytes)
            raise self._limit(f"the chart renders to more than the budget of {budget}; split it")

    def _take_stderr(self, data: bytes) -> None:
        self._stderr += data[: _STDERR_BYTES - len(self._stderr)]

    def _check(self) -> None:
        if self._means.cancelled.is_set():
            message = f"{quote(self._subject)}: stopped: the result is not needed any more"
            raise BundleError(Reason.RENDER_FAILED, message)
        if time.monotonic() >= self._deadline:
            seconds = f"{self._means.seconds:g} s"
            raise self._limit(f"rendering takes more than {seconds}; make it simpler, or raise --render-timeout")

    def _limit(self, problem: str) -> BundleError:
        return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{quote(self._subject)}: {problem}")
