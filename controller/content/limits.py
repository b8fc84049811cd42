"""Rules for names, and limits for sizes, of untrusted content: for one source, for a BundleDeployment, for a tenant.

All sources of a BundleDeployment share one limit, and all BundleDeployments of a tenant share a part of the disk, so
that no tenant fills it for the others. A violation raises `Rejection`, which does not know the field path of the
source; the caller that does translates it by `Rejection.at`. Nothing here touches the disk.

Not here: writing (archive.py), and YAML itself (formats/manifests.py).
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Protocol

from rukpak.api.errors import BundleError
from rukpak.api.plugins import KIBIBYTE, MEBIBYTE, Limits, Readable, Refusal
from rukpak.api.v1alpha2.conditions import Reason

if TYPE_CHECKING:
    import yaml

SHOWN = 5
"""What a message lists of one kind."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_NAME_BYTES = 255  # NAME_MAX of every common file system
_CLAUSE = re.compile(r"[.;!?] ")
_CUT = " … "
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
        return BundleError(self.reason, str(self), place=path)


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


def one_line(text: str) -> str:
    """Return untrusted text on one line, with control characters escaped."""
    return visible(text.replace("\n", " "))


def collapse(text: str) -> str:
    """Return a text with whitespace and control characters collapsed to single spaces."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return " ".join("".join(character if character.isprintable() else " " for character in line).split())


def shorten(text: str, most: int) -> str:
    """Return a text of at most `most` characters, cut between words, with its end: a remedy stands last.

    What is kept of the end begins with a sentence or clause, if one begins in the last three quarters.
    """
    if len(text) <= most:
        return text
    room = most - len(_CUT)
    # Half of it is enough for most remedies; more is kept of one that is a single long clause.
    for share in (room // 2, room * 3 // 4):
        window = text[-share:]
        if found := _CLAUSE.search(window):
            tail = window[found.end() :]
            break
    else:
        tail = text[-(room // 2) - 1 :].partition(" ")[2] or text[-(room // 2) :]
    most_of_head = room - len(tail)
    end = text.rfind(" ", most_of_head // 2, most_of_head + 1)  # a longer word is cut
    return f"{text[: end if end > 0 else most_of_head]}{_CUT}{tail}"


def some(items: Sequence[object], separator: str = ",") -> str:
    """Return the first of many things for a message, and how many more there are.

    Args:
        items: in order.
        separator: a semicolon if commas are part of them.
    """
    return list_first(items[:SHOWN], len(items), separator)


def list_first(shown: Iterable[object], count: int, separator: str = ",") -> str:
    """Return things for a message, and how many more there are of the `count` that they are the first of."""
    texts = list(map(str, shown))
    and_more = f"{separator.removeprefix(',')} and {count - len(texts)} more" if count > len(texts) else ""
    return f"{f'{separator} '.join(texts)}{and_more}"


def name_key(path: str, key: str) -> str:
    """Return the path of an untrusted key: foo.bar, or foo["…"] if it is not a plain word."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{quote(key)}]"


