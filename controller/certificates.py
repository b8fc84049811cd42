"""Certificates: why one of a server is not valid now, how one of our own is loaded, and the one of the metrics.

A date that is over, or has not come, is a fault of the server, or of the clock of this machine.

The metrics have a certificate from given files, reloaded when they change, or a self-signed one made at startup. Run as
a program, this module prints a new key and certificate: a child process does so, because the library needs 9 MB that
are not freed. Nothing is written to disk.

Not here: certificates of an unknown authority or for another name (sources/transport.py).
"""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

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


VALID_DAYS = 3650
"""No client can verify a self-signed certificate, so expiry would help no one."""
CHILD_SECONDS = 60.0


class Certificate:
    """Thread-safe. Made of the PEM files of certificate and key; None: self-signed.

    Raises: OSError if the files cannot be read, or are not a certificate with its key.
    """

    def __init__(self, files: tuple[Path, Path] | None) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._changed = 0.0
        self._context = _make_self_signed() if files is None else self._load(files)

    def context(self) -> ssl.SSLContext:
        """Return a context with the current certificate; the last good one while new files cannot be loaded."""
        if self._files is not None:
            with self._lock:
                self._context = self._reload(self._files)
        return self._context

    def _load(self, files: tuple[Path, Path]) -> ssl.SSLContext:
        changed = _last_change(files)
        context = _new_context()
        context.load_cert_chain(*files)
        self._changed = changed
        return context

    def _reload(self, files: tuple[Path, Path]) -> ssl.SSLContext:
        try:
            return self._load(files) if _last_change(files) != self._changed else self._context
        except OSError:  # ssl.SSLError is one: half of a new pair
            return self._context


def _last_change(files: tuple[Path, Path]) -> float:
    return max(file.stat().st_mtime for file in files)


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _make_self_signed() -> ssl.SSLContext:
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__], capture_output=True, check=False, timeout=CHILD_SECONDS, env=os.environ
    )
    if done.returncode:
        raise OSError("failed to generate a self-signed certificate; set --metrics-certificate and --metrics-key")
    context = _new_context()
    load_key_pair(context, done.stdout)
    return context


def print_self_signed() -> None:
    """Print a key and a certificate for this host, in PEM."""
    from cryptography import x509  # noqa: PLC0415 - 9 MB that only this program needs
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, socket.gethostname()[:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    sys.stdout.write((private + certificate.public_bytes(pem)).decode())


if __name__ == "__main__":
    print_self_signed()
