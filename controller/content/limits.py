"""Rules for names and budgets for sizes: what untrusted content may ask for.

Pure, but for the counters of a `Budget`. A broken rule raises `Rejection`, which does not know where the content stands
in the spec; whoever does turns it into a `BundleError` by `Rejection.at`.

Not here: how much a parser may read (compression.py, tar.py), and the writing (archive.py).
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import Protocol

from api.errors import BundleError
from api.plugins import MEBIBYTE, Limits
from api.v1alpha2.conditions import Reason

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_NAME_BYTES = 255  # NAME_MAX of every file system that a store may stand on
# C0 but tab and line feed, DEL and C1, separators, what turns the direction of writing, and halves of characters.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,120}")
_SHOWN = 120  # characters of a name in a message


class Rejection(Exception):  # noqa: N818 - it is what happens to the content, not an error of ours
    """Content breaks a rule or a budget. The message names the entry, the rule and the remedy."""

    def at(self, path: str) -> BundleError:
        """Return the error for content that a source at this field path brought."""
        return BundleError(Reason.CONTENT_REJECTED, f"{path}: {self}")


def quote(name: str) -> str:
    """Return a name from outside in double quotes, on one line and of bearable length."""
    text = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
    return json.dumps(text, ensure_ascii=not text.isprintable())


def visible(text: str) -> str:
    """Return a text whose control characters are written out: none of them reaches a terminal. Line breaks stay."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def name_key(path: str, key: str) -> str:
    """Return the path of a key from outside: foo.bar, or foo["…"] where it is no plain word."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{quote(key)}]"


def describe_bytes(count: int) -> str:
    """Return a budget as a person would write it."""
    return f"{count // MEBIBYTE} MiB" if count and count % MEBIBYTE == 0 else f"{count} bytes"


def check_path(name: str, limits: Limits) -> str:
    """Return the normal relative form of an entry's name; '' for the root itself.

    Raises: Rejection for a name that is absolute, leaves its directory, is not UTF-8, holds a backslash or a control
        character, or is too long or too deep.
    """
    if name.startswith("/"):
        raise Rejection(f"entry {quote(name)} has an absolute name; make it relative")
    if _FORBIDDEN.search(name):
        raise Rejection(f"entry {quote(name)} has a backslash or a control character in its name; rename it")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Rejection(f'entry {quote(name)} leaves its directory; take ".." out of its name')
    path = "/".join(parts)
    _check_length(path, parts, limits)
    return path


def _check_length(path: str, parts: list[str], limits: Limits) -> None:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise Rejection(f"entry {quote(path)} has a name that is not UTF-8; rename it") from None
    if length > limits.path_bytes or any(len(part.encode()) > _NAME_BYTES for part in parts):
        raise Rejection(
            f"entry {quote(path)} has a name over the budget of {limits.path_bytes} bytes, "
            f"{_NAME_BYTES} for one element; shorten it"
        )
    if len(parts) > limits.path_depth:
        raise Rejection(f"entry {quote(path)} is deeper than the budget of {limits.path_depth} levels; move it up")


def check_link(path: str, target: str, limits: Limits) -> None:
    """Refuse a link from `path` whose target, relative to the folder of `path`, is outside of the tree.

    Lexical: what it meets on its way is seen when it is resolved (nodes.py), where leaving is refused as well.

    Raises: Rejection.
    """
    if len(target.encode(errors="surrogateescape")) > limits.path_bytes:
        raise Rejection(f"entry {quote(path)} links to a name over the budget of {limits.path_bytes} bytes; shorten it")
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or joined == ".." or joined.startswith("../"):
        raise leaving(path, target)


def leaving(path: str, target: str) -> Rejection:
    """Return the refusal of a link that leads out of the tree."""
    return Rejection(f"entry {quote(path)} links out of the tree, to {quote(target)}; link to something inside")


class Meter(Protocol):
    """Counts what is written for all sources of a BundleDeployment together (shares.py)."""

    def add_node(self) -> None:
        """Count a file or folder; raises BundleError if there are too many."""

    def add_file(self, size: int) -> None:
        """Count the bytes of a file; raises BundleError if there are too many."""


class Budget:
    """What one piece of content has used of its limits. Every charge is made before what it pays for.

    Args:
        limits: of this content.
        meter: is told, too, of what is made and written.
    """

    def __init__(self, limits: Limits, meter: Meter | None = None) -> None:
        self._limits, self._meter = limits, meter
        self._entries = self._nodes = self._bytes = 0

    def charge_entry(self) -> None:
        """Count one entry that was read, whatever becomes of it."""
        self._entries = self._count(self._entries)

    def charge_node(self) -> None:
        """Count one file or directory that is made, also a directory that no entry names."""
        self._nodes = self._count(self._nodes)
        if self._meter:
            self._meter.add_node()

    def charge_file(self, path: str, size: int) -> None:
        """Count the bytes of one file, also of a copy that stands for a link."""
        if size > self._limits.file_bytes:
            budget = describe_bytes(self._limits.file_bytes)
            raise Rejection(f"entry {quote(path)} is over the budget of {budget} for one file; make it smaller")
        self._bytes += size
        if self._bytes > self._limits.total_bytes:
            budget = describe_bytes(self._limits.total_bytes)
            raise Rejection(f"entry {quote(path)} brings the content over the budget of {budget}; make it smaller")
        if self._meter:
            self._meter.add_file(size)

    def _count(self, used: int) -> int:
        if used >= self._limits.entries:
            raise Rejection(f"there are more entries than the budget of {self._limits.entries}; leave some out")
        return used + 1
