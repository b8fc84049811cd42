"""Each kind of source through a real proxy: what it is asked for, what it is never asked for, and who sees what."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
import trustme

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Limits, Network
from rukpak.api.proxies import read_proxies
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.sources.chart import ChartSource
from rukpak.controller.sources.git.source import GitSource
from rukpak.controller.sources.http import HttpSource
from rukpak.controller.sources.image.source import ImageSource
from tests.support.archives import tarball
from tests.support.charts import entry_of, index_of, packed_chart, repository_of
from tests.support.clock import Unwaited
from tests.support.faulty_registry import Faults, FaultyRegistry
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.proxies import NAMES, Squid, running_squid
from tests.support.web_servers import FaultyServer

PATH = "spec.sources[0]"
MANIFEST = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
FILES, FORGE, REGISTRY, TOKENS = NAMES
PORT_OF_NOBODY = 1


@pytest.fixture(scope="module")
def proxy() -> Iterator[Squid]:
    with running_squid() as squid:
        yield squid


@pytest.fixture(scope="module")
def guarded() -> Iterator[Squid]:
    with running_squid(has_password=True) as squid:
        yield squid


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*NAMES, "localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Resolve names only to what a test says, as where no DNS knows the rest of the world."""
    known: dict[str, str] = {}
    genuine = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        if host in known:
            return genuine(known[host], *arguments, **options)
        if host == "localhost" or host.replace(".", "").isdigit() or ":" in host:
            return genuine(host, *arguments, **options)
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return known


class Client:
    """What a controller does with sources."""

    def __init__(self, folder: Path, authority: trustme.CA, environment: Mapping[str, str]) -> None:
        self._folder, self._count = folder, 0
        self.pem = authority.cert_pem.bytes().decode()
        self.network = Network(allow_loopback=True, proxies=read_proxies(environment))

    def get(self, source: Any, parameters: Mapping[str, Any], **options: Any) -> dict[str, bytes]:
        """Resolve and fetch a source; return its files."""
        parameters = {"certificateData": self.pem, **parameters}
        resolution = source.resolve(parameters, self._access(**options))
        folder = self._new_folder()
        write_entries(source.fetch(parameters, resolution, self._access(**options)), folder, Limits(), PATH)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def fail(self, source: Any, parameters: Mapping[str, Any], reason: Reason, **options: Any) -> str:
        with pytest.raises(BundleError) as caught:
            self.get(source, parameters, **options)
        assert caught.value.reason is reason, caught.value.message
        assert "canary" not in caught.value.message
        return caught.value.message

    def _access(self, **options: Any) -> Access:
        options = {"network": self.network, "deadline": time.monotonic() + 250, **options}
        return Access(path=PATH, cancelled=Unwaited(), scratch=self._new_folder(), **options)

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder


@pytest.fixture
def client(tmp_path: Path, authority: trustme.CA, proxy: Squid) -> Client:
    return Client(tmp_path, authority, {"HTTPS_PROXY": proxy.url, "HTTP_PROXY": proxy.url})


OwnClient = Callable[[str], Client]


@pytest.fixture
def own_client(tmp_path: Path, authority: trustme.CA) -> OwnClient:
    """Make a client that uses another proxy."""
    return lambda url: Client(tmp_path, authority, {"HTTPS_PROXY": url, "HTTP_PROXY": url})


@pytest.fixture
def server(tls: ssl.SSLContext) -> Iterator[FaultyServer]:
    with FaultyServer(tls) as server:
        server.add("/a.yaml", MANIFEST)
        yield server


def port_of(host: str) -> str:
    return host.rpartition(":")[2]


def passed(squid: Squid, *addresses: str) -> bool:
    """Wait until a proxy has noted that it has connected to all of these; it does when they end."""
    expected = {f"200 CONNECT {address}" for address in addresses}
    wait_for(lambda: expected <= set(squid.requests()), 60, lambda: f"{expected} in {squid.requests()}")
    return True


