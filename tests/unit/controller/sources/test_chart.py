"""The chart source over real TLS: which version is chosen, how it is verified, who is asked for what, what is said."""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Entry, Limits, Network, RegistryCredentials, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.playground.cluster import write_certificates
from rukpak.controller.sources import chart
from rukpak.controller.sources.chart import ChartSource
from tests.support.charts import add_chart, entry_of, index_of, pack, packed_chart, repository_of
from tests.support.clock import Unwaited
from tests.support.faulty_registry import Faults, FaultyRegistry
from tests.support.web_servers import FaultyServer

PATH = "spec.sources[0].chart"
BASIC = Credentials(username="robot", password="canary-password")
AUTHORIZATION = "Basic cm9ib3Q6Y2FuYXJ5LXBhc3N3b3Jk"
VERSIONS = ("1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder


def serving(certificates: Path) -> FaultyServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    return FaultyServer(context)


@pytest.fixture
def server(certificates: Path) -> Iterator[FaultyServer]:
    with serving(certificates) as server:
        put(server, repository_of("web", *VERSIONS))
        yield server


@pytest.fixture
def other(certificates: Path) -> Iterator[FaultyServer]:
    """Another host, as far as credentials are concerned."""
    with serving(certificates) as server:
        yield server


def put(server: FaultyServer, files: Mapping[str, bytes], tag: str = '"1"', **options: object) -> None:
    for path, body in files.items():
        server.add(path, body, tag=tag if path.endswith("index.yaml") else "", **options)


class Client:
    """What a controller does with sources."""

    def __init__(self, certificates: Path, folder: Path) -> None:
        self.source, self._folder = ChartSource(), folder
        self._authority = (certificates / "ca.crt").read_text()
        self.kept: dict[str, dict[str, str]] = {}
        self._count = 0

    def parameters(self, repository: str, **more: Any) -> dict[str, Any]:
        return {"repository": repository, "name": "web", "certificateData": self._authority, **more}

    def resolve(self, parameters: Mapping[str, Any], **options: Any) -> Resolution:
        assert not self.source.validate(parameters, PATH)

        def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
            self.kept[resolution.digest] = self._write(entries)

        return self.source.resolve(parameters, self._access(keep=keep, **options))

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, **options: Any) -> dict[str, str]:
        return self._write(self.source.fetch(parameters, resolution, self._access(**options)))

    def _access(self, **options: Any) -> Access:
        deadline = time.monotonic() + 250
        return Access(path=PATH, deadline=deadline, cancelled=Unwaited(), scratch=self._new_folder(), **options)

    def _write(self, entries: Iterator[Entry]) -> dict[str, str]:
        folder = self._new_folder()
        write_entries(entries, folder, Limits(), PATH)
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder


@pytest.fixture
def client(certificates: Path, tmp_path: Path) -> Client:
    return Client(certificates, tmp_path)


def failure(call: Callable[[], object], reason: Reason) -> str:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.reason is reason, caught.value.message
    assert caught.value.message.startswith(PATH)
    assert "canary" not in caught.value.message
    return caught.value.message


def paths(server: FaultyServer) -> list[str]:
    return [seen.path for seen in server.requests]


def test_the_source_is_found_by_its_kind() -> None:
    (found,) = entry_points(group="rukpak.sources", name="chart")
    assert found.load() is ChartSource


# versions


CHOSEN = {
    "": "1.10.0",
    "1.2.0": "1.2.0",
    "v1.2.0": "1.2.0",
    "~1.0": "1.0.0",
    ">=1 <2": "1.10.0",
    ">=2.0.0-0": "2.0.0-rc.1",
    "2.0.0-rc.1": "2.0.0-rc.1",
}


