"""One file over http: downloaded whole, verified, then unpacked if it is an archive.

To know what a URL names now is to read it, so resolving hands the content on to whoever keeps it (`Access.keep`). With
a sha256 in the spec one request is enough, which authorises the caller.

Invariants: nothing of a body is looked at before its digest is known to be the recorded one; credentials go over
verified https only, to the host of the URL only.

Not here: getting the file (download.py), what it is (body.py).
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from api import names
from api.errors import BundleError
from api.plugins import Access, Credentials, Entry, Resolution
from api.v1alpha2.conditions import Reason
from controller.content.limits import Rejection, quote
from controller.content.spool import Spool
from controller.sources.deadline import check_deadline
from controller.sources.hosts import check_host
from controller.sources.http.address import HTTPS, Address, parse_address
from controller.sources.http.body import is_file_name, read_body
from controller.sources.http.download import Download
from controller.sources.transport import Transport, is_certificate_data
from controller.sources.transport_failures import unverified

_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"[\x21-\x7e]+")


class HttpSource:
    """The kind `http`. Parameters: url, sha256, stripComponents, insecureSkipTLSVerify, certificateData."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each beginning with its field path below `path`."""
        problems = []
        url = parameters.get("url", "")
        try:
            parse_address(url)
        except ValueError as error:
            # Not quoted where it holds a password.
            problems.append(f"{path}.url: {'the URL' if '@' in url else quote(url)} {error}")
        if not _SHA256.fullmatch(_sha256(parameters) or "0" * 64):
            problems.append(f"{path}.sha256: {quote(_sha256(parameters))} is not 64 hexadecimal digits; correct it")
        if not is_certificate_data(parameters.get("certificateData", "")):
            problems.append(f"{path}.certificateData: not a bundle of PEM certificates; correct it")
        return problems

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return URL and sha256; `stripComponents` is about what to do with what they name."""
        return {"url": parse_address(parameters["url"]).url, "sha256": _sha256(parameters)}

    def origin(self, parameters: Mapping[str, Any]) -> str:
        """Return the whole URL: often it is the query that names the file."""
        return parse_address(parameters["url"]).url

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Read what the URL names now, unless it has not changed; with a sha256, ask whether the server gives it.

        Returns: pinned as the URL, digest as the sha256 of the body.
        Raises: BundleError (NotFound, and those of `fetch` but PinnedContentGone).
        """
        address, previous = _parse(parameters, access), access.previous
        validator = previous.validator if previous else ""
        with _connect(address, parameters, access) as transport:
            headers = _authorization(address, parameters, access)
            download = Download(transport, address, headers, access, Reason.NOT_FOUND)
            if not _sha256(parameters):
                return _read_now(download, address, validator, parameters, access)
            answer = download.ask(validator)
        if previous and answer.is_unchanged:
            return previous
        return Resolution(pinned=address.url, digest=f"sha256:{_sha256(parameters)}", validator=answer.validator)

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        """Return digest and stripComponents, and the name that a single file would have."""
        name = parse_address(parameters["url"]).name
        return f"{resolution.digest}|{_strip(parameters)}|{name if is_file_name(name) else ''}"

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the file, or what is in it if it is an archive; the digest is verified before the first entry.

        Raises: BundleError (PinnedContentGone, DigestMismatch, ContentRejected, UnsupportedContent, StorageFull,
            Unauthorized, Unreachable, TLSVerificationFailed, InsecureRefused, InvalidReference, SecretInvalid).
        """
        address = _parse(parameters, access)
        with _connect(address, parameters, access) as transport, Spool(access.scratch, access.path) as spool:
            headers = _authorization(address, parameters, access)
            Download(transport, address, headers, access, Reason.PINNED_CONTENT_GONE).fetch(spool)
            if spool.digest != resolution.digest:
                raise _mismatch(address, parameters, access)
            yield from _read(spool, address, parameters, access)


def _read_now(
    download: Download, address: Address, validator: str, parameters: Mapping[str, Any], access: Access
) -> Resolution:
    """Return what the URL names now, and hand on what it brought."""
    with Spool(access.scratch, access.path) as spool:
        answer = download.fetch(spool, validator)
        if access.previous and answer.is_unchanged:
            return access.previous
        resolution = Resolution(pinned=address.url, digest=spool.digest, validator=answer.validator)
        access.keep(resolution, _read(spool, address, parameters, access))
        return resolution


def _read(spool: Spool, address: Address, parameters: Mapping[str, Any], access: Access) -> Iterator[Entry]:
    file = _Watched(spool.rewind(), access)
    try:
        yield from read_body(file, spool.size, address.name, _strip(parameters), access.limits)
    except Rejection as rejection:  # of a reader, or thrown in by the writer
        raise rejection.at(access.path) from None


class _Watched:
    """A file that is read no longer than the call may last."""

    def __init__(self, file: BinaryIO, access: Access) -> None:
        self._file, self._access = file, access

    def read(self, size: int, /) -> bytes:
        check_deadline(self._access)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)


def _mismatch(address: Address, parameters: Mapping[str, Any], access: Access) -> BundleError:
    host, path = quote(address.authority), quote(address.path)
    if _sha256(parameters):
        message = (
            f"{access.path}.sha256: what {host} has at {path} has another digest; find out who changed it, or correct "
            "sha256"
        )
    else:
        message = (
            f"{access.path}.url: what {host} has at {path} is not what was resolved: the file has changed since; ask "
            f"for a new resolution by {names.RECONCILE_REQUESTED_AT} or pollInterval, or put the old file back"
        )
    return BundleError(Reason.DIGEST_MISMATCH, message)


def _parse(parameters: Mapping[str, Any], access: Access) -> Address:
    try:
        return parse_address(parameters["url"])
    except ValueError:
        problem = HttpSource().validate(parameters, access.path)[0]
        raise BundleError(Reason.INVALID_REFERENCE, problem) from None


def _sha256(parameters: Mapping[str, Any]) -> str:
    return parameters.get("sha256") or ""


def _strip(parameters: Mapping[str, Any]) -> int:
    return parameters.get("stripComponents") or 0


# the way there


def _connect(address: Address, parameters: Mapping[str, Any], access: Access) -> Transport:
    check_host(f"{access.path}.url", address.host, address.port, address.usual_port, access.network)
    authority = access.credentials.certificate_authority if access.credentials else ""
    if not is_certificate_data(authority):
        message = f"{access.path}.auth: key ca.crt of the Secret is not a bundle of PEM certificates; correct it"
        raise BundleError(Reason.SECRET_INVALID, message)
    return Transport(
        replace(access, path=f"{access.path}.url"),
        certificate_data=parameters.get("certificateData") or authority,
        verify=not parameters.get("insecureSkipTLSVerify", False),
        loopback=address.is_loopback,
    )


def _authorization(address: Address, parameters: Mapping[str, Any], access: Access) -> dict[str, str]:
    """Return the header that carries the credentials; none without credentials.

    Raises: BundleError (InsecureRefused for plain http, also to loopback, and unverified https; SecretInvalid).
    """
    credentials = access.credentials or Credentials()
    if not (credentials.bearer_token or credentials.username):
        return {}
    if address.scheme != HTTPS:
        message = f"{access.path}.auth: credentials must not go over plain http; use https"
        raise BundleError(Reason.INSECURE_REFUSED, message)
    if parameters.get("insecureSkipTLSVerify"):
        raise unverified(access.path)
    if not credentials.bearer_token:
        pair = f"{credentials.username}:{credentials.password}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    token = credentials.bearer_token.strip()
    if not _TOKEN.fullmatch(token):
        message = f"{access.path}.auth: key bearerToken of the Secret is no token; write it anew"
        raise BundleError(Reason.SECRET_INVALID, message)
    return {"Authorization": f"Bearer {token}"}
