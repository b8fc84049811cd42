"""One file by http: asked for conditionally, streamed into a spool, and continued where a connection was cut.

Invariants: nothing beyond the compressed budget is written; a body is continued only by a range of the same
representation (If-Range with a strong entity tag), else it begins anew. RFC 9110, sections 8.8 and 13 to 15.

Not here: retries of what cannot be reached, redirects, encodings and deadlines (transport.py).
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
from controller.content.limits import describe_bytes, quote
from controller.content.spool import Spool
from controller.sources.http.address import Address
from controller.sources.transport import Response, Transport

_CHUNK = 64 * 1024
_CUTS = 3  # in a row without progress; then it is the work queue's to try again
_PROGRESS = MEBIBYTE

_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,500}"')
_DATE = re.compile(r"[\x20-\x7e]{1,64}")
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
_LENGTH = re.compile(r"\d{1,18}")

_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of asking for a file."""

    is_unchanged: bool
    """Since the validator that was sent; then there is no body."""
    validator: str
    """Of this answer; '' for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Which representation a spool holds the beginning of."""

    tag: str = ""
    """Its entity tag, if that is strong."""
    total: int = 0
    """Its size in bytes; 0: not known."""


class Download:
    """One file, for one call of the source.

    Args:
        transport: the way there.
        headers: that carry credentials.
        missing: reason for a 404: NotFound while resolving, PinnedContentGone afterwards.
    """

    def __init__(
        self, transport: Transport, address: Address, headers: Mapping[str, str], access: Access, missing: Reason
    ) -> None:
        self._transport, self._address, self._headers = transport, address, headers
        self._access, self._missing = access, missing
        self._part = _Part()

    def ask(self, validator: str) -> Answer:
        """Ask whether the file is there for this caller, and leave its body alone.

        By GET: HEAD is not answered everywhere, and a presigned URL is for one method.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, …).
        """
        response = self._send(_condition(validator))
        response.discard()
        return _answer(response)

    def fetch(self, spool: Spool, validator: str = "") -> Answer:
        """Bring the whole file into a spool, unless it has not changed.

        Raises: BundleError (`missing`, Unauthorized, Unreachable, ContentRejected over the budget, StorageFull, …).
        """
        furthest = cuts = 0
        while True:
            response = self._send(self._continuation(spool) or _condition(validator))
            if response.status == HTTPStatus.NOT_MODIFIED:
                return _answer(response)
            cut = self._receive(response, spool)
            if cut is None:
                return _answer(response)
            cuts = 0 if spool.size >= furthest + _PROGRESS else cuts + 1
            furthest = max(furthest, spool.size)
            if cuts == _CUTS:
                raise cut

    def _send(self, headers: Mapping[str, str]) -> Response:
        response = self._transport.send("GET", self._address.url, {**self._headers, **headers})
        expected = {HTTPStatus.OK}
        if "Range" in headers:
            expected |= {HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE}
        elif headers:
            expected |= {HTTPStatus.NOT_MODIFIED}
        if response.status not in expected:
            response.discard()
            raise self._failure(response)
        return response

    def _failure(self, response: Response) -> BundleError:
        if response.place.is_elsewhere:
            return response.place.unusable()
        host, path, subject = quote(response.host), quote(self._address.path), self._access.path
        if response.status in _GONE:
            remedy = "correct url, or put the file there"
            if self._missing is Reason.PINNED_CONTENT_GONE:
                remedy = f"put the file back, or correct url and ask for it anew by {names.RECONCILE_REQUESTED_AT}"
            return BundleError(self._missing, f"{subject}.url: {host} does not have {path}; {remedy}")
        if response.status in _REFUSED:
            message = f"{subject}.url: {host} does not give {path} to this caller; see to auth"
            return BundleError(Reason.UNAUTHORIZED, message)
        message = f"{subject}.url: {host} answers with status {response.status} when asked for {path}"
        return BundleError(Reason.UNREACHABLE, f"{message}; check url")

    # parts

    def _continuation(self, spool: Spool) -> Mapping[str, str]:
        """Return the headers that ask for the rest only; none if there is no beginning to rely on."""
        if not (spool.size and self._part.tag):
            return {}
        return {"Range": f"bytes={spool.size}-", "If-Range": self._part.tag}

    def _receive(self, response: Response, spool: Spool) -> BundleError | None:
        """Append a body; return what cut it short."""
        try:
            self._align(response, spool)
            while data := response.read(_CHUNK):
                self._check_size(response, spool.size + len(data))
                spool.append(data)
                self._access.progress(spool.size, self._part.total)
        except BundleError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
            return error
        finally:
            response.close()
        return None

    def _align(self, response: Response, spool: Spool) -> None:
        """Note which representation comes, and begin anew unless it is the rest of what is there.

        Raises: BundleError (Unreachable for a part that was not asked for; ContentRejected).
        """
        if response.status == HTTPStatus.OK:
            spool.restart()
            length = response.headers.get("Content-Length", "")
            total = int(length) if _LENGTH.fullmatch(length) else 0
            self._part = _Part(tag=_strong_tag(response), total=total)
            self._check_size(response, total)
        elif not self._is_rest(response, spool):
            self._part = _Part()
            message = (
                f"{self._access.path}.url: {quote(response.host)} does not continue what was cut; try another server"
            )
            raise BundleError(Reason.UNREACHABLE, message)

    def _is_rest(self, response: Response, spool: Spool) -> bool:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status != HTTPStatus.PARTIAL_CONTENT or not found:
            return False
        totals = ("*", str(self._part.total)) if self._part.total else (found[2],)
        tags = ("", self._part.tag)
        return int(found[1]) == spool.size and found[2] in totals and response.headers.get("ETag", "") in tags

    def _check_size(self, response: Response, size: int) -> None:
        budget = self._access.limits.compressed_bytes
        if size > budget:
            message = f"what {quote(response.host)} sends is over the budget of {describe_bytes(budget)}"
            raise BundleError(Reason.CONTENT_REJECTED, f"{self._access.path}.url: {message}; make it smaller")


# validators


def _condition(validator: str) -> dict[str, str]:
    if not validator:
        return {}
    return {"If-None-Match" if _ENTITY_TAG.fullmatch(validator) else "If-Modified-Since": validator}


def _answer(response: Response) -> Answer:
    return Answer(is_unchanged=response.status == HTTPStatus.NOT_MODIFIED, validator=_validator(response))


def _validator(response: Response) -> str:
    """Return the entity tag, else the time of the last change, as it stands in the header; '' if neither is usable."""
    tag, date = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
    if _ENTITY_TAG.fullmatch(tag):
        return tag
    # The parser takes anything behind a date, and this goes into status and into the next request.
    return date if _DATE.fullmatch(date) and email.utils.parsedate(date) else ""


def _strong_tag(response: Response) -> str:
    tag = _validator(response)
    return tag if tag.startswith('"') else ""
