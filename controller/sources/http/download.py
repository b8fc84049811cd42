"""Downloads one file over http: conditionally, into a spool, and resumed after a cut connection.

Invariants: nothing beyond the compressed limit is written; a download is resumed only by a range of the same
representation (If-Range with a strong entity tag), otherwise restarted. RFC 9110, sections 8.8 and 13 to 15.

Not here: retries of unreachable servers, redirects, encodings and deadlines (transport.py).
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from api import names
from api.errors import BundleError
from api.plugins import MEBIBYTE, Access
from api.v1alpha2.conditions import Reason
from controller.content.disk import Spool
from controller.content.limits import describe_bytes, quote
from controller.sources.http.address import Address
from controller.sources.transport import Response, StatusError, Transport

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
class Answer:
    """The result of requesting a file."""

    is_unchanged: bool
    """Whether the file still matches the validator that was sent; then there is no body."""
    validator: str
    """Of this response; '' for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The representation that a spool contains the start of."""

    tag: str = ""
    """Its entity tag, if strong."""
    total: int = 0
    """Its size in bytes; 0 if unknown."""
    url: str = ""
    """Where it is, if another host has sent it: whoever has redirected must not see that the connection was cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file to download, and what messages say about it."""

    address: Address
    field: str = "url"
    """Of the spec, which led to it."""
    remedy: str = "correct url, or publish the file"
    """If it does not exist."""
    named: str = ""
    """URL that the user named, if it is another one: messages reveal nothing about other origins."""


class Download:
    """One file, for one call of the source.

    Args:
        headers: carry credentials.
        missing: reason for a 404: NotFound while resolving, PinnedContentGone afterwards.
    """

    def __init__(
        self, transport: Transport, wanted: Wanted, headers: Mapping[str, str], access: Access, missing: Reason
    ) -> None:
        self._transport, self._wanted, self._headers = transport, wanted, headers
        self._access, self._missing = access, missing
        self._subject = f"{access.path}.{wanted.field}"
        self._part = _Part()

    def ask(self, validator: str) -> Answer:
        """Check that the server has the file for this caller, without reading the body.

        By GET: not every server supports HEAD, and a presigned URL is for one method. A redirect to another host is an
        answer, too: that host gets no credentials, and is not asked.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        response = self._send(_condition(validator), leaves=False)
        response.discard()
        return _answer(response)

    def check(self) -> None:
        """Check that the server has the file for these credentials: by HEAD, or as `ask` where that is refused.

        Raises: BundleError as `ask`.
        """
        address, named = self._wanted.address.url, self._wanted.named
        try:
            response = self._transport.send("HEAD", address, self._headers, named=named, leaves=False)
        except StatusError as error:
            if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                raise
        else:
            response.discard()
            if response.status == HTTPStatus.OK or response.is_redirect:
                return
            if response.status == HTTPStatus.UNAUTHORIZED:
                raise self._failure(response)
        self.ask("")

    def fetch(self, spool: Spool, validator: str = "") -> Answer:
        """Download the whole file into a spool, unless it still matches a validator.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, ContentRejected over the limit, StorageFull, …).
        """
        furthest = cuts = 0
        while True:
            response = self._send(self._continuation(spool) or _condition(validator))
            cut = None if response.status == HTTPStatus.NOT_MODIFIED else self._receive(response, spool)
            if cut is None:
                return _answer(response)
            cuts = 0 if spool.size >= furthest + _PROGRESS else cuts + 1
            furthest = max(furthest, spool.size)
            if cuts == _CUTS or (response.place.is_elsewhere and not self._continuation(spool)):
                raise cut

    def _send(self, headers: Mapping[str, str], *, leaves: bool = True) -> Response:
        url, named, sent = self._wanted.address.url, self._wanted.named, {**self._headers, **headers}
        if "Range" in headers and self._part.url:
            url, named, sent = self._part.url, named or url, dict(headers)
        response = self._transport.send("GET", url, sent, named=named, leaves=leaves)
        expected = {HTTPStatus.OK}
        if "Range" in headers:
            expected |= {HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE}
        elif headers:
            expected |= {HTTPStatus.NOT_MODIFIED}
        if response.status not in expected and (leaves or not response.is_redirect):
            response.discard()
            raise self._failure(response)
        return response

    def _failure(self, response: Response) -> BundleError:
        if response.place.is_elsewhere:
            return response.place.unusable()
        host, path, field = quote(response.host), quote(self._wanted.address.path), self._wanted.field
        if response.status in _GONE:
            remedy = self._wanted.remedy
            if self._missing is Reason.PINNED_CONTENT_GONE:
                remedy = f"restore the file, or correct {field} and set annotation {names.RECONCILE_REQUESTED_AT}"
            return BundleError(self._missing, f"{self._subject}: {host} does not have {path}; {remedy}")
        if response.status in _REFUSED:
            return BundleError(Reason.UNAUTHORIZED, f"{self._subject}: {host} denies access to {path}; check auth")
        message = f"{self._subject}: {host} returned status {response.status} for {path}; check {field}"
        return BundleError(Reason.UNREACHABLE, message)

    # parts

    def _continuation(self, spool: Spool) -> Mapping[str, str]:
        """Return the headers that request the rest only; none if the download cannot be resumed."""
        if not (spool.size and self._part.tag):
            return {}
        return {"Range": f"bytes={spool.size}-", "If-Range": self._part.tag}

    def _receive(self, response: Response, spool: Spool) -> BundleError | None:
        """Append a body; return the error that cut it short."""
        try:
            self._align(response, spool)
            while data := response.read(_CHUNK):
                self._check_size(response, spool.size + len(data))
                spool.append(data)
                if response.place.is_elsewhere:
                    self._access.receive(spool.size)
                else:
                    self._access.progress(spool.size, self._part.total)
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
            total = int(length) if _LENGTH.fullmatch(length) else 0
            url = response.url if response.place.is_elsewhere else ""
            self._part = _Part(tag=_strong_tag(response), total=total, url=url)
            self._check_size(response, total)
        elif not self._is_rest(response, spool):
            self._part = _Part()
            problem = f"{quote(response.host)} does not resume an interrupted download"
            raise BundleError(Reason.UNREACHABLE, f"{self._subject}: {problem}; use another server")

    def _is_rest(self, response: Response, spool: Spool) -> bool:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status != HTTPStatus.PARTIAL_CONTENT or not found:
            return False
        totals = ("*", str(self._part.total)) if self._part.total else (found[2],)
        tags = ("", self._part.tag)
        return int(found[1]) == spool.size and found[2] in totals and response.headers.get("ETag", "") in tags

    def _check_size(self, response: Response, size: int) -> None:
        limit = self._access.limits.compressed_bytes
        if size > limit:
            problem = f"the file at {quote(response.host)} exceeds the limit of {describe_bytes(limit)}"
            raise BundleError(Reason.CONTENT_REJECTED, f"{self._subject}: {problem}; make it smaller")


# validators


def _condition(validator: str) -> dict[str, str]:
    if not validator:
        return {}
    return {"If-None-Match" if _ENTITY_TAG.fullmatch(validator) else "If-Modified-Since": validator}


def _answer(response: Response) -> Answer:
    return Answer(is_unchanged=response.status == HTTPStatus.NOT_MODIFIED, validator=_validator(response))


def _validator(response: Response) -> str:
    """Return the entity tag, else the time of the last change, as the header has it; '' if neither is usable."""
    tag, date = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
    if _ENTITY_TAG.fullmatch(tag):
        return tag
    # The parser accepts anything after a date, but this is written to status and sent with the next request.
    return date if _DATE.fullmatch(date) and email.utils.parsedate(date) else ""


def _strong_tag(response: Response) -> str:
    tag = _validator(response)
    return tag if tag.startswith('"') else ""
