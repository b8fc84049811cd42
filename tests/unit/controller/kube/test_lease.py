from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import pytest

from rukpak.controller.kube.client import Fence, read_clock
from rukpak.controller.kube.lease import LEASES, LONGEST_DURATION, Election, LeaseTimes
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.processes.supervision import Supervisor
from tests.support.clock import Clock
from tests.support.fake_api import FakeApi, Fault

PATH = LEASES.path("system")
NAMESPACES = "/api/v1/namespaces"
TIMES = LeaseTimes(duration=20, renew=12, retry=0.02)
"""So long that nobody loses a Lease because the machine is busy."""
SHORT = LeaseTimes(duration=0.6, renew=0.4, retry=0.02)
"""To wait for the end of."""


class Candidate:
    """One process that takes part; it ends with the test."""

    started: ClassVar[list[Candidate]] = []

    def __init__(
        self,
        api: FakeApi,
        identity: str,
        times: LeaseTimes = TIMES,
        *,
        end: Callable[[str], None] = pytest.fail,
        clock: Callable[[], float] = read_clock,
    ) -> None:
        self.elected, self.lost = threading.Event(), threading.Event()
        self.fence = Fence(clock)
        client = api.client()
        self.restored = threading.Event()
        client.on_restored = self.restored.set
        client.supervisor = Supervisor(end=end, sleep=lambda _: None)
        self.election = Election(
            client=client,
            namespace="system",
            name="rukpak",
            identity=identity,
            times=times,
            fence=self.fence,
            on_elected=self.elected.set,
            on_lost=self.lost.set,
            clock=clock,
        )
        self.election.start()
        self.started.append(self)

    def is_writing(self) -> bool:
        return self.fence.seconds_left() > 0


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(PATH, NAMESPACES) as served:
        yield served
        served.frozen.clear()
        for candidate in Candidate.started:
            candidate.election.stop(0)
            candidate.election._thread.join(60)
        Candidate.started.clear()


def record(api: FakeApi) -> dict[str, Any]:
    spec: dict[str, Any] = api.objects[PATH]["rukpak"]["spec"]
    return spec


def hold(api: FakeApi, **spec: Any) -> None:
    put(api, {"holderIdentity": "other", "leaseDurationSeconds": 2, "acquireTime": "then", **spec})


def put(api: FakeApi, spec: dict[str, Any]) -> None:
    kind = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
    api.put(PATH, "rukpak", about={"namespace": "system"}, spec=spec, **kind)