def describe_bytes(count: int) -> str:
    """Return a number of bytes in MiB or KiB, as far as it has one, with tenths where it is not whole.

    They are rounded up, so what exceeds a limit of whole units does not read as equal to it.
    """
    for unit, size in (("MiB", MEBIBYTE), ("KiB", KIBIBYTE)):
        if count >= size:
            whole, tenths = divmod(-(-count * 10 // size), 10)
            return f"{whole}.{tenths} {unit}" if tenths else f"{whole} {unit}"
    return f"{count} byte{'' if count == 1 else 's'}"


def check_path(name: str, limits: Limits) -> str:
    """Return the path of an entry in normal relative form; '' for the root itself.

    Raises: Rejection for a path that is absolute or leaves its directory; Unusable for one that is not UTF-8, contains
        a backslash or a control character, or is too long or too deep.
    """
    elements = split_path(name)
    if _FORBIDDEN.search(name):
        raise Unusable(f"entry {quote(name)} has a backslash or a control character in its name; rename it")
    path = "/".join(elements)
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


def check_target(path: str, size: int, limits: Limits) -> None:
    """Refuse a link whose target is too long, in bytes.

    Raises: Unusable.
    """
    if size > limits.path_bytes:
        problem = f"has a link target that exceeds the limit of {limits.path_bytes} bytes"
        raise Unusable(f"entry {quote(path)} {problem}; shorten it")


def check_link(path: str, target: str, limits: Limits) -> None:
    """Refuse a link from `path` whose target, relative to the folder of `path`, is outside the tree.

    Lexical: links on the way are resolved in archive.py, which refuses to leave the tree, too.

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
    """Counts what is written for all sources of a BundleDeployment together."""

    def add_node(self) -> None:
        """Count a file or folder.

        Raises: BundleError if there are too many.
        """

    def add_file(self, size: int) -> None:
        """Count the bytes of a file.

        Raises: BundleError if there are too many.
        """


class Budget:
    """How much of its limits one content has used, charged before anything is written.

    Args:
        limits: for this content alone.
        meter: counts as well.
    """

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


CHUNK = 64 * 1024
TRUNCATED = "the archive is truncated; publish it again"


def read_exactly(stream: Readable, size: int, *, or_nothing: bool = False) -> bytes:
    """Return `size` bytes; with `or_nothing` also none, if the stream ends right here.

    Raises: Rejection for a stream that ends too early.
    """
    parts: list[bytes] = []
    left = size
    while left and (data := stream.read(left)):
        parts.append(data)
        left -= len(data)
    if left and not (or_nothing and not parts):
        raise Rejection(TRUNCATED)
    return b"".join(parts)


class Ratio:
    """What compressed data unpacks to, against the ratio limit. `compressed` counts the bytes read so far."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.compressed, self._unpacked = limits, 0, 0

    def charge(self, unpacked: int) -> None:
        """Count unpacked bytes.

        Raises: Rejection over the limit.
        """
        self._unpacked += unpacked
        if self._unpacked > self._limits.ratio_from and self._unpacked > self._limits.ratio * self.compressed:
            raise Rejection(
                f"the compressed data unpacks to more than the limit of {self._limits.ratio} times its size; "
                "compress it less"
            )


BLOCK = 4096
"""Bytes that a file or folder uses in addition to its content."""


def budget_of(limits: Limits) -> int:
    """Return the bytes of disk that one BundleDeployment may use within its limits."""
    return limits.compressed_bytes + limits.total_bytes + limits.entries * BLOCK


class DiskShares:
    """How much of the disk each tenant uses now, at most `share` bytes each and `total` together. Thread-safe."""

    def __init__(self, total: int = sys.maxsize, share: int = sys.maxsize) -> None:
        self._total, self._share = total, share
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def of_store(cls, store_bytes: int, limits: Limits) -> DiskShares:
        """Return shares as large as a store, half of it for one tenant, and never less than `budget_of`.

        With less, content within its limits would be refused forever.
        """
        return cls(max(store_bytes, budget_of(limits)), max(store_bytes // 2, budget_of(limits)))

    @contextmanager
    def use(self, tenant: str, limits: Limits) -> Iterator[Use]:
        """Count what one fetch and rendering uses; at the end all of it is free again.

        Args:
            tenant: as a message names it: `namespace "shop"`.
            limits: for all sources together.
        """
        use = Use(self, tenant, limits)
        try:
            yield use
        finally:
            use.close()

    def take(self, tenant: str, size: int) -> None:
        """Count bytes that are about to be written.

        Raises: BundleError (StorageFull); then they are not counted.
        """
        with self._lock:
            if self._taken[tenant] + size > self._share:
                raise _full(f"fetches for {tenant} exceed its share of the disk", self._share)
            if self._taken.total() + size > self._total:
                raise _full("fetches for all BundleDeployments exceed their part of the disk", self._total)
            self._taken[tenant] += size

    def give_back(self, tenant: str, size: int) -> None:
        """Count bytes as free again."""
        with self._lock:
            self._taken[tenant] -= size
            if not self._taken[tenant]:
                del self._taken[tenant]


class Use:
    """What one fetch and rendering uses of its limits and of its tenant's share. Thread-safe."""

    def __init__(self, shares: DiskShares, tenant: str, limits: Limits) -> None:
        self._shares, self._tenant, self._limits = shares, tenant, limits
        self._nodes = self._bytes = self._taken = 0
        self._received: Counter[int] = Counter()
        self._lock = threading.Lock()

    def add_node(self) -> None:
        """Count a file or folder that is about to be created.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            self._take(BLOCK)
            self._nodes += 1
            if self._nodes > self._limits.entries:
                raise _rejected(f"{self._limits.entries} files and directories")

    def add_file(self, size: int) -> None:
        """Count the bytes of a file that are about to be written.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            self._take(size)
            self._bytes += size
            if self._bytes > self._limits.total_bytes:
                raise _rejected(describe_bytes(self._limits.total_bytes))

    def receive(self, source: int, size: int) -> None:
        """Count what a source has received so far, before unpacking.

        Args:
            source: its index.
            size: the sum so far; a smaller one than before is ignored.

        Raises: BundleError (ContentRejected, StorageFull).
        """
        with self._lock:
            more = size - self._received[source]
            if more <= 0:
                return
            self._take(more)
            self._received[source] = size
            if self._received.total() > self._limits.compressed_bytes:
                raise _rejected(f"{describe_bytes(self._limits.compressed_bytes)} before unpacking")

    def occupy(self, size: int) -> None:
        """Count bytes in a scratch folder, which only the share limits.

        Raises: BundleError (StorageFull).
        """
        with self._lock:
            self._take(size)

    def close(self) -> None:
        """Count all of it as free again."""
        with self._lock:
            self._shares.give_back(self._tenant, self._taken)
            self._taken = 0

    def _take(self, size: int) -> None:
        self._shares.take(self._tenant, size)
        self._taken += size


def _rejected(limit: str) -> BundleError:
    message = f"spec.sources: together the sources exceed the limit of {limit}; make them smaller, or remove some"
    return BundleError(Reason.CONTENT_REJECTED, message)


def _full(problem: str, size: int) -> BundleError:
    message = (
        f"spec.sources: {problem}, {describe_bytes(size)}; will be retried when other fetches have finished; make the "
        "content smaller, or ask the administrator to raise --store-mebibytes"
    )
    return BundleError(Reason.STORAGE_FULL, message)


# A key has at most 1024 characters. What libyaml refuses beyond that, we have refused before.
_LEVELS = 2000


# nesting of YAML


def is_refused_nesting(error: yaml.MarkedYAMLError) -> bool:
    """Return whether libyaml refused a text since it is nested too deeply: from 0.2.6 on, more than 1000 levels.

    It reads ahead as far as a key may reach, so it may do so before a reader here has met its own limit.
    """
    return error.problem is not None and error.problem == _refusal()


@cache
def _refusal() -> str | None:
    # The errors of libyaml have no codes.
    import yaml  # noqa: PLC0415 - slow, and not for --help

    try:
        for _ in yaml.parse(b"[" * _LEVELS + b"]" * _LEVELS, yaml.CSafeLoader):
            pass
    except yaml.MarkedYAMLError as error:
        return error.problem
    return None
