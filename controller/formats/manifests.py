"""Manifests: the documents of one YAML or JSON file, read as Kubernetes reads them (sigs.k8s.io/yaml).

JSON is one or more values, optionally separated by `---`, and numbers as Go writes them. libyaml refuses escaped
surrogate pairs and a second value without a separator, so files that start with `{` are tried as JSON first, as in
Kubernetes.

`README.md` lists the differences. Every problem of a file is a BundleError that names file and line. Messages never
show a value: it may be a secret.

Budgets bound the text that a format parses: bytes of one file, bytes and values of one revision. The memory that
parsing needs was measured, so that it can be reserved in advance (sharing.py). Text with characters outside
the basic plane needs 4 bytes for each, and three copies exist while it is parsed, made applicable or compressed. A
value needs 300 bytes while it is created and 210 afterwards: measured with JSON mappings of short strings, the worst of
the shapes tried. composer.py counts the values.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Limits, Means
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import describe_bytes, is_refused_nesting, quote
from rukpak.controller.formats.composer import (
    ALIAS_ALLOWANCE,
    ALIAS_RATIO,
    LEVELS,
    TEMPLATE_REMEDY,
    TOO_DEEP,
    Composer,
    CompositionError,
    DuplicateKeyError,
    NodeBudget,
    OverBudgetError,
    read_integer,
    to_json,
)

_BEGINS_LIKE_JSON = re.compile(r"\s*\{").match
_GAP = re.compile(r"(?:[ \t\r\n]|(?<=\n)---[ \t]*(?:#[^\n]*)?(?=\r?\n|\Z))*").match
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL).sub
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]").search
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# By the byte order mark of UTF-16.
_LINE_FEEDS = {b"\xff\xfe": b"\n\0", b"\xfe\xff": b"\0\n"}
# What libyaml says of colons that `hide_colons` does not hide.
_UNEXPECTED_COLON = "found unexpected ':'"
# kubectl splits a stream at lines that start with "---", and allows only a comment after it.
_CROWDED_SEPARATOR = re.compile(rb"^---(?![ \t\r\v\f]*(?:#|$))", re.MULTILINE)
# It reads the documents separately, so that "---#" is a separator and each document may start with a byte order mark.
_TOUCHED_SEPARATOR = re.compile(rb"^---(?=#)", re.MULTILINE)
_MARK_IN_BETWEEN = re.compile(rb"^(---.*\n)\xef\xbb\xbf", re.MULTILINE)


def read_json(text: str, *, strict: bool, budget: NodeBudget) -> list[tuple[int, Any]] | None:
    """Return the line and the value of each document in a file; None if it is not JSON (but a YAML flow mapping).

    Args are those of `composer.Composer`.

    Raises: CompositionError.
    """
    # The decoder has no budget: leave text that may exceed it to the composer, which counts while it reads.
    if not _BEGINS_LIKE_JSON(text) or not _is_within(text, budget.left):
        return None
    try:
        documents = list(_decode_values(text, strict=strict, share=budget.share))
    except (json.JSONDecodeError, RecursionError):
        return None
    for line, value in documents:
        _charge(value, line, budget)
    return documents


def _is_within(text: str, nodes: int) -> bool:
    # Strings are removed only if that makes a difference.
    return _most_nodes(text) <= nodes or _most_nodes(_STRING("", text)) <= nodes


def _most_nodes(text: str) -> int:
    # A container has at most one node more than commas; each further document starts with a brace, too.
    return text.count(",") + text.count("{") + text.count("[")


def _decode_values(text: str, *, strict: bool, share: Callable[[str], str]) -> Iterator[tuple[int, Any]]:
    line = 1

    def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = {share(key): share(value) if value.__class__ is str else value for key, value in pairs}
        if strict and len(result) != len(pairs):
            raise DuplicateKeyError(line, Counter(key for key, _ in pairs).most_common(1)[0][0])
        return result

    def _number(value: float) -> Any:
        if not math.isfinite(value):
            raise CompositionError(line, "number does not fit a float64; put it in quotes")
        return to_json(value)

    def _refuse(name: str) -> NoReturn:
        raise CompositionError(line, f'JSON has no "{name}"; put it in quotes')

    decoder = json.JSONDecoder(
        object_pairs_hook=_mapping,
        parse_int=lambda literal: _number(read_integer(literal)),
        parse_float=lambda literal: _number(float(literal)),
        parse_constant=_refuse,
    )
    has_surrogates = bool(_SURROGATE_ESCAPE(text))
    end, position = 0, _skip_gap(text, 0)
    while position < len(text):
        line += text.count("\n", end, position)
        value, after = decoder.raw_decode(text, position)
        yield line, _replace_lone_surrogates(value) if has_surrogates else value
        end, position = position, _skip_gap(text, after)


def _skip_gap(text: str, position: int) -> int:
    gap = _GAP(text, position)
    return gap.end() if gap else position


def _charge(value: Any, line: int, budget: NodeBudget) -> None:
    level = [value]
    for _ in range(LEVELS + 1):
        budget.charge(len(level), line)
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    raise CompositionError(line, TOO_DEEP)


def _replace_lone_surrogates(value: Any) -> Any:
    # As Go: a lone surrogate becomes U+FFFD.
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_replace_lone_surrogates(key): _replace_lone_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_lone_surrogates(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file."""

    value: Any
    """Plain JSON; no two places share a mapping or a list."""
    file: str
    line: int
    """Line of the first value, counted from 1."""