@pytest.mark.parametrize("version", CHOSEN)
def test_a_version_is_pinned_by_the_digest_in_the_index(version: str, server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(server.address, version=version)
    found = client.resolve(parameters)
    archive = server.files[f"/web-{CHOSEN[version]}.tgz"].body
    digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    assert (found.pinned, found.digest) == (f"{server.address}/web:{CHOSEN[version]}@{digest}", digest)
    assert found.version == ("" if version.removeprefix("v") == CHOSEN[version] else CHOSEN[version])
    assert paths(server) == ["/index.yaml"]


def test_the_content_is_the_directory_of_the_chart(server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(server.address + "/", version="1.0.0")
    files = client.fetch(parameters, client.resolve(parameters))
    assert sorted(files) == ["Chart.yaml", "templates/settings.yaml"]
    assert "version: 1.0.0\n" in files["Chart.yaml"]
    assert paths(server) == ["/index.yaml", "/web-1.0.0.tgz"]


def test_a_version_with_build_metadata_is_found_by_its_name(server: FaultyServer, client: Client) -> None:
    put(server, repository_of("web", "1.0.0+b.2", "1.0.0+b.1"))
    assert ":1.0.0+b.1@" in client.resolve(client.parameters(server.address, version="1.0.0+b.1")).pinned


LACKING = {
    ">=3": 'no version in the range ">=3"; the nearest are "2.0.0-rc.1", "1.10.0", "1.2.0"',
    "1.3.0": 'no version "1.3.0"; the nearest are "2.0.0-rc.1", "1.10.0", "1.2.0"',
}


@pytest.mark.parametrize("version", LACKING)
def test_what_is_near_is_named(version: str, server: FaultyServer, client: Client) -> None:
    message = failure(lambda: client.resolve(client.parameters(server.address, version=version)), Reason.NOT_FOUND)
    problem = f'{PATH}.version: chart "web" has {LACKING[version]}; correct it, or publish a version'
    assert message == problem


def test_a_chart_with_pre_releases_only(server: FaultyServer, client: Client) -> None:
    put(server, repository_of("web", "1.0.0-rc.1"))
    message = failure(lambda: client.resolve(client.parameters(server.address)), Reason.NOT_FOUND)
    assert 'chart "web" has no version that is not a pre-release; the nearest are "1.0.0-rc.1"' in message


def test_similar_names_are_named(server: FaultyServer, client: Client) -> None:
    message = failure(lambda: client.resolve(client.parameters(server.address, name="wbe")), Reason.NOT_FOUND)
    problem = f'{PATH}.name: the repository has no chart "wbe"; similar names are "web"; correct it'
    assert message == f"{problem}, or publish the chart"
    message = failure(lambda: client.resolve(client.parameters(server.address, name="database")), Reason.NOT_FOUND)
    assert message == f'{PATH}.name: the repository has no chart "database"; correct it, or publish the chart'


@pytest.fixture
def registry(certificates: Path) -> Iterator[FaultyRegistry]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    with FaultyRegistry(context) as registry:
        yield registry


def in_registry(server: FaultyServer, registry: FaultyRegistry, **fields: Any) -> str:
    """Have an index lead to a chart in a registry, as Bitnami's does; return its digest."""
    archive = packed_chart("web", "1.0.0")
    urls = [f"oci://{registry.host}/charts/web:1.0.0"]
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", archive, urls=urls, **fields)])})
    return add_chart(registry, "web", "1.0.0", archive)


def test_an_index_may_lead_to_a_registry_which_gets_no_credentials(
    server: FaultyServer, registry: FaultyRegistry, client: Client
) -> None:
    digest = in_registry(server, registry)
    wanted = client.parameters(server.address, version="1.0.0")
    resolution = client.resolve(wanted, credentials=BASIC)
    assert resolution.digest == digest
    assert "Chart.yaml" in client.fetch(wanted, resolution, credentials=BASIC)
    assert all("Authorization" not in headers for _, _, headers in registry.requests)


def test_a_registry_of_an_index_that_cannot_be_used_is_told_with_the_way_that_works(
    server: FaultyServer, registry: FaultyRegistry, client: Client
) -> None:
    in_registry(server, registry)
    wanted = client.parameters(server.address, version="1.0.0")
    resolution = client.resolve(wanted)
    messages = set()
    for status in (401, 403, 404, 500):
        registry.faults = Faults(where="/blobs/", status=status)
        messages.add(failure(lambda: client.fetch(wanted, resolution), Reason.UNREACHABLE))
    [message] = messages  # nothing about the registry, which the index may name to find out what is there
    assert message.endswith(
        f'set repository to "oci://{registry.host}/charts" to read it there, with auth if it requires some'
    )


def test_what_a_registry_of_an_index_has_is_verified(
    server: FaultyServer, registry: FaultyRegistry, client: Client
) -> None:
    digest = in_registry(server, registry)
    wanted = client.parameters(server.address, version="1.0.0")
    resolution = client.resolve(wanted)
    registry.blobs[digest] = packed_chart("web", "6.6.6")
    message = failure(lambda: client.fetch(wanted, resolution), Reason.UNREACHABLE)
    assert "in a registry, which cannot be used" in message  # nor whether it has other content
    urls = [f"oci://{registry.host}/charts/web:1.0.0"]
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", None, urls=urls)])}, tag='"2"')
    failure(lambda: client.resolve(wanted), Reason.UNREACHABLE)


INVALID = [
    ({"repository": "charts.example.com"}, 'repository: "charts.example.com" is not a URL like https://host/path'),
    ({"repository": "https://me:canary@example.com"}, "repository: the URL must not contain a user or a password"),
    ({"repository": "oci://me:canary@example.com/charts"}, "repository: the URL must not contain a user or a password"),
    ({"repository": "oci://example.com/charts:v1"}, 'repository: "oci://example.com/charts:v1" must not contain a tag'),
    ({"repository": "oci://charts/web"}, 'repository: "oci://charts/web" has no registry; use oci://host/folder'),
    ({"repository": "oci://example.com/Charts"}, 'repository: "oci://example.com/Charts" has a repository with other'),
    ({"version": ">>1"}, 'version: ">>1" is not a range of versions'),
    ({"sha256": "abc"}, 'sha256: "abc" is not 64 hexadecimal digits'),
    ({"certificateData": "abc"}, "certificateData: not a bundle of PEM certificates"),
]


@pytest.mark.parametrize(("change", "problem"), INVALID, ids=[str(change) for change, _ in INVALID])
def test_parameters_that_are_wrong(change: dict[str, str], problem: str) -> None:
    parameters = {"repository": "https://charts.example.com", "name": "web", **change}
    (found,) = ChartSource().validate(parameters, PATH)
    assert found.startswith(f"{PATH}.{problem}")
    assert "canary" not in found


def test_what_identifies_a_chart(certificates: Path) -> None:
    source, usual = ChartSource(), {"repository": "https://charts.example.com", "name": "web"}
    assert source.identity(usual) == source.identity({**usual, "repository": "https://CHARTS.example.com:443/"})
    oci = {**usual, "repository": "oci://index.docker.io/charts/"}
    assert source.identity(oci)["repository"] == source.origin(oci) == "oci://docker.io/charts/web"
    for change in ({"name": "x"}, {"version": "1.x"}, {"sha256": "a" * 64}, {"repository": "https://example.com"}):
        assert source.identity(usual) != source.identity({**usual, **change})


# digests


def test_a_chart_without_a_digest_in_the_index_is_read_at_once(server: FaultyServer, client: Client) -> None:
    archive = packed_chart("web", "1.0.0")
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", None)])})
    server.add("/web-1.0.0.tgz", archive, tag='"a"')
    parameters = client.parameters(server.address, version="1.x")
    found = client.resolve(parameters)
    assert found.digest == f"sha256:{hashlib.sha256(archive).hexdigest()}"
    assert sorted(client.kept[found.digest]) == ["Chart.yaml", "templates/settings.yaml"]
    assert client.resolve(parameters, previous=found) is found
    assert server.sent("If-None-Match") == [None, None, '"1"', '"a"']
    assert client.fetch(parameters, found) == client.kept[found.digest]


def test_a_new_version_without_a_digest_is_not_asked_for_by_the_tag_of_the_old_one(
    server: FaultyServer, client: Client
) -> None:
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", None)])})
    server.add("/web-1.0.0.tgz", packed_chart("web", "1.0.0"), tag='"a"')
    parameters = client.parameters(server.address)
    before = client.resolve(parameters)
    put(server, {"/index.yaml": index_of([entry_of("web", "1.1.0", None)])}, tag='"2"')
    server.add("/web-1.1.0.tgz", packed_chart("web", "1.1.0"), tag='"a"')
    assert client.resolve(parameters, previous=before).version == "1.1.0"


def test_a_digest_of_the_index_with_a_prefix(server: FaultyServer, client: Client) -> None:
    archive = packed_chart("web", "1.0.0")
    digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", None, digest=digest)])})
    assert client.resolve(client.parameters(server.address)).digest == digest


def test_a_chart_that_is_not_what_the_index_says_is_not_unpacked(server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(server.address, version="1.0.0")
    found = client.resolve(parameters)
    server.files["/web-1.0.0.tgz"].body = packed_chart("web", "1.0.0", more="description: replaced\n")
    message = failure(lambda: client.fetch(parameters, found), Reason.DIGEST_MISMATCH)
    assert 'version "1.0.0" of chart "web" is not what its digest says' in message


def test_a_digest_that_is_none_is_refused(server: FaultyServer, client: Client) -> None:
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", None, digest="abc")])})
    message = failure(lambda: client.resolve(client.parameters(server.address)), Reason.CONTENT_REJECTED)
    assert 'a digest of version "1.0.0" that is not a SHA-256' in message


def test_the_digest_of_the_spec(server: FaultyServer, client: Client) -> None:
    digest = hashlib.sha256(server.files["/web-1.0.0.tgz"].body).hexdigest()
    parameters = client.parameters(server.address, version="1.0.0", sha256=digest)
    assert client.resolve(parameters).digest == f"sha256:{digest}"
    wrong = {**parameters, "sha256": "0" * 64}
    message = failure(lambda: client.resolve(wrong), Reason.DIGEST_MISMATCH)
    assert message.startswith(f'{PATH}.sha256: version "1.0.0" has another digest')
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", None)])}, tag='"2"')
    message = failure(lambda: client.fetch(wrong, client.resolve(wrong)), Reason.DIGEST_MISMATCH)
    assert message.startswith(f'{PATH}.sha256: version "1.0.0" of chart "web" does not have this digest')


def test_a_version_that_is_gone(server: FaultyServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = client.parameters(server.address, version="1.0.0")
    found = client.resolve(parameters)
    del server.files["/web-1.0.0.tgz"]
    message = failure(lambda: client.fetch(parameters, found), Reason.PINNED_CONTENT_GONE)
    assert 'does not have "/web-1.0.0.tgz"' in message
    monkeypatch.setattr(chart, "_FETCH_AGE", 0.0)
    put(server, repository_of("web", "1.2.0"), tag='"2"')
    message = failure(lambda: client.fetch(parameters, found), Reason.PINNED_CONTENT_GONE)
    assert 'the repository no longer has version "1.0.0" of chart "web"' in message


def test_a_fetch_asks_again_for_a_version_that_an_older_index_lacks(server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(server.address)
    put(server, repository_of("web", "1.11.0"))
    index = server.files["/index.yaml"].body
    put(server, repository_of("web", "1.10.0"))
    client.resolve(parameters)
    server.add("/index.yaml", index, tag='"2"')
    digest = hashlib.sha256(server.files["/web-1.11.0.tgz"].body).hexdigest()
    found = Resolution(pinned=f"{server.address}/web:1.11.0@sha256:{digest}", digest=f"sha256:{digest}")
    assert "version: 1.11.0\n" in client.fetch(parameters, found)["Chart.yaml"]


NO_CHARTS = {
    "is not a tar archive with gzip": b"hello",
    "has no Chart.yaml in its folder": pack({"web/values.yaml": b"a: 1\n"}),
}


@pytest.mark.parametrize("problem", NO_CHARTS)
def test_what_is_no_packaged_chart(problem: str, server: FaultyServer, client: Client) -> None:
    body = NO_CHARTS[problem]
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", body)]), "/web-1.0.0.tgz": body})
    parameters = client.parameters(server.address)
    message = failure(lambda: client.fetch(parameters, client.resolve(parameters)), Reason.UNSUPPORTED_CONTENT)
    assert message == f'{PATH}: the packaged chart {problem}; publish what "helm package" writes'


def test_an_attack_by_a_packaged_chart(server: FaultyServer, client: Client) -> None:
    body = pack({"web/Chart.yaml": b"a", "web/../../../etc/passwd": b"x"})
    put(server, {"/index.yaml": index_of([entry_of("web", "1.0.0", body)]), "/web-1.0.0.tgz": body})
    parameters = client.parameters(server.address)
    message = failure(lambda: client.fetch(parameters, client.resolve(parameters)), Reason.CONTENT_REJECTED)
    assert "leaves its directory" in message


# the index


def test_an_index_that_has_not_changed_is_not_sent_again(server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(server.address)
    assert client.resolve(parameters) == client.resolve(parameters)
    assert server.sent("If-None-Match") == [None, '"1"']
    put(server, repository_of("web", "3.0.0"), tag='"2"')
    assert client.resolve(parameters).version == "3.0.0"


def test_an_index_is_asked_for_by_its_date_without_a_tag(server: FaultyServer, client: Client) -> None:
    file = server.files["/index.yaml"]
    file.tag, file.modified = "", "Wed, 21 Oct 2015 07:28:00 GMT"
    parameters = client.parameters(server.address)
    assert client.resolve(parameters) == client.resolve(parameters)
    assert server.sent("If-Modified-Since") == [None, file.modified]


def test_polls_share_an_answer_that_is_young_enough(server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(server.address)
    first = client.resolve(parameters)
    put(server, repository_of("web", "3.0.0"), tag='"2"')
    assert client.resolve(parameters, previous=first, max_age=60.0) == first
    assert len(server.requests) == 1
    assert client.resolve(parameters).version == "3.0.0"


BAD_INDEXES = {
    b"<!doctype html><title>Log in</title>": "is not an index of charts: it is a web page",
    b"entries: [}": "is not an index of charts: line 1 is not YAML: did not find expected node content",
    b"hello: world": 'is not an index of charts: it has no "entries"',
}


@pytest.mark.parametrize("body", BAD_INDEXES)
def test_what_is_no_index(body: bytes, server: FaultyServer, client: Client) -> None:
    put(server, {"/index.yaml": body})
    message = failure(lambda: client.resolve(client.parameters(server.address)), Reason.UNSUPPORTED_CONTENT)
    assert f'{PATH}.repository: index.yaml at "{server.host}" {BAD_INDEXES[body]}' in message


def test_an_index_that_is_too_large(server: FaultyServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "INDEX_BYTES", 1000)
    put(server, {"/index.yaml": b"a" * 1001})
    message = failure(lambda: client.resolve(client.parameters(server.address)), Reason.CONTENT_REJECTED)
    assert "exceeds the limit of 1000 bytes" in message


def test_values_in_an_index_that_are_too_large(server: FaultyServer, client: Client) -> None:
    put(server, {"/index.yaml": b"entries: {web: [{version: '" + b"1" * (2 << 20) + b"'}]}"})
    message = failure(lambda: client.resolve(client.parameters(server.address)), Reason.CONTENT_REJECTED)
    assert "is too large: a value exceeds the limit of 1 MiB" in message


def test_an_address_without_an_index(server: FaultyServer, client: Client) -> None:
    message = failure(lambda: client.resolve(client.parameters(server.address + "/charts")), Reason.NOT_FOUND)
    problem = f'{PATH}.repository: "{server.host}" does not have "/charts/index.yaml"; correct repository'
    assert message == f"{problem}, which must contain that file"


def test_an_index_that_is_cut_in_the_middle_is_resumed(server: FaultyServer, client: Client) -> None:
    server.files["/index.yaml"].cuts = [100]
    assert client.resolve(client.parameters(server.address)).version == "1.10.0"
    assert len(server.requests) == 2


# addresses and credentials


def serve_privately(server: FaultyServer, *urls: str) -> None:
    archive = packed_chart("web", "1.0.0")
    index = index_of([entry_of("web", "1.0.0", archive, urls=list(urls))])
    server.add("/private/index.yaml", index, authorization=AUTHORIZATION)
    server.add("/private/web-1.0.0.tgz", archive, authorization=AUTHORIZATION)
    server.add("/web-1.0.0.tgz", archive, authorization=AUTHORIZATION)


RELATIVE = {
    "web-1.0.0.tgz": "/private/web-1.0.0.tgz",
    "./web-1.0.0.tgz": "/private/web-1.0.0.tgz",
    "/web-1.0.0.tgz": "/web-1.0.0.tgz",
    "../web-1.0.0.tgz": "/web-1.0.0.tgz",
    "{server}/web-1.0.0.tgz": "/web-1.0.0.tgz",
}


@pytest.mark.parametrize("url", RELATIVE)
def test_the_host_of_the_repository_gets_the_credentials(url: str, server: FaultyServer, client: Client) -> None:
    serve_privately(server, url.format(server=server.address))
    parameters = client.parameters(f"{server.address}/private", version="1.0.0")
    client.fetch(parameters, client.resolve(parameters, credentials=BASIC), credentials=BASIC)
    assert paths(server) == ["/private/index.yaml", RELATIVE[url]]


def test_a_query_of_the_repository_is_for_relative_addresses_too(server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(f"{server.address}/?token=canary", version="1.0.0")
    found = client.resolve(parameters)
    assert found.pinned == f"{server.address}/web:1.0.0@{found.digest}"
    client.fetch(parameters, found)
    assert paths(server) == ["/index.yaml?token=canary", "/web-1.0.0.tgz?token=canary"]


def test_another_host_gets_no_credentials(server: FaultyServer, other: FaultyServer, client: Client) -> None:
    serve_privately(server, f"{other.address}/web-1.0.0.tgz")
    other.add("/web-1.0.0.tgz", packed_chart("web", "1.0.0"))
    parameters = client.parameters(f"{server.address}/private")
    found = client.resolve(parameters, credentials=BASIC)
    assert "version: 1.0.0\n" in client.fetch(parameters, found, credentials=BASIC)["Chart.yaml"]
    assert other.sent("Authorization") == [None]


def stored(_: Resolution) -> bool:
    return True


def check_stored(server: FaultyServer, client: Client, who: Credentials | None = BASIC, **options: Any) -> list[str]:
    """Resolve a chart that is stored already; return how its file is asked for."""
    client.resolve(client.parameters(server.address, version="1.0.0"), credentials=who, is_stored=stored, **options)
    return [seen.method for seen in server.requests if seen.path == "/web-1.0.0.tgz"]


def test_a_stored_chart_behind_a_password_is_asked_for_although_the_index_is_public(
    server: FaultyServer, client: Client
) -> None:
    server.files["/web-1.0.0.tgz"].authorization = AUTHORIZATION
    assert check_stored(server, client) == ["HEAD"]
    wrong = Credentials(username="robot", password="canary-guessed")
    message = failure(lambda: check_stored(server, client, wrong), Reason.UNAUTHORIZED)
    assert message == f'{PATH}.repository: "{server.host}" denies access to "/web-1.0.0.tgz"; check auth'


def test_calls_share_that_a_stored_chart_may_be_read_with_their_credentials_only(
    server: FaultyServer, client: Client
) -> None:
    server.files["/web-1.0.0.tgz"].authorization = AUTHORIZATION
    check_stored(server, client)
    assert check_stored(server, client, max_age=60.0) == ["HEAD"]
    failure(lambda: check_stored(server, client, Credentials(username="robot", password="b")), Reason.UNAUTHORIZED)
    assert check_stored(server, client, max_age=0.0) == ["HEAD"] * 3


TRIES = {403: 1, 404: 1, 405: 1, 501: 3}


@pytest.mark.parametrize("status", TRIES)
def test_where_head_is_refused_the_stored_chart_is_asked_for_by_get(
    status: int, server: FaultyServer, client: Client
) -> None:
    file = server.files["/web-1.0.0.tgz"]
    file.status, file.times = status, TRIES[status]
    assert check_stored(server, client) == [*["HEAD"] * TRIES[status], "GET"]


@pytest.mark.parametrize("status", [403, 404])
def test_a_stored_chart_that_may_not_be_read_is_refused(status: int, server: FaultyServer, client: Client) -> None:
    server.files["/web-1.0.0.tgz"].status = status
    reason = {403: Reason.UNAUTHORIZED, 404: Reason.NOT_FOUND}[status]
    failure(lambda: check_stored(server, client), reason)


def test_a_stored_chart_is_not_asked_for_without_credentials_or_when_it_is_known(
    server: FaultyServer, client: Client
) -> None:
    assert check_stored(server, client, None) == []
    known = client.resolve(client.parameters(server.address, version="1.0.0"))
    assert check_stored(server, client, previous=known) == []


def test_of_another_host_only_what_the_repository_has_told_is_said(
    server: FaultyServer, other: FaultyServer, client: Client
) -> None:
    serve_privately(server, f"{other.address}/web-1.0.0.tgz")
    parameters = client.parameters(f"{server.address}/private")
    found = client.resolve(parameters, credentials=BASIC)
    message = failure(lambda: client.fetch(parameters, found, credentials=BASIC), Reason.UNREACHABLE)
    assert f'index.yaml at "{server.host}" names another host, "{other.host}", which cannot be used' in message
    assert "credentials are sent to the repository only; set passCredentials" in message


def fetch_with_credentials(client: Client, repository: str, **options: Any) -> dict[str, str]:
    parameters = client.parameters(repository, passCredentials=True)
    return client.fetch(
        parameters, client.resolve(parameters, credentials=BASIC, **options), credentials=BASIC, **options
    )


@pytest.mark.parametrize("allowed", ["", "named"])
def test_another_host_gets_the_credentials_if_the_spec_says_so(
    allowed: str, server: FaultyServer, other: FaultyServer, client: Client
) -> None:
    serve_privately(server, f"{other.address}/web-1.0.0.tgz")
    other.add("/web-1.0.0.tgz", packed_chart("web", "1.0.0"), authorization=AUTHORIZATION)
    network = Network(allowed_hosts=(server.host, other.host) if allowed else ())
    assert "Chart.yaml" in fetch_with_credentials(client, f"{server.address}/private", network=network)
    assert other.sent("Authorization") == [AUTHORIZATION]


def test_another_host_that_is_not_allowed_gets_no_credentials(
    server: FaultyServer, other: FaultyServer, client: Client
) -> None:
    serve_privately(server, f"{other.address}/web-1.0.0.tgz")
    network = Network(allowed_hosts=(server.host,))
    fetching = lambda: fetch_with_credentials(client, f"{server.address}/private", network=network)  # noqa: E731
    message = failure(fetching, Reason.INSECURE_REFUSED)
    assert f'passCredentials: host "{other.host}" is not in --allowed-hosts' in message
    assert other.requests == []


@pytest.mark.parametrize("status", [200, 401, 404, 503])
def test_attack_whatever_another_host_says_to_the_credentials_looks_the_same(
    status: int, server: FaultyServer, other: FaultyServer, client: Client
) -> None:
    serve_privately(server, f"{other.address}/web-1.0.0.tgz")
    other.add("/web-1.0.0.tgz", b"<html>", status=status)
    message = failure(lambda: fetch_with_credentials(client, f"{server.address}/private"), Reason.UNREACHABLE)
    assert message.endswith(f'names another host, "{other.host}", which cannot be used; check that host and auth')


def test_attack_a_redirect_of_another_host_gets_no_credentials(
    server: FaultyServer, other: FaultyServer, certificates: Path, client: Client
) -> None:
    serve_privately(server, f"{other.address}/web-1.0.0.tgz")
    with serving(certificates) as third:
        other.add("/web-1.0.0.tgz", redirect=f"{third.address}/web-1.0.0.tgz")
        third.add("/web-1.0.0.tgz", packed_chart("web", "1.0.0"))
        assert "Chart.yaml" in fetch_with_credentials(client, f"{server.address}/private")
        assert (other.sent("Authorization"), third.sent("Authorization")) == ([AUTHORIZATION], [None])


def test_attack_an_index_of_another_host_does_not_say_who_gets_credentials(
    server: FaultyServer, other: FaultyServer, certificates: Path, client: Client
) -> None:
    with serving(certificates) as third:
        serve_privately(server, f"{third.address}/web-1.0.0.tgz")
        put(other, {"/index.yaml": server.files["/private/index.yaml"].body})
        server.add("/private/index.yaml", redirect=f"{other.address}/index.yaml")
        third.add("/web-1.0.0.tgz", packed_chart("web", "1.0.0"))
        assert "Chart.yaml" in fetch_with_credentials(client, f"{server.address}/private")
        assert third.sent("Authorization") == [None]


SAME_ORIGIN = ("https://localhost:{port}/web-1.0.0.tgz", "HTTPS://LOCALHOST:{port}/web-1.0.0.tgz")


@pytest.mark.parametrize("url", SAME_ORIGIN)
def test_the_same_host_in_another_spelling_gets_the_credentials(url: str, server: FaultyServer, client: Client) -> None:
    port = server.host.rpartition(":")[2]
    serve_privately(server, url.format(port=port))
    parameters = client.parameters(f"https://LocalHost:{port}/private")
    client.fetch(parameters, client.resolve(parameters, credentials=BASIC), credentials=BASIC)
    assert server.sent("Authorization") == [AUTHORIZATION] * 2


def test_what_another_host_says_in_place_of_the_repository_is_not_told(
    server: FaultyServer, other: FaultyServer, client: Client
) -> None:
    serve_privately(server, "https://canary.example/web-1.0.0.tgz")
    index = server.files.pop("/private/index.yaml").body
    put(other, {"/index.yaml": index})
    server.add("/private/index.yaml", redirect=f"{other.address}/index.yaml")
    message = failure(lambda: fetch_with_credentials(client, f"{server.address}/private"), Reason.UNREACHABLE)
    assert "redirects to an address that cannot be used" in message


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("./a/../web.tgz", "/web.tgz"),
        ("a b/web.tgz", "/a%20b/web.tgz"),
        ("ä/web.tgz", "/%C3%A4/web.tgz"),
        ("/web-1.0.0+b.tgz?a=%2F#f", "/web-1.0.0+b.tgz?a=%2F"),
    ],
)
def test_addresses_in_the_index_are_encoded_as_helm_does(
    url: str, path: str, server: FaultyServer, client: Client
) -> None:
    archive = packed_chart("web", "1.0.0")
    put(
        server,
        {"/index.yaml": index_of([entry_of("web", "1.0.0", archive, urls=[url])]), path.partition("?")[0]: archive},
    )
    parameters = client.parameters(server.address)
    assert "Chart.yaml" in client.fetch(parameters, client.resolve(parameters))
    assert paths(server)[-1] == path


REFUSED = [
    "http://127.0.0.1/web.tgz",
    "ftp://example.com/web.tgz",
    "https://me:canary@example.com/a.tgz",
    "https://:x/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_addresses_in_the_index_that_are_not_used(url: str, server: FaultyServer, client: Client) -> None:
    serve_privately(server, url)
    parameters = client.parameters(f"{server.address}/private")
    found = client.resolve(parameters, credentials=BASIC)
    message = failure(lambda: client.fetch(parameters, found, credentials=BASIC), Reason.INSECURE_REFUSED)
    assert 'index.yaml has an address of version "1.0.0" that is not used' in message


def test_a_version_without_an_address(server: FaultyServer, client: Client) -> None:
    serve_privately(server)
    parameters = client.parameters(f"{server.address}/private")
    found = client.resolve(parameters, credentials=BASIC)
    message = failure(lambda: client.fetch(parameters, found, credentials=BASIC), Reason.CONTENT_REJECTED)
    assert 'index.yaml has no address of version "1.0.0"' in message


def test_a_secret_of_registries_is_not_for_a_repository(server: FaultyServer, client: Client) -> None:
    login = Credentials(registries=(RegistryCredentials(registry="a", username="a", password="canary"),))
    resolve = lambda: client.resolve(client.parameters(server.address), credentials=login)  # noqa: E731
    assert failure(resolve, Reason.SECRET_INVALID).startswith(f"{PATH}.auth: the Secret has a type for registries")
    assert not server.requests


def test_credentials_are_not_sent_over_plain_http(client: Client) -> None:
    with FaultyServer() as plain:
        put(plain, repository_of("web", "1.0.0"))
        parameters = client.parameters(plain.address)
        message = failure(lambda: client.resolve(parameters, credentials=BASIC), Reason.INSECURE_REFUSED)
        assert message == f"{PATH}.auth: credentials are not sent over plain http; use https"
        assert not plain.requests
        assert client.resolve(parameters).version == "1.0.0"


def test_a_stranger_gets_nothing_that_was_asked_for_with_credentials(server: FaultyServer, client: Client) -> None:
    serve_privately(server, "web-1.0.0.tgz")
    parameters = client.parameters(f"{server.address}/private")
    client.resolve(parameters, credentials=BASIC)
    for stranger in (None, Credentials(username="robot", password="guessed"), Credentials(bearer_token="canary")):
        resolve = lambda who=stranger: client.resolve(parameters, credentials=who, max_age=1000.0)  # noqa: E731
        assert 'denies access to "/private/index.yaml"; check auth' in failure(resolve, Reason.UNAUTHORIZED)
    assert len(server.requests) == 4
    client.resolve(parameters, credentials=BASIC, max_age=1000.0)
    assert len(server.requests) == 4


def test_who_trusts_another_authority_shares_no_index(server: FaultyServer, client: Client) -> None:
    parameters = client.parameters(server.address)
    client.resolve(parameters)
    del parameters["certificateData"]
    message = failure(lambda: client.resolve(parameters, max_age=1000.0), Reason.TLS_VERIFICATION_FAILED)
    assert message.startswith(f"{PATH}.repository: ")
    client.resolve({**parameters, "insecureSkipTLSVerify": True}, max_age=1000.0)
    assert len(server.requests) == 2


def test_only_allowed_hosts_are_asked(server: FaultyServer, client: Client) -> None:
    network = Network(allowed_hosts=("charts.example.com",))
    parameters = client.parameters(server.address)
    message = failure(lambda: client.resolve(parameters, network=network), Reason.INSECURE_REFUSED)
    assert message.startswith(f"{PATH}.repository: host")
    message = failure(
        lambda: client.resolve(parameters, network=Network(allow_loopback=False)), Reason.INSECURE_REFUSED
    )
    assert "loopback" in message
    assert not server.requests
