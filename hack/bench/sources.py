"""hack/bench/sources: fetching, compared to tar, from servers on this machine; needs no cluster.

How many requests they send is counted by servers that behave, each call as the controller makes it: with new
connections, and logged in again. The limits are what each protocol takes.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hack.bench.private import TRUSTS, serve_privately
from hack.bench.rows import Row, chosen, in_child, peak_mebibytes, publish, read_usage, time_work
from hack.control_plane.builds import BUILDS
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Entry, Limits, Resolution, Trusted
from rukpak.controller.building.entry_points import source_of
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.store import ContentStore
from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.registry import Registry
from rukpak.controller.playground.settings import read_settings
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.cosign import Subject, check_bundle, read_wanted
from rukpak.controller.sources.transport import Response, Transport
from tests.support.archives import tarball
from tests.support.charts import add_chart, repository_of
from tests.support.cosigned import make_key, make_payload, pem_of, sign, signed_bundle, store_bundle, store_simply
from tests.support.faulty_registry import FaultyRegistry
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.private_sources import PASSWORD, USER, Authority
from tests.support.registry import RegistryClient, compress, pack
from tests.support.signing import Minisign, SshKey, sign_commit
from tests.support.web_servers import FaultyServer

CHARTS, VERSIONS = 130, 200

_ENTRY = """\
  - annotations:
      category: Infrastructure
      images: |
        - name: {name}
          image: docker.io/example/{name}:{version}-debian-12-r4
        - name: os-shell
          image: docker.io/example/os-shell:12-debian-12-r7
      licenses: Apache-2.0
    apiVersion: v2
    appVersion: {version}
    created: "2026-01-02T03:04:05.678901234Z"
    dependencies:
    - name: common
      repository: oci://registry-1.docker.io/examplecharts
      tags:
      - common
      version: 2.x.x
    description: {name} is an open source program. It does many things for many people, and this line is long enough
      to be folded.
    digest: {digest}
    home: https://example.com
    icon: https://example.com/assets/stacks/{name}/img/{name}-stack-220x234.png
    keywords:
    - {name}
    - server
    maintainers:
    - name: Example, Inc. All Rights Reserved.
      url: https://github.com/example/charts
    name: {name}
    sources:
    - https://github.com/example/charts/tree/main/example/{name}
    urls:
    - https://charts.example.com/example/{name}-{version}.tgz
    version: {version}
"""


def write_index(path: Path) -> None:
    """Write an index of 30 MiB: 130 charts with 200 versions each."""
    with path.open("w", encoding="utf-8") as file:
        file.write("apiVersion: v1\nentries:\n")
        file.writelines(_entries())


def _entries() -> Iterator[str]:
    for chart_number in range(CHARTS):
        name = f"chart-{chart_number}"
        yield f"  {name}:\n"
        for number in range(VERSIONS):
            version = f"1.{number // 20}.{number % 20}"
            digest = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
            yield _ENTRY.format(name=name, version=version, digest=digest)


SECONDS = 60.0
FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one source sent."""

    resolved: int
    fetched: int
    polled: int


