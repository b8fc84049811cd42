"""What a tenant learns about servers that it sends the controller to: nothing, whatever is there and however it asks.

Its own server redirects, or has an index that leads there. It sees what the controller reports, when, and what is asked
of its own server meanwhile.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Entry, Limits, Network, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.playground.cluster import write_certificates
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.sources import hosts as detours
from rukpak.controller.sources.chart import ChartSource
from rukpak.controller.sources.http import HttpSource
from rukpak.controller.sources.image.source import ImageSource
from tests.support.archives import tarball
from tests.support.charts import entry_of, index_of, pack, packed_chart
from tests.support.cosigned import FileSigner, make_key, pem_of
from tests.support.faulty_registry import Faults, FaultyRegistry
from tests.support.web_servers import FaultyServer, File

LIMITS = Limits(compressed_bytes=100_000)
ABOUT_SECONDS = 1.0
TRIES = 2
GOOD = packed_chart("web", "1.0.0")
HTML = b"<!doctype html><title>Vault</title>"
LEAVING = pack({"web/Chart.yaml": b"name: web\nversion: 1.0.0\n", "web/../../../etc/passwd": b"x"})
OTHER = packed_chart("web", "6.6.6")
PEM = pem_of(make_key())


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificates of the tenant's server, and of the inner ones."""

    trusted: ssl.SSLContext
    unknown: ssl.SSLContext
    pem: str


@pytest.fixture(autouse=True)
def _quick_detours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report failures at another host than the spec names sooner than for users."""
    monkeypatch.setattr(detours, "SECONDS", 1.5)
    monkeypatch.setattr(detours, "_MARGIN", 0.3)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    contexts = []
    for name in ("trusted", "unknown"):
        folder = tmp_path_factory.mktemp(name)
        write_certificates(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "kube-apiserver.crt", folder / "kube-apiserver.key")
        contexts.append((context, (folder / "ca.crt").read_text()))
    return Tls(trusted=contexts[0][0], unknown=contexts[1][0], pem=contexts[0][1])


# what is there

Place = Callable[[ExitStack, Tls], str]
"""Starts what is there; returns host and port."""


def serves(**options: Any) -> Place:
    def start(stack: ExitStack, tls: Tls) -> str:
        server = stack.enter_context(FaultyServer(tls.trusted))
        server.files = _Anything(File(**deepcopy(options)))
        return server.host

    return start


class _Anything(dict[str, File]):
    """One file at every path."""

    def __init__(self, file: File) -> None:
        super().__init__()
        self._file = file

    def get(self, path: str, default: Any = None) -> Any:
        return self._file


def closed(stack: ExitStack, tls: Tls) -> str:
    bound = stack.enter_context(socket.socket())  # or another server might get the port meanwhile
    bound.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{bound.getsockname()[1]}"


def mute(stack: ExitStack, tls: Tls) -> str:
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return f"127.0.0.1:{listener.getsockname()[1]}"


def dropping(stack: ExitStack, tls: Tls) -> str:
    """A port that does not answer at all: its queue of connections is full."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(3):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
    return f"127.0.0.1:{listener.getsockname()[1]}"


def plain(stack: ExitStack, tls: Tls) -> str:
    return stack.enter_context(FaultyServer()).host


def of_another_authority(stack: ExitStack, tls: Tls) -> str:
    return stack.enter_context(FaultyServer(tls.unknown)).host


def denied(stack: ExitStack, tls: Tls) -> str:
    listener = stack.enter_context(socket.create_server(("127.0.0.2", 0)))
    return f"127.0.0.2:{listener.getsockname()[1]}"


def nowhere(stack: ExitStack, tls: Tls) -> str:
    return "nowhere.invalid"


def looping(stack: ExitStack, tls: Tls) -> str:
    server = stack.enter_context(FaultyServer(tls.trusted))
    server.files = _Anything(File(redirect=f"{server.address}/again"))
    return server.host


