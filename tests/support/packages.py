"""Environments in which RukPak and packages of plug-ins are installed as users install them: wheels, by pip.

They see nothing of the repository, neither its folders nor what is installed from it for development. Dependencies are
those of the environment that runs the tests, so pip fetches nothing, and refuses a package that needs anything else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.support.bundles import ROOT
from tests.support.controller import Controller

_PIP = ("pip", "--disable-pip-version-check")
_OF_REPOSITORY = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment."""

    folder: Path

    def program(self, name: str) -> Path:
        """Return the path of a program that a package has brought: `rukpak`, `python`."""
        return self.folder / "bin" / name

    def run(
        self,
        program: str,
        *words: str,
        status: int | None = 0,
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and assert its exit status, unless that is None.

        Args:
            program: of this environment.
            words: its arguments.
            status: expected.
            cwd: outside of the repository.
            variables: of its environment, such as KUBECONFIG.
        """
        done = subprocess.run(
            [str(self.program(program)), *words],
            cwd=cwd or self.folder, env=self._variables(variables or {}), capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # without a terminal, or questions would wait for an answer
        )  # fmt: skip
        assert status is None or done.returncode == status, done.stdout + done.stderr
        return done

    def test(
        self, package: Path, *words: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the tests of an installed package from a copy of them that has no module beside it."""
        copy = self.folder / "tests-of" / package.name
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(parents=True)
        shutil.copyfile(package / "pyproject.toml", copy / "pyproject.toml")
        shutil.copytree(package / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        options = ["-P", "-m", "pytest", "-p", "no:cacheprovider", "-q"]
        return self.run("python", *options, "--rootdir=.", "tests", *words, cwd=copy, variables=variables)

    def controller(self, folder: Path, kubeconfig: Path, *options: str, environment: Mapping[str, str]) -> Controller:
        """Make a controller that runs from here: for `new_world(…, make=environment.controller)`."""
        program = [str(self.program("rukpak"))]
        return Controller(folder, kubeconfig, *options, environment=environment, program=program)

    def _variables(self, given: Mapping[str, str]) -> dict[str, str]:
        usual = {name: value for name, value in os.environ.items() if name not in _OF_REPOSITORY}
        path = f"{self.folder / 'bin'}{os.pathsep}{usual.get('PATH', os.defpath)}"
        return usual | {"PATH": path, "HOME": str(self.folder), **given}


Install: TypeAlias = Callable[..., Environment]
"""Returns the environment with RukPak and the packages in some folders (a fixture)."""


def build_wheel(project: Path, to: Path, **variables: str) -> Path:
    """Build the wheel of a project in a folder, as a release builds it; `variables` are those of the build."""
    before = set(to.glob("*.whl"))
    command = [sys.executable, "-m", "hatchling", "build", "--target=wheel", f"--directory={to}"]
    _run(command, cwd=project, env=os.environ | variables)
    [built] = set(to.glob("*.whl")) - before
    return built


def make_environment(folder: Path, rukpak: Path, *packages: Path) -> Environment:
    """Install wheels in a new virtual environment.

    Args:
        folder: of the environment; does not exist.
        rukpak: the wheel of RukPak.
        packages: wheels of packages of plug-ins.
    """
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    [site_packages] = folder.glob("lib/python*/site-packages")
    dependencies = folder / "dependencies"
    _link_dependencies(dependencies)
    (site_packages / "dependencies.pth").write_text(f"{dependencies}\n", encoding="utf-8")
    environment = Environment(folder=folder)
    install = [sys.executable, "-m", *_PIP, "--python", str(environment.program("python")), "install"]
    _run([*install, "--quiet", "--no-index", str(rukpak), *map(str, packages)])
    return environment


def _link_dependencies(folder: Path) -> None:
    """Show what is installed here in another folder, but for RukPak."""
    folder.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "rukpak" not in each.name and each.suffix != ".pth":
            (folder / each.name).symlink_to(each)


def _run(command: Sequence[str], *, cwd: Path = ROOT, env: Mapping[str, str] = os.environ) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
