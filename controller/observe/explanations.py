"""Why an object is not healthy, by one LIST of the pods of a workload, or one GET of a Namespace that is Terminating.

If the status of the worst pod does not say why, one LIST of its Events follows; if no pod is in trouble, one of those
of the workload. Requests are never sent by a reconcile worker, and are rare: for an object after 15 s in trouble, then
every 30 s, less often while the answer stays the same; for a BundleDeployment a few at a time, since status shows a
few. A rollout whose pods have to hold is asked about at once when its time is over, or when it was not available for a
moment (health/stability.py). Replies are bounded, since users decide how large their pods are. health/explain.py judges
them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import TOO_LARGE, ApiError, Client
from rukpak.controller.kube.resources import NAMESPACES, Resource
from rukpak.controller.observe.health.explain import (
    NO_ENDS,
    NOT_READY,
    PENDING,
    Ends,
    ends_of,
    explain,
    explain_by_events,
    explain_ends,
    explain_namespace,
    find_silent,
)
from rukpak.controller.observe.health.kubelet import read_refusal
from rukpak.controller.observe.health.stability import Answer
from rukpak.controller.observe.health.verdict import State, Verdict
from rukpak.controller.observe.records import Record
from rukpak.controller.processes.supervision import Kind
from rukpak.controller.untrusted import text

log = logging.getLogger(__name__)

TROUBLED_SECONDS = 15.0
"""How long an object is in trouble before the first request."""
AGAIN_SECONDS = 30.0
SOON_SECONDS = 1.0
"""Between two requests for a rollout whose pods keep ending."""
SELDOM_SECONDS = 300.0
FACTOR = 2.0
ASKED_WITHIN_DEADLINE = 4
"""How often, at least, what hinders an object is asked before its deadline expires."""
PODS = 50
FEW_PODS = 5
"""Requested if `PODS` are too large; the worst of these is reported then."""
ANSWER_BYTES = 2 << 20
"""JSON may take thirty times as much memory; fifty pods usually have a tenth of this."""
EVENTS = 100
EVENT_BYTES = 512 << 10
MOST = 10
"""Requests for the objects of one BundleDeployment within `AGAIN_SECONDS`."""
MOST_URGENT = 50
"""Unanswered urgent requests for the objects of one BundleDeployment: each answer lets it send the next one."""
_PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
_EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
_POD_KIND = ("", _PODS.kind)
# Controllers that tell in Events only that they cannot create pods.
_SILENT_KINDS = frozenset({("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An object to ask about."""

    record: Record
    since: float = -math.inf
    """An answer from before this moment, in monotonic seconds, is not enough."""
    new_since: str = ""
    """Pods that were created before are not of its rollout; as the API server writes times."""
    most: float = SELDOM_SECONDS
    """How old an answer may be, in seconds."""
    urgent: bool = False
    """Whether its health depends on the answer, so that it counts to no limit but that of unanswered requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inquiry:
    """The last request for an object, and its answer."""

    about: Verdict | None = None
    asked: float = -math.inf
    waiting: bool = False
    """Whether its answer has not arrived."""
    pause: float = 0.0
    """0 before the first answer."""
    answer: Answer | None = None

    def due(self, question: Question) -> float:
        """Return when the next request is due. After an object has Failed, only one, unless another one is needed."""
        if self.asked == -math.inf:
            return self.asked
        if self.waiting:
            return self.asked + AGAIN_SECONDS
        if self.asked < question.since:
            return max(question.since, self.asked + SOON_SECONDS)
        verdict = question.record.verdict
        if verdict != self.about:
            return self.asked + min(AGAIN_SECONDS, question.most)
        is_failed = verdict is not None and verdict.state is State.FAILED
        return math.inf if is_failed else self.asked + min(self.pause or AGAIN_SECONDS, question.most)


_NONE = _Inquiry()
"""For an object that was not asked about."""


@dataclass(slots=True)
class Inquiries:
    """What was asked for the objects of a BundleDeployment, or for its hooks; changed by the explainer only."""

    known: dict[ObjectKey, _Inquiry] = field(default_factory=dict)
    asked: list[float] = field(default_factory=list)
    """Times of recent requests, including those for objects that have recovered."""

    def answer_on(self, key: ObjectKey) -> Answer | None:
        """Return the newest answer about an object; None if there is none."""
        return self.known.get(key, _NONE).answer


class Explainer:
    """Thread-safe.

    Args:
        wake: called with the name of a BundleDeployment that has a new answer.
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
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Send no more requests."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def explain(self, name: str, inquiries: Inquiries, questions: Sequence[Question]) -> float | None:
        """Start the requests about objects that are due, without waiting; `inquiries` gets the answers.

        Args:
            name: of the BundleDeployment.
            inquiries: what was asked for it before.
            questions: all of its objects that are asked about; the others are forgotten.

        Returns: seconds until the next request is due; None for never.
        """
        now = self._clock()
        with self._lock:
            known = {each.record.key: inquiries.known.get(each.record.key, _NONE) for each in questions}
            lately = [at for at in inquiries.asked if now - at < AGAIN_SECONDS]
            urgent = [each for each in questions if each.urgent]
            waiting = sum(known[each.record.key].waiting for each in urgent)
            others = [each for each in questions if not each.urgent]
            seldom = _choose(others, known, now)[: max(MOST - len(lately), 0)]
            asked = [*_choose(urgent, known, now)[: max(MOST_URGENT - waiting, 0)], *seldom]
            for question in asked:
                record = question.record
                known[record.key] = replace(known[record.key], about=record.verdict, asked=now, waiting=True)
            inquiries.known, inquiries.asked = known, lately + [now] * len(seldom)
            # Before an answer arrives, which wakes the BundleDeployment.
            soonest = min((known[each.record.key].due(each) for each in questions), default=math.inf)
        for question in asked:
            with suppress(RuntimeError):  # after `stop`, during which a pass may continue
                self._pool.submit(self._ask, name, inquiries, question)
        # An object that is due but exceeded the limit waits until more requests are allowed.
        return None if soonest == math.inf else max(soonest - now, AGAIN_SECONDS if soonest <= now else 0.0)

    def _ask(self, name: str, inquiries: Inquiries, question: Question) -> None:
        record, verdict, ends, is_known = question.record, None, NO_ENDS, True
        try:
            verdict, ends = self._answer(question)
        except ApiError as error:
            log.debug("object not explained", extra={"object": str(record.key), "reply": str(error)})
            is_known = not error.transient  # what may not be read, or is too large, tells nothing later either
        except Exception as error:  # noqa: BLE001 - the future would keep it unnoticed
            self._client.supervisor.note(Kind.EXPLANATION, f"explain {record.key}", error)
        with self._lock:
            inquiry = inquiries.known.get(record.key)
            if inquiry is None or not inquiry.waiting:  # forgotten meanwhile
                return
            last = inquiry.answer
            is_news = last is None or (last.verdict, last.ends) != (verdict, ends)
            # The first answer may be early: a Namespace that was just deleted does not say yet what holds it.
            is_early = is_news or not inquiry.pause
            pause = AGAIN_SECONDS if is_early else min(inquiry.pause * FACTOR, SELDOM_SECONDS)
            answer = Answer(asked=inquiry.asked, verdict=verdict, ends=ends) if is_known else last
            inquiries.known[record.key] = replace(inquiry, answer=answer, pause=pause, waiting=False)
        if question.urgent or (is_news and is_known and (verdict or last)):
            self._wake(name)

    def _answer(self, question: Question) -> tuple[Verdict | None, Ends]:
        record, key = question.record, question.record.key
        if key[:2] == (NAMESPACES.group, NAMESPACES.kind):
            return explain_namespace(self._client.get(NAMESPACES.path(name=key.name)).value), NO_ENDS
        pods = self._list_pods(record)
        ends = ends_of(pods, question.new_since)
        if record.verdict and record.verdict.state is State.HEALTHY:
            return None, ends
        answer = explain(pods)
        if answer is None:
            is_asked = key[:2] in _SILENT_KINDS and record.uid
            return read_refusal(self._list_events(key.namespace, record.uid) or ()) if is_asked else None, ends
        silent = find_silent(pods, answer)
        if silent is None:
            return answer, ends
        events = self._list_events(key.namespace, text(silent, "metadata", "uid"))
        verdict = explain_by_events(answer, silent, events)
        return verdict, explain_ends(ends, answer, verdict)

    def _list_pods(self, record: Record) -> list[dict[str, Any]]:
        try:
            return list_pods(self._client, record)
        except ApiError as error:
            if error.reason != TOO_LARGE:
                raise
        return list_pods(self._client, record, FEW_PODS)

    def _list_events(self, namespace: str, uid: str) -> list[dict[str, Any]] | None:
        selected, path = f"involvedObject.uid={uid}", _EVENTS.path(namespace)
        try:
            page = next(self._client.pages(path, field_selector=selected, limit=EVENTS, max_bytes=EVENT_BYTES))
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return None
            log.debug("events not read", extra={"object": uid, "reply": str(error)})
            return []
        return page.items


