"""Files and charts whose `verify` asks for a signature: what is asked for, what is stored, what is said."""

from __future__ import annotations

import hashlib
import shutil
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Entry, Resolution, Signer, Source, Trusted
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.cluster import write_certificates
from rukpak.controller.sources.chart import ChartSource
from rukpak.controller.sources.http import HttpSource
from tests.support import charts
from tests.support.charts import entry_of, index_of
from tests.support.cosigned import FileSigner, PrivateKey, make_bundle, make_key, make_message, pem_of, signed_bundle
from tests.support.signing import GpgHome, gpg_home, sign_chart
from tests.support.web_servers import FaultyServer

PATH, CHART_PATH = "spec.sources[0].http", "spec.sources[0].chart"
BODY = b"apiVersion: v1\nkind: ConfigMap\n"
FILE, SIGNATURE = "/a.yaml", "/a.yaml.sigstore.json"
AUTHORIZATION = "Basic cm9ib3Q6Y2FuYXJ5LXBhc3N3b3Jk"
BASIC = Credentials(username="robot", password="canary-password")


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@dataclass(slots=True, kw_only=True)
class Client:
    """Resolves one source, and records what it would store."""

    source: Source
    parameters: dict[str, Any]
    access: Access
    kept: list[str] = field(default_factory=list)

    def resolve(self, parameters: dict[str, Any] | None = None, **options: Any) -> Resolution:
        def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
            self.kept.append(resolution.digest)
            for _ in entries:
                pass

        return self.source.resolve(parameters or self.parameters, replace(self.access, keep=keep, **options))

    def refusal(self, reason: Reason, parameters: dict[str, Any] | None = None, **options: Any) -> str:
        """Check that it fails and that nothing is stored, and return the message."""
        known = list(self.kept)
        with pytest.raises(BundleError) as caught:
            self.resolve(parameters, **options)
        assert caught.value.reason is reason
        assert caught.value.message.startswith(self.access.path)
        assert self.kept == known
        return caught.value.message


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def asked(server: FaultyServer) -> list[str]:
    """Return the paths that were asked for since the last call."""
    paths = [seen.path for seen in server.requests]
    server.requests.clear()
    return paths


# http


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """A server of a file over TLS, with a certificate that others have as well."""

    server: FaultyServer
    certificates: Path
    access: Access

    def another(self) -> FaultyServer:
        return secure_server(self.certificates)

    def client(self, parameters: dict[str, Any], **options: Any) -> Client:
        authority = (self.certificates / "ca.crt").read_text()
        given = {"url": f"{self.server.address}{FILE}", "certificateData": authority, **parameters}
        return Client(source=HttpSource(), parameters=given, access=replace(self.access, **options))


def secure_server(certificates: Path) -> FaultyServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    return FaultyServer(context)


@pytest.fixture
def secured(access: Access, tmp_path: Path) -> Iterator[Secured]:
    write_certificates(tmp_path)
    with secure_server(tmp_path) as server:
        server.add(FILE, BODY)
        yield Secured(server=server, certificates=tmp_path, access=access)


@pytest.fixture
def signer() -> FileSigner:
    return FileSigner()


@pytest.fixture
def file(server: FaultyServer, signer: FileSigner, access: Access) -> Client:
    server.add(FILE, BODY, tag='"1"')
    server.add(SIGNATURE, signer.sign(BODY))
    verify = signer.verify
    return Client(source=HttpSource(), parameters={"url": f"{server.address}{FILE}", "verify": verify}, access=access)


def with_verify(client: Client, **verify: Any) -> dict[str, Any]:
    return {**client.parameters, "verify": {**client.parameters["verify"], **verify}}


def test_a_signed_file_is_stored(server: FaultyServer, signer: FileSigner, file: Client) -> None:
    resolution = file.resolve()
    assert resolution.signer == Signer(by="cosign", key=signer.name)
    assert file.kept == [resolution.digest] == [digest(BODY)]
    assert asked(server) == [SIGNATURE, FILE]


def test_a_file_without_a_signature_is_not_even_downloaded(server: FaultyServer, file: Client) -> None:
    del server.files[SIGNATURE]
    message = file.refusal(Reason.VERIFICATION_FAILED)
    assert message.startswith(f"{PATH}.verify: ")
    assert message.endswith(f'does not have "{SIGNATURE}"; publish the signature there, or set signatureURL')
    assert asked(server) == [SIGNATURE]


def test_a_file_that_was_changed_is_not_stored(server: FaultyServer, file: Client) -> None:
    server.add(FILE, BODY + b"# changed\n")
    assert "another digest" in file.refusal(Reason.VERIFICATION_FAILED)


def test_a_signature_by_another_key(server: FaultyServer, file: Client) -> None:
    server.add(SIGNATURE, FileSigner().sign(BODY))
    assert "none of the keys has made the signature" in file.refusal(Reason.VERIFICATION_FAILED)


