"""Colons that libyaml refuses and go-yaml reads: at the end of a plain scalar in `[]` or `{}`, as in `[echo a:]`.

Before parsing, each is replaced by a character that the text does not contain; the composer replaces it back. Colons
after quotes, brackets, blanks and aliases are left alone, since both parsers may take them for the end of a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

Hidden: TypeAlias = tuple[bytes, str]
"""A text, and the character in it that stands for a colon; '' if there is none."""

_INDICATORS = tuple(b":" + bytes((character,)) for character in b",[]{}")
_REFUSED = re.compile(rb"""(?<=[\s,\[{])\*[^\s,\[\]{}]*|(?<=[^\s"'\[\]{},]):(?=[,\[\]{}])""")
_PRIVATE_USE = range(0xE000, 0xF900)
_PRIVATE = re.compile(rb"\xee[\x80-\xbf]{2}|\xef[\x80-\xa3][\x80-\xbf]")
_ESCAPED = re.compile(rb"\\(?:u|U0000)([efEF][0-9a-fA-F]{3})")


def hide(text: bytes) -> Hidden:
    """Return a text that libyaml reads as go-yaml does; without a free character, the text as it is."""
    if not any(pair in text for pair in _INDICATORS):
        return text, ""
    stand_in = next(_unused(text), "")
    replacement = stand_in.encode() or b":"
    return _REFUSED.sub(lambda match: replacement if match[0] == b":" else match[0], text), stand_in


def _unused(text: bytes) -> Iterator[str]:
    """Yield characters that the text contains neither as such nor as an escape."""
    used = {match[0].decode() for match in _PRIVATE.finditer(text)}
    used |= {chr(int(match[1], 16)) for match in _ESCAPED.finditer(text)}
    return (chr(code) for code in _PRIVATE_USE if chr(code) not in used)
