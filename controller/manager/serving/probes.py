"""Is this process well (`/healthz`), and is it ready (`/readyz`)?

It is not well when a thread that it cannot do without has ended or hangs: a new process would help. That the API server
is away is nothing that a new process would mend, so it only makes this one not ready. Standbys are ready.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from controller.kube.client import ApiError, Client
from controller.kube.lease import Election
from controller.manager.queue import QueueStats
from controller.manager.serving.activity import Activity
from controller.manager.workers import Workers
from controller.observe.watches import Watches

STUCK_SECONDS = 300.0
"""A pass without the end of a request for so long hangs: each ends within 35 s, with or without an answer."""
SILENT_SECONDS = 15.0
"""Of whom nothing was heard for longer is asked."""
ASKING_TIMEOUT = (2.0, 2.0)
AGAIN_SECONDS = 1.0
"""Who asks for readiness again and again does not ask the API server as often."""


class Probes:
    """Thread-safe.

    Args:
        client: is not fenced, and used if nothing was heard for a while.
        election: None: this process takes part in none.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        watches: Watches,
        workers: Workers,
        queue: Callable[[], QueueStats],
        election: Election | None,
        activity: Activity,
        client: Client,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watches, self._workers, self._queue = watches, workers, queue
        self._election, self._activity, self._client, self._clock = election, activity, client, clock
        self._is_warm = False
        self._asking = threading.Lock()
        self._was_answered, self._ask_from = True, -math.inf

    def find_health_problems(self) -> list[str]:
        """Return why this process is not well; empty if it is."""
        problems = [f"thread {name} has ended" for name in self._workers.dead()]
        problems += [f"the watch of {path} hangs" for path in self._watches.stuck()]
        if min(self._queue().longest_seconds, self._activity.idle_seconds) > STUCK_SECONDS:
            problems.append("a pass hangs")
        if self._election and not self._election.alive:
            problems.append("the election has ended")
        return problems

    def find_readiness_problems(self) -> list[str]:
        """Return why this process is not ready; empty if it is."""
        if not self._is_warm:
            unknown = self._watches.unsynced()
            self._is_warm = not unknown  # a kind that is new to it does not make it less ready
            if unknown:
                return [f"not known yet: {path}" for path in unknown]
        if self._election and (error := self._election.last_error) and error.status == HTTPStatus.FORBIDDEN:
            return [f"the Lease may not be used: {error}"]
        return [] if self._is_answered() else ["the API server does not answer"]

    def _is_answered(self) -> bool:
        """Whether the API server answers; who asks while somebody finds that out gets what was known before."""
        if self._activity.unanswered_seconds < SILENT_SECONDS:
            return True
        if self._clock() >= self._ask_from and self._asking.acquire(blocking=False):
            try:
                self._was_answered = self._ask()
                self._ask_from = self._clock() + AGAIN_SECONDS
            finally:
                self._asking.release()
        return self._was_answered

    def _ask(self) -> bool:
        try:
            self._client.request("GET", "/version", timeout=ASKING_TIMEOUT)
        except ApiError as error:
            return error.status != 0
        return True
