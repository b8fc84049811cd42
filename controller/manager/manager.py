"""The controller: `make_manager` creates its parts from the settings, `Manager` starts and stops them.

Not here: how the parts are created and connected (wiring/).
"""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from controller.manager.collector import StartCollector
from controller.manager.exits import exit_after_deaths
from controller.manager.metrics import Metrics
from controller.manager.serving.activity import Activity
from controller.manager.serving.server import Server
from controller.manager.wiring.applying import Applying, make_applying
from controller.manager.wiring.building import Building, make_building
from controller.manager.wiring.cluster import Cluster, make_cluster
from controller.manager.wiring.connections import connect
from controller.manager.wiring.endpoints import make_probes, make_process_state, make_servers
from controller.manager.wiring.leadership import Leadership, make_leadership, make_takeovers
from controller.manager.wiring.passes import make_reconciler, make_workers
from controller.manager.wiring.resources import make_resources
from controller.manager.workers import Workers
from controller.processes.confinement import Mechanisms
from controller.processes.supervision import Kind, Supervisor
from controller.settings import Settings

log = logging.getLogger(__name__)

DRAIN_SECONDS = 1.2
"""For running passes to finish before writes are blocked, so that a successor can start within 2 s."""
LAST_WRITES_SECONDS = 0.3
EVENTS_SECONDS = 0.3
SWITCH_SECONDS = 0.0002
"""How long a thread computes while others wait for the interpreter. With Python's 0.005, four threads that compute make
300 round trips to a server take 13 s instead of 0.4 s, as each reply waits for all of them; they compute as much."""
START_SECONDS = 1.0
"""Between attempts to start threads that could not be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """A controller that can be started and stopped once."""

    settings: Settings
    cluster: Cluster
    building: Building
    applying: Applying
    workers: Workers
    leadership: Leadership
    servers: tuple[Server, ...]

    @property
    def supervisor(self) -> Supervisor:
        """Restarts the threads of this process."""
        return self.cluster.client.supervisor

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then finish running passes and release the Lease, within 2 s.

        While another process leads, only watch, to take over with warm caches.
        """
        memory = self.settings.memory_limit()
        about = {"version": version("rukpak"), "namespace": self.settings.namespace, "shard": self.settings.shard}
        log.info("starting", extra={**about, "memory": memory.bytes, "memoryLimit": memory.origin})
        _log_confinement(self.settings)
        sys.setswitchinterval(SWITCH_SECONDS)
        collector = StartCollector()
        collector.begin()
        self.cluster.events.start()
        self.leadership.start()
        self.cluster.watches.start()
        for server in self.servers:
            server.start()
        self.supervisor.thread(Kind.OTHER, "programs", self.building.log_programs).start()
        self.supervisor.thread(Kind.START, "act", lambda: self._act(stop)).start()
        while not stop.wait(START_SECONDS):
            self.supervisor.start_waiting()
            collector.end_once(lambda: not self.cluster.watches.unsynced())
        collector.end_once(lambda: True)
        log.info("stopping")
        self._drain()

    def _act(self, stop: threading.Event) -> None:
        """Start the workers once this process leads, then sweep until the end."""
        self.leadership.elected.wait()
        if self.leadership.follows:
            self.cluster.watches.refresh()  # they may lag behind the last writes of the previous leader, such as pins
        if stop.is_set():
            return
        self.workers.start()
        while not self.cluster.watches.synced:
            if stop.wait(0.2):
                return
        self.supervisor.thread(Kind.OTHER, "shards", self.leadership.run_survey).start()
        self.building.sweeper.run()

    def _drain(self) -> None:
        self.workers.close()
        self.building.sweeper.stop()
        self.building.background.stop()
        self.building.quarantine.end()
        self.applying.explainer.stop()
        self.cluster.watches.stop()
        self.workers.join(DRAIN_SECONDS)
        self.cluster.events.stop(EVENTS_SECONDS)
        self.applying.applier.stop()
        self.leadership.stop(LAST_WRITES_SECONDS)
        for server in self.servers:
            server.stop()


def _log_confinement(settings: Settings) -> None:
    found = Mechanisms.found()
    level = logging.WARNING if found.lack() else logging.INFO
    log.log(level, "confinement of git and helm", extra={"confinement": settings.confinement, **found.described()})


def make_manager(settings: Settings) -> Manager:
    """Create all parts of a controller, not started.

    Raises: ConfigurationError without a usable cluster configuration; ListenError if an address cannot be listened on;
        any other OSError, or StoreInUseError, if the content store cannot be opened.
    """
    metrics, activity = Metrics(), Activity()
    connections = connect(settings, metrics, activity)
    resources = make_resources(settings)
    connections.supervise(metrics.thread_died, partial(exit_after_deaths, resources.quarantine))
    cluster = make_cluster(settings, connections.client, metrics)
    building = make_building(settings, resources, cluster, metrics)
    applying = make_applying(settings, cluster)
    takeovers = make_takeovers(settings, connections, resources, cluster.dispatcher.ended)
    reconciler = cluster.dispatcher.reconciler = make_reconciler(cluster, building, applying, metrics, takeovers)
    connections.report_restored(cluster.start_over)
    workers = make_workers(settings, cluster, reconciler, metrics)
    leadership = make_leadership(settings, connections, resources, cluster, takeovers)
    metrics.serve(make_process_state(settings, resources, cluster, building, leadership))
    probes = make_probes(connections, cluster, workers, leadership, activity)
    return Manager(
        settings=settings,
        cluster=cluster,
        building=building,
        applying=applying,
        workers=workers,
        leadership=leadership,
        servers=make_servers(settings, metrics, probes, connections.unfenced),
    )
