"""Runs the programs that verify signatures, gpgv and ssh-keygen, as confined child processes.

They read one folder, write nothing, and open no sockets. They have no home and so no keys or settings of their own, and
of our environment only PATH. Not here: what they say (openpgp.py, git.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from rukpak.api.errors import BundleError
from rukpak.api.plugins import KIBIBYTE, MEBIBYTE, Access, ProgramResult
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.disk import Spool, disk_errors_reported
from rukpak.controller.processes.programs import ProcessGroup, View, confined, programs, read_pipes, start_confined
from rukpak.controller.sources.pace import check_deadline

_MEMORY = 32 * MEBIBYTE
_SECONDS = 30
_OUTPUT_BYTES = 256 * KIBIBYTE
_FILES = 64
_NOT_STARTED = (126, 127)  # exit statuses of prlimit(1)
_NO_USER = "No user exists for uid"
# Times are passed and reported in UTC.
_ENVIRONMENT = {"HOME": "/nonexistent", "GNUPGHOME": "/nonexistent", "LC_ALL": "C", "LANGUAGE": "C", "TZ": "UTC0"}


def run_verifier(command: Sequence[str], access: Access, files: dict[str, bytes], data: bytes) -> ProgramResult:
    """Run a program in a new folder and wait until it exits.

    Args:
        command: name of the program, and arguments: no content.
        access: deadline, cancel token and scratch folder.
        files: of its folder, by name.
        data: its standard input.

    Raises: BundleError (VerificationUnavailable if it is not installed or was killed; NotSupported if the kernel cannot
        confine it; Unreachable at the deadline; StorageFull, StorageBroken).
    """
    program = shutil.which(command[0])
    if program is None:
        raise _unavailable(access, f"no {command[0]} on PATH; install it where the controller runs")
    with (
        access.room(_MEMORY),
        disk_errors_reported(access.path),
        tempfile.TemporaryDirectory(dir=access.scratch) as name,
        Spool(access.scratch, access.path) as source,
    ):
        folder = Path(name).resolve()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        source.append(data)
        process = _start([program, *command[1:]], access, folder, source.rewind())
        with ProcessGroup(process) as group:
            result = _collect(process, group, access)
    if result.status in _NOT_STARTED or result.status < 0:
        raise _unavailable(access, f"{command[0]} was ended, or cannot be started; see whether memory is short")
    if _NO_USER in result.stderr:
        raise _unavailable(access, f"{command[0]} needs a user; add that of the controller to /etc/passwd")
    return result


def _unavailable(access: Access, problem: str) -> BundleError:
    return BundleError(Reason.VERIFICATION_UNAVAILABLE, problem, place=f"{access.path}.verify")


def _start(command: list[str], access: Access, folder: Path, source: BinaryIO) -> subprocess.Popen[bytes]:
    limits = {"core": 0, "fsize": 0, "nofile": _FILES, "cpu": _SECONDS, "data": _MEMORY}
    wrapped = confined(command, raisable=False, **limits)
    environment = {**_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)}

    def _spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            wrapped,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )

    view = View(programs=(Path(command[0]).resolve(), *programs("prlimit")), read=(folder,))
    return start_confined(_spawn, view, access.path, required=access.confinement_required)


def _collect(process: subprocess.Popen[bytes], group: ProcessGroup, access: Access) -> ProgramResult:
    output, stderr, check = bytearray(), bytearray(), partial(check_deadline, access)

    def _take(into: bytearray) -> Callable[[bytes], None]:
        return lambda data: into.extend(data[: _OUTPUT_BYTES - len(into)])

    takers = {cast("BinaryIO", process.stdout): _take(output), cast("BinaryIO", process.stderr): _take(stderr)}
    read_pipes(takers, check)
    return ProgramResult(status=group.wait(check), output=bytes(output), stderr=stderr.decode(errors="replace"))
