from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

import rukpak.controller.kube.watch as module
from rukpak.controller.kube.errors import ApiError, unanswered
from rukpak.controller.kube.watch import INITIAL_EVENTS_END, ListWatch, Pace, Reflector, parse_events, read_list
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.retries import Backoff
from tests.support.fake_api import FakeApi, Fault

FOOS = "/apis/x.io/v1/foos"
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
QUICK = Pace(
    watch=(60, 60), slack=1, steady=0.3, quiet=150, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5), page=2
)
WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Thing:
    namespace: str
    name: str
    uid: str
    resource_version: str


def project(value: dict[str, Any]) -> Thing:
    metadata = value["metadata"]
    return Thing("", metadata["name"], metadata["uid"], metadata["resourceVersion"])


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def short_watches() -> FakeApi:
    """Return a server that ends each watch five times sooner than it was asked to."""
    api = FakeApi(FOOS)
    api.second = 0.2
    return api


class Followed:
    """A fake API server, a reflector of one of its collections, and the changes that it reported."""

    def __init__(
        self,
        stack: ExitStack,
        api: FakeApi,
        pace: Pace = QUICK,
        relist_seconds: float = 36_000,
        *,
        metadata: bool = False,
        **options: Any,
    ) -> None:
        self.api = stack.enter_context(api)
        self.told: list[tuple[str, str]] = []
        self.synced = 0
        settings: dict[str, Any] = {"project": project, "on_change": self._tell, "on_synced": self._sync, **options}
        client = self.api.client()
        client.relist_seconds = relist_seconds
        self.restored: list[None] = []
        client.on_restored = lambda: self.restored.append(None)
        self.reflector: Reflector[Thing] = Reflector(ListWatch(client, FOOS, metadata=metadata), pace=pace, **settings)
        stack.callback(self.reflector.stop)

    def _tell(self, old: Thing | None, new: Thing | None) -> None:
        if old is not None and new is not None:
            self.told.append(("changed", new.name))
        elif new is not None:
            self.told.append(("added", new.name))
        elif old is not None:
            self.told.append(("deleted", old.name))

    def _sync(self) -> None:
        self.synced += 1

    def start(self, *names: str) -> Followed:
        for name in names:
            self.api.put(FOOS, name)
        self.reflector.start()
        wait(lambda: self.reflector.synced)
        return self

    def names(self) -> list[str]:
        return sorted(thing.name for thing in self.reflector.cache.records())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=[True, False], ids=["streaming lists", "pages"])
def followed(request: pytest.FixtureRequest, stack: ExitStack) -> Followed:
    return Followed(stack, FakeApi(FOOS, streaming_lists=request.param))


def test_the_whole_state_is_there_once_it_is_synced(followed: Followed) -> None:
    followed.start(*"abcde")
    assert followed.names() == list("abcde")
    assert sorted(followed.told) == [("added", name) for name in "abcde"]
    assert followed.reflector.cache.get(("", "c")) is not None
    wait(lambda: followed.synced == 1)


def test_changes_are_told_as_they_come(followed: Followed) -> None:
    followed.start("a", "b")
    followed.told.clear()
    followed.api.put(FOOS, "a")
    followed.api.put(FOOS, "c")
    followed.api.delete(FOOS, "b")
    wait(lambda: followed.told == [("changed", "a"), ("added", "c"), ("deleted", "b")])
    assert followed.names() == ["a", "c"]


