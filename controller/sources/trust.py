"""Which certificates a source trusts, what it sends to identify itself, and the TLS contexts of that.

A context with the roots of the system takes 50 ms of CPU time and 1 MiB; one with a few certificates takes 0.4 ms. So
each set of trust has one, created when the first connection over TLS needs it; one that verifies nothing loads no
roots.

Invariants: credentials are sent over verified https only. Calls share a context only if they trust exactly the same
certificates. A shared context has no client certificate and no credentials, and a connection never resumes the session
of another one, so that calls have nothing but trust in common. Certificates of sources are known by their digest only:
a Secret may contain more than certificates. A context with a client certificate is that of one call, and its key is
never in a file that another process could open.

Not here: connections, which are never shared (transport.py).
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import ssl
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.certificates import load_key_pair
from rukpak.controller.sources.hosts import HTTPS, Location, Origin

log = logging.getLogger(__name__)
_CONTEXTS = 64
_CHARACTERS = 2 << 20  # of PEM, which takes three times as much memory in a context
_TOKEN = re.compile(r"[\x21-\x7e]+")
_NO_PASSPHRASE = ""


class TLSContexts:
    """A cache of contexts, for any thread.

    The least recently used contexts with certificates of sources are dropped; calls that still use one keep it.

    Args:
        contexts: how many with certificates of sources are kept.
        characters: how many of their PEM are kept, in all of them together; the latest is always kept.
    """

    def __init__(self, contexts: int = _CONTEXTS, characters: int = _CHARACTERS) -> None:
        self._contexts, self._characters = contexts, characters
        self._system, self._unverified = _Slot("system"), _Slot("none")
        self._own: OrderedDict[str, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def trusting_system(self, roots: str) -> ssl.SSLContext:
        """Return the context that trusts the system's certificates, and those of a file: slim images have none."""
        return self._system.fill(lambda: _trust_system(roots))

    def trusting(self, certificates: str) -> ssl.SSLContext:
        """Return the context that trusts the certificates of a PEM bundle only.

        Raises: ssl.SSLError or ValueError for text that is not a PEM bundle, which is ASCII.
        """
        # Created outside the lock of the cache: other sources do not wait while a large bundle is parsed.
        return self._slot(certificates).fill(lambda: ssl.create_default_context(cadata=certificates))

    def trusting_anyone(self) -> ssl.SSLContext:
        """Return the context that verifies nothing."""
        return self._unverified.fill(_trust_anyone)

    def _slot(self, certificates: str) -> _Slot:
        digest = hashlib.sha256(certificates.encode("ascii")).hexdigest()
        with self._lock:
            slot = self._own.setdefault(digest, _Slot(f"sha256:{digest}", len(certificates)))
            self._own.move_to_end(digest)
            while len(self._own) > 1 and (
                len(self._own) > self._contexts or sum(each.size for each in self._own.values()) > self._characters
            ):
                self._own.popitem(last=False)
        return slot


