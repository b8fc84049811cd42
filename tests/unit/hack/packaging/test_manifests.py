"""Folders of config/ are rendered as kustomize does, or refused; integration/test_packages.py compares with kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.packaging.manifests import INSTALLED, Manifest, render
from rukpak.controller.formats.manifests import read_documents
from tests.support.bundles import ROOT

DEPLOYMENT = """\
kind: Deployment
metadata: {name: a}
spec: {template: {spec: {containers: [{image: app, args: [run]}]}}}
---
kind: ClusterRole
metadata: {name: a}
"""
PATCH = "patches: [{target: {kind: Deployment, name: %s}, patch: '[{op: %s, path: %s, value: x}]'}]"
ARGUMENTS = "/spec/template/spec/containers/0/args"


def rendered(folder: Path, settings: str) -> list[Manifest]:
    (folder / "a.yaml").write_text(DEPLOYMENT)
    (folder / "kustomization.yaml").write_text(f"resources: [a.yaml]\n{settings}")
    return render(folder)


def container(manifests: list[Manifest]) -> Manifest:
    found: Manifest = manifests[0]["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("settings", "image"),
    [
        ("", "app"),
        ("images: [{name: app, newTag: v1}]", "app:v1"),
        ("images: [{name: app, newName: example.com/app, newTag: v1}]", "example.com/app:v1"),
        ("images: [{name: other, newTag: v1}]", "app"),
    ],
)
def test_images_are_those_of_the_kustomization(tmp_path: Path, settings: str, image: str) -> None:
    assert container(rendered(tmp_path, settings))["image"] == image


@pytest.mark.parametrize(("name", "arguments"), [("a", ["run", "x"]), ("b", ["run"])])
def test_a_patch_adds_to_its_target(tmp_path: Path, name: str, arguments: list[str]) -> None:
    assert container(rendered(tmp_path, PATCH % (name, "add", f"{ARGUMENTS}/-")))["args"] == arguments


def test_a_namespace_is_set_where_there_is_one(tmp_path: Path) -> None:
    found = rendered(tmp_path, "namespace: ours")
    assert [each["metadata"].get("namespace") for each in found] == ["ours", None]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("namePrefix: x", "namePrefix"),
        ("components: [x]\nreplicas: []", "components, replicas"),
        (PATCH % ("a", "replace", f"{ARGUMENTS}/-"), f"replace {ARGUMENTS}/-"),
        (PATCH % ("a", "add", f"{ARGUMENTS}/0"), f"add {ARGUMENTS}/0"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, settings: str, problem: str) -> None:
    with pytest.raises(ValueError, match=rf"{problem}: not understood"):
        rendered(tmp_path, settings)


@pytest.mark.parametrize(("name", "folder"), [(name, folder) for name, (folder, _) in INSTALLED.items()])
def test_a_file_has_the_objects_of_its_folder(name: str, folder: str) -> None:
    text = (ROOT / "config" / name).read_bytes()
    found = [document.value for document in read_documents(text, name)]
    assert found[0]["kind"] == "Namespace"
    assert sorted(found, key=str) == sorted(render(ROOT / "config" / folder), key=str)