def test_a_streaming_list_and_the_changes_after_it_are_one_request(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert len(followed.api.received) == 1


def test_a_watch_that_ends_as_asked_goes_on_without_a_list_or_a_pause(stack: ExitStack) -> None:
    pace = Pace(watch=(1, 1), slack=1, steady=0.1, backoff=Backoff(first=60, longest=60, jitter=0.5))
    followed = Followed(stack, short_watches(), pace).start("a")
    wait(lambda: followed.api.watches() == 3)
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert followed.api.watches() == len(followed.api.received)


def test_changes_during_an_interruption_are_reported(followed: Followed) -> None:
    followed.start("a", "b", "c")
    followed.told.clear()
    followed.api.watch_faults = [Fault(503)] * 1000
    followed.api.end_watches = True
    wait(lambda: followed.reflector.last_error is not None)
    followed.api.delete(FOOS, "a")
    followed.api.put(FOOS, "b", uid="another")
    followed.api.compact()
    followed.api.end_watches = False
    followed.api.watch_faults = []
    wait(lambda: sorted(followed.told) == [("added", "b"), ("deleted", "a"), ("deleted", "b")])
    assert followed.reflector.cache.get(("", "b")) in followed.reflector.cache.records()
    assert followed.names() == ["b", "c"]


def end_with_a_status(api: FakeApi) -> None:
    api.compact()


def end_with_an_event(api: FakeApi) -> None:
    api.watch_error = EXPIRED


@pytest.mark.parametrize("expire", [end_with_a_status, end_with_an_event])
def test_an_expired_version_makes_a_new_list(expire: Callable[[FakeApi], None], followed: Followed) -> None:
    followed.start("a")
    lists = followed.api.lists(FOOS)
    expire(followed.api)
    followed.api.end_watches = True
    wait(lambda: followed.api.lists(FOOS) > lists)
    followed.api.watch_error = None
    followed.api.end_watches = False
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])


def test_pages_that_expire_are_read_once_more_without_pages(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS, streaming_lists=False))
    for name in "abcde":
        followed.api.put(FOOS, name)

    def compact(value: dict[str, Any]) -> Thing:
        if value["metadata"]["name"] == "b" and followed.api._oldest == 100:
            followed.api.delete(FOOS, "a")
            followed.api.compact()
        return project(value)

    followed.reflector._project = compact
    followed.start()
    assert followed.names() == list("bcde")


def test_a_server_that_always_says_410_is_not_asked_without_pause(stack: ExitStack) -> None:
    pace = Pace(watch=(60, 60), backoff=Backoff(first=0.02, longest=0.16, jitter=0.5))
    followed = Followed(stack, FakeApi(FOOS, streaming_lists=False), pace)
    followed.api.watch_error = EXPIRED
    followed.start("a")
    started, before = time.monotonic(), followed.api.lists(FOOS)
    wait(lambda: time.monotonic() - started > 0.4)
    assert followed.api.lists(FOOS) - before <= 12
    wait(lambda: followed.reflector.last_error is not None)


def test_watches_that_end_at_once_are_not_opened_without_pause(stack: ExitStack) -> None:
    followed = Followed(
        stack, FakeApi(FOOS), Pace(watch=(60, 60), backoff=Backoff(first=0.02, longest=0.16, jitter=0.5))
    ).start("a")
    followed.api.end_watches = True
    started, before = time.monotonic(), followed.api.watches()
    wait(lambda: time.monotonic() - started > 0.4 and followed.api.watches() > before)
    opened = followed.api.watches() - before
    assert opened <= 30 * (time.monotonic() - started)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_list_that_fails_is_tried_again(status: int, followed: Followed) -> None:
    followed.api.faults = [Fault(status)] * 3
    followed.start("a")
    assert followed.names() == ["a"]
    assert followed.reflector.last_error is None


def test_the_server_s_wish_for_a_pause_is_obeyed(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS))
    followed.api.faults = [Fault(429, {"Retry-After": "1"})]
    started = time.monotonic()
    followed.start("a")
    assert time.monotonic() - started >= 1


def test_a_watch_without_a_byte_is_given_up(stack: ExitStack) -> None:
    pace = Pace(watch=(1, 1), slack=0.1, steady=0.1, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5))
    followed = Followed(stack, short_watches(), pace).start("a")
    followed.api.stall_watches = True
    wait(lambda: followed.reflector.last_error is not None)
    followed.api.stall_watches = False
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert followed.api.lists(FOOS) == 1


def test_a_watch_that_is_cut_in_a_line_goes_on(followed: Followed) -> None:
    followed.start("a")
    followed.api.cut_watches = True
    wait(lambda: followed.reflector.last_error is not None)
    followed.api.put(FOOS, "b")
    followed.api.cut_watches = False
    wait(lambda: followed.names() == ["a", "b"])
    wait(lambda: followed.reflector.last_error is None)