def test_one_of_two_leads_and_the_other_may_not_write(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    first = Candidate(api, "a")
    assert first.elected.wait(60)
    second = Candidate(api, "b")
    wait_for(lambda: record(api)["renewTime"] != record(api)["acquireTime"], 60, "the Lease is renewed")
    wait_for(lambda: second.election.follows and "waiting for the Lease" in caplog.messages, 60, "the other has looked")
    assert first.is_writing()
    assert not second.is_writing()
    assert not second.elected.is_set()
    assert record(api)["holderIdentity"] == "a"
    assert [vars(each)["holder"] for each in caplog.records if each.message == "waiting for the Lease"] == ["a"]


def test_who_exits_hands_over_at_once(api: FakeApi) -> None:
    patient = LeaseTimes(duration=60, renew=40, retry=15)
    first = Candidate(api, "a", patient)
    assert first.elected.wait(60)
    second = Candidate(api, "b", patient)
    wait_for(lambda: api.watches() >= 1 and second.election._lease, 60, "the candidate has looked")
    first.election.stop(1.0)
    assert not first.is_writing()
    assert second.elected.wait(patient.retry - 1)
    assert (first.election.follows, second.election.follows) == (False, True)
    assert record(api)["leaseTransitions"] == 1


def test_while_a_write_is_under_way_nothing_is_handed_over(api: FakeApi) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    with candidate.fence.admit():
        candidate.election.stop(0.05)
    assert record(api)["holderIdentity"] == "a"


def test_a_silent_api_server_makes_a_leader_give_up_before_others_may_begin(api: FakeApi) -> None:
    candidate = Candidate(api, "a", SHORT)
    assert candidate.elected.wait(60)
    api.frozen.set()
    assert candidate.fence.seconds_left() <= SHORT.renew < SHORT.duration
    assert candidate.lost.wait(60)
    assert not candidate.is_writing()


def test_the_time_of_a_leader_counts_from_when_the_write_was_sent(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    candidate.election.stop(0)
    candidate.election._thread.join(60)
    election, now, opened = candidate.election, [1000.0], list[float]()
    send = election._client.request

    def request(*args: Any, **options: Any) -> Any:
        try:
            return send(*args, **options)
        finally:
            now[0] += 0.5  # the reply takes its time

    def lead(until: float) -> None:
        opened.append(until)
        election._stopping.set()

    election._stopping.clear()
    election._clock = lambda: now[0]
    monkeypatch.setattr(election._client, "request", request)
    monkeypatch.setattr(candidate.fence, "open_until", lead)
    election._run()
    # The write that conflicts with the release, a read, and the write that is the last of them.
    assert opened == [1000.0 + 2 * 0.5 + TIMES.renew]


def test_a_leader_stays_one_if_each_reply_takes_almost_half_of_its_time(api: FakeApi) -> None:
    def replies() -> int:
        return sum("watch" not in each.query for each in list(api.received))

    # Time passes only while a reply is waited for.
    candidate = Candidate(api, "a", clock=lambda: 0.45 * TIMES.renew * replies())
    assert candidate.elected.wait(60)
    before = replies()
    wait_for(lambda: replies() >= before + 6, 60, "renewals")
    assert not candidate.lost.is_set()
    assert candidate.is_writing()


def test_a_lease_taken_by_force_is_noticed(api: FakeApi) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    hold(api)
    assert candidate.lost.wait(60)
    assert not candidate.is_writing()


def test_another_process_of_the_same_identity_is_noticed(api: FakeApi) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    hold(api, holderIdentity="a")
    assert candidate.lost.wait(60)


def test_the_lease_of_a_dead_leader_is_taken_one_duration_after_it_was_seen_to_change(api: FakeApi) -> None:
    # A shorter duration of its own does not count.
    hold(api, renewTime="2001-01-01T00:00:00.000000Z", leaseDurationSeconds=1)
    check_it_is_taken_after(TIMES.duration, api)


def test_a_longer_duration_of_the_holder_counts(api: FakeApi) -> None:
    hold(api, leaseDurationSeconds=60)
    check_it_is_taken_after(60, api)


def check_it_is_taken_after(seconds: float, api: FakeApi) -> None:
    """Check that a candidate that looks all the time takes the Lease of another one then, and not before."""
    clock = Clock()
    candidate = Candidate(api, "a", clock=clock)
    wait_for(lambda: candidate.election.follows, 60, "the candidate has looked")
    clock.now += seconds - 1
    before = len(api.received)
    wait_for(lambda: len(api.received) > before + 3, 60, "the candidate has looked again")
    assert not candidate.elected.is_set()
    clock.now += 1
    assert candidate.elected.wait(60)


def test_extreme_values_in_a_record_exclude_no_one(api: FakeApi) -> None:
    hold(api, leaseDurationSeconds=2**31 - 1, leaseTransitions=2**31 - 1)
    candidate = Candidate(api, "a")
    wait_for(lambda: candidate.election.follows, 60, "the candidate has looked")
    candidate.election._clock = lambda: read_clock() + LONGEST_DURATION
    assert candidate.elected.wait(60)
    assert record(api)["leaseTransitions"] == 2**31 - 1


@pytest.mark.parametrize("odd", ["forever", None, [30], True])
def test_numbers_of_a_record_that_are_none_count_as_absent(odd: Any, api: FakeApi) -> None:
    hold(api, leaseDurationSeconds=odd, leaseTransitions=odd)
    check_it_is_taken_after(TIMES.duration, api)


def test_the_successor_of_a_process_with_the_same_identity_need_not_wait(api: FakeApi) -> None:
    hold(api, holderIdentity="a", leaseTransitions=3)
    candidate = Candidate(api, "a", LeaseTimes(duration=60, renew=40, retry=15))
    assert candidate.elected.wait(60)
    assert record(api)["leaseTransitions"] == 3
    assert not candidate.election.follows


def test_a_lease_that_was_released_is_free(api: FakeApi) -> None:
    hold(api, holderIdentity="", leaseDurationSeconds=1)
    assert Candidate(api, "a", LeaseTimes(duration=60, renew=40, retry=15)).elected.wait(60)


def test_a_lease_that_was_deleted_is_made_again(api: FakeApi) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    api.delete(PATH, "rukpak")
    wait_for(lambda: "rukpak" in api.objects[PATH], 60, "the Lease exists again")
    assert not candidate.lost.is_set()


def test_a_renewal_whose_reply_was_lost_is_no_loss(api: FakeApi) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    put(api, {**record(api), "renewTime": "later"})
    wait_for(lambda: record(api)["renewTime"] != "later", 60, "the Lease is renewed")
    assert not candidate.lost.is_set()


def test_a_missing_namespace_is_made(api: FakeApi) -> None:
    api.faults += [Fault(404), Fault(404)]  # read, create; the watch of the Lease may take one of them
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)


def encoded(**changes: Any) -> bytes:
    metadata = {"name": "rukpak", "namespace": "system", "resourceVersion": "1"}
    spec = {"holderIdentity": "a", "acquireTime": "then"}
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
    return json.dumps({**lease, **changes}).encode()


FOREIGN = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a page of a proxy": b"<html>",
    "another kind": encoded(kind="ConfigMap"),
    "another version": encoded(apiVersion="v1"),
    "the Lease of another name": encoded(metadata={"name": "x", "namespace": "system", "resourceVersion": "1"}),
    "the Lease of another namespace": encoded(metadata={"name": "rukpak", "namespace": "x", "resourceVersion": "1"}),
    "a Lease without a version": encoded(metadata={"name": "rukpak", "namespace": "system"}),
    "a Lease with an odd version": encoded(metadata={"name": "rukpak", "namespace": "system", "resourceVersion": 1}),
    "metadata that is no object": encoded(metadata="rukpak"),
    "a spec that is no object": encoded(spec=["holderIdentity"]),
    "another client's write": encoded(spec={"holderIdentity": "b", "acquireTime": "then"}),
}
ANY_TIME = "another client's write"
"""A valid reply to a read."""


