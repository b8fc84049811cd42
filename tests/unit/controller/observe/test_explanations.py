from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.explanations import (
    AGAIN_SECONDS,
    ANSWER_BYTES,
    EVENTS,
    FEW_PODS,
    MOST,
    PODS,
    SELDOM_SECONDS,
    Explainer,
    Inquiries,
    Question,
    may_explain,
)
from rukpak.controller.observe.health.explain import MAY_NOT_LIST_EVENTS
from rukpak.controller.observe.health.verdict import State, Verdict
from rukpak.controller.observe.records import Record
from rukpak.controller.playground.processes import wait_for
from tests.support.fake_api import FakeApi, Fault

POD_PATH = "/api/v1/namespaces/shop/pods"
EVENT_PATH = "/api/v1/namespaces/shop/events"
ROLLING = Verdict(State.PROGRESSING, "LessAvailable", "Available: 0/1")
GIVEN_UP = Verdict(State.FAILED, "ProgressDeadlineExceeded", "no progress")


def workload(name: str = "web", verdict: Verdict = ROLLING) -> Record:
    return Record(key=ObjectKey("apps", "Deployment", "shop", name), verdict=verdict, pods="app=web")


class World:
    """An explainer of a small API server, and the time."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.now, self.woken = api, 1000.0, 0
        self._told = threading.Condition()
        self.inquiries = Inquiries()
        self.explainer = Explainer(api.client(), self._wake, clock=lambda: self.now, workers=1)

    def _wake(self, name: str) -> None:
        with self._told:
            self.woken += name == "shop"

    def pod(self, reason: str) -> None:
        status = {"name": "main", "restartCount": 2, "state": {"waiting": {"reason": reason}}}
        self.api.put(POD_PATH, "web-1", status={"phase": "Pending", "containerStatuses": [status]})

    def event(self, reason: str, said: str) -> None:
        self.api.put(EVENT_PATH, reason.lower(), reason=reason, message=said, lastTimestamp="2026-11-28T06:00:00Z")

    def ask(self, *troubled: Record, most: float = SELDOM_SECONDS) -> float | None:
        """Ask, and wait until all that was asked is answered."""
        questions = [Question(record=record, most=most) for record in troubled or [workload()]]
        found = self.explainer.explain("shop", self.inquiries, questions)
        self.explainer._pool.submit(lambda: None).result(10)
        return found

    def verdict(self, *troubled: Record) -> Verdict | None:
        """Ask, and return what is known of the first."""
        records: Sequence[Record] = troubled or [workload()]
        self.ask(*records)
        answer = self.inquiries.answer_on(records[0].key)
        return answer.verdict if answer else None

    def answer(self, *troubled: Record) -> str:
        """Return what is known of the first, asking nothing new at this time."""
        verdict = self.verdict(*troubled)
        return f"{verdict.state.value} {verdict.reason}" if verdict else ""

    @property
    def asked(self) -> int:
        return sum(request.method == "GET" for request in self.api.received)


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi(POD_PATH, EVENT_PATH) as api:
        made = World(api)
        yield made
        made.explainer.stop()


def test_the_pods_of_a_workload_are_listed_once_and_the_answer_is_news(world: World) -> None:
    world.pod("ImagePullBackOff")
    assert world.ask() == AGAIN_SECONDS
    assert world.answer() == "Progressing ImagePullBackOff"
    (request,) = world.api.received
    assert (request.path, request.query) == (POD_PATH, {"labelSelector": "app=web", "limit": str(PODS)})
    assert world.woken == 1


def test_an_answer_is_known_without_waiting_for_it(world: World) -> None:
    world.api.frozen.set()
    world.explainer.explain("shop", world.inquiries, [Question(record=workload())])
    assert world.inquiries.answer_on(workload().key) is None
    world.pod("CrashLoopBackOff")
    world.api.frozen.clear()
    wait_for(lambda: world.woken, 60, "woken")
    assert world.answer() == "Failed CrashLoopBackOff"


def test_it_asks_again_after_half_a_minute_and_more_and_more_seldom_while_nothing_changes(world: World) -> None:
    world.pod("ImagePullBackOff")
    times = []
    for _ in range(1500):
        before = world.asked
        world.ask()
        if world.asked > before:
            times.append(world.now - 1000)
        world.now += 1
    assert times == [0, 30, 90, 210, 450, 750, 1050, 1350]
    assert SELDOM_SECONDS == 300
    assert world.woken == 1


def test_another_answer_is_news_and_brings_the_next_sooner(world: World) -> None:
    world.pod("ErrImagePull")
    world.ask()
    world.now += AGAIN_SECONDS
    world.pod("CrashLoopBackOff")
    world.ask()
    assert (world.answer(), world.woken) == ("Failed CrashLoopBackOff", 2)
    assert world.ask() == AGAIN_SECONDS


def test_another_verdict_on_the_workload_asks_again_but_not_sooner(world: World) -> None:
    moved = replace(workload(), verdict=Verdict(State.PROGRESSING, "LessAvailable", "Available: 1/2"))
    world.ask()
    world.now += AGAIN_SECONDS
    world.ask()
    world.now += AGAIN_SECONDS - 1
    world.ask(moved)
    assert world.asked == 2
    world.now += 1
    world.ask()
    assert world.asked == 2
    world.ask(moved)
    assert world.asked == 3


def test_after_a_first_request_that_explains_nothing_the_next_is_not_later(world: World) -> None:
    world.ask()
    world.now += AGAIN_SECONDS
    world.pod("ImagePullBackOff")
    world.ask()
    assert (world.answer(), world.asked) == ("Progressing ImagePullBackOff", 2)


def test_about_what_was_given_up_it_asks_once(world: World) -> None:
    world.pod("CrashLoopBackOff")
    late = workload(verdict=GIVEN_UP)
    world.ask(late)
    world.now += 10 * SELDOM_SECONDS
    assert world.answer(late) == "Failed CrashLoopBackOff"
    assert world.asked == 1
    assert world.ask(late) is None


def test_of_many_workloads_a_few_are_asked_about_at_a_time_and_the_others_in_their_turn(world: World) -> None:
    many = [workload(f"web-{number}") for number in range(2 * MOST)]
    assert world.ask(*many) == AGAIN_SECONDS
    assert world.asked == MOST
    world.ask(*many)
    assert world.asked == MOST
    world.now += AGAIN_SECONDS
    world.ask(*many)
    assert set(world.inquiries.known) == {each.key for each in many}


def test_what_is_well_again_makes_no_room_for_more_questions(world: World) -> None:
    world.ask(*[workload(f"web-{number}") for number in range(MOST)])
    world.ask(*[workload(f"other-{number}") for number in range(MOST)])
    assert world.asked == MOST
    world.now += AGAIN_SECONDS
    world.ask()
    assert world.asked == MOST + 1


def test_what_is_well_again_is_forgotten(world: World) -> None:
    world.pod("CrashLoopBackOff")
    world.ask()
    assert world.explainer.explain("shop", world.inquiries, []) is None
    assert not world.inquiries.known
    world.now += AGAIN_SECONDS
    world.explainer.explain("shop", world.inquiries, [])
    assert not world.inquiries.asked
    assert (world.asked, world.answer(), world.asked) == (1, "Failed CrashLoopBackOff", 2)


def test_without_permission_to_list_pods_nothing_is_known_and_no_pass_is_woken(world: World) -> None:
    world.api.faults = [Fault(403)]
    world.ask()
    assert (world.answer(), world.woken) == ("", 0)


STARTING = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
VOLUME = 'MountVolume.SetUp failed for volume "v" : configmap "missing" not found'
POD = Record(key=ObjectKey("", "Pod", "shop", "web-1"), verdict=Verdict(State.PROGRESSING, "PodPending", "waits"))


def selected(uid: str) -> dict[str, str]:
    return {"fieldSelector": f"involvedObject.uid={uid}", "limit": str(EVENTS)}


def test_a_pod_whose_status_does_not_say_why_is_explained_by_its_events(world: World) -> None:
    world.api.put(POD_PATH, "web-1", uid="one", status=STARTING)
    world.event("FailedMount", VOLUME)
    world.ask()
    assert world.verdict() == Verdict(State.PROGRESSING, "FailedMount", VOLUME)
    assert [(each.path, each.query) for each in world.api.received] == [
        (POD_PATH, {"labelSelector": "app=web", "limit": str(PODS)}),
        (EVENT_PATH, selected("one")),
    ]


def test_a_bare_pod_is_listed_by_its_name_and_explained_by_its_events(world: World) -> None:
    world.api.put(POD_PATH, "web-0", uid="zero", status={"phase": "Failed"})
    world.api.put(POD_PATH, "web-1", uid="one", status=STARTING)
    world.event("FailedCreatePodSandBox", "no network")
    world.ask(POD)
    assert world.answer(POD) == "Progressing FailedCreatePodSandBox"
    assert [each.query for each in world.api.received] == [
        {"fieldSelector": "metadata.name=web-1", "limit": str(PODS)},
        selected("one"),
    ]


@pytest.mark.parametrize(("status", "hint"), [(403, MAY_NOT_LIST_EVENTS), (500, "")])
def test_without_its_events_a_pod_says_what_it_can(world: World, status: int, hint: str) -> None:
    world.api.put(POD_PATH, "web-1", status=STARTING)
    world.api.faults = [Fault(200, {}, pod_list(STARTING)), Fault(status)]
    world.ask()
    verdict = world.verdict()
    assert verdict
    assert (verdict.reason, verdict.message, verdict.hint) == ("PodPending", "containers are not running yet", hint)


def pod_list(status: dict[str, Any]) -> bytes:
    return json.dumps(
        {"metadata": {}, "items": [{"metadata": {"name": "web-1", "uid": "one"}, "status": status}]}
    ).encode()


@pytest.mark.parametrize(("group", "kind"), [("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job")])
def test_a_workload_without_pods_is_explained_by_its_own_events(world: World, group: str, kind: str) -> None:
    refused = replace(workload(), key=ObjectKey(group, kind, "shop", "web"), uid="set")
    world.event("FailedCreate", "Error creating: no quota")
    world.ask(refused)
    assert world.verdict(refused) == Verdict(State.PROGRESSING, "FailedCreate", "no quota")
    assert world.api.received[-1].query == selected("set")


def test_the_events_of_a_deployment_are_not_asked_since_it_has_conditions(world: World) -> None:
    world.ask(replace(workload(), uid="set"))
    assert [each.path for each in world.api.received] == [POD_PATH]


def test_a_namespace_that_does_not_go_is_read(world: World) -> None:
    condition = {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content has finalizers"}
    world.api.objects["/api/v1/namespaces"] = {}
    world.api.put("/api/v1/namespaces", "shop", status={"conditions": [condition]})
    going = Record(key=ObjectKey("", "Namespace", "", "shop"), deleting=True)
    world.ask(going)
    assert world.answer(going) == "Terminating NamespaceFinalizersRemaining"


DEPLOYMENT, BARE = workload().key, POD.key
EXPLAINABLE: list[tuple[str, dict[str, Any], bool]] = [
    ("a workload in trouble", {"key": DEPLOYMENT, "pods": "app=web"}, True),
    ("an object without pods", {"key": DEPLOYMENT}, False),
    ("an object that is being deleted", {"key": DEPLOYMENT, "deleting": True}, False),
    ("a pod that waits", {"key": BARE, "verdict": POD.verdict}, True),
    ("a pod that is not ready", {"key": BARE, "verdict": Verdict(State.PROGRESSING, "PodNotReady")}, True),
    ("a pod whose status says why", {"key": BARE, "verdict": Verdict(State.PROGRESSING, "ErrImagePull")}, False),
    ("a pod that has no status", {"key": BARE}, False),
]


@pytest.mark.parametrize(("_name", "fields", "expect"), EXPLAINABLE, ids=[name for name, _, _ in EXPLAINABLE])
def test_what_may_be_explained(_name: str, fields: dict[str, Any], expect: bool) -> None:
    assert may_explain(Record(**fields)) is expect


def test_after_the_end_nothing_is_asked_and_a_pass_goes_on(world: World) -> None:
    world.explainer.stop()
    world.explainer.explain("shop", world.inquiries, [Question(record=workload())])
    assert world.inquiries.answer_on(workload().key) is None
    assert not world.api.received


def test_pods_that_are_too_large_are_given_up_in_little_memory_and_the_next_are_explained(world: World) -> None:
    body = b'{"metadata":{},"items":[{"spec":{"tolerations":[' + b"{}," * (100 << 20 >> 2) + b"{}]}}]}"
    world.api.faults = [Fault(200, {}, body), Fault(200, {}, body)]
    tracemalloc.start()
    try:
        world.ask()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * ANSWER_BYTES
    assert [request.query["limit"] for request in world.api.received] == [str(PODS), str(FEW_PODS)]
    assert (world.answer(), world.woken) == ("", 0)
    world.pod("ImagePullBackOff")
    world.ask(workload("other"))
    assert world.answer(workload("other")) == "Progressing ImagePullBackOff"


def test_of_pods_that_are_too_large_together_a_few_are_explained(world: World) -> None:
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    for number in range(PODS):
        spec: dict[str, Any] = {"tolerations": [{}] * (ANSWER_BYTES // 4 // 20)}
        world.api.put(POD_PATH, f"web-{number}", spec=spec, status=status)
    world.ask()
    assert world.answer() == "Progressing ImagePullBackOff"
    assert world.asked == 2
