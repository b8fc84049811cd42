"""Images, built in memory and pushed to a registry by its HTTP API (OCI distribution specification)."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rukpak.controller.playground.cluster import Registry
from tests.support import zstd

Compression = Literal["gzip", "zstd", "none"]
Files = Mapping[str, bytes]
Layer = Files | bytes
"""Files by path; or a tar archive, for contents that no regular tool would pack."""

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
SUFFIXES: Mapping[Compression, str] = {"gzip": "+gzip", "zstd": "+zstd", "none": ""}
DOCKER_SUFFIXES: Mapping[Compression, str] = {"gzip": ".gzip", "zstd": ".zstd", "none": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """What an index or a manifest says about a blob or a manifest."""

    media_type: str
    digest: str
    size: int

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


class RegistryClient:
    """Pushes to one registry, over plain http and anonymously.

    Args:
        host: with its port.
    """

    def __init__(self, host: str) -> None:
        self.host = host

    def push_image(
        self,
        repository: str,
        tag: str,
        layers: Sequence[Layer],
        *,
        compression: Compression = "gzip",
        docker: bool = False,
    ) -> str:
        """Push an image and return the digest of its manifest. Without a tag it can be pulled by digest only.

        Args:
            repository: without the host.
            tag: may be empty.
            layers: from the lowest to the highest.
            compression: of every layer.
            docker: with the media types of Docker instead of OCI's.
        """
        return self.push_manifest_of(repository, tag, layers, compression=compression, docker=docker).digest

    def push_manifest_of(
        self, repository: str, tag: str, layers: Sequence[Layer], *, compression: Compression, docker: bool
    ) -> Descriptor:
        """Push an image, and return what an index says about it."""
        suffix = DOCKER_SUFFIXES[compression] if docker else SUFFIXES[compression]
        layer_type = (DOCKER_LAYER if docker else LAYER) + suffix
        packed = [compress(pack(layer), compression) for layer in layers]
        manifest = {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST if docker else MANIFEST,
            "config": self.push_blob(repository, DOCKER_CONFIG if docker else CONFIG, b"{}").as_json(),
            "layers": [self.push_blob(repository, layer_type, blob).as_json() for blob in packed],
        }
        return self.push_manifest(repository, tag, manifest)

    def push_index(
        self,
        repository: str,
        tag: str,
        images: Mapping[str, Sequence[Layer]],
        *,
        docker: bool = False,
    ) -> str:
        """Push one image for each platform (`linux/amd64`, `linux/arm/v7`) and an index of them; return its digest."""
        entries = []
        for platform, layers in images.items():
            image = self.push_manifest_of(repository, "", layers, compression="gzip", docker=docker)
            names = zip(("os", "architecture", "variant"), platform.split("/"), strict=False)
            entries.append({**image.as_json(), "platform": dict(names)})
        index = {"schemaVersion": 2, "mediaType": DOCKER_INDEX if docker else INDEX, "manifests": entries}
        return self.push_manifest(repository, tag, index).digest

    def push_manifest(self, repository: str, tag: str, manifest: Mapping[str, Any]) -> Descriptor:
        """Push a manifest as it is; its media type is the one that it names."""
        body = json.dumps(manifest).encode()
        descriptor = Descriptor(media_type=manifest["mediaType"], digest=digest_of(body), size=len(body))
        path = f"/v2/{repository}/manifests/{tag or descriptor.digest}"
        self._request("PUT", path, body, {"Content-Type": descriptor.media_type}, expect=http.client.CREATED)
        return descriptor

    def push_blob(self, repository: str, media_type: str, blob: bytes) -> Descriptor:
        """Push a blob."""
        descriptor = Descriptor(media_type=media_type, digest=digest_of(blob), size=len(blob))
        start = f"/v2/{repository}/blobs/uploads/"
        location = self._request("POST", start, b"", {}, expect=http.client.ACCEPTED)["Location"]
        path = location.removeprefix(f"http://{self.host}")
        path += f"{'&' if '?' in path else '?'}digest={descriptor.digest}"
        self._request("PUT", path, blob, {"Content-Type": "application/octet-stream"}, expect=http.client.CREATED)
        return descriptor

    def delete_manifest(self, repository: str, digest: str) -> None:
        """Remove a manifest; tags that name it are gone with it."""
        self._request("DELETE", f"/v2/{repository}/manifests/{digest}", b"", {}, expect=http.client.ACCEPTED)

    def _request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], *, expect: int
    ) -> http.client.HTTPMessage:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            said = response.read()
            assert response.status == expect, f"{method} {path}: {response.status} {said.decode()}"
            return response.headers
        finally:
            connection.close()


class LocalRegistry(RegistryClient):
    """A real registry that tests may push to, stop and start again."""

    def __init__(self, process: Registry) -> None:
        super().__init__(process.host)
        self._process = process

    def start(self) -> None:
        """Start it with its previous address and content; return when it answers."""
        self._process.start()

    def stop(self) -> None:
        """Kill it: connections are refused from now on."""
        self._process.stop()

    @property
    def content(self) -> Path:
        """Its storage, which another registry may serve."""
        return self._process.content

    @property
    def log(self) -> str:
        """Return its log: one line for each request, among others."""
        return self._process.log.read_text(encoding="utf-8")

    def requests_to(self, repository: str) -> list[str]:
        """Return what was asked of a repository: the lines of the log that name it."""
        return [line for line in self.log.splitlines() if f"/v2/{repository}/" in line]


def pack(layer: Layer) -> bytes:
    """Return the tar archive of a layer; equal layers give equal bytes."""
    if isinstance(layer, bytes):
        return layer
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data in layer.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def compress(data: bytes, compression: Compression) -> bytes:
    """Return the data, compressed; equal data give equal bytes."""
    match compression:
        case "gzip":
            return gzip.compress(data, mtime=0)
        case "zstd":
            return zstd.compress(data)
        case "none":
            return data


def digest_of(data: bytes) -> str:
    """Return the digest in OCI's spelling."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