@pytest.mark.parametrize("body", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_leader_stays_one_after_a_renewal_with_a_foreign_reply(body: bytes, api: FakeApi) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    wait_for(lambda: not candidate.election._watch._thread.is_alive(), 60, "only the Lease is requested")
    api.faults += [Fault(200, body=body)] * 3
    wait_for(lambda: candidate.election.last_error is not None, 60, "the reply is an error")
    renewed = record(api)["renewTime"]
    wait_for(lambda: record(api)["renewTime"] != renewed and not candidate.election.last_error, 60, "it is renewed")
    assert candidate.election.alive
    assert not candidate.lost.is_set()


@pytest.mark.parametrize("name", sorted(FOREIGN.keys() - {ANY_TIME}))
def test_a_candidate_with_a_foreign_reply_tries_again_and_does_not_lead(name: str, api: FakeApi) -> None:
    hold(api)
    candidate = Candidate(api, "a", LeaseTimes(duration=60, renew=40, retry=0.02))
    wait_for(lambda: api.watches() >= 1 and candidate.election._lease, 60, "the candidate has looked")
    api.faults += [Fault(200, body=FOREIGN[name])] * 3
    wait_for(lambda: candidate.election.last_error is not None, 60, "the reply is an error")
    wait_for(lambda: candidate.election.last_error is None, 60, "the Lease is read again")
    assert candidate.election.alive
    assert not candidate.elected.is_set()


def test_a_lease_that_cannot_be_understood_for_long_is_lost(api: FakeApi) -> None:
    clock = Clock()
    candidate = Candidate(api, "a", clock=clock)
    assert candidate.elected.wait(60)
    api.faults += [Fault(200, body=b"")] * 100_000
    wait_for(lambda: candidate.election.last_error is not None, 60, "the reply is an error")
    assert not candidate.lost.is_set()
    clock.now += TIMES.renew
    assert candidate.lost.wait(60)
    assert not candidate.is_writing()


def test_a_thread_of_the_election_that_dies_ends_the_process(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def die(_: Election) -> bool:
        raise ZeroDivisionError

    ended = list[str]()
    monkeypatch.setattr(Election, "_acquire_or_renew", die)
    candidate = Candidate(api, "a", end=ended.append)
    candidate.election._thread.join(60)
    assert ended == ["thread election died once, most recently of ZeroDivisionError"]
    assert not candidate.election.alive


def test_an_unchanged_failure_is_said_once(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    del api.objects[PATH]
    candidate = Candidate(api, "a")
    wait_for(lambda: len(api.received) > 12, 60, "several attempts")
    assert not candidate.elected.is_set()
    assert sum(each.message == "Lease not available" for each in caplog.records) == 1
    api.objects[PATH] = {}
    assert candidate.elected.wait(60)


class Case(NamedTuple):
    name: str
    times: LeaseTimes
    expect: str


CASES = [
    Case("the defaults", LeaseTimes(), ""),
    Case("a leader that gives up too late", LeaseTimes(duration=10, renew=10), "the lease duration must be longer"),
    Case("no time for a second try", LeaseTimes(renew=2, retry=2), "the renew deadline must be longer"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_times_that_go_together(case: Case) -> None:
    assert case.times.problem().startswith(case.expect)
    assert bool(case.times.problem()) == bool(case.expect)


def test_a_lease_that_is_older_than_known_tells_that_the_cluster_was_restored(api: FakeApi) -> None:
    candidate = Candidate(api, "a")
    assert candidate.elected.wait(60)
    wait_for(lambda: api.version > 5, 60, lambda: "it is renewed")
    assert not candidate.restored.is_set()
    with api._changed:
        lease = api.objects[PATH]["rukpak"]
        api.objects[PATH]["rukpak"] = {**lease, "metadata": {**lease["metadata"], "resourceVersion": "2"}}
        api.version += 200
    assert candidate.restored.wait(60)
    wait_for(lambda: api.objects[PATH]["rukpak"]["metadata"]["resourceVersion"] != "2", 60, lambda: "it is renewed")
    assert candidate.is_writing()
