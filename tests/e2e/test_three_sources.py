"""The story of the API's authors: the YAML of the first proposal, with addresses and Secrets that there are."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import DEPLOYMENTS, Deployed, Manifest, World, new_world
from tests.support.git_servers import GitRepository
from tests.support.private_sources import BASIC, FORGE, PrivateSources, secret_manifest, serve_private_sources
from tests.support.registry import LocalRegistry, pack

PROPOSAL = Path(__file__).resolve().parents[2] / "config" / "samples" / "proposal.yaml"
NAMESPACES = ("ns", "foo")


@pytest.fixture
def sources(tmp_path: Path, registry: LocalRegistry, binaries: Binaries) -> Iterator[PrivateSources]:
    with serve_private_sources(tmp_path, binaries.obtain(["registry"])["registry"], registry) as started:
        yield started


@pytest.fixture
def world(kwok_cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    options = [f"--secret-namespaces={','.join(NAMESPACES)}"]
    with new_world(kwok_cluster, registry, settings.running, *options) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


@pytest.fixture
def _secrets(world: World, sources: PrivateSources) -> Iterator[None]:
    secrets = {
        "ns/n": (sources.docker_config, "kubernetes.io/dockerconfigjson"),
        "foo/my-git-creds": (sources.basic, "kubernetes.io/basic-auth"),
        "foo/my-https-creds": (sources.basic, "Opaque"),
    }
    for name in NAMESPACES:
        world.cluster.kubectl("create", "namespace", name)
    for secret, (values, kind) in secrets.items():
        namespace, _, name = secret.partition("/")
        body = secret_manifest(namespace, name, values, kind)
        world.client.apply(f"/api/v1/namespaces/{namespace}/secrets/{name}", body, manager="tests", force=True)
    yield
    world.cluster.kubectl("delete", "namespace", *NAMESPACES)


def bundle(origin: str) -> dict[str, bytes]:
    """Return the files of a bundle of one ConfigMap; no name is there twice, since two sources share a destination."""
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: from-{origin}}}\ndata: {{origin: {origin}}}\n"
    return {f"manifests/{origin}.yaml": text.encode()}


def fill(sources: PrivateSources) -> dict[str, str]:
    """Put something everywhere; return what stands for what in the proposal."""
    digest = sources.public.push_image("foo/bar", "v1", [bundle("image")])
    repository = GitRepository(sources.git.root / "foo" / "bar.git", config=FORGE)
    commit = repository.commit({str(path): data for path, data in bundle("git").items()})
    sources.files.add("/path/to/some/tar.gz", gzip.compress(pack(bundle("http"))), authorization=BASIC)
    return {
        "foo/bar@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08": (
            f"{sources.registry.host}/foo/bar@{digest}"
        ),
        "https://github.com/foo/bar": f"{sources.git.url}/foo/bar.git",
        "ref: a3b1dff2": f'ref: "{commit[:8]}"',
        "https://path/to/some/tar.gz": f"{sources.files.address}/path/to/some/tar.gz",
    }


def origins(world: World) -> dict[str, Manifest]:
    names = [f"from-{origin}" for origin in ("image", "git", "http")]
    found = world.client.list("/api/v1/namespaces/default/configmaps")
    return {value["metadata"]["name"]: value["data"] for value in found if value["metadata"]["name"] in names}


@pytest.mark.usefixtures("_secrets")
def test_the_first_proposal_is_installed_from_three_private_sources(
    world: World, sources: PrivateSources, tmp_path: Path
) -> None:
    text = PROPOSAL.read_text(encoding="utf-8")
    for written, real in fill(sources).items():
        assert text.count(written) == 1
        text = text.replace(written, real)
    (tmp_path / "foo.yaml").write_text(text, encoding="utf-8")

    world.cluster.kubectl("apply", "-f", str(tmp_path / "foo.yaml"))
    deployed = Deployed(client=world.client, name="foo", ref="", wait=world.wait)
    status = deployed.wait_ready()

    assert [(pin["kind"], pin["destination"]) for pin in status["sources"]] == [
        ("image", "foo/bar"),
        ("git", "foo/moo"),
        ("http", "foo/bar"),
    ]
    assert origins(world) == {f"from-{origin}": {"origin": origin} for origin in ("image", "git", "http")}
    world.client.delete(f"{DEPLOYMENTS}/foo")
    deployed.wait_gone()
    assert origins(world) == {}
