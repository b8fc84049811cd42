"""Answers that the calls of sources share: a repository is asked once, however many BundleDeployments use it.

Invariants: calls share an answer only if they name the same file and would ask for it in the same way: with the same
credentials, trusting the same certificates. No call gets an answer that is older than it accepts. A call that waits for
another one waits no longer than its own deadline, and asks itself if the other is canceled.

Not here: how a repository is asked (repository.py).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.sources.pace import check_deadline

_KEPT_BYTES = 32 << 20
_KEPT_ANSWERS = 256
_TICK = 0.1
# What does not depend on who asks. Others who wait ask themselves.
_OF_ALL = (Reason.UNREACHABLE, Reason.UNAUTHORIZED, Reason.TLS_VERIFICATION_FAILED)


class _Answer(Protocol):
    @property
    def size(self) -> int:
        """Bytes of memory."""


Answer = TypeVar("Answer", bound=_Answer)


@dataclass(slots=True)
class _Question:
    """A request that is being made, for which others wait."""

    asked_at: float
    path: str
    """Of the source that asks, with which messages start."""
    done: threading.Event = field(default_factory=threading.Event)
    failure: BundleError | None = None


@dataclass(slots=True)
class _Slot(Generic[Answer]):
    """What is known of a file."""

    answer: Answer | None = None
    asked_at: float = 0.0
    question: _Question | None = None


class SharedAnswers(Generic[Answer]):
    """The answers of one kind that this process has, for any thread; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: OrderedDict[str, _Slot[Answer]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, access: Access, max_age: float, ask: Callable[[Answer | None], Answer]) -> Answer:
        """Return an answer that was asked for at most `max_age` seconds before this call.

        Args:
            key: of the file, and of what is sent and trusted.
            access: of the call, whose deadline and cancellation apply.
            max_age: seconds.
            ask: asks the repository; gets the answer that is known, to be returned if nothing has changed.

        Raises: BundleError of `ask`, also if another call has made it; Unreachable at the deadline.
        """
        oldest = self._clock() - max_age
        while True:
            with self._lock:
                slot = self._slots.setdefault(key, _Slot())
                self._slots.move_to_end(key)
                if slot.answer and slot.asked_at >= oldest:
                    return slot.answer
                question = slot.question
                if question is None:
                    mine = slot.question = _Question(asked_at=self._clock(), path=access.path)
            if question is None:
                return self._ask(slot, mine, access, ask)
            self._wait(question, access)

    def _ask(
        self, slot: _Slot[Answer], question: _Question, access: Access, ask: Callable[[Answer | None], Answer]
    ) -> Answer:
        try:
            answer = ask(slot.answer)
        except BundleError as error:
            if error.reason in _OF_ALL and not access.cancelled.is_set():
                question.failure = error
            raise
        else:
            with self._lock:
                slot.answer, slot.asked_at = answer, question.asked_at
            return answer
        finally:
            with self._lock:
                slot.question = None
                self._drop()
            question.done.set()

    def _drop(self) -> None:
        """Drop those that were not used for the longest time, without which the repository is asked again."""
        sizes = {key: slot.answer.size if slot.answer else 0 for key, slot in self._slots.items()}
        total, count = sum(sizes.values()), len(sizes)
        for key, size in sizes.items():
            if total <= _KEPT_BYTES and count <= _KEPT_ANSWERS:
                break
            if self._slots[key].question is None:
                del self._slots[key]
                total, count = total - size, count - 1

    def _wait(self, question: _Question, access: Access) -> None:
        while not question.done.wait(_TICK):
            check_deadline(access)
        if failure := question.failure:
            message = access.path + failure.message.removeprefix(question.path)
            raise BundleError(failure.reason, message, retry_after=failure.retry_after)