def test_a_signature_that_is_too_large(server: FaultyServer, file: Client) -> None:
    server.add(SIGNATURE, bytes(1 << 16), endless=True)
    assert "exceeds the limit of 1 MiB" in file.refusal(Reason.VERIFICATION_FAILED)


def test_a_server_that_does_not_answer_for_the_signature(server: FaultyServer, file: Client) -> None:
    server.add(SIGNATURE, status=500)
    file.access = replace(file.access, deadline=file.access.deadline - 17)
    assert "check the address and the network" in file.refusal(Reason.VERIFICATION_UNAVAILABLE)


def test_the_query_of_a_url_is_that_of_its_signature_too(server: FaultyServer, file: Client) -> None:
    file.resolve({**file.parameters, "url": f"{server.address}{FILE}?token=x"})
    assert asked(server) == [f"{SIGNATURE}?token=x", f"{FILE}?token=x"]


def test_a_signature_elsewhere_is_asked_for_without_credentials(secured: Secured, signer: FileSigner) -> None:
    with secured.another() as other:
        other.add("/signatures/a", signer.sign(BODY))
        verify = {**signer.verify, "signatureURL": f"{other.address}/signatures/a"}
        assert secured.client({"verify": verify}, credentials=BASIC).resolve().signer
        assert other.sent("Authorization") == [None]
        assert secured.server.sent("Authorization") == [AUTHORIZATION]


def test_a_signature_beside_the_file_is_asked_for_with_its_credentials(secured: Secured, signer: FileSigner) -> None:
    secured.server.add(SIGNATURE, signer.sign(BODY))
    client = secured.client({"verify": signer.verify}, credentials=BASIC)
    assert client.resolve().signer
    assert secured.server.sent("Authorization") == [AUTHORIZATION, AUTHORIZATION]


def test_a_url_of_a_signature_with_a_password(file: Client) -> None:
    assert HttpSource().validate(with_verify(file, signatureURL="https://u:canary@a/b"), "x") == [
        "x.verify.signatureURL: the URL must not contain a user or a password; use a Secret in auth"
    ]


def test_with_a_sha256_the_file_is_read_to_check_it(server: FaultyServer, file: Client) -> None:
    parameters = {**file.parameters, "sha256": digest(BODY).removeprefix("sha256:")}
    assert file.resolve(parameters).signer
    assert asked(server) == [SIGNATURE, FILE]
    message = file.refusal(Reason.DIGEST_MISMATCH, {**file.parameters, "sha256": "0" * 64})
    assert message.startswith(f"{PATH}.sha256: ")


def test_a_poll_asks_for_a_signature_only_if_the_file_has_changed(
    server: FaultyServer, signer: FileSigner, file: Client
) -> None:
    first = file.resolve()
    asked(server)
    assert file.resolve(previous=first) is first
    assert asked(server) == [FILE]
    server.add(FILE, BODY * 2, tag='"2"')
    assert "another digest" in file.refusal(Reason.VERIFICATION_FAILED, previous=first)
    server.add(SIGNATURE, signer.sign(BODY * 2))
    asked(server)
    assert file.resolve(previous=first).digest == digest(BODY * 2)
    assert asked(server) == [FILE, SIGNATURE, FILE]


def test_a_poll_with_other_keys_reads_the_same_file_again(server: FaultyServer, file: Client) -> None:
    first = file.resolve()
    asked(server)
    assert file.resolve(previous=replace(first, signer=None)) == first
    assert asked(server) == [SIGNATURE, FILE]


def test_with_another_verify_the_recorded_file_is_checked(
    server: FaultyServer, signer: FileSigner, file: Client
) -> None:
    recorded = Resolution(pinned="as recorded", digest=digest(BODY))
    resolution = file.resolve(pinned=recorded)
    assert (resolution.pinned, resolution.signer is not None) == ("as recorded", True)
    server.add(FILE, BODY * 2)
    server.add(SIGNATURE, signer.sign(BODY * 2))
    assert "has changed since it was resolved" in file.refusal(Reason.DIGEST_MISMATCH, pinned=recorded)


def test_a_signed_file_that_another_host_sends(secured: Secured, signer: FileSigner) -> None:
    """As for releases of GitHub. What is wrong there is not told."""
    client = secured.client({"verify": signer.verify})
    with secured.another() as other:
        other.add("/stored", BODY)
        secured.server.add(FILE, redirect=f"{other.address}/stored")
        secured.server.add(SIGNATURE, signer.sign(BODY))
        assert client.resolve().signer
        other.add("/signature", signer.sign(BODY))
        secured.server.add(SIGNATURE, redirect=f"{other.address}/signature")
        assert client.resolve().signer
        secured.server.add(FILE, BODY)
        other.add("/signature", signer.sign(b"something else"))
        assert "another digest" in client.refusal(Reason.VERIFICATION_FAILED)
        secured.server.add(FILE, redirect=f"{other.address}/stored")
        assert "redirects to an address that cannot be used" in client.refusal(Reason.UNREACHABLE)


