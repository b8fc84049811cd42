"""The http source with transport, archive and store, over real TLS: from a URL to files."""

from __future__ import annotations

import gzip
import hashlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Entry, Limits, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.cluster import write_certificates
from tests.support.archives import Link, tarball, zipped
from tests.support.inside import ContentStore, source_of, write_entries
from tests.support.web_servers import FaultyServer

PATH = "spec.sources[0].http"
SOURCE = source_of("http")
CREDENTIALS = Credentials(username="robot", password="secret")
AUTHORIZATION = "Basic cm9ib3Q6c2VjcmV0"
ITEMS = (("bundle-1/manifests/a.yaml", b"a: 1\n"), ("bundle-1/manifests/b.yaml", b"b: 1\n"))
FILES = {"manifests/a.yaml": "a: 1\n", "manifests/b.yaml": "b: 1\n"}
TARBALL = gzip.compress(tarball(*ITEMS), mtime=0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ContentStore]:
    with ContentStore(tmp_path / "store") as store:
        yield store


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder


@pytest.fixture
def server(certificates: Path) -> Iterator[FaultyServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    with FaultyServer(context) as server:
        server.add("/bundle", TARBALL, tag='"1"')
        yield server


@pytest.fixture
def parameters(server: FaultyServer, certificates: Path) -> dict[str, Any]:
    authority = (certificates / "ca.crt").read_text()
    return {"url": f"{server.address}/bundle", "stripComponents": 1, "certificateData": authority}


class Client:
    """What a controller does with one source."""

    def __init__(self, store: ContentStore, credentials: Credentials | None = None) -> None:
        self.store, self.credentials = store, credentials

    def resolve(self, parameters: Mapping[str, Any], previous: Resolution | None = None) -> Resolution:
        def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
            self._put(parameters, resolution, entries)

        with self.store.scratch() as scratch:
            return SOURCE.resolve(parameters, self._access(scratch, previous=previous, keep=keep))

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution) -> dict[str, str]:
        with self.store.scratch() as scratch:
            entries = SOURCE.fetch(parameters, resolution, self._access(scratch))
            folder = self._put(parameters, resolution, entries)
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {str(path.relative_to(folder)): path.read_text() for path in found}

    def _put(self, parameters: Mapping[str, Any], resolution: Resolution, entries: Iterator[Entry]) -> Path:
        key = SOURCE.content_key(parameters, resolution)
        return self.store.put(key, lambda folder: write_entries(entries, folder, Limits(), PATH))

    def _access(self, scratch: Path, **options: Any) -> Access:
        deadline = time.monotonic() + 60
        return Access(
            path=PATH,
            deadline=deadline,
            cancelled=threading.Event(),
            scratch=scratch,
            credentials=self.credentials,
            **options,
        )


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.message.startswith(PATH)
    return caught.value


@pytest.mark.parametrize("body", [TARBALL, zipped(*ITEMS)], ids=["tar.gz", "zip"])
def test_one_request_becomes_a_pin_and_files(
    body: bytes, server: FaultyServer, parameters: dict[str, Any], store: ContentStore
) -> None:
    server.add("/bundle", body, tag='"1"')
    client = Client(store)
    resolution = client.resolve(parameters)
    assert resolution.digest == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert client.fetch(parameters, resolution) == FILES
    assert len(server.requests) == 1


def test_content_that_was_lost_is_fetched_by_its_digest(
    server: FaultyServer, parameters: dict[str, Any], store: ContentStore
) -> None:
    client = Client(store)
    resolution = client.resolve(parameters)
    store.collect(keep=(), max_bytes=0)
    assert client.fetch(parameters, resolution) == FILES
    assert len(server.requests) == 2


def test_a_file_that_has_changed_since_is_refused_until_it_is_resolved_again(
    server: FaultyServer, parameters: dict[str, Any], store: ContentStore
) -> None:
    client = Client(store)
    resolution = client.resolve(parameters)
    server.add("/bundle", tarball(("bundle-2/new.yaml", b"new: 1\n")), tag='"2"')
    assert client.fetch(parameters, resolution) == FILES  # stored: nobody is asked
    store.collect(keep=(), max_bytes=0)
    assert failure(lambda: client.fetch(parameters, resolution)).reason is Reason.DIGEST_MISMATCH
    assert store.bytes_used() == 0
    assert client.fetch(parameters, client.resolve(parameters, previous=resolution)) == {"new.yaml": "new: 1\n"}


def test_a_poll_of_what_has_not_changed_reads_nothing(
    server: FaultyServer, parameters: dict[str, Any], store: ContentStore
) -> None:
    client = Client(store)
    resolution = client.resolve(parameters)
    assert client.resolve(parameters, previous=resolution) is resolution
    assert server.sent("If-None-Match") == [None, '"1"']


def test_a_second_tenant_gets_nothing_by_the_digest_of_private_content(
    server: FaultyServer, parameters: dict[str, Any], store: ContentStore
) -> None:
    server.add("/bundle", TARBALL, authorization=AUTHORIZATION)
    resolution = Client(store, CREDENTIALS).resolve(parameters)
    pinned = {**parameters, "sha256": resolution.digest.removeprefix("sha256:")}
    for stranger in (None, Credentials(username="robot", password="guessed")):
        assert failure(lambda: Client(store, stranger).resolve(pinned)).reason is Reason.UNAUTHORIZED  # noqa: B023
    assert Client(store, CREDENTIALS).resolve(pinned).digest == resolution.digest


def test_a_network_that_is_cut_in_the_middle_is_survived(
    server: FaultyServer, parameters: dict[str, Any], store: ContentStore
) -> None:
    body = tarball(("bundle-1/big", bytes(3 << 20)), *ITEMS)
    server.add("/bundle", body, tag='"1"', cuts=[1 << 20, 1 << 20])
    client = Client(store)
    assert set(client.fetch(parameters, client.resolve(parameters))) == {"big", *FILES}
    assert len(server.requests) == 3


def test_an_attack_leaves_nothing(
    server: FaultyServer, parameters: dict[str, Any], store: ContentStore, tmp_path: Path
) -> None:
    server.add("/bundle", tarball(("x/ok", b"1"), ("x/l", Link("../../../etc")), ("x/l/passwd", b"x")))
    error = failure(lambda: Client(store).resolve(parameters))
    assert error.reason is Reason.CONTENT_REJECTED
    assert 'entry "l" links to "../../../etc", outside the tree' in error.message
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.name != "lock"]


def test_a_server_that_is_down_and_comes_back(
    server: FaultyServer, parameters: dict[str, Any], store: ContentStore
) -> None:
    client = Client(store)
    server.add("/bundle", TARBALL, status=503, times=3, headers={"Retry-After": "0"})
    error = failure(lambda: client.resolve(parameters))
    assert error.reason is Reason.UNREACHABLE
    assert client.fetch(parameters, client.resolve(parameters)) == FILES
