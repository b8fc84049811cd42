from __future__ import annotations

import threading
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Credentials, Trusted
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment, Source
from rukpak.controller.observe.following import ObjectFollower, ObjectReference, Topic
from rukpak.controller.revisions.accounts import Seen
from rukpak.controller.revisions.background import Quarantine
from rukpak.controller.revisions.source_access import SecretReader, SourceAccess, SourceProgress, watch_secrets
from rukpak.controller.sharing import Admission
from tests.support.clock import Clock
from tests.support.deployments import deployment

MEBIBYTE = 1 << 20
LOGIN, OTHER = ObjectReference("shop", "login"), ObjectReference("shop", "other")


# progress


def test_nothing_is_told_at_first_and_then_every_five_seconds() -> None:
    clock = Clock()
    progress = SourceProgress(clock=clock)
    told = []
    for second in range(13):
        clock.now = 1000.0 + second
        if progress.advance(0, second * MEBIBYTE, 100 * MEBIBYTE):
            told.append((second, progress.text))
    assert told == [(5, "spec.sources[0]: 5 of 100 MiB"), (10, "spec.sources[0]: 10 of 100 MiB")]


def test_each_source_is_told_with_or_without_its_size() -> None:
    clock = Clock()
    progress = SourceProgress(clock=clock)
    progress.advance(2, 3 * MEBIBYTE, 0)
    progress.advance(1, 1024, 5000)
    clock.now += 5
    assert progress.advance(0, MEBIBYTE, 2 * MEBIBYTE)
    assert progress.text == "spec.sources[0]: 1 of 2 MiB, spec.sources[1]: 1 of 4 KiB, spec.sources[2]: 3 MiB"


# Secrets


class Told(NamedTuple):
    name: str
    failures: Mapping[int, Reason | None]
    expect: dict[ObjectReference, str]


TOLD = [
    Told("nothing fails", {0: None, 1: None}, {}),
    Told("the one of the source that fails", {0: Reason.SECRET_NOT_FOUND, 1: None}, {LOGIN: ""}),
    Told("with the version that was read", {0: None, 1: Reason.UNAUTHORIZED}, {OTHER: "7"}),
    Told("of all that fail", {0: Reason.SECRET_NOT_FOUND, 1: Reason.HOST_KEY_UNKNOWN}, {LOGIN: "", OTHER: "7"}),
    Told("failures that no Secret fixes", {0: Reason.UNREACHABLE, 1: Reason.CONTENT_REJECTED}, {}),
    Told("a source that has none", {2: Reason.UNAUTHORIZED}, {}),
]


@pytest.mark.parametrize("case", TOLD, ids=attrgetter("name"))
def test_which_secrets_are_at_fault(case: Told) -> None:
    progress = SourceProgress()
    progress.note_secret(0, LOGIN, "")
    progress.note_secret(1, OTHER, "")
    progress.note_secret(1, OTHER, "7")
    for index, reason in case.failures.items():
        progress.note_end(index, BundleError(reason, "spec.sources: x") if reason else None)
    assert progress.to_follow() == case.expect


def test_success_ends_it() -> None:
    progress = SourceProgress()
    progress.note_secret(0, LOGIN, "7")
    progress.note_end(0, BundleError(Reason.UNAUTHORIZED, "x"))
    progress.note_end(0, None)
    assert not progress.to_follow()


class Reader:
    """Stands for a SecretReader with one Secret."""

    def credentials(self, asked: BundleDeployment, index: int, source: Source, seen: Seen) -> Credentials | None:
        seen(LOGIN, "7")
        return Credentials(username=asked.metadata.name)

    def demanded(self, _index: int, _source: Source) -> Trusted:
        return Trusted()


class Follower:
    """Stands for ObjectFollower: keeps what is to be followed."""

    def __init__(self) -> None:
        self.wanted: dict[str, dict[ObjectReference, str]] = {}

    def follow(self, name: str, topic: Topic, secrets: dict[ObjectReference, str], *, share: str) -> None:
        assert topic is Topic.SOURCES
        self.wanted[name] = secrets


def make_access(woken: list[str]) -> SourceAccess:
    reader = cast("SecretReader", Reader())
    return SourceAccess(reader, woken.append, Admission(1 << 30), Quarantine(lambda: None, ""))


def test_a_source_gets_credentials_and_what_it_fails_with_is_watched() -> None:
    follower, progress = Follower(), SourceProgress()
    access, asked, following = make_access([]), deployment(), cast("ObjectFollower", follower)
    build_context = access.build_context(asked, progress)
    found = build_context.credentials(0, asked.spec.sources[0])
    build_context.ended(0, BundleError(Reason.UNAUTHORIZED, "x"))
    watch_secrets(following, "shop", (progress, SourceProgress()))
    assert found is not None
    assert found.username == "shop"
    assert follower.wanted == {"shop": {LOGIN: "7"}}
    watch_secrets(following, "shop", ())
    assert follower.wanted == {"shop": {}}


def test_a_suspect_of_a_crash_is_rendered_while_nothing_else_holds_memory(tmp_path: Path) -> None:
    asked, admission = deployment(), Admission(1 << 30)
    with Quarantine(lambda: tmp_path, "").guard(asked):
        quarantine = Quarantine(lambda: tmp_path, "")  # the process before this one died in the block
    access = SourceAccess(cast("SecretReader", Reader()), list[str]().append, admission, quarantine)
    with access.build_context(asked, SourceProgress()).room(MEBIBYTE, threading.Event()):
        assert admission._turns.active == admission.total


def test_a_pass_is_asked_for_only_when_there_is_something_to_tell() -> None:
    clock, woken = Clock(), list[str]()
    build_context = make_access(woken).build_context(deployment(), SourceProgress(clock=clock))
    for _ in range(12):
        clock.now += 1
        build_context.progress(0, MEBIBYTE, 0)
    assert woken == ["shop", "shop"]
