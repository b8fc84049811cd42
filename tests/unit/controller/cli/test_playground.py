from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.controller.cli.playground import PROGRAMS, obtain_programs
from rukpak.controller.playground.binaries import Binaries, MissingError
from rukpak.controller.playground.programs import Settings
from tests.support.web_servers import FileServer


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with programs that say that they are what is needed."""
    says = dict.fromkeys(PROGRAMS, "v1.36.3") | {"etcd": "v3.6.8", "kwok": "v0.8.0", "registry": "v3.1.2"}
    for name, version in says.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def binaries(installed: Path) -> Iterator[Binaries]:
    """Finds these programs, and can download none."""
    with FileServer().serving() as server:
        settings = Settings(
            cache=installed / "cache", search=(installed,), helm_releases=server.address, kwok_releases=server.address
        )
        yield Binaries(settings, lambda _line: None)


def test_helm_is_not_asked_for_where_there_is_one(binaries: Binaries, installed: Path) -> None:
    assert obtain_programs(binaries, needs_helm=False) == {name: installed / name for name in PROGRAMS}


def test_without_helm_the_rest_is_started(
    binaries: Binaries, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert obtain_programs(binaries, needs_helm=True) == {name: installed / name for name in PROGRAMS}
    assert capsys.readouterr().err.startswith("no chart can be installed: helm: not on PATH")


def test_helm_is_among_the_programs_if_it_can_be_had(binaries: Binaries, installed: Path) -> None:
    helm = installed / "helm"
    helm.write_text("#!/bin/sh\necho v4.3.1\n")
    helm.chmod(0o755)
    assert obtain_programs(binaries, needs_helm=True)["helm"] == helm


def test_without_the_others_there_is_no_playground(binaries: Binaries, installed: Path) -> None:
    (installed / "kwok").unlink()
    with pytest.raises(MissingError, match=r"^kwok: "):
        obtain_programs(binaries, needs_helm=False)
