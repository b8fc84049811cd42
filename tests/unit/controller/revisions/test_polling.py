from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin, Spec
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.request import BuildContext, Pins, Resolved, spec_digest
from rukpak.controller.retries import Retries
from rukpak.controller.revisions.background import BackgroundWork, Place
from rukpak.controller.revisions.polling import PURPOSE, Poller, PollState
from rukpak.controller.revisions.source_access import SourceAccess, SourceProgress
from tests.support.deployments import deployment

START = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MINUTE = 60.0


def image(name: str, interval: str = "1m") -> dict[str, Any]:
    return {"kind": "image", "destination": name, "pollInterval": interval, "image": {"ref": f"x.io/{name}:v1"}}


class Office:
    """A poller over sources whose digests a test sets; time stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = START.timestamp()
        self.ahead = 0.0
        """How far the clock of the machine was set by somebody."""
        self.digests: dict[str, str | BundleError] = {}
        """By destination; what is not there is as it was."""
        self.validator = ""
        """Of what a source brings."""
        self.asked: list[str] = []
        self.previous: list[Pins] = []
        self.cancelled: list[str] = []
        self.busy = False
        self.retries = Retries(lambda: self.seconds, jitter=lambda: 1.0)
        self.memory = PollState(retries=self.retries)
        self.poller = Poller(
            cast("Builder", self),
            cast("BackgroundWork", self),
            cast("SourceAccess", self),
            clock=lambda: self.seconds + self.ahead,
            now=lambda: self.seconds,
        )

    # what stands for a Builder, BackgroundWork and a SourceAccess

    def resolve(self, spec: Spec, pins: Pins, cancelled: threading.Event, build_context: BuildContext) -> Resolved:
        found: list[SourcePin | None] = []
        failure = None
        for index, (source, known) in enumerate(zip(spec.sources, pins, strict=True)):
            answer = self.digests.get(source.target, OLD)
            if known is None:
                self.asked.append(source.target)
                self.previous.append(build_context.previous)
            if known is None and isinstance(answer, BundleError):
                failure = answer
                found.append(None)
            else:
                found.append(known or self.pin(spec, index, str(answer)))
        return Resolved(pins=tuple(found), failure=failure)

    def take(self, name: str, ticket: str, work: Callable[[threading.Event], Any], place: Place) -> Any:
        assert (place.purpose, place.later) == (PURPOSE, True)
        return None if self.busy else work(threading.Event())

    def cancel(self, name: str, *purposes: str) -> None:
        self.cancelled.extend(purposes)

    def build_context(self, deployment: BundleDeployment, progress: SourceProgress) -> BuildContext:
        return BuildContext()

    # what a test does

    def pin(self, spec: Spec, index: int, digest: str) -> SourcePin:
        source = spec.sources[index]
        return SourcePin(
            destination=source.target,
            kind=source.kind,
            resolved=f"x@{digest}",
            digest=digest,
            spec_digest=spec_digest(source),
            origin="v1:origin",
            resolved_at=datetime.fromtimestamp(self.seconds, UTC),
            validator=self.validator,
        )

    def make(self, *sources: dict[str, Any], generation: int = 1, handled: str = "", **spec: Any) -> BundleDeployment:
        """Return a BundleDeployment whose sources are all resolved now."""
        listed = list(sources) or [image("a")]
        made = deployment(spec={"sources": listed, **spec}, metadata={"generation": generation})
        pins = tuple(self.pin(made.spec, index, OLD) for index in range(len(listed)))
        status = made.status.model_copy(update={"sources": pins, "last_handled_reconcile_at": handled})
        return made.model_copy(update={"status": status})

    def poll(self, known: BundleDeployment) -> list[str] | None:
        """Return the digests of the pins that the poll has brought."""
        pins = self.poller.poll(known, self.memory)
        return [pin.digest for pin in pins] if pins else None

    def wait(self, known: BundleDeployment) -> float | None:
        return self.poller.seconds_to_next(known, self.memory)

    def fail(self, name: str, reason: Reason = Reason.UNREACHABLE) -> None:
        self.digests[name] = BundleError(reason, f"spec.sources: {name}")


@pytest.fixture
def office() -> Office:
    return Office()


class Due(NamedTuple):
    name: str
    sources: list[dict[str, Any]]
    spec: dict[str, Any]
    seconds: float
    expect: list[str]


DUE = [
    Due("before its time nothing is asked", [image("a")], {}, 50, []),
    Due("at its time it is", [image("a")], {}, 70, ["a"]),
    Due("never without an interval", [image("a", "")], {}, 1e6, []),
    Due("only what is due", [image("a", "1h"), image("b"), image("c", "")], {}, 70, ["b"]),
    Due("all that is due, at once", [image("a"), image("b")], {}, 70, ["a", "b"]),
    Due("nothing while paused", [image("a")], {"paused": True}, 1e6, []),
]


@pytest.mark.parametrize("case", DUE, ids=attrgetter("name"))
def test_what_is_asked(case: Due, office: Office) -> None:
    known = office.make(*case.sources, **case.spec)
    office.seconds += case.seconds
    assert office.poll(known) is None
    assert office.asked == case.expect
    assert len(office.previous) == len(case.expect)
    assert all(pin and pin.digest == OLD for pins in office.previous for pin in pins)


def test_what_is_not_resolved_yet_is_not_polled(office: Office) -> None:
    known = office.make()
    office.seconds += 1e6
    assert office.poll(known.model_copy(update={"status": known.status.model_copy(update={"sources": ()})})) is None
    assert office.asked == []


def test_it_is_due_about_an_interval_after_it_was_asked_and_not_for_all_at_once(office: Office) -> None:
    waits = []
    for number in range(20):
        known = office.make()
        metadata = known.metadata.model_copy(update={"uid": f"uid-{number}"})
        waits.append(office.wait(known.model_copy(update={"metadata": metadata})))
    assert all(wait is not None and 0.9 * MINUTE <= wait <= 1.1 * MINUTE for wait in waits)
    assert len(set(waits)) > 10


@pytest.mark.parametrize("jump", [-86_400, 86_400], ids=["back", "ahead"])
@pytest.mark.parametrize("asked", [False, True], ids=["before it was asked", "after it was asked"])
def test_a_clock_that_is_set_moves_no_poll(office: Office, jump: float, asked: bool) -> None:
    known = office.make()
    first = office.wait(known)
    if asked:
        office.seconds += 100
        office.poll(known)
    office.ahead, office.seconds = jump, office.seconds + 10
    wait = office.wait(known)
    assert first is not None
    assert wait == pytest.approx(first - 10)


def test_one_that_has_not_changed_is_asked_again_an_interval_later(office: Office) -> None:
    known = office.make()
    first = office.wait(known)
    office.seconds += 100
    assert office.poll(known) is None
    assert office.wait(known) == first
    assert office.poll(known) is None
    assert office.asked == ["a"]


def test_a_new_tag_of_the_same_content_is_asked_with_and_written_nowhere(office: Office) -> None:
    known = office.make()
    office.validator = '"2"'
    for _ in range(2):
        office.seconds += 100
        assert office.poll(known) is None
    assert [pin.validator for pins in office.previous for pin in pins if pin] == ["", '"2"']


def test_one_that_has_changed_brings_all_pins(office: Office) -> None:
    known = office.make(image("a"), image("b"), image("c", ""))
    office.digests["b"] = NEW
    office.seconds += 70
    assert office.poll(known) == [OLD, NEW, OLD]


def test_while_it_goes_on_nothing_changes_and_nothing_is_due(office: Office) -> None:
    known = office.make()
    office.digests["a"] = NEW
    office.seconds += 70
    office.busy = True
    assert office.poll(known) is None
    assert office.wait(known) is None
    office.busy = False
    assert office.poll(known) == [NEW]


# failures


def test_a_failure_is_kept_and_tried_again_as_its_class_says(office: Office) -> None:
    known = office.make()
    office.fail("a")
    office.seconds += 70
    tried = []
    for second in range(16):
        office.poll(known)
        tried.append(len(office.asked))
        office.seconds += 1
        assert office.memory.failure is not None
        assert second == 0 or office.wait(known) is not None
    assert [second for second in range(1, 16) if tried[second] > tried[second - 1]] == [1, 3, 7, 15]


def test_what_only_another_content_mends_is_looked_at_when_it_is_due_again(office: Office) -> None:
    known = office.make()
    office.fail("a", Reason.AMBIGUOUS_REFERENCE)
    office.seconds += 70
    office.poll(known)
    assert office.wait(known) == MINUTE
    office.digests["a"] = NEW
    office.seconds += MINUTE
    assert office.poll(known) == [NEW]
    assert office.memory.failure is None


def test_one_that_answers_is_taken_although_another_fails(office: Office) -> None:
    known = office.make(image("a"), image("b"))
    office.fail("a")
    office.digests["b"] = NEW
    office.seconds += 70
    assert office.poll(known) == [OLD, NEW]
    assert office.memory.failure is not None


def test_success_ends_the_failure(office: Office) -> None:
    known = office.make()
    office.fail("a")
    office.seconds += 70
    office.poll(known)
    office.digests.clear()
    office.seconds += 10
    assert office.poll(known) is None
    assert office.memory.failure is None
    assert office.retries.seconds_to_next() is None


class Ended(NamedTuple):
    name: str
    change: dict[str, Any]


ENDED = [
    Ended("another spec", {"generation": 2}),
    Ended("a new resolution", {"handled": "now"}),
]


@pytest.mark.parametrize("case", ENDED, ids=attrgetter("name"))
def test_what_ends_a_failure_and_a_poll_that_goes_on(case: Ended, office: Office) -> None:
    office.fail("a")
    known = office.make()
    office.seconds += 70
    office.poll(known)
    office.seconds += 10
    office.busy = True
    office.poll(known)
    assert office.poll(office.make(**case.change)) is None
    assert office.memory.failure is None
    assert office.memory.active is None
    assert office.cancelled == [PURPOSE]
    assert office.wait(office.make(**case.change)) is not None


def test_a_pause_cancels_a_poll_that_goes_on(office: Office) -> None:
    known = office.make()
    office.seconds += 70
    office.busy = True
    office.poll(known)
    office.poll(known.model_copy(update={"spec": known.spec.model_copy(update={"paused": True})}))
    assert office.cancelled == [PURPOSE]


def test_rest_forgets_everything(office: Office) -> None:
    known = office.make()
    office.fail("a")
    office.seconds += 70
    office.poll(known)
    office.poller.stop(known, office.memory)
    assert office.memory.failure is None
    assert office.retries.seconds_to_next() is None


@pytest.mark.parametrize("reason", [Reason.QUARANTINED, Reason.INTERNAL_ERROR])
def test_a_poll_that_could_not_run_has_failed_and_is_retried_later(
    reason: Reason, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = BundleError(reason, "no")

    def refuse(*_: object) -> None:
        raise failure

    known = office.make(image("a"))
    office.seconds += 2 * MINUTE
    with monkeypatch.context() as patched:
        patched.setattr(office, "take", refuse)
        assert office.poll(known) is None
    assert office.memory.failure is failure
    assert (office.wait(known) or 0) > 0
    office.seconds += 10 * MINUTE
    office.digests["a"] = NEW
    assert office.poll(known) == [NEW]
    assert office.memory.failure is None
