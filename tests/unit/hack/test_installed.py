from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pytest

from hack.control_plane.installed import find_installed
from hack.control_plane.programs import PROGRAMS
from hack.control_plane.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    program: str
    says: str
    fits: bool
    file: str = ""


CASES = [
    Case(name="a component of the same minor fits", program="kube-apiserver", says="Kubernetes v1.36.0", fits=True),
    Case(name="a component of another minor does not", program="kube-apiserver", says="Kubernetes v1.35.3", fits=False),
    Case(name="kubectl one minor below fits", program="kubectl", says="Client Version: v1.35.9", fits=True),
    Case(name="kubectl one minor above fits", program="kubectl", says="Client Version: v1.37.0-rc.1", fits=True),
    Case(name="kubectl two minors away does not", program="kubectl", says="Client Version: v1.34.0", fits=False),
    Case(name="etcd 3.5 fits", program="etcd", says="etcd Version: 3.5.0\nGit SHA: a1.2.3", fits=True),
    Case(name="etcd 3.4 does not", program="etcd", says="etcd Version: 3.4.30", fits=False),
    Case(name="a newer etcd fits", program="etcd", says="etcd Version: 4.0.1", fits=True),
    Case(
        name="a distribution's registry fits under its name",
        program="registry",
        says="docker-registry github.com/docker/distribution v2.8.2+unknown",
        file="docker-registry",
        fits=True,
    ),
    Case(name="another program named registry does not", program="registry", says="usage: registry", fits=False),
    Case(name="an older kwok does not", program="kwok", says="kwok version v0.7.0 go1.24", fits=False),
    Case(name="another Helm 4 fits", program="helm", says="v4.0.1", fits=True),
    Case(name="Helm 3 does not", program="helm", says="v3.19.0", fits=False),
]


def install(folder: Path, name: str, script: str) -> Path:
    """Write a program that runs a script."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_installed_is_used_if_its_version_fits(case: Case, tmp_path: Path) -> None:
    told: list[str] = []
    path = install(tmp_path, case.file or case.program, f"echo '{case.says}'")
    found = find_installed(PROGRAMS[case.program], Settings(cache=tmp_path, search=(tmp_path,)), told.append)
    assert found == (path if case.fits else None)
    assert len(told) == (0 if case.fits else 1)


def test_what_does_not_fit_is_named_and_passed_over(tmp_path: Path) -> None:
    told: list[str] = []
    old = install(tmp_path / "old", "etcd", "echo etcd Version: 3.3.1")
    broken = install(tmp_path / "broken", "etcd", "exit 1")
    good = install(tmp_path / "good", "etcd", "echo etcd Version: 3.6.8")
    settings = Settings(cache=tmp_path, search=(old.parent, broken.parent, tmp_path / "missing", good.parent))
    assert find_installed(PROGRAMS["etcd"], settings, told.append) == good
    assert told == [
        f"{old}: 3.3.1, not used: need 3.5 or newer",
        f"{broken}: unknown version, not used: need 3.5 or newer",
    ]


def test_a_folder_that_cannot_be_looked_into_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)  # as root there is no other that cannot be
    settings = Settings(cache=tmp_path, search=(folder, tmp_path))
    path = install(tmp_path, "etcd", "echo 'etcd Version: 3.5.0'")
    assert find_installed(PROGRAMS["etcd"], settings, print) == path
