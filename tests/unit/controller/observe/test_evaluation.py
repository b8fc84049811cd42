"""Expressions in a child: what it answers, what becomes of one that is too expensive, and whose turn it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError
from rukpak.controller.observe import evaluation
from rukpak.controller.observe.evaluation import Evaluations, Evaluator
from rukpak.controller.observe.health import expressions
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.processes.supervision import Supervisor
from tests.support.leftovers import find_children

SECONDS = 60
TOO_LONG = "it is too expensive: it takes more than 0.25 s"
TOO_MUCH = "it is too expensive: it takes more than 64 MiB of memory"
UP: dict[str, Any] = {"status": {"phase": "Up"}}
MANY = {"items": list(range(9_000))}
LONG = {"text": "a" * 1_000_000, "items": list(range(9_000))}


def find_expression_children() -> list[int]:
    command = ["pgrep", "-P", str(os.getpid()), "-f", expressions.__name__]
    return [int(pid) for pid in subprocess.run(command, capture_output=True, check=False).stdout.split()]


@pytest.fixture
def evaluator() -> Iterator[Evaluator]:
    found = Evaluator()
    yield found
    found.stop()


def test_answers_are_in_the_order_of_the_expressions(evaluator: Evaluator) -> None:
    asked = ["status.phase == 'Up'", "status.phase == 'Down'", "status.gone == 1"]
    assert evaluator.evaluate(asked, UP) == [True, False, 'there is no field "gone"']


def test_what_is_wrong_with_an_expression_is_told(evaluator: Evaluator) -> None:
    assert evaluator.find_problem("status.phase == 'Up'") == ""
    assert evaluator.find_problem("1 +") == "line 1, column 4: Syntax error: mismatched input '<EOF>'"


WITH_TIME = f"from {expressions.__name__.rpartition('.')[0]} import expressions as e; e.SECONDS = 60; e.main()"
"""A child with so much processor time that another limit ends a request: memory takes long on a busy machine."""


@pytest.fixture
def _with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_COMMAND", (sys.executable, "-P", "-c", WITH_TIME))


HOSTILE = [
    ("nested lists are copied with each step", "self.items.map(n, self.items).size() == 0", MANY, TOO_MUCH),
    ("long texts are made by nested lists",
     "[0,1,2,3,4,5,6,7].map(a, [0,1,2,3,4,5,6,7].map(b, self.text + self.text)) == []", LONG, TOO_MUCH),
    ("a pattern is matched against a megabyte again and again",
     "self.items.all(n, !self.text.matches('(a|b)*c'))", LONG, TOO_LONG),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "given", "answer"), [each[1:] for each in HOSTILE], ids=[e[0] for e in HOSTILE])
def test_what_is_too_expensive_ends_and_the_next_one_is_answered(
    evaluator: Evaluator, expression: str, given: Any, answer: str
) -> None:
    assert evaluator.find_problem(expression) == ""
    assert evaluator.evaluate([expression, "true"], given) == [answer, answer]
    assert evaluator.evaluate(["status.phase == 'Up'"], UP) == [True]


@pytest.mark.usefixtures("_with_time")
@pytest.mark.parametrize("is_new", [True, False], ids=["in a new child", "in one that has answered"])
def test_memory_is_limited(evaluator: Evaluator, is_new: bool) -> None:
    if not is_new:
        evaluator.evaluate(["true"], UP)
    large = {"text": "a" * 900_000, "items": list(range(200))}
    assert evaluator.evaluate(["self.items.map(n, self.text + 'b') == []"], large) == [TOO_MUCH]
    assert evaluator.evaluate(["self.text + 'b' == ''"], large) == [False]


@pytest.mark.parametrize("given", [{"n": 2**70}, {"n": "\ud800"}], ids=["a large number", "half a surrogate pair"])
def test_values_that_the_runtime_does_not_know_end_nothing(evaluator: Evaluator, given: Any) -> None:
    assert evaluator.evaluate(["self.n == self.n"], given) == ["it cannot be evaluated"]


@pytest.mark.parametrize("given", [UP, {**UP, **LONG}], ids=["a small object", "one that fills the pipe"])
def test_a_child_that_was_killed_while_it_had_nothing_to_do_is_replaced(evaluator: Evaluator, given: Any) -> None:
    assert evaluator.find_problem("status.phase == 'Up'") == ""
    for pid in find_expression_children():
        os.kill(pid, signal.SIGKILL)
    assert evaluator.evaluate(["status.phase == 'Up'"], given) == [True]


ENDED = [
    (("sh", "-c", "kill -KILL $$"), "it was killed, since the machine has no memory left"),
    (("sleep", "60"), "or it did not answer within 0.2 s"),
    (("false",), "it ended with status 1"),
]


@pytest.mark.parametrize(("command", "told"), ENDED, ids=["it is killed", "it does not answer", "it fails"])
def test_a_child_that_cannot_work_is_no_fault_of_an_expression(
    evaluator: Evaluator, command: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_COMMAND", command)
        patch.setattr(evaluation, "WAIT_SECONDS", 0.2)
        with pytest.raises(RuntimeError, match=told):
            evaluator.evaluate(["true"], UP)
        with pytest.raises(RuntimeError, match=told):
            evaluator.find_problem("true")
    assert evaluator.find_problem("true") == ""


def test_that_an_expression_is_too_expensive_is_found_out_once(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_COMMAND", ("sh", "-c", "kill -PROF $$"))
        assert evaluator.find_problem("true") == TOO_LONG.removeprefix("it ")
    assert evaluator.find_problem("true") == TOO_LONG.removeprefix("it ")


def test_an_object_that_is_nested_too_deeply_is_not_sent(evaluator: Evaluator) -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": deep}
    assert evaluator.evaluate(["true"], deep) == ["the object is nested too deeply"]


def key(name: str) -> ObjectKey:
    return ObjectKey("example.com", "Cache", "shop", name)


Start = Callable[[Callable[[ObjectKey], None]], Evaluations]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start evaluations by a function that judges; each BundleDeployment is a share."""
    started: list[Evaluations] = []

    def start_one(judge: Callable[[ObjectKey], None]) -> Evaluations:
        started.append(Evaluations(judge, lambda owner: owner, Supervisor))
        return started[-1]

    yield start_one
    for each in started:
        each.stop()