def test_a_list_that_is_cut_is_no_list(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS))
    followed.api.omit_bookmarks = followed.api.end_watches = True
    followed.api.put(FOOS, "a")
    followed.reflector._list_pages = lambda: None  # type: ignore[method-assign]
    followed.reflector.start()
    wait(lambda: followed.reflector.last_error is not None)
    assert not followed.reflector.synced
    assert followed.told == []


def test_a_server_that_ignores_the_wish_for_a_streaming_list_is_asked_for_pages(stack: ExitStack) -> None:
    followed = Followed(
        stack, FakeApi(FOOS), Pace(watch=(60, 60), slack=0.2, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5))
    )
    followed.api.omit_bookmarks = True
    followed.start("a", "b")
    assert followed.names() == ["a", "b"]


def test_after_a_restored_etcd_the_watch_that_waits_for_the_future_is_left_for_a_list(stack: ExitStack) -> None:
    pace = Pace(watch=(1, 1), slack=1, steady=0.3, quiet=0.2, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5))
    followed = Followed(stack, FakeApi(FOOS), pace).start("a", "b")
    followed.api.restore(FOOS, "b", "c")
    wait(lambda: followed.names() == ["b", "c"])
    assert ("deleted", "a") in followed.told


def test_a_watch_in_which_not_even_a_bookmark_comes_is_left_long_before_its_end(stack: ExitStack) -> None:
    pace = Pace(watch=(600, 600), slack=1, steady=0.3, quiet=0.2, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5))
    followed = Followed(stack, FakeApi(FOOS), pace).start("a", "b")
    followed.api.restore(FOOS, "b", "c")
    wait(lambda: followed.names() == ["b", "c"])


def test_the_collection_is_listed_again_after_a_while(stack: ExitStack) -> None:
    pace = Pace(watch=(1, 1), slack=1, steady=0.1, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5))
    followed = Followed(stack, short_watches(), pace, relist_seconds=0.1).start("a")
    wait(lambda: followed.api.lists(FOOS) >= 2)
    assert followed.told == [("added", "a")]


def test_a_watch_that_omits_events_is_noticed_by_the_next_list_and_not_at_its_end(stack: ExitStack) -> None:
    followed = Followed(stack, short_watches(), relist_seconds=0.1)
    followed.api.omit_events = True
    followed.start("a")
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])


def cut_list(followed: Followed) -> None:
    followed.api.omit_bookmarks = followed.api.cut_watches = True
    followed.reflector.start()
    wait(lambda: followed.reflector.last_error is not None)
    followed.api.omit_bookmarks = followed.api.cut_watches = False
    wait(lambda: followed.reflector.synced)


def streams(followed: Followed) -> list[bool]:
    """Return of each list whether it was streamed."""
    lists = [each for each in followed.api.received if "resourceVersion" not in each.query]
    firsts = [each for each in lists if each.query.get("limit") != "1" and "continue" not in each.query]
    return ["sendInitialEvents" in each.query for each in firsts]


def test_a_streaming_list_that_was_cut_is_read_from_pages_once(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS))
    followed.api.put(FOOS, "a")
    cut_list(followed)
    assert streams(followed) == [True, False]
    followed.reflector.refresh()
    wait(lambda: followed.reflector.synced)
    assert streams(followed) == [True, False, True]


def test_a_server_that_ignores_streaming_lists_is_asked_once(stack: ExitStack) -> None:
    pace = Pace(watch=(60, 60), slack=0.2, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5))
    followed = Followed(stack, FakeApi(FOOS), pace)
    followed.api.omit_bookmarks = True
    followed.start("a")
    followed.reflector.refresh()
    wait(lambda: followed.reflector.synced)
    assert streams(followed) == [True, False, False]


# a list that is required


def test_a_collection_that_is_refreshed_is_listed_again_and_not_synced_until_then(followed: Followed) -> None:
    followed.start("a")
    wait(lambda: followed.synced == 1)
    followed.api.frozen.set()
    followed.reflector.refresh()
    assert (followed.reflector.synced, followed.reflector.settled, followed.names()) == (False, False, ["a"])
    followed.api.put(FOOS, "b")
    followed.api.frozen.clear()
    wait(lambda: followed.synced == 2)
    assert followed.names() == ["a", "b"]
    assert followed.reflector.synced
    followed.api.put(FOOS, "c")
    wait(lambda: followed.names() == ["a", "b", "c"])


