"""Formats and patterns of the API server: any other format is ignored, and patterns are RE2.

The source of the formats: `strfmt` of k8s.io/kube-openapi, and `supportedVersionedFormats` of k8s.io/apiextensions.
RE2 matches, since its dialect is not Python's, and since its time is linear in a text that any user may write.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_LETTER = r"a-zA-Z0-9\p{S}\p{L}"
_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}$"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DURATION = (
    r"(ns|us|µs|μs|ms|s|m|h|d|w|(nano|micro|milli)s(econds?)?|sec(onds?)?|min(utes?)?|h(ou)?rs?|days?|w(ee)?ks?)"
)

_PATTERNS: Mapping[str, str] = {
    "bsonobjectid": r"^[0-9a-fA-F]{24}$",
    "uri": r"^(/|[a-zA-Z][-+.a-zA-Z0-9]*:)[^\x00-\x20\x7f]*$",
    "email": r"^[^@]*[^@\s]@[^@\s]+$|<[^@\s]+@[^@\s]+>$",
    "hostname": (
        rf"^([{_LETTER}]((-?[{_LETTER}]{{0,62}})?)"
        rf"|([{_LETTER}](([-{_LETTER}]{{0,61}}[{_LETTER}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ),
    "mac": (
        r"^[0-9a-fA-F]{2}(([:-][0-9a-fA-F]{2}){5}|([:-][0-9a-fA-F]{2}){7}|([:-][0-9a-fA-F]{2}){19})$"
        r"|^[0-9a-fA-F]{4}((\.[0-9a-fA-F]{4}){2}|(\.[0-9a-fA-F]{4}){3}|(\.[0-9a-fA-F]{4}){9})$"
    ),
    "uuid": _UUID % ("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _UUID % ("3", "[0-9a-f]"),
    "uuid4": _UUID % ("4", "[89ab]"),
    "uuid5": _UUID % ("5", "[89ab]"),
    "ssn": r"^\d{3}[- ]?\d{2}[- ]?\d{4}$",
    "hexcolor": r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$",
    "rgbcolor": r"^rgb\(\s*(\d{1,2}|1\d\d|2[0-4]\d|25[0-5])(\s*,\s*(\d{1,2}|1\d\d|2[0-4]\d|25[0-5])){2}\s*\)$",
    "byte": r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
    "duration": rf"^[-+]?(0|(\d+(\.\d*)?|\.\d+)\s*{_DURATION}(\s*(\d+(\.\d*)?|\.\d+)\s*{_DURATION})*)$",
    "datetime": (
        r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)"
        r"([.,]\d+)?([Zz]|[-+]\d{2}:?\d{2})?$"
    ),
    "k8sshortname": rf"^{_LABEL}$",
    "k8slongname": rf"^{_LABEL}(\.{_LABEL})*$",
}


_LARGEST_FLOAT = 3.4028234663852886e38
_RANGES: Mapping[tuple[str, str], tuple[float, float]] = {
    ("integer", "int32"): (-(2**31), 2**31 - 1),
    ("integer", "int64"): (-(2**63), 2**63 - 1),
    ("number", "float"): (-_LARGEST_FLOAT, _LARGEST_FLOAT),
}


def has_format(text: str, name: str) -> bool:
    """Whether a text has a format; true if the API server does not know the format."""
    known = name.replace("-", "")
    if known in _PATTERNS:
        return matches(text, _PATTERNS[known])
    rule = _RULES.get(known)
    return rule is None or rule(text)


def has_range(value: float, type_: str, name: str) -> bool:
    """Whether a number is in the range of its format; true if the API server does not check that."""
    least, most = _RANGES.get((type_, name), (value, value))
    return least <= value <= most


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern matches anywhere in a text; true for a malformed one, which the API server refuses."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(text) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error:
        return None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def _rule(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return _rule


def _cidr(text: str) -> None:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit():
        raise ValueError(text)
    ipaddress.ip_interface(f"{address}/{bits}")


def _is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not matches(digits, r"^[0-9]{9}[0-9X]$"):
        return False
    return sum((10 - i) * (10 if digit == "X" else int(digit)) for i, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    return matches(digits, r"^[0-9]{13}$") and sum(int(d) * (1, 3)[i % 2] for i, d in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = "".join(character for character in text if character in "0123456789")
    doubled = (int(digit) * (1, 2)[index % 2] for index, digit in enumerate(reversed(digits)))
    return matches(digits, r"^[0-9]{12,19}$") and sum(sum(divmod(value, 10)) for value in doubled) % 10 == 0


_RULES: Mapping[str, Callable[[str], bool]] = {
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(_cidr),
    "date": _parses(date.fromisoformat),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
}
