"""The workflows run what the README names, on each version that the project promises."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hack.packaging.lock import PYTHONS, RESOLUTIONS
from hack.testing import list_packages
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.playground.programs import KUBERNETES_RELEASES

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github").rglob("*.y*ml"))


def jobs() -> dict[str, Any]:
    [document] = read_documents((ROOT / ".github/workflows/test.yaml").read_bytes(), "test.yaml")
    found: dict[str, Any] = document.value["jobs"]
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_they_are_yaml_and_run_commands_that_are_there(file: Path) -> None:
    assert len(list(read_documents(file.read_bytes(), file.name))) == 1
    for command in re.findall(r"(?:hack|\.ci)/[a-z]+(?![a-z./])", file.read_text(encoding="utf-8")):
        assert (ROOT / command).exists()


def test_every_version_of_kubernetes_and_python_is_tested() -> None:
    assert jobs()["kubernetes"]["strategy"]["matrix"]["kubernetes"] == list(KUBERNETES_RELEASES)
    [base, *others] = PYTHONS
    assert jobs()["python"]["strategy"]["matrix"]["python"] == others
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert requires == f">={base}"


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_all_tests_run_with_packages_that_are_not_locked(resolution: str) -> None:
    assert jobs()[resolution]["steps"][-1]["run"] == f".ci/run --dependencies {resolution}"


def test_a_change_waits_for_the_default_run_and_everything_runs_each_night_and_before_a_release() -> None:
    conditions = {name: job["if"] for name, job in jobs().items()}
    change = conditions.pop("default")
    assert jobs()["default"]["steps"][-1]["run"] == "hack/test"
    [every] = set(conditions.values())
    events = {
        "a push": ("push", "branch"),
        "a pull request": ("pull_request", "branch"),
        "a night": ("schedule", "branch"),
        "a request": ("workflow_dispatch", "branch"),
        "a release, which calls it": ("push", "tag"),
    }
    assert [name for name, event in events.items() if holds(change, *event)] == ["a push", "a pull request"]
    assert [name for name, event in events.items() if holds(every, *event)] == [*events][2:]


def holds(condition: str, event: str, ref: str) -> bool:
    """Return what a condition of a job says of an event; its terms are comparisons of these two, joined by `||`."""
    values = {"github.event_name": event, "github.ref_type": ref}
    terms = [term.strip("() ").split(" && ") for term in condition.split("||")]
    pairs = [[comparison.split(" == ") for comparison in term] for term in terms]
    return any(all(values[name] == value.strip("'") for name, value in term) for term in pairs)


def release() -> dict[str, Any]:
    [document] = read_documents((ROOT / ".github/workflows/release.yaml").read_bytes(), "release.yaml")
    found: dict[str, Any] = document.value
    return found


def test_a_release_waits_for_what_it_publishes() -> None:
    assert release()["true"] == {"push": {"tags": ["v*"]}}, "YAML 1.1 reads `on` so"
    jobs = release()["jobs"]
    assert jobs["test"]["uses"] == "./.github/workflows/test.yaml"
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "test": None,
        "package": None,
        "image": ["test", "package"],
        "sign": "image",
        "publish": ["package", "sign"],
        "release": ["sign", "publish"],
    }
    built = {each["architecture"] for each in jobs["image"]["strategy"]["matrix"]["include"]}
    text = json.dumps(jobs["sign"])
    assert built == {"amd64", "arm64"}
    assert all(f"$image-{each}" in text for each in built)


def test_each_package_of_plug_ins_is_released_with_rukpak_and_as_its_version() -> None:
    [builds] = [step["run"] for step in release()["jobs"]["package"]["steps"] if "build" in step.get("run", "")]
    [listed] = re.findall(r"hack/plugins/{([^}]+)}", builds)
    assert listed.split(",") == [folder.name for folder in list_packages()]
    projects = [
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in (ROOT, *list_packages())
    ]
    assert len({each["version"] for each in projects}) == 1
    text = (ROOT / ".github/workflows/release.yaml").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for each in projects[1:]:
        assert each["name"] in text
        assert each["name"] in readme
        assert each["dependencies"] == ["rukpak>=0.1,<1"]


def test_the_descriptions_of_packages_of_plug_ins_have_no_relative_links() -> None:
    """The index shows them."""
    for folder in list_packages():
        links = re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text(encoding="utf-8"))
        assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_what_is_released_is_signed_and_says_where_it_comes_from() -> None:
    jobs = release()["jobs"]
    [signs] = [step["run"] for step in jobs["sign"]["steps"] if "cosign sign" in step.get("run", "")]
    assert 'cosign sign --yes --recursive "$INDEX"' in signs
    assert "cosign attest --yes --type spdxjson --predicate" in signs
    [listed] = [step["with"] for step in jobs["image"]["steps"] if "sbom" in step.get("uses", "")]
    assert listed["format"] == "spdx-json"
    image, files = (
        next(step["with"] for step in jobs[name]["steps"] if "attest-build-provenance" in step.get("uses", ""))
        for name in ("sign", "release")
    )
    assert image["subject-digest"] == "${{ steps.join.outputs.digest }}"
    assert set(files["subject-path"].split()) == {"dist/*", "install*.yaml", "*.spdx.json"}
    [writes] = [step for step in jobs["release"]["steps"] if "install-controller" in step.get("run", "")]
    assert writes["env"]["DIGEST"] == "${{ needs.sign.outputs.digest }}"
    assert "@$DIGEST" in writes["run"], "the manifests name the image that was signed, not a tag"


def test_a_release_gets_only_the_permissions_that_its_jobs_need() -> None:
    assert release()["permissions"] == {"contents": "read"}
    needed = {name: job.get("permissions", {}) for name, job in release()["jobs"].items()}
    writing = {name: {key for key, right in rights.items() if right == "write"} for name, rights in needed.items()}
    assert writing == {
        "test": set(),
        "package": set(),
        "image": {"packages"},
        "sign": {"packages", "id-token", "attestations"},
        "publish": {"id-token"},
        "release": {"contents", "id-token", "attestations"},
    }


def test_actions_of_a_release_are_whole_versions() -> None:
    text = (ROOT / ".github/workflows/release.yaml").read_text(encoding="utf-8")
    used = re.findall(r"uses: ([^.\s]\S*)", text)
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+", each)] == []
