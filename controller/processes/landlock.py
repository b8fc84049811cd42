"""Landlock: which files, ports and processes the programs that a thread starts may reach, without any privilege.

A ruleset holds for the thread that is restricted by it and for the processes that it starts from then on, for good.
What a kernel is too old to restrict (TCP before 6.7, signals before 6.12) it leaves alone.

https://docs.kernel.org/userspace-api/landlock.html, numbers and structures as in include/uapi/linux/landlock.h.
Not here: what a program may reach (confinement.py), and sockets other than TCP (seccomp.py).
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntFlag
from functools import cache
from pathlib import Path

from controller.processes.system_calls import call, forbid_new_privileges

# The same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPES = 0b11
"""Abstract Unix sockets and signals: none but of the processes that are restricted alike."""
_TCP_FROM, _SCOPES_FROM = 4, 6
# The first ABI, and the highest access right on files that each of these brings.
_FILE_RIGHTS = {1: 12, 2: 13, 3: 14, 5: 15}


class Right(IntFlag):
    """What may be done with a file, or with all that is below a folder."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIRECTORY = 1 << 3
    TRUNCATE = 1 << 14
    READ = READ_FILE | READ_DIRECTORY
    RUN = READ | EXECUTE
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
    CHANGE = (1 << 15) - 1 - EXECUTE
    """Read, write, make, rename and remove; neither start a program nor control a device."""


@cache
def version() -> int:
    """Return the ABI of Landlock that this kernel has; 0: none, or its container does not let us use it."""
    try:
        return call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


@contextmanager
def ruleset(rights: Mapping[Path, Right], ports: Collection[int], *, abi: int) -> Iterator[int]:
    """Make a ruleset: whatever is not named is refused. Paths that do not exist are passed over.

    Args:
        rights: for each path; a right on a folder is one on all that is below it.
        ports: of TCP that may be connected to, at any address; none may be listened at.
        abi: what the kernel has, or less.

    Returns: its file descriptor, for `restrict`.
    Raises: OSError.
    """
    handled = (2 << max(bit for since, bit in _FILE_RIGHTS.items() if since <= abi)) - 1
    attributes = [handled]
    if abi >= _TCP_FROM:
        attributes.append(_BIND_TCP | _CONNECT_TCP)
    if abi >= _SCOPES_FROM:
        attributes.append(_SCOPES)
    packed = struct.pack(f"{len(attributes)}Q", *attributes)
    descriptor = call(_CREATE_RULESET, ctypes.create_string_buffer(packed, len(packed)), len(packed), 0)
    try:
        for path, right in rights.items():
            with suppress(FileNotFoundError):
                _add_path(descriptor, path, int(right) & handled)
        for port in ports if abi >= _TCP_FROM else ():
            _add_rule(descriptor, _NET_PORT, struct.pack("=QQ", _CONNECT_TCP, port))
        yield descriptor
    finally:
        os.close(descriptor)


def _add_path(descriptor: int, path: Path, right: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            right &= int(Right.OF_FILES)
        _add_rule(descriptor, _PATH_BENEATH, struct.pack("=Qi", right, opened))
    finally:
        os.close(opened)


def _add_rule(descriptor: int, kind: int, packed: bytes) -> None:
    call(_ADD_RULE, descriptor, kind, ctypes.create_string_buffer(packed, len(packed)), 0)


def restrict(descriptor: int) -> None:
    """Restrict the calling thread, and what it starts from now on, to a ruleset.

    Raises: OSError.
    """
    forbid_new_privileges()
    call(_RESTRICT_SELF, descriptor, 0)
