"""The image source, archive, store and tree against real registries: from a reference to files."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Limits, Network, RegistryCredentials, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.binaries import Binaries
from tests.support.archives import Link, tarball
from tests.support.inside import ContentStore, assemble, source_of, write_entries
from tests.support.private_sources import (
    IDENTITY_TOKEN,
    PASSWORD,
    USER,
    Authority,
    GuardedRegistry,
    TokenServer,
    password_auth,
)
from tests.support.registry import LAYER, MANIFEST, Compression, LocalRegistry, compress

PATH = "spec.sources[0].image"
LOWER = {"manifests/a.yaml": b"a: 1\n", "manifests/b.yaml": b"b: 1\n"}
UPPER = {"manifests/.wh.b.yaml": b"", "manifests/c.yaml": b"c: 1\n"}
EXPECTED = {"manifests/a.yaml": "a: 1\n", "manifests/c.yaml": "c: 1\n"}
SOURCE = source_of("image")


@pytest.fixture
def repository() -> str:
    return f"image-source/{uuid.uuid4().hex[:10]}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ContentStore]:
    with ContentStore(tmp_path / "store") as store:
        yield store


def access(scratch: Path) -> Access:
    return Access(path=PATH, deadline=time.monotonic() + 60, cancelled=threading.Event(), scratch=scratch)


def resolve(ref: str, store: ContentStore) -> Resolution:
    with store.scratch() as scratch:
        return SOURCE.resolve({"ref": ref}, access(scratch))


def fetch(ref: str, resolution: Resolution, store: ContentStore, platform: str = "linux/amd64") -> Path:
    parameters = {"ref": ref, "platform": platform}

    def write(folder: Path) -> None:
        with store.scratch() as scratch:
            entries = SOURCE.fetch(parameters, resolution, access(scratch))
            write_entries(entries, folder, Limits(), PATH)

    return store.put(SOURCE.content_key(parameters, resolution), write)


def read(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.message.startswith(PATH)
    return caught.value


@pytest.mark.parametrize("docker", [False, True], ids=["OCI", "Docker"])
@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_tag_becomes_files(
    compression: Compression, docker: bool, registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    digest = registry.push_image(repository, "v1", [LOWER, UPPER], compression=compression, docker=docker)
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    assert resolution == Resolution(pinned=f"{registry.host}/{repository}@{digest}", digest=digest)
    assert read(fetch(ref, resolution, store)) == EXPECTED


def test_a_moved_tag_changes_nothing_that_is_pinned(
    registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    registry.push_image(repository, "v1", [LOWER, UPPER])
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    registry.push_image(repository, "v1", [{"moved": b""}])
    assert read(fetch(ref, resolution, store)) == EXPECTED


def test_an_index_leads_to_the_platform(registry: LocalRegistry, repository: str, store: ContentStore) -> None:
    images = {"linux/amd64": [{"amd64": b""}], "linux/arm64": [{"arm64": b""}]}
    registry.push_index(repository, "v1", images)
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    assert read(fetch(ref, resolution, store)) == {"amd64": ""}
    assert read(fetch(ref, resolution, store, "linux/arm64")) == {"arm64": ""}
    error = failure(lambda: fetch(ref, resolution, store, "linux/s390x"))
    assert error.reason is Reason.PLATFORM_NOT_FOUND


def test_two_sources_make_one_tree(
    registry: LocalRegistry, repository: str, store: ContentStore, tmp_path: Path
) -> None:
    parts = []
    for index, layer in enumerate(({"a.yaml": b"1"}, {"b.yaml": b"2"})):
        registry.push_image(repository, f"v{index}", [layer])
        ref = f"{registry.host}/{repository}:v{index}"
        parts.append((f"spec.sources[{index}]", "manifests", fetch(ref, resolve(ref, store), store)))
    assert read(assemble(parts, tmp_path / "tree").root) == {"manifests/a.yaml": "1", "manifests/b.yaml": "2"}


def test_a_digest_must_be_in_the_repository_that_is_named(
    registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    digest = registry.push_image(repository, "v1", [LOWER])
    registry.push_image(f"{repository}/other", "v1", [UPPER])
    assert resolve(f"{registry.host}/{repository}@{digest}", store).digest == digest
    error = failure(lambda: resolve(f"{registry.host}/{repository}/other@{digest}", store))
    assert error.reason is Reason.NOT_FOUND


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (":v2", 'has no tag "v2"; push it, or correct the tag'),
        ("/missing:v1", "does not exist; correct its name, or push to it"),
    ],
    ids=["a tag", "a repository"],
)
def test_what_is_not_there_is_named(
    name: str, problem: str, registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    registry.push_image(repository, "v1", [LOWER])
    error = failure(lambda: resolve(f"{registry.host}/{repository}{name}", store))
    assert error.reason is Reason.NOT_FOUND
    path = name.partition(":")[0]
    assert error.message == f'{PATH}.ref: repository "{repository}{path}" at "{registry.host}" {problem}'


def test_content_that_went_away_after_it_was_pinned(
    registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    digest = registry.push_image(repository, "v1", [LOWER])
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    registry.delete_manifest(repository, digest)
    error = failure(lambda: fetch(ref, resolution, store))
    assert error.reason is Reason.PINNED_CONTENT_GONE
    assert f'no longer has manifest "{digest}"' in error.message


def test_an_attack_leaves_nothing(
    registry: LocalRegistry, repository: str, store: ContentStore, tmp_path: Path
) -> None:
    registry.push_image(repository, "v1", [tarball(("ok", b"1"), ("l", Link("../../../../etc")), ("l/passwd", b"x"))])
    ref = f"{registry.host}/{repository}:v1"
    error = failure(lambda: fetch(ref, resolve(ref, store), store))
    assert error.reason is Reason.CONTENT_REJECTED
    assert 'entry "l" links to "../../../../etc", outside the tree' in error.message
    assert not any(path.is_file() for path in (tmp_path / "store" / "entries").rglob("*"))
    assert store.bytes_used() == 0


def test_a_registry_that_is_down_and_comes_back(
    fresh_registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    fresh_registry.push_image(repository, "v1", [LOWER, UPPER])
    ref = f"{fresh_registry.host}/{repository}:v1"
    fresh_registry.stop()
    error = failure(lambda: resolve(ref, store))
    assert error.reason is Reason.UNREACHABLE
    assert "it refuses the connection" in error.message
    fresh_registry.start()
    assert read(fetch(ref, resolve(ref, store), store)) == EXPECTED


# other artifacts than images


TITLE = "org.opencontainers.image.title"
FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"


def push_artifact(
    registry: LocalRegistry,
    repository: str,
    config: tuple[str, bytes],
    *layers: tuple[str, bytes, Mapping[str, str]],
) -> str:
    """Push what is no image: config and layers by media type; return a reference to it."""
    pushed = [
        {**registry.push_blob(repository, media_type, data).as_json(), "annotations": dict(annotations)}
        for media_type, data, annotations in layers
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": registry.push_blob(repository, *config).as_json(),
        "layers": pushed,
    }
    registry.push_manifest(repository, "v1", manifest)
    return f"{registry.host}/{repository}:v1"


def test_a_chart_as_helm_pushes_it_is_a_file(registry: LocalRegistry, repository: str, store: ContentStore) -> None:
    archive = compress(tarball(("demo/Chart.yaml", b"name: demo\nversion: 1.0.0+b1\n")), "gzip")
    config = json.dumps({"name": "demo", "version": "1.0.0+b1", "apiVersion": "v2"}).encode()
    provenance = "application/vnd.cncf.helm.chart.provenance.v1.prov"
    ref = push_artifact(registry, repository, (CHART_CONFIG, config), (CHART, archive, {}), (provenance, b"signed", {}))
    folder = fetch(ref, resolve(ref, store), store)
    assert (folder / "demo-1.0.0+b1.tgz").read_bytes() == archive
    assert (folder / "demo-1.0.0+b1.tgz.prov").read_bytes() == b"signed"


def test_files_and_a_folder_as_oras_pushes_them(registry: LocalRegistry, repository: str, store: ContentStore) -> None:
    packed = compress(tarball(("manifests", None), ("manifests/b.yaml", b"b"), ("manifests/.wh.a", b"kept")), "gzip")
    ref = push_artifact(
        registry,
        repository,
        ("application/vnd.oci.empty.v1+json", b"{}"),
        (LAYER, b"a", {TITLE: "a.yaml"}),
        ("text/plain", b"", {TITLE: "sub/empty.txt"}),
        (LAYER + "+gzip", packed, {TITLE: "manifests", "io.deis.oras.content.unpack": "true"}),
        ("application/vnd.oci.empty.v1+json", b"{}", {}),
    )
    expected = {"a.yaml": "a", "manifests/.wh.a": "kept", "manifests/b.yaml": "b", "sub/empty.txt": ""}
    assert read(fetch(ref, resolve(ref, store), store)) == expected


def test_an_archive_as_flux_pushes_it(registry: LocalRegistry, repository: str, store: ContentStore) -> None:
    archive = compress(tarball(("a.yaml", b"a")), "gzip")
    ref = push_artifact(registry, repository, ("application/vnd.cncf.flux.config.v1+json", b"{}"), (FLUX, archive, {}))
    assert read(fetch(ref, resolve(ref, store), store)) == {"a.yaml": "a"}


@pytest.mark.parametrize("title", ["../a", "/a", "a/../../b", "a\\b", "a\nb"])
def test_a_file_with_a_bad_name_is_rejected(
    title: str, registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    ref = push_artifact(registry, repository, ("application/x-test", b"{}"), (LAYER, b"a", {TITLE: title}))
    assert failure(lambda: fetch(ref, resolve(ref, store), store)).reason is Reason.CONTENT_REJECTED


# registries that want to know who asks


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def token_server(authority: Authority) -> Iterator[TokenServer]:
    with TokenServer(authority) as server:
        yield server


class Start:
    """Starts registries that serve the content of `registry`."""

    def __init__(self, folders: pytest.TempPathFactory, program: Path, registry: LocalRegistry, ca: Authority) -> None:
        self._folders, self._program, self._authority = folders, program, ca
        self._content = registry._process.log.parent / "content"

    def __call__(self, auth: Callable[[Path], dict[str, Any]]) -> GuardedRegistry:
        folder = self._folders.mktemp("registry")
        return GuardedRegistry(folder, self._program, self._content, self._authority, auth(folder))


@pytest.fixture(scope="module")
def start(
    tmp_path_factory: pytest.TempPathFactory, binaries: Binaries, registry: LocalRegistry, authority: Authority
) -> Start:
    return Start(tmp_path_factory, binaries.obtain(["registry"])["registry"], registry, authority)


@pytest.fixture(scope="module")
def by_password(start: Start) -> Iterator[GuardedRegistry]:
    with start(password_auth) as started:
        yield started


@pytest.fixture(scope="module")
def by_token(start: Start, token_server: TokenServer) -> Iterator[GuardedRegistry]:
    with start(token_server.auth) as started:
        yield started


@pytest.fixture(params=["by_password", "by_token"])
def guarded(request: pytest.FixtureRequest) -> GuardedRegistry:
    """Both kinds in turn."""
    found: GuardedRegistry = request.getfixturevalue(request.param)
    return found


class Client:
    """Resolves and fetches one reference, with credentials and trust."""

    def __init__(self, store: ContentStore, ref: str, credentials: Credentials | None, **parameters: Any) -> None:
        self._store, self._parameters, self._credentials = store, {"ref": ref, **parameters}, credentials
        self.network = Network()

    def resolve(self) -> Resolution:
        with self._store.scratch() as scratch:
            return SOURCE.resolve(self._parameters, self.access(scratch))

    def fetch(self) -> dict[str, str]:
        resolution = self.resolve()
        with self._store.scratch() as scratch:
            folder = scratch / "out"
            folder.mkdir()
            entries = SOURCE.fetch(self._parameters, resolution, self.access(scratch))
            write_entries(entries, folder, Limits(), PATH)
            return read(folder)

    def access(self, scratch: Path) -> Access:
        return replace(access(scratch), credentials=self._credentials, network=self.network)


@dataclass(frozen=True, slots=True)
class Place:
    """An image in a repository of its own, which all the registries have."""

    repository: str
    digest: str
    authority: Authority
    store: ContentStore

    def client(self, host: str, credentials: Credentials | None, **parameters: Any) -> Client:
        """Return a client for the tag, which trusts the authority of the tests unless told otherwise."""
        parameters = {"certificateData": self.authority.pem, **parameters}
        return Client(self.store, f"{host}/{self.repository}:v1", credentials, **parameters)


@pytest.fixture
def place(registry: LocalRegistry, repository: str, authority: Authority, store: ContentStore) -> Place:
    digest = registry.push_image(repository, "v1", [LOWER, UPPER])
    return Place(repository, digest, authority, store)


def entry(registry: str, password: str = PASSWORD) -> Credentials:
    return Credentials(registries=(RegistryCredentials(registry=registry, username=USER, password=password),))


OWN = Credentials(username=USER, password=PASSWORD)


@pytest.mark.parametrize("form", ["user and password", "registry", "repository", "wildcard"])
def test_credentials_in_every_form(form: str, guarded: GuardedRegistry, place: Place) -> None:
    forms = {
        "user and password": OWN,
        "registry": entry(f"https://{guarded.host}/v2/"),
        "repository": entry(f"{guarded.host}/{place.repository}"),
        "wildcard": entry(f"*.0.0.*:{guarded.host.rpartition(':')[2]}"),
    }
    client = place.client(guarded.host, forms[form])
    pinned = f"{guarded.host}/{place.repository}@{place.digest}"
    assert client.resolve() == Resolution(pinned=pinned, digest=place.digest)
    assert client.fetch() == EXPECTED


def test_the_authority_may_stand_in_the_secret(guarded: GuardedRegistry, place: Place) -> None:
    credentials = replace(OWN, certificate_authority=place.authority.pem)
    client = place.client(guarded.host, credentials, certificateData="")
    assert client.resolve().digest == place.digest


def test_the_second_of_two_sets_of_credentials_is_tried(guarded: GuardedRegistry, place: Place) -> None:
    old, new = entry(guarded.host, "old").registries, entry(guarded.host).registries
    client = place.client(guarded.host, Credentials(registries=(*old, *new)))
    assert client.fetch() == EXPECTED


def test_an_identity_token_is_exchanged(by_token: GuardedRegistry, token_server: TokenServer, place: Place) -> None:
    token = RegistryCredentials(registry=by_token.host, identity_token=IDENTITY_TOKEN)
    client = place.client(by_token.host, Credentials(registries=(token,)))
    assert client.resolve().digest == place.digest
    assert token_server.asked[-1] == f"POST repository:{place.repository}:pull"
    assert client.fetch() == EXPECTED


def test_resolving_is_one_request_and_the_login(guarded: GuardedRegistry, place: Place) -> None:
    before = len(guarded.requests)
    place.client(guarded.host, OWN).resolve()
    head = f"HEAD /v2/{place.repository}/manifests/v1"
    assert guarded.requests[before:] == [head, head]  # the challenge, the answer


def test_one_token_is_enough_for_a_whole_fetch(
    by_token: GuardedRegistry, token_server: TokenServer, place: Place
) -> None:
    before = len(token_server.asked)
    place.client(by_token.host, OWN).fetch()
    assert token_server.asked[before:] == [f"GET repository:{place.repository}:pull"] * 2  # resolve, fetch


def test_a_mirror_is_asked_instead_with_its_own_credentials(guarded: GuardedRegistry, place: Place) -> None:
    folder, name = place.repository.split("/")
    registries = entry(f"{guarded.host}/{folder}").registries
    credentials = Credentials(username="for", password="quay.io only", registries=registries)
    parameters = {"certificateData": place.authority.pem}
    client = Client(place.store, f"quay.io/{name}:v1", credentials, **parameters)
    client.network = Network(registry_mirrors={"quay.io": f"{guarded.host}/{folder}"})
    assert client.resolve() == Resolution(pinned=f"quay.io/{name}@{place.digest}", digest=place.digest)
    assert client.fetch() == EXPECTED


def test_a_mirror_on_this_machine_needs_no_tls(registry: LocalRegistry, place: Place) -> None:
    folder, name = place.repository.split("/")
    client = Client(place.store, f"quay.io/{name}:v1", OWN)  # which is for quay.io, and not sent
    client.network = Network(registry_mirrors={"quay.io": f"{registry.host}/{folder}"})
    assert client.fetch() == EXPECTED


# what is refused


WRONG = [
    ("nobody", None),
    ("a wrong password", Credentials(username=USER, password="CANARY-wrong")),
    ("credentials for another registry", entry("quay.io", "CANARY-other")),
    ("an entry without a password", Credentials(registries=(RegistryCredentials(registry="127.*.*.*", username="u"),))),
]


@pytest.mark.parametrize("credentials", [case[1] for case in WRONG], ids=[case[0] for case in WRONG])
def test_who_may_not_read(credentials: Credentials | None, guarded: GuardedRegistry, place: Place) -> None:
    error = failure(place.client(guarded.host, credentials).resolve)
    assert error.reason is Reason.UNAUTHORIZED
    assert f'{PATH}.auth: repository "{place.repository}" at "{guarded.host}" ' in error.message


@pytest.mark.parametrize("credentials", [OWN, WRONG[1][1]], ids=["right", "wrong"])
def test_nothing_that_is_secret_is_told(
    credentials: Credentials,
    guarded: GuardedRegistry,
    place: Place,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    client = place.client(guarded.host, credentials)
    client.network = Network(registry_mirrors={guarded.host: f"{guarded.host}/missing"})  # so that even the right fail
    said = "".join(traceback.format_exception(failure(client.resolve))) + repr(client.access(Path()))
    said += caplog.text + "".join(capfd.readouterr())
    encoded = base64.b64encode(f"{USER}:{credentials.password}".encode()).decode()
    assert credentials.password not in said
    assert encoded not in said


def test_the_digest_of_private_content_opens_no_door(guarded: GuardedRegistry, place: Place) -> None:
    assert place.client(guarded.host, OWN).fetch() == EXPECTED
    ref = f"{guarded.host}/{place.repository}@{place.digest}"
    stranger = Client(place.store, ref, None, certificateData=place.authority.pem)
    assert failure(stranger.resolve).reason is Reason.UNAUTHORIZED


def test_credentials_never_go_over_plain_http(registry: LocalRegistry, place: Place) -> None:
    error = failure(place.client(registry.host, OWN).resolve)
    assert error.reason is Reason.INSECURE_REFUSED
    assert error.message.startswith(f'{PATH}.auth: registry "{registry.host}" supports plain http only, over which no ')


def test_credentials_never_go_to_a_registry_that_nobody_has_verified(guarded: GuardedRegistry, place: Place) -> None:
    before = len(guarded.requests)
    error = failure(place.client(guarded.host, OWN, certificateData="", insecureSkipTLSVerify=True).resolve)
    assert error.reason is Reason.INSECURE_REFUSED
    assert f"{PATH}.auth: credentials are not sent if insecureSkipTLSVerify is set" in error.message
    assert len(guarded.requests) == before


def test_without_credentials_an_unverified_registry_may_speak_plain_http(registry: LocalRegistry, place: Place) -> None:
    client = place.client(registry.host, None, certificateData="", insecureSkipTLSVerify=True)
    assert client.fetch() == EXPECTED


@pytest.mark.parametrize("trusts", ["another authority", "the system's"])
def test_another_authority_is_not_trusted(
    trusts: str, by_password: GuardedRegistry, place: Place, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    pem = Authority.make(tmp_path / "other").pem if trusts == "another authority" else ""
    error = failure(place.client(by_password.host, OWN, certificateData=pem).resolve)
    assert error.reason is Reason.TLS_VERIFICATION_FAILED
    assert error.message.startswith(f'{PATH}.ref: cannot verify the certificate of "{by_password.host}"')
