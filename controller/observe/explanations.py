"""Why something is not healthy: one LIST of the pods of a workload, or one GET of a Namespace that is being deleted.

Never on a reconcile worker, never about what is healthy, and rarely: about one object after 15 s in trouble, then every
30 s, and less and less often while the answer stays the same; about one BundleDeployment a few at a time, since status
names a few. What is read of an answer is bounded: whoever owns the pods decides how large they are. Answers are judged
by health/explain.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from controller.kube.client import TOO_LARGE, ApiError, Client
from controller.kube.resources import NAMESPACES, Resource
from controller.observe.health.explain import explain, explain_namespace
from controller.observe.health.verdict import State, Verdict
from controller.observe.records import ObjectKey, Record
from controller.processes.supervision import Kind

log = logging.getLogger(__name__)

TROUBLED_SECONDS = 15.0
"""How long an object is in trouble before the API server is asked why."""
AGAIN_SECONDS = 30.0
SELDOM_SECONDS = 300.0
FACTOR = 2.0
PODS = 50
FEW_PODS = 5
"""Asked for where `PODS` are too large; the worst of these is named then."""
ANSWER_BYTES = 2 << 20
"""Of JSON, which may take thirty times as much memory: fifty pods have a tenth of it."""
MOST = 10
"""Inquiries about the objects of one BundleDeployment within `AGAIN_SECONDS`."""
_PODS = Resource("", "v1", "Pod", "pods", namespaced=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations:
    """What is known about why objects are not healthy."""

    known: Mapping[ObjectKey, Verdict]
    next_change: float | None
    """Seconds until there is something to ask again; None: never."""


NOTHING = Explanations(known={}, next_change=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inquiry:
    """What was asked about an object, and the answer."""

    about: Verdict | None
    asked: float
    pause: float = AGAIN_SECONDS
    answer: Verdict | None = None

    def due(self, record: Record) -> float:
        """Return when the API server may be asked again. What has failed for good is asked about once."""
        if record.verdict != self.about:
            return self.asked + AGAIN_SECONDS
        given_up = record.verdict is not None and record.verdict.state is State.FAILED
        return float("inf") if given_up else self.asked + self.pause


class Explainer:
    """Thread-safe.

    Args:
        wake: told of which BundleDeployment there is a new answer.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: Client,
        wake: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        workers: int = 2,
    ) -> None:
        self._client, self._wake, self._clock = client, wake, clock
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="explain")
        self._inquiries: dict[str, dict[ObjectKey, _Inquiry]] = {}
        self._asked: dict[str, list[float]] = {}
        """When something was asked lately, also about what is well by now."""
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Ask nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def explain(self, name: str, troubled: Sequence[Record]) -> Explanations:
        """Return what is known about the objects of a BundleDeployment, and ask what is due; waits for nothing.

        Args:
            name: of the BundleDeployment.
            troubled: all of its objects that have been in trouble for a while; of others nothing is remembered.
        """
        now = self._clock()
        with self._lock:
            before = self._inquiries.pop(name, {})
            inquiries = {record.key: before[record.key] for record in troubled if record.key in before}
            lately = [at for at in self._asked.pop(name, ()) if now - at < AGAIN_SECONDS]
            asked = _choose(troubled, inquiries, now)[: max(MOST - len(lately), 0)]
            if lately or asked:
                self._asked[name] = lately + [now] * len(asked)
            for record in asked:
                last = inquiries.get(record.key)
                fresh = _Inquiry(about=record.verdict, asked=now)
                inquiries[record.key] = replace(last, about=record.verdict, asked=now) if last else fresh
            if inquiries:
                self._inquiries[name] = inquiries
        for record in asked:
            with suppress(RuntimeError):  # after `stop`: the pass that is under way goes on
                self._pool.submit(self._ask, name, record)
        return Explanations(
            known={key: each.answer for key, each in inquiries.items() if each.answer},
            next_change=_seconds_to_next(troubled, inquiries, now),
        )

    def forget(self, name: str) -> None:
        """Forget a BundleDeployment that is gone."""
        with self._lock:
            self._inquiries.pop(name, None)
            self._asked.pop(name, None)

    def _ask(self, name: str, record: Record) -> None:
        try:
            answer = self._answer(record)
        except ApiError as error:
            log.debug("not explained", extra={"object": str(record.key), "reply": str(error)})
            answer = None
        except Exception as error:  # noqa: BLE001 - the future would keep it, and nobody looks there
            self._client.supervisor.note(Kind.EXPLANATION, f"explain {record.key}", error)
            answer = None
        with self._lock:
            inquiries = self._inquiries.get(name, {})
            inquiry = inquiries.get(record.key)
            if inquiry is None:
                return
            is_news = answer != inquiry.answer
            pause = AGAIN_SECONDS if is_news else min(inquiry.pause * FACTOR, SELDOM_SECONDS)
            inquiries[record.key] = replace(inquiry, answer=answer, pause=pause)
        if is_news:
            self._wake(name)

    def _answer(self, record: Record) -> Verdict | None:
        key = record.key
        if not record.pods:
            return explain_namespace(self._client.get(NAMESPACES.path(name=key.name)).value)
        try:
            return explain(self._list_pods(record, PODS))
        except ApiError as error:
            if error.reason != TOO_LARGE:
                raise
        return explain(self._list_pods(record, FEW_PODS))

    def _list_pods(self, record: Record, limit: int) -> list[dict[str, Any]]:
        path = _PODS.path(record.key.namespace)
        pods, _ = self._client.list_page(path, label_selector=record.pods, limit=limit, max_bytes=ANSWER_BYTES)
        return pods


def may_explain(record: Record) -> bool:
    """Whether one more request may tell why an object is not healthy."""
    return bool(record.pods) or (record.deleting and record.key[:2] == ("", NAMESPACES.kind))


def _choose(troubled: Sequence[Record], inquiries: Mapping[ObjectKey, _Inquiry], now: float) -> list[Record]:
    """Return about which objects to ask, those first about which nobody asked for the longest time."""
    due = [each for each in troubled if each.key not in inquiries or inquiries[each.key].due(each) <= now]
    return sorted(due, key=lambda each: inquiries[each.key].asked if each.key in inquiries else 0.0)


def _seconds_to_next(troubled: Sequence[Record], inquiries: Mapping[ObjectKey, _Inquiry], now: float) -> float | None:
    due = [inquiries[each.key].due(each) if each.key in inquiries else now for each in troubled]
    soonest = min(due, default=float("inf"))
    # What is due and was not asked is one too many: another is asked when the next is allowed.
    return None if soonest == float("inf") else max(soonest - now, AGAIN_SECONDS if soonest <= now else 0.0)
