"""The write side of the distribution API: an image of one layer, pushed under a tag.

The controller never pushes; `rukpak package` does. The same content gives the same digest, wherever and whenever it is
pushed. The API: https://github.com/opencontainers/distribution-spec/blob/main/spec.md, the image:
https://github.com/opencontainers/image-spec/blob/main/config.md.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.content.digests import digest_of
from controller.content.limits import quote
from controller.sources.image.reference import parse_reference
from controller.sources.image.registry import Registry, connected
from controller.sources.transport import Response

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CREATED, _ACCEPTED, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 201, 202, 401, 403, 404


def push_image(parameters: Mapping[str, Any], layer: bytes, access: Access) -> str:
    """Push an image, and return its reference with its digest.

    Args:
        parameters: of a source of kind `image` that installs it: ref, insecureSkipTLSVerify, certificateData.
        layer: tar+gzip.
        access: for this call; its path starts messages.

    Raises: ValueError for an invalid reference; BundleError (Unauthorized, Unreachable, TLSVerificationFailed,
        InsecureRefused).
    """
    reference = parse_reference(parameters["ref"])
    if reference.digest:
        raise ValueError("has a digest, which follows from the content; give a tag")
    config = _make_config(layer)
    manifest = _encode(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _describe(_CONFIG, config),
            "layers": [_describe(_LAYER, layer)],
        }
    )
    with connected(parameters, reference, access, missing=Reason.NOT_FOUND, kind=_Writer) as registry:
        for blob in (config, layer):
            registry.push_blob(blob)
        registry.push_manifest(reference.tag, manifest)
    return f"{reference.name}:{reference.tag}@{digest_of(manifest)}"


def _make_config(layer: bytes) -> bytes:
    """Return the smallest configuration that tools for images accept, without a time."""
    unpacked = hashlib.sha256(gzip.decompress(layer)).hexdigest()
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{unpacked}"]}
    return _encode({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs})


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _describe(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(blob), "size": len(blob)}


class _Writer(Registry):
    """One repository of one registry, to push to."""

    def push_blob(self, blob: bytes) -> None:
        """Upload a blob, unless the repository has it.

        Raises: BundleError.
        """
        digest = digest_of(blob)
        found = self._request("HEAD", "blobs", digest, also=_NOT_FOUND)
        found.discard()
        if found.status != _NOT_FOUND:
            return
        started = self._request("POST", "blobs", "uploads/", also=_ACCEPTED, media_type="text/plain", body=b"")
        started.discard()
        self._finish(started, blob, digest)

    def push_manifest(self, tag: str, manifest: bytes) -> None:
        """Upload a manifest, and have the tag name it.

        Raises: BundleError.
        """
        self._request("PUT", "manifests", tag, also=_CREATED, media_type=_MANIFEST, body=manifest).discard()

    def _finish(self, started: Response, blob: bytes, digest: str) -> None:
        place = urljoin(started.url, started.headers.get("Location", ""))
        url = f"{place}{'&' if urlsplit(place).query else '?'}{urlencode({'digest': digest})}"
        is_own = urlsplit(url)[:2] == urlsplit(started.url)[:2]  # no other server gets the login
        headers = {"Content-Type": "application/octet-stream", **(self._login.headers if is_own else {})}
        response = self._transport.send("PUT", url, headers, body=blob, named=started.url)
        response.discard()
        if response.status != _CREATED:
            raise self._failure(response, "blobs", digest)

    def _failure(self, response: Response, kind: str, name: str) -> BundleError:
        repository = f"repository {quote(self._endpoint.repository)} at {quote(self._endpoint.host)}"
        if response.status in (_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND):
            problem = "may not be pushed to without credentials; log in, or correct the name"
            if self._login.has_credentials:
                problem = "may not be pushed to with these credentials; correct them, or the name"
            return BundleError(Reason.UNAUTHORIZED, f"{self._path}: {repository} {problem}")
        item = "the manifest" if kind == "manifests" else "a blob"
        problem = f"returned status {response.status} for {item} ({quote(name)}); check the address"
        return BundleError(Reason.UNREACHABLE, f"{self._path}: {repository} {problem}")
