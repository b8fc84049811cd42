"""Indexes as people write them, and as nobody should.

Who may share an index, for how long, and what one call's failure is to others."""

from __future__ import annotations

import io
import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources import chart_index
from rukpak.controller.sources.chart_index import (
    READING_BYTES,
    Index,
    Release,
    SharedAnswers,
    TooLargeError,
    UnreadableError,
    read_charts,
)
from rukpak.controller.sources.versions import Choice, Range

ENTRY = {
    "annotations": {"images": "- name: web\n  version: 9.9.9\n"},
    "apiVersion": "v2",
    "dependencies": [{"name": "common", "version": "2.x.x", "urls": ["no"]}],
    "description": "a text that is long enough to be folded by those who fold: version: 8.8.8, and so on 😀",
    "name": "web",
}
INDEX = {
    "apiVersion": "v1",
    "entries": {
        "web": [
            {**ENTRY, "version": "1.1.0", "urls": ["web-1.1.0.tgz", "other.tgz"], "digest": "b" * 64},
            {**ENTRY, "version": "1.0.0", "urls": ["web-1.0.0.tgz"]},
        ],
        "empty": [],
    },
    "generated": "2026-01-02T03:04:05Z",
}
RELEASES = [
    Release(version="1.1.0", url="web-1.1.0.tgz", digest="b" * 64),
    Release(version="1.0.0", url="web-1.0.0.tgz", digest=""),
]


def read(data: bytes | str) -> Index:
    body = data.encode() if isinstance(data, str) else data
    return Index(read_charts(io.BytesIO(body), lambda: None), "", "")


def releases(found: Index, name: str = "web") -> list[Release]:
    """Return all releases of a chart, by version."""
    return [each for version in dict.fromkeys(found.versions(name) or ()) for each in found.releases(name, version)]


def as_yaml(value: Any, **options: Any) -> str:
    return str(yaml.safe_dump(json.loads(json.dumps(value)), allow_unicode=True, **options))


