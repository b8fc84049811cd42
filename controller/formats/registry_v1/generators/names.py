"""Names of generated objects: operator-controller's, cut and hashed as there (its `util.go` and `hash.go`)."""

from __future__ import annotations

import hashlib
from typing import Any

from controller.formats.registry_v1.bundle import go_json

LONGEST = 63
"""Bytes of a name that is a DNS label."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def join_name(base: str, suffix: str) -> str:
    """Return `base-suffix`, the base cut so that it fits.

    It comes out one byte too long where base and suffix have exactly 63 bytes together, and upstream's names do, too.
    """
    kept, tail = base.encode(), suffix.encode()
    if len(kept) + len(tail) > LONGEST:
        kept = kept[: max(LONGEST - len(tail) - 1, 0)]
    return f"{kept.decode(errors='ignore')}-{suffix}"


def service_name(deployment: str) -> str:
    """Return the name of the Service of a Deployment: never longer than the 63 bytes that a Service may have."""
    name = _upstream_service_name(deployment)
    return name if len(name) <= LONGEST else join_name(deployment.replace(".", "-")[:-1], "service")


def certificate_name(deployment: str) -> str:
    """Return the name of the Certificate and the Secret of a Deployment: upstream's."""
    return join_name(_upstream_service_name(deployment), "cert")


def issuer_name(deployment: str) -> str:
    """Return the name of the Issuer of a Deployment."""
    return join_name(certificate_name(deployment), "selfsigned-issuer")


def _upstream_service_name(deployment: str) -> str:
    return join_name(deployment.replace(".", "-"), "service")


def hash_of(value: Any) -> str:
    """Return 43 or 44 characters that name a value: SHA-224 of its JSON and a newline, in base 36.

    Args:
        value: keys in the order in which Go has the fields.
    """
    number = int.from_bytes(hashlib.sha224(f"{go_json.write(value)}\n".encode()).digest(), "big")
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
