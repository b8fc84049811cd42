from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.hosts import Place
from rukpak.controller.sources.image import registry as registry_module
from rukpak.controller.sources.image.registry import Registry, read_tags
from rukpak.controller.sources.versions import Choice, Range

PLACE = Place(subject="spec.sources[0].image.ref", host="quay.io")


@dataclass
class Page:
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    place: Place = PLACE

    def read_all(self, limit: int) -> bytes:
        return BytesIO(self.body).read(limit)

    def settle(self) -> None:
        """Take it for a list of tags."""


@dataclass
class Pages:
    """A registry whose pages are given, by query."""

    pages: dict[str, Page]
    asked: list[str] = field(default_factory=list)

    def list_tags(self, query: str) -> Page:
        self.asked.append(query)
        return self.pages[query]


def page(tags: Any, following: str = "") -> Page:
    return Page(json.dumps({"name": "a", "tags": tags}).encode(), {"Link": following} if following else {})


def listed(pages: dict[str, Page]) -> tuple[list[str], list[str]]:
    registry = Pages(pages)
    return [tag for page in read_tags(cast("Registry", registry)) for tag in page], registry.asked


def test_pages_follow_each_other() -> None:
    first = page(["1.0.0"], '</v2/a/tags/list?last=1.0.0&n=1000>; rel="next"')
    assert listed({"n=1000": first, "last=1.0.0&n=1000": page(["2.0.0"])})[0] == ["1.0.0", "2.0.0"]


def test_a_next_page_on_another_host_is_asked_for_at_the_same_one() -> None:
    first = page(["1.0.0"], '<https://evil.example.com/steal?last=x>; rel="next"')
    assert listed({"n=1000": first, "last=x": page(None)}) == (["1.0.0"], ["n=1000", "last=x"])


@pytest.mark.parametrize(
    "link",
    [
        "<URL>;rel=next",
        '<URL>; rel="Next"',
        '<URL>; REL="next"',
        "<URL>; rel='next'",
        '<URL> ; rel = "next"',
        '<URL>; rel="prev next"',
        '<URL>; title="a, b"; rel="next"',
        '</x>; rel="prev", <URL>; rel="next"',
        "<URL>",
        '<?last=1>; rel="next"',
        '<list?last=1>; rel="next"',
    ],
)
def test_a_next_page_in_all_its_spellings(link: str) -> None:
    first = page(["1.0.0"], link.replace("URL", "/v2/a/tags/list?last=1"))
    assert listed({"n=1000": first, "last=1": page(["2.0.0"])})[0] == ["1.0.0", "2.0.0"]


@pytest.mark.parametrize("link", ["", '<>; rel="next"', '</v2/a/tags/list?n=1>; rel="previous"', "nonsense"])
def test_a_page_without_a_next_one_is_the_last(link: str) -> None:
    assert listed({"n=1000": page(["1.0.0", 1], link)}) == (["1.0.0"], ["n=1000"])


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"tags": 1}', b"[" * 100_000])
def test_an_answer_that_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(BundleError) as caught:
        listed({"n=1000": Page(body)})
    assert caught.value.reason is Reason.UNREACHABLE


def test_a_list_without_an_end_is_refused() -> None:
    again = page(["1.0.0"] * 1000, '</v2/a/tags/list?n=1000>; rel="next"')
    with pytest.raises(BundleError) as caught:
        listed({"n=1000": again})
    problem = "the repository has more than 100000 tags; name one tag instead of a range"
    assert (caught.value.reason, caught.value.message) == (
        Reason.CONTENT_REJECTED,
        f"spec.sources[0].image.ref: {problem}",
    )


def test_names_that_no_tag_may_have_are_left_out() -> None:
    odd = ["a" * 129, "-a", ".a", "a b", "é", "\U0001f600" * 100, "", "a\n", "a/b", 1, None, ["a"]]
    assert listed({"n=1000": page([*odd, "v1", "_1", "a.b-c"])})[0] == ["v1", "_1", "a.b-c"]


def test_memory_is_reserved_for_each_page_and_a_call_that_is_over_asks_for_no_other() -> None:
    reserved: list[int] = []

    @contextmanager
    def room(size: int) -> Iterator[None]:
        reserved.append(size)
        yield

    def stop() -> None:
        if reserved:
            raise TimeoutError

    first = page(["v1"], '</v2/a/tags/list?n=1000>; rel="next"')
    registry = Pages({"n=1000": first})
    with pytest.raises(TimeoutError):
        list(read_tags(cast("Registry", registry), room, stop))
    assert reserved == [len(first.body) * 40]
    assert registry.asked == ["n=1000"]


def test_too_many_tags_in_the_only_page_are_refused() -> None:
    with pytest.raises(BundleError) as caught:
        listed({"n=1000": page([str(number) for number in range(100_001)])})
    assert caught.value.reason is Reason.CONTENT_REJECTED


def test_one_page_at_a_time_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_MOST", 20_000)
    tags = [f"1.0.{number}-{'a' * 110}" for number in range(1000)]
    again = page(tags, '</v2/a/tags/list?n=1000>; rel="next"')
    registry, choice = cast("Registry", Pages({"n=1000": again})), Choice(Range(">=1.0.0-0 <2"))

    def choose() -> None:
        for names in read_tags(registry):
            for name in names:
                choice.see(name)

    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match="more than 20000 tags"):
            choose()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert choice.highest == tags[-1]
    assert most < 2 << 20