FORMS = {
    "as Helm writes it": as_yaml(INDEX),
    "with entries last": as_yaml({"generated": "x", **INDEX}, sort_keys=False),
    "indented, after a comment and a separator": "# charts\n---\n" + as_yaml(INDEX, indent=4),
    "in flow style": as_yaml(INDEX, default_flow_style=True),
    "with quotes": as_yaml(INDEX, default_style='"'),
    "with a byte order mark": "\ufeff" + as_yaml(INDEX),
    "as JSON with surrogate pairs": json.dumps(INDEX),
    "as indented JSON": "\n " + json.dumps(INDEX, indent=2, ensure_ascii=False),
    "as JSON indented with tabs": json.dumps(INDEX, indent="\t"),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_index_in_all_its_forms(form: str) -> None:
    found = read(FORMS[form])
    assert sorted(found.names) == ["empty", "web"]
    assert releases(found) == RELEASES
    assert (found.versions("empty") is None, releases(found, "empty")) == (False, [])
    assert (found.versions("wbe"), list(found.releases("wbe", "1.0.0"))) == (None, [])


@pytest.mark.parametrize("before", range(16 * 1024 - 20, 16 * 1024 + 3))
def test_surrogate_pairs_are_joined_wherever_the_input_is_cut(before: int) -> None:
    start = '{"apiVersion": "'
    text = start + "x" * (before - len(start)) + r'\\\ud83d\ude00\ud83d\ude00", "entries": {"web": []}}'
    assert list(read(text).names) == ["web"]


ODD = {
    "without entries": ({"web": None}, []),
    "with an entry that is a text": ({"web": ["x", {"version": "1.0.0", "urls": ["a"]}]}, ["1.0.0"]),
    "with a mapping in place of releases": ({"web": {"version": "1.0.0"}}, []),
    "with a version that is a list": ({"web": [{"version": ["1.0.0"], "urls": ["a"]}]}, []),
    "with urls that are a text": ({"web": [{"version": "1.0.0", "urls": "a"}]}, ["1.0.0"]),
    "with a version that is far too long": ({"web": [{"version": "1" * 300}, {"version": "1.0.0"}]}, ["1.0.0"]),
}


@pytest.mark.parametrize("odd", ODD)
def test_releases_that_are_none_are_left_out(odd: str) -> None:
    entries, versions = ODD[odd]
    found = read(as_yaml({"apiVersion": "v1", "entries": entries}))
    assert [release.version for release in releases(found)] == versions


def test_null_is_nothing() -> None:
    text = "entries:\n  web:\n  - {version: 1.0.0, digest: null, urls: [~]}\n  - {version: 1.0.1, digest: 'null'}\n"
    first, second = releases(read(text))
    assert (first.digest, first.url, second.digest) == ("", "", "null")


def test_keys_may_have_any_case_as_in_helm() -> None:
    text = "APIVersion: v1\nEntries:\n  web:\n  - {Version: 1.0.0, Digest: ABC, URLs: [a.tgz]}\n"
    assert releases(read(text)) == [Release(version="1.0.0", url="a.tgz", digest="ABC")]


UNREADABLE = {
    "it is a web page": b" \n<!DOCTYPE html><html>entries: {}</html>",
    "it is empty": b"# nothing\n",
    'it has no "entries"': b"apiVersion: v1\nweb: []\n",
    "line 5 is not YAML: could not find expected ':'": b"entries:\n  web: []\nxyz\n  a\n",
    "line 1 is not YAML: found character that cannot start any token": b"\tentries: {}\n",
    "it is not UTF-8 text": b"entries:\n  web: \xff\xfe\n",
}


@pytest.mark.parametrize("problem", UNREADABLE)
def test_what_is_no_index(problem: str) -> None:
    with pytest.raises(UnreadableError, match=problem.replace("(", r"\(")):
        read(UNREADABLE[problem])


def test_a_list_is_no_index() -> None:
    with pytest.raises(UnreadableError, match='it has no "entries"'):
        read("- entries\n")


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_index, "_MOST_RELEASES", 2)
    monkeypatch.setattr(chart_index, "_MOST_CHARTS", 2)
    release = {"version": "1.0.0"}
    with pytest.raises(TooLargeError, match='chart "web" has more than 2 versions'):
        read(as_yaml({"entries": {"web": [release] * 3}}))
    with pytest.raises(TooLargeError, match="more than 2 charts"):
        read(as_yaml({"entries": {"a": [], "b": [], "c": []}}))
    with pytest.raises(TooLargeError, match="nested more than 64 levels"):
        read("entries: {web: [{x: " + "[" * 100)
    with pytest.raises(TooLargeError, match="nested more than 64 levels"):  # which libyaml refuses first, from 0.2.6 on
        read("entries: {web: [{x: " + "[" * 1500 + "]" * 1500 + "}]}")
    with pytest.raises(TooLargeError, match="a value exceeds the limit of 1 MiB"):
        read("entries:\n  web:\n  - description: |\n" + "      x\n" * (1 << 19))


def test_what_is_kept_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_index, "_KEPT_BYTES", 1000)
    with pytest.raises(TooLargeError, match="exceed the limit of 1000 bytes"):
        read(as_yaml({"entries": {"web": [{"version": f"1.0.{n}", "digest": f"{n**40:x}"} for n in range(100)]}}))


def test_reading_stops_when_it_has_to() -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        read_charts(io.BytesIO(b"entries: {}"), stop)


def test_a_large_index_takes_little_memory_and_time() -> None:
    releases = [{**ENTRY, "version": f"1.0.{number}", "urls": ["a"], "digest": "c" * 64} for number in range(100)]
    block = as_yaml({"web": releases}, indent=2).replace("\n", "\n  ").removesuffix("  ")
    data = ("entries:\n" + "".join(f"  {block.replace('web:', f'web-{n}:', 1)}" for n in range(25))).encode()
    assert len(data) > 1 << 18
    tracemalloc.start()
    before = time.process_time()
    try:
        found = read(data)
        assert len(found.names) == 25
        assert tracemalloc.get_traced_memory()[1] < len(data) / 2 + found.size
    finally:
        tracemalloc.stop()
    assert time.process_time() - before < 20


LONG = "https://example.com/" + "\U0001f600" + "a" * 2000
"""An address of which each character takes four bytes in memory."""


