"""What is done on one host: a bundle is unpacked, installed, verified and removed, as its plan says.

Each call runs in a process of its own that enters the host first: the root folder that is named, or the namespaces of
process 1. Paths are those of the host from then on, links included. What has to be read outside, the content and /proc,
is opened before.

On the host, below /var/lib/rukpak/hosts:

    lock                  held while anything is done for any bundle, also by the scripts
    NAME/journal.json     what is being done, or was done last; replaced as a whole, before a script starts and after it
    NAME/DIGEST/          the content that is installed, and the content before it
    NAME/DIGEST.partial/  content that is being unpacked

A process that is killed at any point leaves a journal that leads to the same end: content is there as a whole or not at
all, and a script that has not ended well is run again from its start.

Nothing but Python's library, and no import after the host was entered. Not here: which host may go ahead, and what is
reported (rukpak_hosts_turns.py); what a plan is made of (rukpak_host_bundles.py).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import io
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import tarfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

STATE = Path("/var/lib/rukpak/hosts")
EXTENSIONS = Path("/var/lib/extensions")
_EXTENSION_FOLDERS = (Path("/etc/extensions"), Path("/run/extensions"), EXTENSIONS)
"""Where systemd-sysext looks. Of extensions with the same name it merges only the first."""
_EXTENSION_SUFFIXES = ("", ".raw", ".v", ".raw.v")
MANIFEST, INSTALL, VERIFY, UNINSTALL, SYSEXT = "host-bundle.yaml", "install.sh", "verify.sh", "uninstall.sh", "sysext"
ARCHITECTURES = {
    "aarch64": "arm64",
    "armv7l": "arm",
    "armv8l": "arm",
    "i386": "386",
    "i686": "386",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
    "x86_64": "amd64",
}
"""What `uname -m` prints to what Kubernetes writes."""
_OS_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"
_SHELL = ["/bin/sh"]
_INSTALLING, _INSTALLED, _REMOVING = "Installing", "Installed", "Removing"
_CHUNK = 1 << 20
_KEPT_LINES, _LINE_BYTES = 12, 300
"""Of the output of a script, for the message: a termination message has 4 KiB."""
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.2
"""Between two looks at the lock, or at a program: pidfds are too new for some hosts."""
_HOST_PROCESS = 1
_NAMESPACES = ("ipc", "uts", "net", "mnt")
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class HostError(Exception):
    """Why a host does not have what it should have. The message says what to do, and is equal for an equal failure."""


# what others call


def install(plan: Mapping[str, Any], content: Path, root: Path | None = None) -> None:
    """Install a bundle, unless it is installed already, and verify it.

    Args:
        plan: what `rukpak_host_bundles.py` has made of the bundle and its configuration.
        content: a folder with the files of the bundle, or with the parts of an archive of them.
        root: the root folder of the host; without it, the host of process 1.

    Raises: HostError.
    """
    work = content.resolve()
    with _opened(work) as folder:
        _enter_and(root, lambda proc: _Host(plan, proc).install(folder))


def verify(plan: Mapping[str, Any], root: Path | None = None) -> None:
    """Check that a bundle is installed and works. Raises: HostError."""
    _enter_and(root, lambda proc: _Host(plan, proc).verify())


def remove(plan: Mapping[str, Any], root: Path | None = None) -> None:
    """Undo what was installed, whichever version that is, and forget it. Nothing is done where nothing is installed.

    Raises: HostError.
    """
    _enter_and(root, lambda proc: _Host(plan, proc).remove())


def is_installed(plan: Mapping[str, Any], root: Path | None = None) -> bool:
    """Return whether exactly this was installed, and has not changed since. Raises: HostError."""
    return bool(_enter_and(root, lambda proc: _Host(plan, proc).is_installed()))


def needs_reboot(plan: Mapping[str, Any], root: Path | None = None) -> bool:
    """Return whether what is installed takes effect with the next boot only. Raises: HostError."""
    return bool(_enter_and(root, lambda proc: _Host(plan, proc).needs_reboot()))


def reboot(plan: Mapping[str, Any], root: Path | None = None) -> None:
    """Have the host boot again, which ends this process soon. Raises: HostError."""
    _enter_and(root, lambda proc: _Host(plan, proc).reboot())


def digest_of_folder(folder: Path) -> str:
    """Return the digest of the content that a folder has.

    Raises: HostError for what a bundle cannot have.
    """
    with _opened(folder) as descriptor:
        return digest_of_entries([found.entry(_hash(found.data)) for found in _walk(descriptor)])


def digest_of_entries(entries: Sequence[tuple[str, str, str]]) -> str:
    """Return the digest of content: of all its files, as `(path, "file" or "executable", digest)`."""
    text = json.dumps(sorted(entries), separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _hash(data: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := data.read(_CHUNK):
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


# processes


def _enter_and(root: Path | None, work: Callable[[int], object]) -> Any:
    """Return the result of some work in a process that has entered the host. It gets a descriptor of /proc.

    Raises: HostError.
    """
    with _opened(Path("/proc")) as proc:
        reading, writing = os.pipe()
        parent, child = os.getpid(), os.fork()
        if not child:
            os.close(reading)
            _work(root, work, proc, writing, parent)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
    if not text:
        raise HostError(f"the agent was killed by signal {os.WTERMSIG(status)}; what it did is done again")
    result = json.loads(text)
    if "error" in result:
        raise HostError(result["error"])
    return result["value"]


def _work(root: Path | None, work: Callable[[int], object], proc: int, writing: int, parent: int) -> NoReturn:
    """Do the work in this process, write its result to a pipe, and end; at once, if the parent ends."""
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != parent:
            os._exit(1)
        _enter(root)
        result = {"value": work(proc)}
    except HostError as error:
        result = {"error": str(error)}
    except OSError as error:
        result = {"error": _describe(error)}
    except BaseException as error:  # noqa: BLE001 - this process ends here, and the other one has to be told
        traceback.print_exc()
        result = {"error": f"the agent has a bug: {type(error).__name__}: {error}"}
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(result).encode())
    os._exit(0)


def _enter(root: Path | None) -> None:
    """Make the root folder of the host that of this process.

    Without one, its namespaces are entered: to a chroot, systemctl refuses its service, and mounts would stay here.
    """
    os.umask(0o022)
    if root is not None:
        os.chroot(root)
    else:
        spaces = [os.open(f"/proc/{_HOST_PROCESS}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in _NAMESPACES]
        for space in spaces:
            if _LIBC.setns(space, 0):
                number = ctypes.get_errno()
                raise HostError(
                    f"cannot enter the host: {os.strerror(number)}; the pod must be privileged, with hostPID"
                )
            os.close(space)
    os.chdir("/")


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _describe(error: OSError) -> str:
    place = f'"{error.filename}": ' if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{place}no space left on the host; make room in {STATE}"
    return f"{place}{error.strerror or error}"


class _Runner:
    """Runs programs of the host, one at a time, and leaves none of their processes.

    Args:
        proc: a descriptor of /proc.
        lock: a descriptor that all of them inherit: while one of them lives, the lock is held.
        seconds: for which each may run.
    """

    def __init__(self, proc: int, lock: int, seconds: float) -> None:
        self._proc, self._lock, self._seconds = proc, lock, seconds

    def run(self, command: Sequence[str], name: str, folder: Path, env: Mapping[str, str]) -> None:
        """Run a program to its end. Its output is that of this process, and its end that of the message.

        Raises: HostError if it cannot be started, fails, or does not end in time.
        """
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(self._lock,),
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - there are no threads
            )
        except OSError as error:
            raise HostError(f'{name}: cannot run "{command[0]}" on this host: {error.strerror}') from error
        output = _Output(process)
        ended = output.follow(time.monotonic() + self._seconds)
        if not ended:
            process.kill()
        status = process.wait()
        left = self._kill_descendants()
        output.drain()
        if not ended:
            raise HostError(f"{name}: did not end within {self._seconds:g} s, and was killed{output.tail}")
        if left:
            raise HostError(f"{name}: left processes that could not be killed; start services by the service manager")
        if status:
            how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
            raise HostError(f"{name}: {how}{output.tail}")

    def _kill_descendants(self) -> bool:
        """Kill all processes that a program has left, of which orphans are children of this one.

        Returns: whether some live on.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while found := self._find_descendants():
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if time.monotonic() > deadline:
                return True
        return False

    def _find_descendants(self) -> list[int]:
        parents: dict[int, int] = {}
        for name in filter(str.isdecimal, os.listdir(self._proc)):  # noqa: PTH208 - of a descriptor
            with suppress(OSError), _open(f"{name}/stat", self._proc) as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        found = {os.getpid()}
        while more := {process for process, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found - {os.getpid()})


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Output:
    """Passes on what a program prints, and keeps the end of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pipe: IO[bytes] = process.stdout or io.BytesIO()
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._rest = b""
        self._is_open = True
        os.set_blocking(self._pipe.fileno(), False)

    def follow(self, deadline: float) -> bool:
        """Return whether the program has ended before a time. Others may still have its output open."""
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not self._is_open:
                time.sleep(min(left, _POLL_SECONDS))
            elif select.select([self._pipe], [], [], min(left, _POLL_SECONDS))[0]:
                self._read()
        return True

    def drain(self) -> None:
        """Read what is left, once no process can write more."""
        while self._read():
            pass
        self._pipe.close()

    def _read(self) -> bytes:
        """Return what was printed; nothing if there is no more."""
        try:
            data = os.read(self._pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return b""
        self._is_open = bool(data)
        with suppress(OSError):  # of a log that nobody reads
            os.write(1, data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line[:_LINE_BYTES] for line in lines if line.strip())
        self._rest = self._rest[:_LINE_BYTES]
        return data

    @property
    def tail(self) -> str:
        """The last lines for a message; empty if nothing was printed."""
        lines = [line.decode(errors="replace") for line in (*self._lines, self._rest) if line.strip()]
        text = "\n".join("".join(c if c.isprintable() else " " for c in line).rstrip() for line in lines[-_KEPT_LINES:])
        return f":\n{text}" if text else ""


# content


class _File(NamedTuple):
    """A file of a bundle."""

    path: str
    executable: bool
    data: IO[bytes]
    """Readable until the next file is asked for."""

    def entry(self, digest: str) -> tuple[str, str, str]:
        """Return what the digest of the content is made of."""
        return (self.path, "executable" if self.executable else "file", digest)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(_describe(error)) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_content(folder: int) -> Iterator[_File]:
    """Yield what is in a folder with the files of a bundle, or with the parts of an archive."""
    names = os.listdir(folder)
    if MANIFEST in names:
        return _walk(folder)
    return _unpack(sorted(filter(str.isdecimal, names)), folder)


def _walk(folder: int, prefix: str = "") -> Iterator[_File]:
    for name in sorted(os.listdir(folder)):
        path = prefix + name
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                yield from _walk(inner, f"{path}/")
            finally:
                os.close(inner)
        elif stat.S_ISREG(found.st_mode):
            with _open(name, folder, os.O_NOFOLLOW) as data:
                yield _File(path, bool(found.st_mode & stat.S_IXUSR), data)
        else:
            raise _refuse(path, "neither a file nor a folder; copy what a link leads to")


def _open(name: str, folder: int, flags: int = 0) -> IO[bytes]:
    return open(os.open(name, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder), "rb")  # noqa: PTH123 - of a descriptor


def _refuse(path: str, problem: str) -> HostError:
    return HostError(f"content {json.dumps(path)}: {problem}")


def _unpack(parts: Sequence[str], folder: int) -> Iterator[_File]:
    try:
        with tarfile.open(fileobj=_Parts(parts, folder), mode="r|") as archive:
            for member in archive:
                if member.isdir():
                    continue
                data = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if data is None:
                    raise _refuse(member.name, "neither a file nor a folder")
                yield _File(member.name, bool(member.mode & stat.S_IXUSR), data)
    except tarfile.TarError as error:
        raise HostError(f"content: not an archive in {len(parts)} parts: {error}") from error


class _Parts(io.RawIOBase):
    """The parts of an archive as one file."""

    def __init__(self, names: Sequence[str], folder: int) -> None:
        self._names, self._folder = deque(names), folder
        self._part: IO[bytes] = io.BytesIO()

    def readable(self) -> bool:
        """Return that this is for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what comes next, of one part."""
        while not (data := self._part.read(len(buffer))) and self._names:
            self._part.close()
            self._part = _open(self._names.popleft(), self._folder)  # a link, in the volume of a ConfigMap
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as were asked for, as tarfile expects, unless the parts end."""
        data = bytearray()
        while len(data) < size and (more := super().read(size - len(data))):
            data += more
        return bytes(data)


