"""The git source against real servers: `git http-backend` over http and https, and git over SSH."""

from __future__ import annotations

import base64
import io
import logging
import os
import socket
import ssl
import subprocess
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import trustme

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Limits, Network, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.processes import wait_for
from tests.support.git_servers import (
    EXECUTABLE,
    LINK,
    SUBMODULE,
    Content,
    Faults,
    GitHttpServer,
    GitRepository,
    GitSshServer,
    serve_ssh,
)
from tests.support.inside import ContentStore, Objects, detours, git_objects, source_of, write_entries
from tests.support.web_servers import FaultyServer

pytestmark = pytest.mark.long

PATH = "spec.sources[0].git"
SOURCE = source_of("git")
CANARY = "canary-4711"
FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


class Forge:
    """A repository with two commits, and the server that serves it."""

    def __init__(self, root: Path, server: GitHttpServer, *, algorithm: str = "sha1", is_plain: bool = False) -> None:
        self.root, self.server = root, server
        self.repository = GitRepository(root / "repo.git", algorithm=algorithm, config={} if is_plain else FORGE)
        self.first = self.repository.commit({"deploy/a.yaml": b"a: 1\n", "deploy/sub/b.sh": (EXECUTABLE, b"b")})
        self.repository.tag("v1", self.first)
        self.second = self.repository.commit({"deploy/a.yaml": b"a: 2\n", "other/x": b"x" * 1000})

    def parameters(self, ref: str = "main", directory: str = "deploy", **others: Any) -> dict[str, Any]:
        return {"repository": f"{self.server.url}/repo.git", "ref": ref, "directory": directory, **others}


@pytest.fixture
def access(tmp_path: Path) -> Access:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Access(path=PATH, deadline=time.monotonic() + 60, cancelled=threading.Event(), scratch=scratch)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with GitHttpServer(tmp_path / "git") as server:
        yield Forge(tmp_path / "git", server)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure_forge(tmp_path: Path, authority: trustme.CA) -> Iterator[Forge]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    with GitHttpServer(tmp_path / "git", context) as server:
        yield Forge(tmp_path / "git", server)


@pytest.fixture
def ssh(forge: Forge) -> Iterator[GitSshServer]:
    with serve_ssh(forge.root) as server:
        yield server


def fetch(parameters: dict[str, Any], access: Access, resolution: Resolution | None = None) -> dict[str, bytes]:
    """Resolve, if that is not done, fetch and write; return the files."""
    resolution = resolution or SOURCE.resolve(parameters, access)
    folder = access.scratch.parent / f"out-{os.urandom(4).hex()}"
    folder.mkdir()
    write_entries(SOURCE.fetch(parameters, resolution, access), folder, access.limits, access.path)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.message.startswith(PATH)
    assert "\n" not in caught.value.message
    return caught.value


def processes(access: Access) -> list[str]:
    """Return the command lines of what works in the scratch folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(access.scratch).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:  # it has exited, or belongs to another user
            continue
    return found


def assert_nothing_left(access: Access) -> None:
    """What was killed is gone as soon as the kernel gets to it."""
    wait_for(lambda: not processes(access), 60, lambda: f"nothing left: {processes(access)}")


# what a ref names


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_every_kind_of_ref(algorithm: str, tmp_path: Path, access: Access) -> None:
    with GitHttpServer(tmp_path / "git") as server:
        forge = Forge(tmp_path / "git", server, algorithm=algorithm)
        forge.repository.git("branch", "old", forge.first)
        names = ["v1", "tags/v1", "refs/tags/v1", "old", "refs/heads/old"]
        commit = forge.first
        wanted = Resolution(pinned=f"{server.url}/repo.git@{commit}", digest=f"{algorithm}:{commit}")
        for ref in (*names, commit, commit[:8], commit[:40], commit.upper(), commit[:8].upper()):
            assert SOURCE.resolve(forge.parameters(ref), access) == wanted, ref
        assert fetch(forge.parameters(), access, wanted) == {"a.yaml": b"a: 1\n", "sub/b.sh": b"b"}


def test_a_directory_is_written_as_people_write_it(forge: Forge, access: Access) -> None:
    for directory in ("./deploy/sub", "deploy/sub/", "./deploy/sub/"):
        assert SOURCE.validate(forge.parameters(directory=directory), "spec.sources[0].git") == []
    assert fetch(forge.parameters("v1", "./deploy/sub/"), access) == {"b.sh": b"b"}


def test_a_ref_outside_branches_and_tags(forge: Forge, access: Access) -> None:
    forge.repository.git("update-ref", "refs/pull/1/head", forge.first)
    assert SOURCE.resolve(forge.parameters("refs/pull/1/head"), access).digest == f"sha1:{forge.first}"


def test_without_a_ref_it_is_head(forge: Forge, access: Access) -> None:
    parameters = {"repository": f"{forge.server.url}/repo.git"}
    assert SOURCE.resolve(parameters, access).digest == f"sha1:{forge.second}"


def test_a_tag_wins_over_a_branch_as_in_git(forge: Forge, access: Access) -> None:
    forge.repository.git("branch", "v1", forge.second)
    assert SOURCE.resolve(forge.parameters("v1"), access).digest == f"sha1:{forge.first}"


def test_a_branch_of_hexadecimal_digits_is_a_branch(forge: Forge, access: Access) -> None:
    forge.repository.git("branch", "deadbeef", forge.first)
    assert SOURCE.resolve(forge.parameters("deadbeef"), access).digest == f"sha1:{forge.first}"


def test_resolving_is_one_call_and_fetching_asks_for_the_commit(forge: Forge, access: Access) -> None:
    resolution = SOURCE.resolve(forge.parameters(), access)
    assert [path for _, path, _ in forge.server.requests] == [
        "/repo.git/info/refs?service=git-upload-pack",
        "/repo.git/git-upload-pack",
    ]
    forge.repository.commit({"deploy/a.yaml": b"moved"})
    assert fetch(forge.parameters(), access, resolution)["a.yaml"] == b"a: 2\n"


def test_a_full_commit_is_authorised_by_the_source(forge: Forge, access: Access) -> None:
    forge.server.wants_basic("user", CANARY)
    assert failure(lambda: SOURCE.resolve(forge.parameters(forge.first), access)).reason is Reason.UNAUTHORIZED
    assert forge.server.requests


def test_without_a_default_branch_a_ref_must_be_named(forge: Forge, access: Access) -> None:
    forge.repository.git("symbolic-ref", "HEAD", "refs/heads/gone")
    parameters = forge.parameters()
    del parameters["ref"]
    error = failure(lambda: SOURCE.resolve(parameters, access))
    assert error.reason is Reason.NOT_FOUND
    assert error.message == f"{PATH}.ref: the repository has no default branch; name a branch, tag or commit"


def test_an_unknown_ref(forge: Forge, access: Access) -> None:
    for ref in ("mian", "refs/heads/mian", "0000000", "beef"):
        error = failure(partial(SOURCE.resolve, forge.parameters(ref), access))
        assert error.reason is Reason.NOT_FOUND
        assert error.message == f'{PATH}.ref: no branch, tag or commit "{ref}"; check the spelling or push it'


def test_a_tag_of_something_else_than_a_commit(forge: Forge, access: Access) -> None:
    forge.repository.git("tag", "file", forge.repository.git("rev-parse", "main:deploy/a.yaml"))
    error = failure(lambda: fetch(forge.parameters("file"), access))
    assert error.reason is Reason.NOT_FOUND
    assert "something else than a commit by the name in ref; name a branch, a commit or another tag" in error.message


def test_an_ambiguous_abbreviated_commit(forge: Forge, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = forge.repository.make_ambiguous()
    error = failure(lambda: SOURCE.resolve(forge.parameters(prefix), access))
    assert error.reason is Reason.AMBIGUOUS_REFERENCE
    assert error.message == f'{PATH}.ref: more than one commit starts with "{prefix}"; use more digits'

    monkeypatch.setattr(git_objects, "_MOST_ALIKE", 1)  # of very many, few are read
    error = failure(lambda: SOURCE.resolve(forge.parameters(prefix), access))
    assert error.reason is Reason.AMBIGUOUS_REFERENCE
    assert error.message == f'{PATH}.ref: more than 1 objects start with "{prefix}"; use more digits'


# servers that list very much


def advertise(server: FaultyServer, names: Iterable[str]) -> dict[str, Any]:
    """Serve a list of refs without a repository; return its parameters."""

    def packet(line: str) -> bytes:
        return f"{len(line) + 5:04x}{line}\n".encode()

    refs = [packet(f"{number:040x} {name}") for number, name in enumerate(names)]
    first = packet(f"{'1' * 40} HEAD\0side-band-64k ofs-delta")
    body = packet("# service=git-upload-pack") + b"0000" + first + b"".join(refs) + b"0000"
    kind = {"Content-Type": "application/x-git-upload-pack-advertisement"}
    server.add("/repo.git/info/refs", body, headers=kind)
    return {"repository": f"{server.address}/repo.git"}


def peak(action: Callable[[], object]) -> int:
    """Return the most bytes of Python's heap that an action takes."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LONG = [f"refs/tags/1.0.{number}-{'a' * 1500}" for number in range(6000)]