@pytest.fixture
def knocked() -> Iterator[socket.socket]:
    """A port in place of a proxy."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def is_untouched(listener: socket.socket) -> bool:
    listener.settimeout(0)
    with pytest.raises(BlockingIOError):
        listener.accept()
    return True


@pytest.fixture
def wary(tmp_path: Path, authority: trustme.CA, knocked: socket.socket) -> Client:
    """Has a proxy that it must not ask."""
    url = f"http://127.0.0.1:{knocked.getsockname()[1]}"
    return Client(tmp_path, authority, {"HTTPS_PROXY": url, "HTTP_PROXY": url})


# each kind


def test_a_file(client: Client, proxy: Squid, server: FaultyServer) -> None:
    address = f"{FILES}:{port_of(server.host)}"
    assert client.get(HttpSource(), {"url": f"https://{address}/a.yaml"}) == {"a.yaml": MANIFEST}
    assert passed(proxy, address)


def test_a_file_over_plain_http(client: Client, proxy: Squid) -> None:
    with FaultyServer() as plain:
        plain.add("/a.yaml", MANIFEST)
        url = f"http://{FILES}:{port_of(plain.host)}/a.yaml"
        message = client.fail(HttpSource(), {"url": url}, Reason.INSECURE_REFUSED)
        assert "plain http is allowed only to loopback addresses" in message
        assert plain.requests == []
        assert client.get(HttpSource(), {"url": url, "insecureSkipTLSVerify": True}) == {"a.yaml": MANIFEST}
        assert f"200 GET {url}" in proxy.requests()
        assert plain.sent("Proxy-Authorization") == [None] * len(plain.requests)


def test_an_image_with_a_token_server(client: Client, proxy: Squid, tls: ssl.SSLContext) -> None:
    with FaultyRegistry(tls) as registry:
        registry.add_image("v1", tarball(("manifests/a.yaml", MANIFEST)))
        registry.wants_token = True
        host, tokens = (f"{name}:{port_of(registry.host)}" for name in (REGISTRY, TOKENS))
        registry.realm = f"https://{tokens}/token"
        assert client.get(ImageSource(), {"ref": f"{host}/a:v1"}) == {"manifests/a.yaml": MANIFEST}
        assert passed(proxy, host, tokens)


@pytest.mark.parametrize("where", ["relative", "elsewhere"])
def test_a_chart(where: str, client: Client, proxy: Squid, tls: ssl.SSLContext) -> None:
    with FaultyServer(tls) as repository, FaultyServer(tls) as other:
        archive = packed_chart("web", "1.0.0")
        path = "web-1.0.0.tgz"
        address = f"https://{FORGE}:{port_of(other.host)}/{path}" if where == "elsewhere" else path
        repository.add("/index.yaml", index_of([entry_of("web", "1.0.0", archive, urls=[address])]))
        for each in (repository, other):
            each.add(f"/{path}", archive)
        url = f"https://{FILES}:{port_of(repository.host)}"
        assert "Chart.yaml" in client.get(ChartSource(), {"repository": url, "name": "web"})
        assert passed(proxy, url.removeprefix("https://"))
        assert where != "elsewhere" or passed(proxy, f"{FORGE}:{port_of(other.host)}")


@pytest.fixture
def forge(tmp_path: Path, tls: ssl.SSLContext) -> Iterator[GitHttpServer]:
    repository = GitRepository(tmp_path / "git" / "a.git")
    repository.commit({"a.yaml": MANIFEST})
    with GitHttpServer(tmp_path / "git", tls) as server:
        yield server


def test_a_repository(client: Client, proxy: Squid, forge: GitHttpServer) -> None:
    host = f"{FORGE}:{forge.port}"
    assert client.get(GitSource(), {"repository": f"https://{host}/a.git"}) == {"a.yaml": MANIFEST}
    assert passed(proxy, host)


def test_a_repository_that_has_moved(client: Client, proxy: Squid, forge: GitHttpServer) -> None:
    with GitHttpServer(forge.root, forge_tls(forge)) as other:
        location = f"https://{FORGE}:{other.port}/a.git/info/refs?service=git-upload-pack"
        forge.faults = replace(forge.faults, status=301, headers={"Location": location})
        files = client.get(GitSource(), {"repository": f"https://{FORGE}:{forge.port}/a.git"})
        assert files == {"a.yaml": MANIFEST}
        assert passed(proxy, f"{FORGE}:{other.port}")


def forge_tls(forge: GitHttpServer) -> ssl.SSLContext:
    context = getattr(forge._server.socket, "context", None)
    assert isinstance(context, ssl.SSLContext)
    return context


def test_a_repository_over_ssh_uses_no_proxy(wary: Client, knocked: socket.socket) -> None:
    credentials = Credentials(ssh_private_key="-----BEGIN KEY-----\n-----END KEY-----\n", known_hosts="a b c\n")
    parameters = {"repository": f"ssh://git@{FORGE}:2222/a.git"}
    message = wary.fail(GitSource(), parameters, Reason.UNREACHABLE, credentials=credentials)
    assert "its name cannot be resolved" in message
    assert "proxy" not in message
    assert is_untouched(knocked)


# its credentials


def sources_of(server: FaultyServer, forge: GitHttpServer) -> list[tuple[Any, dict[str, Any]]]:
    return [
        (HttpSource(), {"url": f"https://{FILES}:{port_of(server.host)}/a.yaml"}),
        (GitSource(), {"repository": f"https://{FORGE}:{forge.port}/a.git"}),
    ]


def test_credentials_are_for_the_proxy_and_seen_nowhere_else(
    own_client: OwnClient, guarded: Squid, server: FaultyServer, forge: GitHttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    own, refused = own_client(guarded.url), [line for line in guarded.requests() if line.startswith("407")]
    seen = Watched()
    with seen:
        for source, parameters in sources_of(server, forge):
            assert own.get(source, parameters) == {"a.yaml": MANIFEST}
    assert server.sent("Proxy-Authorization") == [None] * len(server.requests)
    assert [line for line in guarded.requests() if line.startswith("407")] == refused, "a request more than needed"
    told = f"{own.network!r} {caplog.text} {seen.commands}"
    assert not any(part in told for part in ("canary", "Y2FuYXJ5", "%40p"))


def test_a_proxy_over_plain_http_gets_its_credentials(tmp_path: Path, authority: trustme.CA, guarded: Squid) -> None:
    own = Client(tmp_path, authority, {"http_proxy": guarded.url})
    with FaultyServer() as plain:
        plain.add("/a.yaml", MANIFEST)
        url = f"http://{FILES}:{port_of(plain.host)}/a.yaml"
        assert own.get(HttpSource(), {"url": url, "insecureSkipTLSVerify": True}) == {"a.yaml": MANIFEST}
        assert plain.sent("Proxy-Authorization") == [None] * len(plain.requests)


class Watched:
    """The command lines of the children that run inside `with`."""

    def __init__(self) -> None:
        self.commands = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        assert "git" in self.commands

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.commands += path.read_text(errors="replace") if path.parent.name != str(os.getpid()) else ""
                except OSError:
                    continue


# failures name it


@pytest.mark.parametrize("wrong", ["", "robot:canary@"])
def test_a_proxy_that_does_not_accept_the_credentials(
    wrong: str, own_client: OwnClient, guarded: Squid, server: FaultyServer, forge: GitHttpServer
) -> None:
    own = own_client(f"http://{wrong}{guarded.authority}")
    for source, parameters in sources_of(server, forge):
        message = own.fail(source, parameters, Reason.UNREACHABLE)
        assert f'through proxy "{guarded.authority}": the proxy does not accept the user and password' in message


def test_a_proxy_that_does_not_allow_a_host(own_client: OwnClient, server: FaultyServer, forge: GitHttpServer) -> None:
    with running_squid(denied=".acme.example") as strict:
        own = own_client(strict.url)
        for source, parameters in sources_of(server, forge):
            message = own.fail(source, parameters, Reason.UNREACHABLE)
            assert f'through proxy "{strict.authority}": the proxy does not allow it (status 403)' in message


def test_a_host_that_the_proxy_does_not_know(client: Client, proxy: Squid) -> None:
    for source, parameters in (
        (HttpSource(), {"url": "https://nowhere.acme.example/a.yaml"}),
        (GitSource(), {"repository": "https://nowhere.acme.example/a.git"}),
        (ImageSource(), {"ref": "nowhere.acme.example/a:v1"}),
        (ChartSource(), {"repository": "https://nowhere.acme.example", "name": "web"}),
    ):
        message = client.fail(source, parameters, Reason.UNREACHABLE)
        assert f'"nowhere.acme.example" through proxy "{proxy.authority}": the proxy cannot connect to it' in message


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"http://robot:canary@127.0.0.1:{PORT_OF_NOBODY}", "the proxy cannot be reached: it refuses the connection"),
        ("http://proxy.nowhere.example:3128", "the proxy cannot be reached: its name cannot be resolved"),
    ],
)
def test_a_proxy_that_is_not_there(
    url: str, problem: str, own_client: OwnClient, server: FaultyServer, forge: GitHttpServer
) -> None:
    own = own_client(url)
    for source, parameters in sources_of(server, forge):
        message = own.fail(source, parameters, Reason.UNREACHABLE)
        assert f'through proxy "{url.rpartition("@")[2].removeprefix("http://")}": {problem}' in message


def test_a_proxy_that_says_nothing(tmp_path: Path, authority: trustme.CA) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        authority_of_proxy = f"127.0.0.1:{silent.getsockname()[1]}"
        own = Client(tmp_path, authority, {"HTTPS_PROXY": authority_of_proxy})
        begun = time.monotonic()
        message = own.fail(HttpSource(), {"url": f"https://{FILES}/a.yaml"}, Reason.UNREACHABLE, deadline=begun + 1)
        assert time.monotonic() - begun < 60
        assert "timed out" in message


def test_a_certificate_that_a_proxy_has_replaced(client: Client, proxy: Squid, server: FaultyServer) -> None:
    url = f"https://{FILES}:{port_of(server.host)}/a.yaml"
    message = client.fail(HttpSource(), {"url": url, "certificateData": ""}, Reason.TLS_VERIFICATION_FAILED)
    assert f'through proxy "{proxy.authority}"' in message


# no hole


REFUSED = {
    "an address": "https://10.0.0.5/a.yaml",
    "a public address": "https://203.0.113.7/a.yaml",
    "an address as a number": "https://167772165/a.yaml",
    "an address in hexadecimal": "https://0x0a000005/a.yaml",
    "half an address": "https://10.5/a.yaml",
    "an address with a dot": "https://10.0.0.5./a.yaml",
    "an address of IPv6": "https://[fd00::5]/a.yaml",
    "a loopback address in another form": "https://127.1/a.yaml",
    "this machine with a domain": "https://a.localhost/a.yaml",
    "a Service": "https://git.forge.svc/a.yaml",
    "a Service with its domain": "https://git.forge.svc.cluster.local/a.yaml",
    "a Service in capitals": "https://KUBERNETES.default.SVC/a.yaml",
    "a name without a domain": "https://intranet/a.yaml",
    "the metadata of a cloud": "https://metadata.google.internal/a.yaml",
    "a name of the neighbourhood": "https://printer.local/a.yaml",
}


@pytest.mark.parametrize("case", REFUSED)
def test_attack_what_a_proxy_is_not_asked_for(case: str, wary: Client, knocked: socket.socket) -> None:
    url = REFUSED[case]
    for source, parameters in (
        (HttpSource(), {"url": url}),
        (GitSource(), {"repository": url.replace("./", "/")}),  # which takes no dot there
        (ChartSource(), {"repository": url, "name": "web"}),
    ):
        assert "is not asked for through proxy" in wary.fail(source, parameters, Reason.INSECURE_REFUSED)
    assert is_untouched(knocked)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST."])
def test_attack_this_machine_is_not_reached_through_a_proxy(
    host: str, wary: Client, knocked: socket.socket, names: dict[str, str]
) -> None:
    names["localhost."] = "127.0.0.1"
    strict = replace(wary.network, allow_loopback=False)
    message = wary.fail(HttpSource(), {"url": f"https://{host}/"}, Reason.INSECURE_REFUSED, network=strict)
    assert "it is a loopback address" in message
    assert is_untouched(knocked)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("169.254.169.254", "it is link-local"),
        ("10.1.2.3", "--denied-networks"),
        ("127.0.0.1", "it is a loopback address"),
    ],
)
def test_attack_a_name_with_an_address_that_is_not_allowed(
    address: str, problem: str, wary: Client, knocked: socket.socket, names: dict[str, str]
) -> None:
    names["inside.acme.example"] = address
    strict = replace(wary.network, denied_networks=("10.0.0.0/8",), allow_loopback=False)
    for source, parameters in (
        (HttpSource(), {"url": "https://inside.acme.example/a.yaml"}),
        (GitSource(), {"repository": "https://inside.acme.example/a.git"}),
        (ImageSource(), {"ref": "inside.acme.example/a:v1"}),
    ):
        assert problem in wary.fail(source, parameters, Reason.INSECURE_REFUSED, network=strict)
    assert is_untouched(knocked)


@pytest.mark.parametrize("target", ["https://10.0.0.5/", "https://git.forge.svc/", "https://inside.acme.example/"])
def test_attack_a_redirect_to_what_a_proxy_is_not_asked_for(
    target: str, client: Client, proxy: Squid, server: FaultyServer, names: dict[str, str]
) -> None:
    names["inside.acme.example"] = "169.254.169.254"
    server.add("/moved.yaml", redirect=target)
    url = f"https://{FILES}:{port_of(server.host)}/moved.yaml"
    message = client.fail(HttpSource(), {"url": url}, Reason.UNREACHABLE)
    assert "redirects to an address that cannot be used" in message
    assert passed(proxy, f"{FILES}:{port_of(server.host)}")
    assert not any(target.split("/")[2] in line for line in proxy.requests())


def test_the_address_of_the_proxy_is_allowed_for_its_connection_only(
    client: Client, proxy: Squid, server: FaultyServer
) -> None:
    strict = replace(client.network, allow_loopback=False, denied_networks=("127.0.0.0/8",))
    url = f"https://{FILES}:{port_of(server.host)}/a.yaml"
    assert client.get(HttpSource(), {"url": url}, network=strict) == {"a.yaml": MANIFEST}
    own = {"url": f"https://{proxy.authority}/a.yaml"}
    assert "--denied-networks" in client.fail(HttpSource(), own, Reason.INSECURE_REFUSED, network=strict)


def test_a_registry_that_fails_behind_a_proxy(client: Client, proxy: Squid, tls: ssl.SSLContext) -> None:
    with FaultyRegistry(tls) as registry:
        registry.faults = Faults(status=503)
        host = f"{REGISTRY}:{port_of(registry.host)}"
        message = client.fail(ImageSource(), {"ref": f"{host}/a:v1"}, Reason.UNREACHABLE)
        assert f'"{host}" through proxy "{proxy.authority}": it returned status 503' in message


def test_what_is_not_for_the_proxy_is_reached_directly(
    tmp_path: Path, authority: trustme.CA, server: FaultyServer, names: dict[str, str]
) -> None:
    names[FILES] = "127.0.0.1"
    environment = {"HTTPS_PROXY": f"http://127.0.0.1:{PORT_OF_NOBODY}", "NO_PROXY": "other.example,.acme.example"}
    own = Client(tmp_path, authority, environment)
    allowed = replace(own.network, allowed_networks=("127.0.0.0/8",))
    url = f"https://{FILES}:{port_of(server.host)}/a.yaml"
    assert own.get(HttpSource(), {"url": url}, network=allowed) == {"a.yaml": MANIFEST}


def test_a_repository_of_charts_is_asked_once(client: Client, proxy: Squid, tls: ssl.SSLContext) -> None:
    with FaultyServer(tls) as repository:
        for path, body in repository_of("web", "1.0.0").items():
            repository.add(path, body)
        url = f"https://{FILES}:{port_of(repository.host)}"
        client.get(ChartSource(), {"repository": url, "name": "web"})
        assert [seen.path for seen in repository.requests] == ["/index.yaml", "/web-1.0.0.tgz"]


ANSWERS = {
    b"HTTP/1.0 401 Unauthorized\r\n\r\n": "the proxy does not accept the user and password of the controller (",
    b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n": "the proxy does not accept the user and password",
    b"HTTP/1.1 403 canary\r\nContent-Length: 6\r\n\r\ncanary": "the proxy does not allow it (status 403)",
    b"HTTP/1.1 504 canary\r\n\r\n": "the proxy cannot connect to it (status 504)",
    b"SSH-2.0-canary\r\n": "the proxy does not answer: the connection was closed",
    b"HTTP/1.1 200 OK\r\n" + b"X: canary\r\n" * 200 + b"\r\n": "the proxy does not answer: the connection was closed",
    b"": "the proxy does not answer: the connection was closed",
    b"HTTP/1.1 200 OK\r\n\r\ncanary": "the TLS handshake failed",
}


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_whatever_a_proxy_answers(answer: bytes, own_client: OwnClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_all, args=(listener, answer), daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        message = own_client(f"http://{address}").fail(HttpSource(), {"url": f"https://{FILES}/"}, Reason.UNREACHABLE)
        assert f'"{FILES}" through proxy "{address}": {ANSWERS[answer]}' in message
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def answer_all(listener: socket.socket, answer: bytes) -> None:
    with suppress(OSError):
        while True:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):  # who closes with unread bytes resets the connection
                    pass
