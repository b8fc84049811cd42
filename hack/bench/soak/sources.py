"""The servers of the versions, over failing networks: a registry, git over http, and a file server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hack.bench.soak.contents import VERSIONS, manifests
from hack.bench.soak.network import FailingNetwork
from tests.support.file_server import FileServer
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.registry import Files, RegistryClient, pack

REPOSITORY = "soak"
KINDS = ("image", "git", "http")


class Sources:
    """All versions, at one server for each kind of source.

    Args:
        networks: the way to each server, by kind.
    """

    def __init__(self, networks: Mapping[str, FailingNetwork]) -> None:
        self._networks = networks

    def entry(self, kind: str, version: str) -> dict[str, Any]:
        """Return the entry of spec.sources that fetches a version."""
        host = self._networks[kind].host
        match kind:
            case "image":
                return {"kind": kind, kind: {"ref": f"{host}/{REPOSITORY}:{version}"}}
            case "git":
                return {"kind": kind, kind: {"repository": f"http://{host}/{REPOSITORY}.git", "ref": version}}
            case _:
                return {"kind": kind, kind: {"url": f"http://{host}/{version}.tar.gz"}}

    def fail(self, *, failing: bool) -> None:
        """Let the networks fail from now on, or no longer."""
        for network in self._networks.values():
            network.fail(failing=failing)


@contextmanager
def serve_sources(folder: Path, registry: RegistryClient, seed: int) -> Iterator[Sources]:
    """Serve all versions until the end of the block.

    Args:
        folder: for the git repository.
        registry: that the images are pushed to.
        seed: of the failures of the networks.
    """
    repository, files = GitRepository(folder / f"{REPOSITORY}.git"), FileServer()
    for version in VERSIONS:
        content = _files(version)
        registry.push_image(REPOSITORY, version, [content])
        repository.tag(version, repository.commit(dict(content.items()), orphan=True))
        files.files[f"/{version}.tar.gz"] = gzip.compress(pack(content), mtime=0)
    with ExitStack() as stack:
        git = stack.enter_context(GitHttpServer(folder))
        stack.enter_context(files.serving())
        hosts = {"image": registry.host, "git": urlsplit(git.url).netloc, "http": urlsplit(files.address).netloc}
        networks = {kind: stack.enter_context(FailingNetwork(host, seed)) for kind, host in hosts.items()}
        yield Sources(networks)


def _files(version: str) -> Files:
    return {f"manifests/{number}.json": json.dumps(each).encode() for number, each in enumerate(manifests(version))}