def count() -> Iterator[Row]:
    """Yield a row for each way to reach a source; the limits are what each protocol takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "authority").mkdir()
        authority = Authority.make(folder / "authority")
        yield from _rows(
            "image by tag", _ask_registry(folder, authority, "open"), Asked(resolved=1, fetched=2, polled=1)
        )
        password = Asked(resolved=2, fetched=3, polled=2)
        yield from _rows("image by tag, password", _ask_registry(folder, authority, "password"), password)
        token = Asked(resolved=3, fetched=4, polled=3)
        yield from _rows("image by tag, token server", _ask_registry(folder, authority, "token"), token)
        in_range = Asked(resolved=2, fetched=2, polled=2)
        yield from _rows("image by range", _ask_registry(folder, authority, "range"), in_range)
        missing = Asked(resolved=4, fetched=0, polled=4)
        yield from _rows("image that is missing, password", _ask_registry(folder, authority, "missing"), missing)
        simply = Asked(resolved=4, fetched=2, polled=1)  # at most 3 more than without a signature, and none for a poll
        yield from _rows("image by tag, signed simply", _ask_signed(folder, lists_referrers=True), simply)
        yield from _rows("image by tag, no referrers, signed simply", _ask_signed(folder), simply)
        bundle = partial(_ask_signed, folder, is_bundle=True)
        yield from _rows("image by tag, signed by bundle", bundle(lists_referrers=True), simply)
        yield from _rows("image by tag, no referrers, signed by bundle", bundle(), simply)
        yield from _rows("chart of an index", _ask_charts(folder), Asked(resolved=1, fetched=1, polled=1))
        in_registry = Asked(resolved=2, fetched=1, polled=2)
        yield from _rows("chart of a registry by range", _ask_chart_registry(folder), in_registry)
        yield from _rows("file over http", _ask_file(folder), Asked(resolved=1, fetched=0, polled=1))
        yield from _rows("git, a branch", _ask_git(folder, {}), Asked(resolved=2, fetched=2, polled=2))
        directory = {"directory": "deploy"}
        yield from _rows("git, a directory", _ask_git(folder, directory), Asked(resolved=2, fetched=4, polled=2))
        yield from _rows("git, a branch, signed", _ask_signed_git(folder), Asked(resolved=4, fetched=2, polled=2))
        yield from _rows("file over http, signed", _ask_signed_file(folder), Asked(resolved=2, fetched=0, polled=1))


def _rows(title: str, found: Asked, most: Asked) -> Iterator[Row]:
    for call in Asked.__dataclass_fields__:
        if limit := getattr(most, call):
            yield Row(title=f"{title}: requests, {call}", value=getattr(found, call), at_most=limit, digits=0)


def _ask_registry(folder: Path, authority: Authority, case: str) -> Asked:
    with FaultyRegistry(authority.server_context()) as registry:
        for tag in ("v1", "1.0.0"):
            registry.add_image(tag, tarball(("manifests/a.yaml", b"{}")))
        has_password = case in ("password", "token", "missing")
        registry.wants_token = case == "token"
        registry.logins = {USER: PASSWORD} if has_password else {}
        ref = {"range": "", "missing": ":nope"}.get(case, ":v1")
        parameters = {"ref": f"{registry.host}/bundle{ref}", "certificateData": authority.pem}
        if case == "range":
            parameters["semver"] = "1.x"
        credentials = Credentials(username=USER, password=PASSWORD) if has_password else None
        return _ask("image", parameters, folder, lambda: len(registry.requests), credentials)


def _ask_signed(folder: Path, *, lists_referrers: bool = False, is_bundle: bool = False) -> Asked:
    """Ask a registry that was asked before: only the first call tries whether it lists referrers."""
    key = make_key()
    with FaultyRegistry() as registry:
        registry.lists_referrers = lists_referrers
        digest = registry.add_image("v1", tarball(("manifests/a.yaml", b"{}")))
        if is_bundle:
            store_bundle(registry, digest, signed_bundle(key, digest))
        else:
            payload = make_payload(digest, f"{registry.host}/bundle")
            store_simply(registry, digest, (payload, sign(key, payload)))
        verify = {"cosign": {"keys": [{"pem": pem_of(key)}]}}
        parameters = {"ref": f"{registry.host}/bundle:v1", "verify": verify}
        _ask("image", parameters, folder, lambda: len(registry.requests))
        return _ask("image", parameters, folder, lambda: len(registry.requests))


def _ask_charts(folder: Path) -> Asked:
    with FaultyServer() as server:
        for path, body in repository_of("web", "1.0.0", "1.1.0").items():
            server.add(path, body, tag='"1"' if path == "/index.yaml" else "")
        parameters = {"repository": server.address, "name": "web"}
        return _ask("chart", parameters, folder, lambda: len(server.requests))


def _ask_chart_registry(folder: Path) -> Asked:
    with FaultyRegistry() as registry:
        add_chart(registry, "web", "1.0.0")
        parameters = {"repository": f"oci://{registry.host}/charts", "name": "web", "version": "1.x"}
        return _ask("chart", parameters, folder, lambda: len(registry.requests))


def _ask_file(folder: Path) -> Asked:
    with FaultyServer() as server:
        server.add("/a.yaml", b"kind: List\n", tag='"1"')
        return _ask("http", {"url": f"{server.address}/a.yaml"}, folder, lambda: len(server.requests))


def _ask_signed_file(folder: Path) -> Asked:
    signer, body = Minisign(), b"kind: List\n"
    with FaultyServer() as server:
        server.add("/a.yaml", body, tag='"1"')
        server.add("/a.yaml.minisig", signer.sign(body))
        verify = {"minisign": {"publicKey": signer.public}}
        parameters = {"url": f"{server.address}/a.yaml", "verify": verify}
        return _ask("http", parameters, folder, lambda: len(server.requests))


def _ask_signed_git(folder: Path) -> Asked:
    with tempfile.TemporaryDirectory(dir=folder) as root, GitHttpServer(Path(root)) as server:
        repository, key = GitRepository(Path(root) / "bench.git", config=FORGE), SshKey.make(Path(root) / "key")
        repository.commit({"a.yaml": b"{}"})
        sign_commit(repository, key)
        trusted = Trusted(data={".secret": {"allowed_signers": key.allowed()}})
        verify = {"secret": {"name": "keys"}}
        parameters = {"repository": f"{server.url}/bench.git", "ref": "main", "verify": verify}
        return _ask("git", parameters, folder, lambda: len(server.requests), trusted=trusted)


def _ask_git(folder: Path, more: Mapping[str, Any]) -> Asked:
    with tempfile.TemporaryDirectory(dir=folder) as root, GitHttpServer(Path(root)) as server:
        GitRepository(Path(root) / "bench.git", config=FORGE).commit({"deploy/a.yaml": b"{}"})
        parameters = {"repository": f"{server.url}/bench.git", "ref": "main", **more}
        return _ask("git", parameters, folder, lambda: len(server.requests))


def _ask(
    kind: str,
    parameters: Mapping[str, Any],
    folder: Path,
    asked: Callable[[], int],
    credentials: Credentials | None = None,
    *,
    trusted: Trusted | None = None,
) -> Asked:
    """Resolve, fetch unless resolving has kept the content, and poll; a source that fails is not fetched."""
    source, kept = source_of(kind), list[Resolution]()

    def access(**more: Any) -> Access:
        return Access(
            path="",
            deadline=time.monotonic() + SECONDS,
            cancelled=threading.Event(),
            scratch=Path(tempfile.mkdtemp(dir=folder)),
            credentials=credentials,
            trusted=trusted or Trusted(),
            **more,
        )

    def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
        kept.append(resolution)
        _read(entries)

    counts, found = [asked()], None
    with suppress(BundleError):
        found = source.resolve(parameters, access(keep=keep))
    counts.append(asked())
    if found and not kept:
        _read(source.fetch(parameters, found, access()))
    counts.append(asked())
    with suppress(BundleError):
        source.resolve(parameters, access(keep=keep, previous=found))
    counts.append(asked())
    resolved, fetched, polled = (after - before for before, after in pairwise(counts))
    return Asked(resolved=resolved, fetched=fetched, polled=polled)


def _read(entries: Iterator[Entry]) -> None:
    for entry in entries:
        while entry.data and entry.data.read(1 << 20):
            pass


MEBIBYTE = 1 << 20
TAR_RATIO = 2
KEYLESS_BUNDLE = b'{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "messageSignature": {}}'
KEYLESS_SECONDS, KEYLESS_MEBIBYTES = 2.0, 30.0
GIT_SECONDS, GIT_MEBIBYTES = 0.5, 2.0
ARCHIVE_MEBIBYTES = 120.0
RESOLUTION_SECONDS = 0.05
CALLS, CALLS_SECONDS = 20, 0.03
POLLERS, POLLERS_AT_ONCE, POLLED_SECONDS, INDEX_SECONDS = 100, 8, 2.0, 10.0
POLL_SECONDS = 0.5
"""How long before a call its answer may have been asked for."""
FETCH_SECONDS = 600.0

Parameters = Mapping[str, Any]


def main() -> int:
    return publish(chosen(sys.argv[1:], (image, git, archive, unchanged, private, chart, requests, keyless)))


def keyless() -> Iterator[Row]:
    """What checks signatures without keys, which is loaded when it is first needed."""
    loaded = in_child(_load_keyless)
    title = "signatures without keys: the library and the trusted root"
    yield Row(title=f"{title}, CPU s", value=loaded[0], at_most=KEYLESS_SECONDS)
    yield Row(title=f"{title}, MiB", value=loaded[1], at_most=KEYLESS_MEBIBYTES, digits=0)


def _load_keyless() -> tuple[float, float]:
    wanted = read_wanted({"identities": [{"issuer": "i", "subject": "s"}]}, {}, "verify")
    before = read_usage(os.getpid()).resident

    def load() -> None:
        with suppress(SignatureError):
            check_bundle(KEYLESS_BUNDLE, Subject(digest=f"sha256:{'0' * 64}"), wanted)

    return time_work(load, runs=1), read_usage(os.getpid()).resident - before


def image() -> Iterator[Row]:
    """27 MB in 4,000 files, from a registry."""
    files = {f"manifests/{number}.yaml": make_text(number, 6750) for number in range(4000)}
    with tempfile.TemporaryDirectory() as folder, serve_images(Path(folder)) as registry:
        registry.push_image("bench", "v1", [files])
        layer = Path(folder) / "layer.tar.gz"
        layer.write_bytes(compress(pack(files), "gzip"))
        ours = in_child(_fetch, "image", {"ref": f"{registry.host}/bench:v1"})
        tar = in_child(_time_tar, layer)
    yield Row(
        title="image of 27 MB in 4,000 files, CPU s; at most: twice tar", value=ours.seconds, at_most=TAR_RATIO * tar
    )


def git() -> Iterator[Row]:
    """50 files out of 20,000, after 200 commits."""
    with tempfile.TemporaryDirectory() as folder, GitHttpServer(Path(folder)) as server:
        make_repository(Path(folder) / "bench.git")
        parameters = {"repository": f"{server.url}/bench.git", "ref": "main", "directory": "part-7"}
        fetched = in_child(_fetch, "git", parameters)
    title = "50 of 20,000 files of a repository of 200 commits"
    yield Row(title=f"{title}, CPU s", value=fetched.seconds, at_most=GIT_SECONDS)
    yield Row(title="the same, on disk, MiB", value=fetched.disk, at_most=GIT_MEBIBYTES)


def archive() -> Iterator[Row]:
    """An archive of 400 MB, 900 MB unpacked, over http."""
    with tempfile.TemporaryDirectory() as folder, serve_files(Path(folder)) as address:
        make_archive(Path(folder) / "bench.tar.gz")
        fetched = in_child(_fetch, "http", {"url": f"{address}/bench.tar.gz"})
    title = "archive of 400 MB over http, 900 MB unpacked, peak memory of the process, MiB"
    yield Row(title=title, value=fetched.peak, at_most=ARCHIVE_MEBIBYTES, digits=0)


def unchanged() -> Iterator[Row]:
    """Polls of a tag, a branch and a file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serve_images(folder) as registry, GitHttpServer(folder) as server, serve_files(folder) as address:
            registry.push_image("bench", "v1", [{"manifests/a.yaml": b"{}"}])
            GitRepository(folder / "bench.git").commit({"a.yaml": b"{}"})
            (folder / "bench.yaml").write_text("kind: List\n", encoding="utf-8")
            asked: dict[str, Parameters] = {
                "image": {"ref": f"{registry.host}/bench:v1"},
                "git": {"repository": f"{server.url}/bench.git", "ref": "main"},
                "http": {"url": f"{address}/bench.yaml"},
            }
            for kind, parameters in asked.items():
                seconds = in_child(_resolve_again, kind, parameters)
                title = f"{kind}: polled, unchanged, CPU s"
                yield Row(title=title, value=seconds, at_most=RESOLUTION_SECONDS, digits=3)


