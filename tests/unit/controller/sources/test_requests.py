"""How many requests each way to reach a source takes: what its protocol needs, and none more."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Entry, Resolution, Trusted
from rukpak.controller.building.entry_points import source_of
from tests.support.archives import tarball
from tests.support.charts import add_chart, repository_of
from tests.support.clock import Unwaited
from tests.support.cosigned import (
    make_bundle,
    make_key,
    make_message,
    make_payload,
    pem_of,
    sign,
    signed_bundle,
    store_bundle,
    store_simply,
)
from tests.support.faulty_registry import FaultyRegistry
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.private_sources import PASSWORD, USER, Authority
from tests.support.signing import SshKey, sign_commit
from tests.support.web_servers import FaultyServer

SECONDS = 60.0
FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}


class Asked(NamedTuple):
    """What one source sent."""

    resolved: int
    fetched: int
    polled: int


def ask_registry(
    folder: Path,
    *,
    tag: str = "v1",
    version_range: str = "",
    has_password: bool = False,
    wants_token: bool = False,
) -> Asked:
    (folder / "authority").mkdir()
    authority = Authority.make(folder / "authority")
    with FaultyRegistry(authority.server_context()) as registry:
        for each in ("v1", "1.0.0"):
            registry.add_image(each, tarball(("manifests/a.yaml", b"{}")))
        registry.wants_token = wants_token
        registry.logins = {USER: PASSWORD} if has_password else {}
        ref = f"{registry.host}/bundle" if version_range else f"{registry.host}/bundle:{tag}"
        parameters = {"ref": ref, "certificateData": authority.pem}
        if version_range:
            parameters["semver"] = version_range
        credentials = Credentials(username=USER, password=PASSWORD) if has_password else None
        return ask("image", parameters, folder, lambda: len(registry.requests), credentials)


def ask_signed(folder: Path, *, lists_referrers: bool = False, is_bundle: bool = False) -> Asked:
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
        ask("image", parameters, folder, lambda: len(registry.requests))
        return ask("image", parameters, folder, lambda: len(registry.requests))


def ask_charts(folder: Path) -> Asked:
    with FaultyServer() as server:
        for path, body in repository_of("web", "1.0.0", "1.1.0").items():
            server.add(path, body, tag='"1"' if path == "/index.yaml" else "")
        parameters = {"repository": server.address, "name": "web"}
        return ask("chart", parameters, folder, lambda: len(server.requests))


def ask_chart_registry(folder: Path) -> Asked:
    with FaultyRegistry() as registry:
        add_chart(registry, "web", "1.0.0")
        parameters = {"repository": f"oci://{registry.host}/charts", "name": "web", "version": "1.x"}
        return ask("chart", parameters, folder, lambda: len(registry.requests))


def ask_file(folder: Path, *, is_signed: bool = False) -> Asked:
    key, body = make_key(), b"kind: List\n"
    with FaultyServer() as server:
        server.add("/a.yaml", body, tag='"1"')
        message = make_message(key, hashlib.sha256(body).hexdigest())
        server.add("/a.yaml.sigstore.json", make_bundle(messageSignature=message))
        verify = {"verify": {"cosign": {"keys": [{"pem": pem_of(key)}]}}} if is_signed else {}
        return ask("http", {"url": f"{server.address}/a.yaml", **verify}, folder, lambda: len(server.requests))


def ask_git(folder: Path, *, is_signed: bool = False, **more: Any) -> Asked:
    with GitHttpServer(folder) as server:
        repository = GitRepository(folder / "shop.git", config=FORGE)
        repository.commit({"deploy/a.yaml": b"{}"})
        trusted = None
        if is_signed:
            key = SshKey.make(folder / "key")
            sign_commit(repository, key)
            trusted = Trusted(data={".secret": {"allowed_signers": key.allowed()}})
            more["verify"] = {"secret": {"name": "keys"}}
        parameters = {"repository": f"{server.url}/shop.git", "ref": "main", **more}
        return ask("git", parameters, folder, lambda: len(server.requests), trusted=trusted)


def ask(
    kind: str,
    parameters: Mapping[str, Any],
    folder: Path,
    count: Callable[[], int],
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
            cancelled=Unwaited(),
            scratch=Path(tempfile.mkdtemp(dir=folder)),
            credentials=credentials,
            trusted=trusted or Trusted(),
            **more,
        )

    def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
        kept.append(resolution)
        read(entries)

    counts, found = [count()], None
    with suppress(BundleError):
        found = source.resolve(parameters, access(keep=keep))
    counts.append(count())
    if found and not kept:
        read(source.fetch(parameters, found, access()))
    counts.append(count())
    with suppress(BundleError):
        source.resolve(parameters, access(keep=keep, previous=found))
    counts.append(count())
    return Asked(*(after - before for before, after in pairwise(counts)))


def read(entries: Iterator[Entry]) -> None:
    for entry in entries:
        while entry.data and entry.data.read(1 << 20):
            pass


class Case(NamedTuple):
    name: str
    ask: Callable[[Path], Asked]
    expect: Asked


# At most 3 more than without a signature, and none for a poll.
SIGNED = Asked(resolved=4, fetched=2, polled=1)
CASES = [
    Case("an image by tag", ask_registry, Asked(resolved=1, fetched=2, polled=1)),
    Case("an image, with a password", partial(ask_registry, has_password=True), Asked(2, 3, 2)),
    Case("an image, with a token server", partial(ask_registry, has_password=True, wants_token=True), Asked(3, 4, 3)),
    Case("an image by range", partial(ask_registry, version_range="1.x"), Asked(2, 2, 2)),
    # A GET decides after the HEAD.
    Case("an image that is missing", partial(ask_registry, tag="nope", has_password=True), Asked(4, 0, 4)),
    Case("an image, signed simply", ask_signed, SIGNED),
    Case("an image, signed simply, with referrers", partial(ask_signed, lists_referrers=True), SIGNED),
    Case("an image, signed by a bundle", partial(ask_signed, is_bundle=True), SIGNED),
    Case(
        "an image, signed by a bundle, with referrers",
        partial(ask_signed, is_bundle=True, lists_referrers=True),
        SIGNED,
    ),
    Case("a chart of an index", ask_charts, Asked(1, 1, 1)),
    Case("a chart of a registry, by range", ask_chart_registry, Asked(2, 1, 2)),
    Case("a file", ask_file, Asked(1, 0, 1)),
    Case("a file that is signed", partial(ask_file, is_signed=True), Asked(2, 0, 1)),
    Case("a branch", ask_git, Asked(2, 2, 2)),
    Case("a directory of a branch", partial(ask_git, directory="deploy"), Asked(2, 4, 2)),
    Case("a branch that is signed", partial(ask_git, is_signed=True), Asked(4, 2, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_servers_that_behave_get_no_request_more(case: Case, tmp_path: Path) -> None:
    found = case.ask(tmp_path)
    assert all(few <= most for few, most in zip(found, case.expect, strict=True)), found
