"""One git child at a time: what it may see, how much it may use, and how it ends.

Invariants: a child gets PATH and what is named here, nothing else of our environment; settings and credentials go
through the environment, never through argv; no hook, prompt, configuration file or further transport; it is in a
session of its own, whose whole process group is killed at the deadline, on cancel, over budget, and once it has ended;
its memory, its files and its output are bounded. It sees no files but those of the scratch folder, and of the network
one TCP port, or nothing.

GitPython serves for starting the child only: its own timeout needs pgrep or ps, and leaves git-remote-https behind
without them. Not here: what git is asked (objects.py, source.py), and what its complaints mean (failures.py).
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self, cast

from api.errors import BundleError
from api.plugins import MEBIBYTE, Access
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes
from controller.processes.confinement import View, confined, programs, start_confined
from controller.processes.group import CHUNK, TICK, ProcessGroup, read_pipes
from controller.sources.deadline import check_deadline
from controller.sources.git.pace import GitPace

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # importing git runs git, and fails where there is none
import git

_COMPLAINT_BYTES = 64 * 1024  # of stderr that is kept, from its end
OUTPUT_BYTES = 64 * MEBIBYTE
"""What `Child.read_all` takes at most."""
_NOT_STARTED = (126, 127)  # of prlimit(1) and env(1): git could not be started

_KEPT = ("PATH",)
_ENVIRONMENT: Mapping[str, str] = {
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LANGUAGE": "C",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_CONFIG: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.bigFileThreshold": "1m",  # above it blobs are streamed, not held
    "core.packedGitWindowSize": "16m",
    "credential.helper": "",
    "fetch.negotiationAlgorithm": "noop",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "protocol.allow": "never",
    "protocol.version": "2",
    "submodule.recurse": "false",
    "transfer.fsckObjects": "true",
    # What old tools wrote into honest histories, and what means nothing without a work tree.
    "fetch.fsck.badTimezone": "ignore",
    "fetch.fsck.missingSpaceBeforeDate": "ignore",
    "fetch.fsck.zeroPaddedFilemode": "ignore",
}


class GitFailed(Exception):  # noqa: N818 - it is what happened; failures.py makes an error of it
    """Git ended with a status other than 0; `complaint` is its standard error, which no message may quote."""

    def __init__(self, complaint: str) -> None:
        super().__init__("git failed")
        self.complaint = complaint


class GitRunner:
    """Starts git in one folder, for one call of a source.

    Args:
        access: deadline, cancel token, budget and progress.
        folder: of the repository, which `init` makes; watched for its size.
        protocols: that a child may speak; '' for children that have no business on the network.
        config: further settings.
        environment: further variables.
        port: of TCP, that a child may connect to; 0: it has no business on the network.
        program: of our own making, that git may start.
    """

    def __init__(
        self,
        access: Access,
        folder: Path,
        *,
        protocols: str = "",
        config: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        port: int = 0,
        program: Path | None = None,
    ) -> None:
        self._access, self._folder, self._talks = access, folder, bool(protocols)
        self._port, self._program = port, program
        settings = {**_CONFIG, **(config or {})}
        settings.update((f"protocol.{protocol}.allow", "always") for protocol in protocols.split(":") if protocol)
        self._environment = {
            **_ENVIRONMENT,
            **(environment or {}),
            "GIT_DIR": str(folder),
            "GIT_ALLOW_PROTOCOL": protocols or "none",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for index, (key, value) in enumerate(settings.items()):
            self._environment[f"GIT_CONFIG_KEY_{index}"] = key
            self._environment[f"GIT_CONFIG_VALUE_{index}"] = value

    def run(self, *arguments: str, lines: Sequence[str] = ()) -> bytes:
        """Run git to its end and return what it wrote.

        Args:
            arguments: fixed words, and values that were checked; no secrets.
            lines: of its standard input.

        Raises: GitFailed; BundleError (Unreachable at the deadline, ContentRejected over a budget).
        """
        with self.start(*arguments, lines=lines) as child:
            return child.read_all()

    @contextmanager
    def start(self, *arguments: str, lines: Sequence[str] = ()) -> Iterator[Child]:
        """Start git, to be read from; whatever happens, nothing of it is left when the block ends.

        Raises: as `run`, also at the end of the block.
        """
        room = self._access.room(self._access.limits.program_bytes)
        with room, self._input(lines) as source, self._spawn(arguments, source) as child:
            yield child

    @contextmanager
    def _input(self, lines: Sequence[str]) -> Iterator[BinaryIO | None]:
        if not lines:
            yield None
            return
        with tempfile.TemporaryFile(dir=self._access.scratch) as file:
            file.writelines(f"{line}\n".encode() for line in lines)
            file.seek(0)
            yield cast("BinaryIO", file)

    def _spawn(self, arguments: Sequence[str], source: BinaryIO | None) -> Child:
        # GitPython adds to os.environ and cannot take away; only names are in argv.
        dropped = [f"--unset={name}" for name in os.environ if name not in (*_KEPT, *self._environment)]
        files = self._access.limits.compressed_bytes
        command = confined(["env", *dropped, "git", *arguments], fsize=files, data=self._access.limits.program_bytes)

        def start() -> git.Git.AutoInterrupt:
            return git.Git(self._folder).execute(
                command, env=self._environment, istream=source, as_process=True, start_new_session=True
            )

        required = self._access.confinement_required
        running = start_confined(start, self._view(), self._access.path, required=required)
        return Child(running, self._access, self._folder, talks=self._talks)

    def _view(self) -> View:
        found = programs("prlimit", "env", "git", *(["ssh"] if self._program else []))
        ours = (self._program,) if self._program else ()
        return View(programs=(*found, *ours), change=(self._access.scratch.resolve(),), port=self._port)


class Child:
    """A running git, and the thread that watches over it. A context manager, which ends it.

    Attributes:
        stopped: why the watcher has killed it, in which case its output is cut short; None otherwise.
    """

    def __init__(self, running: git.Git.AutoInterrupt, access: Access, folder: Path, *, talks: bool) -> None:
        self._running = running  # GitPython kills git when this is collected
        process = running.proc
        if process is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("git was started without pipes")
        self._group = ProcessGroup(process)
        self._output, self._complaints = cast("BinaryIO", process.stdout), cast("BinaryIO", process.stderr)
        self._access, self._folder = access, folder
        self._complaint = bytearray()
        self._pace = GitPace(process.pid, access.network) if talks else None
        self.stopped: Exception | None = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="git", daemon=True)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the child and all of its group; a failure of its own is raised if there is none yet."""
        if kind is not None:
            self._group.kill()
        self._group.await_end()
        self._ended.set()
        self._watcher.join()  # its processor time is read until it is reaped
        status = self._group.reap()
        self._group.close()
        if kind is None:
            self._judge(status)

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes of what git writes, fewer at its end."""
        return self._output.read(size)

    def read_line(self) -> bytes:
        """Return the next line, of at most 64 KiB."""
        return self._output.readline(CHUNK)

    def read_all(self) -> bytes:
        """Return all that git writes.

        Raises: BundleError (ContentRejected over `OUTPUT_BYTES`).
        """
        found = self._output.read(OUTPUT_BYTES + 1)
        if len(found) > OUTPUT_BYTES:
            budget = describe_bytes(OUTPUT_BYTES)
            message = f"{self._access.path}: the repository lists more than {budget} of names; use a smaller one"
            raise BundleError(Reason.CONTENT_REJECTED, message)
        return found

    def _judge(self, status: int) -> None:
        if self.stopped:
            raise self.stopped
        if status in _NOT_STARTED:
            raise RuntimeError("git cannot be started; install git beside the controller")
        self._check_size()
        if status:
            raise GitFailed(self._complaint.decode(errors="replace"))

    # the watcher

    def _watch(self) -> None:
        read_pipes({self._complaints: self._take_complaint}, self._check, self._ended)
        while not self._ended.wait(TICK):
            self._check()

    def _take_complaint(self, data: bytes) -> None:
        """Keep the end of what git complains of."""
        self._complaint += data
        del self._complaint[:-_COMPLAINT_BYTES]

    def _check(self) -> None:
        if self.stopped:
            return
        try:
            check_deadline(self._access)
            self._check_pace(self._check_size())
        except Exception as error:  # noqa: BLE001 - without its watcher the child must not go on, whatever it was
            self.stopped = error
            self._group.kill()

    def _check_pace(self, size: int) -> None:
        if self._pace and (problem := self._pace.problem(size)):
            message = f"{self._access.path}.repository: its server cannot be used: {problem}; check address and network"
            raise BundleError(Reason.UNREACHABLE, message)

    def _check_size(self) -> int:
        size, budget = folder_bytes(self._folder), self._access.limits.compressed_bytes
        self._access.progress(size, 0)
        if size >= budget:
            message = (
                f"{self._access.path}: the repository brings more than the budget of {describe_bytes(budget)}; "
                "make it smaller, or let the administrator raise the budget"
            )
            raise BundleError(Reason.CONTENT_REJECTED, message)
        return size


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, which others may change meanwhile."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(where, name)).st_size  # noqa: PTH118 - walk gives text
    return total
