"""Runs git as a confined child process.

Invariants: a child gets PATH and the variables set here, nothing else of our environment; settings and credentials are
passed in the environment, never in argv; no hook, prompt, configuration file or other transport; it has a session of
its own, whose process group is killed at the deadline, on cancel, over a limit, and when git has exited; its memory,
files and output are bounded. It sees no files except the scratch folder's, and of the network one TCP port, or nothing.

A child that talks to a server must make progress: its folder grows at the minimum rate, or it computes. Git limits the
pace itself over http only (`http.lowSpeedLimit`), not over ssh. Resolving deltas writes little and may take long, so
processor time counts as progress.

GitPython only starts the child: its own timeout needs pgrep or ps, and leaves git-remote-https behind without them. Not
here: the commands (objects.py).

Git, curl and ssh report errors on standard error only, in English (LC_ALL=C). That text is matched and never quoted: it
contains URLs, names of temporary files, and text of the server, whose own lines ("remote: …") are ignored.
"""

from __future__ import annotations

import io
import mmap
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self, cast

import git

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.certificates import EXPIRED, NOT_YET_VALID
from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.processes.programs import (
    CHUNK,
    TICK,
    ProcessGroup,
    View,
    confined,
    programs,
    read_pipes,
    start_confined,
)
from rukpak.controller.sources.git.connection import Connection
from rukpak.controller.sources.hosts import Place
from rukpak.controller.sources.pace import RATE_SECONDS, TIMED_OUT, check_deadline, too_slow
from rukpak.controller.sources.routes import NOT_RESOLVED, of_proxy
from rukpak.controller.sources.transport import (
    BAD_CLIENT_CERTIFICATE,
    CUT,
    MAY_WANT_CERTIFICATE,
    NO_CLIENT_CERTIFICATE,
    NO_TLS,
    REFUSED,
    describe_refusal,
)
from rukpak.controller.sources.trust import name_remedy

_COMPUTING_SECONDS = 1.0
"""Processor time within `RATE_SECONDS` that a child needs far less of while it waits for a server."""
# Fields of /proc/PID/stat after the name of the program (proc_pid_stat(5)).
_SESSION, _TIMES = 3, slice(11, 15)
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # importing git runs git, and fails without it
_COMPLAINT_BYTES = 64 * 1024  # of stderr, from its end
OUTPUT_BYTES = 64 * MEBIBYTE
"""Limit of what is read of the output of a child, but for files."""
_NOT_STARTED = (126, 127)  # exit statuses of prlimit(1) and env(1) if git could not be started
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
    "core.bigFileThreshold": "1m",  # larger blobs are streamed, not held in memory
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
    # Written by old tools into honest histories, or harmless without a work tree.
    "fetch.fsck.badTimezone": "ignore",
    "fetch.fsck.missingSpaceBeforeDate": "ignore",
    "fetch.fsck.zeroPaddedFilemode": "ignore",
}


class GitPace:
    """The progress of one child.

    Args:
        session: of the child's processes.
        network: how long a server may be silent, and its minimum rate.
        clock: monotonic seconds.
        computed: processor time of a session so far, in seconds.
    """

    def __init__(
        self,
        session: int,
        network: Network,
        clock: Callable[[], float] = time.monotonic,
        computed: Callable[[int], float] | None = None,
    ) -> None:
        self._session, self._network, self._clock = session, network, clock
        self._computed = computed or processor_seconds
        self._started = self._since = clock()
        self._first: int | None = None
        self._size, self._spent = 0, 0.0

    def problem(self, size: int) -> str:
        """Return what is wrong with the server, given the size of the folder in bytes; '' if it is fast enough."""
        now = self._clock()
        if self._first is None:
            self._first = self._size = size
        elapsed = now - self._since
        if elapsed < RATE_SECONDS:
            return ""
        spent = self._computed(self._session)
        rate = self._network.bytes_per_second
        if size - self._size >= rate * elapsed or spent - self._spent >= _COMPUTING_SECONDS:
            self._since, self._size, self._spent = now, size, spent
            return ""
        if size <= self._first and now - self._started < self._network.idle_seconds:
            return ""  # nothing has arrived yet
        return too_slow(rate)