MANY = [f"refs/tags/1.{number}.0-{'a' * 60}" for number in range(40_000)]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        pytest.param(LONG, {"semver": ">=2"}, id="long tags"),
        pytest.param(MANY, {"semver": ">=2"}, id="many tags", marks=pytest.mark.thorough),
        pytest.param(LONG, {"ref": "mian"}, id="one of many refs"),
        pytest.param(LONG, {"ref": "abcdef1"}, id="a commit of many refs"),
    ],
)
def test_what_a_server_lists_is_not_kept_in_memory(names: list[str], wanted: dict[str, str], access: Access) -> None:
    with FaultyServer() as server:
        parameters = advertise(server, [*names, "refs/heads/main"]) | wanted
        errors: list[BundleError] = []
        assert peak(lambda: errors.append(failure(lambda: SOURCE.resolve(parameters, access)))) < 24 << 20
        assert errors[0].reason in (Reason.NOT_FOUND, Reason.UNREACHABLE)


def test_the_highest_of_many_tags_is_found_and_peeled(access: Access) -> None:
    names = ["refs/tags/1.0.0", "refs/tags/2.1.0", "refs/tags/2.1.0^{}", "refs/tags/2.0.0", "refs/tags/2.0.0^{}"]
    with FaultyServer() as server:
        listed = [*MANY[:1000], *names, "refs/heads/3.0.0"]
        found = SOURCE.resolve(advertise(server, listed) | {"semver": ">=1"}, access)
    assert (found.version, found.digest) == ("2.1.0", f"sha1:{1000 + 2:040x}")


def test_memory_is_reserved_before_the_files_of_a_commit_are_listed(forge: Forge, access: Access) -> None:
    forge.repository.commit({f"deploy/{'a' * 100}{number}": b"" for number in range(2000)})
    reserved: list[int] = []

    @contextmanager
    def room(size: int) -> Iterator[None]:
        reserved.append(size)
        yield
        reserved.append(-size)

    assert len(fetch(forge.parameters(), replace(access, room=room))) == 2002
    assert sum(reserved) == 0
    assert all(size > 0 for size in reserved[::2])  # one at a time: what waits inside another may wait forever
    assert any(2000 * 150 * 12 <= size < access.limits.program_bytes for size in reserved)


# servers that can do less


@pytest.mark.parametrize("protocol_v2", [True, False], ids=["protocol 2", "protocol 0"])
def test_a_server_without_filters_and_without_commits_by_name(
    protocol_v2: bool, tmp_path: Path, access: Access
) -> None:
    with GitHttpServer(tmp_path / "git") as server:
        forge = Forge(tmp_path / "git", server, is_plain=True)
        server.protocol_v2 = protocol_v2
        assert fetch(forge.parameters("main", ""), access).keys() == {"deploy/a.yaml", "deploy/sub/b.sh", "other/x"}
        assert fetch(forge.parameters(), access) == {"a.yaml": b"a: 2\n", "sub/b.sh": b"b"}
        for ref in (forge.first, forge.first[:8]):
            assert fetch(forge.parameters(ref), access) == {"a.yaml": b"a: 1\n", "sub/b.sh": b"b"}


