"""Submodules of a git source, against real servers: what is read of them, from where, and what goes along."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import git
import pytest
import trustme

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Limits, Network, Refusal, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from tests.support.git_servers import (
    ENVIRONMENT,
    LINK,
    SUBMODULE,
    Content,
    Faults,
    GitHttpServer,
    GitRepository,
    serve_ssh,
)
from tests.support.inside import View, git_process, git_submodules, source_of, start_confined, write_entries

pytestmark = pytest.mark.long

PATH = "spec.sources[0].git"
FIELD = f"{PATH}.submodules"
SOURCE = source_of("git")
CANARY = "canary-4711"
FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}


class Forge:
    """The repositories `shop`, `lib` and `deep` of a group: `shop` includes `lib`, which includes `deep`."""

    def __init__(self, root: Path, server: GitHttpServer, *, is_plain: bool = False, certificate: str = "") -> None:
        self.root, self.server, self.certificate = root, server, certificate
        config = {} if is_plain else FORGE
        self.deep = GitRepository(root / "group/deep.git", config=config)
        self.lib = GitRepository(root / "group/lib.git", config=config)
        self.shop = GitRepository(root / "group/shop.git", config=config)
        deepest = self.deep.commit({"deep.yaml": b"deep"})
        self.recorded = self.lib.commit(including({"inner": ("../deep.git", deepest)}, {"x/lib.yaml": b"lib: 1"}))
        self.lib.commit({"x/lib.yaml": b"lib: 2"})  # not recorded
        self.include("../lib.git", files={"deploy/a.yaml": b"a", "b.yaml": b"b"})

    def include(self, url: str, commit: str = "", files: dict[str | bytes, Content] | None = None) -> None:
        """Include a repository at deploy/lib."""
        self.shop.commit(including({"deploy/lib": (url, commit or self.recorded)}, files))

    def parameters(self, **others: Any) -> dict[str, Any]:
        own = {"repository": f"{self.server.url}/group/shop.git", "certificateData": self.certificate}
        return {**own, "submodules": True, **others}


def including(
    modules: dict[str, tuple[str, str]], files: dict[str | bytes, Content] | None = None
) -> dict[str | bytes, Content]:
    """Return the files of a commit with submodules, by path: URL and commit."""
    text = "".join(f'[submodule "{path}"]\n\tpath = {path}\n\turl = "{url}"\n' for path, (url, _) in modules.items())
    links: dict[str | bytes, Content] = {path: (SUBMODULE, commit.encode()) for path, (_, commit) in modules.items()}
    return {**(files or {}), ".gitmodules": text.encode(), **links}


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


def secure(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.fixture
def secure_forge(tmp_path: Path, authority: trustme.CA) -> Iterator[Forge]:
    with GitHttpServer(tmp_path / "git", secure(authority, "127.0.0.1")) as server:
        yield Forge(tmp_path / "git", server, certificate=authority.cert_pem.bytes().decode())


@pytest.fixture
def stranger(tmp_path: Path, authority: trustme.CA) -> Iterator[GitHttpServer]:
    """Serves the same repositories at another host."""
    with GitHttpServer(tmp_path / "git", secure(authority, "127.0.0.2"), host="127.0.0.2") as server:
        yield server


def fetch(parameters: dict[str, Any], access: Access, resolution: Resolution | None = None) -> dict[str, bytes]:
    return fetch_with_refused(parameters, access, resolution, records=False)[0]


def fetch_with_refused(
    parameters: dict[str, Any], access: Access, resolution: Resolution | None = None, *, records: bool = True
) -> tuple[dict[str, bytes], dict[str, Refusal]]:
    """Resolve, if that is not done; return the files, and what must not be read."""
    resolution = resolution or SOURCE.resolve(parameters, access)
    folder = access.scratch.parent / f"out-{os.urandom(4).hex()}"
    folder.mkdir()
    entries = SOURCE.fetch(parameters, resolution, access)
    refused = write_entries(entries, folder, access.limits, access.path, records=records)
    return files_of(folder), refused


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.message.startswith(PATH)
    assert "\n" not in caught.value.message
    assert CANARY not in caught.value.message
    return caught.value


# what is read


@pytest.mark.parametrize(
    ("is_plain", "protocol_v2"), [(False, True), (True, False)], ids=["a forge", "a server that can do less"]
)
def test_submodules_are_read_as_git_checks_them_out(
    is_plain: bool, protocol_v2: bool, tmp_path: Path, access: Access
) -> None:
    with GitHttpServer(tmp_path / "git") as server:
        forge = Forge(tmp_path / "git", server, is_plain=is_plain)
        server.protocol_v2 = protocol_v2
        command = ["git", "clone", "-q", "--recurse-submodules", forge.parameters()["repository"], "clone"]
        subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=True)
        cloned = {path: data for path, data in files_of(tmp_path / "clone").items() if not path.startswith(".git/")}
        wanted = {path: data for path, data in cloned.items() if not path.endswith("/.git")}
        assert wanted["deploy/lib/x/lib.yaml"] == b"lib: 1"
        assert wanted["deploy/lib/inner/deep.yaml"] == b"deep"
        assert fetch(forge.parameters(), access) == wanted
        inside = {path.removeprefix("deploy/"): data for path, data in wanted.items() if path.startswith("deploy/")}
        assert fetch(forge.parameters(directory="deploy"), access) == inside


def test_the_directory_may_be_in_a_submodule(forge: Forge, access: Access) -> None:
    resolution = SOURCE.resolve(forge.parameters(), access)
    for directory, files in (
        ("deploy/lib", {".gitmodules", "x/lib.yaml", "inner/deep.yaml"}),
        ("deploy/lib/x", {"lib.yaml"}),
        ("deploy/lib/inner", {"deep.yaml"}),
    ):
        assert fetch(forge.parameters(directory=directory), access, resolution).keys() == files
    for directory in ("deploy/lib/nope", "deploy/nope/x", "deploy/a.yaml/x"):
        error = failure(partial(fetch, forge.parameters(directory=directory), access, resolution))
        assert error.reason is Reason.DIRECTORY_NOT_FOUND
        assert "does not exist in commit" in error.message


def test_only_submodules_in_the_directory_are_asked_for_and_none_to_resolve(forge: Forge, access: Access) -> None:
    forge.shop.commit({"other/a.yaml": b"a"})
    pinned = SOURCE.resolve(forge.parameters(), access)
    assert pinned == SOURCE.resolve({**forge.parameters(), "submodules": False}, access)
    assert set(fetch(forge.parameters(directory="other"), access, pinned)) == {"a.yaml"}
    assert not [path for _, path, _ in forge.server.requests if "lib.git" in path]


def test_a_link_may_lead_into_a_submodule_and_out_of_it(forge: Forge, access: Access) -> None:
    commit = forge.lib.commit({"up": (LINK, b"../a.yaml")})
    forge.include("../lib.git", commit, {"deploy/in": (LINK, b"lib/x/lib.yaml")})
    found = fetch(forge.parameters(), access)
    assert (found["deploy/in"], found["deploy/lib/up"]) == (b"lib: 2", b"a")


def test_a_submodule_that_git_does_not_update_is_left_out(forge: Forge, access: Access) -> None:
    text = b'[submodule "a"]\npath = deploy/lib\nurl = ../nope.git\nupdate = none\n'
    forge.shop.commit({".gitmodules": text})
    files, refused = fetch_with_refused(forge.parameters(), access)
    assert set(files) == {".gitmodules", "b.yaml", "deploy/a.yaml"}
    assert refused["deploy/lib"].problem.startswith('"deploy/lib" is a submodule that .gitmodules leaves out')


@pytest.mark.parametrize(("directory", "others"), [("", {}), ("deploy", {"submodules": False})])
def test_without_the_field_a_submodule_is_left_to_formats_to_refuse(
    directory: str, others: dict[str, Any], forge: Forge, access: Access
) -> None:
    parameters = {"repository": forge.parameters()["repository"], "directory": directory, **others}
    files, refused = fetch_with_refused(parameters, access)
    assert set(files) == ({"a.yaml"} if directory else {".gitmodules", "b.yaml", "deploy/a.yaml"})
    path = "lib" if directory else "deploy/lib"
    problem = (
        '"deploy/lib" is a submodule, which is not read; set submodules: true, add its repository as another source'
    )
    assert refused[path].problem == f"{problem}, or use a directory without it"
    assert refused[path].reason is Reason.UNSUPPORTED_CONTENT
    assert not [path for _, path, _ in forge.server.requests if "lib.git" in path]


def test_without_the_field_the_directory_is_in_no_submodule(forge: Forge, access: Access) -> None:
    resolution = SOURCE.resolve(forge.parameters(), access)
    for directory in ("deploy/lib", "deploy/lib/x"):
        parameters = forge.parameters(submodules=False, directory=directory)
        error = failure(partial(fetch, parameters, access, resolution))
        assert error.reason is Reason.UNSUPPORTED_CONTENT
        assert error.message.startswith(f'{PATH}: "deploy/lib" is a submodule, which is not read; set submodules: true')


def test_links_of_a_directory_lead_to_the_rest_of_the_commit_beside_a_submodule(forge: Forge, access: Access) -> None:
    forge.shop.commit({"deploy/b.yaml": (LINK, b"../b.yaml"), "deploy/d.yaml": (LINK, b"lib/x/lib.yaml")})
    files, refused = fetch_with_refused(forge.parameters(directory="deploy"), access)
    assert (files["b.yaml"], files["lib/x/lib.yaml"], files["lib/inner/deep.yaml"]) == (b"b", b"lib: 1", b"deep")
    assert "to which links of a directory do not lead; use the whole repository" in refused["d.yaml"].problem
    assert fetch(forge.parameters(), access)["deploy/d.yaml"] == b"lib: 1"


def test_a_forge_redirects_from_the_address_of_a_submodule(secure_forge: Forge, access: Access) -> None:
    secure_forge.include("../lib")
    target = f"{secure_forge.server.url}/group/lib.git/info/refs?service=git-upload-pack"
    secure_forge.server.faults = Faults(where="/lib/", status=301, headers={"Location": target})
    parameters = secure_forge.parameters()
    assert fetch(parameters, access)["deploy/lib/x/lib.yaml"] == b"lib: 1"


# credentials


CREDENTIALS = Credentials(username="user", password=CANARY)


def test_credentials_go_along_to_the_same_server_and_to_no_other(
    secure_forge: Forge, stranger: GitHttpServer, access: Access
) -> None:
    secure_forge.include(f"{stranger.url}/group/lib.git")
    secure_forge.server.wants_basic("user", CANARY)
    parameters = secure_forge.parameters()
    own = replace(access, credentials=CREDENTIALS)
    # Of the submodule's own submodule the URL is relative, so it is at the other host, too.
    assert fetch(parameters, own)["deploy/lib/inner/deep.yaml"] == b"deep"
    assert {authorization for _, _, authorization in stranger.requests} == {""}
    asked = len(stranger.requests)
    secure_forge.include("../lib.git")
    assert fetch(parameters, own)["deploy/lib/inner/deep.yaml"] == b"deep"
    assert len(stranger.requests) == asked


@pytest.mark.parametrize("spelling", ["http", "another port", "another host", "ssh"])
def test_a_private_submodule_elsewhere_gets_no_credentials(
    spelling: str, secure_forge: Forge, stranger: GitHttpServer, authority: trustme.CA, access: Access
) -> None:
    root = secure_forge.root
    with GitHttpServer(root) as plain, GitHttpServer(root, secure(authority, "127.0.0.1")) as near:
        places = {"http": plain.url, "another port": near.url, "another host": stranger.url}
        place = places.get(spelling, f"ssh://git@127.0.0.1:{near.port}")
        for server in (plain, near, stranger):
            server.wants_basic("user", CANARY)
        secure_forge.include(f"{place}/group/lib.git")
        parameters = secure_forge.parameters()
        own = replace(access, credentials=CREDENTIALS)
        error = failure(lambda: fetch(parameters, own))
        assert error.reason is Reason.UNAUTHORIZED
        host = place.rpartition("@")[2].rpartition("/")[2]
        assert error.message.startswith(f'{FIELD}: "deploy/lib": "{host}" ')
        assert "the host of the source only" in error.message
        for server in (plain, near, stranger):
            assert {authorization for _, _, authorization in server.requests} <= {""}


def test_a_submodule_that_the_credentials_do_not_open(secure_forge: Forge, access: Access) -> None:
    secure_forge.server.faults = Faults(where="/lib.git", status=403)
    parameters = secure_forge.parameters()
    error = failure(lambda: fetch(parameters, replace(access, credentials=CREDENTIALS)))
    assert error.reason is Reason.UNAUTHORIZED
    assert error.message.endswith("does not have it; correct its URL in .gitmodules, or check auth")


def test_an_unverified_server_is_that_of_the_source_only(
    secure_forge: Forge, stranger: GitHttpServer, access: Access
) -> None:
    parameters = secure_forge.parameters(insecureSkipTLSVerify=True, certificateData="")
    assert fetch(parameters, access)["deploy/lib/x/lib.yaml"] == b"lib: 1"
    secure_forge.include(f"{stranger.url}/group/lib.git")
    assert failure(lambda: fetch(parameters, access)).reason is Reason.TLS_VERIFICATION_FAILED


def test_over_ssh_the_key_goes_along(forge: Forge, access: Access) -> None:
    with serve_ssh(forge.root) as server:
        credentials = Credentials(ssh_private_key=server.private_key, known_hosts=server.known_hosts)
        parameters = forge.parameters(repository=f"ssh://git@127.0.0.1:{server.port}/group/shop.git")
        found = fetch(parameters, replace(access, credentials=credentials))
        assert found["deploy/lib/inner/deep.yaml"] == b"deep"
        assert {command.partition(" ")[2] for command in server.commands} == {
            "'/group/shop.git'", "'/group/lib.git'", "'/group/deep.git'"
        }  # fmt: skip


# servers


def test_a_host_that_is_not_allowed_is_not_asked(secure_forge: Forge, stranger: GitHttpServer, access: Access) -> None:
    secure_forge.include(f"{stranger.url}/group/lib.git")
    own = replace(access, network=Network(allowed_hosts=(secure_forge.server.url.removeprefix("https://"),)))
    parameters = secure_forge.parameters()
    error = failure(lambda: fetch(parameters, own))
    assert error.reason is Reason.INSECURE_REFUSED
    host = stranger.url.removeprefix("https://")
    assert error.message.startswith(f'{FIELD}: "deploy/lib": host "{host}" is not in --allowed-hosts; ')
    assert not stranger.requests


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.2:PORT/group/lib.git", "it is in a network that --denied-networks lists"),
        ("https://169.254.169.254/lib", "metadata"),
        ("http://192.0.2.1/lib", "plain http is allowed only to loopback addresses"),
        ("git@[fe80::1]:lib", None),
    ],
)
def test_an_address_that_is_not_allowed_is_not_asked(
    url: str, told: str | None, forge: Forge, tmp_path: Path, access: Access
) -> None:
    with GitHttpServer(tmp_path / "git", host="127.0.0.2") as inner:
        forge.include(url.replace("PORT", str(inner.port)))
        own = replace(access, network=Network(denied_networks=("127.0.0.2/32",), allowed_networks=("0.0.0.0/0",)))
        error = failure(lambda: fetch(forge.parameters(), own))
        assert error.reason is (Reason.INSECURE_REFUSED if told else Reason.CONTENT_REJECTED)
        assert (told or "is not https://host/path") in error.message
        assert not inner.requests


def test_on_this_machine_submodules_are_for_who_names_this_machine(
    secure_forge: Forge, authority: trustme.CA, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = socket.getaddrinfo
    named = {"forge.example.org": "127.0.0.1"}
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: asked(named.get(host, host), *rest, **more))
    own = replace(access, network=Network(allow_loopback=True))
    with GitHttpServer(secure_forge.root, secure(authority, "forge.example.org")) as outside:
        secure_forge.include(f"{secure_forge.server.url}/group/lib.git")
        url = f"https://forge.example.org:{outside.port}/group/shop.git"
        parameters = secure_forge.parameters(repository=url)
        assert "it is a loopback address" in failure(lambda: fetch(parameters, own)).message
    assert not secure_forge.server.requests


def test_what_a_submodule_redirects_to_is_judged_as_for_a_source(
    secure_forge: Forge, stranger: GitHttpServer, access: Access
) -> None:
    target = f"{stranger.url}/{CANARY}/lib.git/info/refs?service=git-upload-pack"
    secure_forge.server.faults = Faults(where="/lib.git", status=301, headers={"Location": target})
    own = replace(access, network=Network(denied_networks=("127.0.0.2/32",)))
    parameters = secure_forge.parameters()
    error = failure(lambda: fetch(parameters, own))
    assert "redirects to an address that cannot be used" in error.message
    assert not stranger.requests


# what .gitmodules may say


URLS = [
    ("file:///etc", 'its URL "file:///etc" in .gitmodules is not https://host/path'),
    ("/etc", 'its URL "/etc" in .gitmodules is not https://host/path'),
    ("lib", 'its URL "lib" in .gitmodules is not https://host/path'),
    ("ext::sh -c 'touch /tmp/pwned'", "in .gitmodules contains blanks or control characters"),
    ("ext::sh", 'its URL "ext::sh" in .gitmodules is not https://host/path'),
    ("-uhttps://example.org/lib", "in .gitmodules is not https://host/path"),
    ("--upload-pack=touch", "in .gitmodules is not https://host/path"),
    ("ssh://-oProxyCommand=touch/lib", "in .gitmodules has an invalid host name"),
    ("git://example.org/lib", "in .gitmodules is not https://host/path"),
    (f"https://me:{CANARY}@example.org/lib", "its URL in .gitmodules must not contain a password"),
    ("../../../..", "in .gitmodules"),
    ("https://example.org/%0a", "in .gitmodules has a path"),
]


def test_a_url_that_no_source_may_have_is_refused(forge: Forge, access: Access) -> None:
    forge.shop.commit(including({f"d{number}/lib": (url, forge.recorded) for number, (url, _) in enumerate(URLS)}))
    resolution = SOURCE.resolve(forge.parameters(), access)
    for number, (_, told) in enumerate(URLS):
        # Of a directory .gitmodules is fetched alone, and git fsck does not know it for what it is.
        error = failure(partial(fetch, forge.parameters(directory=f"d{number}"), access, resolution))
        assert error.reason is Reason.CONTENT_REJECTED
        assert error.message.startswith(f'{FIELD}: "d{number}/lib": ')
        assert told in error.message
    assert failure(lambda: fetch(forge.parameters(), access, resolution)).reason is Reason.CONTENT_REJECTED


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(
            b'[submodule "../../x"]\npath = deploy/lib\nurl = ../lib.git\n',
            '"deploy/lib": .gitmodules has no URL for it',
            id="a name that is a path",
        ),
        pytest.param(b"", '"deploy/lib": .gitmodules has no URL for it', id="nothing"),
        pytest.param(
            b'[submodule "x"]\npath = deploy/lib\n', '"deploy/lib": .gitmodules has no URL for it', id="no URL"
        ),
        pytest.param(b"[submodule", ".gitmodules has an error", id="no settings"),
        pytest.param(b"#" * (1 << 20) + b"#", ".gitmodules exceeds the limit of 1 MiB", id="a large one"),
        pytest.param((LINK, b"deploy/a.yaml"), "sends objects that git fsck refuses", id="a link"),
    ],
)
def test_what_gitmodules_must_say(content: Content, told: str, forge: Forge, access: Access) -> None:
    forge.shop.commit({".gitmodules": content})
    error = failure(lambda: fetch(forge.parameters(directory="deploy"), access))
    assert error.reason is Reason.CONTENT_REJECTED
    assert told in error.message


def test_without_gitmodules_there_is_no_url(forge: Forge, access: Access) -> None:
    forge.shop.commit({"deploy/lib": (SUBMODULE, forge.recorded.encode())}, orphan=True)
    error = failure(lambda: fetch(forge.parameters(), access))
    assert ".gitmodules has no URL for it; add that, or remove the submodule" in error.message


def test_a_commit_that_the_repository_of_a_submodule_lacks(forge: Forge, access: Access) -> None:
    forge.include("../lib.git", "1" * 40)
    error = failure(lambda: fetch(forge.parameters(), access))
    assert error.reason is Reason.PINNED_CONTENT_GONE
    host = forge.server.url.removeprefix("http://")
    problem = f'"{host}" does not have commit "{"1" * 40}"; push it there, or update the submodule'
    assert error.message == f'{FIELD}: "deploy/lib": {problem}'


def test_a_repository_that_does_not_exist(forge: Forge, access: Access) -> None:
    forge.include("../nope.git")
    error = failure(lambda: fetch(forge.parameters(), access))
    assert error.reason is Reason.NOT_FOUND
    assert error.message.startswith(f'{FIELD}: "deploy/lib": ')


# limits


LIMITS = [
    (Limits(entries=5), "more entries than the limit of 5"),
    (Limits(compressed_bytes=1_500_000), "exceeds the limit of 1.5 MiB"),
    (Limits(total_bytes=1_500_000), "exceed the limit of 1.5 MiB"),
]


def test_limits_are_for_all_together(forge: Forge, access: Access) -> None:
    commits = [
        repository.commit({"big": os.urandom(1_000_000)}, branch="big", orphan=True)
        for repository in (forge.lib, forge.deep)
    ]
    two = {"l": ("../lib.git", commits[0]), "d": ("../deep.git", commits[1])}
    forge.shop.commit(including(two, {"a": b"a", "b": b"b", "c": b"c"}), orphan=True)
    resolution = SOURCE.resolve(forge.parameters(), access)
    assert len(fetch(forge.parameters(), access, resolution)) == 6
    for limits, told in LIMITS:
        error = failure(partial(fetch, forge.parameters(), replace(access, limits=limits), resolution))
        assert error.reason is Reason.CONTENT_REJECTED
        assert told in error.message


def test_how_deep_submodules_are_nested(forge: Forge, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_submodules, "MAX_DEPTH", 1)
    error = failure(lambda: fetch(forge.parameters(), access))
    assert error.reason is Reason.CONTENT_REJECTED
    assert error.message.startswith(f'{FIELD}: "deploy/lib/inner": it is nested in more than 1 submodules')


def test_how_many_submodules_there_are(forge: Forge, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_submodules, "MAX_COUNT", 1)
    error = failure(lambda: fetch(forge.parameters(), access))
    assert error.message.startswith(f'{FIELD}: "deploy/lib/inner": the source has more than 1 submodules')


def test_the_deadline_is_for_all_together(forge: Forge, access: Access) -> None:
    forge.server.faults = Faults(where="/deep.git", silent=True)
    started = time.monotonic()
    error = failure(lambda: fetch(forge.parameters(), replace(access, deadline=started + 3)))
    assert error.reason is Reason.UNREACHABLE
    assert error.message == f'{FIELD}: "deploy/lib/inner": timed out; will be retried automatically'
    assert time.monotonic() - started < 15


def test_git_that_asks_another_host_sees_no_credential(
    secure_forge: Forge, stranger: GitHttpServer, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure_forge.include(f"{stranger.url}/group/lib.git")
    secure_forge.server.wants_basic("user", CANARY)
    started: list[tuple[View, str]] = []
    views: list[View] = []
    execute = git.Git.execute

    def start(spawn: Callable[[], Any], view: View, subject: str, *, required: bool) -> Any:
        views.append(view)
        return start_confined(spawn, view, subject, required=required)

    def run(self: Any, command: list[str], **others: Any) -> Any:
        started.append((views[-1], f"{command} {others}"))
        return execute(self, command, **others)

    monkeypatch.setattr(git_process, "start_confined", start)
    monkeypatch.setattr(git.Git, "execute", run)
    own = replace(access, credentials=CREDENTIALS)
    fetch(secure_forge.parameters(), own)
    encoded = base64.b64encode(f"user:{CANARY}".encode()).decode()
    assert any(encoded in given for view, given in started if view.port == secure_forge.server.port)
    others = [(view, given) for view, given in started if view.port == stranger.port]
    assert not any(secret in given for _, given in others for secret in (CANARY, encoded))
    assert {view.change for view, _ in others} == {(access.scratch / f"submodule-{number}",) for number in (1, 2)}