THERE: Mapping[str, Place] = {
    "a closed port": closed,
    "a port that accepts and says nothing": mute,
    "a port that does not answer": dropping,
    "an address that is denied": denied,
    "a name that does not exist": nowhere,
    "a server without TLS": plain,
    "a server with a certificate of its own": of_another_authority,
    "a redirect to itself": looping,
    "a redirect to plain http": serves(redirect="http://127.0.0.1:1/"),
    **{f"status {status}": serves(status=status) for status in (400, 401, 403, 404, 418, 429, 500, 503)},
    "a web page": serves(body=HTML),
    "nothing": serves(body=b""),
    "what cannot be unpacked": serves(body=b"\x1f\x8b" + HTML),
    "an archive with other content": serves(body=OTHER),
    "an archive that leaves its directory": serves(body=LEAVING),
    "a large file": serves(body=bytes(200_000)),
    "a file without an end": serves(body=bytes(1 << 20), endless=True),
    "a file that drips": serves(body=bytes(10_000), trickle=True),
    "a file that is cut": serves(body=GOOD, cuts=[100] * 10),
    "a file that is cut and can be resumed": serves(body=bytes(5000), tag='"1"', cuts=[100] * 10),
    "an encoded file": serves(body=GOOD, headers={"Content-Encoding": "br"}),
    "a large header": serves(body=GOOD, headers={"X-Large": "x" * 40_000}),
}


# how it is asked


@dataclass
class Tenant:
    """A tenant's server, and what its source is."""

    source: Any
    parameters: Mapping[str, Any]
    resolution: Resolution | None
    """To fetch; None: it is resolved."""
    requests: list[Any] = field(default_factory=list)
    """That its server has got."""


Way = Callable[[ExitStack, Tls, str], Tenant]