def test_a_wide_fetch_has_the_same_budget(tmp_path: Path, access: Access) -> None:
    with GitHttpServer(tmp_path / "git") as server:
        forge = Forge(tmp_path / "git", server, is_plain=True)
        forge.repository.commit({"other/big": os.urandom(3_000_000)})
        limited = replace(access, limits=Limits(compressed_bytes=1_000_000))
        error = failure(lambda: fetch(forge.parameters(), limited))
        assert error.reason is Reason.CONTENT_REJECTED
        assert "the repository exceeds the limit of 976.6 KiB" in error.message
        assert_nothing_left(access)


# what is in the commit


def test_what_is_refused_inside_the_directory(forge: Forge, access: Access) -> None:
    unsupported, rejected = Reason.UNSUPPORTED_CONTENT, Reason.CONTENT_REJECTED
    refused: dict[str, tuple[Content, Reason, str]] = {
        "pointer": (LFS, unsupported, '"pointer/x" is a Git LFS pointer'),
        "submodule": ((SUBMODULE, b"1" * 40), unsupported, '"submodule/x" is a submodule'),
        "out": ((LINK, b"../../up/x"), rejected, '"out/x" links to "../../up/x", outside the repository'),
        "root": ((LINK, b"/etc/passwd"), rejected, '"x" links to "/etc/passwd", outside'),
        "long": ((LINK, b"a" * 5000), rejected, "has a link target that exceeds the limit"),
    }
    forge.repository.commit({f"{name}/x": content for name, (content, _, _) in refused.items()})
    resolution = SOURCE.resolve(forge.parameters(), access)
    for name, (_, reason, told) in refused.items():
        error = failure(partial(fetch, forge.parameters(directory=name), access, resolution))
        assert error.reason is reason
        assert told in error.message
    assert fetch(forge.parameters(directory="other"), access, resolution) == {"x": b"x" * 1000}


def test_what_is_read_inside_the_directory(forge: Forge, access: Access) -> None:
    links = {"sub/link": (LINK, b"../a.yaml"), "folder": (LINK, b"sub")}
    others = {"A.yaml": b"upper", "sub.x": b"", "sub-": b"", "z/a": b"", "B": b""}
    texts = {"about": b"# " + LFS, "longer": LFS + b"x" * 1024}
    forge.repository.commit({f"deploy/{path}": content for path, content in (links | others | texts).items()})
    resolution = SOURCE.resolve(forge.parameters(), access)
    paths = [entry.path for entry in SOURCE.fetch(forge.parameters(), resolution, access)]
    assert paths == sorted(paths)
    found = fetch(forge.parameters(), access, resolution)
    assert found["sub/link"] == found["folder/link"] == b"a: 2\n", "links inside the directory become copies"
    assert (found["A.yaml"], found["a.yaml"]) == (b"upper", b"a: 2\n"), "names that differ in case are kept apart"
    assert {"about", "longer"} <= found.keys(), "text about LFS is no pointer"


LIBRARY: dict[str | bytes, Content] = {
    "library/lib/Chart.yaml": b"lib",
    "library/lib/tool": (EXECUTABLE, b"tool"),
    "library/lib/readme": (LINK, b"../../README.md"),
    "library/lib/up": (LINK, b".."),
    "lib": (LINK, b"library"),
    "README.md": b"all",
    "apps/x/Chart.yaml": b"x",
    "apps/x/charts/lib": (LINK, b"../../../library/lib"),
    "apps/x/through": (LINK, b"../../lib/lib/Chart.yaml"),
    "apps/x/inside": (LINK, b"charts/lib/Chart.yaml"),
    "apps/x/back": (LINK, b"../x/Chart.yaml"),
    "apps/x/README.md": (LINK, b"../../README.md"),
    "apps/x/nowhere": (LINK, b"../../gone"),
    "apps/current": (LINK, b"x"),
    "big": b"x" * 300_000,
}
OF_LIBRARY = {
    "Chart.yaml": b"x",
    "README.md": b"all",
    "back": b"x",
    "charts/lib/Chart.yaml": b"lib",
    "charts/lib/readme": b"all",
    "charts/lib/tool": b"tool",
    "inside": b"lib",
    "through": b"lib",
}


@pytest.mark.parametrize("is_plain", [False, True], ids=["a server with filters", "a server without"])
def test_links_of_a_directory_lead_anywhere_in_the_commit(is_plain: bool, tmp_path: Path, access: Access) -> None:
    with GitHttpServer(tmp_path / "git") as server:
        forge = Forge(tmp_path / "git", server, is_plain=is_plain)
        forge.repository.commit({**LIBRARY, "current": (LINK, b"apps")})
        resolution = SOURCE.resolve(forge.parameters(), access)
        for directory in ("apps/x", *(() if is_plain else ("apps/current", "current/x"))):
            found = fetch(forge.parameters(directory=directory), access, resolution)
            # The link to the folder above the library is a copy of it, without what is being copied already.
            assert {path: data for path, data in found.items() if not path.startswith("charts/lib/up/")} == OF_LIBRARY


def test_only_the_directory_and_what_links_lead_to_is_fetched_and_listed_one_place_at_a_time(
    forge: Forge, access: Access
) -> None:
    place, taken, sizes = threading.Lock(), 0, list[int]()

    @contextmanager
    def _place() -> Iterator[None]:
        nonlocal taken
        assert place.acquire(blocking=False), "one place at a time is all that a tenant gets"
        try:
            taken += 1
            yield
        finally:
            place.release()

    forge.repository.commit({**LIBRARY, **{f"other/{number}": os.urandom(100_000) for number in range(20)}})
    own = replace(access, computing=_place, progress=lambda done, total: sizes.append(done))
    resolution = SOURCE.resolve(forge.parameters(), access)
    assert fetch(forge.parameters(), own, resolution)["a.yaml"] == b"a: 2\n"
    taken = 0
    assert fetch(forge.parameters(directory="apps/x"), own, resolution)["inside"] == b"lib"
    assert taken > 1
    assert max(sizes) < 100_000


