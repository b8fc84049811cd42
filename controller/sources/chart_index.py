"""The index of a chart repository: which versions each chart has, and where; and the calls that share it.

Indexes have tens of megabytes, of which little is needed. So only events are read, never a tree of values, and what is
needed is kept compressed. libyaml reads the JSON that some repositories write, too. Aliases are not followed: no tool
writes them there. Format: https://helm.sh/docs/topics/chart_repository/#the-index-file.

A repository is asked once, however many BundleDeployments use it. Invariants: calls share an answer only if they name
the same file and would ask for it in the same way: with the same credentials, trusting the same certificates. No call
gets an answer that is older than it accepts. A call that waits for another one waits no longer than its own deadline,
and asks itself if the other is canceled.

Not here: how a repository is asked (chart.py).
"""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Generic, TypeVar, cast

import yaml

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import describe_bytes, is_refused_nesting, quote
from rukpak.controller.sources.pace import check_deadline

INDEX_BYTES = 64 << 20
_KEPT_BYTES = 16 << 20  # compressed; an index of 30 MiB needs 2
READING_BYTES = _KEPT_BYTES + (16 << 20)
"""Memory that reading an index takes at most: what is kept, and the largest value in the forms that libyaml needs."""
_VALUE_BYTES = 1 << 20  # of one scalar, which libyaml reads into memory as a whole
_DEPTH = 64
_TOO_DEEP = f"it is nested more than {_DEPTH} levels deep"
_MOST_CHARTS, _MOST_RELEASES = 20_000, 20_000
_LONGEST = {"version": 256, "digest": 128, "url": 2048}
# Other names no chart may have: Helm's `chartName`, with its limit.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,250}")
_SEPARATOR = b"\0"
_BREAKS = re.compile(r"[\0\n\ud800-\udfff]")
_WEB_PAGE = re.compile(rb"\s*<", re.ASCII)
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{", re.ASCII)
_HEAD_BYTES, _CHUNK = 512, 16 << 10
_NULLS = ("null", "Null", "NULL", "~")

_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class UnreadableError(Exception):
    """The file is no index; the message says why."""


class TooLargeError(Exception):
    """The index exceeds a limit; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of a chart."""

    version: str
    url: str
    """Perhaps relative; '' for none."""
    digest: str
    """Digest of the packaged chart, as the index has it; '' for none."""


class Index:
    """The charts of a repository.

    Args:
        charts: the releases of each chart, packed.
        digest: of the file.
        validator: of the response, for a conditional request; '' for none.
        is_own: whether the repository itself has sent it, and not a host that it redirects to.
    """

    def __init__(self, charts: Mapping[str, bytes], digest: str, validator: str, *, is_own: bool = True) -> None:
        self.names = charts.keys()
        self.digest, self.validator, self.is_own = digest, validator, is_own
        self.size = sum(len(name) + len(packed) for name, packed in charts.items())
        """Bytes that it takes."""
        self._charts = charts

    def versions(self, name: str) -> Iterator[str] | None:
        """Return the versions of a chart in the order of the index, one at a time; None for an unknown chart."""
        packed = self._charts.get(name)
        return None if packed is None else (line.partition(_SEPARATOR)[0].decode() for line in _unpack(packed))

    def releases(self, name: str, version: str) -> Iterator[Release]:
        """Yield the releases of one version of a chart in the order of the index; none for an unknown chart."""
        beginning = version.encode() + _SEPARATOR
        for line in _unpack(self._charts.get(name, b"")):
            if line.startswith(beginning):
                each, digest, url = line.decode().split(_SEPARATOR.decode())
                yield Release(version=each, digest=digest, url=url)


def _unpack(packed: bytes) -> Iterator[bytes]:
    unpacker, rest = zlib.decompressobj(), b""
    while packed or unpacker.unconsumed_tail:
        text = rest + unpacker.decompress(unpacker.unconsumed_tail or packed, _CHUNK)
        packed = b"" if unpacker.unconsumed_tail or unpacker.eof else packed
        *lines, rest = text.split(b"\n")
        yield from lines
        if unpacker.eof:
            return


def read_charts(file: BinaryIO, check: Callable[[], None]) -> dict[str, bytes]:
    """Return the packed releases of each chart.

    Args:
        file: the index, at its start.
        check: called often; raises to stop.

    Raises: UnreadableError, TooLargeError; what `check` raises.
    """
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if _WEB_PAGE.match(head):
        raise UnreadableError("it is a web page")
    reader = _Reader(_Input(file, check, is_json=bool(_JSON.match(head))))
    try:
        return _read_root(reader)
    except yaml.MarkedYAMLError as error:
        if is_refused_nesting(error):
            raise TooLargeError(_TOO_DEEP) from None
        mark = error.problem_mark or error.context_mark
        raise UnreadableError(f"line {mark.line + 1 if mark else 1} is not YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise UnreadableError("it is not UTF-8 text") from None


# what is needed


def _read_root(reader: _Reader) -> dict[str, bytes]:
    charts, size, has_entries = dict[str, bytes](), 0, False
    for key, value in reader.pairs(reader.root()):
        if key.lower() != "entries":
            reader.skip(value)
            continue
        has_entries = True
        for name, start in reader.pairs(value):
            packed = _pack(name, _releases(reader, start))
            if not _NAME.fullmatch(name):
                continue
            charts[name] = packed
            size += len(packed)
            if len(charts) > _MOST_CHARTS:
                raise TooLargeError(f"it has more than {_MOST_CHARTS} charts")
            if size > _KEPT_BYTES:
                raise _too_much()
    if not has_entries:
        raise UnreadableError('it has no "entries"')
    return charts


def _pack(name: str, releases: Iterator[Release]) -> bytes:
    packer = zlib.compressobj(1)
    packed = bytearray()
    for number, release in enumerate(releases):
        if number == _MOST_RELEASES:
            raise TooLargeError(f"chart {quote(name)} has more than {_MOST_RELEASES} versions")
        fields = (release.version, release.digest, release.url)
        packed += packer.compress(_SEPARATOR.join(field.encode() for field in fields) + b"\n")
        if len(packed) > _KEPT_BYTES:
            raise _too_much()
    return bytes(packed + packer.flush())


def _too_much() -> TooLargeError:
    return TooLargeError(f"its addresses and digests exceed the limit of {describe_bytes(_KEPT_BYTES)}")


def _releases(reader: _Reader, start: yaml.Event) -> Iterator[Release]:
    # Entries that are no releases are left out, as Helm does.
    for item in reader.items(start):
        found = {"version": "", "digest": "", "url": ""}
        for key, value in reader.pairs(item):
            field = key.lower()  # Helm reads the keys of an index in any case
            if field == "urls":
                texts = [reader.text(each) for each in reader.items(value)]
                found["url"] = texts[0] if texts else ""
            elif field in ("version", "digest"):
                found[field] = reader.text(value)
            else:
                reader.skip(value)
        if _is_release(found):
            yield Release(**found)


def _is_release(found: Mapping[str, str]) -> bool:
    # A version is ASCII (semver.org).
    if not (found["version"] and found["version"].isascii()) or any(map(_BREAKS.search, found.values())):
        return False
    return all(len(text.encode("utf-8", "surrogatepass")) <= _LONGEST[field] for field, text in found.items())


# events


class _Reader:
    """Reads values from events. Who gets the first event of a value must take the rest, by one of the methods."""

    def __init__(self, file: _Input) -> None:
        self._file = file
        self._next = cast("Callable[[], yaml.Event]", yaml.CSafeLoader(file).get_event)

    def root(self) -> yaml.Event:
        """Return the first event of the first document. Raises: UnreadableError without one."""
        while not isinstance(event := self._next(), yaml.NodeEvent):
            if isinstance(event, yaml.StreamEndEvent):
                raise UnreadableError("it is empty")
        return event

    def pairs(self, start: yaml.Event) -> Iterator[tuple[str, yaml.Event]]:
        """Yield each key of a mapping with the first event of its value; nothing for another value."""
        if not isinstance(start, yaml.MappingStartEvent):
            self.skip(start)
            return
        while not isinstance(event := self._take(), yaml.MappingEndEvent):
            yield self.text(event), self._take()

    def items(self, start: yaml.Event) -> Iterator[yaml.Event]:
        """Yield the first event of each item of a list; nothing for another value."""
        if not isinstance(start, yaml.SequenceStartEvent):
            self.skip(start)
            return
        while not isinstance(event := self._take(), yaml.SequenceEndEvent):
            yield event

    def text(self, start: yaml.Event) -> str:
        """Return a scalar; '' for null and any other value."""
        self.skip(start)
        if not isinstance(start, yaml.ScalarEvent) or (start.implicit[0] and start.value in _NULLS):
            return ""
        return str(start.value)

    def skip(self, start: yaml.Event) -> None:
        """Take the rest of a value."""
        if not isinstance(start, _STARTS):
            return
        depth, take = 1, self._next
        while depth:
            kind = type(take())
            if kind in _STARTS:
                depth += 1
                if depth > _DEPTH:
                    raise TooLargeError(_TOO_DEEP)
            elif kind in _ENDS:
                depth -= 1

    def _take(self) -> yaml.Event:
        self._file.since_value = 0
        return self._next()


class _Input:
    """A file as libyaml reads it. `since_value` counts the bytes of a value, which libyaml has in memory."""

    def __init__(self, file: BinaryIO, check: Callable[[], None], *, is_json: bool) -> None:
        self._file, self._check, self._is_json = file, check, is_json
        self._held = b""
        self.since_value = 0

    def read(self, size: int = _CHUNK, /) -> bytes:
        """Return bytes, about as many as are asked for. Raises: TooLargeError; what `check` raises."""
        self._check()
        data = self._file.read(size)
        self.since_value += len(data)
        if self.since_value > _VALUE_BYTES:
            raise TooLargeError(f"a value exceeds the limit of {describe_bytes(_VALUE_BYTES)}")
        return self._join_surrogates(data) if self._is_json else data

    def _join_surrogates(self, data: bytes) -> bytes:
        # YAML does not have such pairs (`\ud83d\ude00`); what may be half of one is held back.
        text, self._held = self._held + data, b""
        cut = _CUT_ESCAPE.search(text, max(len(text) - _WINDOW, 0))
        if data and cut and cut.start(1):
            text, self._held = text[: cut.start(1)], text[cut.start(1) :]
        return _ESCAPE.sub(_join, text) if b"\\" in text else text


_ESCAPE = re.compile(rb"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\.", re.DOTALL)
_CUT_ESCAPE = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\u?[0-9a-fA-F]{0,3})?)?)\Z"
)
_WINDOW = 64


