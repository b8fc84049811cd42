"""Parses the challenges of a registry in the header `WWW-Authenticate` (RFC 9110, sections 11.2 to 11.6.1).

Pure. Why not oras' expression: it mixes the parameters of all challenges, and misses values without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LONGEST = 4096
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - of the grammar
_PLAIN = r'[^\s",=][^\s",]*'  # more than a token: some registries do not quote the URL of realm
_SCHEME = re.compile(_TOKEN)
# Possessive, so that an unclosed quote costs linear time.
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|({_PLAIN}))')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One way to authenticate."""

    scheme: str
    """In lower case: `basic`, `bearer`."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """Return the challenges of a header, in order; none if it is suspiciously long.

    Text outside the grammar is skipped; a challenge that is incomplete after that fails.
    """
    if len(header) > _LONGEST:
        return ()
    return tuple(_challenges(header))


def _challenges(header: str) -> Iterator[Challenge]:
    scheme, parameters = "", dict[str, str]()
    position = 0
    while position < len(header):
        if parameter := _PARAMETER.match(header, position):
            name, quoted, plain = parameter.groups()
            parameters.setdefault(name.lower(), plain or _ESCAPED.sub(r"\1", quoted or ""))
        elif start := _SCHEME.match(header, position):
            if scheme:
                yield Challenge(scheme=scheme, parameters=parameters)
            scheme, parameters = start[0].lower(), {}
        found = parameter or _SCHEME.match(header, position)
        position = found.end() if found else position + 1
    if scheme:
        yield Challenge(scheme=scheme, parameters=parameters)
