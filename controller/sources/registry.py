"""The read side of the distribution API: manifests and blobs by digest, verified while they stream.

Not here: what manifests mean (manifest.py), and tokens (tokens.py). The API:
https://github.com/opencontainers/distribution-spec/blob/main/spec.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from api.errors import BundleError
from api.plugins import MEBIBYTE
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.manifest import ACCEPT, Descriptor
from controller.sources.reference import DIGEST, ImageReference
from controller.sources.tokens import AnonymousTokens
from controller.sources.transport import Response, Transport

_MANIFEST_BYTES = 4 * MEBIBYTE  # what registries must take at least, and most take at most
_CHUNK = 64 * 1024
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _METHOD_NOT_ALLOWED = 200, 401, 403, 404, 405


class Registry:
    """One repository of one registry, for one call of the source.

    Args:
        transport: the way there.
        reference: names registry and repository; tag and digest are not looked at.
        scheme: https or http.
        path: of the source in the spec; messages begin with it.
        missing: reason for a 404: NotFound while resolving, PinnedContentGone afterwards.
    """

    def __init__(
        self, transport: Transport, reference: ImageReference, *, scheme: str, path: str, missing: Reason
    ) -> None:
        self._transport, self._reference, self._path, self._missing = transport, reference, path, missing
        self._url = f"{scheme}://{reference.host}/v2/{reference.repository}"
        self._tokens = AnonymousTokens(transport, reference.host, path)

    def resolve(self, target: str) -> str:
        """Return the digest that a tag names now, or a digest itself if the registry has it for this caller.

        Raises: BundleError (NotFound, Unauthorized, Unreachable, …).
        """
        response = self._request("HEAD", f"manifests/{target}", also=_METHOD_NOT_ALLOWED)
        response.discard()
        if response.status == _METHOD_NOT_ALLOWED:
            return digest_of(self.read_manifest(target))
        if DIGEST.fullmatch(target):
            return target
        digest = response.headers.get("Docker-Content-Digest", "")
        return digest if DIGEST.fullmatch(digest) else digest_of(self.read_manifest(target))

    def read_manifest(self, target: str) -> bytes:
        """Return a manifest or index; what a digest names is verified.

        Raises: BundleError (`missing`, DigestMismatch, ContentRejected over 4 MiB, Unauthorized, Unreachable, …).
        """
        data = self._request("GET", f"manifests/{target}").read_all(_MANIFEST_BYTES)
        if DIGEST.fullmatch(target) and digest_of(data) != target:
            raise _mismatch(self._path, target)
        return data

    def open_blob(self, descriptor: Descriptor, advance: Callable[[int], None]) -> Blob:
        """Return a blob to read; `advance` is called with the bytes that came.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        return Blob(self._request("GET", f"blobs/{descriptor.digest}"), descriptor, self._path, advance)

    def _request(self, method: str, what: str, *, also: int = _OK) -> Response:
        response = self._send(method, what)
        if response.status == _UNAUTHORIZED and response.host == self._reference.host:  # not: of a redirect's host
            response.discard()
            if self._tokens.renew(response):
                response = self._send(method, what)
        if response.status not in (_OK, also):
            response.discard()
            raise self._failure(response, what)
        return response

    def _send(self, method: str, what: str) -> Response:
        return self._transport.send(method, f"{self._url}/{what}", {"Accept": ACCEPT, **self._tokens.headers})

    def _failure(self, response: Response, what: str) -> BundleError:
        named, host = quote(f"{self._reference.repository} {what}"), quote(response.host)
        if response.status == _NOT_FOUND:
            remedy = "correct the name, or push it"
            if self._missing is Reason.PINNED_CONTENT_GONE:
                remedy = "push it again, or ask for a new resolution"
            return BundleError(self._missing, f"{self._path}: {host} does not have {named}; {remedy}")
        if response.status in (_UNAUTHORIZED, _FORBIDDEN):
            message = f"{self._path}: {host} does not give {named} to everybody, or does not have it"
            return BundleError(Reason.UNAUTHORIZED, f"{message}; correct the name, or see to auth")
        message = f"{self._path}: {host} answers with status {response.status} when asked for {named}"
        return BundleError(Reason.UNREACHABLE, f"{message}; check the address")


class Blob:
    """A blob, counted and hashed while it is read."""

    def __init__(self, response: Response, descriptor: Descriptor, path: str, advance: Callable[[int], None]) -> None:
        self._response, self._descriptor, self._path, self._advance = response, descriptor, path, advance
        self._count, self._hash = 0, hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end.

        Raises: BundleError (Unreachable; DigestMismatch as soon as there are more bytes than there should be).
        """
        data = self._response.read(size)
        self._count += len(data)
        if self._count > self._descriptor.size:
            raise _mismatch(self._path, self._descriptor.digest)
        self._hash.update(data)
        self._advance(len(data))
        return data

    def verify(self) -> None:
        """Read what is left and compare size and digest; nothing of a blob may be used before.

        Raises: BundleError (DigestMismatch, Unreachable).
        """
        while self.read(_CHUNK):
            pass
        if self._count != self._descriptor.size or f"sha256:{self._hash.hexdigest()}" != self._descriptor.digest:
            raise _mismatch(self._path, self._descriptor.digest)

    def close(self) -> None:
        """Let go of the connection."""
        self._response.close()


def digest_of(data: bytes) -> str:
    """Return the digest of a document."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _mismatch(path: str, digest: str) -> BundleError:
    message = f"{path}: what the registry has for {quote(digest)} is something else; find out who changed it"
    return BundleError(Reason.DIGEST_MISMATCH, message)
