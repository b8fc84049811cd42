"""The interfaces of the kernel by which a thread restricts itself and the processes that it starts afterwards.

Landlock restricts files, ports and processes, and needs no privileges. Old kernels ignore what they cannot restrict:
TCP before 6.7, signals before 6.12.

seccomp filters system calls. Landlock restricts only TCP, and only on recent kernels. The filter denies the rest: UDP,
Unix sockets, netlink, SCTP and others, io_uring (which opens sockets without socket(2)), truncate(2) by path, which
Landlock restricts only from ABI 3 on, and all system calls of other architectures.

https://docs.kernel.org/userspace-api/landlock.html, numbers and structures as in include/uapi/linux/landlock.h;
seccomp(2), BPF programs as in include/uapi/linux/filter.h.
Not here: what a program may access (programs.py).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import stat
import struct
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from pathlib import Path

_SET_NO_NEW_PRIVS = 38
_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | ctypes.Structure | None) -> int:
    return _checked(_LIBC.syscall(ctypes.c_long(number), *map(_passed, arguments)))


def _forbid_new_privileges() -> None:
    _checked(_LIBC.prctl(_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3))


def _passed(argument: int | ctypes.Array[ctypes.c_char] | ctypes.Structure | None) -> object:
    if argument is None:
        return ctypes.c_void_p(None)
    return ctypes.c_long(argument) if isinstance(argument, int) else ctypes.byref(argument)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# Landlock; its numbers are the same on every architecture.
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
def landlock_version() -> int:
    """Return the Landlock ABI version of this kernel; 0 if it has none, or the container runtime blocks it."""
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


@contextmanager
def ruleset(rights: Mapping[Path, Right], ports: Collection[int], *, abi: int) -> Iterator[int]:
    """Create a ruleset of an ABI version that denies everything but rights by path and connections to TCP ports.

    A right on a folder includes everything below it. Missing paths are skipped.

    Returns: its file descriptor, for `restrict_access`.
    Raises: OSError.
    """
    handled = (2 << max(bit for since, bit in _FILE_RIGHTS.items() if since <= abi)) - 1
    attributes = [handled]
    if abi >= _TCP_FROM:
        attributes.append(_BIND_TCP | _CONNECT_TCP)
    if abi >= _SCOPES_FROM:
        attributes.append(_SCOPES)
    packed = struct.pack(f"{len(attributes)}Q", *attributes)
    descriptor = _call(_CREATE_RULESET, ctypes.create_string_buffer(packed, len(packed)), len(packed), 0)
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
    _call(_ADD_RULE, descriptor, kind, ctypes.create_string_buffer(packed, len(packed)), 0)


def restrict_access(descriptor: int) -> None:
    """Restrict the calling thread and its future children to a ruleset.

    Raises: OSError.
    """
    _forbid_new_privileges()
    _call(_RESTRICT_SELF, descriptor, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """Numbers of one architecture; both are little-endian."""

    audit: int
    """See include/uapi/linux/audit.h."""
    seccomp: int
    socket: int
    refused: tuple[int, ...]
    """io_uring_setup, truncate."""


_MACHINES = {
    "x86_64": _Machine(audit=0xC000003E, seccomp=317, socket=41, refused=(425, 76)),
    "aarch64": _Machine(audit=0xC00000B7, seccomp=277, socket=198, refused=(425, 45)),
}
_X32 = 0x40000000  # bit of system call numbers of x86-64's x32 ABI
_SET_MODE_FILTER, _ALLOW_SPECULATION = 1, 1 << 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_REFUSED, _NO_SUCH_CALL = _ERRNO | errno.EACCES, _ERRNO | errno.ENOSYS
_NUMBER, _ARCHITECTURE, _ARGUMENTS, _ARGUMENT_BYTES = 0, 4, 16, 8
# Instructions of classic BPF: load a word, and with it, compare, return.
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_TYPE = 0xF  # of a socket, without its flags
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_PROTOCOLS = (0, socket.IPPROTO_TCP)


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("then", ctypes.c_uint8), ("other", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


_Code = tuple[int, int, int, int]
"""Instruction, how many instructions to skip if its comparison is true, how many if not, and its constant."""


@cache
def has_seccomp() -> bool:
    """Return whether filters can be installed, by trying it on a thread that ends."""
    with ThreadPoolExecutor(1, thread_name_prefix="seccomp") as pool:
        try:
            pool.submit(restrict_calls, tcp=False).result()
        except OSError:
            return False
    return True


def restrict_calls(*, tcp: bool) -> None:
    """Deny the calling thread and its future children all sockets, or all but TCP sockets.

    Raises: OSError, also on an architecture without a filter.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    codes = _filter(machine, tcp=tcp)
    instructions = (_Instruction * len(codes))(*(_Instruction(*code) for code in codes))
    _forbid_new_privileges()
    # Without the flag, kernels before 5.16 apply costly mitigations of speculative execution to the program.
    _call(machine.seccomp, _SET_MODE_FILTER, _ALLOW_SPECULATION, _Program(len(codes), instructions))


def _filter(machine: _Machine, *, tcp: bool) -> list[_Code]:
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _NO_SUCH_CALL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _NO_SUCH_CALL),
        *(code for number in machine.refused for code in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NO_SUCH_CALL))),
        (_EQUAL, 1, 0, machine.socket),
        (_RETURN, 0, 0, _ALLOW),
        *(_only_tcp() if tcp else [(_RETURN, 0, 0, _REFUSED)]),
    ]


def _only_tcp() -> list[_Code]:
    # An int is the lower half of its register.
    return [
        *_one_of(0, _FAMILIES),
        *_one_of(1, (socket.SOCK_STREAM,), mask=_TYPE),
        *_one_of(2, _PROTOCOLS),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _one_of(argument: int, values: tuple[int, ...], *, mask: int = 0xFFFFFFFF) -> list[_Code]:
    compare = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    load = (_LOAD, 0, 0, _ARGUMENTS + _ARGUMENT_BYTES * argument)
    return [load, (_AND, 0, 0, mask), *compare, (_RETURN, 0, 0, _REFUSED)]