def test_a_list_in_progress_is_not_enough_for_a_refresh(followed: Followed) -> None:
    followed.api.frozen.set()
    followed.reflector.start()
    wait(lambda: followed.api.received)
    followed.reflector.refresh()
    followed.api.frozen.clear()
    wait(lambda: followed.reflector.synced)
    assert followed.api.lists(FOOS) == (2 if followed.api.streaming_lists else 4)  # each first tries to stream


def test_a_refresh_that_fails_leaves_the_collection_unsynced_and_settled(followed: Followed) -> None:
    followed.start("a")
    followed.api.faults = [Fault(503)] * 1000
    followed.reflector.refresh()
    wait(lambda: followed.reflector.settled)
    assert (followed.reflector.synced, followed.names()) == (False, ["a"])
    followed.api.faults = []
    wait(lambda: followed.reflector.synced)


# etcd restored from a backup


def interrupt(followed: Followed) -> None:
    followed.api.end_watches = True
    wait(lambda: not followed.api.open_watches)
    followed.api.end_watches = False


def test_after_an_interruption_an_older_cluster_is_listed_again_immediately(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a", "b")
    followed.api.restore(FOOS, "b", "c")
    interrupt(followed)
    wait(lambda: followed.names() == ["b", "c"])
    assert len(followed.restored) == 1
    followed.api.put(FOOS, "d")
    wait(lambda: followed.names() == ["b", "c", "d"])


def test_after_an_interruption_of_the_same_cluster_the_watch_continues(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    interrupt(followed)
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert (followed.api.lists(FOOS), followed.restored) == (1, [])


def cut_off(followed: Followed) -> None:
    """Interrupt it, and let it reach no one until `watch_faults` ends."""
    followed.api.watch_faults = [Fault(503)] * 1000
    followed.api.end_watches = True
    wait(lambda: followed.reflector.last_error is not None)
    followed.api.faults, followed.api.watch_faults = [Fault(503)] * 1000, []
    followed.api.end_watches = False


def test_a_restored_cluster_is_noticed_although_it_has_had_more_writes_than_known(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    uid = followed.api.put(FOOS, "a")["metadata"]["uid"]
    wait(lambda: followed.told[-1] == ("changed", "a"))
    cut_off(followed)
    followed.api.restore(FOOS, "b")
    followed.api.put(FOOS, "a", uid=uid)
    followed.api.version += 200
    followed.api.faults = []
    wait(lambda: followed.names() == ["a", "b"])
    assert len(followed.restored) == 1


LAST_CHANGES: list[tuple[str, Callable[[FakeApi], object], Callable[[FakeApi], object]]] = [
    ("the object was deleted", lambda api: api.put(FOOS, "a"), lambda api: api.delete(FOOS, "a")),
    ("the object has changed again", lambda api: api.put(FOOS, "a"), lambda api: api.put(FOOS, "a")),
    ("the deleted object exists again", lambda api: api.delete(FOOS, "a"), lambda api: api.put(FOOS, "a")),
]


@pytest.mark.parametrize(
    ("change", "meanwhile"), [each[1:] for each in LAST_CHANGES], ids=[each[0] for each in LAST_CHANGES]
)
def test_when_the_last_change_tells_nothing_the_collection_is_listed_again(
    stack: ExitStack, change: Callable[[FakeApi], object], meanwhile: Callable[[FakeApi], object]
) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a", "b")
    count = len(followed.told)
    change(followed.api)
    wait(lambda: len(followed.told) > count)
    cut_off(followed)
    meanwhile(followed.api)
    followed.api.faults = []
    wait(lambda: followed.api.lists(FOOS) == 2 and followed.names() == sorted(followed.api.objects[FOOS]))
    assert followed.restored == []


def test_an_api_that_selects_no_object_by_name_is_listed_again(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    cut_off(followed)
    followed.api.faults = [Fault(400)]
    wait(lambda: followed.api.lists(FOOS) == 2 and followed.reflector.synced)


def test_what_is_dropped_is_unknown_until_it_is_listed_again(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    followed.told.clear()
    followed.api.frozen.set()
    followed.reflector.drop()
    assert (followed.names(), followed.told, followed.reflector.settled) == ([], [], False)
    followed.api.frozen.clear()
    wait(lambda: followed.told == [("added", "a")] and followed.reflector.synced)


def test_a_list_that_is_older_than_known_tells_that_the_cluster_was_restored(stack: ExitStack) -> None:
    followed = Followed(stack, short_watches(), relist_seconds=0.1).start("a", "b")
    followed.api.restore(FOOS, "b", "c")
    wait(lambda: followed.names() == ["b", "c"])
    wait(lambda: len(followed.restored) == 1 and followed.reflector.synced)


def test_a_list_with_an_older_object_tells_that_the_cluster_was_restored(stack: ExitStack) -> None:
    followed = Followed(stack, short_watches(), relist_seconds=0.1).start("a", "b")
    uid = followed.api.put(FOOS, "a")["metadata"]["uid"]
    wait(lambda: followed.told[-1] == ("changed", "a"))
    followed.api.restore(FOOS)
    followed.api.put(FOOS, "a", uid=uid)
    followed.api.version += 200
    wait(lambda: followed.names() == ["a"])
    wait(lambda: len(followed.restored) == 1 and followed.reflector.synced)


@pytest.mark.parametrize(
    ("fault", "denied"),
    [
        (Fault(403), "injected 403"),
        (Fault(404), "injected 404"),
        (Fault(404, {}, b"404 page not found"), f"{FOOS} is not served"),
    ],
    ids=["forbidden", "not found", "not served"],
)
def test_what_may_not_be_listed_is_told(fault: Fault, denied: str, followed: Followed) -> None:
    followed.api.faults = [fault] * 1000
    followed.reflector.start()
    wait(lambda: followed.reflector.denied == denied)
    assert not followed.reflector.synced
    followed.api.faults.clear()
    wait(lambda: followed.reflector.synced)
    assert followed.reflector.denied == ""


def test_a_kind_that_is_not_served_any_more_has_no_objects(followed: Followed) -> None:
    followed.start("a")
    followed.api.watch_faults = [Fault(404)] * 1000
    followed.api.faults = []
    followed.api.end_watches = True
    wait(lambda: followed.told[-1] == ("deleted", "a"))
    assert followed.reflector.cache.records() == []


@pytest.mark.parametrize("status", [403, 404])
def test_what_counts_as_settled_since_it_is_denied_says_so(
    status: int, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, bool]] = []
    reflector, followed.api.faults = followed.reflector, [Fault(status)] * 1000
    monkeypatch.setattr(
        "rukpak.controller.kube.watch.log.warning",
        lambda *_, **__: seen.append((reflector.settled, bool(reflector.denied))),
    )
    reflector.start()
    wait(lambda: seen)
    assert seen[0] == (True, True)


def test_what_is_known_stays_while_it_may_not_be_listed(followed: Followed) -> None:
    followed.start("a")
    followed.api.watch_faults = [Fault(403)] * 1000
    followed.api.end_watches = True
    wait(lambda: followed.reflector.denied)
    assert followed.names() == ["a"]


def test_it_tries_at_once_when_woken(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS), Pace(backoff=Backoff(first=600, longest=600, jitter=0.5)))
    followed.api.faults = [Fault(404)]
    followed.reflector.start()
    wait(lambda: followed.reflector.denied)
    followed.reflector.wake()
    wait(lambda: followed.reflector.synced)


class Patient(Pace):
    """Tries three times, and then not for long."""

    def choose_pause(self, failures: int, error: ApiError | None) -> float:
        return 600 if failures >= 3 else 0.0


def test_what_woke_it_may_take_a_moment_to_show(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS), Patient())
    followed.api.faults = [Fault(404)] * 4
    followed.reflector.start()
    wait(lambda: len(followed.api.faults) == 1)
    followed.reflector.wake()
    wait(lambda: followed.reflector.synced)


def stalled(api: FakeApi) -> None:
    api.stall_watches = True


def usual(api: FakeApi) -> None:
    api.put(FOOS, "a")


def failing(api: FakeApi) -> None:
    api.faults = [Fault(429, {"Retry-After": "600"})]


@pytest.mark.parametrize("prepare", [usual, stalled, failing])
def test_stop_returns_at_once_and_the_thread_ends(prepare: Callable[[FakeApi], None], stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS), Pace(slack=300))
    prepare(followed.api)
    followed.reflector.start()
    wait(lambda: followed.api.received)
    started = time.monotonic()
    followed.reflector.stop()
    assert time.monotonic() - started < 60
    followed.reflector._thread.join(WAIT)
    assert not followed.reflector._thread.is_alive()


def test_stop_before_the_stream_is_open_ends_it(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS))
    followed.api.frozen.set()
    followed.reflector.start()
    wait(lambda: followed.api.received)
    followed.reflector.stop()
    followed.api.frozen.clear()
    followed.reflector._thread.join(WAIT)
    assert not followed.reflector._thread.is_alive()
    assert not followed.reflector.synced


