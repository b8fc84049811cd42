"""Health (`/healthz`) and readiness (`/readyz`) of this process.

It is unhealthy when a vital thread has ended or hangs, since a restart would help. An API server that does not respond
only makes it not ready, since a restart would not help; health then reports why without failing. Standbys are ready.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.lease import Election
from rukpak.controller.manager.serving import Reply, Route
from rukpak.controller.manager.workers import Workers
from rukpak.controller.observe.watches import Watches

WORKING = ("worker", "apply")
"""Name prefixes of the threads that work on passes."""
STUCK_SECONDS = 300.0
"""A pass in which no request ends for this long hangs: each request ends within 35 s."""
SILENT_SECONDS = 15.0
"""After silence of the API server for this long, readiness sends it a request."""
REQUEST_TIMEOUT = (2.0, 2.0)
REQUEST_PERIOD_SECONDS = 1.0
"""At most one such request in this time, however often readiness is probed."""


class Activity:
    """Thread-safe, since each field is one number. The clock is in monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answered = self._worked = clock()

    def request_ended(self, status: int) -> None:
        """Note the end of a request to the API server, on the thread that made it; status 0: no response."""
        if status:
            self._answered = self._clock()
        if threading.current_thread().name.startswith(WORKING):
            self._worked = self._clock()

    @property
    def unanswered_seconds(self) -> float:
        """Seconds since the API server responded."""
        return self._clock() - self._answered

    @property
    def idle_seconds(self) -> float:
        """Seconds since a request of a pass ended, with or without a response."""
        return self._clock() - self._worked


class ServerProbe:
    """Asks the API server for a sign of life after a silence. Thread-safe. The client is not fenced."""

    def __init__(self, activity: Activity, client: Client) -> None:
        self.activity, self._client = activity, client
        self._requesting = threading.Lock()
        self._problem, self._request_from = "", -math.inf

    @property
    def is_silent(self) -> bool:
        """Whether the API server has not responded for a while."""
        return self.activity.unanswered_seconds >= SILENT_SECONDS

    def find_problem(self) -> str:
        """Return why the API server does not respond; empty if it does."""
        # While another thread sends a request, the last result counts.
        if not self.is_silent:
            return ""
        if time.monotonic() >= self._request_from and self._requesting.acquire(blocking=False):
            try:
                self._problem = self._request()
                self._request_from = time.monotonic() + REQUEST_PERIOD_SECONDS
            finally:
                self._requesting.release()
        return self._problem

    def _request(self) -> str:
        try:
            self._client.request("GET", "/version", timeout=REQUEST_TIMEOUT)
        except ApiError as error:
            return _describe(error)
        return ""


class Probes:
    """Thread-safe. Without an election this process always leads."""

    def __init__(self, watches: Watches, workers: Workers, election: Election | None, server: ServerProbe) -> None:
        self._watches, self._workers, self._election, self._server = watches, workers, election, server
        self._is_warm = False

    def routes(self) -> Mapping[str, Route]:
        """Return what a server needs to serve the probes."""
        return {
            "/healthz": lambda: _reply(self.find_health_problems(), self.find_known_problem()),
            "/readyz": lambda: _reply(self.find_readiness_problems()),
        }

    def find_health_problems(self) -> list[str]:
        """Return why this process is unhealthy; empty if it is healthy."""
        problems = [f"thread {name} has ended" for name in self._workers.dead()]
        problems += [f"watch of {path} hangs" for path in self._watches.stuck()]
        if min(self._workers.longest_seconds, self._server.activity.idle_seconds) > STUCK_SECONDS:
            problems.append("a pass hangs")
        if self._election and not self._election.alive:
            problems.append("leader election has ended")
        return problems

    def find_readiness_problems(self) -> list[str]:
        """Return why this process is not ready; empty if it is."""
        if not self._is_warm:
            unknown = self._watches.unsynced()
            self._is_warm = not unknown  # a kind watched later does not make it unready
            if unknown:
                return [f"not listed yet: {path}" for path in unknown]
        if self._election and (error := self._election.last_error) and error.status == HTTPStatus.FORBIDDEN:
            return [f"not allowed to use the Lease: {error}"]
        problem = self._server.find_problem()
        return [problem] if problem else []

    def find_known_problem(self) -> str:
        """Return why the API server does not respond, as known without a request; empty if it does."""
        if not self._server.is_silent:
            return ""
        error = (self._election and self._election.last_error) or self._watches.deployments.reflector.last_error
        return _describe(error) if error else ""


def _describe(error: ApiError) -> str:
    return "" if error.status else f"the API server does not respond: {error.message}"


def _reply(problems: list[str], note: str = "") -> Reply:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
    lines = problems or [f"ok; {note}" if note else "ok"]
    return Reply(status, "".join(f"{line}\n" for line in lines).encode())
