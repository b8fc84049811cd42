"""Targets: short texts of users, servers and programs: references, headers, output of git."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode, urlsplit

from hack.fuzzing.archives import LIMITS, read_all
from hack.fuzzing.target import Target, check_message, expect, refusals, scratch
from rukpak.api.bounds import LONGEST_RETRY_AFTER, read_retry_after
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, EntryKind, RegistryCredentials
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.disk import Spool
from rukpak.controller.kube.encoding import parse_warnings
from rukpak.controller.sources.git.connection import candidates, check_ref, parse_repository
from rukpak.controller.sources.git.objects import Item, read_items, read_listing
from rukpak.controller.sources.git.process import NotServedError, check_served, translate
from rukpak.controller.sources.hosts import Place, parse_address
from rukpak.controller.sources.http import Download, Wanted, find_validator
from rukpak.controller.sources.image.login import Login, is_related, parse_challenges
from rukpak.controller.sources.image.reference import find_endpoint, parse_reference

_PATH = "spec.sources[0].git"
_NEXT = b"\n=== \n"
"""The separator of two responses of a server."""
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_NOW = 1_790_000_000.0


# what users write


def check_reference(data: bytes) -> None:
    """Parse an image reference: its parts become paths of URLs, and its normal form means the same."""
    with refusals(ValueError):
        reference = parse_reference(_text(data))
        url = f"https://{reference.host}/v2/{reference.repository}/manifests/{reference.target}"
        expect(not _UNSAFE.search(url) and not set(url) & set("?#%"), f"an unsafe URL: {url!r}")
        expect(".." not in reference.repository.split("/"), f"a path that leads up: {url!r}")
        expect(urlsplit(url).netloc == reference.host, f"another host: {url!r}")
        expect(parse_reference(reference.normal).normal == reference.normal, f"another meaning: {reference.normal!r}")


def check_git_ref(data: bytes) -> None:
    """Check a git ref: none is an option, a pattern or an expression."""
    with refusals(ValueError):
        check_ref(text := _text(data))
        for name in candidates(text):
            expect(not name.startswith("-") and not _UNSAFE.search(name), f"an unsafe name: {name!r}")
            expect(not set(name) & set("~^:?*["), f"a pattern or an expression: {name!r}")


def check_repository(data: bytes) -> None:
    """Parse the URL of a repository: git sees three transports, and no option."""
    with refusals(ValueError):
        repository = parse_repository(_text(data))
        expect(not repository.url.startswith("-") and not _UNSAFE.search(repository.url), f"{repository.url!r}")
        expect(not re.match(r"[A-Za-z0-9+.-]*::", repository.url), f"a remote helper: {repository.url!r}")
        expect(bool(repository.host) and not repository.host.startswith("-"), f"the host {repository.host!r}")
        expect(parse_repository(repository.url).normal == repository.normal, f"another meaning: {repository.url!r}")


def check_address(data: bytes) -> None:
    """Parse the URL of a file: the URL that is requested is the one that was checked."""
    with refusals(ValueError):
        address = parse_address(_text(data))
        expect(urlsplit(address.url).hostname == address.host, f"another host: {address.url!r}")
        expect(not _UNSAFE.search(address.url), f"an unsafe URL: {address.url!r}")
        expect(parse_address(address.url) == address, f"another meaning: {address.url!r}")


# what servers write


def check_challenges(data: bytes) -> None:
    """Read WWW-Authenticate."""
    for challenge in parse_challenges(data.decode("latin-1")):
        expect(challenge.scheme == challenge.scheme.lower(), f"{challenge!r}")


def check_retry_after(data: bytes) -> None:
    seconds = read_retry_after(data.decode("latin-1"), _NOW)
    expect(seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER, f"{seconds} s to wait")


def check_warnings(data: bytes) -> None:
    """Read headers Warning of the API server."""
    lines = data.decode("latin-1").splitlines()
    expect(sum(map(len, parse_warnings(lines))) <= len(data), "warnings are longer than their headers")


def check_token(data: bytes) -> None:
    """Request a token: a challenge, an empty line, the response. Only servers of the registry are asked."""
    header, _, body = data.partition(b"\n\n")
    credentials = RegistryCredentials(registry="r.example.com", username="u", password="p")  # noqa: S106 - invalid
    for given in (None, credentials, RegistryCredentials(registry="r.example.com", identity_token="t")):  # noqa: S106
        transport: Any = _Servers(body, is_secret=given is not None)
        login = Login(transport, _ENDPOINT, _ACCESS, verify=True)
        for challenge in parse_challenges(header.decode("latin-1")):
            with refusals():
                token = login.request_token(challenge, given)
                expect(not re.search(r"[^\x21-\x7e]", token), f"a token that is no header: {token!r}")


_ENDPOINT = find_endpoint(parse_reference("r.example.com/a/b"), {})
_ACCESS = Access(path=_PATH, deadline=math.inf, cancelled=Event(), scratch=Path())


class _Servers:
    """A transport to servers that all give the same response."""

    def __init__(self, body: bytes, *, is_secret: bool) -> None:
        self._body, self._is_secret = body, is_secret

    def send(
        self, method: str, url: str, headers: Mapping[str, str], *, body: bytes | None = None, named: str = ""
    ) -> Any:
        parts = urlsplit(url)
        is_own = parts.netloc == "r.example.com"
        expect(is_own or parts.scheme == "https", f"{url!r} is asked in plain http")
        expect(is_own or bool(named), f"what {url!r} answers is shown")
        expect(is_related(parts.hostname or "", "r.example.com", is_secret=self._is_secret), f"{url!r} is asked")
        expect(not (self._is_secret and parts.scheme != "https"), f"credentials are sent by {parts.scheme}")
        expect(not re.search(r"[\r\n]", "".join(headers.values())), f"a header of several lines: {method}")
        urlencode({"body": body or b""})
        return SimpleNamespace(status=200, read_all=lambda limit: self._body[:limit])

    def settle(self) -> None:
        """Take what was sent for a token."""

    def conceal(self, error: BundleError) -> BundleError:
        """Return what is told of an error."""
        return error


def check_http_answers(data: bytes) -> None:
    """Download a file from a server that responds with a status, headers, an empty line and a body, several times."""
    answers = [_Answer(part) for part in data.split(_NEXT)[:8]]
    with scratch() as folder:
        access = Access(path=_PATH, deadline=math.inf, cancelled=Event(), scratch=folder, limits=LIMITS)
        transport: Any = SimpleNamespace(send=lambda *_, **__: answers.pop(0) if answers else _Answer(b"404\n\n"))
        address = parse_address("https://example.com/a.yaml")
        download = Download(transport, Wanted(address=address), access)
        with Spool(folder, _PATH) as spool, refusals():
            answer = download.fetch(spool)
            validator = find_validator(answer)
            expect(not _UNSAFE.search(validator.replace(" ", "")), f"a validator {validator!r}")
            expect(spool.size <= LIMITS.compressed_bytes, f"{spool.size} bytes")


class _Answer:
    """A response of a server, with the parts that a download uses; the body may be truncated."""

    def __init__(self, data: bytes) -> None:
        head, _, body = data.partition(b"\n\n")
        status, *lines = head.decode("latin-1").split("\n")
        self.status = int(status) if re.fullmatch("[1-5][0-9][0-9]", status) else 200
        self.headers, self.place = Message(), Place(subject=_PATH, host="example.com")
        for line in lines:
            name, _, value = line.partition(":")
            if re.fullmatch(r"[A-Za-z-]+", name):
                self.headers[name] = re.sub(r"[\r\n]", "", value).strip()
        self._body, self._is_cut = io.BytesIO(body), body.endswith(b"!")

    def read(self, size: int, /) -> bytes:
        data = self._body.read(size)
        if not data and self._is_cut:
            raise BundleError(Reason.UNREACHABLE, "spec.sources[0].http: cut")
        return data

    def discard(self) -> None:
        """Do nothing."""

    close = discard


# output of git


def check_git_complaint(data: bytes) -> None:
    """Translate an error message of git, without showing any of it."""
    text = data.decode(errors="replace")
    try:
        check_served(text)
    except NotServedError:
        return
    error = translate(text, Place(subject=f"{_PATH}.repository", host="git.example.com"))
    check_message(error.message)
    expect("marked-secret" not in error.message, "a complaint is shown")


def check_git_listing(data: bytes) -> None:
    """Read the output of `ls-tree -z`: paths have any bytes but NUL, git writes the rest."""
    modes = ("100644", "100755", "120000", "160000", "040000")
    paths = [path for path in data.split(b"\0") if path]
    listing = b"".join(
        f"{modes[index % 5]} blob {index:040x}\t".encode() + path + b"\0" for index, path in enumerate(paths)
    )
    items = list(read_listing(listing))
    expect([item.path.encode(errors="surrogateescape") for item in items] == paths, "other paths")
    expect([item.mode for item in items] == [modes[index % 5] for index in range(len(paths))], "other modes")


def check_git_objects(data: bytes) -> None:
    """Read the output of `cat-file --batch`, from a git that may stop at any point or write anything."""
    name = "0" * 40
    items = [Item(path=f"{mode}{index}", mode=mode, name=name) for index, mode in enumerate(("100644", "120000") * 2)]
    output = b"".join(b"%s blob %d\n%s\n" % (name.encode(), len(part), part) for part in data.split(_NEXT)[:4])
    for stream in (output, data):
        _read_objects(stream, items)


def _read_objects(stream: bytes, items: list[Item]) -> None:
    missing = BundleError(Reason.DIGEST_MISMATCH, f"{_PATH}: missing")
    with scratch() as folder, refusals(_GitSaidError):
        access = Access(path=_PATH, deadline=math.inf, cancelled=Event(), scratch=folder, limits=LIMITS)
        for entry in read_items(_Git(stream), items, "", access, missing):  # type: ignore[arg-type]
            size = len(read_all(entry.data)) if entry.data else 0
            expect(entry.kind is EntryKind.SYMBOLIC_LINK or size == entry.size, f"{size} of {entry.size} bytes")


class _GitSaidError(Exception):
    """Output that git itself never writes."""


class _Git:
    """A git that writes a text."""

    def __init__(self, output: bytes) -> None:
        self._output = output

    @contextmanager
    def start(self, *_: str, **__: object) -> Iterator[Any]:
        stream = io.BytesIO(self._output)
        yield SimpleNamespace(read=stream.read, read_line=lambda: stream.readline(1 << 16), stopped=None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _words(text: str) -> tuple[bytes, ...]:
    return tuple(text.encode().split())


_ANSWER_WORDS = (
    b'ETag: "a"', b"Content-Range: bytes 1-2/3", b"Content-Length: ", b"Last-Modified: ", b"206\n", b"304\n", b"416\n",
    b"!\n=== \n", b'W/"', b"\n\n", b"Wed, 21 Oct 2026 07:28:00 GMT",
)  # fmt: skip
_COMPLAINTS = (
    b"not our ref",
    b"returned error: 401",
    b"remote: ",
    b"fatal: ",
    b"marked-secret",
    b"SSL certificate problem",
)
_TOKEN_WORDS = (b'Bearer realm="https://r.example.com/t"', b"\n\n", b'{"token":"', b'"access_token":')
_OBJECT_WORDS = (
    _NEXT,
    b"version https://git-lfs.github.com/spec/v1\noid sha256:",
    b"0" * 40 + b" blob 5\n",
    b" missing\n",
)
_REPOSITORY_WORDS = _words("https:// ssh:// ext:: git@ [::1]: %00 %2e file://")

TARGETS = tuple(
    Target(name=name, check=check, covers=covers, words=words)
    for name, check, covers, words in (
        ("references", check_reference, "image references", _words("@sha256: localhost/ :5000/ docker.io/ [::1] __")),
        ("git-refs", check_git_ref, "git refs", _words("refs/heads/ refs/tags/ @{ ^{} .lock .. HEAD --upload-pack=")),
        ("repositories", check_repository, "URLs of repositories", _REPOSITORY_WORDS),
        ("addresses", check_address, "URLs of files", _words("https:// http:// @ [::1] %2f ?a=b #c :443 \\")),
        ("http-headers", check_challenges, "WWW-Authenticate", _words('Bearer Basic realm=" scope=" service= \\" ,')),
        ("retry-after", check_retry_after, "Retry-After", _words("Wed, Oct 2026 GMT 99999999999 +9999 -0000 1e9")),
        ("warnings", check_warnings, "Warning of the API server", (b'299 - "', b'\\"', b'", 299 ')),
        ("tokens", check_token, "challenges, and answers of token servers", _TOKEN_WORDS),
        ("http-answers", check_http_answers, "statuses, headers and bodies of downloads", _ANSWER_WORDS),
        ("git-complaints", check_git_complaint, "what git complains of", _COMPLAINTS),
        ("git-listings", check_git_listing, "what git ls-tree writes", (b"\0", b"\t", b"../", b"/", b"\xff")),
        ("git-objects", check_git_objects, "what git cat-file writes", _OBJECT_WORDS),
    )
)
