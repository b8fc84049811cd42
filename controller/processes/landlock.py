"""Landlock: restrict which files, ports and processes a thread and its children can access; needs no privileges.

A ruleset permanently applies to the calling thread and to the processes that it starts afterwards. Old kernels ignore
what they cannot restrict: TCP before 6.7, signals before 6.12.

https://docs.kernel.org/userspace-api/landlock.html, numbers and structures as in include/uapi/linux/landlock.h.
Not here: what a program may access (confinement.py), and sockets other than TCP (seccomp.py).
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
"""Abstract Unix sockets and signals: only among processes with the same restrictions."""
_TCP_FROM, _SCOPES_FROM = 4, 6
# ABI versions that add access rights on files, with the highest right of each.
_FILE_RIGHTS = {1: 12, 2: 13, 3: 14, 5: 15}


class Right(IntFlag):
    """Access to a file, or to everything below a folder."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIRECTORY = 1 << 3
    TRUNCATE = 1 << 14
    READ = READ_FILE | READ_DIRECTORY
    RUN = READ | EXECUTE
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
    CHANGE = (1 << 15) - 1 - EXECUTE
    """Read, write, create, rename and delete, but neither execute programs nor control devices."""


@cache
def version() -> int:
    """Return the Landlock ABI version of this kernel; 0 if it has none, or the container runtime blocks it."""
    try:
        return call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


@contextmanager
def ruleset(rights: Mapping[Path, Right], ports: Collection[int], *, abi: int) -> Iterator[int]:
    """Create a ruleset of an ABI version that denies everything but rights by path and connections to TCP ports.

    A right on a folder includes everything below it. Missing paths are skipped.

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
    """Restrict the calling thread and its future children to a ruleset.

    Raises: OSError.
    """
    forbid_new_privileges()
    call(_RESTRICT_SELF, descriptor, 0)
