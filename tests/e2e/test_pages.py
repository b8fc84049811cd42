"""Pages of config/: every command is run as it stands there, in order, and what comes back is what the page shows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.playground.binaries import Binaries
from controller.playground.settings import Settings
from tests.support.bundles import ROOT, World, config_map
from tests.support.instructions import Step, pattern_of, read_steps, run
from tests.support.other_programs import UnavailableError, helm, obtain_oras
from tests.support.private_sources import PASSWORD, PrivateSources, serve_private_sources
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
CONFIG = ROOT / "config"


@pytest.fixture(scope="module")
def oras(settings: Settings) -> Path:
    try:
        return obtain_oras(settings)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def sources(tmp_path: Path, registry: LocalRegistry, binaries: Binaries) -> Iterator[PrivateSources]:
    folder = tmp_path / "servers"
    folder.mkdir()
    with serve_private_sources(folder, binaries.obtain(["registry"])["registry"], registry) as served:
        yield served


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """The folder in which a user works."""
    folder = tmp_path / "desk"
    folder.mkdir()
    return folder


@pytest.fixture
def terminal(world: World, binaries: Binaries, desk: Path) -> dict[str, str]:
    """The environment of a user of the cluster."""
    folders = [binaries.obtain(["kubectl"])["kubectl"].parent, Path(sys.executable).parent]
    return os.environ | {
        "KUBECONFIG": str(world.cluster.kubeconfig),
        "KUBECACHEDIR": str(desk.parent / "cache"),
        "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
    }


@pytest.fixture
def logged_in(terminal: dict[str, str], sources: PrivateSources, oras: Path, desk: Path) -> dict[str, str]:
    """The environment of a user who has a password of the registry, and trusts its authority."""
    (desk / "password.txt").write_text(PASSWORD, encoding="utf-8")
    (desk / "ca.crt").write_text(sources.authority.pem, encoding="ascii")
    return terminal | {
        "SSL_CERT_FILE": str(desk / "ca.crt"),
        "DOCKER_CONFIG": str(desk.parent / "docker"),
        "PATH": f"{oras.parent}{os.pathsep}{terminal['PATH']}",
    }


def follow(steps: list[Step], desk: Path, environment: dict[str, str], registry: str) -> None:
    for step in steps:
        said = run(step, desk, environment, registry)
        assert re.fullmatch(pattern_of(step.output), said), (step.command, said)


@pytest.mark.thorough
def test_a_bundle_is_published_installed_upgraded_and_rolled_back(
    world: World, logged_in: dict[str, str], sources: PrivateSources, desk: Path
) -> None:
    steps = read_steps(CONFIG / "bundles.md")
    try:
        follow(steps, desk, logged_in, sources.registry.host)
    finally:
        world.cluster.kubectl("delete", "bd", "shop", "--ignore-not-found")
        world.cluster.kubectl("delete", "namespace", "shop", "--ignore-not-found", "--wait=false")


@pytest.mark.thorough
def test_a_release_of_helm_is_adopted_without_touching_its_pods(
    world: World, logged_in: dict[str, str], sources: PrivateSources, desk: Path
) -> None:
    kubectl, kubeconfig = world.cluster.kubectl, world.cluster.kubeconfig
    helm("create", str(desk / "blog"))
    new = ["--namespace=blog", "--create-namespace", "--set=image.tag=1.27"]
    helm("install", "blog", str(desk / "blog"), *new, kubeconfig=kubeconfig)
    host = sources.registry.host
    run(Step(f"oras login {host} -u robot --password-stdin < password.txt", ""), desk, logged_in, host)
    files = ["--from-literal=username=robot", f"--from-file={desk}/ca.crt", f"--from-file=password={desk}/password.txt"]
    kubectl("create", "secret", "generic", "login", "--namespace=blog", *files)
    template = ("get", "deployment", "blog", "--namespace=blog", "--output=jsonpath={.metadata.uid} {.spec.template}")
    before = kubectl(*template)
    try:
        follow(read_steps(CONFIG / "migration.md"), desk, logged_in, host)
        assert kubectl(*template) == before
    finally:
        kubectl("delete", "bd", "blog", "--ignore-not-found")
        kubectl("delete", "namespace", "blog", "--ignore-not-found", "--wait=false")


@pytest.mark.thorough
def test_the_commands_of_the_runbooks_work(world: World, terminal: dict[str, str], desk: Path) -> None:
    world.deploy(config_map("settings"), paused=True).wait_for("Paused")
    steps = read_steps(CONFIG / "runbooks.md")
    assert len(steps) > 5
    for step in steps:
        said = run(step, desk, terminal, "none")
        assert not step.output or re.fullmatch(pattern_of(step.output), said)
