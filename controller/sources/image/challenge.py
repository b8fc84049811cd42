"""What a registry says when it wants to know who asks: the header `WWW-Authenticate`, taken apart.

Pure. The grammar: RFC 9110, sections 11.2 to 11.6.1. Why not oras' expression: it takes the parameters of all
challenges for those of one, and does not see a value without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LONGEST = 4096
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - of the grammar
_SCHEME = re.compile(_TOKEN)
# Possessive, so that a quote without an end costs its length once and not squared.
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|({_TOKEN}))')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One way to say who asks."""

    scheme: str
    """In lower case: `basic`, `bearer`."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """Return the challenges of a header, in order; none if it is too long to be an honest one.

    What does not fit the grammar is passed over: a challenge that lost something by that is answered in vain.
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
        elif begun := _SCHEME.match(header, position):
            if scheme:
                yield Challenge(scheme=scheme, parameters=parameters)
            scheme, parameters = begun[0].lower(), {}
        found = parameter or _SCHEME.match(header, position)
        position = found.end() if found else position + 1
    if scheme:
        yield Challenge(scheme=scheme, parameters=parameters)
