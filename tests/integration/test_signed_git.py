"""Signatures of commits and tags, read from a real git server: what is asked for, what is accepted, what is said."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from api.errors import BundleError
from api.plugins import Access, Resolution, Trusted
from api.v1alpha2.conditions import Reason
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.inside import source_of
from tests.support.signing import GpgHome, SshKey, gpg_home, sign_commit, sign_tag

PATH = "spec.sources[0].git"
SOURCE = source_of("git")
FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}


class Forge:
    """A repository, the server that serves it, and the keys that a Secret has."""

    def __init__(self, server: GitHttpServer, key: SshKey, config: dict[str, str]) -> None:
        self.server, self.key = server, key
        self.repository = GitRepository(server.root / "repo.git", config=config)
        self.unsigned = self.repository.commit({"deploy/a.yaml": b"a: 1\n"})
        self.secret = {"allowed_signers": key.allowed()}

    def sign(self) -> str:
        """Sign the commit of main, and return its new name."""
        return sign_commit(self.repository, self.key)

    def tag(self, name: str) -> str:
        return sign_tag(self.repository, self.key, name)

    def parameters(self, ref: str = "main", of: str = "Commit", **others: Any) -> dict[str, Any]:
        verify = {"secret": {"name": "keys"}, "object": of}
        return {"repository": f"{self.server.url}/repo.git", "ref": ref, "verify": verify, **others}

    def resolve(self, access: Access, parameters: dict[str, Any] | None = None) -> Resolution:
        trusted = Trusted(data={".secret": self.secret})
        return SOURCE.resolve(parameters or self.parameters(), replace(access, trusted=trusted))

    def fetches(self) -> int:
        """Return how many requests have fetched objects or listed refs."""
        return len([path for method, path, _ in self.server.requests if method == "POST"])


@pytest.fixture
def access(tmp_path: Path) -> Access:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Access(path=PATH, deadline=time.monotonic() + 60, cancelled=threading.Event(), scratch=scratch)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    yield from serve(tmp_path, FORGE)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Forge]:
    """A forge that serves branches and tags only, and always with all files."""
    for served in serve(tmp_path, {}):
        served.server.protocol_v2 = False
        yield served


def serve(folder: Path, config: dict[str, str]) -> Iterator[Forge]:
    with GitHttpServer(folder / "git") as server:
        yield Forge(server, SshKey.make(folder / "key"), config)


def refusal(call: Callable[[], object], reason: Reason = Reason.VERIFICATION_FAILED) -> str:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.reason is reason
    assert caught.value.message.startswith(f"{PATH}.verify")
    return caught.value.message


def kinds_of_objects(access: Access) -> set[str]:
    """Return what was fetched into the scratch folder."""
    every = ["git", f"--git-dir={access.scratch}/repository", "cat-file", "--batch-all-objects"]
    return set(subprocess.check_output([*every, "--batch-check=%(objecttype)"], text=True).split())


def test_a_signed_commit_is_resolved_before_any_file_is_fetched(forge: Forge, access: Access) -> None:
    commit = forge.sign()
    resolution = forge.resolve(access)
    assert (resolution.digest, resolution.reference) == (f"sha1:{commit}", "main")
    assert resolution.signer is not None
    assert (resolution.signer.by, resolution.signer.identity) == ("ssh", "shop@example.org")
    assert kinds_of_objects(access) == {"commit"}


def test_a_commit_that_gpg_has_signed(forge: Forge, access: Access, tmp_path_factory: pytest.TempPathFactory) -> None:
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as gpg:
        fingerprint = gpg.make_key()
        assert isinstance(gpg, GpgHome)
        sign_commit(forge.repository, gpg)
        forge.secret = {"shop.asc": gpg.export()}
    signer = forge.resolve(access).signer
    assert signer is not None
    assert (signer.by, signer.key, signer.identity) == ("pgp", fingerprint, "shop <shop@example.org>")


def test_an_unsigned_commit(forge: Forge, access: Access) -> None:
    message = refusal(lambda: forge.resolve(access))
    assert message == f"{PATH}.verify: the commit is not signed; sign it, or set object: Tag"
    assert kinds_of_objects(access) == {"commit"}


def test_a_commit_by_somebody_else(forge: Forge, access: Access, tmp_path: Path) -> None:
    sign_commit(forge.repository, SshKey.make(tmp_path / "other"))
    assert "an SSH key that allowed_signers does not have" in refusal(lambda: forge.resolve(access))


def test_a_secret_without_keys(forge: Forge, access: Access) -> None:
    forge.sign()
    forge.secret = {"password": b"x"}
    message = refusal(lambda: forge.resolve(access), Reason.INVALID_VERIFICATION)
    assert message.startswith(f"{PATH}.verify.secret: the Secret has no keys; add")


@pytest.mark.parametrize("ref", ["v1", "refs/tags/v1"])
def test_a_signed_tag_of_an_unsigned_commit(forge: Forge, access: Access, ref: str) -> None:
    forge.tag("v1")
    resolution = forge.resolve(access, forge.parameters(ref, "Tag"))
    assert resolution.digest == f"sha1:{forge.unsigned}"
    assert resolution.signer is not None
    assert kinds_of_objects(access) == {"commit", "tag"}
    assert "the commit is not signed" in refusal(lambda: forge.resolve(access, forge.parameters(ref, "Commit")))


def test_an_unsigned_tag_of_a_signed_commit(forge: Forge, access: Access) -> None:
    commit = forge.sign()
    forge.repository.tag("v1", commit)
    forge.repository.tag("v2", commit, annotated=False)
    assert forge.resolve(access, forge.parameters("v1", "Commit")).signer is not None
    assert "the tag is not signed" in refusal(lambda: forge.resolve(access, forge.parameters("v1", "Tag")))
    for ref in ("v2", "main", commit, commit[:12]):
        assert "ref is not an annotated tag" in refusal(partial(forge.resolve, access, forge.parameters(ref, "Tag")))


def test_the_tag_that_a_range_leads_to(forge: Forge, access: Access) -> None:
    parameters = forge.parameters("HEAD", "Tag", semver="1.x")
    forge.tag("v1.0.0")
    resolution = forge.resolve(access, parameters)
    assert (resolution.version, resolution.signer is not None) == ("v1.0.0", True)
    forge.repository.tag("v1.1.0", forge.unsigned)
    assert "the tag is not signed" in refusal(lambda: forge.resolve(access, parameters))
    polled = replace(access, previous=resolution)
    assert "the tag is not signed" in refusal(lambda: forge.resolve(polled, parameters))


def test_an_old_tag_that_is_served_as_a_newer_one(forge: Forge, access: Access) -> None:
    old = forge.tag("v1.0.0")
    forge.repository.git("update-ref", "refs/tags/v1.1.0", old)
    parameters = forge.parameters("HEAD", "Tag", semver="1.x")
    assert 'the tag was made as "v1.0.0"' in refusal(lambda: forge.resolve(access, parameters))


def test_a_server_that_serves_neither_commits_nor_parts(plain: Forge, access: Access) -> None:
    commit = plain.sign()
    plain.tag("v1")
    for parameters in (plain.parameters(), plain.parameters("v1", "Tag")):
        resolution = plain.resolve(access, parameters)
        assert (resolution.digest, resolution.signer is not None) == (f"sha1:{commit}", True)
    plain.repository.commit({"deploy/a.yaml": b"a: 2\n"})
    pinned = replace(access, pinned=replace(resolution, signer=None))
    assert plain.resolve(pinned).signer == resolution.signer


def test_a_poll_that_finds_the_same_commit_fetches_nothing(forge: Forge, access: Access) -> None:
    forge.sign()
    first = forge.resolve(access)
    asked = forge.fetches()
    assert forge.resolve(replace(access, previous=first)).signer is first.signer
    assert forge.fetches() == asked + 1  # the list of refs
    again = forge.resolve(replace(access, previous=replace(first, signer=None)))
    assert again.signer == first.signer


def test_with_another_verify_the_recorded_commit_is_checked(forge: Forge, access: Access) -> None:
    signed = forge.sign()
    first = forge.resolve(access)
    forge.repository.commit({"deploy/a.yaml": b"a: 2\n"})
    pinned = replace(access, pinned=replace(first, signer=None))
    assert forge.resolve(pinned).digest == f"sha1:{signed}"
    assert forge.resolve(pinned).signer == first.signer
    with pytest.raises(BundleError):
        forge.resolve(access)


def test_with_another_verify_the_recorded_tag_is_checked_if_it_has_not_moved(forge: Forge, access: Access) -> None:
    parameters = forge.parameters("HEAD", "Tag", semver="1.x")
    forge.tag("v1.0.0")
    first = forge.resolve(access, parameters)
    forge.repository.tag("v1.1.0", forge.unsigned)
    pinned = replace(access, pinned=replace(first, signer=None))
    assert forge.resolve(pinned, parameters).signer == first.signer
    forge.repository.commit({"deploy/a.yaml": b"a: 2\n"})
    forge.repository.git("tag", "-d", "v1.0.0")
    forge.tag("v1.0.0")
    assert '"v1.0.0" leads to another commit now' in refusal(lambda: forge.resolve(pinned, parameters))


def test_a_commit_that_the_server_no_longer_has(forge: Forge, access: Access) -> None:
    first = Resolution(pinned="x", digest="sha1:" + "1" * 40)
    with pytest.raises(BundleError) as caught:
        forge.resolve(replace(access, pinned=first))
    assert caught.value.reason is Reason.PINNED_CONTENT_GONE
