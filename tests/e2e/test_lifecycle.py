"""The story of an administrator: starting the controller, stopping it at any moment, and what it says to mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import pytest

from rukpak.controller.playground.processes import Process
from tests.support.bundles import Deployed, Manifest, World, config_map, new_name
from tests.support.controller import STOP_SECONDS
from tests.support.faulty_registry import FaultyRegistry
from tests.support.registry import pack

pytestmark = pytest.mark.long

COMMANDS = Path(sys.executable).parent
MANY = 300
"""Objects: enough for an install to be met in the middle."""
INTERRUPTED_AT = 40


# starting


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-m", "rukpak"], id="python -m rukpak"),
        pytest.param([COMMANDS / "rukpak", "run"], id="rukpak run"),
        pytest.param([COMMANDS / "kubectl-rukpak", "run"], id="kubectl rukpak run"),
    ],
)
def test_each_command_starts_from_a_kubeconfig_and_ends_on_sigterm(
    world: World, tmp_path: Path, command: list[str | Path]
) -> None:
    world.controller.stop()  # releases its Lease
    process = Process("rukpak", tmp_path, [*command, f"--kubeconfig={world.cluster.kubeconfig}"], settings_in(tmp_path))
    process.start()
    try:
        name = world.deploy(config_map("settings")).name
        world.cluster.kubectl("wait", "--for=condition=Ready", f"bd/{name}", "--timeout=30s")
        assert process.terminate(STOP_SECONDS) == 0, process.last_words()
    finally:
        process.kill()


# stopping


def many() -> list[Manifest]:
    return [config_map(f"c{number:03}") for number in range(MANY)]


def wait_until_in_the_middle(deployed: Deployed) -> dict[str, str]:
    """Wait until some of the objects are there, and return their versions."""

    def look() -> dict[str, str] | None:
        versions = deployed.versions()
        return versions if len(versions) >= INTERRUPTED_AT else None

    versions: dict[str, str] = deployed.wait(look, "some objects")
    return versions


def test_sigterm_in_the_middle_of_an_install_ends_it_in_time_and_the_next_start_completes_it(world: World) -> None:
    deployed = world.deploy(*many())
    before = wait_until_in_the_middle(deployed)
    assert len(before) < MANY
    world.controller.stop()
    world.controller.start()
    deployed.wait_ready()
    assert len(deployed.versions()) == MANY


@pytest.mark.thorough
def test_kill_9_in_the_middle_of_an_install_loses_nothing_and_applies_nothing_twice_with_effect(world: World) -> None:
    deployed = world.deploy(*many())
    wait_until_in_the_middle(deployed)
    world.controller.kill()
    before = deployed.versions()
    assert INTERRUPTED_AT <= len(before) < MANY
    world.controller.start()
    deployed.wait_ready()
    after = deployed.versions()
    assert len(after) == MANY
    assert before.items() <= after.items()


@pytest.fixture
def hanging_registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        registry.add_image("v1", pack({"manifests/a.json": b"{}"}))
        yield registry


@pytest.mark.repeats
@pytest.mark.parametrize(
    ("where", "trickle"),
    [
        pytest.param("/manifests/v1", "header", id="while it resolves"),
        pytest.param("/blobs/", "header", id="before it sends a layer"),
        pytest.param("/blobs/", "body", id="while it sends a layer"),
    ],
)
def test_sigterm_ends_it_in_time_while_a_registry_hangs(
    world: World, hanging_registry: FaultyRegistry, where: str, trickle: str
) -> None:
    hanging_registry.faults.where, hanging_registry.faults.trickle = where, trickle
    world.deploy(ref=f"{hanging_registry.host}/{new_name()}:v1")
    world.wait(lambda: any(where in path for _, path, _ in hanging_registry.requests), "a request that hangs")
    world.controller.stop()


# mistakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    options: list[str]
    status: int
    says: str
    environment: dict[str, str] = field(default_factory=dict)


MISTAKES = [
    Case(name="an option that there is not", options=["--what"], status=2, says="--what"),
    Case(name="a word too many", options=["now"], status=2, says="now"),
    Case(name="a number that is none", options=["--workers=x"], status=2, says="--workers"),
    Case(name="no workers", options=["--workers=0"], status=2, says="--workers"),
    Case(name="a level that there is not", options=["--log-level=loud"], status=2, says="--log-level"),
    Case(name="a wrong variable", options=[], environment={"RUKPAK_LOG_LEVEL": "loud"}, status=2, says="--log-level"),
    Case(name="a kubeconfig that is not there", options=["--kubeconfig=missing"], status=1, says='"missing"'),
    Case(name="a kubeconfig that is a folder", options=["--kubeconfig=."], status=1, says='"."'),
    Case(name="a kubeconfig that is none", options=["--kubeconfig=text"], status=1, says='"text"'),
]


@pytest.mark.repeats
@pytest.mark.parametrize("case", MISTAKES, ids=attrgetter("name"))
def test_a_mistake_is_told_without_a_traceback(case: Case, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no: [kubeconfig", encoding="utf-8")
    done = subprocess.run(
        [COMMANDS / "rukpak", "run", *case.options],
        cwd=tmp_path,
        env=os.environ | settings_in(tmp_path) | case.environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (case.status, "")
    told, *usage = done.stderr.splitlines()
    assert case.says in told
    assert usage == ['See "rukpak run --help" for usage'] * (case.status == 2)


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = tmp_path / "kubeconfig"
    config.write_text(KUBECONFIG, encoding="utf-8")
    done = subprocess.run(
        [COMMANDS / "rukpak", "run", f"--kubeconfig={config}", f"--store={tmp_path / 'file' / 'store'}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr
    assert len(done.stderr.splitlines()) == 1


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: a}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""


def settings_in(folder: Path) -> dict[str, str]:
    """Return variables for a controller of its own: others listen at the default ports."""
    addresses = dict.fromkeys(("RUKPAK_METRICS_ADDRESS", "RUKPAK_PROBE_ADDRESS"), "127.0.0.1:0")
    return {"RUKPAK_STORE": str(folder / "store"), **addresses}
