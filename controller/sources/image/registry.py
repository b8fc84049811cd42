"""The read side of the distribution API: manifests and blobs by digest, verified while they stream.

Credentials never go over plain http: with some, only https is spoken.

Not here: what manifests mean (manifest.py), and logging in (logins.py). The API:
https://github.com/opencontainers/distribution-spec/blob/main/spec.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from api.errors import BundleError
from api.plugins import MEBIBYTE
from api.v1alpha2.conditions import Reason
from controller.content.digests import digest_of
from controller.content.limits import quote
from controller.sources.image.endpoint import Endpoint
from controller.sources.image.logins import Login
from controller.sources.image.manifest import ACCEPT, Descriptor
from controller.sources.image.reference import DIGEST
from controller.sources.transport import Response, Transport
from controller.sources.transport_failures import PlainServerError

_MANIFEST_BYTES = 4 * MEBIBYTE  # what registries must take at least, and most take at most
_CHUNK = 64 * 1024
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _METHOD_NOT_ALLOWED = 200, 401, 403, 404, 405


class Registry:
    """One repository of one registry, for one call of the source.

    Args:
        transport: the way there.
        endpoint: registry and repository.
        login: says who asks.
        schemes: to be tried in this order: https, http, or both. A server that speaks plain http is then taken at its
            word, unless there are credentials.
        path: of the source in the spec; messages begin with it.
        missing: reason for a 404: NotFound while resolving, PinnedContentGone afterwards.
    """

    def __init__(
        self,
        transport: Transport,
        endpoint: Endpoint,
        login: Login,
        *,
        schemes: tuple[str, ...],
        path: str,
        missing: Reason,
    ) -> None:
        self._transport, self._endpoint, self._login = transport, endpoint, login
        self._schemes, self._path, self._missing = schemes, path, missing

    def resolve(self, target: str) -> str:
        """Return the digest that a tag names now, or a digest itself if the registry has it for this caller.

        Raises: BundleError (NotFound, Unauthorized, Unreachable, InsecureRefused, …).
        """
        response = self._request("HEAD", "manifests", target, also=_METHOD_NOT_ALLOWED)
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
        data = self._request("GET", "manifests", target).read_all(_MANIFEST_BYTES)
        if DIGEST.fullmatch(target) and digest_of(data) != target:
            raise _mismatch(self._path, target)
        return data

    def open_blob(self, descriptor: Descriptor, advance: Callable[[int], None] = lambda _: None) -> Blob:
        """Return a blob to read; `advance` is called with the bytes that came.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        return Blob(self._request("GET", "blobs", descriptor.digest), descriptor, self._path, advance)

    def _request(self, method: str, kind: str, name: str, *, also: int = _OK) -> Response:
        response = self._send(method, kind, name)
        # A refusal by another host, to which a redirect led, is none of ours to answer.
        while response.status not in (_OK, also) and not response.place.is_elsewhere:
            response.discard()
            if not self._login.answer(response):
                break
            response = self._send(method, kind, name)
        if response.status not in (_OK, also):
            response.discard()
            raise self._failure(response, kind, name)
        self._login.accept()
        return response

    def _send(self, method: str, kind: str, name: str) -> Response:
        try:
            return self._send_by(self._schemes[0], method, kind, name)
        except PlainServerError:
            if self._login.has_credentials:
                raise self._credentials_refused() from None
            if len(self._schemes) == 1:
                raise
            self._schemes = self._schemes[1:]
            return self._send_by(self._schemes[0], method, kind, name)

    def _send_by(self, scheme: str, method: str, kind: str, name: str) -> Response:
        url = f"{scheme}://{self._endpoint.host}/v2/{self._endpoint.repository}/{kind}/{name}"
        return self._transport.send(method, url, {"Accept": ACCEPT, **self._login.headers})

    # what went wrong

    def _credentials_refused(self) -> BundleError:
        message = (
            f"{self._path}.auth: registry {quote(self._endpoint.host)} speaks plain http, over which no credentials "
            "are sent; serve it by https, or take auth out"
        )
        return BundleError(Reason.INSECURE_REFUSED, message)

    def _failure(self, response: Response, kind: str, name: str) -> BundleError:
        word = {"blobs": "blob"}.get(kind, "manifest" if DIGEST.fullmatch(name) else "tag")
        what = f"{word} {quote(name)}"
        if response.place.is_elsewhere:
            return response.place.unusable()
        where = f"repository {quote(self._endpoint.repository)} at {quote(self._endpoint.host)}"
        if response.status == _NOT_FOUND:
            remedy = f"; push it, or correct the {'tag' if word == 'tag' else 'digest'}"
            if self._missing is Reason.PINNED_CONTENT_GONE:
                remedy = " any more; push it again, or ask for a new resolution"
            return BundleError(self._missing, f"{self._path}.ref: {where} has no {what}{remedy}")
        if response.status in (_UNAUTHORIZED, _FORBIDDEN):
            return BundleError(Reason.UNAUTHORIZED, self._unauthorized(where))
        problem = f"answers with status {response.status} when asked for {what}; check the address"
        return BundleError(Reason.UNREACHABLE, f"{self._path}.ref: {where} {problem}")

    def _unauthorized(self, where: str) -> str:
        if self._login.has_credentials:
            problem = "cannot be read with these credentials, or is not there; correct the Secret, or its rights there"
            return f"{self._path}.auth: {where} {problem}"
        problem = "is not for everybody, or is not there; correct the name, or name a Secret with credentials for it"
        return f"{self._path}.auth: {where} {problem}"


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

    def read_all(self, limit: int) -> bytes:
        """Return the whole blob, verified.

        Raises: BundleError (ContentRejected over `limit` bytes, DigestMismatch, Unreachable).
        """
        if self._descriptor.size > limit:
            message = f"{self._path}.ref: blob {quote(self._descriptor.digest)} is over {limit} bytes; make it smaller"
            raise BundleError(Reason.CONTENT_REJECTED, message)
        parts = []
        while data := self.read(_CHUNK):
            parts.append(data)
        self.verify()
        return b"".join(parts)

    def close(self) -> None:
        """Let go of the connection."""
        self._response.close()


def _mismatch(path: str, digest: str) -> BundleError:
    message = f"{path}.ref: what the registry has for {quote(digest)} is something else; find out who changed it"
    return BundleError(Reason.DIGEST_MISMATCH, message)
