"""Versions as operator-framework/api reads them: blang/semver's ParseTolerant, of which `1.2.3-rc.1+build` is one."""

from __future__ import annotations

import re

_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_IS_STRICT = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
).fullmatch
_LEADING_ZEROS = re.compile(r"\A0+(?=[0-9])").sub
_PARTS = 3


def is_version(text: str) -> bool:
    """Return whether a text is a version; leading zeros, a leading v and missing parts are accepted."""
    parts = [_LEADING_ZEROS("", part) for part in text.strip().removeprefix("v").split(".", _PARTS - 1)]
    if len(parts) < _PARTS and re.search("[+-]", parts[-1]):
        return False
    return bool(_IS_STRICT(".".join([*parts, *["0"] * (_PARTS - len(parts))])))
