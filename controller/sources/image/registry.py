"""The distribution API: tags, manifests, and blobs by digest, verified while they stream; and pushing an image.

Https is the default; plain http is used for loopback registries without certificates and credentials, and, if
insecureSkipTLSVerify is set, for registries without TLS. Credentials are sent over verified https only.

The controller never pushes; `rukpak package` does, an image of one layer. The same content gives the same digest,
wherever and whenever it is pushed.

Not here: parsing manifests (manifest.py), and logging in (login.py). The API:
https://github.com/opencontainers/distribution-spec/blob/main/spec.md, the image:
https://github.com/opencontainers/image-spec/blob/main/config.md.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import urlencode, urljoin, urlsplit

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Room, endless
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.digests import digest_of, is_digest
from rukpak.controller.content.limits import describe_bytes, quote
from rukpak.controller.sources.hosts import Detour, Place, check_host
from rukpak.controller.sources.image.login import Login
from rukpak.controller.sources.image.manifest import ACCEPT, OCI_MANIFEST, Descriptor, ValueCounter, parse_manifest
from rukpak.controller.sources.image.reference import (
    ImageReference,
    find_endpoint,
    is_wildcard,
    locate,
    parse_reference,
)
from rukpak.controller.sources.transport import PlainServerError, Response, StatusError, Transport
from rukpak.controller.sources.trust import check_secure, read_tls
from rukpak.controller.sources.versions import Check, proceed

_PAGE_BYTES = 4 * MEBIBYTE
_FIRST = "n=1000"
_MOST = 100_000
_MOST_PAGES = 1000
_MEMORY_FACTOR = 40
"""How much memory JSON may take for each of its bytes: `{},` becomes a dictionary of 64 and a reference."""
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# RFC 8288, section 3: a target in angle brackets and its parameters; relation types are words in any case.
_LINK = re.compile(r'<([^>]{0,4096})>((?:[^,<"]|"[^"]*")*)')
_RELATION = re.compile(r";\s*rel\s*=\s*[\"']?([^\"';,]*)", re.IGNORECASE)
_MANIFEST_BYTES = 4 * MEBIBYTE  # the minimum that registries must accept, and the maximum of most
_CHUNK = 64 * 1024
_MOST_HOSTS = 256
_OK, _CREATED, _ACCEPTED = 200, 201, 202
_BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 400, 401, 403, 404
_REFUSALS = (_BAD_REQUEST, _FORBIDDEN)
_ABSENT = (_NOT_FOUND, _FORBIDDEN, _UNAUTHORIZED)
"""What a registry answers for a tag that is not there: some do not tell who may not write whether it is."""

Advance: TypeAlias = Callable[[int, Place], None]


@contextmanager
def connected(
    parameters: Mapping[str, Any],
    reference: ImageReference,
    access: Access,
    *,
    missing: Reason,
    field: str = "ref",
    detour: Detour | None = None,
) -> Iterator[Registry]:
    """Provide the repository that a reference names, for one call.

    Args:
        parameters: of the source.
        reference: its tag and digest are ignored.
        access: of the call.
        missing: reason for a 404: NotFound while resolving, PinnedContentGone afterwards.
        field: of the spec that names the repository; in messages.
        detour: if the spec does not name the registry.

    Raises: BundleError (InsecureRefused, SecretInvalid).
    """
    subject = f"{access.path}.{field}"
    check_host(subject, locate(reference.registry), access.network)
    endpoint = find_endpoint(reference, access.network.registry_mirrors)
    loopback = endpoint.location.is_loopback
    tls = read_tls(parameters, access, None if endpoint.is_mirror else endpoint.location)  # the spec names no mirror
    with Transport(replace(access, path=subject), tls=tls, loopback=loopback, detour=detour) as transport:
        login = Login(transport, endpoint, access, verify=tls.verify)
        if login.has_credentials:
            check_secure(access.path, plain=False, verify=tls.verify)
        schemes: tuple[str, ...] = ("https",) if tls.verify else ("https", "http")
        if tls.verify and loopback and not (tls.certificate_data or tls.keys or login.has_credentials):
            schemes = ("http", "https")
        yield Registry(login, schemes=schemes, field=field, missing=missing)


def read_tags(registry: Registry, room: Room = endless, check: Check = proceed) -> Iterator[list[str]]:
    """Yield the tags page by page, so that only one page is in memory; names that no tag may have are left out.

    Once all have been read, and there are some, they count as what was looked for, even if another host has sent them.

    Args:
        registry: to ask.
        room: of the call; reserves the memory of a page until the next one is asked for. Nothing else may be reserved
            meanwhile.
        check: called often; raises to stop.

    Raises: BundleError (NotFound, ContentRejected for too many, Unreachable for an answer that is no list of tags, …).
    """
    query, count = _FIRST, 0
    for _ in range(_MOST_PAGES):
        check()
        response = registry.list_tags(query)
        data = response.read_all(_PAGE_BYTES)
        with room(len(data) * _MEMORY_FACTOR):
            page = _parse_page(data, response.place)
            del data
            count += len(page)
            if count > _MOST:
                break
            yield page
            del page
        # Only the query: the next page is on the same host, which has the credentials.
        query = urlsplit(_next(response.headers.get("Link", ""))).query
        if not query:
            if count:
                response.settle()
            return
    problem = f"the repository has more than {_MOST} tags; name one tag instead of a range"
    raise BundleError(Reason.CONTENT_REJECTED, problem, place=response.place.subject)


def _parse_page(data: bytes, place: Place) -> list[str]:
    try:
        page = json.loads(data).get("tags") or []
        return [tag for tag in page if isinstance(tag, str) and _TAG.fullmatch(tag)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        problem = "the registry returned something else than a list of tags; check it"
        raise BundleError(Reason.UNREACHABLE, problem, place=place.subject) from None


def _next(header: str) -> str:
    # Registries also mean it by a link without a relation.
    for target, parameters in _LINK.findall(header):
        relation = _RELATION.search(parameters)
        if relation is None or "next" in relation[1].lower().split():
            return str(target)
    return ""


_WITHOUT_HEAD = OrderedDict[str, None]()
"""Registries that answer HEAD of a manifest with an error, and GET with the manifest: the latest few."""
_WITHOUT_REFERRERS = OrderedDict[str, None]()
"""Registries that do not list referrers: the latest few."""
_LOCK = threading.Lock()


def _remember(hosts: OrderedDict[str, None], host: str) -> None:
    with _LOCK:
        hosts[host] = None
        while len(hosts) > _MOST_HOSTS:
            hosts.popitem(last=False)


class Registry:
    """One repository of one registry, for one call of the source.

    Args:
        schemes: to try in this order: https, http, or both. With https first, a server without TLS gets plain http,
            unless there are credentials; with http first, one that does not understand it gets https.
        field: of the spec that names the repository.
        missing: reason for a 404: NotFound while resolving, PinnedContentGone afterwards.
    """

    def __init__(self, login: Login, *, schemes: tuple[str, ...], missing: Reason, field: str = "ref") -> None:
        self._login, self._transport, self._endpoint = login, login.transport, login.endpoint
        self._schemes, self._path, self._missing = schemes, login.path, missing
        self._subject = f"{login.path}.{field}"
        self._has_asked_base = False

    def resolve(self, target: str) -> str:
        """Return the digest that a tag names now; of a digest, check that the registry has it for this caller.

        Some registries answer HEAD of a manifest with an error although they have it (Sonatype Nexus): after that a GET
        decides, and such a host gets no HEAD any more.

        Raises: BundleError (NotFound, Unauthorized, Unreachable, InsecureRefused, …).
        """
        digest = None if self._endpoint.host in _WITHOUT_HEAD else self._ask_by_head(target)
        return digest or digest_of(self.read_manifest(target))

    def _ask_by_head(self, target: str) -> str | None:
        try:
            response, is_final = self._exchange("HEAD", "manifests", target, (_OK,))
        except StatusError:
            return self._read_without_head(target)
        response.discard()
        if response.status == _OK:
            return _digest_in(response, target)
        if is_final or response.status == _UNAUTHORIZED:
            raise self._failure(response, "manifests", target)
        return self._read_without_head(target)

    def _read_without_head(self, target: str) -> str:
        data = self.read_manifest(target)
        _remember(_WITHOUT_HEAD, self._endpoint.host)
        return digest_of(data)

    def read_manifest(self, target: str) -> bytes:
        """Return a manifest or index, verified if `target` is a digest.

        Raises: BundleError (`missing`, DigestMismatch, ContentRejected over 4 MiB, Unauthorized, Unreachable, …).
        """
        response = self._get("manifests", target)
        data = response.read_all(_MANIFEST_BYTES, ValueCounter(self._subject).add)
        if is_digest(target) and digest_of(data) != target:
            raise _mismatch(self._subject, target)
        if response.place.is_elsewhere:
            parse_manifest(data, self._path)
            response.settle()
        return data

    def find_manifest(self, target: str) -> bytes | None:
        """Return a manifest or index that need not exist; None if the registry does not have it for this caller.

        Raises: BundleError as `read_manifest`, except for one that is missing.
        """
        response, _ = self._exchange("GET", "manifests", target, (_OK, _NOT_FOUND))
        if response.status in _ABSENT:
            response.discard()
            return None
        return self._accept(response, "manifests", target).read_all(_MANIFEST_BYTES, ValueCounter(self._subject).add)

    @property
    def lists_referrers(self) -> bool:
        """Whether the host may list what refers to a digest: it has not answered yet that it does not know the path."""
        return self._endpoint.host not in _WITHOUT_REFERRERS

    def find_referrers(self, digest: str, artifact_type: str) -> bytes | None:
        """Return the index of what of a type refers to a digest; None if the registry does not list that.

        https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-referrers: then it has the tag
        that is named like the digest. One that does not know the path may answer with any error.

        Raises: BundleError (Unreachable, ContentRejected over 4 MiB, …).
        """
        try:
            name = f"{digest}?artifactType={artifact_type}"
            response, _ = self._exchange("GET", "referrers", name, (_OK, _NOT_FOUND))
        except StatusError:
            return None
        if response.status != _OK or response.place.is_elsewhere:
            response.discard()
            if response.status == _NOT_FOUND:
                _remember(_WITHOUT_REFERRERS, self._endpoint.host)
            return None
        return response.read_all(_MANIFEST_BYTES, ValueCounter(self._subject).add)

    def list_tags(self, query: str) -> Response:
        """Return a page of the list of tags to read; `query` selects the page.

        A registry that refuses its size is left to choose one, as by clients that never ask for a size.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        response, _ = self._exchange("GET", "tags", f"list?{query}", (_OK,))
        if response.status == _BAD_REQUEST and query.startswith("n="):
            response, _ = self._exchange("GET", "tags", "list", (_OK,))
        return self._accept(response, "tags", "list")

    def open_blob(self, descriptor: Descriptor, advance: Advance = lambda _count, _place: None) -> Blob:
        """Return a blob to read; `advance` is called with the number of bytes of each read, and who sends them.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        return Blob(self.read_blob(descriptor.digest), descriptor, self._subject, advance)

    def read_blob(self, digest: str) -> Response:
        """Return a blob to read, which the caller verifies.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        return self._get("blobs", digest)

    def _get(self, kind: str, name: str) -> Response:
        response, _ = self._exchange("GET", kind, name, (_OK,))
        return self._accept(response, kind, name)

    def _accept(self, response: Response, kind: str, name: str) -> Response:
        if response.status != _OK:
            response.discard()
            raise self._failure(response, kind, name)
        return response

    def _exchange(
        self,
        method: str,
        kind: str,
        name: str,
        expected: tuple[int, ...],
        content: tuple[str, bytes | None] = ("", None),
    ) -> tuple[Response, bool]:
        """Send a request, perhaps with a media type and a body; log in if that is asked for, and send it again.

        Returns: the last response, and whether its refusal is final: that of another host after a redirect, for which
            the credentials are not, or one after a login.
        """
        is_login = False
        path = f"{self._endpoint.repository}/{kind}/{name}"
        response = self._send(method, path, *content)
        while response.status not in expected and not response.place.is_elsewhere:
            response.discard()
            if not (self._login.answer(response) or self._log_in_by_base(response)):
                break
            is_login = True
            response = self._send(method, path, *content)
        if response.status in expected:
            self._login.accept()
        is_refused = is_login and response.status in _REFUSALS
        return response, response.status not in expected and (is_refused or response.place.is_elsewhere)

    def _log_in_by_base(self, refusal: Response) -> bool:
        """Log in as the base of the API asks for it, once, if a refusal may be due to a missing login.

        Some registries do not challenge a request for what strangers must not know about, and answer with 404 or 403
        (Artifactory that admits anonymous users). Docker and crane ask the base first, so they see no difference.
        """
        if self._has_asked_base or not self._login.may_begin(refusal.status):
            return False
        self._has_asked_base = True
        base = self._send("GET", "")
        base.discard()
        return not base.place.is_elsewhere and self._login.begin(base)

    def _send(self, method: str, path: str, media_type: str = "", body: bytes | None = None) -> Response:
        headers = {"Content-Type": media_type} if media_type else {"Accept": ACCEPT}

        def _send_by(scheme: str) -> Response:
            url = f"{scheme}://{self._endpoint.host}/v2/{path}"
            return self._transport.send(method, url, {**headers, **self._login.headers}, body=body)

        if self._schemes == ("http", "https"):
            return self._send_by_either(_send_by)
        try:
            return _send_by(self._schemes[0])
        except PlainServerError:
            if self._login.has_credentials:
                problem = f"registry {quote(self._endpoint.host)} supports plain http only"
                problem += ", over which no credentials are sent"
                problem = f"{problem}; serve it over https, or remove auth"
                raise BundleError(Reason.INSECURE_REFUSED, problem, place=f"{self._path}.auth") from None
            if len(self._schemes) == 1:
                raise
            self._schemes = self._schemes[1:]
            return _send_by(self._schemes[0])

    def _send_by_either(self, send_by: Callable[[str], Response]) -> Response:
        first: Response | BundleError
        try:
            first = send_by("http")
            if first.status != _BAD_REQUEST:
                return first
        except BundleError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
            first = error
        try:
            response = send_by("https")
        except BundleError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
            if isinstance(first, BundleError):
                raise first from None
            return first
        if isinstance(first, Response):
            first.discard()
        self._schemes = ("https",)
        return response

    # failures

    def _failure(self, response: Response, kind: str, name: str) -> BundleError:
        if response.place.is_elsewhere:
            return response.place.unusable()
        word = {"blobs": "blob"}.get(kind, "manifest" if is_digest(name) else "tag")
        item = "the list of tags" if kind == "tags" else f"{word} {quote(name)}"
        repository = f"repository {quote(self._endpoint.repository)} at {quote(self._endpoint.host)}"
        if response.status == _NOT_FOUND:
            problem = self._describe_absence(item, name, is_list=kind == "tags")
            return BundleError(self._missing, f"{repository} {problem}", place=self._subject)
        if response.status in (_UNAUTHORIZED, _FORBIDDEN):
            problem = "requires credentials, or does not exist; correct the name, or set a Secret with credentials"
            if self._login.has_credentials:
                remedy = "correct the Secret or its permissions"
                problem = f"denies access with these credentials, or does not exist; {remedy}"
            return BundleError(Reason.UNAUTHORIZED, f"{repository} {problem}", place=f"{self._path}.auth")
        problem = f"returned status {response.status} for {item}; check the address"
        return BundleError(Reason.UNREACHABLE, f"{repository} {problem}", place=self._subject)

    def _describe_absence(self, item: str, name: str, *, is_list: bool) -> str:
        if self._missing is Reason.PINNED_CONTENT_GONE and not is_list:
            return f"no longer has {item}; push it again, or request a new resolution"
        if is_list or not self._has_repository():
            return "does not exist; correct its name, or push to it"
        if is_wildcard(name):
            return f"has no {item}; use one tag or a digest, or semver for a range of versions"
        return f"has no {item}; push it, or correct the {'digest' if is_digest(name) else 'tag'}"

    def _has_repository(self) -> bool:
        # The registry is asked once, after a 404.
        try:
            response = self._send("GET", f"{self._endpoint.repository}/tags/list?n=1")
        except BundleError:
            return True
        response.discard()
        return response.status != _NOT_FOUND or response.place.is_elsewhere

    # pushing

    def push_blob(self, blob: bytes) -> None:
        """Upload a blob, unless the repository has it.

        Raises: BundleError.
        """
        digest = digest_of(blob)
        if self._write("HEAD", "blobs", digest, also=_NOT_FOUND).status != _NOT_FOUND:
            return
        started = self._write("POST", "blobs", "uploads/", also=_ACCEPTED, content=("text/plain", b""))
        place = urljoin(started.url, started.headers.get("Location", ""))
        url = f"{place}{'&' if urlsplit(place).query else '?'}{urlencode({'digest': digest})}"
        is_own = urlsplit(url)[:2] == urlsplit(started.url)[:2]  # no other server gets the login
        headers = {"Content-Type": "application/octet-stream", **(self._login.headers if is_own else {})}
        response = self._transport.send("PUT", url, headers, body=blob, named=started.url)
        response.discard()
        if response.status != _CREATED:
            raise self._not_pushed(response, "blobs", digest)

    def push_manifest(self, tag: str, manifest: bytes) -> None:
        """Upload a manifest, and have the tag name it.

        Raises: BundleError.
        """
        self._write("PUT", "manifests", tag, also=_CREATED, content=(OCI_MANIFEST, manifest))

    def _write(
        self, method: str, kind: str, name: str, *, also: int, content: tuple[str, bytes | None] = ("", None)
    ) -> Response:
        response, _ = self._exchange(method, kind, name, (_OK, also), content)
        response.discard()
        if response.status not in (_OK, also):
            raise self._not_pushed(response, kind, name)
        return response

    def _not_pushed(self, response: Response, kind: str, name: str) -> BundleError:
        repository = f"repository {quote(self._endpoint.repository)} at {quote(self._endpoint.host)}"
        if response.status in (_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND):
            problem = "may not be pushed to without credentials; log in, or correct the name"
            if self._login.has_credentials:
                problem = "may not be pushed to with these credentials; correct them, or the name"
            return BundleError(Reason.UNAUTHORIZED, f"{repository} {problem}", place=self._path)
        item = "the manifest" if kind == "manifests" else "a blob"
        problem = f"returned status {response.status} for {item} ({quote(name)}); check the address"
        return BundleError(Reason.UNREACHABLE, f"{repository} {problem}", place=self._path)