# http, cosign


BUNDLE = "/a.yaml.sigstore.json"


def bundle_of(key: PrivateKey, content: bytes) -> bytes:
    return make_bundle(messageSignature=make_message(key, digest(content)))


@pytest.fixture
def key() -> PrivateKey:
    return make_key()


@pytest.fixture
def bundled(server: FaultyServer, key: PrivateKey, access: Access) -> Client:
    server.add(FILE, BODY, tag='"1"')
    server.add(BUNDLE, bundle_of(key, BODY))
    trusted = Trusted(data={".cosign.keys[0].secret": {"cosign.pub": pem_of(key).encode()}})
    verify = {"cosign": {"keys": [{"secret": {"name": "keys"}}]}}
    parameters = {"url": f"{server.address}{FILE}", "verify": verify}
    return Client(source=HttpSource(), parameters=parameters, access=replace(access, trusted=trusted))


def test_a_file_with_a_bundle_is_stored(server: FaultyServer, bundled: Client) -> None:
    resolution = bundled.resolve()
    assert resolution.signer is not None
    assert (resolution.signer.by, bundled.kept) == ("cosign", [digest(BODY)])
    assert asked(server) == [BUNDLE, FILE]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda key: bundle_of(key, b"something else"), "another digest"),
        (lambda _: bundle_of(make_key(), BODY), "none of the keys has made the signature"),
        (
            lambda key: signed_bundle(key, digest(BODY), "https://slsa.dev/provenance/v1"),
            "it is an attestation, not a signature",
        ),
        (lambda _: b"<!doctype html>", "it is not a Sigstore bundle"),
        (lambda _: b"[" * 100_000, "it is not a Sigstore bundle"),
        (lambda _: b'{"mediaType": "x"}', "it is not a Sigstore bundle"),
    ],
    ids=["of something else", "by another key", "an attestation", "a web page", "nested", "another document"],
)
def test_a_bundle_that_is_not_accepted(
    server: FaultyServer, key: PrivateKey, bundled: Client, make: Callable[[PrivateKey], bytes], problem: str
) -> None:
    server.add(BUNDLE, make(key))
    message = bundled.refusal(Reason.VERIFICATION_FAILED)
    assert message.startswith(f"{PATH}.verify: ")
    assert problem in message


def test_a_secret_without_public_keys(bundled: Client) -> None:
    empty = Trusted(data={".cosign.keys[0].secret": {"cosign.key": b"x"}})
    message = bundled.refusal(Reason.INVALID_VERIFICATION, trusted=empty)
    assert message.startswith(f"{PATH}.verify.cosign.keys[0].secret: the Secret has no key")


def test_a_file_has_no_attestations(bundled: Client) -> None:
    parameters = with_verify(bundled, cosign={"keys": [], "attestation": "https://slsa.dev/provenance/v1"})
    assert HttpSource().validate(parameters, "x") == [
        "x.verify.cosign.attestation: must not be set: a file has a signature only; remove it"
    ]


# charts, provenance


@pytest.fixture(scope="module")
def gpg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpgHome]:
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as home:
        home.make_key("rsa2048")
        yield home


@dataclass(slots=True, kw_only=True)
class Repository:
    """A repository of charts that Helm has signed."""

    server: FaultyServer
    gpg: GpgHome
    folder: Path
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    def publish(self, version: str, *, has_digest: bool = True) -> bytes:
        """Add a version of the chart c, signed; return the archive."""
        files = {path: data.replace(b"1.0.0", version.encode()) for path, data in charts.chart_of({}).items()}
        packaged = sign_chart(self.gpg, charts.write(self.folder / f"chart-{version}", files) / "c")
        archive, provenance = packaged.read_bytes(), packaged.with_name(f"{packaged.name}.prov").read_bytes()
        shutil.rmtree(self.folder / f"chart-{version}")
        self.server.add(f"/c-{version}.tgz", archive)
        self.server.add(f"/c-{version}.tgz.prov", provenance)
        self.list(version, entry_of("c", version, archive if has_digest else None))
        return archive

    def list(self, version: str, entry: dict[str, Any]) -> None:
        """Add an entry to the index."""
        self.entries[version] = entry
        self.server.add("/index.yaml", index_of(self.entries.values()))


@pytest.fixture
def repository(server: FaultyServer, gpg: GpgHome, tmp_path: Path) -> Repository:
    return Repository(server=server, gpg=gpg, folder=tmp_path)


