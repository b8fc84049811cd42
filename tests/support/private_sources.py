"""Sources that require credentials, one of each kind, over TLS: a registry, git repositories, files.

All have certificates of one authority that only the tests know; user and password are the same everywhere.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.bundles import Manifest, bundle_of
from tests.support.faulty_server import FaultyServer
from tests.support.git_servers import Content, GitHttpServer, GitRepository
from tests.support.registries import PASSWORD, USER, Authority, GuardedRegistry, password_auth
from tests.support.registry import Files, LocalRegistry, pack

BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}


@dataclass(frozen=True, kw_only=True)
class PrivateSources:
    """The servers. What they hold is put there by `put_image`, `put_repository` and `put_file`."""

    authority: Authority
    public: LocalRegistry
    """Takes what `registry` serves."""
    registry: GuardedRegistry
    git: GitHttpServer
    files: FaultyServer

    def put_image(self, name: str, *manifests: Manifest) -> str:
        """Push a bundle; return its digest."""
        return self.public.push_image(name, "v1", [bundle_of(*manifests)])

    def put_repository(self, name: str, *manifests: Manifest) -> GitRepository:
        """Make a repository with a bundle in the directory `deploy` of its branch main."""
        repository = GitRepository(self.git.root / f"{name}.git", config=FORGE)
        commit_bundle(repository, *manifests)
        return repository

    def put_file(self, name: str, *manifests: Manifest, tag: str = '"1"', **faults: Any) -> bytes:
        """Put an archive of a bundle there; return it."""
        body = archive_of(*manifests)
        self.files.add(f"/{name}.tar.gz", body, **{"tag": tag, "authorization": BASIC, **faults})
        return body

    def put_files(self, name: str, committed: Files, archived: Files) -> None:
        """Make a repository of files at its root, and an archive of others, under one name."""
        repository = GitRepository(self.git.root / f"{name}.git", config=FORGE)
        repository.commit({str(path): data for path, data in committed.items()})
        self.files.add(f"/{name}.tar.gz", gzip.compress(pack(archived), mtime=0), authorization=BASIC)

    # entries of spec.sources

    def image(self, name: str, secret: Mapping[str, str] | None, **block: Any) -> Manifest:
        return _entry("image", {"ref": f"{self.registry.host}/{name}:v1"}, secret, block)

    def repository(self, name: str, secret: Mapping[str, str] | None, **block: Any) -> Manifest:
        address = {"repository": f"{self.git.url}/{name}.git", "ref": "main", "directory": "deploy"}
        return _entry("git", address, secret, block)

    def file(self, name: str, secret: Mapping[str, str] | None, **block: Any) -> Manifest:
        return _entry("http", {"url": f"{self.files.address}/{name}.tar.gz"}, secret, block)

    # what Secrets hold

    @property
    def basic(self) -> dict[str, str]:
        """Of use everywhere."""
        return {"username": USER, "password": PASSWORD, "ca.crt": self.authority.pem}

    @property
    def docker_config(self) -> dict[str, str]:
        """As `kubectl create secret docker-registry` makes it, and the authority."""
        auths = {self.registry.host: {"username": USER, "password": PASSWORD}}
        return {".dockerconfigjson": json.dumps({"auths": auths}), "ca.crt": self.authority.pem}


def _entry(
    kind: str, address: Mapping[str, Any], secret: Mapping[str, str] | None, block: Mapping[str, Any]
) -> Manifest:
    auth = {"auth": {"secret": dict(secret)}} if secret else {}
    return {"kind": kind, kind: {**address, **auth, **block}}


def archive_of(*manifests: Manifest) -> bytes:
    """Return a bundle as tar.gz."""
    return gzip.compress(pack(bundle_of(*manifests)), mtime=0)


def commit_bundle(repository: GitRepository, *manifests: Manifest, branch: str = "main") -> str:
    """Commit a bundle; return the name of the commit."""
    files: dict[str | bytes, Content] = {f"deploy/{path}": data for path, data in bundle_of(*manifests).items()}
    return repository.commit(files, branch=branch)


def secret_manifest(namespace: str, name: str, values: Mapping[str, str], kind: str = "Opaque") -> Manifest:
    """Return a Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": kind,
        "metadata": {"namespace": namespace, "name": name},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


@contextmanager
def serve_private_sources(folder: Path, program: Path, public: LocalRegistry) -> Iterator[PrivateSources]:
    """Start the servers.

    Args:
        folder: of everything; empty.
        program: the registry.
        public: registry that takes the content.
    """
    for name in ("authority", "registry", "git"):
        (folder / name).mkdir()
    authority = Authority.make(folder / "authority")
    guard = password_auth(folder / "registry")
    with (
        GuardedRegistry(folder / "registry", program, public.content, authority, guard) as registry,
        GitHttpServer(folder / "git", authority.server_context()) as git,
        FaultyServer(authority.server_context()) as files,
    ):
        git.wants_basic(USER, PASSWORD)
        yield PrivateSources(authority=authority, public=public, registry=registry, git=git, files=files)
