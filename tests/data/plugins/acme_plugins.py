"""Plug-ins that misbehave as the spec says, installed by having this folder on PYTHONPATH (test_bad_plugins.py)."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

from rukpak.plugins import (
    Access,
    BundleError,
    ContentTree,
    Entry,
    EntryKind,
    Prepared,
    PrepareRequest,
    ProcessRequest,
    Reason,
    Rendering,
    RenderRequest,
    Resolution,
)

_COUNTER = itertools.count()


def config_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": data}


def leave() -> None:
    sys.exit(0)


def fail() -> None:
    raise RuntimeError("Hunter2-is-secret")


def hang() -> None:
    time.sleep(3600)


def refuse() -> None:
    raise BundleError(Reason.INVALID_BUNDLE, "a.yaml:1: wrong; correct it")


ACTS: Mapping[str, Callable[[], None]] = {"leave": leave, "fail": fail, "hang": hang, "refuse": refuse}


class Format:
    """Renders one ConfigMap, unless `act` says otherwise."""

    def validate(self, config: Mapping[str, Any]) -> Sequence[str]:
        ACTS.get(config.get("validate", ""), lambda: None)()
        return []

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:
        return "default"

    def render(self, request: RenderRequest) -> Rendering:
        act = request.config.get("act", "")
        ACTS.get(act, lambda: None)()
        if act == "change the tree":
            for folder, _, files in os.walk(request.tree.root):
                for name in files:
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        file.write("changed")
        objects: Any = [config_map(act=act)]
        if act == "random":
            objects = [config_map(act=act, number=f"{time.time()} {next(_COUNTER)}")]
        elif act == "no JSON":
            objects = [config_map(act=b"bytes")]
        elif act == "endless":
            objects = (config_map(number=str(number)) for number in itertools.count())
        elif act == "huge":
            objects = [config_map(act="x" * (40 << 20))]
        return Rendering(objects=objects)


class Source:
    """Yields a bundle of one ConfigMap, unless `act` says otherwise."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> Sequence[str]:
        return []

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return parameters

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        ACTS.get(parameters.get("resolve", ""), lambda: None)()
        return Resolution(pinned="acme@1", digest="sha256:" + "1" * 64)

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        return f"{sorted(parameters.items())}"

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        manifest = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: made}}"
        yield Entry(path="manifests/a.yaml", size=len(manifest), data=BytesIO(manifest))
        ACTS.get(parameters.get("fetch", ""), lambda: None)()
        if parameters.get("fetch") == "endless":
            # Nothing that is written: on a slow disk, the deadline would be reached before the limit.
            yield from itertools.repeat(Entry(path="manifests", kind=EntryKind.DIRECTORY))


class Processor:
    """Adds a label, unless `act` says otherwise."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> Sequence[str]:
        return []

    def process(self, request: ProcessRequest) -> Rendering:
        ACTS.get(request.parameters.get("act", ""), lambda: None)()
        if request.parameters.get("act") == "no name":
            return replace(request.rendering, objects=[{"kind": "ConfigMap"}])
        for item in request.rendering.objects:
            item["metadata"].setdefault("labels", {})["acme"] = "here"
        return request.rendering


class Unlocking:
    """A plug-in that puts a secret in place of LOCKED, if it has the right key."""

    def validate(self, parameters: Any, path: str) -> list[str]:
        return []

    def find_secrets(self, parameters: Any) -> list[str]:
        return ["keys"]

    def prepare(self, request: PrepareRequest) -> Prepared:
        key = request.secrets["keys"]["key"].decode()
        if "WRONG" in key:
            raise BundleError(Reason.INVALID_CONFIG, f"{request.path}: wrong key {key}")
        plain = request.parameters["plain"]
        files = {
            str(path.relative_to(request.tree.root)): path.read_bytes().replace(b"LOCKED", plain.encode())
            for path in request.tree.root.rglob("*.yaml")
        }
        return Prepared(files={**files, **dict.fromkeys(request.parameters.get("more", ()), b"")}, secrets=[plain])

    def process(self, request: ProcessRequest) -> Rendering:
        return request.rendering
