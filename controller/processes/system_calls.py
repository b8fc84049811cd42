"""System calls without a Python function. They affect only the calling thread."""

from __future__ import annotations

import ctypes
import os

_SET_NO_NEW_PRIVS = 38
_LIBC = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | ctypes.Structure | None) -> int:
    """Make a system call and return its result; structures are passed by address.

    Raises: OSError.
    """
    return _checked(_LIBC.syscall(ctypes.c_long(number), *map(_passed, arguments)))


def forbid_new_privileges() -> None:
    """Disable set-user-ID programs, as the kernel requires before a thread may restrict itself.

    Raises: OSError.
    """
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
