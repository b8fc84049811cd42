"""Real git servers on loopback: `git http-backend` behind a small web server, and `git upload-pack` behind real SSH.

Both serve the bare repositories of one folder, and count what they were asked. The web server also does what a bad
network or a proxy does: error statuses, redirects, cut connections, silence.
"""

from __future__ import annotations

import asyncio
import base64
import os
import queue
import shlex
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import unquote, urlsplit

import asyncssh

from tests.support.web_servers import QuietServer

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
FILE, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
Name = TypeVar("Name", bound=str | bytes)
Content = bytes | tuple[str, bytes]
"""Of a file; or a mode and the content, the target, or the name of the commit."""


class GitRepository:
    """A bare repository.

    Args:
        folder: is made.
        algorithm: sha1 or sha256.
        config: as git-config(1) has it.
    """

    def __init__(self, folder: Path, *, algorithm: str = "sha1", config: Mapping[str, str] | None = None) -> None:
        # What `git init` and `git config` make, without a process for each.
        self.folder = folder
        for part in ("objects", "refs"):
            (folder / part).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        settings = {"core.repositoryformatversion": "1", "core.bare": "true", "extensions.objectformat": algorithm}
        split = ([*key.split("."), value] for key, value in {**settings, **(config or {})}.items())
        (folder / "config").write_text("".join(f"[{section}]\n\t{key} = {value}\n" for section, key, value in split))

    def commit(
        self,
        files: Mapping[Name, Content],
        *,
        branch: str = "main",
        orphan: bool = False,
    ) -> str:
        """Commit added or changed files, with `orphan` without parents; return the name of the commit."""
        ref = f"refs/heads/{branch}"
        stream = bytearray(f"reset {ref}\n\n" if orphan else "", "ascii")
        stream += f"commit {ref}\ncommitter t <t@example.org> 1700000000 +0000\ndata 0\n".encode()
        stream += f"from {ref}^0\n".encode() if self._is_loose(ref) and not orphan else b""
        for path, content in files.items():
            mode, data = content if isinstance(content, tuple) else (FILE, content)
            name = path.encode() if isinstance(path, str) else path
            if mode == SUBMODULE:
                stream += b"M %s %s %s\n" % (mode.encode(), data, name)
            else:
                stream += b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), name, len(data), data)
        self.git("fast-import", "--quiet", "--force", stdin=bytes(stream))
        return self._read(ref)

    def tag(self, name: str, commit: str, *, annotated: bool = True) -> str:
        """Add a tag. Return the name of its object, or of the commit."""
        self.git("tag", *(["-a", "-m", "x"] if annotated else []), name, commit)
        return self._read(f"refs/tags/{name}")

    def _is_loose(self, ref: str) -> bool:
        """Whether a ref exists: nothing here packs refs."""
        return (self.folder / ref).exists()

    def _read(self, ref: str) -> str:
        return (self.folder / ref).read_text().strip()

    def make_ambiguous(self) -> str:
        """Add commits to a branch until two names begin with the same four digits. Return these."""
        who = "committer t <t@example.org> 1700000000 +0000"
        commits = "".join(f"commit refs/heads/many\n{who}\ndata {len(str(n))}\n{n}\n" for n in range(1500))
        self.git("fast-import", "--quiet", stdin=commits.encode())
        beginnings = sorted(name[:4] for name in self.git("rev-list", "--all").split())
        # Of 1500 names some 17 pairs share four digits.
        return next(one for one, other in pairwise(beginnings) if one == other)

    def forget(self, commit: str) -> None:
        """Collect what no ref leads to any more, which has to include a commit."""
        self.git("repack", "-q", "-a", "-d")
        self.git("prune", "--expire=now")
        if self.git("cat-file", "-t", commit, check=False):
            raise AssertionError("a ref leads there")

    def git(self, *arguments: str, stdin: bytes | None = None, check: bool = True) -> str:
        """Run git here and return what it says."""
        who = {f"GIT_{role}_{what}": "t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env={**ENVIRONMENT, **who}, input=stdin, check=check, capture_output=True
        )
        return done.stdout.decode().strip()


