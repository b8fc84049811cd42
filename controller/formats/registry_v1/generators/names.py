"""Names of generated objects, shortened and hashed as in operator-controller (`util.go`, `hash.go`)."""

from __future__ import annotations

import hashlib
from typing import Any

from controller.formats.registry_v1.bundle import go_json

LONGEST = 63
"""Bytes of a name that is a DNS label."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def join_name(base: str, suffix: str) -> str:
    """Return `base-suffix`, with the base shortened to fit.

    If base and suffix have exactly 63 bytes together, the result is one byte too long, as in upstream.
    """
    kept, tail = base.encode(), suffix.encode()
    if len(kept) + len(tail) > LONGEST:
        kept = kept[: max(LONGEST - len(tail) - 1, 0)]
    return f"{kept.decode(errors='ignore')}-{suffix}"


def service_name(deployment: str) -> str:
    """Return the name of the Service of a Deployment, of at most 63 bytes: upstream's may be invalid."""
    name = _upstream_service_name(deployment)
    return name if len(name) <= LONGEST else join_name(deployment.replace(".", "-")[:-1], "service")


def certificate_name(deployment: str) -> str:
    """Return the name of the Certificate and the Secret of a Deployment."""
    return join_name(_upstream_service_name(deployment), "cert")


def issuer_name(deployment: str) -> str:
    """Return the name of the Issuer of a Deployment."""
    return join_name(certificate_name(deployment), "selfsigned-issuer")


def _upstream_service_name(deployment: str) -> str:
    return join_name(deployment.replace(".", "-"), "service")


def hash_of(value: Any) -> str:
    """Return the SHA-224 of a value's JSON and a newline in base 36, 43 or 44 characters; keys are in Go's order."""
    number = int.from_bytes(hashlib.sha224(f"{go_json.write(value)}\n".encode()).digest(), "big")
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