class InvalidDocumentError(BundleError):
    """What a file has at a line cannot be read as a document."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(Reason.INVALID_BUNDLE, problem, place=f"{file}:{line}")
        self.line = line


def read_documents(
    data: bytes, file: str, *, strict: bool = True, budget: NodeBudget | None = None
) -> Iterator[Document]:
    """Yield the documents of a file in order, except empty ones and null.

    Args:
        data: the whole file.
        file: its name in messages.
        strict: terminate the last line, and refuse directives and a document on the line of its separator, as kubectl
            does; and duplicate keys, although kubectl takes the last one, since the others would be lost. Otherwise
            read as Helm and OLM do: the last of duplicate keys wins.
        budget: shared by the files of a bundle; by default, one for this file.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded), also while iterating.
    """
    try:
        data = _normalize(end_last_line(data) if strict else data)
        for line, value in _read(data, strict=strict, budget=budget or NodeBudget()):
            if value is not None:
                yield Document(value, file, line)
    except OverBudgetError as error:
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{file}:{error.line}: {error.problem}") from error
    except CompositionError as error:
        raise InvalidDocumentError(file, error.line, error.problem) from error
    except yaml.MarkedYAMLError as error:
        raise InvalidDocumentError(file, *_describe(error, data)) from error
    except yaml.reader.ReaderError as error:
        problem = f"{error.reason}; remove the characters"
        raise InvalidDocumentError(file, _line_at(data, error.position), problem) from error


def find_duplicate_key(data: bytes, budget: NodeBudget) -> str:
    """Return where a file that can be read has a key twice, as `LINE: duplicate key "KEY"; …`; '' if it has none."""
    try:
        for _ in _read(_normalize(end_last_line(data)), strict=True, budget=budget):
            pass
    except DuplicateKeyError as error:
        return f"{error.line}: {error.problem}"
    except (CompositionError, yaml.YAMLError):  # what is strict refuses more
        pass
    return ""


def _read(data: bytes, *, strict: bool, budget: NodeBudget) -> Iterable[tuple[int, Any]]:
    documents = read_json(_decode(data), strict=strict, budget=budget)
    if documents is not None:
        return documents
    if strict and (separator := _CROWDED_SEPARATOR.search(data)):
        problem = 'only a comment may follow "---"; start the document on the next line'
        raise CompositionError(_line_at(data, separator.start()), problem)
    return Composer(data, strict=strict, budget=budget).documents()


def end_last_line(data: bytes) -> bytes:
    """Return a file as client-go reads it, with its last line terminated: a block scalar may end there."""
    line_feed = _LINE_FEEDS.get(data[:2], b"\n")
    return data if data.endswith(line_feed) else data + line_feed


def _normalize(data: bytes) -> bytes:
    # libyaml then splits it like kubectl, with the same line numbers.
    text = _MARK_IN_BETWEEN.sub(rb"\1", _to_utf8(data))
    return _TOUCHED_SEPARATOR.sub(rb"--- ", text)


def _to_utf8(data: bytes) -> bytes:
    if data[:2] not in _LINE_FEEDS:
        return data.removeprefix(_BYTE_ORDER_MARK)
    try:
        return data.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise CompositionError(1, "not UTF-16, although its byte order mark says so; save the file as UTF-8") from error


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CompositionError(_line_at(data, error.start), "not UTF-8; save the file as UTF-8") from error


def _describe(error: yaml.MarkedYAMLError, data: bytes) -> tuple[int, str]:
    mark = error.problem_mark or error.context_mark
    line: int = mark.line if mark else 0
    if is_refused_nesting(error):
        return line + 1, TOO_DEEP
    problem = ": ".join(part for part in (error.context, error.problem) if part)
    if error.problem == _UNEXPECTED_COLON:
        problem = 'value in [] or {} has ":" before ",", "?" or a bracket; put it in quotes'
    lines = data.split(b"\n", line + 1)
    indented_with_tab = line < len(lines) and lines[line].lstrip(b" ").startswith(b"\t")
    templated = any(b"{{" in text for text in lines[max(line - 1, 0) : line + 1])
    remedy = "; indent with spaces instead of tabs" * indented_with_tab + f"; {TEMPLATE_REMEDY}" * templated
    return line + 1, f"not YAML: {problem}{remedy}"


def _line_at(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


BYTES_PER_BYTE = 12
"""Memory per byte of text while it becomes a revision."""
BYTES_PER_VALUE = 320
"""Memory per value."""
INLINE = Limits(manifest_bytes=4 * MEBIBYTE, text_bytes=4 * MEBIBYTE, nodes=100_000)
"""Limits for parsing in the controller's own process; a child takes 0.3 s to start."""