@pytest.fixture
def chart(server: FaultyServer, gpg: GpgHome, access: Access) -> Client:
    verify = {"provenance": {"secret": {"name": "keyring"}}}
    trusted = Trusted(data={".provenance.secret": {"pubring.gpg": gpg.run("--export")}})
    parameters = {"repository": server.address, "name": "c", "verify": verify}
    return Client(source=ChartSource(), parameters=parameters, access=replace(access, path=CHART_PATH, trusted=trusted))


def test_a_signed_chart_is_pinned_before_it_is_read(
    server: FaultyServer, gpg: GpgHome, repository: Repository, chart: Client
) -> None:
    archive = repository.publish("1.0.0")
    resolution = chart.resolve()
    expected = Signer(by="provenance", key=gpg.fingerprints()[0], identity="shop <shop@example.org>")
    assert (resolution.digest, resolution.signer) == (digest(archive), expected)
    assert asked(server) == ["/index.yaml", "/c-1.0.0.tgz.prov"]


def test_a_chart_without_a_digest_in_the_index_is_stored_only_if_it_is_signed(
    server: FaultyServer, repository: Repository, chart: Client
) -> None:
    archive = repository.publish("1.0.0", has_digest=False)
    assert chart.resolve().signer
    assert chart.kept == [digest(archive)]
    server.add("/c-1.0.0.tgz", charts.packed_chart("c", "1.0.0", more="x: y\n"))
    assert "has another digest" in chart.refusal(Reason.VERIFICATION_FAILED)


def test_a_chart_without_a_provenance_file(server: FaultyServer, repository: Repository, chart: Client) -> None:
    repository.publish("1.0.0")
    del server.files["/c-1.0.0.tgz.prov"]
    message = chart.refusal(Reason.VERIFICATION_FAILED)
    assert message.startswith(f"{CHART_PATH}.verify: ")
    assert message.endswith(
        'does not have "/c-1.0.0.tgz.prov"; sign the chart with helm package --sign, and publish that file'
    )


def test_another_chart_with_the_provenance_file_of_a_signed_one(repository: Repository, chart: Client) -> None:
    repository.publish("1.0.0")
    other = charts.packed_chart("c", "1.0.0", more="x: y\n")
    repository.server.add("/c-1.0.0.tgz", other)
    repository.list("1.0.0", entry_of("c", "1.0.0", other))
    assert "has another digest of the chart" in chart.refusal(Reason.VERIFICATION_FAILED)


def test_an_old_chart_that_the_index_calls_a_new_version(repository: Repository, chart: Client) -> None:
    old = repository.publish("1.0.0")
    repository.list("2.0.0", entry_of("c", "2.0.0", old, urls=["c-1.0.0.tgz"]))
    assert 'the provenance file is of chart "c" "1.0.0"' in chart.refusal(Reason.VERIFICATION_FAILED)


def test_keys_of_somebody_else_and_none(
    repository: Repository, chart: Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository.publish("1.0.0")
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as other:
        other.make_key(name="other")
        trusted = Trusted(data={".provenance.secret": {"a.asc": other.export()}})
    assert "which is not in the Secret" in chart.refusal(Reason.VERIFICATION_FAILED, trusted=trusted)
    empty = Trusted(data={".provenance.secret": {"password": b"x"}})
    message = chart.refusal(Reason.INVALID_VERIFICATION, trusted=empty)
    assert message.startswith(f"{CHART_PATH}.verify.provenance.secret: the Secret has no keys")


def test_a_chart_in_a_registry_has_no_provenance_file(repository: Repository, chart: Client) -> None:
    repository.list("1.0.0", entry_of("c", "1.0.0", b"x", urls=["oci://registry.example.com/c:1.0.0"]))
    assert 'version "1.0.0" is in a registry' in chart.refusal(Reason.VERIFICATION_FAILED)


def test_a_poll_asks_for_a_provenance_file_only_if_there_is_another_chart(
    server: FaultyServer, repository: Repository, chart: Client
) -> None:
    repository.publish("1.0.0")
    first = chart.resolve()
    asked(server)
    assert chart.resolve(previous=first).signer is first.signer
    assert asked(server) == ["/index.yaml"]
    repository.publish("1.1.0")
    assert chart.resolve(previous=first).signer == first.signer
    assert asked(server) == ["/index.yaml", "/c-1.1.0.tgz.prov"]
    assert chart.resolve(previous=replace(first, signer=None)).signer


@pytest.mark.parametrize("has_digest", [True, False])
def test_with_another_verify_the_recorded_chart_is_checked(
    repository: Repository, chart: Client, *, has_digest: bool
) -> None:
    repository.publish("1.0.0", has_digest=has_digest)
    first = chart.resolve()
    repository.publish("1.1.0", has_digest=has_digest)
    checked = chart.resolve(pinned=replace(first, signer=None))
    assert (checked.pinned, checked.signer) == (first.pinned, first.signer)