def test_without_links_out_of_the_directory_nothing_more_is_asked(forge: Forge, access: Access) -> None:
    forge.repository.commit({**LIBRARY, "deploy/folder": (LINK, b"sub"), "deploy/link": (LINK, b"sub/b.sh")})
    resolution = SOURCE.resolve(forge.parameters(), access)
    forge.server.requests.clear()
    fetch(forge.parameters(), access, resolution)
    assert len([path for _, path, _ in forge.server.requests if path.endswith("/git-upload-pack")]) == 2


def test_a_directory_that_is_a_link_out_of_the_repository(forge: Forge, access: Access) -> None:
    forge.repository.commit({"apps": (LINK, b"../apps"), "folder": (LINK, b"gone"), "file": (LINK, b"other/x")})
    resolution = SOURCE.resolve(forge.parameters(), access)
    error = failure(lambda: fetch(forge.parameters(directory="apps/x"), access, resolution))
    assert error.reason is Reason.CONTENT_REJECTED
    assert 'entry "apps" links to "../apps", outside the repository' in error.message
    for directory in ("folder", "folder/x", "file", "file/x"):
        error = failure(partial(fetch, forge.parameters(directory=directory), access, resolution))
        assert error.reason is Reason.DIRECTORY_NOT_FOUND
        assert f'"{directory}" is not a directory' in error.message


def test_what_must_not_be_read_is_recorded(forge: Forge, access: Access) -> None:
    unsupported, rejected = Reason.UNSUPPORTED_CONTENT, Reason.CONTENT_REJECTED
    recorded: dict[str, tuple[Content, Reason, str]] = {
        "pointer": (LFS, unsupported, "use a directory without it"),
        "out": ((LINK, b"../../x"), rejected, "outside the repository"),
        "root": ((LINK, b"/etc/passwd"), rejected, "outside the repository"),
        "long": ((LINK, b"a" * 5000), rejected, "link target that exceeds"),
        "to-pointer": ((LINK, b"../large"), unsupported, '"deploy/to-pointer" is a Git LFS'),
    }
    forge.repository.commit({f"deploy/{name}": content for name, (content, _, _) in recorded.items()} | {"large": LFS})
    resolution = SOURCE.resolve(forge.parameters(), access)
    out = access.scratch.parent / "out"
    out.mkdir()
    entries = SOURCE.fetch(forge.parameters(), resolution, access)
    refused = write_entries(entries, out, access.limits, PATH, records=True)
    assert refused.keys() == recorded.keys()
    for name, (_, reason, told) in recorded.items():
        assert refused[name].reason is reason
        assert told in refused[name].problem
        assert not (out / name).exists()
    assert (out / "a.yaml").read_bytes() == b"a: 2\n"


BUDGETS = [
    (Limits(entries=1), "more entries than the limit of 1"),
    (Limits(file_bytes=3), 'entry "a.yaml" exceeds the limit of 3 bytes'),
    (Limits(total_bytes=5), 'entry "sub/b.sh" makes the content exceed'),
    (Limits(path_bytes=7), 'entry "sub/b.sh" has a path that exceeds the limit'),
    (Limits(path_depth=1), 'entry "sub/b.sh" is nested deeper than the limit'),
]


def test_every_budget(forge: Forge, access: Access) -> None:
    resolution = SOURCE.resolve(forge.parameters(), access)
    for limits, told in BUDGETS:
        error = failure(partial(fetch, forge.parameters(), replace(access, limits=limits), resolution))
        assert error.reason is Reason.CONTENT_REJECTED
        assert told in error.message
        assert_nothing_left(access)


def test_a_name_that_is_not_utf_8(forge: Forge, access: Access) -> None:
    forge.repository.commit({b"deploy/\xff": b"x"})
    error = failure(lambda: fetch(forge.parameters(), access))
    assert error.reason is Reason.CONTENT_REJECTED
    assert "has a name that is not UTF-8" in error.message


def test_a_missing_directory(forge: Forge, access: Access) -> None:
    resolution = SOURCE.resolve(forge.parameters(), access)
    for directory, problem in (("nope", "does not exist"), ("deploy/a.yaml", "is not a directory")):
        error = failure(partial(fetch, forge.parameters(directory=directory), access, resolution))
        assert error.reason is Reason.DIRECTORY_NOT_FOUND
        assert error.message == f'{PATH}.directory: "{directory}" {problem} in commit "{forge.second}"; correct it'


@pytest.mark.parametrize("protocol_v2", [True, False], ids=["protocol 2", "protocol 0"])
def test_a_commit_that_a_force_push_took_away(protocol_v2: bool, forge: Forge, access: Access) -> None:
    resolution = SOURCE.resolve(forge.parameters(), access)
    forge.repository.commit({"deploy/a.yaml": b"rewritten"}, orphan=True)
    forge.repository.forget(forge.second)
    forge.server.protocol_v2 = protocol_v2
    error = failure(lambda: fetch(forge.parameters(), access, resolution))
    assert error.reason is Reason.PINNED_CONTENT_GONE
    assert f'does not have commit "{forge.second}"' in error.message


def test_the_store_key_holds_repository_directory_and_commit(forge: Forge) -> None:
    resolution = Resolution(pinned="", digest=f"sha1:{forge.first}")
    key = SOURCE.content_key(forge.parameters(), resolution)
    assert key == f"{forge.server.url}/repo.git|deploy|sha1:{forge.first}"


def test_a_failed_fetch_leaves_nothing_in_the_store(forge: Forge, tmp_path: Path, access: Access) -> None:
    forge.repository.commit({"deploy/x": LFS})
    resolution = SOURCE.resolve(forge.parameters(), access)
    with ContentStore(tmp_path / "store") as store:

        def write(folder: Path) -> None:
            with store.scratch() as scratch:
                own = replace(access, scratch=scratch)
                write_entries(SOURCE.fetch(forge.parameters(), resolution, own), folder, own.limits, PATH)

        failure(lambda: store.put("key", write))
        assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.name != "lock"]


# who asks


