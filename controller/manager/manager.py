"""Starts and stops a controller.

A standby watches the kinds that `status.managedKinds` names. Before it becomes active, it lists all BundleDeployments
and all kinds again, so that it does not overwrite what the previous leader has just written. Passes wait for these
lists; a deletion waits even while one of them fails.

Not here: how its parts are created and connected (assemble.py).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Means
from rukpak.controller.building.entry_points import check, find_installed, find_programs
from rukpak.controller.kube.events import EventRecorder
from rukpak.controller.kube.lease import Election
from rukpak.controller.manager.process import StartCollector
from rukpak.controller.manager.serving import Server
from rukpak.controller.manager.workers import Workers
from rukpak.controller.processes.programs import Mechanisms
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.reconcile.context import Services
from rukpak.controller.revisions.quarantine import Quarantine
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
    """Restarts the threads of this process."""
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
    means: Means
    """Which programs rendering runs."""

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
        services.sources.background.stop()
        self.quarantine.end()
        services.objects.explainer.stop()
        services.watches.stop()
        self.workers.join(DRAIN_SECONDS)
        self.events.stop(EVENTS_SECONDS)
        services.objects.applier.stop()
        if self.election:
            self.election.stop(LAST_WRITES_SECONDS)
        for server in self.servers:
            server.stop()

    def _log_programs(self) -> None:
        try:
            with self.scratch() as scratch:
                found = find_programs(replace(self.means, scratch=scratch))
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