def private() -> Iterator[Row]:
    """A small image from registries that have to be trusted or that require a password."""
    with tempfile.TemporaryDirectory() as name, _run_registry(Path(name)) as registry:
        RegistryClient(registry.host).push_image("bench", "v1", [{"manifests/a.yaml": b"{}"}])
        with serve_privately(registry, Path(name)) as servers:
            for trust in TRUSTS:
                if trust.environment(servers):  # such as the roots of the system, which this process has loaded
                    continue
                parameters = {"ref": f"{trust.host(servers)}/bench:v1", **trust.block(servers)}
                seconds = in_child(_time_calls, parameters, trust.secret(servers))
                yield Row(
                    title=f"{trust.title}: resolved and fetched, CPU s", value=seconds, at_most=CALLS_SECONDS, digits=4
                )


def chart() -> Iterator[Row]:
    """An index of 30 MiB, read once and polled by 100 BundleDeployments."""
    with tempfile.TemporaryDirectory() as name, serve_files(Path(name)) as address:
        write_index(Path(name) / "index.yaml")
        size = (Path(name) / "index.yaml").stat().st_size / MEBIBYTE
        read = in_child(_read_index, address)
    title = f"chart: index of {size:.0f} MiB"
    yield Row(title=f"{title}, read, CPU s", value=read.seconds, at_most=INDEX_SECONDS)
    yield Row(title=f"{title}, read, peak memory of the process, MiB", value=read.peak, at_most=100, digits=0)
    title = f"chart: {POLLERS} BundleDeployments, one repository"
    yield Row(title=f"{title}, requests for its index per poll", value=read.asked, at_most=1, digits=0)
    yield Row(title=f"{title}, all polled, CPU s", value=read.polled_seconds, at_most=POLLED_SECONDS)