def peak(compute: Callable[[], object]) -> int:
    """Return the most bytes that a computation takes at the same time."""
    tracemalloc.start()
    try:
        compute()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_choosing_among_many_releases_with_long_addresses_takes_little_memory() -> None:
    lines = "".join(f'  - {{version: "1.0.{number}", urls: ["{LONG}{number}"]}}\n' for number in range(5000))
    found = read(f"entries:\n  web:\n{lines}")

    def look_up() -> None:
        versions = found.versions("web")
        assert versions is not None
        choice = Choice(Range(""))
        for version in versions:
            choice.see(version)
        assert choice.highest == "1.0.4999"
        assert [release.url for release in found.releases("web", "1.0.7")] == [f"{LONG}7"]

    assert peak(look_up) < 2 << 20


def test_the_memory_of_an_index_is_accounted_while_it_is_read() -> None:
    lines = "".join(f'  - {{version: "1.0.{number}", urls: ["{LONG}{number}"]}}\n' for number in range(2_000))
    data = f"entries:\n  web:\n{lines}".encode()
    assert peak(lambda: read(data)) < READING_BYTES


@pytest.mark.parametrize("name", ["a/b", "é", "a b", "a" * 251, "\U0001f600"])
def test_names_that_no_chart_may_have_are_dropped(name: str) -> None:
    found = read(json.dumps({"entries": {name: INDEX["entries"]["web"], "web": []}}, ensure_ascii=False))  # type: ignore[index]
    assert list(found.names) == ["web"]


@pytest.mark.parametrize(
    "release",
    [{"version": "1.0.0é"}, {"version": "1.0.0\nx"}, {"digest": "a\0b"}, {"urls": ["a\nb"]}, {"urls": ["é" * 1025]}],
    ids=str,
)
def test_releases_with_fields_that_none_may_have_are_dropped(release: dict[str, Any]) -> None:
    found = read(json.dumps({"entries": {"web": [{"version": "1.0.0", "urls": ["a"], **release}]}}))
    assert releases(found) == []


def test_what_is_kept_of_one_chart_is_limited_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_index, "_KEPT_BYTES", 100_000)
    lines = "".join(f'  - {{version: "1.0.{number}", digest: "{number**40:x}"}}\n' for number in range(2_000))
    with pytest.raises(TooLargeError, match="exceed the limit"):
        read(f"entries:\n  web:\n{lines}  other: &cut [")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def access(path: str = "spec.sources[0].chart", seconds: float = 250.0) -> Access:
    deadline = time.monotonic() + seconds
    return Access(path=path, deadline=deadline, cancelled=threading.Event(), scratch=Path("/nonexistent"))


class Repository:
    """Counts questions; answers with a new index each time, once it is allowed to."""

    def __init__(self) -> None:
        self.known: list[Index | None] = []
        self.failure: BundleError | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def __call__(self, known: Index | None) -> Index:
        self.known.append(known)
        self.asked.set()
        assert self.answers.wait(60)
        if self.failure:
            raise self.failure
        return Index({"web": b"x" * 10}, f"sha256:{len(self.known)}", "")


