"""Signatures of commits and tags, read from a real git server: what is asked for, what is accepted, what is said.

And what becomes of a BundleDeployment whose commits are signed at some times, and at others not.
"""

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

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Resolution, Trusted
from rukpak.api.v1alpha2.conditions import Reason
from tests.support.bundles import Deployed, World, config_map, new_name
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.inside import source_of
from tests.support.private_sources import commit_bundle, secret_manifest
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
    assert forge.resolve(replace(access, previous=first, pinned=replace(first, signer=None))).signer is first.signer
    assert forge.fetches() == asked + 1
    again = forge.resolve(replace(access, previous=replace(first, signer=None)))
    assert again.signer == first.signer


def test_a_check_costs_two_requests_more(forge: Forge, access: Access) -> None:
    """Those of one git fetch; the list of refs is asked for anyway."""
    forge.sign()
    parameters = forge.parameters()
    SOURCE.resolve({**parameters, "verify": None}, access)
    unverified = len(forge.server.requests)
    forge.resolve(access, parameters)
    assert len(forge.server.requests) - 2 * unverified == 2


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


# on a cluster


def deploy(world: World, forge: Forge) -> Deployed:
    """Apply a BundleDeployment of main; its Secret is in its install namespace, and has no keys of SSH yet."""
    name = new_name()
    for body in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        secret_manifest(name, "keys", {"password": "x"}),
    ):
        folder = f"/api/v1/namespaces/{name}"
        path = folder if body["kind"] == "Namespace" else f"{folder}/secrets/keys"
        world.client.apply(path, body, manager="tests", force=True)
    source = {"kind": "git", "git": forge.parameters(directory="deploy")}
    return world.deploy(name=name, ref="none", sources=[source])


def give_keys(deployed: Deployed, forge: Forge) -> None:
    body = secret_manifest(deployed.namespace, "keys", {"allowed_signers": forge.key.allowed().decode()})
    deployed.client.apply(f"/api/v1/namespaces/{deployed.namespace}/secrets/keys", body, manager="tests", force=True)


def test_only_what_is_signed_is_installed_and_it_stays(world: World, forge: Forge) -> None:
    commit_bundle(forge.repository, config_map("settings", color="blue"))
    deployed = deploy(world, forge)
    message = deployed.wait_for("Unpacked", "False", "InvalidVerification")["message"]
    assert message.startswith(f"{PATH}.verify.secret: the Secret has no keys")
    give_keys(deployed, forge)
    deployed.wait_for("Unpacked", "False", "VerificationFailed", "the commit is not signed")
    assert deployed.data("settings") is None
    signed = forge.sign()
    deployed.request_reconcile("signed")
    [source] = deployed.wait_ready()["sources"]
    assert source["digest"] == f"sha1:{signed}"
    assert (source["verified"]["by"], source["verified"]["identity"]) == ("ssh", "shop@example.org")
    commit_bundle(forge.repository, config_map("settings", color="red"))
    deployed.request_reconcile("unsigned")
    deployed.wait_for("Unpacked", "False", "VerificationFailed", "the commit is not signed")
    deployed.edit("settings", color="green")
    world.wait(lambda: deployed.data("settings") == {"color": "blue"}, "what is installed is repaired")
    forge.sign()
    deployed.request_reconcile("signed again")
    world.wait(lambda: deployed.data("settings") == {"color": "red"}, "the signed commit is installed")


def test_a_verify_that_is_added_checks_the_commit_that_is_installed(world: World, forge: Forge) -> None:
    commit_bundle(forge.repository, config_map("settings", color="blue"))
    signed = forge.sign()
    deployed = deploy(world, forge)
    give_keys(deployed, forge)
    before = deployed.wait_ready()
    commit_bundle(forge.repository, config_map("settings", color="red"))
    git = forge.parameters(directory="deploy")
    deployed.change(sources=[{"kind": "git", "git": {**git, "verify": None}}])
    world.wait(lambda: "verified" not in deployed.status()["sources"][0], "nobody has signed it")
    deployed.change(sources=[{"kind": "git", "git": git}])
    world.wait(lambda: deployed.status()["sources"][0].get("verified"), "its signature is checked")
    after = deployed.wait_ready()
    assert after["sources"][0]["digest"] == f"sha1:{signed}"
    assert after["installedRevision"] == before["installedRevision"]
