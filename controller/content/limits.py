"""Rules for names, and limits for sizes, of untrusted content.

Pure, except for the counters of a `Budget`. A violation raises `Rejection`, which does not know the field path of the
source; the caller that does translates it by `Rejection.at`.

Not here: how much a parser may read (compression.py, tar.py), and writing (archive.py).
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import Protocol

from api.errors import BundleError
from api.plugins import MEBIBYTE, Limits, Refusal
from api.v1alpha2.conditions import Reason

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_NAME_BYTES = 255  # NAME_MAX of every common file system
# C0 except tab and line feed, DEL and C1, separators, direction marks, and surrogates.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,120}")
_SHOWN = 120  # characters of a name in a message
_REFUSED_TEXT = 16 * MEBIBYTE  # characters: 4,000 of the longest names and messages, and 80,000 usual ones


class Rejection(Exception):  # noqa: N818 - it is what happens to the content, not an error of ours
    """Content violates a rule or a limit. The message names the entry, the problem and the remedy."""

    reason = Reason.CONTENT_REJECTED

    @property
    def refusal(self) -> Refusal:
        """The same for an entry that must not be read."""
        return Refusal(problem=str(self), reason=self.reason)

    def at(self, path: str) -> BundleError:
        """Return the error for content of the source at a field path."""
        return BundleError(self.reason, f"{path}: {self}")


class Unusable(Rejection):
    """A single entry violates a rule, which does not matter if no format reads it."""

    @classmethod
    def of(cls, refusal: Refusal) -> Unusable:
        """Return the exception for reading what was refused."""
        found = cls(refusal.problem)
        found.reason = refusal.reason
        return found


class Unreadable:
    """The data of an entry that must not be read: reading it raises the rejection."""

    def __init__(self, rejection: Rejection) -> None:
        self._rejection = rejection

    def read(self, _size: int, /) -> bytes:
        """Raise the rejection."""
        raise self._rejection


def quote(name: str) -> str:
    """Return an untrusted name in double quotes, on one line, and shortened if it is long."""
    text = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
    return json.dumps(text, ensure_ascii=not text.isprintable())


def visible(text: str) -> str:
    """Return a text with its control characters escaped, except line breaks: none of them reaches a terminal."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def name_key(path: str, key: str) -> str:
    """Return the path of an untrusted key: foo.bar, or foo["…"] if it is not a plain word."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{quote(key)}]"


def describe_bytes(count: int) -> str:
    """Return a number of bytes in MiB if it is a multiple of one."""
    return f"{count // MEBIBYTE} MiB" if count and count % MEBIBYTE == 0 else f"{count} bytes"


def check_path(name: str, limits: Limits) -> str:
    """Return the path of an entry in normal relative form; '' for the root itself.

    Raises: Rejection for a path that is absolute or leaves its directory; Unusable for one that is not UTF-8, contains
        a backslash or a control character, or is too long or too deep.
    """
    elements = split_path(name)
    if _FORBIDDEN.search(name):
        raise Unusable(f"entry {quote(name)} has a backslash or a control character in its name; rename it")
    path = "/".join(elements)
    _check_length(path, elements, limits)
    return path


def split_path(name: str) -> list[str]:
    """Return the elements of the path of an entry, unchecked but for those that lead elsewhere; none for the root.

    Raises: Rejection for a path that is absolute or leaves its directory.
    """
    if name.startswith("/"):
        raise Rejection(f"entry {quote(name)} has an absolute path; make it relative")
    elements = [element for element in name.split("/") if element not in ("", ".")]
    if ".." in elements:
        raise Rejection(f'entry {quote(name)} leaves its directory; remove ".." from its path')
    return elements


def place_refused(name: str, limits: Limits) -> tuple[str, list[str]]:
    """Return where to record the entry of a name that `check_path` may refuse, in bounded time and memory.

    Returns: the longest allowed path above it, and one or two names below that, none of which is the name of an allowed
        entry unless the whole path is allowed. The last one ends as the name does.

    Raises: Rejection for a path that is absolute or leaves its directory.
    """
    elements = split_path(name)
    length = allowed = 0
    for element in elements[: limits.path_depth]:
        length += len(element.encode(errors="surrogateescape")) + 1
        if length - 1 > limits.path_bytes or not _is_allowed(element):
            break
        allowed += 1
    allowed = min(allowed, len(elements) - 1)
    rest = [elements[allowed], *elements[allowed + 1 :][-1:]]
    return "/".join(elements[:allowed]), [_shorten(element) for element in rest]


def _is_allowed(element: str) -> bool:
    if len(element) > _NAME_BYTES or _FORBIDDEN.search(element):
        return False
    try:
        return len(element.encode()) <= _NAME_BYTES
    except UnicodeEncodeError:
        return False


def _shorten(element: str) -> str:
    # No allowed name contains a slash.
    return element if len(element) <= _NAME_BYTES else f"{element[:_SHOWN]}/{element[-_SHOWN:]}"


def _check_length(path: str, elements: list[str], limits: Limits) -> None:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise Unusable(f"entry {quote(path)} has a name that is not UTF-8; rename it") from None
    if length > limits.path_bytes or any(len(element.encode()) > _NAME_BYTES for element in elements):
        raise Unusable(
            f"entry {quote(path)} has a path that exceeds the limit of {limits.path_bytes} bytes "
            f"({_NAME_BYTES} per element); shorten it"
        )
    if len(elements) > limits.path_depth:
        raise Unusable(f"entry {quote(path)} is nested deeper than the limit of {limits.path_depth}; move it up")


def check_target(path: str, size: int, limits: Limits) -> None:
    """Refuse a link whose target is too long, in bytes.

    Raises: Unusable.
    """
    if size > limits.path_bytes:
        problem = f"has a link target that exceeds the limit of {limits.path_bytes} bytes"
        raise Unusable(f"entry {quote(path)} {problem}; shorten it")


def check_link(path: str, target: str, limits: Limits) -> None:
    """Refuse a link from `path` whose target, relative to the folder of `path`, is outside the tree.

    Lexical: links on the way are resolved in nodes.py, which refuses to leave the tree, too.

    Raises: Unusable.
    """
    check_target(path, len(target.encode(errors="surrogateescape")), limits)
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or joined == ".." or joined.startswith("../"):
        raise leaving(path, target)


def leaving(path: str, target: str, tree: str = "tree") -> Unusable:
    """Return the refusal of a link that leads out of the tree."""
    return Unusable(f"entry {quote(path)} links to {quote(target)}, outside the {tree}; link to something inside it")


class Meter(Protocol):
    """Counts what is written for all sources of a BundleDeployment together (shares.py)."""

    def add_node(self) -> None:
        """Count a file or folder.

        Raises: BundleError if there are too many.
        """

    def add_file(self, size: int) -> None:
        """Count the bytes of a file.

        Raises: BundleError if there are too many.
        """


class Budget:
    """How much of its limits one content has used, charged before anything is written; `meter` counts as well."""

    def __init__(self, limits: Limits, meter: Meter | None = None) -> None:
        self._limits, self._meter = limits, meter
        self._entries = self._nodes = self._bytes = self._refused = 0

    def charge_entry(self) -> None:
        """Count one entry that was read, even if nothing is written for it.

        Raises: Rejection over the limit.
        """
        self._entries = self._count(self._entries)

    def charge_node(self) -> None:
        """Count one file or folder that is written, including folders that no entry names.

        Raises: Rejection over the limit; BundleError of the meter.
        """
        self._nodes = self._count(self._nodes)
        if self._meter:
            self._meter.add_node()

    def charge_file(self, path: str, size: int) -> None:
        """Count the bytes of one file, including the copy that replaces a link.

        Raises: Rejection over the limits; BundleError of the meter.
        """
        if size > self._limits.file_bytes:
            limit = describe_bytes(self._limits.file_bytes)
            raise Rejection(f"entry {quote(path)} exceeds the limit of {limit} per file; make it smaller")
        self._bytes += size
        if self._bytes > self._limits.total_bytes:
            limit = describe_bytes(self._limits.total_bytes)
            raise Rejection(f"entry {quote(path)} makes the content exceed the limit of {limit}; make it smaller")
        if self._meter:
            self._meter.add_file(size)

    def charge_refused(self, path: str, refusal: Refusal) -> None:
        """Count what is kept in memory about something that must not be read.

        Raises: Rejection over the limit.
        """
        self._refused += len(path) + len(refusal.problem)
        check_refused(self._refused)

    def _count(self, used: int) -> int:
        if used >= self._limits.entries:
            raise too_many_entries(self._limits)
        return used + 1


def check_refused(characters: int) -> None:
    """Refuse content, or the content of all sources together, with too much that must not be read.

    Args:
        characters: of its paths and problems.

    Raises: Rejection.
    """
    if characters > _REFUSED_TEXT:
        raise Rejection("the content has too many entries that cannot be used; remove some")


def too_many_entries(limits: Limits) -> Rejection:
    """Return the refusal of content with too many entries."""
    return Rejection(f"the content has more entries than the limit of {limits.entries}; remove some")


def decode(name: bytes) -> str:
    """Return a name of an archive as text, whatever its bytes are."""
    return name.decode(errors="surrogateescape")  # check_path refuses what is not UTF-8, by name
