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
from api.plugins import MEBIBYTE, Limits
from api.v1alpha2.conditions import Reason

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_NAME_BYTES = 255  # NAME_MAX of every common file system
# C0 except tab and line feed, DEL and C1, separators, direction marks, and surrogates.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,120}")
_SHOWN = 120  # characters of a name in a message


class Rejection(Exception):  # noqa: N818 - it is what happens to the content, not an error of ours
    """Content violates a rule or a limit. The message names the entry, the problem and the remedy."""

    def at(self, path: str) -> BundleError:
        """Return the error for content of the source at a field path."""
        return BundleError(Reason.CONTENT_REJECTED, f"{path}: {self}")


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

    Raises: Rejection for a path that is absolute, leaves its directory, is not UTF-8, contains a backslash or a control
        character, or is too long or too deep.
    """
    if name.startswith("/"):
        raise Rejection(f"entry {quote(name)} has an absolute path; make it relative")
    if _FORBIDDEN.search(name):
        raise Rejection(f"entry {quote(name)} has a backslash or a control character in its name; rename it")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Rejection(f'entry {quote(name)} leaves its directory; remove ".." from its path')
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
            f"entry {quote(path)} has a path that exceeds the limit of {limits.path_bytes} bytes "
            f"({_NAME_BYTES} per element); shorten it"
        )
    if len(parts) > limits.path_depth:
        raise Rejection(f"entry {quote(path)} is nested deeper than the limit of {limits.path_depth}; move it up")


def check_target(path: str, size: int, limits: Limits) -> None:
    """Refuse a link whose target is too long, in bytes.

    Raises: Rejection.
    """
    if size > limits.path_bytes:
        problem = f"has a link target that exceeds the limit of {limits.path_bytes} bytes"
        raise Rejection(f"entry {quote(path)} {problem}; shorten it")


def check_link(path: str, target: str, limits: Limits) -> None:
    """Refuse a link from `path` whose target, relative to the folder of `path`, is outside the tree.

    Lexical: links on the way are resolved in nodes.py, which refuses to leave the tree, too.

    Raises: Rejection.
    """
    check_target(path, len(target.encode(errors="surrogateescape")), limits)
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or joined == ".." or joined.startswith("../"):
        raise leaving(path, target)


def leaving(path: str, target: str) -> Rejection:
    """Return the refusal of a link that leads out of the tree."""
    return Rejection(f"entry {quote(path)} links to {quote(target)}, outside the tree; link to something inside it")


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
        self._entries = self._nodes = self._bytes = 0

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

    def _count(self, used: int) -> int:
        if used >= self._limits.entries:
            raise too_many_entries(self._limits)
        return used + 1


def too_many_entries(limits: Limits) -> Rejection:
    """Return the refusal of content with too many entries."""
    return Rejection(f"the content has more entries than the limit of {limits.entries}; remove some")


def decode(name: bytes) -> str:
    """Return a name of an archive as text, whatever its bytes are."""
    return name.decode(errors="surrogateescape")  # check_path refuses what is not UTF-8, by name
