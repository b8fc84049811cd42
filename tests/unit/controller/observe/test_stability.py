"""A verdict about what was just applied counts once it has held: second by second, with the pods as a node has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.ledger import Left
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.explanations import Inquiries, Question, _Inquiry
from rukpak.controller.observe.health.explain import ends_of, explain, pods_of
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.stability import Answer, reported_of, rollout_of
from rukpak.controller.observe.health.verdict import HEALTHY, Context
from rukpak.controller.observe.kinds import _compare
from rukpak.controller.observe.progress import HealthTracker
from rukpak.controller.observe.records import Record
from tests.unit.controller.observe.health.objects import Manifest, conditioned, manifest

START = 1_800_000_000.0
DEADLINE = 600.0
KEY = ObjectKey("apps", "Deployment", "shop", "web")


def at(seconds: float) -> str:
    """Return a time as the API server writes it."""
    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


def container(name: str = "c", *, probed: bool = False, **fields: Any) -> Manifest:
    return {"name": name, **({"readinessProbe": {"tcpSocket": {"port": 1}}} if probed else {}), **fields}


def workload(
    *containers: Manifest, available: bool = True, image: str = "v1", inits: Sequence[Manifest] = (), **spec: Any
) -> Manifest:
    """Return a Deployment with one replica."""
    found = [{"image": image, **each} for each in containers or (container(),)]
    template = {"spec": {"containers": found, "initContainers": [*inits]}}
    count = 1 if available else 0
    counts = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": count, "availableReplicas": count}
    given = conditioned("apps/v1 Deployment", f"Available={available}", "Progressing=True/NewReplicaSetAvailable")
    status = {**given["status"], **counts, "observedGeneration": 1}
    selector = {"matchLabels": {"app": "web"}}
    wanted = {"replicas": 1, "selector": selector, "template": template, "progressDeadlineSeconds": 600, **spec}
    return {**given, "metadata": {**given["metadata"], "generation": 1}, "spec": wanted, "status": status}


class Ended(NamedTuple):
    """A container that has ended so often, and with this code last."""

    times: int
    code: int = 1
    running: bool = True
    name: str = "c"
    is_init: bool = False


def pod_of(*ends: Ended, created: float = 1.0, template: str = "new") -> Manifest:
    """Return a Pod of the workload."""
    statuses: dict[bool, list[Manifest]] = {True: [], False: []}
    for each in ends:
        last = {"terminated": {"exitCode": each.code, "message": "no database"}}
        running = {"restartCount": each.times, "state": {"running": {}}, **({"lastState": last} if each.times else {})}
        ended = {"restartCount": each.times - 1, "state": last}
        own = running if each.running else ended
        statuses[each.is_init].append({"name": each.name, "ready": each.running, **own})
    inits = [{"name": each.name} for each in ends if each.is_init]
    ready = [{"type": "Ready", "status": str(all(each.running or each.is_init for each in ends))}]
    return {
        "metadata": {"creationTimestamp": at(created), "labels": {"pod-template-hash": template}},
        "spec": {"restartPolicy": "Always", "initContainers": inits},
        "status": {
            "phase": "Running",
            "conditions": ready,
            "containerStatuses": statuses[False],
            "initContainerStatuses": statuses[True],
        },
    }


@dataclass
class World:
    """One workload, its pods, and the second."""

    seconds: float = 0.0
    applied: float = 0.0
    workload: Manifest = field(default_factory=workload)
    pods: Sequence[Manifest] = ()
    asked: list[float] = field(default_factory=list)
    seen: Record | None = None
    tracker: HealthTracker = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, *, confirmed: bool = False) -> None:
        ticks = count()  # a clock never shows the same time twice
        self.seen = None
        self.tracker = HealthTracker(
            now=lambda: 1000 + self.seconds + next(ticks) * 1e-6, clock=lambda: START + self.seconds
        )
        self.tracker.confirmed = confirmed

    def record(self) -> Record:
        """Return what the watch has made of the newest state."""
        verdict = assess(self.workload, Context())
        when = at(self.applied)
        selector, rollout = pods_of(self.workload, verdict), rollout_of(self.workload, when)
        made = Record(key=KEY, applied_digest="d", applied_at=when, verdict=verdict, pods=selector, rollout=rollout)
        self.seen = _compare(self.seen, made) or made
        return self.seen

    def explain(self, inquiries: Inquiries, questions: Sequence[Question]) -> None:
        now = self.tracker.now()
        inquiries.known = {
            q.record.key: inquiries.known[q.record.key] for q in questions if q.record.key in inquiries.known
        }
        for question in questions:
            key = question.record.key
            known = inquiries.known.get(key)
            if known is None or known.due(question) <= now:
                self.asked.append(self.seconds)
                answer = Answer(asked=now, verdict=explain(self.pods), ends=ends_of(self.pods, question.new_since))
                inquiries.known[key] = _Inquiry(
                    about=question.record.verdict, asked=now, waiting=False, pause=30.0, answer=answer
                )

    def look(self) -> str:
        """Return what is shown, after the pass that an answer wakes."""
        shown = ""
        for _ in range(2):
            progress = self.tracker.summarize(
                {KEY: Left("d", "")}, {KEY: self.record()}, "r", DEADLINE, explain=self.explain
            )
            health = progress.health
            shown = health.not_ready[0][1].reason if health.not_ready else "Healthy"
            if health.reason is Reason.FAILED:
                shown = f"Failed {shown}"
        return shown

    def run(self, until: float, *, available: bool = True, pods: Sequence[Manifest] | None = None) -> str:
        """Let time pass in steps of a second, with the workload as it is from now on; return what is shown then."""
        self.workload = {**self.workload, "status": workload(available=available)["status"]}
        self.pods = self.pods if pods is None else pods
        shown = self.look()
        while self.seconds < until:
            self.seconds += 1
            shown = self.look()
        return shown


PROBED, BARE = container(probed=True), container()
FIRST: list[tuple[str, Manifest, float, int]] = [
    # what, the workload, the first second at which it is healthy, LISTs of pods
    ("without a probe it must run for five seconds", workload(BARE), 5, 1),
    ("with a readiness probe it is healthy at once", workload(PROBED), 0, 0),
    ("one container without a probe is enough to wait", workload(PROBED, container("side")), 5, 1),
    ("a startup probe shows the start only", workload(container(startupProbe={"exec": {}})), 5, 1),
    ("a liveness probe is none either", workload(container(livenessProbe={"exec": {}})), 5, 1),
    ("a sidecar counts as a container", workload(PROBED, inits=[container("s", restartPolicy="Always")]), 5, 1),
    ("an init container has no probe, and needs none", workload(PROBED, inits=[container("i")]), 0, 0),
    ("what minReadySeconds has waited counts", workload(BARE, minReadySeconds=3), 2, 1),
    ("all of it may have been waited", workload(BARE, minReadySeconds=30), 0, 1),
]


@pytest.mark.parametrize(("what", "given", "healthy_at", "lists"), FIRST, ids=[each[0] for each in FIRST])
def test_when_a_new_rollout_is_healthy(what: str, given: Manifest, healthy_at: float, lists: int) -> None:
    world = World(workload=given, pods=[pod_of(Ended(0))])
    seen = {}
    for second in range(10):
        world.seconds = float(second)
        seen[second] = world.look()
    assert [second for second, shown in seen.items() if shown == "Healthy"] == [*range(int(healthy_at), 10)]
    assert {shown for shown in seen.values() if shown != "Healthy"} <= {"Stabilizing"}
    assert len(world.asked) == lists


def test_no_pods_have_nothing_to_hold() -> None:
    given = workload(replicas=0)
    given["status"] |= {"replicas": 0, "updatedReplicas": 0}
    world = World(workload=given)
    assert (world.look(), world.asked) == ("Healthy", [])


def test_a_container_that_ends_in_time_is_seen_and_must_stay_for_a_minute() -> None:
    world = World(pods=[pod_of(Ended(0))])
    assert world.run(2) == "Stabilizing"
    assert world.run(3, available=False, pods=[pod_of(Ended(1, running=False))]) != "Healthy"
    assert world.run(62, pods=[pod_of(Ended(1))]) == "ContainerEnded"
    assert world.run(63) == "Healthy"


@pytest.mark.parametrize("runs", [2, 6, 20, 40])
def test_a_container_that_keeps_ending_has_failed_with_its_third_end(runs: int) -> None:
    world = World(pods=[pod_of(Ended(0))])
    shown = []
    for end in (1, 2, 3):
        world.run(world.seconds + runs)
        shown.append(world.run(world.seconds + 1, available=False, pods=[pod_of(Ended(end, running=False))]))
        world.run(world.seconds, pods=[pod_of(Ended(end))])
    assert shown[2] == "Failed CrashLoopBackOff"
    assert not any(each.startswith("Failed") or each == "Healthy" for each in shown[:2])
    assert world.look() == "Failed CrashLoopBackOff"  # it runs again, and is available
    assert world.run(world.seconds + 59).startswith("Failed")
    assert world.run(world.seconds + 2) == "Healthy"


@pytest.mark.parametrize("is_init", [False, True])
def test_the_ends_in_a_workload_that_never_becomes_available_are_counted_to_the_third(is_init: bool) -> None:
    """Only its pods tell: its own status stays as it is."""
    world = World(pods=[])

    def ended(times: int) -> list[Manifest]:
        return [pod_of(Ended(times, running=False, is_init=is_init))]

    assert world.run(25, available=False, pods=ended(2)) == "ContainerEnded"
    assert world.run(31, available=False, pods=ended(3)) == "Failed CrashLoopBackOff"
    before = len(world.asked)
    world.run(600, available=False)
    assert len(world.asked) == before
    assert before <= 4


def test_an_end_counts_although_the_container_runs_again_before_its_pods_are_listed() -> None:
    world = World(pods=[pod_of(Ended(0))])
    world.run(6)
    answering, world.explain = world.explain, lambda *_: None  # type: ignore[method-assign]
    world.run(7, available=False, pods=[pod_of(Ended(1))])
    assert world.run(7) == "Stabilizing"
    world.explain = answering  # type: ignore[method-assign]
    assert world.run(8) == "ContainerEnded"


def test_a_moment_between_two_passes_is_seen_too() -> None:
    world = World(pods=[pod_of(Ended(0))])
    assert world.run(6) == "Healthy"
    world.workload = workload(available=False)
    world.record()
    assert world.run(6, pods=[pod_of(Ended(1))]) == "ContainerEnded"


def test_no_pods_are_listed_because_the_spec_was_changed() -> None:
    world = World(workload=workload(PROBED), pods=[pod_of(Ended(0))])
    assert world.run(6) == "Healthy"
    world.workload = workload(PROBED, replicas=2)
    world.workload["metadata"]["generation"] = 2
    assert (world.look(), world.asked) == ("LatestGenerationNotObserved", [])


def test_after_a_failure_what_is_shown_says_how_the_container_ended() -> None:
    world = World(pods=[pod_of(Ended(3, code=3, running=False))])
    world.run(5)
    ((_, verdict),) = world.tracker.summarize(
        {KEY: Left("d", "")}, {KEY: world.record()}, "r", DEADLINE
    ).health.not_ready
    assert verdict.message == 'container "c" ended with exit code 3: no database'


ENDS: list[tuple[str, Sequence[Manifest], str]] = [
    ("none of the new pods has ended", [pod_of(Ended(0))], "Healthy"),
    ("a pod that was there before is no evidence", [pod_of(Ended(5), created=-100)], "Healthy"),
    ("nor is one of the template before", [pod_of(Ended(5), template="old"), pod_of(Ended(0), created=2)], "Healthy"),
    ("one that is being deleted is gone", [{**pod_of(Ended(5)), "metadata": {"deletionTimestamp": at(2)}}], "Healthy"),
    ("one of many has ended", [pod_of(Ended(0)), pod_of(Ended(1)), pod_of(Ended(0))], "ContainerEnded"),
    ("ends of several are not added up", [pod_of(Ended(1)), pod_of(Ended(1)), pod_of(Ended(1))], "ContainerEnded"),
    ("one that has ended on purpose once or twice", [pod_of(Ended(2, code=0))], "Healthy"),
    ("one that ends on purpose again and again", [pod_of(Ended(3, code=0))], "Failed CrashLoopBackOff"),
    ("an init container that has succeeded", [pod_of(Ended(1, 0, running=False, is_init=True), Ended(0, name="d"))],
     "Healthy"),
    ("one that succeeded after failures", [pod_of(Ended(4, 0, running=False, is_init=True), Ended(0, name="d"))],
     "Healthy"),
    ("a sidecar that has ended", [pod_of(Ended(0), Ended(1, name="side"))], "ContainerEnded"),
    ("no pod is found", [], "Healthy"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "pods", "expect"), ENDS, ids=[each[0] for each in ENDS])
def test_what_the_pods_tell_when_the_time_is_over(what: str, pods: Sequence[Manifest], expect: str) -> None:
    world = World(pods=pods)
    assert world.run(5) == expect
    assert world.asked == [5.0]


def test_the_next_template_is_another_rollout() -> None:
    world = World(pods=[pod_of(Ended(3))])
    assert world.run(5) == "Failed CrashLoopBackOff"
    world.workload, world.applied = workload(image="v2"), 6.0
    world.pods = [pod_of(Ended(0), created=7)]
    assert world.run(9) == "Stabilizing"
    assert world.run(10) == "Healthy"


def test_the_same_template_is_no_new_rollout() -> None:
    world = World(pods=[pod_of(Ended(0))])
    world.run(5)
    world.applied, asked = 6.0, len(world.asked)
    world.workload = {**workload(replicas=3), "status": workload()["status"]}
    assert world.look() == "LessReplicas"  # an autoscaler, or a new revision that changes something else
    world.workload = workload()
    assert (world.look(), len(world.asked)) == ("Healthy", asked + 1)


def test_a_restart_after_a_late_crash_makes_it_no_failed_upgrade_either() -> None:
    world = World(seconds=DEADLINE + 30, pods=[pod_of(Ended(4))])
    world.restart()
    world.tracker.was_healthy = True  # as the history says
    world.run(DEADLINE + 31, available=False)
    assert world.run(DEADLINE + 32) == "Healthy"
    progress = world.tracker.summarize({KEY: Left("d", "")}, {KEY: world.record()}, "r", DEADLINE)
    assert not progress.crashes


def test_a_template_that_is_paused_before_its_first_pod_is_not_healthy() -> None:
    world = World(workload=workload(image="v2", paused=True))
    world.workload["status"]["updatedReplicas"] = 0
    assert world.look() == "DeploymentPaused"
    world.workload["status"]["updatedReplicas"] = 1
    assert world.look() == "Healthy"


def test_how_a_container_has_ended_is_said_until_it_has_recovered() -> None:
    world = World(pods=[pod_of(Ended(1))])
    world.run(5)
    world.run(6, available=False)
    progress = world.tracker.summarize({KEY: Left("d", "")}, {KEY: world.record()}, "r", DEADLINE)
    ((_, verdict),) = progress.health.not_ready
    assert verdict.message == 'container "c" ended with exit code 1: no database; Available: 0/1'


def test_the_deadline_does_not_pass_while_it_has_to_hold() -> None:
    world = World(pods=[pod_of(Ended(0), created=DEADLINE - 3)])
    world.run(DEADLINE - 3, available=False, pods=[])
    assert world.run(DEADLINE + 1, pods=[pod_of(Ended(0), created=DEADLINE - 3)]) == "Stabilizing"
    assert world.run(DEADLINE + 2) == "Healthy"


def test_a_crash_long_after_the_rollout_is_no_failed_upgrade() -> None:
    world = World(pods=[pod_of(Ended(0))])
    world.run(5)
    world.seconds = DEADLINE
    asked = len(world.asked)
    assert world.run(DEADLINE + 10, available=False, pods=[pod_of(Ended(3, running=False))]) == "LessAvailable"
    assert len(world.asked) == asked
    progress = world.tracker.summarize({KEY: Left("d", "")}, {KEY: world.record()}, "r", DEADLINE)
    assert not progress.crashes


@pytest.mark.parametrize("second", [1, 4])
def test_a_restart_within_the_time_begins_it_again(second: float) -> None:
    world = World(pods=[pod_of(Ended(0))])
    world.run(second)
    world.restart()
    assert world.run(second + 4) == "Stabilizing"
    assert world.run(second + 5) == "Healthy"


def test_a_restart_after_it_was_healthy_asks_nothing() -> None:
    world = World(pods=[pod_of(Ended(0))])
    world.run(60)
    world.restart(confirmed=True)
    asked = len(world.asked)
    assert (world.look(), len(world.asked)) == ("Healthy", asked)
    world.run(70)
    world.run(71, available=False, pods=[pod_of(Ended(1, running=False))])
    assert world.run(72, pods=[pod_of(Ended(1))]) == "ContainerEnded"  # still within the deadline of the rollout


def test_a_restart_long_after_the_rollout_asks_nothing_whatever_status_says() -> None:
    world = World(seconds=DEADLINE, pods=[pod_of(Ended(9))])
    assert (world.look(), world.asked) == ("Healthy", [])


def test_pods_that_may_not_be_listed_tell_nothing() -> None:
    world = World()
    world.explain = lambda inquiries, questions: None  # type: ignore[method-assign]
    assert world.run(60) == "Stabilizing"
    key = KEY
    refused = _Inquiry(about=HEALTHY, asked=1000 + world.seconds, waiting=False, answer=Answer(asked=1000 + 60))
    world.tracker.inquiries.known[key] = refused
    assert world.look() == "Healthy"


POD: list[tuple[str, Manifest, str]] = [
    ("one that runs for a moment", pod_of(Ended(0)), "Stabilizing"),
    ("one whose container has ended", pod_of(Ended(1)), "ContainerEnded"),
    ("one whose container keeps ending", pod_of(Ended(3)), "Failed CrashLoopBackOff"),
    ("one that was adopted with old ends", pod_of(Ended(3), created=-50), "Stabilizing"),
]


@pytest.mark.parametrize(("what", "given", "expect"), POD, ids=[each[0] for each in POD])
def test_a_bare_pod_tells_itself(what: str, given: Manifest, expect: str) -> None:
    ready = {**given["status"], "conditions": [{"type": "Ready", "status": "True"}]}
    pod = {**manifest("v1 Pod"), **given, "status": ready, "spec": {"containers": [{"name": "c"}]}}
    world = World(workload=pod)
    assert world.look() == expect
    assert world.asked == []


# custom resources


def base(size: int, ready: str = "", since: float = 0.0, status_at: float | None = None) -> Manifest:
    """Return a custom resource of a controller that does not report observedGeneration."""
    entries = [{"subresource": "status", "time": at(status_at)}] if status_at is not None else []
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": at(since)}] if ready else []
    return {
        "apiVersion": "example.com/v1",
        "kind": "Base",
        "metadata": {"name": "db", "generation": size, "managedFields": entries},
        "spec": {"size": size},
        "status": {"conditions": conditions} if conditions else {},
    }


def see(tracker: HealthTracker, before: Record | None, given: Manifest, applied: float) -> tuple[str, Record]:
    key = ObjectKey("example.com", "Base", "shop", "db")
    verdict = assess(given, Context())
    made = Record(key=key, applied_digest="d", applied_at=at(applied), verdict=verdict, uid="u")
    record = _compare(before, replace(made, reported=reported_of(given, checked=False)))
    assert record is not None
    health = tracker.summarize({key: Left("d", "")}, {key: record}, "r", DEADLINE).health
    return (health.not_ready[0][1].reason if health.not_ready else "Healthy"), record


def test_what_a_status_said_before_the_spec_was_changed_is_no_evidence() -> None:
    now = [0.0]
    tracker = HealthTracker(now=lambda: now[0], clock=lambda: START + now[0])
    shown, record = see(tracker, None, base(1, "True", since=1, status_at=1), applied=0)
    assert shown == "Healthy"
    now[0] = 100
    shown, record = see(tracker, record, base(2, "True", since=1, status_at=1), applied=100)
    assert shown == "StatusOutdated"
    now[0] = 114
    assert see(tracker, record, base(2, "True", since=1, status_at=1), applied=100)[0] == "StatusOutdated"
    now[0] = 115  # its controller may have found that nothing is to be done
    assert see(tracker, record, base(2, "True", since=1, status_at=1), applied=100)[0] == "Healthy"


def test_an_old_failure_is_no_evidence_either() -> None:
    tracker = HealthTracker(now=lambda: 100.0, clock=lambda: START + 100)
    stalled = base(1, "False", since=1, status_at=1)
    stalled["status"]["conditions"].append({"type": "Stalled", "status": "True", "lastTransitionTime": at(1)})
    _, record = see(tracker, None, stalled, applied=0)
    assert see(tracker, record, {**stalled, "spec": {"size": 2}}, applied=100)[0] == "StatusOutdated"


EVIDENCE: list[tuple[str, Manifest, Manifest, str]] = [
    ("any write of the status", base(1, "True", 1, 1), base(2, "True", 1, 101), "StatusOutdated"),
    ("a condition that has changed", base(1, "True", 1), base(2, "True", 102), "Healthy"),
    ("the same spec with other labels", base(1, "True", 1), base(1, "True", 1), "Healthy"),
    ("a first status", base(1), base(2, "True", 102), "Healthy"),
]


@pytest.mark.parametrize(("what", "old", "new", "expect"), EVIDENCE, ids=[each[0] for each in EVIDENCE])
def test_what_is_evidence_about_a_new_spec(what: str, old: Manifest, new: Manifest, expect: str) -> None:
    tracker = HealthTracker(now=lambda: 100.0, clock=lambda: START + 100)
    _, record = see(tracker, None, old, applied=0)
    assert see(tracker, record, new, applied=100)[0] == expect


@pytest.mark.parametrize(("status_at", "expect"), [(50, "StatusOutdated"), (100, "Healthy"), (101, "Healthy")])
def test_after_a_restart_the_times_tell(status_at: float, expect: str) -> None:
    tracker = HealthTracker(now=lambda: 105.0, clock=lambda: START + 105)
    assert see(tracker, None, base(2, "True", 1, status_at), applied=100)[0] == expect


def test_one_that_reports_the_generation_needs_none_of_this() -> None:
    given = base(2, "True")
    assert reported_of({**given, "status": {**given["status"], "observedGeneration": 2}}, checked=False) is None
    assert reported_of(manifest("v1 ConfigMap"), checked=False) is None
