"""Texts of Secrets that `spec.configFrom` names, to be found where messages would show them. Pure.

A text counts as secret from four characters on, unless anybody may read it, too. It is found as it is, in base64 and in
hexadecimal digits, in any case, with or without what is neither letter nor digit, and by its first eight characters,
since names are often cut. What a template makes of it beyond that cannot be recognized.

Not here: where such texts must not be (rendering.py).
"""

from __future__ import annotations

import base64
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.formats.helm.values import scalars_of

LEAST = 4
"""Characters of a text that is secret; see formats/helm/failures.py."""
_START = 8
_WORD = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Confidential:
    """What is known of a config with values from Secrets; never shown: without a repr."""

    secrets: tuple[str, ...]
    """All texts in the values of Secrets."""
    public: str
    """What may be shown: the spec and the name of the BundleDeployment, and values from ConfigMaps."""


def texts_of(value: Any) -> Iterator[str]:
    """Yield the strings, numbers and keys in a value."""
    yield from scalars_of(value)
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            yield from (key for key in found if isinstance(key, str))
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


class SecretTexts:
    """Finds texts of Secrets in others; `public` is what else may be shown."""

    def __init__(self, confidential: Confidential, public: Iterable[str] = ()) -> None:
        words = {word for secret in confidential.secrets for form in _forms(secret) for word in _words_of(form)}
        self._short = {word for word in words if LEAST <= len(word) < _START}
        self._long = sorted(word for word in words if len(word) >= _START)
        self._public = "\n".join((confidential.public, *public)).casefold()

    def find(self, text: str) -> Iterator[str]:
        """Yield what a text contains of secrets that is not public, in lower case."""
        for word in _WORD.findall(text.casefold()):
            for start in range(len(word) - LEAST + 1):
                yield from (found for found in self._find_at(word, start) if found not in self._public)

    def _find_at(self, word: str, start: int) -> Iterator[str]:
        for length in range(LEAST, _START):
            if word[start : start + length] in self._short:
                yield word[start : start + length]
        rest = word[start:]
        place = bisect(self._long, rest)
        # Of sorted texts, a neighbour has the most in common with one that is between them.
        for neighbour in self._long[max(place - 1, 0) : place + 1]:
            if len(common := _beginning_of(rest, neighbour)) >= _START:
                yield common


def _beginning_of(one: str, other: str) -> str:
    """Return what two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))]


def _forms(secret: str) -> Iterator[str]:
    data = secret.encode(errors="surrogatepass")
    yield secret.casefold()
    yield base64.b64encode(data).decode().casefold()
    yield data.hex()


def _words_of(form: str) -> Iterable[str]:
    words: list[str] = _WORD.findall(form)
    return [*words, "".join(words)]