@dataclass
class Faults:
    """A fault for requests whose path contains `where`."""

    where: str = "/"
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with that status."""
    body: bytes | None = None
    """Sent instead, with status 200."""
    content_type: str = "text/plain"
    """Of that body."""
    endless: bytes = b""
    """Sent repeatedly after the body."""
    cut_after: int = -1
    """Bytes of the body, then the connection ends."""
    hang_after: int = -1
    """Bytes of the body, then nothing more until the server ends."""
    silent: bool = False
    """No answer, until the server ends."""


class GitHttpServer:
    """Serves the repositories of a folder between `with` and its end.

    Args:
        tls: of the server; None for plain http.
        host: loopback address that it listens at.
    """

    def __init__(self, root: Path, tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> None:
        self.root = root
        self.authorization = ""
        """The header that is wanted; '' for none."""
        self.protocol_v2 = True
        self.faults = Faults()
        self.requests: list[tuple[str, str, str]] = []
        """Method, path with query, Authorization."""
        self.stop = threading.Event()
        self.hanging = threading.Event()
        """A body hangs in the middle."""
        self._server = QuietServer((host, 0), type("Handler", (_Handler,), {"outer": self}))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_port
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._server.shutdown()
        self._server.server_close()

    def wants_basic(self, user: str, password: str) -> None:
        """Require a user and a password from now on."""
        self.authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class _Handler(BaseHTTPRequestHandler):
    outer: GitHttpServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        authorization = self.headers.get("Authorization", "")
        self.outer.requests.append((self.command, self.path, authorization))
        body = self._read_body()
        faults = self.outer.faults if self.outer.faults.where in self.path else Faults()
        if self.outer.authorization and authorization != self.outer.authorization:
            self._send(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
        elif faults.silent:
            self.outer.stop.wait()
        elif faults.status:
            self._send(faults.status, faults.headers, b"")
        elif faults.body is not None:
            self._send(200, {"Content-Type": faults.content_type}, faults.body, is_endless=bool(faults.endless))
            while faults.endless and not self.outer.stop.is_set():
                self.wfile.write(faults.endless)
        else:
            status, headers, content = self._ask_git(body)
            self._send(status, headers, content, cut_after=max(faults.cut_after, faults.hang_after))
            if faults.hang_after >= 0:
                self.outer.hanging.set()
                self.outer.stop.wait()

    do_POST = do_GET  # noqa: N815 - http.server's name

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def _ask_git(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(self.path)
        environment = {
            **ENVIRONMENT,
            "GIT_PROJECT_ROOT": str(self.outer.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": unquote(url.path),  # as servers hand it to CGI programs
            "QUERY_STRING": url.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        if self.outer.protocol_v2:
            environment["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        command = ["git", "http-backend"]
        output = subprocess.run(command, input=body, env=environment, capture_output=True, check=False).stdout
        head, _, content = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        return int(headers.pop("Status", "200").split()[0]), headers, content

    def _send(
        self, status: int, headers: Mapping[str, str], body: bytes, *, is_endless: bool = False, cut_after: int = -1
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not is_endless:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if cut_after < 0 else body[:cut_after])


@dataclass(frozen=True, kw_only=True)
class GitSshServer:
    """An SSH server that runs git upload-pack for any client with the key."""

    port: int
    private_key: str
    """Of the client, in the format of OpenSSH."""
    host_key: str
    """Public, as known_hosts has it after the name."""
    commands: list[str]
    """That were asked for."""

    @property
    def known_hosts(self) -> str:
        """The line of known_hosts for 127.0.0.1."""
        return f"[127.0.0.1]:{self.port} {self.host_key}\n"


@contextmanager
def serve_ssh(root: Path) -> Iterator[GitSshServer]:
    """Serve the repositories of a folder by SSH, on an event loop in a thread of its own."""
    started: queue.Queue[tuple[GitSshServer, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        stop = asyncio.Event()
        async with _listen(root) as server:
            started.put((server, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    server, loop, stop = started.get(timeout=20)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)


@asynccontextmanager
async def _listen(root: Path) -> AsyncIterator[GitSshServer]:
    client, host = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    commands: list[str] = []

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        commands.append(process.command or "")
        program, path = shlex.split(process.command or "")
        folder = root / path.lstrip("/~")
        if program == "git-upload-pack" and folder.is_dir():
            process.exit(await _upload_pack(process, folder))
        else:
            process.stderr.write(f"fatal: '{path}' does not appear to be a git repository\n".encode())
            process.exit(128)

    async with asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host],
        authorized_client_keys=asyncssh.import_authorized_keys(client.export_public_key().decode()),
        process_factory=serve,
        encoding=None,
    ) as acceptor:
        yield GitSshServer(
            port=acceptor.get_port(),
            private_key=client.export_private_key().decode(),
            host_key=host.export_public_key().decode().strip(),
            commands=commands,
        )


async def _upload_pack(process: asyncssh.SSHServerProcess[bytes], folder: Path) -> int:
    pipe = asyncio.subprocess.PIPE
    git = await asyncio.create_subprocess_exec(
        "git", "upload-pack", str(folder), stdin=pipe, stdout=pipe, env=ENVIRONMENT
    )
    if git.stdin is None or git.stdout is None:
        raise AssertionError("no pipes")
    asking = asyncio.create_task(_copy(process.stdin, git.stdin))
    await _copy(git.stdout, process.stdout)
    asking.cancel()
    return await git.wait()


async def _copy(
    source: asyncio.StreamReader | asyncssh.SSHReader[bytes], target: asyncio.StreamWriter | asyncssh.SSHWriter[bytes]
) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    if isinstance(target, asyncio.StreamWriter):
        target.close()
