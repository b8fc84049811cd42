"""Images without a registry: a layer and a configuration in an OCI archive, which `ctr images import` reads.

`tiny` is the program of most pods in tests, and alone in its image; tiny/main.go says what it does.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from hack.control_plane.builds import SOURCES, Module, build_module
from rukpak.controller.playground.binaries import BuildError, Cache, MissingError, tell_person
from rukpak.controller.playground.programs import Settings

TINY = "localhost/tiny:1"
PAUSE = "localhost/pause:1"
"""What keeps the namespaces of a pod: the same program, which waits."""
_SOURCE = SOURCES / "tiny" / "main.go"
_GO_MOD = "module tiny\ngo 1.22\n"
_TYPE = "application/vnd.oci.image"


def obtain_tiny(settings: Settings) -> Path:
    """Return the folder with the program `tiny` and the images `tiny.tar`, built once for each change of its source.

    Raises: MissingError.
    """
    digest = hashlib.sha256(_SOURCE.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    name = f"tiny-{digest[:12]}-{settings.architecture}"

    def make(folder: Path) -> None:
        build_module(Module(go_mod=_GO_MOD, sources=(_SOURCE,)), folder, tell_person)
        archive = make_archive({"tiny": (folder / "tiny").read_bytes()}, [TINY, PAUSE], settings.architecture)
        (folder / "tiny.tar").write_bytes(archive)

    try:
        return Cache(settings.cache / "images", tell_person).obtain(name, make)
    except BuildError as error:
        raise MissingError(f"the image of pods in tests cannot be built: {error}; install Go") from error


def make_archive(files: Mapping[str, bytes], names: list[str], architecture: str) -> bytes:
    """Return an OCI archive of one image, under several names, whose entry point is the first of the files."""
    layer = _tar(files, 0o755)
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": [f"/{next(iter(files))}"], "User": "0"},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs: dict[str, bytes] = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": _add(blobs, _json(config), "config.v1+json"),
        "layers": [_add(blobs, gzip.compress(layer, 1, mtime=0), "layer.v1.tar+gzip")],
    }
    described = _add(blobs, _json(manifest), "manifest.v1+json")
    index = {
        "schemaVersion": 2,
        "manifests": [{**described, "annotations": {"io.containerd.image.name": name}} for name in names],
    }
    layout = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    return _tar(layout | blobs, 0o644)


def _add(blobs: dict[str, bytes], content: bytes, media_type: str) -> dict[str, object]:
    digest = _digest(content)
    blobs[f"blobs/{digest.replace(':', '/')}"] = content
    return {"mediaType": f"{_TYPE}.{media_type}", "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(files: Mapping[str, bytes], mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