def test_a_share_with_many_expensive_objects_delays_another_one_by_one_of_them(start: Start) -> None:
    begun: list[str] = []
    may_go = threading.Event()

    def judge(given: ObjectKey) -> None:
        begun.append(given.name)
        if given.name.startswith("slow"):
            may_go.wait(SECONDS)

    evaluations = start(judge)
    for index in range(20):
        evaluations.add("hostile", key(f"slow-{index}"))
    for index in range(20):
        evaluations.add("other", key(f"quick-{index}"))
    wait_for(lambda: sum(name.startswith("quick") for name in begun) == 20, SECONDS, lambda: str(begun))
    # Both threads were free before the other share came.
    assert sum(name.startswith("slow") for name in begun) <= 2
    may_go.set()


def test_an_object_that_waits_is_judged_once_however_often_it_changes(start: Start) -> None:
    judged: list[ObjectKey] = []
    may_go = threading.Event()

    def judge(given: ObjectKey) -> None:
        may_go.wait(SECONDS)
        judged.append(given)

    evaluations = start(judge)
    for name in ("first", *["again"] * 5, "last"):
        evaluations.add("shop", key(name))
    may_go.set()
    wait_for(lambda: key("last") in judged, SECONDS, lambda: str(judged))
    assert judged == [key("first"), key("again"), key("last")]


FAILURES = [ApiError(503, "ServiceUnavailable", "down"), RuntimeError("no child has answered")]


@pytest.mark.parametrize("failure", FAILURES, ids=["the API server did not give it", "no child has answered"])
def test_an_object_that_was_not_judged_is_judged_later_and_others_meanwhile(
    failure: Exception, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "LATER_SECONDS", 0.5)
    judged: list[str] = []

    def judge(given: ObjectKey) -> None:
        judged.append(given.name)
        if given.name == "a" and judged.count("a") == 1:
            raise failure

    evaluations = start(judge)
    for name in ("a", "b"):
        evaluations.add("shop", key(name))
    wait_for(lambda: judged.count("a") == 2, SECONDS, lambda: str(judged))
    assert judged == ["a", "b", "a"]


def test_nothing_is_judged_once_it_is_stopped_and_no_thread_is_left() -> None:
    judged: list[ObjectKey] = []

    def judge(given: ObjectKey) -> None:
        judged.append(given)
        raise ApiError(503, "ServiceUnavailable", "down")

    supervisor = Supervisor()
    before = set(threading.enumerate())
    evaluations = Evaluations(judge, lambda owner: owner, lambda: supervisor)
    evaluations.add("shop", key("a"))
    wait_for(lambda: judged == [key("a")], SECONDS, lambda: str(judged))
    evaluations.stop()
    evaluations.add("shop", key("b"))

    def left() -> list[str]:
        return [each.name for each in threading.enumerate() if each not in before]

    wait_for(lambda: left() == [], SECONDS, lambda: str(left()))
    assert judged == [key("a")]


def test_objects_that_are_judged_later_take_no_thread_each() -> None:
    judged: list[ObjectKey] = []

    def judge(given: ObjectKey) -> None:
        judged.append(given)
        raise ApiError(503, "ServiceUnavailable", "down")

    before = set(threading.enumerate())
    evaluations = Evaluations(judge, lambda owner: owner, Supervisor)
    for index in range(50):
        evaluations.add("shop", key(str(index)))
    wait_for(lambda: len(judged) >= 50, SECONDS, lambda: str(judged))
    assert len(set(threading.enumerate()) - before) <= evaluation.PLACES
    evaluations.stop()


def test_no_child_is_left_that_was_busy_when_they_were_stopped(evaluator: Evaluator) -> None:
    asking = threading.Thread(target=evaluator.evaluate, args=(["size(self.items) > 0"], MANY))
    asking.start()
    wait_for(find_children, SECONDS, "a child")
    evaluator.stop()
    asking.join(SECONDS)
    wait_for(lambda: not find_children(), SECONDS, lambda: f"no child is left: {find_children()}")


def test_passes_that_ask_at_the_same_time_have_two_children(evaluator: Evaluator) -> None:
    expression = "self.items.all(n, !self.text.matches('(a|b)*c'))"
    with ThreadPoolExecutor(evaluation.PLACES + 1) as pool:
        asked = [pool.submit(evaluator.evaluate, [expression], LONG) for _ in range(evaluation.PLACES + 1)]
        most = 0
        while not all(each.done() for each in asked):
            most = max(most, len(find_expression_children()))
    assert [each.result() for each in asked] == [[TOO_LONG]] * len(asked)
    assert 1 <= most <= evaluation.PLACES
