"""A seccomp filter that limits which sockets a thread and its children can open.

Landlock restricts only TCP, and only on recent kernels. The filter denies the rest: UDP, Unix sockets, netlink, SCTP
and others, io_uring (which opens sockets without socket(2)), truncate(2) by path, which Landlock restricts only from
ABI 3 on, and all system calls of other architectures.

seccomp(2); BPF programs as in include/uapi/linux/filter.h.
Not here: files and ports (landlock.py).
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import threading
from dataclasses import dataclass
from functools import cache

from controller.processes.system_calls import call, forbid_new_privileges


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
def is_available() -> bool:
    """Return whether filters can be installed, by trying it on a thread that ends."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(_is_accepted()), name="seccomp")
    thread.start()
    thread.join()
    return found == [True]


def _is_accepted() -> bool:
    try:
        restrict(tcp=False)
    except OSError:
        return False
    return True


def restrict(*, tcp: bool) -> None:
    """Deny the calling thread and its future children all sockets, or all but TCP sockets.

    Raises: OSError, also on an architecture without a filter.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    codes = _filter(machine, tcp=tcp)
    instructions = (_Instruction * len(codes))(*(_Instruction(*code) for code in codes))
    forbid_new_privileges()
    # Without the flag, kernels before 5.16 apply costly mitigations of speculative execution to the program.
    call(machine.seccomp, _SET_MODE_FILTER, _ALLOW_SPECULATION, _Program(len(codes), instructions))


def _filter(machine: _Machine, *, tcp: bool) -> list[_Code]:
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _NO_SUCH_CALL),
        (_LOAD, 0, 0, _NUMBER),
        *_refuse_from(_X32),
        *(code for number in machine.refused for code in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NO_SUCH_CALL))),
        (_EQUAL, 1, 0, machine.socket),
        (_RETURN, 0, 0, _ALLOW),
        *(_only_tcp() if tcp else [(_RETURN, 0, 0, _REFUSED)]),
    ]


def _refuse_from(number: int) -> list[_Code]:
    return [(_AT_LEAST, 0, 1, number), (_RETURN, 0, 0, _NO_SUCH_CALL)]


def _only_tcp() -> list[_Code]:
    """Check the arguments of socket(family, type, protocol); an int is the lower half of its register."""
    return [
        *_one_of(0, _FAMILIES),
        *_one_of(1, (socket.SOCK_STREAM,), mask=_TYPE),
        *_one_of(2, _PROTOCOLS),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _one_of(argument: int, values: tuple[int, ...], *, mask: int = 0xFFFFFFFF) -> list[_Code]:
    """Deny the call unless an argument has one of these values."""
    compare = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    load = (_LOAD, 0, 0, _ARGUMENTS + _ARGUMENT_BYTES * argument)
    return [load, (_AND, 0, 0, mask), *compare, (_RETURN, 0, 0, _REFUSED)]
