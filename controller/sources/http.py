"""One file over http: downloaded whole, verified, then unpacked if it is an archive.

Only its body tells what a URL names now, so resolving passes the content on (`Access.keep`). With a sha256 in the spec,
one request is enough to authorize the caller. A body is an archive by its first bytes, otherwise one file of manifests
by its name in the URL. `Download` is for other files over http, too.

Invariants: no body is interpreted before its digest is verified; credentials are sent over verified https only, to the
host of the URL only; neither user info nor a query is ever shown, since they may contain secrets; nothing beyond the
compressed limit is written; a download is resumed only by a range of the same representation (If-Range with a strong
entity tag), otherwise restarted. RFC 9110, sections 8.8 and 13 to 15.

Not here: retries of unreachable servers, redirects, encodings and deadlines (transport.py), what a URL means
(hosts.py), and reading bodies, checking and writing entries (content/archive.py).
"""

from __future__ import annotations

import email.utils
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, BinaryIO

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Entry, Resolution, Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import is_file_name, read_body
from rukpak.controller.content.disk import Spool
from rukpak.controller.content.limits import Rejection, describe_bytes, quote
from rukpak.controller.sources.hosts import Address, check_host, find_problems, find_url_problems, parse_address
from rukpak.controller.sources.pace import check_deadline
from rukpak.controller.sources.signatures import SignatureError, checking, cosign
from rukpak.controller.sources.transport import Response, StatusError, Transport
from rukpak.controller.sources.trust import certificate_problems, credential_headers, read_tls

_CHUNK = 64 * 1024
_CUTS = 3  # in a row without progress; then the work queue retries
_PROGRESS = MEBIBYTE

_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,500}"')
_DATE = re.compile(r"[\x20-\x7e]{1,64}")
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
_LENGTH = re.compile(r"\d{1,18}")

