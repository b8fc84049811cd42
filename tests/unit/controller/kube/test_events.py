from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from rukpak.controller.kube.events import EVENTS, NAMESPACE, SERIES_SECONDS, EventRecorder, Note, Regarding
from rukpak.controller.playground.processes import wait_for
from tests.support.clock import Clock
from tests.support.fake_api import FakeApi, Fault

PATH = EVENTS.path(NAMESPACE)
SHOP = Regarding(name="shop", uid="1")
FAILED = Note(type="Warning", reason="Unreachable", action="Reconcile", text="no answer")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(PATH) as served:
        yield served


@pytest.fixture
def recorder(api: FakeApi, clock: Clock) -> Iterator[EventRecorder]:
    recorder = EventRecorder(api.client(), "x.io/foo", clock)
    recorder.start()
    yield recorder
    recorder.stop(5)


def say(recorder: EventRecorder, api: FakeApi, note: Note = FAILED) -> None:
    """Say it, and wait until the server was asked."""
    asked = len(api.received)
    recorder.record(SHOP, note)
    wait_for(lambda: len(api.received) > asked, 60, "it is sent")


def sent(api: FakeApi) -> list[str]:
    return [each.method for each in api.received]


def test_what_is_said_again_is_counted_in_the_series_of_the_first(api: FakeApi, recorder: EventRecorder) -> None:
    for _ in range(3):
        say(recorder, api)
    recorder.stop(5)
    assert sent(api) == ["POST", "PATCH", "PATCH"]
    series = [json.loads(each.body)["series"] for each in api.received[1:]]
    assert [each["count"] for each in series] == [2, 3]
    assert all(each["lastObservedTime"].endswith("Z") for each in series)
    assert len(api.objects[PATH]) == 1


def test_something_else_is_an_event_of_its_own(api: FakeApi, recorder: EventRecorder) -> None:
    say(recorder, api)
    say(recorder, api, Note(type="Normal", reason="Ready", action="Reconcile", text="well"))
    assert sent(api) == ["POST", "POST"]


def test_after_a_long_silence_a_series_is_over(api: FakeApi, recorder: EventRecorder, clock: Clock) -> None:
    say(recorder, api)
    clock.now += SERIES_SECONDS + 1
    say(recorder, api)
    assert sent(api) == ["POST", "POST"]


def test_an_event_that_is_gone_is_created_again(api: FakeApi, recorder: EventRecorder) -> None:
    say(recorder, api)
    wait_for(lambda: api.objects[PATH], 60, "it exists")
    api.delete(PATH, next(iter(api.objects[PATH])))
    recorder.record(SHOP, FAILED)
    recorder.stop(5)
    assert sent(api) == ["POST", "PATCH", "POST"]


def test_stopping_sends_what_waits(api: FakeApi, recorder: EventRecorder) -> None:
    for number in range(20):
        recorder.record(SHOP, Note(type="Normal", reason="Ready", action="Reconcile", text=str(number)))
    recorder.stop(10)
    assert len(api.objects[PATH]) == 20


def test_missing_rights_are_told_once(api: FakeApi, recorder: EventRecorder, caplog: pytest.LogCaptureFixture) -> None:
    api.faults += [Fault(403), Fault(403)]
    say(recorder, api)
    say(recorder, api)
    recorder.stop(5)
    assert [each.levelno for each in caplog.records if each.message == "Event not sent"] == [logging.WARNING]


def test_control_characters_are_written_out(api: FakeApi, recorder: EventRecorder) -> None:
    say(recorder, api, Note(type="Warning", reason="Failed", action="Reconcile", text="a\x1b[2J\u202eb"))
    assert json.loads(api.received[0].body)["note"] == "a\\u001b[2J\\u202eb"
