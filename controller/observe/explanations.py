"""Why an object is not healthy, by one LIST of the pods of a workload, or one GET of a Namespace that is Terminating.

If the status of the worst pod does not say why, one LIST of its Events follows; if no pod is in trouble, one of those
of the workload. Requests are never sent by a reconcile worker, or for healthy objects, and are rare: for an object
after 15 s in trouble, then every 30 s, less often while the answer stays the same; for a BundleDeployment a few at a
time, since status shows a few. Replies are bounded, since users decide how large their pods are. health/explain.py
judges them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from controller.kube.client import TOO_LARGE, ApiError, Client
from controller.kube.resources import NAMESPACES, Resource
from controller.observe.health.explain import (
    NOT_READY,
    PENDING,
    explain,
    explain_by_events,
    explain_namespace,
    explain_refusal,
    find_silent,
)
from controller.observe.health.verdict import State, Verdict
from controller.observe.records import ObjectKey, Record
from controller.processes.supervision import Kind
from controller.untrusted import text

log = logging.getLogger(__name__)

TROUBLED_SECONDS = 15.0
"""How long an object is in trouble before the first request."""
AGAIN_SECONDS = 30.0
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
_PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
_EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
_POD_KIND = ("", _PODS.kind)
# Controllers that tell in Events only that they cannot create pods.
_SILENT_KINDS = frozenset({("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations:
    """Known reasons why objects are not healthy."""

    known: Mapping[ObjectKey, Verdict]
    next_change: float | None
    """Seconds until the next request is due; None for never."""


NOTHING = Explanations(known={}, next_change=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inquiry:
    """The last request for an object, and its answer."""

    about: Verdict | None
    asked: float
    pause: float = 0.0
    """0 before the first answer."""
    answer: Verdict | None = None

    def due(self, record: Record, most: float) -> float:
        """Return when the next request is due, at most so many seconds later. After an object has Failed, only one."""
        if record.verdict != self.about:
            return self.asked + min(AGAIN_SECONDS, most)
        is_failed = record.verdict is not None and record.verdict.state is State.FAILED
        return float("inf") if is_failed else self.asked + min(self.pause or AGAIN_SECONDS, most)


@dataclass(slots=True)
class Inquiries:
    """What was asked for the objects of a BundleDeployment, or for its hooks; changed by the explainer only."""

    known: dict[ObjectKey, _Inquiry] = field(default_factory=dict)
    asked: list[float] = field(default_factory=list)
    """Times of recent requests, including those for objects that have recovered."""


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

    def explain(
        self, name: str, inquiries: Inquiries, troubled: Sequence[Record], most: float = SELDOM_SECONDS
    ) -> Explanations:
        """Return known explanations for a BundleDeployment, and start the requests that are due; does not wait.

        Args:
            name: of the BundleDeployment.
            inquiries: what was asked for it before.
            troubled: all of its objects that have been in trouble for a while; the others are forgotten.
            most: how old answers may be, in seconds.
        """
        now = self._clock()
        with self._lock:
            before = inquiries.known
            known = {record.key: before[record.key] for record in troubled if record.key in before}
            lately = [at for at in inquiries.asked if now - at < AGAIN_SECONDS]
            asked = _choose(troubled, known, now, most)[: max(MOST - len(lately), 0)]
            for record in asked:
                last = known.get(record.key)
                fresh = _Inquiry(about=record.verdict, asked=now)
                known[record.key] = replace(last, about=record.verdict, asked=now) if last else fresh
            inquiries.known, inquiries.asked = known, lately + [now] * len(asked)
            # Before an answer arrives, which wakes the BundleDeployment: it is news for the next pass.
            found = Explanations(
                known={key: each.answer for key, each in known.items() if each.answer},
                next_change=_seconds_to_next(troubled, known, now, most),
            )
        for record in asked:
            with suppress(RuntimeError):  # after `stop`, during which a pass may continue
                self._pool.submit(self._ask, name, inquiries, record)
        return found

    def _ask(self, name: str, inquiries: Inquiries, record: Record) -> None:
        try:
            answer = self._answer(record)
        except ApiError as error:
            log.debug("object not explained", extra={"object": str(record.key), "reply": str(error)})
            answer = None
        except Exception as error:  # noqa: BLE001 - the future would keep it unnoticed
            self._client.supervisor.note(Kind.EXPLANATION, f"explain {record.key}", error)
            answer = None
        with self._lock:
            inquiry = inquiries.known.get(record.key)
            if inquiry is None:
                return
            is_news = answer != inquiry.answer
            # The first answer may be early: a Namespace that was just deleted does not say yet what holds it.
            is_early = is_news or not inquiry.pause
            pause = AGAIN_SECONDS if is_early else min(inquiry.pause * FACTOR, SELDOM_SECONDS)
            inquiries.known[record.key] = replace(inquiry, answer=answer, pause=pause)
        if is_news:
            self._wake(name)

    def _answer(self, record: Record) -> Verdict | None:
        key = record.key
        if key[:2] == (NAMESPACES.group, NAMESPACES.kind):
            return explain_namespace(self._client.get(NAMESPACES.path(name=key.name)).value)
        pods = self._list_pods(record)
        answer = explain(pods)
        if answer is None:
            is_asked = key[:2] in _SILENT_KINDS and record.uid
            return explain_refusal(self._list_events(key.namespace, record.uid) or ()) if is_asked else None
        silent = find_silent(pods, answer)
        if silent is None:
            return answer
        return explain_by_events(answer, silent, self._list_events(key.namespace, text(silent, "metadata", "uid")))

    def _list_pods(self, record: Record) -> list[dict[str, Any]]:
        try:
            return list_pods(self._client, record)
        except ApiError as error:
            if error.reason != TOO_LARGE:
                raise
        return list_pods(self._client, record, FEW_PODS)

    def _list_events(self, namespace: str, uid: str) -> list[dict[str, Any]] | None:
        """Return the Events about an object, as far as they can be read; None if they may not."""
        selected, path = f"involvedObject.uid={uid}", _EVENTS.path(namespace)
        try:
            page = self._client.list_page(path, field_selector=selected, limit=EVENTS, max_bytes=EVENT_BYTES)
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return None
            log.debug("events not read", extra={"object": uid, "reply": str(error)})
            return []
        return page[0]


def list_pods(client: Client, record: Record, limit: int = PODS) -> list[dict[str, Any]]:
    """Return the pods of a workload, at most so many; of a Pod, itself.

    Raises: ApiError, with reason TOO_LARGE if the reply is.
    """
    path, named = _PODS.path(record.key.namespace), f"metadata.name={record.key.name}"
    selected = named if record.key[:2] == _POD_KIND else ""
    pods, _ = client.list_page(
        path, label_selector=record.pods, field_selector=selected, limit=limit, max_bytes=ANSWER_BYTES
    )
    return pods


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


def _choose(
    troubled: Sequence[Record], inquiries: Mapping[ObjectKey, _Inquiry], now: float, most: float
) -> list[Record]:
    """Return the objects to explain now, the least recently requested first."""
    due = [each for each in troubled if each.key not in inquiries or inquiries[each.key].due(each, most) <= now]
    return sorted(due, key=lambda each: inquiries[each.key].asked if each.key in inquiries else 0.0)


def _seconds_to_next(
    troubled: Sequence[Record], inquiries: Mapping[ObjectKey, _Inquiry], now: float, most: float
) -> float | None:
    due = [inquiries[each.key].due(each, most) if each.key in inquiries else now for each in troubled]
    soonest = min(due, default=float("inf"))
    # An object that is due but exceeded the limit waits until more requests are allowed.
    return None if soonest == float("inf") else max(soonest - now, AGAIN_SECONDS if soonest <= now else 0.0)