_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file to download, and what messages say about it."""

    address: Address
    headers: Mapping[str, str] = field(default_factory=dict)
    """They carry credentials."""
    missing: Reason = Reason.NOT_FOUND
    """Reason of a 404: NotFound while resolving, PinnedContentGone afterwards."""
    field: str = "url"
    """Field of the spec that led to it."""
    remedy: str = "correct url, or publish the file"
    """If it does not exist."""
    named: str = ""
    """URL that the user named, if it is another one: messages reveal nothing about other origins."""
    named_by: str = ""
    """What is told of another origin, if the address is there."""


class Download:
    """One file, for one call of the source."""

    def __init__(self, transport: Transport, wanted: Wanted, access: Access) -> None:
        self._transport, self._wanted, self._access = transport, wanted, access
        self._subject = f"{access.path}.{wanted.field}"
        # Of the representation that the spool contains the start of:
        self._tag = ""
        """Its entity tag, if strong."""
        self._total = 0
        """Its size in bytes; 0 if unknown."""
        self._url = ""
        """Where it is, if another host has sent it: whoever has redirected must not see that the connection was cut."""

    def ask(self, validator: str) -> Response:
        """Check that the server has the file for this caller, without reading the body.

        By GET: not every server supports HEAD, and a presigned URL is for one method. A redirect to another host is an
        answer, too: that host gets no credentials, and is not asked.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        response = self._send(_condition(validator), leaves=False)
        response.discard()
        return response

    def check(self) -> None:
        """Check that the server has the file for these credentials: by HEAD, or as `ask` where that is refused.

        Raises: BundleError as `ask`.
        """
        try:
            response = self._request("HEAD", {}, leaves=False)
        except StatusError:
            pass
        else:
            response.discard()
            if response.status == HTTPStatus.OK or response.is_redirect:
                return
            if response.status == HTTPStatus.UNAUTHORIZED:
                raise self._failure(response)
        self.ask("")

    def fetch(self, spool: Spool, validator: str = "") -> Response:
        """Download the whole file into a spool, unless it still matches a validator.

        Returns: the last response, whose body has been read; see `is_unchanged`.
        Raises: BundleError (`missing`, Unauthorized, Unreachable, ContentRejected over the limit, StorageFull, …).
        """
        furthest = cuts = 0
        while True:
            response = self._send(self._continuation(spool) or _condition(validator))
            cut = None if response.status == HTTPStatus.NOT_MODIFIED else self._receive(response, spool)
            if cut is None:
                return response
            cuts = 0 if spool.size >= furthest + _PROGRESS else cuts + 1
            furthest = max(furthest, spool.size)
            if cuts == _CUTS or (response.place.is_elsewhere and not self._continuation(spool)):
                raise cut

    def _send(self, headers: Mapping[str, str], *, leaves: bool = True) -> Response:
        response = self._request("GET", headers, leaves=leaves)
        expected = {HTTPStatus.OK}
        if "Range" in headers:
            expected |= {HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE}
        elif headers:
            expected |= {HTTPStatus.NOT_MODIFIED}
        if response.status not in expected and (leaves or not response.is_redirect):
            response.discard()
            raise self._failure(response)
        return response

    def _request(self, method: str, headers: Mapping[str, str], *, leaves: bool) -> Response:
        wanted = self._wanted
        url, named, sent = wanted.address.url, wanted.named, {**wanted.headers, **headers}
        if "Range" in headers and self._url:
            url, named, sent = self._url, named or url, dict(headers)
        return self._transport.send(method, url, sent, named=named, leaves=leaves, named_by=wanted.named_by)

    def _failure(self, response: Response) -> BundleError:
        if response.place.is_elsewhere:
            return response.place.unusable()
        host, path = response.place.described, quote(self._wanted.address.path)
        field = self._wanted.field
        if response.status in _GONE:
            remedy = self._wanted.remedy
            if self._wanted.missing is Reason.PINNED_CONTENT_GONE:
                remedy = f"restore the file, or correct {field} and set annotation {names.RECONCILE_REQUESTED_AT}"
            return BundleError(self._wanted.missing, f"{host} does not have {path}; {remedy}", place=self._subject)
        if response.status in _REFUSED:
            return BundleError(Reason.UNAUTHORIZED, f"{host} denies access to {path}; check auth", place=self._subject)
        problem = f"{host} returned status {response.status} for {path}; check {field}"
        return BundleError(Reason.UNREACHABLE, problem, place=self._subject)

    # parts

    def _continuation(self, spool: Spool) -> Mapping[str, str]:
        if not (spool.size and self._tag):
            return {}
        return {"Range": f"bytes={spool.size}-", "If-Range": self._tag}

    def _receive(self, response: Response, spool: Spool) -> BundleError | None:
        try:
            self._align(response, spool)
            while data := response.read(_CHUNK):
                self._check_size(response, spool.size + len(data))
                spool.append(data)
                response.place.report(self._access, spool.size, self._total)
        except BundleError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
            return error
        finally:
            response.close()
        return None

    def _align(self, response: Response, spool: Spool) -> None:
        """Note the representation of a response, and restart the spool unless it is the rest of the present one.

        Raises: BundleError (Unreachable for a part that was not requested; ContentRejected).
        """
        if response.status == HTTPStatus.OK:
            spool.restart()
            length = response.headers.get("Content-Length", "")
            tag = find_validator(response)
            self._tag = tag if tag.startswith('"') else ""
            self._total = int(length) if _LENGTH.fullmatch(length) else 0
            self._url = response.url if response.place.is_elsewhere else ""
            self._check_size(response, self._total)
        elif not self._is_rest(response, spool):
            self._tag = ""
            problem = f"{quote(response.place.host)} does not resume an interrupted download"
            raise BundleError(Reason.UNREACHABLE, f"{problem}; use another server", place=self._subject)

    def _is_rest(self, response: Response, spool: Spool) -> bool:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status != HTTPStatus.PARTIAL_CONTENT or not found:
            return False
        totals = ("*", str(self._total)) if self._total else (found[2],)
        tags = ("", self._tag)
        return int(found[1]) == spool.size and found[2] in totals and response.headers.get("ETag", "") in tags

    def _check_size(self, response: Response, size: int) -> None:
        limit = self._access.limits.compressed_bytes
        if size > limit:
            problem = f"the file at {quote(response.place.host)} exceeds the limit of {describe_bytes(limit)}"
            raise BundleError(Reason.CONTENT_REJECTED, f"{problem}; make it smaller", place=self._subject)


_OF_SIGNATURES = {
    Reason.NOT_FOUND: Reason.VERIFICATION_FAILED,
    Reason.CONTENT_REJECTED: Reason.VERIFICATION_FAILED,
    Reason.UNREACHABLE: Reason.VERIFICATION_UNAVAILABLE,
}


def read_signature(transport: Transport, wanted: Wanted, access: Access, limit: int) -> bytes:
    """Download a signature of at most `limit` bytes.

    Raises: BundleError (VerificationFailed if there is none, or it is too large; VerificationUnavailable if the server
        does not answer; Unauthorized, …).
    """
    limits = replace(access.limits, compressed_bytes=limit)
    small = replace(access, limits=limits, progress=lambda _done, _total: None, receive=lambda _done: None)
    try:
        with Spool(access.scratch, access.path) as spool:
            Download(transport, wanted, small).fetch(spool)
            return spool.rewind().read()
    except BundleError as error:
        reason = _OF_SIGNATURES.get(error.reason, error.reason)
        raise BundleError(reason, error.problem, place=error.place, retry_after=error.retry_after) from None


# validators


