"""Run a program of an image as a container runtime runs it in a pod of config/manager: `python pod.py ROOT COMMAND…`.

It has the user 65532, no capability in any set, no new privileges, a root that is read-only where a mount namespace is
to be had, and a seccomp filter that refuses what the default profiles of containerd and Docker refuse a container
without capabilities. They list what is allowed; here is what they leave out of the system calls of x86-64 and arm64
(https://github.com/moby/profiles, seccomp/default.json). Landlock, seccomp and ptrace are among what they allow.

Only the standard library is used, and nothing of the controller: what is tested must not be what it is tested with.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from contextlib import suppress
from pathlib import Path

USER = 65532
_NO_NEW_PRIVS, _CAPBSET_DROP, _CAP_AMBIENT, _SECCOMP = 38, 24, 47, 22
_CLEAR_ALL, _FILTER = 4, 2
_CAPABILITIES = 64
_NEWNS = 0x20000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 1 << 5, 1 << 12, 1 << 14, 1 << 18
_WRITABLE = ("tmp", "var/cache/rukpak")
"""What is mounted over the root of the image."""
# Name to the numbers on x86-64 and arm64; None: it is not there.
_REFUSED: dict[str, tuple[int | None, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_mempolicy": (239, 236),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CLONE, _CLONE3 = (56, 220), 435
_NAMESPACES = 0x7E020000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

LIBC = ctypes.CDLL(None, use_errno=True)


def enter(root: Path) -> None:
    """Give this process the life of one in a pod, for good."""
    _make_read_only(root)
    os.chroot(root)
    os.chdir("/")
    for capability in range(_CAPABILITIES):
        LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # the last ones are unknown
    LIBC.prctl(_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    with suppress(PermissionError):  # the only user of a namespace stays that
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    _drop_capabilities()
    _checked(LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _filter_calls()


def _make_read_only(root: Path) -> None:
    """Make the root read-only but for what is mounted in a pod; who may not mount gets it as it is."""
    if LIBC.unshare(_NEWNS):
        return
    _mount(None, Path("/"), _RECURSIVE | _PRIVATE)
    for folder in (root / name for name in _WRITABLE):
        _mount(folder, folder, _BIND)
    _mount(root, root, _BIND | _RECURSIVE)
    _mount(None, root, _BIND | _REMOUNT | _READ_ONLY)


def _mount(source: Path | None, target: Path, flags: int) -> None:
    _checked(LIBC.mount(os.fsencode(source) if source else None, os.fsencode(target), None, flags, None))


def _drop_capabilities() -> None:
    header = struct.pack("Ii", 0x20080522, 0)
    _checked(LIBC.capset(ctypes.create_string_buffer(header, len(header)), ctypes.create_string_buffer(24)))


def _filter_calls() -> None:
    audit, column = _MACHINES[platform.machine()]
    codes = [
        *[(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _ERRNO | errno.EPERM)],
        (_LOAD, 0, 0, _NUMBER),
    ]
    for numbers in _REFUSED.values():
        codes += [(_EQUAL, 0, 1, numbers[column] or 0), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    codes += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    codes += [(_EQUAL, 0, 3, _CLONE[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    codes += [(_ANY_BIT, 0, 1, _NAMESPACES), (_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    instructions = b"".join(struct.pack("HBBI", *code) for code in codes)
    kept = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("HxxxxxxQ", len(codes), ctypes.addressof(kept))
    _checked(LIBC.prctl(_SECCOMP, _FILTER, ctypes.create_string_buffer(program, len(program)), 0, 0))


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(root: str, *command: str) -> None:
    """Become a process in a pod, and then the command."""
    enter(Path(root))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
