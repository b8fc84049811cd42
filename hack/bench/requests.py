"""How many requests sources send to servers that behave: no more than they need, whatever else is read.

Counted by the servers, each call as the controller makes it: with new connections, and logged in again.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Credentials, Entry, Resolution
from controller.build.plugins import source_of
from hack.bench.rows import Row
from tests.support.chart_repositories import add_chart, repository_of
from tests.support.faulty_registry import FaultyRegistry
from tests.support.faulty_server import FaultyServer
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.registries import PASSWORD, USER, Authority
from tests.support.tarballs import tarball

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
        yield from _rows("chart of an index", _ask_charts(folder), Asked(resolved=1, fetched=1, polled=1))
        in_registry = Asked(resolved=2, fetched=1, polled=2)
        yield from _rows("chart of a registry by range", _ask_chart_registry(folder), in_registry)
        yield from _rows("file over http", _ask_file(folder), Asked(resolved=1, fetched=0, polled=1))
        yield from _rows("git, a branch", _ask_git(folder, {}), Asked(resolved=2, fetched=2, polled=2))
        directory = {"directory": "deploy"}
        yield from _rows("git, a directory", _ask_git(folder, directory), Asked(resolved=2, fetched=4, polled=2))


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
