"""Starts and stops a controller, and says whether it is healthy (`/healthz`) and ready (`/readyz`).

A standby watches the kinds that `status.managedKinds` names. Before it becomes active, it lists all BundleDeployments
and all kinds again, so that it does not overwrite what the previous leader has just written. Passes wait for these
lists; a deletion waits even while one of them fails.

It is unhealthy when a vital thread has ended or hangs, because a restart would help. An API server that does not
respond only makes it not ready, because a restart would not help; health then reports why without failing. Standbys are
ready.

Not here: how its parts are created and connected (assemble.py).
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path

from rukpak.api.errors import BundleError
from rukpak.controller.building.entry_points import check, find_installed, find_programs
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.events import EventRecorder
from rukpak.controller.kube.lease import Election
from rukpak.controller.manager.process import StartCollector
from rukpak.controller.manager.serving import Reply, Route, Server
from rukpak.controller.manager.workers import Workers
from rukpak.controller.observe.watches import Watches
from rukpak.controller.processes.programs import Mechanisms
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.reconcile.context import Services
from rukpak.controller.revisions.background import Quarantine
from rukpak.controller.revisions.store import Sweeper
from rukpak.controller.settings import Settings

log = logging.getLogger(__name__)

DRAIN_SECONDS = 1.2
"""For running passes to finish before writes are blocked, so that a successor can start within 2 s."""
LAST_WRITES_SECONDS = 0.3
EVENTS_SECONDS = 0.3
SWITCH_SECONDS = 0.001
"""How long a thread computes while others wait for the interpreter. With Python's 0.005, four threads that compute make
300 round trips to a server take 11 s instead of 1.9 s, as each reply waits for all of them; they compute as much. With
0.0002 it is 0.4 s, but passes take a third more processor time."""
START_SECONDS = 1.0
"""Between attempts to start threads that could not be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """A controller that can be started and stopped once."""

    settings: Settings
    supervisor: Supervisor
    services: Services
    workers: Workers
    events: EventRecorder
    sweeper: Sweeper
    quarantine: Quarantine
    elected: threading.Event
    """Set when this process may act."""
    election: Election | None
    """None: there are no other replicas, so this process acts from the start."""
    servers: tuple[Server, ...]
    scratch: Callable[[], AbstractContextManager[Path]]
    """Makes a folder for as long as programs are looked for."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then finish running passes and release the Lease, within 2 s.

        While another process leads, only watch, to take over with warm caches.
        """
        memory, watches = self.settings.memory_limit(), self.services.watches
        about = {"version": version("rukpak"), "namespace": self.settings.namespace, "shard": self.settings.shard}
        log.info("starting", extra={**about, "memory": memory.bytes, "memoryLimit": memory.origin})
        _log_confinement(self.settings)
        _log_proxies(self.settings)
        sys.setswitchinterval(SWITCH_SECONDS)
        collector = StartCollector()
        collector.begin()
        self.events.start()
        if self.election:
            self.election.start()
        else:
            self.elected.set()
        watches.start()
        for server in self.servers:
            server.start()
        self.supervisor.thread(Kind.OTHER, "programs", self._log_programs).start()
        self.supervisor.thread(Kind.OTHER, "plug-ins", _log_plugins).start()
        self.supervisor.thread(Kind.START, "act", lambda: self._act(stop)).start()
        while not stop.wait(START_SECONDS):
            self.supervisor.start_waiting()
            collector.end_once(lambda: not watches.unsynced())
        collector.end_once(lambda: True)
        log.info("stopping")
        self._drain()

    def _act(self, stop: threading.Event) -> None:
        self.elected.wait()
        watches = self.services.watches
        # Caches may lag behind the last writes of the previous leader, such as pins.
        if self.election and self.election.follows:
            watches.refresh()
        if stop.is_set():
            return
        self.workers.start()
        while not watches.deployments.synced:
            if stop.wait(0.2):
                return
        self.sweeper.run()

    def _drain(self) -> None:
        services = self.services
        self.workers.close()
        self.sweeper.stop()
        services.background.stop()
        self.quarantine.end()
        services.explainer.stop()
        services.watches.stop()
        self.workers.join(DRAIN_SECONDS)
        self.events.stop(EVENTS_SECONDS)
        services.applier.stop()
        if self.election:
            self.election.stop(LAST_WRITES_SECONDS)
        for server in self.servers:
            server.stop()

    def _log_programs(self) -> None:
        try:
            with self.scratch() as scratch:
                means = self.settings.means(self.settings.memory_limit())
                found = find_programs(replace(means, scratch=scratch))
        except BundleError as error:
            log.info("programs not checked", extra={"problem": error.message})
        except Exception as error:  # noqa: BLE001 - a bug of a plug-in that may not be in use
            self.supervisor.note(Kind.OTHER, "programs", error)
        else:
            for name, program in found.items():
                if isinstance(program, BundleError):
                    log.info("program of a plug-in not available", extra={"plugin": name, "problem": program.message})


def _log_plugins() -> None:
    for plugin in find_installed():
        if not plugin.is_builtin:
            about = {"plugin": plugin.name, "type": plugin.type, "package": f"{plugin.package} {plugin.version}"}
            if problem := check(plugin):
                log.error("plug-in refused", extra={**about, "problem": problem})
            else:
                log.info("plug-in found", extra=about)


def _log_proxies(settings: Settings) -> None:
    proxies = settings.network(in_pod=False).proxies
    found = {"httpsProxy": proxies.https, "httpProxy": proxies.http}
    if told := {name: proxy.authority for name, proxy in found.items() if proxy}:
        log.info("sources are read through a proxy", extra=told)


def _log_confinement(settings: Settings) -> None:
    found = Mechanisms.found()
    level = logging.WARNING if found.lack() else logging.INFO
    log.log(level, "confinement of git and helm", extra={"confinement": settings.confinement, **found.described()})


WORKING = ("worker", "apply")
"""Name prefixes of the threads that work on passes."""
STUCK_SECONDS = 300.0
"""A pass in which no request ends for this long hangs: each request ends within 35 s."""
SILENT_SECONDS = 15.0
"""After silence of the API server for this long, readiness sends it a request."""
REQUEST_TIMEOUT = (2.0, 2.0)
REQUEST_PERIOD_SECONDS = 1.0
"""At most one such request in this time, however often readiness is probed."""


class ServerProbe:
    """Notes when the API server responded, and asks it for a sign of life after a silence. Thread-safe.

    The client is not fenced. The clock is in monotonic seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._answered = self._worked = clock()
        self._requesting = threading.Lock()
        self._problem, self._request_from = "", -math.inf

    def request_ended(self, status: int) -> None:
        """Note the end of a request to the API server, on the thread that made it; status 0: no response."""
        if status:
            self._answered = self._clock()
        if threading.current_thread().name.startswith(WORKING):
            self._worked = self._clock()

    @property
    def idle_seconds(self) -> float:
        """Seconds since a request of a pass ended, with or without a response."""
        return self._clock() - self._worked

    @property
    def is_silent(self) -> bool:
        """Whether the API server has not responded for a while."""
        return self._clock() - self._answered >= SILENT_SECONDS

    def find_problem(self) -> str:
        """Return why the API server does not respond; empty if it does."""
        # While another thread sends a request, the last result counts.
        if not self.is_silent:
            return ""
        if self._clock() >= self._request_from and self._requesting.acquire(blocking=False):
            try:
                self._problem = self._request()
                self._request_from = self._clock() + REQUEST_PERIOD_SECONDS
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
        if min(self._workers.longest_seconds, self._server.idle_seconds) > STUCK_SECONDS:
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
