"""What is published: the wheel has what it needs and nothing else, reads well on an index, and works installed."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
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


def test_it_has_one_package_and_each_file_once(wheel: Path) -> None:
    """The folders `api` and `controller`, to which `rukpak` has links, are in it below `rukpak` and nowhere else."""
    tracked = subprocess.run(
        ["git", "ls-files", "api", "controller", "rukpak"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    files = {name.removeprefix("rukpak/") for name in tracked} - {"api", "controller"}
    files |= {f"controller/cli/{name}" for name in MANIFESTS}
    with zipfile.ZipFile(wheel) as archive:
        found = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert sorted(found) == sorted(f"rukpak/{name}" for name in files)


def test_from_the_source_distribution_the_same_wheel_is_built(wheel: Path, tmp_path: Path) -> None:
    """An archive need not have links."""
    command = [sys.executable, "-m", "hatchling", "build", "--target=sdist", f"--directory={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    again = build_wheel(tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path)
    assert members(again) == members(wheel)


@pytest.mark.parametrize("name", MANIFESTS)
def test_it_has_the_manifests_of_config(wheel: Path, name: str) -> None:
    assert read(wheel, f"rukpak/controller/cli/{name}") == (ROOT / "config" / name).read_text()


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
    where = run("python", "-c", "import rukpak.controller.cli; print(rukpak.controller.cli.__file__)")
    assert "/installed" in where, "not what is installed for development"
    run("python", "-c", "import rukpak.plugins")
    seen = run("python", "-c", "import importlib.util as u; print([u.find_spec(name) for name in ('hack', 'tests')])")
    assert seen == "[None, None]\n"
    assert run("rukpak", "version", "--client").startswith(f"Client:      {version('rukpak')} ")
    assert "source" in run("kubectl-rukpak", "--help")


def test_it_works_in_a_folder_that_has_packages_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    """As the repository of a plug-in may."""
    environment = make_environment(tmp_path / "venv", wheel)
    for name in ("api", "controller"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError\n", encoding="utf-8")
    environment.run("python", "-c", "import rukpak.plugins, rukpak.conformance", cwd=tmp_path)
    shown = environment.run("python", "-m", "rukpak", "version", "--client", cwd=tmp_path).stdout
    assert shown.startswith(f"Client:      {version('rukpak')} ")


def test_it_prints_what_it_would_install(run: Run) -> None:
    printed = run("rukpak", "install-controller", "--image=registry.example.com/rukpak:v9", "--output=yaml")
    assert printed.count('image: "registry.example.com/rukpak:v9"\n') == 1
    assert printed.count("\n---\n") == (ROOT / "config/install.yaml").read_text().count("\n---\n")


def test_the_playground_finds_its_files(run: Run) -> None:
    stages = run("python", "-c", "from rukpak.controller.playground.cluster import STAGES; print(STAGES.read_text())")
    assert stages.startswith("# What kwok does")