class _Slot:
    """The place of one context, which is created once even if several threads need it at the same time.

    Args:
        trust: what it trusts, for the log.
        size: characters of its certificates.
    """

    def __init__(self, trust: str, size: int = 0) -> None:
        self.size = size
        self._trust, self._lock = trust, threading.Lock()
        self._context: ssl.SSLContext | None = None

    def fill(self, make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        """Return the context; raises what `make` raises, which the next call tries again."""
        with self._lock:
            if self._context is None:
                self._context = make()
                log.debug("TLS context created", extra={"trust": self._trust})
            return self._context


def _trust_system(roots: str) -> ssl.SSLContext:
    context = ssl.create_default_context()  # the system's, to which administrators add their own
    context.load_verify_locations(roots)
    return context


def _trust_anyone() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a default one would load the system's roots
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


CONTEXTS = TLSContexts()
"""Those of this process."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientCertificate:
    """What identifies the controller to the servers that it is for. It contains a secret, so it has no repr."""

    certificate: str
    key: str
    origins: frozenset[Origin]
    """The servers that may see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSSettings:
    """Whom the connections of a source trust, and with which certificate they introduce themselves."""

    certificate_data: str = ""
    """PEM bundle to trust instead of the system's and certifi's; '' for those."""
    verify: bool = True
    """Whether certificates are verified; if not, plain http is allowed to any address."""
    keys: ClientCertificate | None = None
    """The client certificate, if there is one."""

    def make_context(self, origin: Origin, roots: str) -> ssl.SSLContext:
        """Return the context of a connection to a server; `roots` is the file of certifi's certificates.

        Raises: ssl.SSLError or ValueError for what `is_certificate_data` and `client_problem` find.
        """
        certificates = self.certificate_data
        if self.keys and origin in self.keys.origins:
            context = ssl.create_default_context(cadata=certificates) if certificates else _trust_system(roots)
            _load(context, self.keys.certificate, self.keys.key)
            return context
        if not self.verify:
            return CONTEXTS.trusting_anyone()
        return CONTEXTS.trusting(certificates) if certificates else CONTEXTS.trusting_system(roots)


DEFAULT_TLS = TLSSettings()


def read_tls(parameters: Mapping[str, Any], access: Access, server: Location | None) -> TLSSettings:
    """Return whom the connections of a source trust, and what identifies it to its server.

    Args:
        parameters: of the source.
        access: credentials, and the path that starts messages.
        server: who gets the client certificate; None for nobody.

    Raises: BundleError (InsecureRefused for a client certificate over plain http or unverified https; SecretInvalid).
    """
    verify, credentials, keys = _verifies(parameters), access.credentials or Credentials(), None
    certificates = certificates_of(parameters, access)
    if credentials.client_key and server:
        check_secure(access.path, plain=server.scheme != HTTPS, verify=verify)
        keys = ClientCertificate(
            certificate=credentials.client_certificate, key=credentials.client_key, origins=frozenset((server.origin,))
        )
    return TLSSettings(certificate_data=certificates, verify=verify, keys=keys)


def _verifies(parameters: Mapping[str, Any]) -> bool:
    return not parameters.get("insecureSkipTLSVerify")


def client_problem(certificate: str, key: str) -> str:
    """Return what is wrong with a client certificate and its key; '' if nothing is."""
    if "ENCRYPTED" in key:
        return 'key "tls.key" has a passphrase; use a key without one'
    try:
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
    except (ssl.SSLError, ValueError, OSError):
        return 'keys "tls.crt" and "tls.key" are not a certificate and its private key, in PEM; correct them'
    return ""


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    load_key_pair(context, f"{key.strip()}\n{certificate.strip()}\n".encode(), _NO_PASSPHRASE)


def is_certificate_data(pem: str) -> bool:
    """Return whether text is a bundle of PEM certificates, or '' for the default ones."""
    if not pem:
        return True
    try:
        CONTEXTS.trusting(pem)  # the sources that need it find it created
    except (ssl.SSLError, ValueError):
        return False
    return True


def certificate_problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    """Return what is wrong with the parameter certificateData, starting with its field path below `path`."""
    if is_certificate_data(parameters.get("certificateData", "")):
        return []
    return [f"{path}.certificateData: not a bundle of PEM certificates; correct it"]


def name_remedy(*, is_given: bool) -> str:
    """Return what to do about the certificate of a server that cannot be verified.

    Args:
        is_given: whether there are certificates to trust, instead of the default ones.
    """
    where = "certificateData, or ca.crt in the Secret of auth"
    return f"check {where}" if is_given else f"set {where}, to the certificate of the authority that has signed it"


def certificates_of(parameters: Mapping[str, Any], access: Access) -> str:
    """Return the certificates to trust, in PEM; '' for the default ones.

    Raises: BundleError (SecretInvalid).
    """
    certificates = (access.credentials or Credentials()).certificate_authority
    if not is_certificate_data(certificates):
        problem = 'key "ca.crt" of the Secret is not a bundle of PEM certificates; correct it'
        raise BundleError(Reason.SECRET_INVALID, problem, place=f"{access.path}.auth")
    return parameters.get("certificateData") or certificates


def credential_headers(
    parameters: Mapping[str, Any], access: Access, server: Location, username: str = ""
) -> dict[str, str]:
    """Return the header that carries the credentials; none without credentials.

    Args:
        parameters: of the source.
        access: credentials, and the path that starts messages.
        server: that gets it.
        username: for a Secret that has a password only.

    Raises: BundleError (InsecureRefused for plain http and unverified https; SecretInvalid).
    """
    credentials = access.credentials or Credentials()
    if credentials.bearer_token:
        token = credentials.bearer_token.strip()
        if not _TOKEN.fullmatch(token):
            problem = 'key "bearerToken" of the Secret is not a valid token; replace it'
            raise BundleError(Reason.SECRET_INVALID, problem, place=f"{access.path}.auth")
        authorization = f"Bearer {token}"
    elif credentials.password:
        authorization = basic(credentials.username or username, credentials.password)
    else:
        return {}
    check_secure(access.path, plain=server.scheme != HTTPS, verify=_verifies(parameters))
    return {"Authorization": authorization}


def basic(username: str, password: str) -> str:
    """Return user name and password as `Authorization` carries them (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def check_secure(path: str, *, plain: bool, verify: bool) -> None:
    """Refuse a connection over which credentials must not be sent.

    Raises: BundleError (InsecureRefused for plain http, and for https that is not verified).
    """
    problem = "credentials are not sent if insecureSkipTLSVerify is set; unset it and set certificateData"
    if plain:
        problem = "credentials are not sent over plain http; use https"
    if plain or not verify:
        raise BundleError(Reason.INSECURE_REFUSED, problem, place=f"{path}.auth")