def _join(found: re.Match[bytes]) -> bytes:
    if not found[1]:
        return found[0]
    high, low = int(found[1], 16), int(found[2], 16)
    return b"\\U%08x" % (0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


_SHARED_BYTES = 32 << 20
_KEPT_ANSWERS = 256
_TICK = 0.1
# What does not depend on who asks. Others who wait ask themselves.
_OF_ALL = (Reason.UNREACHABLE, Reason.UNAUTHORIZED, Reason.TLS_VERIFICATION_FAILED)


Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Slot(Generic[Answer]):
    """What is known of a file."""

    answer: Answer | None = None
    asked_at: float = 0.0
    asking: threading.Lock = field(default_factory=threading.Lock)
    """Held by the call that asks; others wait for it."""
    failures: int = 0
    """How many failures there have been that all who wait share."""
    failure: BundleError | None = None
    """The last one, without the field path of the source."""

    def answer_since(self, oldest: float) -> Answer | None:
        """Return the answer if it is young enough."""
        return self.answer if self.asked_at >= oldest else None


class SharedAnswers(Generic[Answer]):
    """The answers of one kind that this process has, for any thread.

    Args:
        size_of: bytes of memory of an answer.
        clock: monotonic seconds.
    """

    def __init__(
        self, size_of: Callable[[Answer], int] = lambda _: 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size_of, self._clock = size_of, clock
        self._slots: OrderedDict[str, _Slot[Answer]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, access: Access, max_age: float, ask: Callable[[Answer | None], Answer]) -> Answer:
        """Return an answer that was asked for at most `max_age` seconds before this call.

        Args:
            key: of the file, and of what is sent and trusted.
            access: of the call, whose deadline and cancellation apply.
            max_age: seconds.
            ask: asks the repository; gets the answer that is known, to be returned if nothing has changed.

        Raises: BundleError of `ask`, also if another call has made it; Unreachable at the deadline.
        """
        oldest = self._clock() - max_age
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
        if found := slot.answer_since(oldest):
            return found
        failures = slot.failures
        while not slot.asking.acquire(timeout=_TICK):
            check_deadline(access)
            if found := slot.answer_since(oldest):
                return found
        try:
            if found := slot.answer_since(oldest):  # which a later failure does not make worse
                return found
            if slot.failure and slot.failures > failures:
                raise slot.failure.at(access.path + slot.failure.place)
            return self._ask(slot, access, ask)
        finally:
            slot.asking.release()
            with self._lock:
                self._drop()

    def _ask(self, slot: _Slot[Answer], access: Access, ask: Callable[[Answer | None], Answer]) -> Answer:
        asked_at = self._clock()
        try:
            slot.answer = ask(slot.answer)
        except BundleError as error:
            if error.reason in _OF_ALL and not access.cancelled.is_set():
                slot.failure, slot.failures = error.at(error.place.removeprefix(access.path)), slot.failures + 1
            raise
        slot.asked_at = asked_at
        return slot.answer

    def _drop(self) -> None:
        # Without them, the repository is asked again.
        sizes = {key: self._size_of(slot.answer) if slot.answer else 0 for key, slot in self._slots.items()}
        total, count = sum(sizes.values()), len(sizes)
        for key, size in sizes.items():
            if total <= _SHARED_BYTES and count <= _KEPT_ANSWERS:
                break
            if not self._slots[key].asking.locked():
                del self._slots[key]
                total, count = total - size, count - 1