def requests() -> Iterator[Row]:
    """Requests to servers that behave."""
    yield from count()


# content


def make_text(seed: int, size: int) -> bytes:
    """Return text that compresses about as well as manifests."""
    words = ["spec", "template", "metadata", "labels", "container", "image", "value", "name", "port"]
    return " ".join(random.Random(seed).choices(words, k=size)).encode()[:size]  # noqa: S311 - no secret


def make_repository(folder: Path) -> None:
    """Make a repository of 400 folders with 50 files each; the first commit has half of them."""
    repository = GitRepository(folder)
    names = [f"part-{number // 50}/{number}.yaml" for number in range(20_000)]
    step = len(names) // 200
    for first in range(0, len(names), step):
        repository.commit({name: make_text(first, 1000) for name in names[first : first + step]})


def make_archive(path: Path) -> None:
    """Write 860 files of 1 MiB, of which gzip cannot compress 465 KiB."""
    noise = random.Random(1)  # noqa: S311 - no secret
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        for number in range(860):
            about = tarfile.TarInfo(f"manifests/{number}.yaml")
            about.size = MEBIBYTE
            packed.addfile(about, BytesIO(noise.randbytes(465 << 10).ljust(MEBIBYTE, b"x")))


# servers


@contextmanager
def serve_images(folder: Path) -> Iterator[RegistryClient]:
    with _run_registry(folder) as registry:
        yield RegistryClient(registry.host)