def redirecting_file(body: bytes) -> Way:
    """With the digest of a body that the tenant guesses."""
    digest = digest_of(body)

    def way(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        own = stack.enter_context(FaultyServer(tls.trusted))
        own.add("/web.tgz", redirect=f"https://{host}/web.tgz")
        parameters = {"url": f"{own.address}/web.tgz", "certificateData": tls.pem, "sha256": digest[7:]}
        return Tenant(HttpSource(), parameters, Resolution(pinned="", digest=digest), own.requests)

    return way


def index_to(url: str, body: bytes = GOOD) -> Way:
    digest = digest_of(body)

    def way(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        own = stack.enter_context(FaultyServer(tls.trusted))
        own.add("/index.yaml", index_of([entry_of("web", "1.0.0", body, urls=[url.format(host=host)])]))
        own.add("/away.tgz", redirect=f"https://{host}/web.tgz")
        parameters = {"repository": own.address, "name": "web", "version": "1.0.0", "certificateData": tls.pem}
        resolution = Resolution(pinned=f"{own.address}/web:1.0.0@{digest}", digest=digest)
        return Tenant(ChartSource(), parameters, resolution, own.requests)

    return way


def redirecting_blobs(stack: ExitStack, tls: Tls, host: str) -> Tenant:
    own = stack.enter_context(FaultyRegistry(tls.trusted))
    digest = own.add_image("v1", tarball(("a.yaml", b"{}")))
    own.faults = Faults(where="/blobs/", redirect=f"https://{host}")
    parameters = {"ref": f"{own.host}/own:v1", "certificateData": tls.pem}
    return Tenant(ImageSource(), parameters, Resolution(pinned="", digest=digest), own.requests)


def redirecting_index(stack: ExitStack, tls: Tls, host: str) -> Tenant:
    tenant = index_to("")(stack, tls, host)
    own = stack.enter_context(FaultyServer(tls.trusted))
    own.add("/index.yaml", redirect=f"https://{host}/index.yaml")
    return replace(tenant, parameters={**tenant.parameters, "repository": own.address}, requests=own.requests)


def redirecting_manifests(target: str) -> Way:
    def way(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        tenant = redirecting_blobs(stack, tls, host)
        own = stack.enter_context(FaultyRegistry(tls.trusted))
        own.faults = Faults(where="/manifests/", redirect=f"https://{host}")
        parameters = {**tenant.parameters, "ref": f"{own.host}/own{target}"}
        return replace(tenant, parameters=parameters, resolution=None, requests=own.requests)

    return way


def redirecting_signature(verify: Mapping[str, Any], suffix: str) -> Way:
    """Of a file that the tenant's server has itself."""

    def way(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        own = stack.enter_context(FaultyServer(tls.trusted))
        own.add("/web.yaml", GOOD)
        own.add(f"/web.yaml{suffix}", redirect=f"https://{host}/signature")
        parameters = {"url": f"{own.address}/web.yaml", "certificateData": tls.pem, "verify": verify}
        return Tenant(HttpSource(), parameters, None, own.requests)

    return way


def signed_guess(body: bytes) -> Way:
    """A redirected file, with the tenant's own signature of what it may be."""

    def way(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        own, signer = stack.enter_context(FaultyServer(tls.trusted)), FileSigner()
        own.add("/web.tgz", redirect=f"https://{host}/web.tgz")
        own.add("/web.tgz.sigstore.json", signer.sign(body))
        parameters = {"url": f"{own.address}/web.tgz", "certificateData": tls.pem, "verify": signer.verify}
        return Tenant(HttpSource(), parameters, None, own.requests)

    return way


def redirecting_provenance(entry: Mapping[str, Any]) -> Way:
    """Of a chart that the tenant's server has, with or without its digest in the index."""

    def way(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        own = stack.enter_context(FaultyServer(tls.trusted))
        own.add("/index.yaml", index_of([entry]))
        own.add("/web-1.0.0.tgz", GOOD)
        own.add("/web-1.0.0.tgz.prov", redirect=f"https://{host}/web.prov")
        verify = {"provenance": {"secret": {"name": "keys"}}}
        parameters = {"repository": own.address, "name": "web", "certificateData": tls.pem, "verify": verify}
        return Tenant(ChartSource(), parameters, None, own.requests)

    return way


def resolved(way: Way, *without: str) -> Way:
    """Have the source resolved, after some of its parameters are removed."""

    def changed(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        tenant = way(stack, tls, host)
        parameters = {name: value for name, value in tenant.parameters.items() if name not in without}
        return replace(tenant, parameters=parameters, resolution=None)

    return changed


WAYS: Mapping[str, Way] = {
    "a file with a digest": redirecting_file(GOOD),
    "a file with the digest of a page": redirecting_file(HTML),
    "the chart of an index": index_to("https://{host}/web-1.0.0.tgz"),
    "the chart of an index, redirected": index_to("away.tgz"),
    "a chart with the digest of a page": index_to("https://{host}/web-1.0.0.tgz", HTML),
    "a chart with the digest of another archive": index_to("https://{host}/web-1.0.0.tgz", LEAVING),
    "a chart in a registry of an index": index_to("oci://{host}/charts/web:1.0.0"),
    "a chart in such a registry with the digest of another archive": index_to("oci://{host}/charts/web:1.0.0", LEAVING),
    "blobs of a registry": redirecting_blobs,
    "the index itself": redirecting_index,
    "the index itself, resolved": resolved(redirecting_index),
    "a file without a digest": resolved(redirecting_file(GOOD), "sha256"),
    "a tag of a registry": redirecting_manifests(":v1"),
    "a digest of a registry": redirecting_manifests(f"@{digest_of(GOOD)}"),
    "a digest that is that of a page": redirecting_manifests(f"@{digest_of(HTML)}"),
    "a bundle of cosign": redirecting_signature({"cosign": {"keys": [{"pem": PEM}]}}, ".sigstore.json"),
    "a file with a signature of a page": signed_guess(HTML),
    "a file with a signature of another archive": signed_guess(LEAVING),
    "the provenance file of a chart": redirecting_provenance(entry_of("web", "1.0.0", GOOD)),
    "the provenance file of a chart without a digest": redirecting_provenance(entry_of("web", "1.0.0", None)),
}


@dataclass(frozen=True, slots=True)
class Learned:
    """What the tenant sees."""

    reason: Reason | None
    """None: it is content."""
    message: str
    seconds: float
    asked: tuple[str, ...]
    progress: int
    """How often it was told of bytes."""


def learn(way: Way, place: Place, tls: Tls, folder: Path) -> Learned:
    """Let the controller ask, by the tenant's way, at a place."""
    with ExitStack() as stack:
        host = place(stack, tls)
        tenant = way(stack, tls, host)
        told = list[int]()
        network = Network(denied_networks=("127.0.0.2/32",))
        access = new_access(folder, limits=LIMITS, network=network, progress=lambda done, _: told.append(done))
        began, failure = time.monotonic(), None
        try:
            read(tenant, access, folder)
        except BundleError as error:
            failure = error
        message = failure.message.replace(host, "HOST") if failure else ""
        for own in (tenant.parameters.get(name, "") for name in ("url", "repository", "ref")):
            message = message.replace(own.removeprefix("https://").partition("/")[0] or "-", "OWN")
        seconds = time.monotonic() - began
        asked = tuple(str(each[:2] if isinstance(each, tuple) else each.path) for each in tenant.requests)
        return Learned(failure.reason if failure else None, message, seconds, asked, len(told))


def new_access(folder: Path, **options: Any) -> Access:
    return Access(
        path="spec.sources[0].x",
        deadline=time.monotonic() + 250,
        cancelled=threading.Event(),
        scratch=_new(folder),
        **options,
    )


def read(tenant: Tenant, access: Access, folder: Path) -> None:
    if tenant.resolution is None:

        def keep(_: Resolution, entries: Iterator[Entry]) -> None:
            write_entries(entries, _new(folder), LIMITS, access.path)

        tenant.source.resolve(tenant.parameters, replace(access, keep=keep))
        return
    entries = tenant.source.fetch(tenant.parameters, tenant.resolution, access)
    write_entries(entries, _new(folder), LIMITS, access.path)


def _new(folder: Path) -> Path:
    made = folder / f"{time.monotonic_ns()}-{threading.get_ident()}"
    made.mkdir()
    return made


FEW = (
    "a closed port",
    "a port that accepts and says nothing",
    "a server with a certificate of its own",
    "a redirect to itself",
    "status 401",
    "status 404",
    "a web page",
    "an archive with other content",
    "an archive that leaves its directory",
)
"""One of each step at which a call may fail."""
AT_ONCE = 7
"""How many ways are tried at the same time: each takes as long as what is reported, and hardly any work."""


@pytest.mark.parametrize(
    "ways", [[*WAYS][start : start + AT_ONCE] for start in range(0, len(WAYS), AT_ONCE)], ids=", ".join
)
def test_whatever_is_at_another_host_looks_the_same_and_takes_as_long(
    ways: Sequence[str], tls: Tls, tmp_path: Path
) -> None:
    check_nothing_is_learned({way: some_of(FEW, way) for way in ways}, tls, tmp_path)


def some_of(there: Sequence[str], way: str) -> list[str]:
    """Return what all else is compared with, and every third of the rest, other ones for the next way."""
    first, *rest = there
    return [first, *rest[[*WAYS].index(way) % 3 :: 3]]


@pytest.mark.repeats
@pytest.mark.parametrize("way", WAYS)
def test_all_that_may_be_there_looks_the_same_and_takes_as_long(way: str, tls: Tls, tmp_path: Path) -> None:
    check_nothing_is_learned({way: [*THERE]}, tls, tmp_path)


def check_nothing_is_learned(there: Mapping[str, Sequence[str]], tls: Tls, folder: Path) -> None:
    """Compare what is there, by the way in which it is asked."""
    odd = set[tuple[str, str]]()
    for way, found in learn_all(there, tls, folder).items():
        told = (Reason.UNREACHABLE, found["a closed port"].message)
        assert {name: each for name, each in found.items() if (each.reason, each.message) != told} == {}, way
        assert "cannot be used" in found["a closed port"].message
        seen = (found["a closed port"].asked, found["a closed port"].progress)
        assert {name: each for name, each in found.items() if (each.asked, each.progress) != seen} == {}, way
        odd |= odd_times(way, found)
    for _ in range(TRIES):  # what the machine does beside it is odd once, what can be learned is odd each time
        if odd:
            again = learn_all(there, tls, folder)
            odd &= {each for way, found in again.items() for each in odd_times(way, found)}
    assert odd == set()


def learn_all(there: Mapping[str, Sequence[str]], tls: Tls, folder: Path) -> dict[str, dict[str, Learned]]:
    pairs = [(way, name) for way, names in there.items() for name in names]
    with ThreadPoolExecutor(len(pairs)) as pool:
        asked = {(way, name): pool.submit(learn, WAYS[way], THERE[name], tls, folder) for way, name in pairs}
    found: dict[str, dict[str, Learned]] = {way: {} for way in there}
    for (way, name), each in asked.items():
        found[way][name] = each.result()
    if taken := found.get("a file without a digest", {}).pop("an archive with other content", None):
        assert taken.reason is None
    return found


def odd_times(way: str, found: Mapping[str, Learned]) -> set[tuple[str, str]]:
    usual = median(each.seconds for each in found.values())  # more than `SECONDS` if the machine has other work
    assert usual >= detours.SECONDS - ABOUT_SECONDS
    return {(way, name) for name, each in found.items() if abs(each.seconds - usual) > ABOUT_SECONDS}


def test_a_file_with_a_digest_is_resolved_without_asking_another_host(tls: Tls, tmp_path: Path) -> None:
    found = [
        learn(resolved(redirecting_file(GOOD)), THERE[name], tls, tmp_path) for name in ("a web page", "status 404")
    ]
    assert [(each.reason, each.asked) for each in found] == [(None, ("/web.tgz",))] * 2


# what the tenant's server sees


def closings_of(server: FaultyServer) -> list[float]:
    """Return when connections to a server are closed, from now on."""
    closed_at = list[float]()
    handler: Any = server._server.RequestHandlerClass

    def finish(self: Any) -> None:
        closed_at.append(time.monotonic())
        BaseHTTPRequestHandler.finish(self)

    handler.finish = finish
    return closed_at


def test_the_server_that_redirects_does_not_see_when_the_other_has_answered(tls: Tls, tmp_path: Path) -> None:
    there = ("a closed port", "a port that accepts and says nothing", "status 404", "a web page")
    with ThreadPoolExecutor(len(there)) as pool:
        closings = dict(zip(there, pool.map(lambda name: closings_for(name, tls, tmp_path), there), strict=True))
    assert {name: [after > detours.SECONDS for after in each] for name, each in closings.items()} == {
        name: [True] for name in there
    }


def closings_for(there: str, tls: Tls, folder: Path) -> list[float]:
    """Return after how many seconds the connections to the server that redirects are closed."""
    seen = list[list[float]]()

    def way(stack: ExitStack, tls: Tls, host: str) -> Tenant:
        own = stack.enter_context(FaultyServer(tls.trusted))
        own.add("/web.tgz", redirect=f"https://{host}/web.tgz")
        seen.append(closings_of(own))
        parameters = {"url": f"{own.address}/web.tgz", "certificateData": tls.pem}
        return Tenant(HttpSource(), parameters, Resolution(pinned="", digest=digest_of(GOOD)), own.requests)

    began = time.monotonic()
    learn(way, THERE[there], tls, folder)
    wait_for(lambda: seen[0], 60, lambda: "closed")
    return [at - began for at in seen[0]]


# what is told nevertheless


def serve_blobs(stack: ExitStack, tls: Tls, layer: bytes) -> Tenant:
    """Have a registry that keeps its blobs elsewhere, as most do."""
    own, other = (stack.enter_context(FaultyRegistry(tls.trusted)) for _ in range(2))
    digest = own.add_image("v1", layer, tarball(("b.yaml", bytes(2000))))
    other.blobs = dict(own.blobs)
    own.faults = Faults(where="/blobs/", redirect=f"https://{other.host}")
    parameters = {"ref": f"{own.host}/own:v1", "certificateData": tls.pem}
    return Tenant(ImageSource(), parameters, Resolution(pinned="", digest=digest), own.requests)


def test_what_is_wrong_with_a_blob_that_has_its_digest_is_told_wherever_it_is(
    tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detours, "SECONDS", 60.0)
    found = learn(lambda stack, tls, _: serve_blobs(stack, tls, tarball(("../a", b""))), closed, tls, tmp_path)
    assert found.reason is Reason.CONTENT_REJECTED
    assert "leaves its directory" in found.message
    assert found.seconds < detours.SECONDS


def test_bytes_of_another_host_are_shown_when_they_are_verified_and_counted_before(tls: Tls, tmp_path: Path) -> None:
    shown, counted = list[tuple[int, int]](), list[int]()
    with ExitStack() as stack:
        tenant = serve_blobs(stack, tls, tarball(("a.yaml", b"{}")))
        access = new_access(tmp_path, progress=lambda done, total: shown.append((done, total)), receive=counted.append)
        read(tenant, access, tmp_path)
    (first, _), (last, total) = shown
    assert 0 < first < last == total
    assert {first, last} <= set(counted)


def test_a_registry_may_be_elsewhere_as_a_whole_and_its_tags_are_told(tls: Tls, tmp_path: Path) -> None:
    """As registry.k8s.io is: manifests and tags are redirected, too."""
    with ExitStack() as stack:
        own, other = (stack.enter_context(FaultyRegistry(tls.trusted)) for _ in range(2))
        digest = other.add_image("1.2.0", tarball(("a.yaml", b"{}")))
        own.faults = Faults(redirect=f"https://{other.host}")
        parameters = {"ref": f"{own.host}/own:1.2.0", "certificateData": tls.pem}
        for ref in ("own:1.2.0", f"own@{digest}"):
            tenant = Tenant(ImageSource(), {**parameters, "ref": f"{own.host}/{ref}"}, None)
            assert tenant.source.resolve(tenant.parameters, new_access(tmp_path)).digest == digest
        read(Tenant(ImageSource(), parameters, Resolution(pinned="", digest=digest)), new_access(tmp_path), tmp_path)
        ranged = {**parameters, "ref": f"{own.host}/own", "semver": ">=2"}
        with pytest.raises(BundleError, match=r'no tag in the range ">=2"; the nearest are "1\.2\.0"'):
            ImageSource().resolve(ranged, new_access(tmp_path))
