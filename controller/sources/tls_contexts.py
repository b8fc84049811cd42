"""TLS contexts: one for each set of trust, shared by all calls of sources.

A context with the roots of the system takes 50 ms of CPU time and 1 MiB; one with a few certificates takes 0.4 ms. So
each is created once, when the first connection over TLS needs it, and one that verifies nothing loads no roots.

Invariants: calls share a context only if they trust exactly the same certificates. A context has no client certificate
and no credentials, and a connection never resumes the session of another one, so that calls have nothing but trust in
common. Certificates of sources are known by their digest only: a Secret may contain more than certificates.

Not here: which certificates a source trusts (trust.py), and connections, which are never shared (connections.py).
"""

from __future__ import annotations

import hashlib
import logging
import ssl
import threading
from collections import OrderedDict
from collections.abc import Callable

log = logging.getLogger(__name__)

_CONTEXTS = 64
_CHARACTERS = 2 << 20  # of PEM, which takes three times as much memory in a context


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
            while len(self._own) > 1 and self._is_full():
                self._own.popitem(last=False)
        return slot

    def _is_full(self) -> bool:
        return len(self._own) > self._contexts or sum(each.size for each in self._own.values()) > self._characters


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
