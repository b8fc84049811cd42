"""What is published: the wheel has what it needs and nothing else, reads well on an index, and works installed."""

from __future__ import annotations

import email
import re
import subprocess
import zipfile
from collections.abc import Callable
from email.message import Message
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.bundles import ROOT
from tests.support.packages import build_wheel, make_environment

REPOSITORY = "https://github.com/example/rukpak"
MANIFESTS = ("install.yaml", "install-restricted.yaml")
Run = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as the release builds it."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("dist"), RUKPAK_REPOSITORY=REPOSITORY)


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def read(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


@pytest.fixture
def metadata(wheel: Path) -> Message:
    return email.message_from_string(read(wheel, f"rukpak-{version('rukpak')}.dist-info/METADATA"))


def test_it_has_the_packages_and_nothing_else(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "api", "controller", "rukpak"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    found = {name for name in members(wheel) if ".dist-info/" not in name}
    assert found == {*tracked, *(f"controller/cli/{name}" for name in MANIFESTS)}


@pytest.mark.parametrize("name", MANIFESTS)
def test_it_has_the_manifests_of_config(wheel: Path, name: str) -> None:
    assert read(wheel, f"controller/cli/{name}") == (ROOT / "config" / name).read_text()


def test_its_description_has_no_relative_links(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"src(?:set)?=\"([^\"]+)\"", text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    release = f"{REPOSITORY}/blob/v{version('rukpak')}"
    ours = [link.removeprefix(f"{release}/").partition("#")[0] for link in links if link.startswith(release)]
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_it_names_the_repository_and_what_it_needs(metadata: Message) -> None:
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert urls["Source"] == REPOSITORY
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Metadata-Version"] == "2.4", "twine knows no newer one"


@pytest.fixture(scope="module")
def run(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program of an environment that has the wheel, and its dependencies from the environment of the tests."""
    environment = make_environment(tmp_path_factory.mktemp("installed") / "venv", wheel)
    return lambda program, *words: environment.run(program, *words).stdout


def test_the_program_runs_from_it(run: Run) -> None:
    where = run("python", "-c", "import controller.cli; print(controller.cli.__file__)")
    assert "/installed" in where, "not what is installed for development"
    run("python", "-c", "import rukpak.plugins")
    seen = run("python", "-c", "import importlib.util as u; print([u.find_spec(name) for name in ('hack', 'tests')])")
    assert seen == "[None, None]\n"
    assert run("rukpak", "version", "--client").startswith(f"Client:      {version('rukpak')} ")
    assert "source" in run("kubectl-rukpak", "--help")


def test_it_prints_what_it_would_install(run: Run) -> None:
    printed = run("rukpak", "install-controller", "--image=registry.example.com/rukpak:v9", "--output=yaml")
    assert printed.count('image: "registry.example.com/rukpak:v9"\n') == 1
    assert printed.count("\n---\n") == (ROOT / "config/install.yaml").read_text().count("\n---\n")


def test_the_playground_finds_its_files(run: Run) -> None:
    stages = run("python", "-c", "from controller.playground.components import STAGES; print(STAGES.read_text())")
    assert stages.startswith("# What kwok does")