CREDENTIALS = {
    "basic": (
        Credentials(username="user", password=CANARY),
        Credentials(username="user", password="x"),
        "Basic " + base64.b64encode(f"user:{CANARY}".encode()).decode(),
    ),
    "bearer token": (Credentials(bearer_token=CANARY), Credentials(bearer_token="x"), f"Bearer {CANARY}"),
}


def log_everything(caplog: pytest.LogCaptureFixture) -> tuple[io.StringIO, logging.Handler]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    caplog.set_level(logging.DEBUG)
    return text, handler


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_credentials_over_https(kind: str, secure_forge: Forge, authority: trustme.CA, access: Access) -> None:
    credentials, wrong, secure_forge.server.authorization = CREDENTIALS[kind]
    parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
    assert fetch(parameters, replace(access, credentials=credentials))["a.yaml"] == b"a: 2\n"
    error = failure(lambda: fetch(parameters, replace(access, credentials=wrong)))
    assert error.reason is Reason.UNAUTHORIZED


def test_no_credential_shows_anywhere(
    secure_forge: Forge,
    authority: trustme.CA,
    access: Access,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text, handler = log_everything(caplog)
    monkeypatch.setenv("RUKPAK_SECRET", CANARY)
    seen: list[bytes] = []

    def look(done: int, total: int) -> None:  # while git runs
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with closing(process.open("rb")) as file:
                seen.append(file.read())

    secure_forge.server.authorization = "Bearer something else"
    certificate = authority.cert_pem.bytes().decode()
    credentials = Credentials(bearer_token=CANARY)
    own = replace(access, credentials=credentials, progress=look)
    with pytest.raises(BundleError) as caught:
        fetch(secure_forge.parameters(certificateData=certificate), own)
    logging.getLogger().removeHandler(handler)
    shown = "".join(traceback.format_exception(caught.value)) + text.getvalue()
    assert CANARY not in shown
    assert not any(CANARY.encode() in line for line in seen)
    assert secure_forge.server.requests[0][2] == f"Bearer {CANARY}"


def test_the_certificate_authority_of_the_secret(secure_forge: Forge, authority: trustme.CA, access: Access) -> None:
    credentials = Credentials(certificate_authority=authority.cert_pem.bytes().decode())
    assert fetch(secure_forge.parameters(), replace(access, credentials=credentials))["a.yaml"] == b"a: 2\n"


@pytest.mark.parametrize("own", [False, True], ids=["the system's authorities", "another authority"])
def test_a_certificate_that_cannot_be_verified(own: bool, secure_forge: Forge, access: Access) -> None:
    certificate = trustme.CA().cert_pem.bytes().decode() if own else ""
    error = failure(lambda: SOURCE.resolve(secure_forge.parameters(certificateData=certificate), access))
    assert error.reason is Reason.TLS_VERIFICATION_FAILED


@pytest.mark.parametrize("days", [-90, 30], ids=["has expired", "is not valid yet"])
def test_a_certificate_with_other_dates_points_at_the_clock(
    days: int, tmp_path: Path, authority: trustme.CA, access: Access
) -> None:
    context, start = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), datetime.now(UTC) + timedelta(days=days)
    certificate = authority.issue_cert("127.0.0.1", not_before=start, not_after=start + timedelta(days=60))
    certificate.configure_cert(context)
    with GitHttpServer(tmp_path / "git", context) as server:
        parameters = Forge(tmp_path / "git", server).parameters(certificateData=authority.cert_pem.bytes().decode())
        error = failure(lambda: SOURCE.resolve(parameters, access))
    assert error.reason is Reason.TLS_VERIFICATION_FAILED
    assert "the clock" in error.message


def test_skipping_verification(secure_forge: Forge, access: Access) -> None:
    parameters = secure_forge.parameters(insecureSkipTLSVerify=True)
    assert fetch(parameters, access)["a.yaml"] == b"a: 2\n"
    own = replace(access, credentials=Credentials(username="user", password=CANARY))
    assert failure(lambda: SOURCE.resolve(parameters, own)).reason is Reason.INSECURE_REFUSED


def test_no_credentials_over_plain_http(forge: Forge, access: Access) -> None:
    own = replace(access, credentials=Credentials(username="user", password=CANARY))
    error = failure(lambda: SOURCE.resolve(forge.parameters(), own))
    assert error.reason is Reason.INSECURE_REFUSED
    assert "credentials are not sent over plain http" in error.message
    assert not forge.server.requests


def test_credentials_do_not_follow_a_redirect(
    secure_forge: Forge, tmp_path: Path, authority: trustme.CA, access: Access
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with GitHttpServer(secure_forge.root, context) as thief:
        target = f"https://localhost:{thief.port}/repo.git/info/refs?service=git-upload-pack"
        secure_forge.server.faults = Faults(status=302, headers={"Location": target})
        parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
        own = replace(access, credentials=Credentials(bearer_token=CANARY))
        error = failure(lambda: SOURCE.resolve(parameters, own))
        assert [authorization for _, _, authorization in thief.requests if authorization] == []
        assert error.reason is Reason.INSECURE_REFUSED
        assert "redirects" in error.message
        assert SOURCE.resolve(parameters, access).digest == f"sha1:{secure_forge.second}"  # without them it does


# ssh


def ssh_access(access: Access, server: GitSshServer, **others: str) -> Access:
    key, hosts = others.get("ssh_private_key", server.private_key), others.get("known_hosts", server.known_hosts)
    return replace(access, credentials=Credentials(ssh_private_key=key, known_hosts=hosts))


def test_ssh(ssh: GitSshServer, forge: Forge, access: Access) -> None:
    parameters = forge.parameters() | {"repository": f"ssh://git@127.0.0.1:{ssh.port}/repo.git"}
    assert fetch(parameters, ssh_access(access, ssh)) == {"a.yaml": b"a: 2\n", "sub/b.sh": b"b"}
    parameters = forge.parameters() | {"repository": f"ssh://127.0.0.1:{ssh.port}/repo.git"}
    assert SOURCE.resolve(parameters, ssh_access(access, ssh)).digest == f"sha1:{forge.second}"
    assert set(ssh.commands) == {"git-upload-pack '/repo.git'"}
    assert_nothing_left(access)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="lines end as in Windows"),
        pytest.param(lambda text: "\ufeff" + text, id="a byte order mark"),
        pytest.param(lambda text: "\n" + text.strip() + "  ", id="blanks around, no line end"),
        pytest.param(lambda text: "".join(f"  {line}\n" for line in text.splitlines()), id="indented"),
    ],
)
def test_keys_as_editors_store_them(
    change: Callable[[str], str], ssh: GitSshServer, forge: Forge, access: Access
) -> None:
    own = ssh_access(access, ssh, ssh_private_key=change(ssh.private_key), known_hosts=change(ssh.known_hosts))
    parameters = forge.parameters() | {"repository": f"ssh://git@127.0.0.1:{ssh.port}/repo.git"}
    assert SOURCE.resolve(parameters, own).digest == f"sha1:{forge.second}"


