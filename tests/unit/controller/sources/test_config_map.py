"""Content in ConfigMaps: what they contain, how it is pinned, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Entry, LocalContent, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.config_map import KEY, PART_BYTES, ConfigMapSource, split
from tests.support.charts import pack

SOURCE = ConfigMapSource()
Found = dict[str, LocalContent]


def files(**found: str) -> LocalContent:
    return LocalContent(files={name.replace("_", "."): text.encode() for name, text in found.items()})


def access_to(found: Mapping[str, LocalContent], kept: list[list[str]], scratch: Path) -> Access:
    def read(name: str) -> LocalContent:
        if name not in found:
            raise BundleError(Reason.NOT_FOUND, f'ConfigMap "{name}" does not exist')
        return found[name]

    def keep(_resolution: Resolution, entries: Iterator[Entry]) -> None:
        kept.append([entry.path for entry in entries])

    return Access(
        path="spec.sources[0].configMap",
        deadline=time.monotonic() + 250,
        cancelled=threading.Event(),
        scratch=scratch,
        config_map=read,
        keep=keep,
    )


def in_parts(archive: bytes) -> Found:
    return {
        f"part-{part.number}": LocalContent(files={KEY: data}, annotations={names.PART: str(part)})
        for part, data in split(archive)
    }


ARCHIVE = pack({"manifests/a.yaml": b"a", "manifests/b.yaml": bytes(range(256)) * 10})
LARGE = bytes(2 * PART_BYTES + 1)


def test_each_key_is_a_file(tmp_path: Path) -> None:
    kept: list[list[str]] = []
    access = access_to({"a": files(b_yaml="b", a_yaml="a")}, kept, tmp_path)
    resolution = SOURCE.resolve({"name": "a"}, access)
    assert kept == [["a.yaml", "b.yaml"]]
    assert resolution.pinned == f"a@{resolution.digest}"
    assert [(e.path, e.data.read(9) if e.data else b"") for e in SOURCE.fetch({"name": "a"}, resolution, access)] == [
        ("a.yaml", b"a"),
        ("b.yaml", b"b"),
    ]


def test_a_single_archive_is_unpacked(tmp_path: Path) -> None:
    kept: list[list[str]] = []
    access = access_to({"a": LocalContent(files={"bundle.tgz": ARCHIVE})}, kept, tmp_path)
    SOURCE.resolve({"name": "a"}, access)
    assert kept == [["manifests/a.yaml", "manifests/b.yaml"]]


def test_parts_are_put_together_whatever_their_order(tmp_path: Path) -> None:
    found = in_parts(ARCHIVE)
    kept: list[list[str]] = []
    SOURCE.resolve({"names": list(found)[::-1]}, access_to(found, kept, tmp_path))
    assert kept == [["manifests/a.yaml", "manifests/b.yaml"]]
    assert [len(data) for _, data in split(LARGE)] == [PART_BYTES, PART_BYTES, 1]


def test_equal_content_has_an_equal_digest(tmp_path: Path) -> None:
    one = SOURCE.resolve({"name": "a"}, access_to({"a": files(x="1", y="2")}, [], tmp_path))
    two = SOURCE.resolve({"names": ["b", "c"]}, access_to({"b": files(x="1"), "c": files(y="2")}, [], tmp_path))
    other = SOURCE.resolve({"name": "a"}, access_to({"a": files(x="1", z="2")}, [], tmp_path))
    assert one.digest == two.digest != other.digest


def test_what_has_not_changed_is_not_kept_again(tmp_path: Path) -> None:
    kept: list[list[str]] = []
    access = access_to({"a": files(x="1")}, kept, tmp_path)
    resolution = SOURCE.resolve({"name": "a"}, access)
    assert SOURCE.resolve({"name": "a"}, replace(access, previous=resolution)) == resolution
    assert kept == [["x"]]


def test_what_has_changed_since_is_not_fetched(tmp_path: Path) -> None:
    resolution = SOURCE.resolve({"name": "a"}, access_to({"a": files(x="1")}, [], tmp_path))
    with pytest.raises(BundleError) as caught:
        list(SOURCE.fetch({"name": "a"}, resolution, access_to({"a": files(x="2")}, [], tmp_path)))
    assert caught.value.reason is Reason.PINNED_CONTENT_GONE


class Refused(NamedTuple):
    name: str
    found: Found
    saying: str
    reason: Reason = Reason.CONTENT_REJECTED


HALVES = dict(list(in_parts(LARGE).items()))
FIRST, SECOND, THIRD = HALVES.values()
REFUSED = [
    Refused("a part is missing", {"a": FIRST, "c": THIRD}, "2 of 3 parts are named, missing: 2; push again"),
    Refused("a part is there twice", {"a": FIRST, "b": FIRST, "c": THIRD}, "3 of 3 parts are named, missing: 2"),
    Refused(
        "a part is of another archive",
        {"a": FIRST, "b": next(iter(in_parts(ARCHIVE).values()))},
        'ConfigMap "b" is part of another archive',
    ),
    Refused("one is no part", {"a": FIRST, "b": files(x="1")}, 'ConfigMap "b" is no part of an archive'),
    Refused(
        "a part was changed",
        {"a": FIRST, "b": SECOND, "c": replace(THIRD, files={KEY: b"x"})},
        "the parts do not have the digest",
    ),
    Refused("a part has more keys", {"a": FIRST, "b": SECOND, "c": replace(THIRD, files={"x": b""})}, "only the key"),
    Refused("two have the same key", {"a": files(x="1"), "b": files(x="2")}, 'another one has the key "x", too'),
    Refused(
        "an archive is none",
        {"a": LocalContent(files={"a.tar": b"no"})},
        "neither a tar archive",
        Reason.UNSUPPORTED_CONTENT,
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_is_refused(case: Refused, tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        SOURCE.resolve({"names": list(case.found)}, access_to(case.found, [], tmp_path))
    assert caught.value.reason is case.reason
    assert case.saying in caught.value.message


def test_one_that_is_missing_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        SOURCE.resolve({"name": "a"}, access_to({}, [], tmp_path))
    assert caught.value.reason is Reason.NOT_FOUND


def test_a_name_may_not_be_listed_twice() -> None:
    assert SOURCE.validate({"names": ["a", "b", "a"]}, "p") == ['p.names: "a" is listed twice; remove one']
    assert SOURCE.validate({"name": "a"}, "p") == []
