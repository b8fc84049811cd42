"""What is built in keeps the promises that packages of plug-ins have to keep: sources, with real servers."""

from __future__ import annotations

import gzip
import io
import ssl
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Credentials, LocalContent
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.conformance import Site, SourceContract
from rukpak.controller.building.entry_points import source_of
from rukpak.controller.playground.cluster import write_certificates
from tests.support.archives import tarball
from tests.support.charts import packed_chart, repository_of
from tests.support.faulty_registry import FaultyRegistry
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.web_servers import FaultyServer

pytestmark = pytest.mark.usefixtures("one_other_process")
PATH = "spec.sources[0].parameters"
FILES = {"manifests/a.yaml": b"a: 1\n", "manifests/b.yaml": b"b: 1\n"}
OTHERS = {"manifests/a.yaml": b"a: 2\n"}
CHART = packed_chart("shop", "1.0.0")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder


def packed(files: dict[str, bytes]) -> bytes:
    return gzip.compress(tarball(*files.items()), mtime=0)


def files_in(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file of a packed chart."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            yield member.name.removeprefix("shop/"), (opened.extractfile(member) or io.BytesIO()).read()


def kind(name: str) -> type[Any]:
    """Return the class of a kind."""
    return type(source_of(name))


class TestHttp(SourceContract):
    plugin = kind("http")
    schema_checked = True
    good_parameters = ({"url": "https://example.com/bundle.tgz"}, {"url": "https://example.com/a.yaml"})
    bad_parameters = (({"url": "ftp://example.com/a"}, f"{PATH}.url"), ({"url": "https://a/b", "sha256": "x"}, PATH))
    same = (({"url": "https://EXAMPLE.com:443/a"}, {"url": "https://example.com/a"}),)
    different = (({"url": "https://example.com/a"}, {"url": "https://example.com/b"}),)

    @pytest.fixture
    def site(self, certificates: Path) -> Iterator[Site]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
        with FaultyServer(context) as server:
            server.add("/bundle", packed(FILES), authorization="Basic cm9ib3Q6c2VjcmV0")
            authorized: dict[str, Any] = {"authorization": "Basic cm9ib3Q6c2VjcmV0"}
            replace = partial(server.add, "/bundle", packed(OTHERS), **authorized)
            yield Site(
                parameters={
                    "url": f"{server.address}/bundle",
                    "certificateData": (certificates / "ca.crt").read_text(),
                },
                files=FILES,
                change=replace,
                lie=replace,
                go_away=server.files.clear,
                hang=lambda: server.add("/bundle", bytes(10**6), trickle=True, **authorized),
                credentials=Credentials(username="robot", password="secret"),
                is_protected=True,
                public={"url": "https://files.example.com/bundle"},
            )


class TestConfigMap(SourceContract):
    plugin = kind("configMap")
    schema_checked = True
    good_parameters = ({"name": "bundle"}, {"names": ["a", "b"]})
    bad_parameters = (({"names": ["a", "a"]}, f"{PATH}.names"),)
    same = (({"name": "a"}, {"names": ["a"]}),)
    different = (({"name": "a"}, {"name": "b"}),)

    @pytest.fixture
    def site(self) -> Site:
        held = {"bundle": {path.rpartition("/")[2]: data for path, data in FILES.items()}}

        def read(name: str) -> LocalContent:
            if name not in held:
                raise BundleError(Reason.NOT_FOUND, f'{PATH}.name: ConfigMap "{name}" does not exist')
            return LocalContent(files=held[name])

        return Site(
            parameters={"name": "bundle"},
            files=held["bundle"],
            change=lambda: held.update(bundle={"a.yaml": b"a: 2\n"}),
            lie=lambda: held.update(bundle={"a.yaml": b"a: 3\n"}),
            go_away=held.clear,
            config_map=read,
            is_remote=False,
        )


class TestImage(SourceContract):
    plugin = kind("image")
    schema_checked = True
    good_parameters = ({"ref": "registry.example.com/a:v1"},)
    bad_parameters = (({"ref": "UPPER/a b"}, f"{PATH}.ref"), ({"ref": "a.b/c:v1", "platform": "x"}, PATH))
    same = (({"ref": "docker.io/library/a:v1"}, {"ref": "a:v1"}),)
    different = (({"ref": "a.example.com/b:v1"}, {"ref": "a.example.com/b:v2"}),)

    @pytest.fixture
    def site(self) -> Iterator[Site]:
        with FaultyRegistry() as server:
            server.add_image("v1", tarball(*FILES.items()))

            def lie() -> None:
                server.blobs.update(dict.fromkeys(server.blobs, packed(OTHERS)))

            def go_away() -> None:
                server.manifests.clear()
                server.blobs.clear()

            yield Site(
                parameters={"ref": f"{server.host}/bundle:v1"},
                files=FILES,
                change=lambda: server.add_image("v1", tarball(*OTHERS.items())),
                lie=lie,
                go_away=go_away,
                public={"ref": "registry.example.com/bundle:v1"},
            )


class TestGit(SourceContract):
    plugin = kind("git")
    schema_checked = True
    good_parameters = ({"repository": "https://example.com/a.git", "ref": "main"},)
    bad_parameters = (({"repository": "file:///a", "ref": "main"}, f"{PATH}.repository"),)
    different = (({"repository": "https://a/b", "ref": "main"}, {"repository": "https://a/b", "ref": "v1"}),)

    @pytest.fixture
    def site(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        root = tmp_path_factory.mktemp("git")
        repository = GitRepository(root / "repo.git")
        repository.commit({name: FILES[name] for name in FILES})
        with GitHttpServer(root) as server:

            def go_away() -> None:
                server.faults.status = 404

            def hang() -> None:
                server.faults.silent = True

            yield Site(
                parameters={"repository": f"{server.url}/repo.git", "ref": "main"},
                files=FILES,
                change=lambda: repository.commit({name: OTHERS[name] for name in OTHERS}),
                go_away=go_away,
                hang=hang,
                public={"repository": "https://forge.example.com/repo.git", "ref": "main"},
            )


class TestChart(SourceContract):
    plugin = kind("chart")
    schema_checked = True
    good_parameters = ({"repository": "https://example.com/charts", "name": "shop", "version": "1.x"},)
    bad_parameters = (({"repository": "ftp://a/b", "name": "shop"}, f"{PATH}.repository"),)
    different = (
        ({"repository": "https://a/b", "name": "shop"}, {"repository": "https://a/b", "name": "shops"}),
        ({"repository": "https://a/b", "name": "shop"}, {"repository": "https://a/c", "name": "shop"}),
    )

    @pytest.fixture
    def site(self) -> Iterator[Site]:
        with FaultyServer() as server:
            put = partial(_publish, server)
            put("1.0.0")
            put_lie = partial(server.add, "/charts/shop-1.0.0.tgz", packed_chart("shop", "1.0.0", more="home: a\n"))
            yield Site(
                parameters={"repository": f"{server.address}/charts", "name": "shop", "version": "1.x"},
                files=dict(files_in(CHART)),
                change=lambda: put("1.0.0", "1.1.0"),
                lie=put_lie,
                go_away=server.files.clear,
                hang=lambda: server.add("/charts/index.yaml", bytes(10**6), trickle=True),
                public={"repository": "https://charts.example.com/stable", "name": "shop"},
            )


def _publish(server: FaultyServer, *versions: str) -> None:
    for path, body in repository_of("shop", *versions, folder="/charts").items():
        server.add(path, body, tag=f'"{hash(body)}"')
