"""Servers that demand a client certificate: each kind shows that of its Secret, to its own server and to no other."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.sources.chart import ChartSource
from rukpak.controller.sources.credentials import parse_secret
from rukpak.controller.sources.git.source import GitSource
from rukpak.controller.sources.http import HttpSource
from rukpak.controller.sources.image.source import ImageSource
from tests.support.archives import tarball
from tests.support.charts import entry_of, index_of, packed_chart, repository_of
from tests.support.clock import Unwaited
from tests.support.faulty_registry import FaultyRegistry
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.web_servers import Asked, FaultyServer, OddServer, Reply

PATH = "spec.sources[0]"
MANIFEST = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
TRIES = 50
"""With TLS 1.3 a server may have closed the connection before its reason is read, mostly on a busy machine."""
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(
    authority: trustme.CA, demands: ssl.VerifyMode = ssl.CERT_REQUIRED, version: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = demands
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def secret(authority: trustme.CA, kind: str = "kubernetes.io/tls", **more: str) -> dict[str, Any]:
    """Return a Secret as `kubectl create secret tls` makes it, and cert-manager."""
    issued = authority.issue_cert("robot@acme.example")
    values = {
        "tls.crt": b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode(),
        "tls.key": issued.private_key_pem.bytes().decode(),
        "ca.crt": authority.cert_pem.bytes().decode(),
        **more,
    }
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items() if value}
    return {"type": kind, "metadata": {"namespace": "shop", "name": "client"}, "data": data}


class Client:
    """What a controller does with sources."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def get(self, source: Any, parameters: Mapping[str, Any], credentials: Credentials) -> dict[str, bytes]:
        resolution = source.resolve(parameters, self._access(credentials))
        folder = self._new_folder()
        write_entries(source.fetch(parameters, resolution, self._access(credentials)), folder, Limits(), PATH)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def refusal(self, source: Any, parameters: Mapping[str, Any], credentials: Credentials) -> BundleError:
        with pytest.raises(BundleError) as caught:
            self.get(source, parameters, credentials)
        return caught.value

    def fail(self, source: Any, parameters: Mapping[str, Any], credentials: Credentials, reason: Reason) -> str:
        refusal = self.refusal(source, parameters, credentials)
        assert refusal.reason is reason, refusal.message
        return refusal.message

    def _access(self, credentials: Credentials) -> Access:
        return Access(
            path=PATH,
            deadline=time.monotonic() + 250,
            cancelled=Unwaited(),
            scratch=self._new_folder(),
            credentials=credentials,
        )

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


class Servers:
    """One of each kind, which demands a certificate."""

    def __init__(self, context: ssl.SSLContext, folder: Path) -> None:
        self.files, self.registry = FaultyServer(context), FaultyRegistry(context)
        self.forge = GitHttpServer(folder / "git", context)
        self.files.add("/a.yaml", MANIFEST)
        for path, body in repository_of("web", "1.0.0").items():
            self.files.add(path, body)
        self.registry.add_image("v1", tarball(("a.yaml", MANIFEST)))

    def sources(self) -> dict[str, tuple[Any, dict[str, Any]]]:
        return {
            "http": (HttpSource(), {"url": f"{self.files.address}/a.yaml"}),
            "chart": (ChartSource(), {"repository": self.files.address, "name": "web"}),
            "image": (ImageSource(), {"ref": f"{self.registry.host}/a:v1"}),
            "git": (GitSource(), {"repository": f"{self.forge.url}/a.git"}),
        }


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name)
def servers(request: pytest.FixtureRequest, authority: trustme.CA, tmp_path: Path) -> Iterator[Servers]:
    GitRepository(tmp_path / "git" / "a.git").commit({"a.yaml": MANIFEST})
    found = Servers(server_context(authority, version=request.param), tmp_path)
    with found.files, found.registry, found.forge:
        yield found


KINDS = ("http", "chart", "image", "git")


@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_of_the_secret_is_shown(
    kind: str, servers: Servers, authority: trustme.CA, client: Client
) -> None:
    source, parameters = servers.sources()[kind]
    credentials = parse_secret(secret(authority), kind, PATH)
    files = client.get(source, parameters, credentials)
    assert "Chart.yaml" in files if kind == "chart" else files == {"a.yaml": MANIFEST}


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_certificate_the_message_says_so(
    kind: str, servers: Servers, authority: trustme.CA, client: Client
) -> None:
    source, parameters = servers.sources()[kind]
    credentials = Credentials(certificate_authority=authority.cert_pem.bytes().decode())
    assert any("client certificate" in client.refusal(source, parameters, credentials).message for _ in range(TRIES))


@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_that_the_server_does_not_accept(
    kind: str, servers: Servers, authority: trustme.CA, client: Client
) -> None:
    source, parameters = servers.sources()[kind]
    stranger = parse_secret(secret(trustme.CA(), **{"ca.crt": authority.cert_pem.bytes().decode()}), kind, PATH)
    refusals = (client.refusal(source, parameters, stranger) for _ in range(TRIES))
    if kind == "git":  # to which curl and GnuTLS say less
        assert any("client certificate" in each.message for each in refusals)
        return
    problem = "does not accept the client certificate; check tls.crt in the Secret of auth"
    assert any(each.reason is Reason.UNAUTHORIZED and problem in each.message for each in refusals)