def list_pods(client: Client, record: Record, limit: int = PODS) -> list[dict[str, Any]]:
    """Return the pods of a workload, at most so many; of a Pod, itself.

    Raises: ApiError, with reason TOO_LARGE if the reply is.
    """
    path, named = _PODS.path(record.key.namespace), f"metadata.name={record.key.name}"
    selected = named if record.key[:2] == _POD_KIND else ""
    pages = client.pages(path, label_selector=record.pods, field_selector=selected, limit=limit, max_bytes=ANSWER_BYTES)
    return next(pages).items


def oldest_answer(deadline: float) -> float:
    """Return how old an answer may be, in seconds: what exceeds its deadline has a cause that was seen before that."""
    return min(SELDOM_SECONDS, deadline / ASKED_WITHIN_DEADLINE)


def may_explain(record: Record) -> bool:
    """Return whether a request may explain why an object is not healthy."""
    kind = record.key[:2]
    if kind == _POD_KIND:  # its status is known, but its Events are not
        verdict = None if record.deleting else record.verdict
        return verdict is not None and verdict.reason in (PENDING, NOT_READY)
    return bool(record.pods) or (record.deleting and kind == (NAMESPACES.group, NAMESPACES.kind))


def _choose(questions: Sequence[Question], known: Mapping[ObjectKey, _Inquiry], now: float) -> list[Question]:
    due = [each for each in questions if known[each.record.key].due(each) <= now]
    return sorted(due, key=lambda each: known[each.record.key].asked)