def raised(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    return caught.value


def test_a_call_gets_what_is_young_enough_for_it() -> None:
    clock, repository = Clock(), Repository()
    indexes = SharedAnswers[Index](attrgetter("size"), clock)
    first = indexes.get("a", access(), 0.0, repository)
    clock.now += 10
    assert indexes.get("a", access(), 10.0, repository) is first
    clock.now += 1
    second = indexes.get("a", access(), 10.0, repository)
    assert repository.known == [None, first]
    assert indexes.get("a", access(), 5.0, repository) is second


def test_other_keys_share_nothing() -> None:
    repository, other = Repository(), Repository()
    indexes = SharedAnswers[Index](attrgetter("size"), Clock())
    indexes.get("a", access(), 60.0, repository)
    indexes.get("b", access(), 60.0, other)
    assert (repository.known, other.known) == ([None], [None])


def test_many_calls_at_once_are_one_question() -> None:
    repository, indexes = Repository(), SharedAnswers[Index]()
    repository.answers.clear()
    with ThreadPoolExecutor(20) as pool:
        found = [pool.submit(indexes.get, "a", access(), 60.0, repository) for _ in range(20)]
        assert repository.asked.wait(60)
        repository.answers.set()
        assert len({future.result() for future in found}) == 1
    assert len(repository.known) == 1


def test_a_call_that_wants_the_present_does_not_get_what_was_asked_before_it() -> None:
    clock, repository = Clock(), Repository()
    indexes = SharedAnswers[Index](attrgetter("size"), clock)
    repository.answers.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(indexes.get, "a", access(), 0.0, repository)
        assert repository.asked.wait(60)
        clock.now += 1
        second = pool.submit(indexes.get, "a", access(), 0.0, repository)
        repository.answers.set()
        assert first.result() is not second.result()
    assert len(repository.known) == 2


def test_who_waits_gets_what_is_young_enough_while_another_one_asks_again() -> None:
    clock, repository, again = Clock(), Repository(), Repository()
    indexes = SharedAnswers[Index](attrgetter("size"), clock)
    for each in (repository, again):
        each.answers.clear()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(indexes.get, "a", access(), 0.0, repository)
        assert repository.asked.wait(60)
        clock.now += 1
        present = pool.submit(indexes.get, "a", access(), 0.0, again)
        young = pool.submit(indexes.get, "a", access(), 60.0, again)
        repository.answers.set()
        assert young.result(60) is first.result()
        again.answers.set()
        assert present.result() is not first.result()
    assert len(again.known) == 1


def failing_together(reason: Reason, *, cancelled: bool = False) -> tuple[list[BundleError], Repository]:
    """Return how two calls fail, the second of which waits for the first, by which time it would succeed."""
    repository, indexes = Repository(), SharedAnswers[Index]()
    repository.answers.clear()
    repository.failure = BundleError(reason, "no", place="spec.sources[0].chart.repository", retry_after=7)
    first, second = access(), access("spec.sources[3].chart")
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(indexes.get, "a", first, 60.0, repository)
        assert repository.asked.wait(60)
        two = pool.submit(indexes.get, "a", second, 60.0, repository)
        time.sleep(0.2)
        if cancelled:
            first.cancelled.set()
        repository.answers.set()
        return [raised(one.result), raised(two.result)], repository


def test_who_waits_for_a_server_that_is_down_gets_its_failure_in_its_own_words() -> None:
    failures, repository = failing_together(Reason.UNREACHABLE)
    assert [each.message for each in failures] == [f"spec.sources[{n}].chart.repository: no" for n in (0, 3)]
    assert failures[1].retry_after == 7
    assert len(repository.known) == 1


@pytest.mark.parametrize(("reason", "cancelled"), [(Reason.STORAGE_FULL, False), (Reason.UNREACHABLE, True)])
def test_what_concerns_only_the_one_that_asked_is_asked_again(reason: Reason, *, cancelled: bool) -> None:
    assert len(failing_together(reason, cancelled=cancelled)[1].known) == 2


def test_who_waits_does_not_wait_longer_than_its_own_deadline() -> None:
    repository, indexes = Repository(), SharedAnswers[Index]()
    repository.answers.clear()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(indexes.get, "a", access(), 60.0, repository)
        assert repository.asked.wait(60)
        error = raised(lambda: indexes.get("a", access(seconds=0.2), 60.0, repository))
        repository.answers.set()
    assert (error.reason, "timed out" in error.message) == (Reason.UNREACHABLE, True)


def test_a_failure_keeps_what_is_known_and_its_age() -> None:
    clock, repository = Clock(), Repository()
    indexes = SharedAnswers[Index](attrgetter("size"), clock)
    first = indexes.get("a", access(), 0.0, repository)
    clock.now += 30
    repository.failure = BundleError(Reason.UNREACHABLE, "no", place="spec.sources[0].chart.repository")
    raised(lambda: indexes.get("a", access(), 20.0, repository))
    repository.failure = None
    assert indexes.get("a", access(), 40.0, repository) is first
    indexes.get("a", access(), 20.0, repository)
    assert repository.known == [None, first, first]


@pytest.mark.parametrize("limit", ["_KEPT_ANSWERS", "_SHARED_BYTES"])
def test_those_that_were_not_used_for_longest_are_dropped(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_index, limit, 2 if limit == "_KEPT_ANSWERS" else 30)
    repository, indexes = Repository(), SharedAnswers[Index](attrgetter("size"), Clock())
    for key in ("a", "b", "a", "c"):
        indexes.get(key, access(), 60.0, repository)
    assert len(repository.known) == 3
    indexes.get("a", access(), 60.0, repository)
    assert len(repository.known) == 3
    indexes.get("b", access(), 60.0, repository)
    assert len(repository.known) == 4
