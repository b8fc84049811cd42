"""Programs of others that tests find on PATH, and pass over if they are too old for what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pytest

from rukpak.controller.playground.programs import Settings
from tests.support.other_programs import UnavailableError, find, obtain_cosign


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    says: str
    shown: str = ""
    """What is said of one that is not used."""


CASES = [
    Case(name="a release", says="echo 0.20.3"),
    Case(name="a newer one", says="echo 0.21.0"),
    Case(name="a line among others", says="printf 'Version:        0.20.7\\nGo version: go1.24\\n'"),
    Case(name="one that knows less", says="echo 0.12.1", shown="0.12.1"),
    Case(name="one of another line", says="echo v1.0.0", shown="1.0.0"),
    Case(name="another program of that name", says="echo usage: crane; exit 2", shown="unknown version"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_on_path_is_used_if_it_can_do_what_is_asked_of_it(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "crane", list[str]()
    path.write_text(f"#!/bin/sh\n{case.says}\n", encoding="ascii")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = find("crane", "0.20", "1", told.append)
    assert found == (None if case.shown else path)
    assert told == ([f"{path}: {case.shown}, not used: need 0.20 or newer, below 1"] if case.shown else [])


def test_cosign_is_not_built_unless_it_may_be(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    with pytest.raises(UnavailableError, match="hack/test --all builds it"):
        obtain_cosign(settings, "3.1.3", may_build=False)
    made = tmp_path / "bin" / "built-cosign-3.1.3-amd64"
    made.mkdir(parents=True)
    assert obtain_cosign(settings, "3.1.3", may_build=False) == made / "cosign"