def processor_seconds(session: int) -> float:
    """Return the processor time used by the processes of a session, and by the children that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has exited
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                ticks += sum(map(int, fields[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")


class GitFailed(Exception):  # noqa: N818 - it is what happened; `translate` makes an error of it
    """Git exited with a status other than 0; `complaint` is its standard error, which no message may quote."""

    def __init__(self, complaint: str) -> None:
        super().__init__("git failed")
        self.complaint = complaint


class GitRunner:
    """Starts git in one folder, for one call of a source.

    Args:
        access: deadline, cancel token, budget and progress.
        folder: of the repository, created by `init`.
        connection: additional settings and variables, and what a child may reach; by default nothing.
        counted: the folder whose size is limited; by default the scratch folder.
    """

    def __init__(
        self, access: Access, folder: Path, connection: Connection | None = None, *, counted: Path | None = None
    ) -> None:
        self._access, self._folder, self._connection = access, folder, connection or Connection()
        self._counted = counted or access.scratch
        protocol, program = self._connection.protocol, self._connection.program
        settings = {**_CONFIG, **self._connection.config}
        if protocol:
            settings[f"protocol.{protocol}.allow"] = "always"
        self._environment = {
            **_ENVIRONMENT,
            **({"GIT_SSH": str(program), "GIT_SSH_VARIANT": "ssh"} if program else {}),
            "GIT_DIR": str(folder),
            "GIT_ALLOW_PROTOCOL": protocol or "none",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for index, (key, value) in enumerate(settings.items()):
            self._environment[f"GIT_CONFIG_KEY_{index}"] = key
            self._environment[f"GIT_CONFIG_VALUE_{index}"] = value

    def run(self, *arguments: str, lines: Sequence[str] = ()) -> bytes:
        """Run git and return its output.

        Args:
            arguments: fixed words and checked values; no secrets.
            lines: of its standard input.

        Raises: GitFailed; BundleError (Unreachable at the deadline, ContentRejected over a limit).
        """
        with self.start(*arguments, lines=lines) as child:
            return child.read_all()

    @contextmanager
    def spool(self, *arguments: str) -> Iterator[bytes | mmap.mmap]:
        """Run git and return its output, which is in a file and takes no memory; see `run`."""
        with tempfile.TemporaryFile(dir=self._access.scratch) as file:
            with self.start(*arguments) as child:
                child.copy_all(file)
            if not file.tell():
                yield b""
                return
            file.flush()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as output:
                yield output

    @contextmanager
    def start(self, *arguments: str, lines: Sequence[str] = ()) -> Iterator[Child]:
        """Start git, to read its output; no process is left when the block ends.

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
        # GitPython can add to os.environ, but not remove from it; only names are in argv.
        dropped = [f"--unset={name}" for name in os.environ if name not in ("PATH", *self._environment)]
        files = self._access.limits.compressed_bytes
        command = confined(["env", *dropped, "git", *arguments], fsize=files, data=self._access.limits.program_bytes)

        def _start() -> git.Git.AutoInterrupt:
            return git.Git(self._folder).execute(
                command, env=self._environment, istream=source, as_process=True, start_new_session=True
            )

        program, port = self._connection.program, self._connection.port
        ssh = (*programs("ssh"), program) if program else ()
        seen = (*programs("prlimit", "env", "git"), *ssh)
        view = View(programs=seen, change=(self._access.scratch.resolve(),), port=port)
        running = start_confined(_start, view, self._access.path, required=self._access.confinement_required)
        return Child(running, self._access, self._counted, talks=bool(self._connection.protocol))


