"""Certificates: why one of a server is not valid now, and how one of our own is loaded.

A date that is over, or has not come, is a fault of the server, or of the clock of this machine.

Not here: certificates of an unknown authority or for another name (sources/transport.py).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator

NOT_YET_VALID = "is not valid yet by the clock of this machine; check the clock"
EXPIRED = "has expired by the clock of this machine; check the clock, or renew the certificate"
# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL, also for the certificate of an authority.
_PROBLEMS = {9: NOT_YET_VALID, 10: EXPIRED}


def find_date_problem(error: BaseException) -> str:
    """Return what is wrong with the dates of a certificate, and the remedy, to follow its name; empty if nothing is."""
    codes = [cause.verify_code for cause in find_causes(error) if isinstance(cause, ssl.SSLCertVerificationError)]
    return next((_PROBLEMS[code] for code in codes if code in _PROBLEMS), "")


def find_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all of its causes, however libraries keep them."""
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        below = (current.__cause__, current.__context__, getattr(current, "reason", None), *current.args)
        waiting.extend(item for item in below if isinstance(item, BaseException))


def load_key_pair(context: ssl.SSLContext, pem: bytes, password: str | None = None) -> None:
    """Load a certificate and its key into a context without a file that another process could open.

    Args:
        context: to load them into.
        pem: both of them; the standard library takes them from files only.
        password: of the key. None: OpenSSL asks for it at the terminal.

    Raises: ssl.SSLError if they do not belong together, or are no PEM.
    """
    with os.fdopen(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=password)
