"""Image names: which rule applies to one, and what it becomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DOCKER_HUB = "docker.io/"
_OFFICIAL = "library/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    prefix: str
    rest: str
    rule: Mapping[str, Any]


def replace_image(image: str, rules: Sequence[Mapping[str, Any]]) -> str:
    """Return the image as the rule with the longest matching `from` makes it, or unchanged if none matches.

    `from` matches the name as it is written, and with its registry: nginx is docker.io/library/nginx.
    """
    name, suffix = _split(image)
    matches = [
        _Match(prefix=rule["from"], rest=rest, rule=rule) for rule in rules for rest in _rests(name, rule["from"])
    ]
    if not matches:
        return image
    best = max(matches, key=lambda match: len(match.prefix))
    return (best.rule.get("to") or best.prefix) + best.rest + _suffix(best.rule, suffix)


def _rests(name: str, prefix: str) -> Iterator[str]:
    """Yield what follows the prefix in the name, in each of its spellings that start with it."""
    for spelling in dict.fromkeys((name, _with_registry(name))):
        if spelling == prefix or (prefix.endswith("/") and spelling.startswith(prefix)):
            yield spelling[len(prefix) :]
            return


def _split(image: str) -> tuple[str, str]:
    """Return the name, and the tag and digest with their separators."""
    without_digest = image.partition("@")[0]
    folder, slash, last = without_digest.rpartition("/")
    name = folder + slash + last.partition(":")[0]
    return name, image[len(name) :]


def _with_registry(name: str) -> str:
    registry, slash, _ = name.partition("/")
    if slash and ("." in registry or ":" in registry or registry == "localhost"):
        return name
    return f"{_DOCKER_HUB}{name}" if slash else f"{_DOCKER_HUB}{_OFFICIAL}{name}"


def _suffix(rule: Mapping[str, Any], suffix: str) -> str:
    if rule.get("digest"):
        return f"@{rule['digest']}"
    return f":{rule['tag']}" if rule.get("tag") else suffix