def test_one_object_that_cannot_be_projected_does_not_stop_the_others(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(value: dict[str, Any]) -> Thing:
        if value["metadata"]["name"] == "b":
            raise KeyError("status")
        return project(value)

    followed.reflector._project = fail
    followed.start("a", "b", "c")
    followed.api.put(FOOS, "b")
    followed.api.put(FOOS, "d")
    wait(lambda: followed.names() == ["a", "c", "d"])
    assert "object skipped" in caplog.messages


def test_a_handler_that_fails_does_not_stop_the_watch(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    def fail(old: Thing | None, new: Thing | None) -> None:
        raise RuntimeError("bug")

    followed = Followed(stack, FakeApi(FOOS), on_change=fail).start("a")
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert "change handler failed" in caplog.messages


def fail_once(function: Callable[..., Any]) -> Callable[..., Any]:
    failures = [RuntimeError("bug")]

    def call(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return function(*arguments)

    return call


def test_a_bug_leads_to_a_new_list_and_not_to_silence(
    stack: ExitStack, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "parse_events", fail_once(parse_events))
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert "watch failed unexpectedly" in caplog.messages


def test_a_bug_that_ends_the_thread_begins_it_again(stack: ExitStack) -> None:
    class Faulty(Pace):
        choose_pause = fail_once(QUICK.choose_pause)

    died: list[Kind] = []
    api = FakeApi(FOOS)
    client = stack.enter_context(api).client()
    client.supervisor = Supervisor(died.append, sleep=lambda _: None)
    reflector = Reflector(ListWatch(client, FOOS), project=project, pace=Faulty(steady=60))
    stack.callback(reflector.stop)
    api.faults = [Fault(500)]
    reflector.start()
    wait(lambda: reflector.synced)
    assert (died, reflector.stuck) == ([Kind.WATCH], False)


def test_the_first_failure_before_the_first_list_is_told_once_and_none_after_it(stack: ExitStack) -> None:
    told: list[None] = []
    followed = Followed(stack, FakeApi(FOOS), on_failed=lambda: told.append(None))
    followed.api.faults = [Fault(500)] * 3
    followed.start("a")
    assert told == [None]
    followed.api.faults = [Fault(500)]
    followed.api.end_watches = True
    wait(lambda: not followed.api.faults)
    followed.api.end_watches = False
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert told == [None]


def test_what_is_deleted_while_it_is_listed_is_not_in_the_list() -> None:
    def event(kind: str, name: str, **annotations: str) -> tuple[str, dict[str, Any]]:
        return kind, {"metadata": {"name": name, "uid": "u", "resourceVersion": "7", "annotations": annotations}}

    end = event("BOOKMARK", "", **{INITIAL_EVENTS_END: "true"})
    events = [event("ADDED", "a"), event("ADDED", "b"), event("DELETED", "a"), event("DELETED", "c"), end]
    found = read_list(iter(events), project)
    assert found is not None
    assert (list(found[0]), found[1]) == ([("", "b")], "7")


@pytest.mark.parametrize("notice", ["on_synced", "on_failed"])
def test_who_is_told_of_the_list_and_fails_does_not_stop_the_watch(notice: str, stack: ExitStack) -> None:
    options: dict[str, Any] = {notice: fail_once(lambda: None)}
    followed = Followed(stack, FakeApi(FOOS), **options)
    followed.api.faults = [Fault(500)]
    followed.start("a")
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])


HOSTILE = {
    "an age in the header": Fault(429, {"Retry-After": "99999999999"}),
    "a number of thousands of digits": Fault(429, {"Retry-After": "9" * 5000}),
    "the last date": Fault(503, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}),
    "no date": Fault(503, {"Retry-After": "Fri, 99 Foo"}),
    "an age in the details": Fault(429, details={"retryAfterSeconds": 10**300}),
    "a text in the details": Fault(429, details={"retryAfterSeconds": "soon"}),
    "a list in the details": Fault(429, details={"retryAfterSeconds": [1]}),
}