@contextmanager
def _run_registry(folder: Path) -> Iterator[Registry]:
    registry = Registry(folder, Binaries(read_settings(), builds=BUILDS).obtain(["registry"])["registry"])
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


# in a separate process


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    seconds: float
    peak: float
    """MiB of memory."""
    disk: float
    """MiB of the content, and of the scratch folder at the end."""


def _fetch(kind: str, parameters: Parameters) -> Fetched:
    """Resolve and fetch as the controller does, into a content store."""
    source, disk = source_of(kind), 0.0
    with tempfile.TemporaryDirectory() as folder, ContentStore(Path(folder)) as store, store.scratch() as scratch:

        def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
            store.put(
                source.content_key(parameters, resolution), lambda root: write_entries(entries, root, Limits(), "")
            )

        def work() -> None:
            access = _access(scratch, keep=keep)
            resolution = source.resolve(parameters, access)
            if store.get(source.content_key(parameters, resolution)) is None:
                keep(resolution, source.fetch(parameters, resolution, access))

        seconds = time_work(work, runs=1)
        disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / MEBIBYTE
    return Fetched(seconds=seconds, peak=peak_mebibytes(), disk=disk)


def _access(scratch: Path, **more: Any) -> Access:
    return Access(
        path="", deadline=time.monotonic() + FETCH_SECONDS, cancelled=threading.Event(), scratch=scratch, **more
    )