class Blob:
    """A blob, hashed while it is read."""

    def __init__(self, response: Response, descriptor: Descriptor, subject: str, advance: Advance) -> None:
        self._response, self._descriptor, self._subject, self._advance = response, descriptor, subject, advance
        self._count, self._hash = 0, hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end.

        Raises: BundleError (Unreachable; DigestMismatch if there are too many bytes).
        """
        data = self._response.read(size)
        self._count += len(data)
        if self._count > self._descriptor.size:
            raise _mismatch(self._subject, self._descriptor.digest)
        self._hash.update(data)
        self._advance(len(data), self._response.place)
        return data

    def verify(self) -> None:
        """Read the rest and verify size and digest; no part of a blob may be used before.

        Raises: BundleError (DigestMismatch, Unreachable).
        """
        while self.read(_CHUNK):
            pass
        if self._count != self._descriptor.size or f"sha256:{self._hash.hexdigest()}" != self._descriptor.digest:
            raise _mismatch(self._subject, self._descriptor.digest)
        self._response.settle()

    def read_all(self, limit: int) -> bytes:
        """Return the whole blob, verified.

        Raises: BundleError (ContentRejected over `limit` bytes, DigestMismatch, Unreachable).
        """
        if self._descriptor.size > limit:
            problem = f"blob {quote(self._descriptor.digest)} exceeds the limit of {describe_bytes(limit)}"
            raise BundleError(Reason.CONTENT_REJECTED, f"{problem}; make it smaller", place=self._subject)
        data = b"".join(iter(lambda: self.read(_CHUNK), b""))
        self.verify()
        return data

    def close(self) -> None:
        """Release the connection."""
        self._response.close()


def _digest_in(response: Response, target: str) -> str | None:
    """Return the digest that a successful answer to HEAD is for; None if it does not tell.

    Raises: BundleError (Unreachable) if another host does not answer as a registry: any server answers somehow.
    """
    found = response.headers.get("Docker-Content-Digest", "")
    found = found if is_digest(found) else ""
    wanted = target if is_digest(target) else found
    if response.place.is_elsewhere and (not found or found != wanted):
        raise response.place.unusable()
    return wanted or None


def _mismatch(subject: str, digest: str) -> BundleError:
    problem = f"the registry returned content that does not match {quote(digest)}; find out who changed it"
    return BundleError(Reason.DIGEST_MISMATCH, problem, place=subject)


_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


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
            "mediaType": OCI_MANIFEST,
            "config": _describe(_CONFIG, config),
            "layers": [_describe(_LAYER, layer)],
        }
    )
    with connected(parameters, reference, access, missing=Reason.NOT_FOUND) as registry:
        for blob in (config, layer):
            registry.push_blob(blob)
        registry.push_manifest(reference.tag, manifest)
    return f"{reference.name}:{reference.tag}@{digest_of(manifest)}"


def _make_config(layer: bytes) -> bytes:
    unpacked = hashlib.sha256(gzip.decompress(layer)).hexdigest()
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{unpacked}"]}
    return _encode({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs})


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _describe(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(blob), "size": len(blob)}
