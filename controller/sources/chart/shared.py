"""Indexes that the calls of sources share: a repository is asked once, however many BundleDeployments use it.

Invariants: calls share an index only if they name the same repository and would ask it in the same way: with the same
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

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.sources.chart.index import Index
from controller.sources.pace import check_deadline

_KEPT_BYTES = 32 << 20
_KEPT_INDEXES = 256
_TICK = 0.1
# What does not depend on who asks. Others who wait ask themselves.
_OF_ALL = (Reason.UNREACHABLE, Reason.UNAUTHORIZED, Reason.TLS_VERIFICATION_FAILED)

Ask = Callable[[Index | None], Index]
"""Asks the repository; gets the index that is known, to be returned if nothing has changed. Raises BundleError."""


@dataclass(slots=True)
class _Question:
    """A request that is being made, for which others wait."""

    asked_at: float
    path: str
    """Of the source that asks, with which messages start."""
    done: threading.Event = field(default_factory=threading.Event)
    failure: BundleError | None = None


@dataclass(slots=True)
class _Slot:
    """What is known of a repository."""

    index: Index | None = None
    asked_at: float = 0.0
    question: _Question | None = None


class SharedIndexes:
    """The indexes of this process, for any thread; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, access: Access, max_age: float, ask: Ask) -> Index:
        """Return an index that was asked for at most `max_age` seconds before this call.

        Raises: BundleError of `ask`, also if another call has made it; Unreachable at the deadline.
        """
        oldest = self._clock() - max_age
        while True:
            with self._lock:
                slot = self._slots.setdefault(key, _Slot())
                self._slots.move_to_end(key)
                if slot.index and slot.asked_at >= oldest:
                    return slot.index
                question = slot.question
                if question is None:
                    mine = slot.question = _Question(asked_at=self._clock(), path=access.path)
            if question is None:
                return self._ask(slot, mine, access, ask)
            self._wait(question, access)

    def _ask(self, slot: _Slot, question: _Question, access: Access, ask: Ask) -> Index:
        try:
            index = ask(slot.index)
        except BundleError as error:
            if error.reason in _OF_ALL and not access.cancelled.is_set():
                question.failure = error
            raise
        else:
            with self._lock:
                slot.index, slot.asked_at = index, question.asked_at
            return index
        finally:
            with self._lock:
                slot.question = None
                self._drop()
            question.done.set()

    def _drop(self) -> None:
        """Drop those that were not used for the longest time, without which the repository is asked again."""
        sizes = {key: slot.index.size if slot.index else 0 for key, slot in self._slots.items()}
        total, count = sum(sizes.values()), len(sizes)
        for key, size in sizes.items():
            if total <= _KEPT_BYTES and count <= _KEPT_INDEXES:
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
