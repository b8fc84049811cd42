"""Folders of config/ as `kubectl kustomize` renders them, without kubectl.

Only what these folders use is understood; anything else is refused, so that nothing is left out by mistake.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.formats.manifests import read_documents

Manifest = dict[str, Any]
FILE = "kustomization.yaml"
UNDERSTOOD = {"apiVersion", "kind", "resources", "images", "patches", "namespace", "configMapGenerator"}


def render(folder: Path) -> list[Manifest]:
    """Return the objects of a folder in the order of its resources.

    Raises: ValueError for anything that is not understood.
    """
    [settings] = _read(folder / FILE)
    if unknown := settings.keys() - UNDERSTOOD:
        raise ValueError(f"{folder / FILE}: {', '.join(sorted(unknown))}: not understood by hack/packaging")
    found = [each for name in settings["resources"] for each in _resource(folder / name)]
    found += [_config_map(folder, each) for each in settings.get("configMapGenerator", ())]
    for patch in settings.get("patches", ()):
        found = [_patched(each, patch) for each in found]
    for image in settings.get("images", ()):
        found = [_with_image(each, image) for each in found]
    return [_in_namespace(each, settings["namespace"]) for each in found] if "namespace" in settings else found


def _read(path: Path) -> list[Manifest]:
    return [document.value for document in read_documents(path.read_bytes(), path.name)]


def _resource(path: Path) -> list[Manifest]:
    return render(path) if path.is_dir() else _read(path)


def _config_map(folder: Path, generator: Mapping[str, Any]) -> Manifest:
    files = dict(each.split("=", 1) for each in generator["files"])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": generator["name"], "labels": generator["options"]["labels"]},
        "data": {key: (folder / name).read_text("utf-8") for key, name in files.items()},
    }


def _patched(manifest: Manifest, patch: Mapping[str, Any]) -> Manifest:
    target = patch["target"]
    if (manifest["kind"], manifest["metadata"]["name"]) != (target["kind"], target["name"]):
        return manifest
    found = copy.deepcopy(manifest)
    [operations] = [document.value for document in read_documents(patch["patch"].encode(), FILE)]
    for operation in operations:
        _add(found, operation)
    return found


def _add(manifest: Manifest, operation: Mapping[str, Any]) -> None:
    """Apply an "add" of RFC 6902 to an object or to the end of a list."""
    *parents, last = operation["path"].removeprefix("/").split("/")
    value: Any = manifest
    for name in parents:
        value = value[int(name) if isinstance(value, list) else name]
    if operation["op"] != "add" or (isinstance(value, list) and last != "-"):
        raise ValueError(f"{FILE}: {operation['op']} {operation['path']}: not understood by hack/packaging")
    if isinstance(value, list):
        value.append(operation["value"])
    else:
        value[last] = operation["value"]


def _with_image(manifest: Manifest, image: Mapping[str, str]) -> Manifest:
    found = copy.deepcopy(manifest)
    for container in found.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        if container["image"] == image["name"]:
            container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    return found


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    if manifest["kind"].startswith("Cluster"):
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
