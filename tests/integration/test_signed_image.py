"""Images that the real cosign has signed, in real registries: in each way in which it stores signatures.

CNCF's registry does not list what refers to an image, so that is in an index at a tag; go-containerregistry's does.

And what becomes of a BundleDeployment whose image moves on without a signature, or whose registry is in trouble.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Signer, Trusted
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.processes import Process, free_ports, wait_for
from rukpak.controller.playground.programs import Settings, read_settings
from tests.support.bundles import Deployed, World, bundle_of, config_map, new_name
from tests.support.cosigned import make_key, pem_of, signed_bundle, store_bundle
from tests.support.faulty_registry import Faults, FaultyRegistry
from tests.support.inside import source_of
from tests.support.other_programs import (
    COSIGN_VERSION,
    OLDER_COSIGN_VERSION,
    UnavailableError,
    build_registry,
    obtain_cosign,
    obtain_oras,
)
from tests.support.private_sources import secret_manifest
from tests.support.registry import LocalRegistry, RegistryClient, pack

pytestmark = pytest.mark.long

PATH = "spec.sources[0].image"
PROVENANCE = "https://slsa.dev/provenance/v1"
SOURCE = source_of("image")


@dataclass(frozen=True, kw_only=True)
class Cosign:
    """The program, with a key pair."""

    program: Path
    folder: Path
    simply: tuple[str, ...]
    """Options for simple signing, without a transparency log."""
    as_bundle: tuple[str, ...]
    """Options for bundles, without a transparency log."""

    @property
    def as_referrer(self) -> tuple[str, ...]:
        """Options for simple signing in an artifact that refers to the image, without a transparency log."""
        return (*self.simply, "--registry-referrers-mode=oci-1-1")

    def run(self, *arguments: str) -> None:
        environment = {**os.environ, "COSIGN_PASSWORD": "", "COSIGN_EXPERIMENTAL": "1", "HOME": str(self.folder)}
        command = [str(self.program), *arguments]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def sign(self, reference: str, *options: str) -> None:
        self.run("sign", "--yes", "--key=cosign.key", "--allow-http-registry", *options, reference)

    def attest(self, reference: str, *options: str) -> None:
        (self.folder / "predicate.json").write_text("{}", encoding="utf-8")
        predicate = ("--predicate=predicate.json", f"--type={PROVENANCE}")
        self.run("attest", "--yes", "--key=cosign.key", "--allow-http-registry", *predicate, *options, reference)

    @property
    def public_key(self) -> bytes:
        return (self.folder / "cosign.pub").read_bytes()


WITHOUT_LOG = ("--tlog-upload=false",)
LINES = [
    pytest.param(COSIGN_VERSION, id="cosign 3"),
    pytest.param(
        OLDER_COSIGN_VERSION,
        id="cosign 2",
        marks=pytest.mark.skipif(
            not os.environ.get("RUKPAK_OLDER_COSIGN"), reason="its build takes 10 minutes; set RUKPAK_OLDER_COSIGN=1"
        ),
    ),
]


@pytest.fixture(scope="module", params=LINES)
def cosign(request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Cosign:
    try:
        program = obtain_cosign(settings, request.param, may_build=request.config.getoption("--all"))
    except UnavailableError as error:
        pytest.skip(f"no cosign: {error}")
    is_older = request.param == OLDER_COSIGN_VERSION
    plain = WITHOUT_LOG if is_older else ("--use-signing-config=false", *WITHOUT_LOG)
    made = Cosign(
        program=program,
        folder=tmp_path_factory.mktemp("cosign"),
        simply=(*plain, *(() if is_older else ("--new-bundle-format=false",))),
        as_bundle=(*plain, *(("--new-bundle-format=true",) if is_older else ())),
    )
    made.run("generate-key-pair")
    return made


@pytest.fixture(scope="module")
def stranger(cosign: Cosign, tmp_path_factory: pytest.TempPathFactory) -> Cosign:
    """The same program, with another key pair."""
    made = replace(cosign, folder=tmp_path_factory.mktemp("stranger"))
    made.run("generate-key-pair")
    return made


@pytest.fixture(scope="module")
def listing(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryClient]:
    """A registry that lists what refers to an image."""
    try:
        program = build_registry()
    except UnavailableError as error:
        pytest.skip(f"the registry cannot be built: {error}")
    (port,) = free_ports(1)
    host = f"127.0.0.1:{port}"
    process = Process("registry", tmp_path_factory.mktemp("registry"), [program, host])
    process.start()
    try:
        wait_for(lambda: is_listening(port), 30, process.last_words)
        yield RegistryClient(host)
    finally:
        process.kill()


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=["by tag", "by API"])
def either(request: pytest.FixtureRequest) -> RegistryClient:
    """A registry that does not list what refers to an image, and one that does."""
    found: RegistryClient = request.getfixturevalue("registry" if request.param == "by tag" else "listing")
    return found


@pytest.fixture
def repository() -> str:
    return f"signed-image/{uuid.uuid4().hex[:10]}"


@pytest.fixture
def access(cosign: Cosign, tmp_path: Path) -> Access:
    keys = Trusted(data={".cosign.keys[0].secret": {"cosign.pub": cosign.public_key}})
    deadline = time.monotonic() + 60
    return Access(path=PATH, deadline=deadline, cancelled=threading.Event(), scratch=tmp_path, trusted=keys)


def parameters(reference: str, **cosign: Any) -> dict[str, Any]:
    return {"ref": reference, "verify": {"cosign": {"keys": [{"secret": {"name": "keys"}}], **cosign}}}


def resolve(reference: str, access: Access, **cosign: Any) -> Signer:
    signer = SOURCE.resolve(parameters(reference, **cosign), access).signer
    assert signer is not None
    return signer


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.reason is Reason.VERIFICATION_FAILED
    return caught.value.message


@pytest.mark.parametrize("form", ["simply", "as_referrer", "as_bundle"])
def test_what_cosign_has_signed_is_accepted(
    form: str, cosign: Cosign, repository: str, either: RegistryClient, access: Access
) -> None:
    digest = either.push_image(repository, "v1", [bundle_of(config_map("settings"))])
    name = f"{either.host}/{repository}"
    assert "has no signature; sign it with cosign" in refusal(partial(resolve, f"{name}:v1", access))
    cosign.sign(f"{name}@{digest}", *getattr(cosign, form))
    signer = resolve(f"{name}:v1", access)
    assert (signer.by, signer.key[:7]) == ("cosign", "sha256:")
    stranger = Trusted(data={".cosign.keys[0].secret": {"cosign.pub": pem_of(make_key()).encode()}})
    other = replace(access, trusted=stranger)
    assert "none of the keys has made the signature" in refusal(partial(resolve, f"{name}:v1", other))


@pytest.mark.parametrize("form", ["simply", "as_bundle"])
def test_an_attestation_that_cosign_has_made_is_accepted_beside_a_signature(
    form: str, cosign: Cosign, repository: str, registry: LocalRegistry, access: Access
) -> None:
    digest = registry.push_image(repository, "v1", [bundle_of(config_map("settings"))])
    name, options = f"{registry.host}/{repository}", getattr(cosign, form)
    cosign.attest(f"{name}@{digest}", *options)
    refusal(partial(resolve, f"{name}:v1", access))
    cosign.sign(f"{name}@{digest}", *options)
    assert resolve(f"{name}:v1", access, attestation=PROVENANCE).by == "cosign"
    assert "has no attestation" in refusal(partial(resolve, f"{name}:v1", access, attestation="https://example.com/x"))


@pytest.mark.parametrize("form", ["as_referrer", "as_bundle"])
def test_a_signature_is_found_beside_a_bundle_by_another_key(
    form: str, cosign: Cosign, stranger: Cosign, either: RegistryClient, access: Access
) -> None:
    repository = new_name()
    digest = either.push_image(repository, "v1", [bundle_of(config_map("settings"))])
    name = f"{either.host}/{repository}"
    stranger.sign(f"{name}@{digest}", *stranger.as_bundle)
    refusal(partial(resolve, f"{name}:v1", access))
    cosign.sign(f"{name}@{digest}", *getattr(cosign, form))
    assert resolve(f"{name}:v1", access).by == "cosign"


@pytest.mark.parametrize("form", ["simply", "as_referrer"])
def test_an_image_that_was_copied_with_its_signature_is_signed_as_what_it_was(
    form: str, cosign: Cosign, registry: LocalRegistry, listing: RegistryClient, access: Access
) -> None:
    """By the programs with which that is done: `cosign copy`, and `oras copy` for what refers to the image."""
    repository = new_name()
    signed, copied = f"{registry.host}/{repository}", f"{listing.host}/copies/{repository}"
    digest = registry.push_image(repository, "v1", [bundle_of(config_map("settings"))])
    cosign.sign(f"{signed}@{digest}", *getattr(cosign, form))
    copy(form, cosign, f"{signed}:v1", f"{copied}:v1")
    assert "verify.cosign.signedAs" in refusal(partial(resolve, f"{copied}:v1", access))
    assert resolve(f"{copied}:v1", access, signedAs=signed).by == "cosign"
    refusal(partial(resolve, f"{copied}:v1", access, signedAs=f"{signed}/other"))


def copy(form: str, cosign: Cosign, source: str, target: str) -> None:
    if form == "simply":
        cosign.run("copy", "--allow-http-registry", source, target)
        return
    try:
        oras = obtain_oras(read_settings())
    except UnavailableError as error:
        pytest.skip(f"oras cannot be built: {error}")
    options = ("--recursive", "--from-plain-http", "--to-plain-http")
    subprocess.run([oras, "copy", *options, source, target], check=True, capture_output=True)


@pytest.mark.parametrize("form", ["simply", "as_bundle"])
def test_an_index_is_signed_by_itself(
    form: str, cosign: Cosign, repository: str, registry: LocalRegistry, access: Access
) -> None:
    layers = [bundle_of(config_map("settings"))]
    digest = registry.push_index(repository, "v1", {"linux/amd64": layers, "linux/arm64": layers})
    name = f"{registry.host}/{repository}"
    cosign.sign(f"{name}@{digest}", *getattr(cosign, form))
    assert resolve(f"{name}:v1", access).by == "cosign"
    image = registry.push_image(repository, "image", layers)
    refusal(partial(resolve, f"{name}@{image}", access))


# on a cluster

KEY = make_key()


@pytest.fixture
def troubled() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        yield registry


def push(registry: FaultyRegistry, color: str, *, is_signed: bool) -> str:
    digest = registry.add_image("v1", pack(bundle_of(config_map("settings", color=color))))
    if is_signed:
        store_bundle(registry, digest, signed_bundle(KEY, digest))
    return digest


def deploy(world: World, registry: FaultyRegistry, **source: Any) -> Deployed:
    name = new_name()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    world.client.apply(f"/api/v1/namespaces/{name}", namespace, manager="tests", force=True)
    keys = secret_manifest(name, "keys", {"shop.pub": pem_of(KEY)})
    world.client.apply(f"/api/v1/namespaces/{name}/secrets/keys", keys, manager="tests", force=True)
    image = parameters(f"{registry.host}/shop/app:v1")
    return world.deploy(name=name, ref="none", sources=[{"kind": "image", "image": image, **source}])


def test_a_poll_that_finds_what_nobody_has_signed_keeps_what_is_installed_and_says_so(
    world: World, troubled: FaultyRegistry
) -> None:
    signed = push(troubled, "blue", is_signed=True)
    deployed = deploy(world, troubled, pollInterval="30s")
    [before] = deployed.wait_ready()["sources"]
    assert (before["digest"], before["verified"]["by"]) == (signed, "cosign")
    unsigned = push(troubled, "red", is_signed=False)
    message = deployed.wait_for("Unpacked", "False", "VerificationFailed")["message"]
    assert message == f"{PATH}.verify: {unsigned} has no signature; sign it with cosign"
    status = deployed.wait_ready()
    assert status["sources"] == [before]
    deployed.edit("settings", color="green")
    world.wait(lambda: deployed.data("settings") == {"color": "blue"}, "what is installed is repaired")
    store_bundle(troubled, unsigned, signed_bundle(KEY, unsigned))
    deployed.request_reconcile("signed")
    world.wait(lambda: deployed.data("settings") == {"color": "red"}, "what is signed now is installed")


def test_a_signature_that_cannot_be_read_is_tried_again(world: World, troubled: FaultyRegistry) -> None:
    push(troubled, "blue", is_signed=True)
    troubled.faults = Faults(where="/blobs/", status=503, headers={"Retry-After": "1"})
    deployed = deploy(world, troubled)
    deployed.wait_for("Unpacked", "False", "VerificationUnavailable", "the signature cannot be read")
    assert deployed.data("settings") is None
    troubled.faults = Faults()
    assert deployed.wait_ready()["sources"][0]["verified"]["by"] == "cosign"
