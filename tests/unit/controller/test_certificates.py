"""Dates of certificates: real handshakes, and their errors in the wrappings of the libraries."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import requests
import trustme
import urllib3

from rukpak.controller.certificates import EXPIRED, NOT_YET_VALID, find_date_problem
from rukpak.controller.kube.errors import UNREACHABLE, unanswered

NOW, DAY = datetime.now(UTC), timedelta(days=1)
PAST, FUTURE = (NOW - 2 * DAY, NOW - DAY), (NOW + DAY, NOW + 2 * DAY)
CURRENT = (NOW - DAY, NOW + DAY)


def shake_hands(dates: tuple[datetime, datetime], *, trusted: bool = True) -> ssl.SSLError:
    """Return the error of a client that connects to a server with a certificate of these dates."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("example.org", not_before=dates[0], not_after=dates[1]).configure_cert(server)
    client = ssl.create_default_context()
    if trusted:
        authority.configure_trust(client)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(down, up, server_hostname="example.org")
    answering = server.wrap_bio(up, down, server_side=True)
    with suppress(ssl.SSLWantReadError):
        asking.do_handshake()
    with suppress(ssl.SSLWantReadError):
        answering.do_handshake()
    with pytest.raises(ssl.SSLError) as caught:
        asking.do_handshake()
    return caught.value


WRAPPINGS: dict[str, Callable[[Exception], Exception]] = {
    "as it is": lambda error: error,
    "by urllib3": urllib3.exceptions.SSLError,
    "after retries": lambda error: urllib3.exceptions.MaxRetryError(
        urllib3.HTTPSConnectionPool("h"), "/", urllib3.exceptions.SSLError(error)
    ),
    "by requests": lambda error: requests.exceptions.SSLError(urllib3.exceptions.SSLError(error)),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS.values(), ids=list(WRAPPINGS))
@pytest.mark.parametrize(("dates", "problem"), [(PAST, EXPIRED), (FUTURE, NOT_YET_VALID)], ids=["past", "future"])
def test_dates_that_do_not_include_now_are_named(
    dates: tuple[datetime, datetime], problem: str, wrapping: Callable[[Exception], Exception]
) -> None:
    error = wrapping(shake_hands(dates))
    assert find_date_problem(error) == problem
    translated = unanswered(error)
    assert (translated.reason, translated.message) == (UNREACHABLE, f"the certificate of the API server {problem}")


@pytest.mark.parametrize(
    "error",
    [shake_hands(CURRENT, trusted=False), ssl.SSLError(1, "certificate has expired"), TimeoutError()],
    ids=["an unknown authority", "an error without a code", "no error of TLS"],
)
def test_other_failures_are_not_blamed_on_the_clock(error: Exception) -> None:
    assert find_date_problem(error) == ""