def _time_tar(layer: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return time_work(lambda: subprocess.run(["tar", "-xzf", str(layer), "-C", folder], check=True), runs=1)


def _resolve_again(kind: str, parameters: Parameters) -> float:
    source = source_of(kind)
    with tempfile.TemporaryDirectory() as scratch:
        first = source.resolve(parameters, _access(Path(scratch)))
        return time_work(lambda: source.resolve(parameters, _access(Path(scratch), previous=first)))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCost:
    seconds: float
    peak: float
    """MiB of memory, after it was read and polled."""
    asked: int
    """Requests for the index during a poll of all."""
    polled_seconds: float


def _read_index(address: str) -> IndexCost:
    """Resolve one chart as the controller does, then 100 of them as in a poll, eight at a time."""
    source, asked = source_of("chart"), 0

    def count(transport: Transport, *arguments: Any, **options: Any) -> Response:
        nonlocal asked
        asked += 1
        return send(transport, *arguments, **options)

    def poll(numbers: range) -> None:
        start = time.monotonic()  # what was asked for before it is too old
        time.sleep(POLL_SECONDS)

        def ask(number: int) -> None:
            parameters = {"repository": address, "name": f"chart-{number}", "version": ">=1.2 <1.9"}
            with tempfile.TemporaryDirectory() as folder:
                source.resolve(parameters, _access(Path(folder), max_age=time.monotonic() - start))

        with ThreadPoolExecutor(POLLERS_AT_ONCE) as pool:
            list(pool.map(ask, numbers))

    send = Transport.send
    with patch.object(Transport, "send", count):
        seconds = time_work(lambda: poll(range(1)), runs=1)
        asked = 0
        polled = time_work(lambda: poll(range(POLLERS)), runs=1)
    return IndexCost(seconds=seconds, peak=peak_mebibytes(), asked=asked, polled_seconds=polled)


def _time_calls(parameters: Parameters, secret: Mapping[str, str]) -> float:
    """Return the CPU seconds to validate, resolve and fetch once, after a first time."""
    source = source_of("image")
    known = Credentials(
        username=secret.get("username", ""),
        password=secret.get("password", ""),
        certificate_authority=secret.get("ca.crt", ""),
    )

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            access = _access(Path(folder), credentials=known)
            source.validate(parameters, "")
            for entry in source.fetch(parameters, source.resolve(parameters, access), access):
                entry.data.read(MEBIBYTE) if entry.data else None

    def work_repeatedly() -> None:
        for _ in range(CALLS):
            work()

    work()
    return time_work(work_repeatedly) / CALLS


if __name__ == "__main__":
    sys.exit(main())