@pytest.mark.parametrize("fault", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("of", ["list", "watch"])
def test_no_reply_to_one_request_blinds_a_kind(of: str, fault: Fault, stack: ExitStack) -> None:
    pace = Pace(watch=(1, 1), slack=1, steady=0.01, backoff=Backoff(first=0.02, longest=0.05, jitter=0.5), asked=0.1)
    followed = Followed(stack, FakeApi(FOOS), pace)
    if of == "list":
        followed.api.faults = [fault]
    followed.start("a")
    if of == "watch":
        followed.api.faults = [fault]
        followed.api.end_watches = True
        wait(lambda: not followed.api.faults)
        followed.api.end_watches = False
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])
    assert not followed.reflector.stuck


def test_an_event_of_an_error_whose_numbers_are_none_is_an_error(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    broken = {"kind": "Status", "code": "many", "reason": "Odd", "details": {"retryAfterSeconds": "inf"}}
    followed.api.watch_error = broken
    followed.api.end_watches = True
    wait(lambda: (error := followed.reflector.last_error) is not None and error.reason == "Odd")
    followed.api.watch_error, followed.api.end_watches = None, False
    followed.api.put(FOOS, "b")
    wait(lambda: followed.names() == ["a", "b"])


def test_a_failure_is_logged_once_and_without_addresses(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    followed.api.faults = [Fault(500)] * 4
    followed.start("a")
    assert caplog.messages.count("watch failed") == 1


def test_each_cause_of_an_interruption_is_logged_once(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    followed.api.faults = [Fault(status) for status in (500, 503, 500, 503)]
    followed.start("a")
    logged = [vars(record)["error"] for record in caplog.records if record.message == "watch failed"]
    assert [error.partition(" ")[0].rstrip(":") for error in logged] == ["500", "503"]


def test_what_was_learned_is_not_hidden_by_the_watch_that_lags(followed: Followed) -> None:
    followed.start("a")
    uid = followed.api.objects[FOOS]["a"]["metadata"]["uid"]
    reached = followed.api.version
    followed.reflector.cache.learn(Thing("", "a", uid, str(reached + 2)))
    followed.api.put(FOOS, "a")
    wait(lambda: followed.told[-1] == ("changed", "a"))
    assert followed.reflector.cache.get(("", "a")) == Thing("", "a", uid, str(reached + 2))
    followed.api.put(FOOS, "a")
    followed.api.put(FOOS, "a")
    wait(lambda: followed.reflector.cache.get(("", "a")) == Thing("", "a", uid, str(reached + 3)))
    assert followed.told.count(("changed", "a")) == 3


@pytest.mark.parametrize(
    ("metadata", "projected"), [(True, ["a", "a"]), (False, ["a", "a", "a"])], ids=["metadata", "full"]
)
def test_what_a_reply_has_told_is_not_projected_again(stack: ExitStack, metadata: bool, projected: list[str]) -> None:
    made: list[str] = []

    def note(value: dict[str, Any]) -> Thing:
        made.append(value["metadata"]["name"])
        return project(value)

    followed = Followed(stack, FakeApi(FOOS), project=note, metadata=metadata).start("a")
    uid = followed.api.objects[FOOS]["a"]["metadata"]["uid"]
    followed.reflector.cache.learn(Thing("", "a", uid, str(followed.api.version + 1)))
    followed.api.put(FOOS, "a")
    followed.api.put(FOOS, "a")
    wait(lambda: followed.told.count(("changed", "a")) == 2)
    assert made == projected


def test_what_was_forgotten_is_told_as_deleted_when_the_watch_says_so(followed: Followed) -> None:
    followed.start("a")
    followed.reflector.cache.hide(("", "a"), followed.api.objects[FOOS]["a"]["metadata"]["uid"])
    assert followed.names() == []
    assert followed.told == [("added", "a")]
    followed.api.delete(FOOS, "a")
    wait(lambda: followed.told[-1] == ("deleted", "a"))


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "full"])
def test_selectors_and_the_form_are_asked_for_in_every_request(metadata: bool, followed: Followed) -> None:
    client, options = followed.api.client(), {"label_selector": "a=b", "field_selector": "c=d", "metadata": metadata}
    collection = ListWatch(client, FOOS, **options)  # type: ignore[arg-type]
    reflector = Reflector(collection, project=project, pace=QUICK)
    reflector.start()
    wait(lambda: reflector.synced)
    wait(lambda: followed.api.watches() == len(followed.api.received) or followed.api.watches() == 2)
    reflector.stop()
    for request in followed.api.received:
        assert (request.query["labelSelector"], request.query["fieldSelector"]) == ("a=b", "c=d")
        assert ("PartialObjectMetadata" in request.header("Accept")[0]) is metadata


def test_full_objects_are_not_kept(followed: Followed) -> None:
    for name in "abc":
        followed.api.put(FOOS, name, data="x" * 100_000)
    followed.start()
    assert all(isinstance(record, Thing) for record in followed.reflector.cache.records())
    assert threading.active_count() < 50


def test_an_event_larger_than_the_bound_is_given_up(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rukpak.controller.kube.client.LineStream.__init__.__defaults__", (1000,))
    followed = Followed(stack, FakeApi(FOOS)).start("a")
    followed.api.put(FOOS, "b", data="x" * 2000)
    wait(lambda: followed.reflector.last_error is not None)
    assert followed.reflector.last_error is not None
    assert followed.reflector.last_error.reason == "TooLarge"


def test_pauses_double_up_to_the_longest() -> None:
    pace = Pace(backoff=Backoff(first=0.8, longest=30, jitter=0.5))
    for failures, expected in ((1, 0.8), (2, 1.6), (5, 12.8), (7, 30), (5000, 30)):
        assert expected * 0.5 <= pace.choose_pause(failures, None) <= expected * 1.5


def test_a_server_that_asks_for_less_than_the_first_pause_gets_pauses_that_double() -> None:
    pace = Pace(backoff=Backoff(first=0.8, longest=30, jitter=0.5), asked=5)
    for asked in (0.0, 1e-9, 0.5):
        assert pace.choose_pause(7, ApiError(429, "TooManyRequests", "", retry_after=asked)) >= 15


@pytest.mark.parametrize(("asked", "expected"), [(1, 1), (3, 3), (5, 5), (99, 5)])
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("failures", [1, 7, 5000])
def test_a_server_that_says_when_is_asked_then_however_often_it_did_but_not_much_later(
    failures: int, status: int, asked: float, expected: float
) -> None:
    pace = Pace(backoff=Backoff(first=0.8, longest=30, jitter=0.5), asked=5)
    pause = pace.choose_pause(failures, ApiError(status, "TooManyRequests", "", retry_after=asked))
    assert expected <= pause <= expected * 1.5


def test_a_server_that_is_away_is_looked_for_every_few_seconds() -> None:
    pace = Pace(backoff=Backoff(first=0.8, longest=30, jitter=0.5), away=5)
    for error, expected in ((unanswered(OSError()), 5), (ApiError(503, "ServiceUnavailable", ""), 30)):
        assert expected * 0.5 <= pace.choose_pause(100, error) <= expected * 1.5


# signs of life


def test_a_watch_that_waits_for_its_server_is_not_stuck_and_one_that_hangs_is(stack: ExitStack) -> None:
    followed = Followed(stack, FakeApi(FOOS))
    reflector = followed.reflector
    assert (reflector.started, reflector.stuck) == (False, False)
    followed.api.frozen.set()
    reflector.start()
    assert (reflector.started, reflector.stuck) == (True, False)
    reflector._next_sign = time.monotonic() - 1
    assert reflector.stuck
    reflector.stop()
    assert not reflector.stuck
