"""What a page is sent of a log: lines of any length and content, from segments of any size."""

from __future__ import annotations

import itertools
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.controller.ui.logs import LINE_BYTES, LOG_BYTES, make_query, read_lines


class Case(NamedTuple):
    name: str
    log: bytes
    expected: list[str]


LONG = LINE_BYTES * b"x"
CASES = [
    Case("no line", b"", []),
    Case("one line", b"a\n", ["a"]),
    Case("the last line has no end, as that of a crash", b"a\nfatal: b", ["a", "fatal: b"]),
    Case("empty lines", b"a\n\nb\n", ["a", "", "b"]),
    Case("lines of Windows", b"a\r\nb\r\n", ["a", "b"]),
    Case("colors", b"\x1b[1;31mred\x1b[0m\n", ["red"]),
    Case("the title of a terminal", b"\x1b]0;title\x07a\n\x1b]0;title\x1b\\b\n", ["a", "b"]),
    Case("a title that does not end hides nothing", b"\x1b]0;title\n", ["0;title"]),
    Case("a short escape sequence", b"\x1bcreset\n", ["reset"]),
    Case("other control characters", b"a\x00b\x08c\n", ["a\\u0000b\\u0008c"]),
    Case("text that runs the other way", "a\u202eb\n".encode(), ["a\\u202eb"]),
    Case("no UTF-8", b"a\xff\n", ["a\ufffd"]),
    Case("text of two bytes", "größe\n".encode(), ["größe"]),
    Case("a line as long as is shown", LONG + b"\n", [LONG.decode()]),
    Case("a longer one", LONG + b"yz\nb", [f"{LONG.decode()}… [2 more bytes]", "b"]),
]


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_the_lines_of_a_log(case: Case, size: int) -> None:
    segments = (case.log[start : start + size] for start in range(0, len(case.log), size))
    assert [line for lines in read_lines(segments) for line in lines] == case.expected


def test_a_line_is_there_once_it_has_ended() -> None:
    lines = read_lines(iter([b"a\nb", b"", b"c\n"]))
    assert [next(lines), next(lines)] == [["a"], ["bc"]]


def test_an_endless_line_ends_with_what_is_read_of_a_log() -> None:
    read = 0

    def _endless() -> bytes:
        nonlocal read
        read += 1 << 20
        return (1 << 20) * b"x"

    [[last]] = read_lines(_endless() for _ in itertools.count())
    assert read == LOG_BYTES + (1 << 20)
    assert last.startswith("[this page reads 32 MiB")


@pytest.mark.parametrize(
    ("previous", "follow", "expected"),
    [
        (False, False, {}),
        (False, True, {"follow": "true"}),
        (True, False, {"previous": "true"}),
        (True, True, {"previous": "true"}),
    ],
)
def test_what_has_ended_is_not_followed(expected: dict[str, str], *, previous: bool, follow: bool) -> None:
    query = dict(make_query("web", previous=previous, follow=follow))
    assert query == {"container": "web", "tailLines": 2000, **expected}