def test_beside_a_password_and_in_a_secret_for_registries(authority: trustme.CA, client: Client) -> None:
    with FaultyRegistry(server_context(authority)) as registry:
        registry.add_image("v1", tarball(("a.yaml", MANIFEST)))
        registry.logins = {"robot": "canary"}
        parameters = {"ref": f"{registry.host}/a:v1"}
        basic = secret(authority, username="robot", password="canary")
        auths = f'{{"auths": {{"{registry.host}": {{"username": "robot", "password": "canary"}}}}}}'
        docker = secret(authority, "kubernetes.io/dockerconfigjson", **{".dockerconfigjson": auths})
        for each in (basic, docker):
            assert client.get(ImageSource(), parameters, parse_secret(each, "image", PATH)) == {"a.yaml": MANIFEST}


REFUSED: dict[str, dict[str, Any]] = {
    "no verification": {"insecureSkipTLSVerify": True},
    "plain http": {"url": "http://127.0.0.1:1/a.yaml", "repository": "http://127.0.0.1:1/a.git"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_certificate_is_shown_over_verified_tls_only(
    case: str, kind: str, servers: Servers, authority: trustme.CA, client: Client
) -> None:
    source, parameters = servers.sources()[kind]
    changed = {key: value for key, value in REFUSED[case].items() if key in parameters or "insecure" in key}
    if not changed:
        return  # images have no scheme
    credentials = parse_secret(secret(authority), kind, PATH)
    message = client.fail(source, {**parameters, **changed}, credentials, Reason.INSECURE_REFUSED)
    assert "credentials are not sent" in message


# another server


class Other:
    """Asks for a certificate, and notes whether it has got one."""

    def __init__(self, authority: trustme.CA, answer: Mapping[str, bytes]) -> None:
        self.shown: list[bool] = []
        self._answer = answer
        self.server = OddServer(self._reply, server_context(authority, ssl.CERT_OPTIONAL))
        handler: Any = self.server._server.RequestHandlerClass
        setup, shown = handler.setup, self.shown

        def note(self: Any) -> None:
            setup(self)
            self.request.do_handshake()
            shown.append(bool(self.request.getpeercert()))

        handler.setup = note

    def _reply(self, asked: Asked) -> Reply:
        body = self._answer.get(asked.place)
        return Reply(status=200 if body else 404, body=body or b"")


@pytest.fixture
def chart() -> bytes:
    return packed_chart("web", "1.0.0")


@pytest.mark.parametrize("passes", [False, True])
def test_attack_the_host_of_a_chart_sees_it_only_if_the_spec_says_so(
    passes: bool, authority: trustme.CA, client: Client, chart: bytes
) -> None:
    other = Other(authority, {"/web.tgz": chart})
    with FaultyServer(server_context(authority)) as files, other.server:
        files.add("/index.yaml", index_of([entry_of("web", "1.0.0", chart, urls=[f"{other.server.url}/web.tgz"])]))
        parameters = {"repository": files.address, "name": "web", "passCredentials": passes}
        assert "Chart.yaml" in client.get(ChartSource(), parameters, parse_secret(secret(authority), "chart", PATH))
        assert other.shown == [passes]


def test_attack_a_redirect_does_not_show_it_to_another_host(authority: trustme.CA, client: Client) -> None:
    other = Other(authority, {"/b.yaml": MANIFEST})
    with FaultyServer(server_context(authority)) as files, other.server:
        files.add("/a.yaml", redirect=f"{other.server.url}/b.yaml")
        parameters = {"url": f"{files.address}/a.yaml"}
        assert client.get(HttpSource(), parameters, parse_secret(secret(authority), "http", PATH)) == {
            "a.yaml": MANIFEST
        }
        assert set(other.shown) == {False}


def test_attack_a_repository_that_redirects_to_another_host_is_not_followed(
    authority: trustme.CA, client: Client, tmp_path: Path
) -> None:
    other = Other(authority, {})
    with GitHttpServer(tmp_path, server_context(authority)) as forge, other.server:
        location = f"{other.server.url}/a.git/info/refs?service=git-upload-pack"
        forge.faults = replace(forge.faults, status=301, headers={"Location": location})
        credentials = parse_secret(secret(authority), "git", PATH)
        parameters = {"repository": f"{forge.url}/a.git"}
        message = client.fail(GitSource(), parameters, credentials, Reason.INSECURE_REFUSED)
        assert "to another host with credentials" in message
        assert other.shown == []


# Secrets


def encrypted(authority: trustme.CA) -> str:
    key = authority.issue_cert("robot@acme.example").private_key_pem.bytes()
    loaded = serialization.load_pem_private_key(key, None)
    form = serialization.BestAvailableEncryption(b"canary")
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form).decode()


def test_secrets_that_cannot_be_used(authority: trustme.CA) -> None:
    stranger = trustme.CA().issue_cert("a@acme.example").private_key_pem.bytes().decode()
    cases = {
        'key "tls.key" is missing; add it': {"tls.key": ""},
        'key "tls.crt" is missing; add it': {"tls.crt": ""},
        'key "tls.key" has a passphrase; use a key without one': {"tls.key": encrypted(authority)},
        '"tls.key" are not a certificate and its private key': {"tls.key": stranger},
        '"tls.crt" and "tls.key" are not': {"tls.crt": "canary"},
    }
    for problem, values in cases.items():
        for kind in KINDS:
            with pytest.raises(BundleError, match=problem) as caught:
                parse_secret(secret(authority, **values), kind, PATH)
            assert caught.value.reason is Reason.SECRET_INVALID
            assert "canary" not in caught.value.message