class LargeTextError(Exception):
    """There is more text than this process may parse; `size` is the number of bytes charged so far."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def estimate(text_bytes: int, limits: Limits) -> int:
    """Return the maximum memory, in bytes, for rendering that much text to a revision."""
    text = min(text_bytes, limits.text_bytes)
    values = text // 2 * (1 + ALIAS_RATIO) + ALIAS_ALLOWANCE  # at least a digit and a comma each
    return BYTES_PER_BYTE * text + BYTES_PER_VALUE * min(values, limits.nodes)


class TextBudget(NodeBudget):
    """What may still be parsed for one revision. All text is charged before it is read.

    Args:
        limits: of one file, of all files, and of their values.
        inline: raise LargeTextError above INLINE.
    """

    __slots__ = ("_charged", "_inline", "_limits")

    def __init__(self, limits: Limits, *, inline: bool = False) -> None:
        nodes = min(limits.nodes, INLINE.nodes) if inline else limits.nodes
        super().__init__(nodes, _remedy(limits), limits.text_bytes)
        self._limits, self._inline, self._charged = limits, inline, 0

    @classmethod
    def of(cls, means: Means) -> TextBudget:
        """Return the budget of one rendering."""
        return cls(means.limits, inline=means.inline)

    def read(self, path: Path, file: str) -> bytes:
        """Return the bytes of a file, which messages name `file`.

        Raises: BundleError (RenderLimitExceeded), LargeTextError.
        """
        self.charge_text(path.stat().st_size, file)
        return path.read_bytes()

    def charge_text(self, size: int, file: str, *, is_manifest: bool = True) -> None:
        """Deduct `size` bytes of text, which messages name `file`.

        The limit for one file applies to a text that `is_manifest`, not to one that combines many files.

        Raises: BundleError (RenderLimitExceeded), LargeTextError.
        """
        limits = self._limits
        self._charged += size
        if is_manifest and size > limits.manifest_bytes:
            raise _exceeded(file, f"exceeds the limit of {describe_bytes(limits.manifest_bytes)} for one file", limits)
        if self._charged > limits.text_bytes:
            problem = f"exceeds the limit of {describe_bytes(limits.text_bytes)} for all files"
            raise _exceeded(file, problem, limits)
        if self._inline and self._charged > INLINE.text_bytes:
            raise LargeTextError(self._charged)

    def exceeded(self, line: int) -> OverBudgetError:
        """Return the error for too many values.

        Raises: LargeTextError if they are too many only for this process.
        """
        if self._inline and self._limits.nodes > INLINE.nodes:
            raise LargeTextError(self._charged)
        return super().exceeded(line)


def read_small(path: Path, place: str, most: int) -> bytes:
    """Return the bytes of a file other than a manifest, at most `most`; messages start with `place`.

    Raises: BundleError (RenderLimitExceeded).
    """
    if path.stat().st_size > most:
        problem = f"exceeds the limit of {describe_bytes(most)} for this file; make it smaller"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, problem, place=place)
    return path.read_bytes()


def _exceeded(file: str, problem: str, limits: Limits) -> BundleError:
    return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{quote(file)}: {problem}; {_remedy(limits)}")


def _remedy(limits: Limits) -> str:
    is_usual = limits.text_bytes >= Limits().text_bytes and limits.nodes >= Limits().nodes
    return "split the bundle" if is_usual else "split the bundle or give the controller more memory"