def test_known_hosts_in_all_its_forms(ssh: GitSshServer, forge: Forge, tmp_path: Path, access: Access) -> None:
    hashed = tmp_path / "hashed"
    hashed.write_text(ssh.known_hosts)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", hashed], check=True, capture_output=True)
    other = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode().strip()
    parameters = forge.parameters() | {"repository": f"ssh://git@127.0.0.1:{ssh.port}/repo.git"}
    for known_hosts in (
        hashed.read_text(),
        f"# forge\n\nexample.org,{ssh.known_hosts.strip()} me@there\n",
        f"[127.0.0.*]:* {ssh.host_key}",
        f"[127.0.0.1]:{ssh.port} {other}\n{ssh.known_hosts}",
    ):
        own = ssh_access(access, ssh, known_hosts=known_hosts)
        assert SOURCE.resolve(parameters, own).digest == f"sha1:{forge.second}"


def test_ssh_of_a_folder_whose_name_is_odd(ssh: GitSshServer, forge: Forge, access: Access) -> None:
    scratch = access.scratch / "with blanks, % and 'quotes'"
    scratch.mkdir()
    parameters = forge.parameters() | {"repository": f"ssh://git@127.0.0.1:{ssh.port}/repo.git"}
    own = ssh_access(replace(access, scratch=scratch), ssh)
    assert SOURCE.resolve(parameters, own).digest == f"sha1:{forge.second}"


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param({"known_hosts": ""}, Reason.HOST_KEY_UNKNOWN, id="without known_hosts"),
        pytest.param({"known_hosts": "example.org ssh-ed25519 AAAA"}, Reason.HOST_KEY_UNKNOWN, id="an unknown host"),
        pytest.param({"known_hosts": "OTHER"}, Reason.HOST_KEY_MISMATCH, id="another host key"),
        pytest.param({"ssh_private_key": "OTHER"}, Reason.UNAUTHORIZED, id="a key that is not admitted"),
        pytest.param({"ssh_private_key": ""}, Reason.UNAUTHORIZED, id="without a key"),
        pytest.param({"ssh_private_key": "nonsense"}, Reason.SECRET_INVALID, id="a key that is none"),
    ],
)
def test_what_ssh_refuses(
    others: dict[str, str], reason: Reason, ssh: GitSshServer, forge: Forge, access: Access
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    made = {
        "known_hosts": f"[127.0.0.1]:{ssh.port} {key.export_public_key().decode()}",
        "ssh_private_key": key.export_private_key().decode(),
    }
    values = {name: made[name] if value == "OTHER" else value for name, value in others.items()}
    parameters = forge.parameters() | {"repository": f"ssh://git@127.0.0.1:{ssh.port}/repo.git"}
    assert failure(lambda: SOURCE.resolve(parameters, ssh_access(access, ssh, **values))).reason is reason


@pytest.mark.parametrize("form", ["RFC4716", "PKCS8", "PEM"])
def test_a_key_with_a_passphrase(form: str, tmp_path: Path, access: Access) -> None:
    key = tmp_path / "key"
    command = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-m", form, "-N", CANARY, "-f", str(key)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    own = replace(access, credentials=Credentials(ssh_private_key=key.read_text(), known_hosts="x"))
    error = failure(lambda: SOURCE.resolve({"repository": "git@localhost:repo.git"}, own))
    assert error.reason is Reason.SECRET_INVALID
    assert "has a passphrase" in error.message


def test_an_unknown_repository_over_ssh(ssh: GitSshServer, forge: Forge, access: Access) -> None:
    parameters = forge.parameters() | {"repository": f"ssh://git@127.0.0.1:{ssh.port}/nope.git"}
    assert failure(lambda: SOURCE.resolve(parameters, ssh_access(access, ssh))).reason is Reason.NOT_FOUND


# what goes wrong on the way


TROUBLES = {
    "401": (Faults(status=401), Reason.UNAUTHORIZED),
    "403": (Faults(status=403), Reason.UNAUTHORIZED),
    "404": (Faults(status=404), Reason.NOT_FOUND),
    "406": (Faults(status=406), Reason.UNREACHABLE),
    "429": (Faults(status=429, headers={"Retry-After": "1"}), Reason.UNREACHABLE),
    "503": (Faults(status=503), Reason.UNREACHABLE),
    "a cut connection": (Faults(where="git-upload-pack", cut_after=30), Reason.UNREACHABLE),
    "not a git server": (Faults(body=b"<html>"), Reason.NOT_FOUND),
    "302": (Faults(status=302, headers={"Location": "http://127.0.0.1:1/"}), Reason.INSECURE_REFUSED),
}


def test_a_server_in_trouble(forge: Forge, access: Access) -> None:
    for name, (faults, reason) in TROUBLES.items():
        forge.server.faults = faults
        assert failure(lambda: SOURCE.resolve(forge.parameters(), access)).reason is reason, name
    forge.server.faults = Faults()
    assert fetch(forge.parameters(), access)["a.yaml"] == b"a: 2\n"


def test_a_pack_that_is_cut_is_not_used(forge: Forge, access: Access) -> None:
    resolution = SOURCE.resolve(forge.parameters(), access)
    forge.server.faults = Faults(where="/git-upload-pack", cut_after=300)
    error = failure(lambda: fetch(forge.parameters(), access, resolution))
    assert error.reason is Reason.UNREACHABLE


def test_a_name_that_cannot_be_resolved(forge: Forge, access: Access) -> None:
    parameters = forge.parameters() | {"repository": "https://nowhere.invalid/repo.git"}
    error = failure(lambda: SOURCE.resolve(parameters, access))
    assert error.reason is Reason.UNREACHABLE
    assert "its name cannot be resolved" in error.message


def test_a_port_where_nobody_listens(forge: Forge, access: Access) -> None:
    parameters = forge.parameters() | {"repository": "http://127.0.0.1:1/repo.git"}
    error = failure(lambda: SOURCE.resolve(parameters, access))
    assert error.reason is Reason.UNREACHABLE
    assert "it refuses the connection" in error.message


def test_the_deadline_ends_everything(forge: Forge, access: Access) -> None:
    forge.server.faults = Faults(silent=True)
    started = time.monotonic()
    error = failure(lambda: SOURCE.resolve(forge.parameters(), replace(access, deadline=started + 0.5)))
    assert error.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 10
    assert_nothing_left(access)


def test_a_cancelled_call_ends(forge: Forge, access: Access) -> None:
    forge.server.faults = Faults(silent=True)
    threading.Timer(0.3, access.cancelled.set).start()
    assert "no longer needed" in failure(lambda: SOURCE.resolve(forge.parameters(), access)).message
    assert_nothing_left(access)


def test_a_call_that_is_cancelled_while_a_file_is_read(forge: Forge, access: Access) -> None:
    forge.repository.commit({"deploy/big": os.urandom(3_000_000)})
    resolution = SOURCE.resolve(forge.parameters(), access)
    entries = SOURCE.fetch(forge.parameters(), resolution, access)
    body = next(entry.data for entry in entries if entry.path == "big")
    assert body is not None

    def read_on() -> None:
        access.cancelled.set()
        assert_nothing_left(access)
        while body.read(1000):
            pass

    assert "no longer needed" in failure(read_on).message
    entries.close()  # type: ignore[attr-defined]  # it is a generator
    assert_nothing_left(access)


def test_an_object_that_the_server_holds_back(forge: Forge, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a server does that answers the second request with an empty pack.
    monkeypatch.setattr(Objects, "_want", withhold_files(Objects._want))
    error = failure(lambda: fetch(forge.parameters(), access))
    assert error.reason is Reason.DIGEST_MISMATCH
    assert "did not send all objects of the commit" in error.message


def withhold_files(want: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Objects, *arguments: str, lines: tuple[str, ...] = ()) -> None:
        if not lines:
            want(self, *arguments)

    return patched


def test_a_redirect_to_plain_http(secure_forge: Forge, authority: trustme.CA, access: Access) -> None:
    with GitHttpServer(secure_forge.root) as plain:
        target = f"{plain.url}/repo.git/info/refs?service=git-upload-pack"
        secure_forge.server.faults = Faults(status=302, headers={"Location": target})
        parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
        assert failure(lambda: SOURCE.resolve(parameters, access)).reason is Reason.INSECURE_REFUSED
        assert not plain.requests


def test_a_redirect_leads_to_no_address_that_is_not_allowed(
    secure_forge: Forge, authority: trustme.CA, access: Access
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.2").configure_cert(context)
    own = replace(access, network=Network(allow_loopback=False, allowed_networks=("127.0.0.1/32",)))
    with GitHttpServer(secure_forge.root, context, host="127.0.0.2") as internal:
        target = f"{internal.url}/{CANARY}/repo.git/info/refs?service=git-upload-pack"
        secure_forge.server.faults = Faults(status=301, headers={"Location": target})
        parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
        error = failure(lambda: SOURCE.resolve(parameters, own))
        assert not internal.requests
    assert "redirects to an address that cannot be used" in error.message
    assert failure(lambda: SOURCE.resolve(parameters, own)).message == error.message  # nobody listens there any more


@pytest.fixture
def quick_detours(monkeypatch: pytest.MonkeyPatch) -> float:
    """Report failures at another host sooner than for users; return after how many seconds."""
    seconds = 2.0
    monkeypatch.setattr(detours, "SECONDS", seconds)
    return seconds


ELSEWHERE = {
    **{f"status {status}": Faults(status=status) for status in (401, 403, 404, 500)},
    "another redirect": Faults(status=302, headers={"Location": "https://127.0.0.2/"}),
    "a web page": Faults(body=b"<!doctype html>"),
    "a page without an end": Faults(body=b"<!doctype html>", endless=b"x" * 1000),
    "the beginning of an answer": Faults(body=b"001e# service=git-upload-pack\n", hang_after=10),
    "silence": Faults(silent=True),
    "nobody": None,
}


def test_whatever_git_finds_at_another_host_looks_the_same_and_takes_as_long(
    secure_forge: Forge, authority: trustme.CA, access: Access, quick_detours: float
) -> None:
    context, found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), dict[str, tuple[str, int]]()
    authority.issue_cert("127.0.0.2").configure_cert(context)
    parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
    for name, faults in ELSEWHERE.items():
        with GitHttpServer(secure_forge.root, context, host="127.0.0.2") as other:
            url, other.faults = other.url, faults or Faults()
            target = f"{url}/{CANARY}/repo.git/info/refs?service=git-upload-pack"
            secure_forge.server.faults = Faults(status=301, headers={"Location": target})
            if faults is None:
                other.__exit__()
            began, asked = time.monotonic(), len(secure_forge.server.requests)
            error = failure(lambda: SOURCE.resolve(parameters, access))
            assert abs(time.monotonic() - began - quick_detours) < 1.5, name
            assert bool(other.requests) is (faults is not None), name
            found[name] = (error.message, len(secure_forge.server.requests) - asked)
    ((told, times),) = set(found.values())
    assert told.endswith(
        f'"{secure_forge.server.url[8:]}" redirects to an address that cannot be used; check that server'
    )
    assert CANARY not in told
    assert "127.0.0.2" not in told
    assert times == 2  # git, and who asks where it is redirected to


def test_where_an_allowed_host_redirects_to_need_not_be_listed(
    secure_forge: Forge, authority: trustme.CA, access: Access
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.2").configure_cert(context)
    parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
    own = replace(access, network=Network(allowed_hosts=(secure_forge.server.url.removeprefix("https://"),)))
    with GitHttpServer(secure_forge.root, context, host="127.0.0.2") as other:
        target = f"{other.url}/repo.git/info/refs?service=git-upload-pack"
        secure_forge.server.faults = Faults(status=301, headers={"Location": target})
        assert SOURCE.resolve(parameters, own).digest
        assert other.requests
        error = failure(lambda: SOURCE.resolve({**parameters, "repository": f"{other.url}/repo.git"}, own))
    assert "--allowed-hosts" in error.message


def test_a_redirect_on_this_machine_is_for_who_names_this_machine(
    secure_forge: Forge, authority: trustme.CA, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of the tenant's own may mean a loopback address: then nothing of this machine is redirected to."""
    asked = socket.getaddrinfo
    named = {"forge.example.org": "127.0.0.1"}
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: asked(named.get(host, host), *rest, **more))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("forge.example.org").configure_cert(context)
    own = replace(access, network=Network(allow_loopback=True))
    with GitHttpServer(secure_forge.root, context) as outside:
        target = f"{secure_forge.server.url}/repo.git/info/refs?service=git-upload-pack"
        outside.faults = Faults(status=301, headers={"Location": target})
        url = f"https://forge.example.org:{outside.port}/repo.git"
        parameters = {"repository": url, "certificateData": authority.cert_pem.bytes().decode()}
        assert failure(lambda: SOURCE.resolve(parameters, own)).reason is Reason.INSECURE_REFUSED
    assert not secure_forge.server.requests


def test_a_forge_redirects_to_the_address_with_git_at_its_end(
    secure_forge: Forge, authority: trustme.CA, access: Access
) -> None:
    target = f"{secure_forge.server.url}/repo.git/info/refs?service=git-upload-pack"
    secure_forge.server.faults = Faults(where="/repo/", status=301, headers={"Location": target})
    parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
    parameters["repository"] = f"{secure_forge.server.url}/repo"
    assert SOURCE.resolve(parameters, access).digest == f"sha1:{secure_forge.second}"
    secure_forge.server.authorization = f"Bearer {CANARY}"
    private = replace(access, credentials=Credentials(bearer_token=CANARY))
    assert fetch(parameters, private)["a.yaml"] == b"a: 2\n"


@pytest.mark.parametrize(
    ("name", "host"),
    [("größe.git", "127.0.0.1"), ("gr%C3%B6%C3%9Fe.git", "localhost")],
    ids=["as bytes, at the host itself", "encoded, at another host"],
)
def test_a_forge_redirects_to_a_name_that_is_not_ascii(
    name: str, host: str, secure_forge: Forge, authority: trustme.CA, access: Access
) -> None:
    GitRepository(secure_forge.root / "größe.git", config=FORGE).commit({"deploy/a.yaml": b"a: 3\n"})
    target = f"https://{host}:{secure_forge.server.port}/{name}/info/refs?service=git-upload-pack"
    headers = {"Location": target.encode().decode("latin-1")}  # the server writes it as Latin-1
    secure_forge.server.faults = Faults(where="/repo.git/", status=301, headers=headers)
    parameters = secure_forge.parameters(certificateData=authority.cert_pem.bytes().decode())
    assert fetch(parameters, access)["a.yaml"] == b"a: 3\n"


def test_a_fetch_that_nobody_reads_to_its_end_leaves_nothing(forge: Forge, access: Access) -> None:
    forge.repository.commit({f"deploy/{number}": os.urandom(200_000) for number in range(10)})
    resolution = SOURCE.resolve(forge.parameters(), access)
    entries = SOURCE.fetch(forge.parameters(), resolution, access)
    next(entries)
    entries.close()  # type: ignore[attr-defined]  # it is a generator
    assert_nothing_left(access)


def test_an_endless_list_of_refs_ends(forge: Forge, access: Access) -> None:
    line = b"".join(b"0040%040x" % number + b" refs/heads/%07d\n" % number for number in range(1000))
    head = b"001e# service=git-upload-pack\n0000" + b"0040" + b"1" * 40 + b" refs/heads/start00\n"
    content_type = "application/x-git-upload-pack-advertisement"
    forge.server.faults = Faults(body=head, endless=line, content_type=content_type)
    error = failure(lambda: SOURCE.resolve(forge.parameters(), replace(access, deadline=time.monotonic() + 20)))
    assert error.reason is Reason.CONTENT_REJECTED
    assert "more than git may hold in memory" in error.message
    assert_nothing_left(access)


@pytest.mark.parametrize("host", ["localhost", "2130706433"])
def test_the_address_guard(host: str, forge: Forge, access: Access) -> None:
    parameters = forge.parameters() | {"repository": f"http://{host}:{forge.server.port}/repo.git"}
    own = replace(access, network=Network(allow_loopback=False))
    error = failure(lambda: SOURCE.resolve(parameters, own))
    assert error.reason is Reason.INSECURE_REFUSED
    assert "it is a loopback address" in error.message
    allowed = Network(allow_loopback=False, allowed_networks=("127.0.0.0/8", "::1/128"))
    assert SOURCE.resolve(parameters, replace(access, network=allowed)).digest == f"sha1:{forge.second}"
    assert len(forge.server.requests) == 2


@pytest.mark.parametrize(
    "repository", ["https://169.254.169.254/x", "ssh://git@[fe80::1]/x", "https://[fd00:ec2::254]/x"]
)
def test_addresses_that_are_never_talked_to(repository: str, access: Access) -> None:
    own = replace(access, network=Network(allowed_networks=("0.0.0.0/0", "::/0")))
    error = failure(lambda: SOURCE.resolve({"repository": repository}, own))
    assert error.reason is Reason.INSECURE_REFUSED
    assert "metadata" in error.message


def test_plain_http_is_for_loopback(access: Access) -> None:
    error = failure(lambda: SOURCE.resolve({"repository": "http://192.0.2.1/repo.git"}, access))
    assert error.reason is Reason.INSECURE_REFUSED
    assert "plain http is allowed only to loopback addresses" in error.message