def _copy(content: Iterator[_File], folder: Path) -> str:
    """Write content into an empty folder, durably, and return its digest.

    Raises: HostError for what leaves the folder, or is there twice; OSError.
    """
    entries = []
    for found in content:
        if {"", ".", ".."} & set(found.path.split("/")):
            raise _refuse(found.path, "leaves the content")
        target = folder / found.path
        digest = hashlib.sha256()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            file = target.open("xb")
        except (FileExistsError, NotADirectoryError) as error:
            raise _refuse(found.path, "is there twice") from error
        with file:
            target.chmod(0o755 if found.executable else 0o644)
            while chunk := found.data.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        entries.append(found.entry(f"sha256:{digest.hexdigest()}"))
    for path, _, _ in os.walk(folder):
        _sync(Path(path))
    return digest_of_entries(entries)


# one bundle on the host


class _Host:
    """A bundle on this host, which was entered.

    Args:
        plan: the bundle.
        proc: a descriptor of /proc.
    """

    def __init__(self, plan: Mapping[str, Any], proc: int) -> None:
        self._plan, self._proc = plan, proc
        self._wanted: Mapping[str, Any] = plan["install"]
        self.name: str = self._wanted["name"]
        self._folder: Path = STATE / self.name
        self._journal = self._folder / "journal.json"
        self._reboot_file = self._folder / "reboot-required"

    def install(self, content: int) -> None:
        self._check_host()
        with self._locked() as runner:
            if self.is_installed():
                if not self.needs_reboot():
                    self._verify(runner)
                return
            record = self._read()
            self._refuse_renamed()
            if self._wanted["type"] == "Sysext":
                self._refuse_others_extension()
            folder = self._place(content)
            previous = record.get("previous") if record.get("state") != _INSTALLED else record["install"]
            record = {"state": _INSTALLING, "install": self._wanted, "previous": previous, "bootID": self._boot_id()}
            self._reboot_file.unlink(missing_ok=True)
            self._write(record)
            if self._wanted["type"] == "Sysext":
                self._extend(runner, folder)
            else:
                self._run(runner, folder, INSTALL, previous)
            reboot = self._plan["reboot"] == "Always" or self._reboot_file.exists()
            if not reboot:
                self._verify(runner, record)
            self._write({**record, "state": _INSTALLED, "reboot": reboot})
            self._prune({self._wanted["digest"], (previous or self._wanted)["digest"]})

    def _refuse_renamed(self) -> None:
        """Refuse a bundle whose name has changed: what it has installed would be forgotten. Raises: HostError."""
        for other in self._find_renamed():
            owner, names = self._wanted["owner"], (other.name, self.name)
            problem = '"{}" was installed on this host, and the bundle is called "{}" now'.format(*names)
            raise HostError(f'{problem}; keep the name, or delete BundleDeployment "{owner}" first')

    def verify(self) -> None:
        with self._locked() as runner:
            if not self.is_installed():
                raise HostError("it is not installed on this host; wait until it has its turn")
            if self.needs_reboot():
                raise HostError("it takes effect with the next boot only; reboot the host")
            self._verify(runner)

    def remove(self) -> None:
        with self._locked() as runner:
            for bundle in (self, *self._find_renamed()):
                bundle.undo(runner)

    def undo(self, runner: _Runner) -> None:
        """Undo what is installed under this name, unless another owner has installed it. Raises: HostError."""
        record = self._read_any()
        if record and not self._is_mine(record):
            return
        if record:
            self._undo(runner, record)
        shutil.rmtree(self._folder)

    def _undo(self, runner: _Runner, record: Mapping[str, Any]) -> None:
        installed = record["install"]
        folder = self._content_of(installed)
        self._write({**record, "state": _REMOVING})
        if installed["type"] == "Sysext":
            self._retract(runner)
        if (folder / UNINSTALL).exists():
            self._run(runner, folder, UNINSTALL, installed, installed)
        self._prune(set())
        self._journal.unlink()

    def _find_renamed(self) -> list[_Host]:
        """Return what the same owner has installed on this host under other names."""
        names = sorted({path.parent.name for path in STATE.glob("*/journal.json")} - {self.name})
        others = [_Host({**self._plan, "install": {**self._wanted, "name": name}}, self._proc) for name in names]
        return [other for other in others if other.has_same_owner()]

    def has_same_owner(self) -> bool:
        """Return whether this owner has installed what is there; of what is damaged, nobody knows."""
        try:
            record = self._read_any()
        except HostError:
            return False
        return bool(record) and self._is_mine(record)

    def is_installed(self) -> bool:
        record = self._read()
        return record.get("state") == _INSTALLED and record["install"] == self._wanted

    def needs_reboot(self) -> bool:
        record = self._read()
        return bool(record.get("reboot")) and record["bootID"] == self._boot_id()

    def reboot(self) -> None:
        command = ["systemctl", "reboot"] if Path("/run/systemd/system").exists() else ["reboot"]
        with self._locked() as runner:
            runner.run(command, "reboot", Path("/"), {"PATH": _PATH})

    # the journal

    def _read(self) -> dict[str, Any]:
        """Return what the journal says; nothing if there is none. Raises: HostError if it is of another owner."""
        record = self._read_any()
        if record and not self._is_mine(record):
            owner = record["install"]["owner"]
            raise HostError(
                f'"{self.name}" was installed on this host by BundleDeployment "{owner}"; delete that one first'
            )
        return record

    def _read_any(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(self._journal.read_bytes())
            record["install"]["owner"]
        except FileNotFoundError:
            return {}
        except (ValueError, LookupError, TypeError) as error:
            raise HostError(
                f'"{self._journal}" cannot be read; delete it to have the bundle installed again'
            ) from error
        return record

    def _is_mine(self, record: Mapping[str, Any]) -> bool:
        return bool(record["install"]["owner"] == self._wanted["owner"])

    def _write(self, record: Mapping[str, Any]) -> None:
        """Replace the journal, durably."""
        new = self._journal.with_suffix(".new")
        with new.open("wb") as file:
            file.write(json.dumps(record, indent=1, sort_keys=True).encode())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._journal)
        _sync(self._folder)

    @contextmanager
    def _locked(self) -> Iterator[_Runner]:
        """Hold the lock of the host. Raises: HostError if others do not give it up in the time of a script."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path, seconds = STATE / "lock", float(self._plan["timeoutSeconds"])
        deadline = time.monotonic() + seconds
        with path.open("a+b") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    lock.seek(0)
                    who = lock.read(_LINE_BYTES).decode(errors="replace") or "another bundle"
                    if time.monotonic() > deadline:
                        raise HostError(f"the host is still busy with {who} after {seconds:g} s") from None
                    time.sleep(_POLL_SECONDS)
            lock.truncate(0)
            lock.write(f'"{self.name}"'.encode())
            lock.flush()
            yield _Runner(self._proc, lock.fileno(), seconds)

    def _boot_id(self) -> str:
        with _open("sys/kernel/random/boot_id", self._proc) as file:
            return file.read().decode().strip()

    # the host

    def _check_host(self) -> None:
        """Refuse a host that the bundle is not for, before anything is changed. Raises: HostError."""
        machine = os.uname().machine
        architecture = ARCHITECTURES.get(machine, machine)
        if architecture not in self._plan["architectures"]:
            supported = ", ".join(self._plan["architectures"])
            raise HostError(f"the host is {architecture}, and the bundle is for {supported}; correct the nodeSelector")
        release = _read_os_release()
        host = (release.get("ID", "linux"), release.get("VERSION_ID", ""))
        for supported in self._plan["hosts"]:
            if host[0] == supported["id"] and host[1] in supported.get("versionIDs", [host[1]]):
                return
        names = ", ".join(" ".join([found["id"], *found.get("versionIDs", [])]) for found in self._plan["hosts"])
        raise HostError(
            f"the host is {' '.join(host).strip()}, and the bundle is for {names}; correct the nodeSelector"
        )

    # content on the host

    def _content_of(self, installed: Mapping[str, Any]) -> Path:
        digest: str = installed["digest"]
        return self._folder / digest.removeprefix("sha256:")

    def _place(self, content: int) -> Path:
        """Return the folder with the content; it is unpacked unless it is there, unchanged.

        Raises: HostError if the content is not what the plan is for, or there is no room for it.
        """
        folder, digest = self._content_of(self._wanted), self._wanted["digest"]
        if folder.exists():
            with suppress(HostError):
                if digest_of_folder(folder) == digest:
                    return folder
            shutil.rmtree(folder)  # changed by a script, or by somebody
        partial = folder.with_suffix(".partial")
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir()
        try:
            found = _copy(_read_content(content), partial)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)  # above all on a full disk
            raise
        if found != digest:
            shutil.rmtree(partial)
            raise HostError(f"the content has the digest {found}, and {digest} was expected; nothing was run")
        partial.rename(folder)
        _sync(self._folder)
        return folder

    def _prune(self, kept: set[str]) -> None:
        """Delete all content but that of some digests."""
        names = {digest.removeprefix("sha256:") for digest in kept}
        for path in self._folder.iterdir():
            if path.is_dir() and path.name not in names:
                shutil.rmtree(path)

    # scripts

    def _run(
        self,
        runner: _Runner,
        folder: Path,
        script: str,
        previous: Mapping[str, Any] | None,
        installed: Mapping[str, Any] | None = None,
    ) -> None:
        installed = installed or self._wanted
        env = {
            "PATH": _PATH,
            "HOME": "/root",
            **installed["env"],
            "HOST_BUNDLE_NAME": installed["name"],
            "HOST_BUNDLE_VERSION": installed["version"],
            "HOST_BUNDLE_PREVIOUS_VERSION": (previous or {}).get("version", ""),
        }
        if self._plan["reboot"] != "Never":
            env["HOST_BUNDLE_REBOOT_FILE"] = str(self._reboot_file)
        runner.run([*interpreter_of(folder / script), f"./{script}"], script, folder, env)

    def _verify(self, runner: _Runner, record: Mapping[str, Any] | None = None) -> None:
        folder = self._content_of(self._wanted)
        if self._wanted["type"] == "Sysext":
            self._refuse_others_extension()
            if not (self._is_extension_mine() and self._is_merged()):
                self._extend(runner, folder)
        if (folder / VERIFY).exists():
            previous = (record or self._read()).get("previous")
            self._run(runner, folder, VERIFY, previous)

    # system extensions

    @property
    def _extension(self) -> Path:
        return EXTENSIONS / self.name

    def _is_extension_mine(self) -> bool:
        """Return whether the extension is a link that an agent has made: to the content of this very bundle."""
        if not self._extension.is_symlink():
            return False
        target = self._extension.readlink()
        return target.parent.name.isalnum() and target == self._folder / target.parent.name / SYSEXT

    def _refuse_others_extension(self) -> None:
        """Refuse to replace an extension that somebody else has put there, or to hide one. Raises: HostError."""
        for folder in _EXTENSION_FOLDERS:
            for suffix in _EXTENSION_SUFFIXES:
                path = folder / f"{self.name}{suffix}"
                is_there = path.is_symlink() or path.exists()
                if is_there and not (path == self._extension and self._is_extension_mine()):
                    problem = f"{_kind_of(path)} that this bundle has not put there"
                    raise HostError(f'"{path}" is {problem}; remove it, or give the bundle another name')

    def _extend(self, runner: _Runner, folder: Path) -> None:
        EXTENSIONS.mkdir(parents=True, exist_ok=True)
        if self._is_extension_mine():
            new = self._folder / "extension"
            new.unlink(missing_ok=True)
            new.symlink_to(folder / SYSEXT)
            new.replace(self._extension)
        else:
            self._extension.symlink_to(folder / SYSEXT)  # fails if somebody has put something there meanwhile
        self._refresh(runner)

    def _retract(self, runner: _Runner) -> None:
        if self._is_extension_mine():
            self._extension.unlink()
        self._sysext(runner)

    def _refresh(self, runner: _Runner) -> None:
        """Merge the extensions of the host. systemd-sysext succeeds if it leaves out one that is for another system."""
        self._sysext(runner)
        if not self._is_merged():
            problem = f'systemd-sysext has not merged "{self.name}"'
            raise HostError(f"{problem}; compare its extension-release with os-release")

    def _sysext(self, runner: _Runner) -> None:
        runner.run(["systemd-sysext", "refresh"], "systemd-sysext", Path("/"), {"PATH": _PATH})

    def _is_merged(self) -> bool:
        return Path(f"/usr/lib/extension-release.d/extension-release.{self.name}").exists()


def _kind_of(path: Path) -> str:
    if path.is_symlink():
        return f'a link to "{path.readlink()}"'
    return "a folder" if path.is_dir() else "a file"


def interpreter_of(script: Path) -> list[str]:
    """Return what runs a script: what its first line says. Whether it is executable, not every source knows."""
    with script.open("rb") as file:
        line = file.readline(_LINE_BYTES).decode(errors="replace").strip()
    found = line.removeprefix("#!").split(None, 1) if line.startswith("#!") else []
    return found or _SHELL


def _read_os_release() -> dict[str, str]:
    for path in _OS_RELEASE:
        with suppress(FileNotFoundError):
            lines = path.read_text(errors="replace").splitlines()
            pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
            return {key.strip(): value.strip().strip("'\"") for key, _, value in pairs}
    return {}


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