class Child:
    """A running git, and the thread that watches it. A context manager, which ends it.

    Attributes:
        stopped: why the watcher has killed it, so that its output is truncated; None otherwise.
    """

    def __init__(self, running: git.Git.AutoInterrupt, access: Access, counted: Path, *, talks: bool) -> None:
        self._running = running  # GitPython kills git when this is collected
        process = running.proc
        if process is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("git was started without pipes")
        self._group = ProcessGroup(process)
        self._output, self._complaints = cast("BinaryIO", process.stdout), cast("BinaryIO", process.stderr)
        self._access, self._counted = access, counted
        self._complaint = bytearray()
        self._pace = GitPace(process.pid, access.network) if talks else None
        self.stopped: Exception | None = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="git", daemon=True)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the child and its group; raise its failure unless the block has failed already."""
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
        """Return `size` bytes of the output, fewer at its end."""
        return self._output.read(size)

    def read_line(self) -> bytes:
        """Return the next line, of at most 64 KiB."""
        return self._output.readline(CHUNK)

    def read_all(self) -> bytes:
        """Return the whole output.

        Raises: BundleError (ContentRejected over `OUTPUT_BYTES`).
        """
        found = io.BytesIO()  # reading as much as is allowed would allocate that
        self.copy_all(found)
        return found.getvalue()

    def copy_all(self, file: BinaryIO) -> None:
        """Write the whole output to a file. Raises: as `read_all`."""
        while piece := self._output.read(CHUNK):
            file.write(piece)
            if file.tell() > OUTPUT_BYTES:
                raise self.too_much()

    def too_much(self) -> BundleError:
        """Return the error for an output over `OUTPUT_BYTES`."""
        problem = f"the names in the repository exceed the limit of {describe_bytes(OUTPUT_BYTES)}"
        return BundleError(Reason.CONTENT_REJECTED, f"{problem}; use a smaller repository", place=self._access.path)

    def _judge(self, status: int) -> None:
        if self.stopped:
            raise self.stopped
        if status in _NOT_STARTED:
            raise RuntimeError("cannot start git; install git where the controller runs")
        self._check_size()
        if status:
            raise GitFailed(self._complaint.decode(errors="replace"))

    # the watcher

    def _watch(self) -> None:
        read_pipes({self._complaints: self._take_complaint}, self._check, self._ended)
        while not self._ended.wait(TICK):
            self._check()

    def _take_complaint(self, data: bytes) -> None:
        self._complaint += data
        del self._complaint[:-_COMPLAINT_BYTES]

    def _check(self) -> None:
        if self.stopped:
            return
        try:
            check_deadline(self._access)
            self._check_pace(self._check_size())
        except Exception as error:  # noqa: BLE001 - whatever it is, the child must not continue without its watcher
            self.stopped = error
            self._group.kill()

    def _check_pace(self, size: int) -> None:
        if self._pace and (problem := self._pace.problem(size)):
            message = f"cannot read from the server: {problem}; check the address and the network"
            raise BundleError(Reason.UNREACHABLE, message, place=f"{self._access.path}.repository")

    def _check_size(self) -> int:
        size, limit = folder_bytes(self._counted), self._access.limits.compressed_bytes
        self._access.progress(size, 0)
        if size >= limit:
            problem = f"the repository exceeds the limit of {describe_bytes(limit)}; make it smaller"
            raise BundleError(Reason.CONTENT_REJECTED, problem, place=self._access.path)
        return size


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, which may change meanwhile."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(where, name)).st_size  # noqa: PTH118 - walk gives text
    return total


_CUT = f"{CUT}, or it does not speak git's protocol"


NOT_FOLLOWED = (
    "redirects to where git must not follow: to another host with credentials, to plain http, or to an address that is "
    'not allowed; use the final address of the repository, often the one that ends in ".git"'
)
"""The problem of a host whose redirect is refused."""


_VERIFY_REMEDY = "{remedy}"
_NOT_VERIFIED = f"has a certificate that cannot be verified; {_VERIFY_REMEDY}"

# What git, curl or ssh says; the reason; what is wrong with the host, and the remedy, but of an unreachable host the
# problem only. The first match counts: specific errors precede their consequences.
_FAILURES: tuple[tuple[str, Reason, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|differs from the key for",
        Reason.HOST_KEY_MISMATCH,
        "has a host key that differs from known_hosts; find out why, then correct known_hosts in the Secret of auth",
    ),
    (
        r"host key is known for|Host key verification failed",
        Reason.HOST_KEY_UNKNOWN,
        "has a host key that is not in known_hosts; add it to known_hosts in the Secret of auth",
    ),
    (
        r"incorrect passphrase supplied|error in libcrypto|invalid format",
        Reason.SECRET_INVALID,
        "requires a private key that is readable without a passphrase; replace the key in the Secret of auth",
    ),
    # Of curl with OpenSSL, of GnuTLS, and of curl's own checks with GnuTLS.
    (
        r"certificate is not yet valid|chain uses not yet valid certificate|certificate not activated yet",
        Reason.TLS_VERIFICATION_FAILED,
        f"has a certificate that {NOT_YET_VALID}",
    ),
    (
        r"certificate has expired|chain uses expired certificate|certificate expiration date has passed",
        Reason.TLS_VERIFICATION_FAILED,
        f"has a certificate that {EXPIRED}",
    ),
    (
        r"certificate verification failed\. CAfile",  # of curl before 8.11 with GnuTLS, whatever is wrong
        Reason.TLS_VERIFICATION_FAILED,
        f"{_NOT_VERIFIED}; check the dates of the certificate and the clock, too",
    ),
    (
        r"no alternative certificate subject name|certificate subject name .* does not match",
        Reason.TLS_VERIFICATION_FAILED,
        "has a certificate for another name; use a name that the certificate has",
    ),
    (
        r"certificate verification failed|SSL certificate problem|unable to get local issuer certificate",
        Reason.TLS_VERIFICATION_FAILED,
        _NOT_VERIFIED,
    ),
    # Of curl with OpenSSL, and of GnuTLS, which often does not say more than that the server has said no.
    (r"alert certificate required|Certificate is required", Reason.UNAUTHORIZED, NO_CLIENT_CERTIFICATE),
    (
        (
            r"alert (?:unknown ca|(?:bad|unsupported) certificate|certificate (?:expired|revoked|unknown))"
            r"|gnutls_handshake\(\) failed: (?:CA is unknown|Certificate is bad|Certificate was revoked)"
        ),
        Reason.UNAUTHORIZED,
        BAD_CLIENT_CERTIFICATE,
    ),
    (
        (
            r"alert handshake failure|gnutls_handshake\(\) failed: Handshake failed|A TLS fatal alert has been received"
            r"|Send failure: Broken pipe|getpeername\(\) failed"
        ),
        Reason.UNREACHABLE,
        MAY_WANT_CERTIFICATE,
    ),
    (r"gnutls_handshake\(\) failed|SSL_ERROR|TLS connect error|SSL_connect", Reason.UNREACHABLE, NO_TLS),
    (
        r"could not read (?:Username|Password)|Authentication failed|returned error: 40[13]\b|Permission denied \(",
        Reason.UNAUTHORIZED,
        "denies access to the repository, or does not have it; correct repository, or check auth",
    ),
    (
        (
            r"returned error: 30\d|protocol .* not (?:supported|allowed)|Protocol .* (?:disabled|not supported)"
            r"|transport '.*' not allowed"
        ),
        Reason.INSECURE_REFUSED,
        NOT_FOLLOWED,
    ),
    (
        (
            r"repository '.*' not found|not valid: is this a git repository|does not appear to be a git repository"
            r"|(?i:repository not found)|returned error: 4(?:04|10)\b|not a git repository"
        ),
        Reason.NOT_FOUND,
        "does not have the repository; correct repository, or check auth",
    ),
    (
        r"not a tree object",
        Reason.NOT_FOUND,
        "has something else than a commit by the name in ref; name a branch, a commit or another tag",
    ),
    (r"returned error: (?:408|429)\b", Reason.UNREACHABLE, "it limits the rate of requests"),
    (r"returned error: 4\d\d\b", Reason.UNREACHABLE, "it refuses the request"),
    (r"returned error: 5\d\d\b", Reason.UNREACHABLE, "it returned a server error"),
    (r"Connection refused|Couldn't connect to server", Reason.UNREACHABLE, REFUSED),
    (r"Could not resolve host", Reason.UNREACHABLE, NOT_RESOLVED),
    (
        r"timed out|Operation too slow|No route to host|Network is unreachable|not responding",
        Reason.UNREACHABLE,
        TIMED_OUT,
    ),
    (
        r"dumb http transport does not support",
        Reason.UNSUPPORTED_CONTENT,
        "serves the repository as plain files; serve it with git http-backend, or from a forge",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        Reason.STORAGE_FULL,
        "sends more than the disk of the content store has space for; enlarge it",
    ),
    (
        r"Out of memory|out of memory|mmap failed: Cannot allocate",
        Reason.CONTENT_REJECTED,
        "sends more than git may hold in memory; make the repository or its files smaller",
    ),
    (
        r"unexpected disconnect|early EOF|bytes of body are still expected|transfer closed|RPC failed",
        Reason.UNREACHABLE,
        _CUT,
    ),
    (
        r"fsck error|badTree|bad object|Not all child objects",
        Reason.CONTENT_REJECTED,
        "sends objects that git fsck refuses; repair the repository",
    ),
    (
        (
            r"SHA\d+ mismatch|SHA\d+ COLLISION|pack is corrupted|pack has bad object|inflate: data stream error"
            r"|bad pack|pack signature mismatch|unresolved deltas|did not send all necessary objects|could not fetch"
        ),
        Reason.DIGEST_MISMATCH,
        "sends objects that do not match their hashes, or omits some; repair the repository",
    ),
    ("", Reason.UNREACHABLE, _CUT),
)
# The first is how servers refuse a missing object in protocol v2, or where clients may request any name. Of the
# others, git itself reports the first, before a request, if a server serves refs only; JGit reports the second.
_ABSENT = re.compile(r"not our ref")
_NOT_BY_NAME = re.compile(r"unadvertised object|want [0-9a-f]+ not valid|couldn't find remote ref")

# Of curl, since 7.87 and before.
_REFUSED_BY_PROXY = re.compile(
    r"(?:CONNECT tunnel failed, response |Received HTTP code |returned error: (?=407))(\d{3})"
)
_REDIRECTED = re.compile(r"returned error: 30\d")


class NotServedError(Exception):
    """The server does not serve an object by its name.

    Args:
        is_absent: whether it lacks the object, rather than serves none by name.
    """

    def __init__(self, *, is_absent: bool) -> None:
        super().__init__("object is not served")
        self.is_absent = is_absent


class RedirectedError(BundleError):
    """The server redirects, which git does not follow (source.py does)."""


def check_served(complaint: str) -> None:
    """Check that git does not complain about an object that is not served by name.

    Raises: NotServedError.
    """
    if _ABSENT.search(complaint):
        raise NotServedError(is_absent=True)
    if _NOT_BY_NAME.search(complaint):
        raise NotServedError(is_absent=False)


def translate(complaint: str, place: Place, *, has_authority: bool = False) -> BundleError:
    """Return the error for a complaint of git about a request to a place.

    Args:
        complaint: the standard error of git.
        place: of the request.
        has_authority: whether the certificates to trust are given.
    """
    text = "\n".join(line for line in complaint.splitlines() if not line.startswith("remote: "))
    reason, problem = next((reason, problem) for pattern, reason, problem in _FAILURES if re.search(pattern, text))
    problem = problem.replace(_VERIFY_REMEDY, name_remedy(is_given=has_authority))
    if place.proxy and (refusal := _REFUSED_BY_PROXY.search(text)):
        reason, problem = Reason.UNREACHABLE, describe_refusal(int(refusal[1]))
    elif place.proxy and problem in (NOT_RESOLVED, REFUSED):
        problem = of_proxy(problem)  # which is all that curl connects to
    if reason is Reason.UNREACHABLE:
        return place.unreachable(problem)
    kind = RedirectedError if _REDIRECTED.search(text) else BundleError
    return kind(reason, f"{place.described} {problem}", place=place.subject)