def _condition(validator: str) -> dict[str, str]:
    if not validator:
        return {}
    return {"If-None-Match" if _ENTITY_TAG.fullmatch(validator) else "If-Modified-Since": validator}


def find_validator(response: Response) -> str:
    """Return what a later request for the same file can be made conditional by; '' for none."""
    tag, date = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
    if _ENTITY_TAG.fullmatch(tag):
        return tag
    # The parser accepts anything after a date, but this is written to status and sent with the next request.
    return date if _DATE.fullmatch(date) and email.utils.parsedate(date) else ""


class HttpSource:
    """The kind `http`. Parameters: url, sha256, stripComponents, verify, insecureSkipTLSVerify, certificateData."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each with its field path below `path`."""
        problems = find_url_problems(parameters.get("url", ""), f"{path}.url", parse_address)
        problems += _verify_problems(parameters, path) + sha256_problems(parameters, path)
        return problems + certificate_problems(parameters, path)

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return URL and sha256; `stripComponents` does not change what they name."""
        return {"url": parse_address(parameters["url"]).url, "sha256": _sha256(parameters)}

    def origin(self, parameters: Mapping[str, Any]) -> str:
        """Return the whole URL: often the query names the file."""
        return parse_address(parameters["url"]).url

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Read the file, unless it has not changed; with a sha256, only check that this caller may read it.

        With `verify`, it is always read, to scratch, and stored only if it is signed.

        Returns: pinned as the URL, digest as the sha256 of the body.
        Raises: BundleError (NotFound, VerificationFailed, VerificationUnavailable, InvalidVerification, and those of
            `fetch` except PinnedContentGone).
        """
        verify, given, signature = parameters.get("verify"), _sha256(parameters), b""
        address, previous = _parse(parameters, access), access.previous
        # To check a signature with other keys, the same file is read again.
        validator = previous.validator if previous and (previous.signer or not verify) else ""
        with _download(address, parameters, access) as download, Spool(access.scratch, access.path) as spool:
            if given and not verify:
                answer = download.ask(validator)
                if previous and answer.is_unchanged:
                    return previous
                return Resolution(pinned=address.url, digest=f"sha256:{given}", validator=find_validator(answer))
            if verify:
                if previous and validator and download.ask(validator).is_unchanged:
                    return previous
                # It comes first: asked for afterwards, it would tell the server of the spec that another one, to which
                # it has redirected, has answered.
                signature = _read_signature(address, parameters, access)
            answer = download.fetch(spool, validator)
            if previous and answer.is_unchanged:
                return previous
            resolution = Resolution(pinned=address.url, digest=spool.digest, validator=find_validator(answer))
            if verify:
                expected = f"sha256:{given}" if given else spool.digest
                if spool.digest != (access.pinned.digest if access.pinned else expected):
                    raise _mismatch(address, parameters, access)
                signer = _check(spool, signature, parameters, access)
                resolution = replace(access.pinned or resolution, signer=signer)
            access.keep(resolution, _read(spool, address, parameters, access))
            return resolution

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        """Return digest, stripComponents, and the name of a single file; of an archive, how it is read."""
        name = _name(parse_address(parameters["url"]))
        return f"{resolution.digest}|{parameters.get('stripComponents') or 0}|{name if is_file_name(name) else ''}"

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the file, or the entries of an archive; the digest is verified before the first one.

        Raises: BundleError (PinnedContentGone, DigestMismatch, ContentRejected, UnsupportedContent, StorageFull,
            Unauthorized, Unreachable, TLSVerificationFailed, InsecureRefused, InvalidReference, SecretInvalid).
        """
        address = _parse(parameters, access)
        missing, folder = Reason.PINNED_CONTENT_GONE, access.scratch
        with _download(address, parameters, access, missing) as download, Spool(folder, access.path) as spool:
            download.fetch(spool)
            if spool.digest != resolution.digest:
                raise _mismatch(address, parameters, access)
            yield from _read(spool, address, parameters, access)


@contextmanager
def _download(
    address: Address, parameters: Mapping[str, Any], access: Access, missing: Reason = Reason.NOT_FOUND
) -> Iterator[Download]:
    with connect(address, parameters, access) as transport:
        headers = credential_headers(parameters, access, address)
        yield Download(transport, Wanted(address=address, headers=headers, missing=missing), access)


def _read(spool: Spool, address: Address, parameters: Mapping[str, Any], access: Access) -> Iterator[Entry]:
    file, strip = _Watched(spool.rewind(), access), parameters.get("stripComponents") or 0
    try:
        yield from read_body(file, spool.size, _name(address), strip, access.limits)
    except Rejection as rejection:  # by a reader, or thrown by the writer
        raise rejection.at(access.path) from None


# signatures

_SIGNATURE_URL = "signatureURL"
_COSIGN = "cosign"
_SUFFIX_OF_SIGNATURES = ".sigstore.json"
_BUNDLE = "application/vnd.dev.sigstore.bundle"


def _verify_problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    verify, problems = parameters.get("verify") or {}, list[str]()
    if url := verify.get(_SIGNATURE_URL):
        problems += find_problems(url, f"{path}.verify.{_SIGNATURE_URL}", parse_address, "the URL")
    if (verify.get(_COSIGN) or {}).get("attestation"):
        problems.append(f"{path}.verify.cosign.attestation: must not be set: a file has a signature only; remove it")
    return problems


def _read_signature(address: Address, parameters: Mapping[str, Any], access: Access) -> bytes:
    # Another origin than that of the file gets no credentials.
    verify = parameters["verify"]
    given = verify.get(_SIGNATURE_URL)
    beside = replace(address, path=f"{address.path}{_SUFFIX_OF_SIGNATURES}")
    found = parse_address(given) if given else beside
    is_same = found.origin == address.origin
    wanted = Wanted(
        address=found,
        headers=credential_headers(parameters, access, found) if is_same else {},
        field="verify",
        remedy=f"publish the signature there, or set {_SIGNATURE_URL}",
    )
    with connect(found, parameters, access, f"verify.{_SIGNATURE_URL}" if given else "url") as transport:
        signature = read_signature(transport, wanted, access, MEBIBYTE)
        with checking(f"{access.path}.verify", ""):
            _check_form(signature)
        transport.settle()
        return signature


def _check_form(signature: bytes) -> None:
    try:
        bundle = json.loads(signature)
    except (ValueError, RecursionError):
        bundle = None
    if not isinstance(bundle, dict) or not str(bundle.get("mediaType", "")).startswith(_BUNDLE):
        raise SignatureError("it is not a Sigstore bundle; sign the file with cosign sign-blob --bundle")


def _check(spool: Spool, signature: bytes, parameters: Mapping[str, Any], access: Access) -> Signer:
    verify, path = parameters["verify"], f"{access.path}.verify"
    wanted = cosign.read_wanted(verify[_COSIGN], access.trusted.data, f"{path}.{_COSIGN}")
    with checking(path, "", "the bundle is not accepted: "):
        found = cosign.check_bundle(signature, cosign.Subject(digest=spool.digest), wanted)
        if found.predicate_type not in ("", cosign.SIGNATURE):
            raise SignatureError("it is an attestation, not a signature")
        return found.signer


class _Watched:
    """A file that can be read only until the deadline of the call."""

    def __init__(self, file: BinaryIO, access: Access) -> None:
        self._file, self._access = file, access

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes. Raises: BundleError (Unreachable)."""
        check_deadline(self._access)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to an offset; return it relative to the start."""
        return self._file.seek(offset, whence)


def _mismatch(address: Address, parameters: Mapping[str, Any], access: Access) -> BundleError:
    file = f"{quote(address.path)} at {quote(address.authority)}"
    if _sha256(parameters):
        message = f"{access.path}.sha256: {file} does not have this digest; find out who changed it, or correct sha256"
    else:
        message = (
            f"{access.path}.url: {file} has changed since it was resolved; request a new resolution with "
            f"{names.RECONCILE_REQUESTED_AT} or pollInterval, or restore the old file"
        )
    return BundleError(Reason.DIGEST_MISMATCH, message)


def _parse(parameters: Mapping[str, Any], access: Access) -> Address:
    try:
        return parse_address(parameters["url"])
    except ValueError:
        problem = HttpSource().validate(parameters, access.path)[0]
        raise BundleError(Reason.INVALID_REFERENCE, problem) from None


def _name(address: Address) -> str:
    stem, dot, suffix = address.name.rpartition(".")
    return f"{stem}{dot}{suffix.lower()}"


_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256_problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    """Return what is wrong with the parameter sha256, starting with its field path below `path`."""
    if not _sha256(parameters) or _SHA256.fullmatch(_sha256(parameters)):
        return []
    return [f"{path}.sha256: {quote(_sha256(parameters))} is not 64 hexadecimal digits; correct it"]


def _sha256(parameters: Mapping[str, Any]) -> str:
    return parameters.get("sha256") or ""


def connect(address: Address, parameters: Mapping[str, Any], access: Access, field: str = "url") -> Transport:
    """Return the connections to the server of an address, which a field of the spec names.

    Raises: BundleError (InsecureRefused for a host that is not allowed; SecretInvalid).
    """
    check_host(f"{access.path}.{field}", address, access.network)
    tls = read_tls(parameters, access, address)
    return Transport(replace(access, path=f"{access.path}.{field}"), tls=tls, loopback=address.is_loopback)
