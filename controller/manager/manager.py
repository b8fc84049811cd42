"""Wiring: one function makes all parts from the settings, one object starts and stops them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version

from api import names
from api.plugins import Limits
from api.v1alpha2.types import BundleDeployment
from controller.apply.execute import Applier
from controller.apply.hooks.runner import HookRunner
from controller.apply.prune import Remover
from controller.build.builder import Builder
from controller.build.context import BuildSettings
from controller.content.shares import Shares
from controller.content.store import ContentStore
from controller.kube.client import ApiError, Client, RequestHook, connect
from controller.kube.configuration import is_in_pod
from controller.kube.discovery import Discovery
from controller.kube.events import EventRecorder
from controller.kube.fence import Fence
from controller.kube.lease import Election
from controller.manager.identity import make_identity
from controller.manager.metrics import Metrics, State
from controller.manager.queue import WorkQueue
from controller.manager.serving.activity import Activity
from controller.manager.serving.certificate import Certificate
from controller.manager.serving.probes import Probes
from controller.manager.serving.reviews import Reviewer
from controller.manager.serving.routes import metrics_routes, probe_routes
from controller.manager.serving.server import METRICS, PROBES, Server
from controller.manager.sweeper import Sweeper
from controller.manager.workers import Workers
from controller.observe.contested import ContestedWatches
from controller.observe.explanations import Explainer
from controller.observe.grants import GrantWatches
from controller.observe.lookout import Lookout
from controller.observe.named import NamedWatches
from controller.observe.watches import Watches
from controller.processes.confinement import Mechanisms
from controller.processes.supervision import Kind, Supervisor
from controller.reconcile.deletion import Deleter
from controller.reconcile.health import Appraiser
from controller.reconcile.holdings import Holdings
from controller.reconcile.hooks import Hooks
from controller.reconcile.install import Installer
from controller.reconcile.reconciler import Reconciler
from controller.reconcile.registration import Registrar
from controller.retries import Retries
from controller.revisions.background import Preparations
from controller.revisions.credentials import SecretReader
from controller.revisions.finder import Finder
from controller.revisions.large import LargeRevisions
from controller.revisions.polling import Poller
from controller.revisions.quarantine import Quarantine
from controller.revisions.service_accounts import RIGHTS_SECONDS, AccountPolicy, Accounts
from controller.revisions.source_access import PROGRESS_SECONDS, Assistant
from controller.revisions.store import RevisionStore
from controller.settings import Settings, parse_address
from controller.sharing.memory import Admission
from controller.sharing.shares import share_of
from controller.status.writer import Publisher

log = logging.getLogger(__name__)

HEALTH_SECONDS = 0.1
"""How long a change of health alone may wait, so that a rollout of many objects is one pass and not many."""
WATCHES = 60
"""Connections: of kinds and grants, and of lookout.py."""
DRAIN_SECONDS = 1.2
"""For the passes that are under way at the end; then nothing is written any more. A successor begins within 2 s."""
LAST_WRITES_SECONDS = 0.3
EVENTS_SECONDS = 0.3
LONGEST_PAUSE_SECONDS = 5.0
"""Between two attempts to catch up, whatever the API server asks for: until then nothing is repaired."""
OWN_CONNECTIONS = 8
"""For the Lease, reviews and the probe: these have a client of their own, which no fence and no full pool holds up."""
LOST = 1
"""Exit status of a leader that lost its Lease."""
DIED = 3
"""Exit status of a process one of whose threads dies again and again."""


_Told = Callable[[], None]


class _Dispatcher:
    """Puts what has changed into the queue."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self.reconciler: Reconciler | None = None

    def deployment_changed(self, name: str) -> None:
        self._queue.add(name)

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        if urgent:
            self._queue.add(name)
        else:
            self._queue.add_after(name, HEALTH_SECONDS)

    def secret_changed(self, name: str) -> None:
        if self.reconciler:
            self.reconciler.retry_sources(name)
        self._queue.add(name)

    def rights_changed(self, name: str) -> None:
        if self.reconciler:
            self.reconciler.retry_rights(name)
        self._queue.add_after(name, RIGHTS_SECONDS)

    def contested_changed(self, name: str) -> None:
        if self.reconciler:
            self.reconciler.retry_objects(name)
        self._queue.add(name)

    def cluster_changed(self) -> None:
        for name in self.reconciler.end_waits() if self.reconciler else []:
            self._queue.add(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """A controller that can be started and stopped once."""

    queue: WorkQueue
    watches: Watches
    events: EventRecorder
    workers: Workers
    preparations: Preparations
    quarantine: Quarantine
    applier: Applier
    explainer: Explainer
    reconciler: Reconciler
    sweeper: Sweeper
    elected: threading.Event
    """Set when this process may act."""
    election: Election | None
    servers: tuple[Server, ...]
    supervisor: Supervisor
    settings: Settings

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then finish what is under way, and hand the Lease over, within 2 s.

        While another process leads, only watch: the caches are warm when it ends.
        """
        memory = self.settings.memory_limit()
        about = {"version": version("rukpak"), "namespace": self.settings.namespace}
        log.info("starting", extra={**about, "memory": memory.bytes, "memoryLimit": memory.origin})
        _tell_confinement(self.settings)
        self.events.start()
        if self.election:
            self.election.start()
        else:
            self.elected.set()
        self.watches.start()
        for server in self.servers:
            server.start()
        self.supervisor.thread(Kind.START, "act", lambda: self._act(stop)).start()
        stop.wait()
        log.info("stopping")
        self._drain()

    def _act(self, stop: threading.Event) -> None:
        """Begin to work once this process may, and to remove the revisions of nobody."""
        self.elected.wait()
        if self.election and self.election.follows:
            self._catch_up(stop)
        if stop.is_set():
            return
        self.workers.start()
        while not self.watches.synced:
            if stop.wait(0.2):
                return
        self.sweeper.run()

    def _catch_up(self, stop: threading.Event) -> None:
        """Learn what the leader before wrote last: a watch may not have brought it yet, and pins must not be lost."""
        while not stop.is_set():
            try:
                self.watches.catch_up()
            except ApiError as error:
                log.warning("BundleDeployments cannot be listed", extra={"reply": str(error)})
                stop.wait(min(error.retry_after or 1.0, LONGEST_PAUSE_SECONDS))
            else:
                return

    def _drain(self) -> None:
        self.queue.close()
        self.sweeper.stop()
        self.preparations.stop()
        self.quarantine.end()
        self.explainer.stop()
        self.watches.stop()
        self.workers.join(DRAIN_SECONDS)
        self.events.stop(EVENTS_SECONDS)
        self.applier.stop()
        if self.election:
            self.election.stop(LAST_WRITES_SECONDS)
        for server in self.servers:
            server.stop()


def _tell_confinement(settings: Settings) -> None:
    """Say what git and helm are kept in by; a warning, if that is not all that it should be."""
    found = Mechanisms.found()
    level = logging.WARNING if found.lack() else logging.INFO
    log.log(level, "confinement of git and helm", extra={"confinement": settings.confinement, **found.described()})


def _end_at_once(quarantine: Quarantine) -> None:
    """End the process: its threads cannot be stopped, and somebody else acts from now on."""
    quarantine.end()
    os._exit(LOST)


def _end_after_deaths(_why: str) -> None:
    """End the process at once, so that the reason stays the last thing in its log."""
    logging.shutdown()
    os._exit(DIED)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def make_manager(settings: Settings) -> Manager:
    """Make all parts of a controller.

    Raises: ConfigurationError if there is no cluster to talk to; ListenError if an address cannot be served; any other
        OSError or StoreInUseError if the content store cannot be opened.
    """
    fence = Fence() if settings.leader_elect == "yes" else None
    metrics, activity = Metrics(), Activity()
    client = _connect(settings, settings.workers + settings.apply_workers + WATCHES, fence)
    own_client = _connect(settings, OWN_CONNECTIONS)
    client.on_request = own_client.on_request = _listen_to_requests(metrics, activity)

    def end_after_deaths(why: str) -> None:
        quarantine.end()  # a thread that dies is nobody's doing who is prepared
        _end_after_deaths(why)

    supervisor = Supervisor(metrics.thread_died, end_after_deaths)
    client.supervisor = own_client.supervisor = supervisor
    policy = settings.accounts()
    queue = WorkQueue(
        workers=settings.workers,
        share=lambda name: _share_of(watches.deployment(name), policy),
        on_waited=metrics.waited,
        on_worked=metrics.worked,
    )
    discovery, retries = Discovery(client), Retries()
    dispatcher = _Dispatcher(queue)
    watches = Watches(client, discovery, dispatcher)
    store = ContentStore(settings.store_folder())
    elected = threading.Event()
    memory, store_bytes = settings.memory_limit(), settings.store_mebibytes << 20
    limits = memory.limits(Limits())
    admission = Admission(memory.work_bytes)
    quarantine = Quarantine(store.folder and store.folder / "quarantine", f"{version('rukpak')} {memory.bytes}")
    builder = Builder(
        store,
        BuildSettings(
            store_bytes=store_bytes,
            limits=limits,
            timeout=settings.fetch_timeout,
            network=settings.network(in_pod=is_in_pod()),
            means=settings.means(memory),
        ),
        lambda: datetime.now(UTC),
        shares=Shares.of_store(store_bytes, limits),
        observer=metrics,
    )
    preparations = Preparations(settings.fetch_workers, queue.add, lambda name: queue.add_after(name, PROGRESS_SECONDS))
    revisions = RevisionStore(client, settings.namespace, settings.revision_mebibytes << 20)
    sweeper = Sweeper(revisions.remove_orphans, lambda error: supervisor.note(Kind.OTHER, "sweep", error))
    applier = Applier(client, discovery, watches, retries, settings.apply_workers)
    lookout = Lookout(client)
    secret_watches = NamedWatches(lookout, dispatcher.secret_changed)
    assistant = Assistant(
        SecretReader(client, settings.readable_namespaces()), secret_watches, queue.add, admission, quarantine
    )
    large = LargeRevisions(admission, limits, queue.add)
    events = EventRecorder(client, f"{names.GROUP}/rukpak")
    publisher = Publisher(client, watches, events)
    remover = Remover(client, discovery, applier.pool, watches.stored)
    absent = NamedWatches(lookout, queue.add)
    accounts = Accounts(client, policy, absent, GrantWatches(client, dispatcher.rights_changed))
    finder = Finder(
        builder=builder,
        preparations=preparations,
        revisions=revisions,
        discovery=discovery,
        retries=retries,
        assistant=assistant,
        poller=Poller(builder, preparations, retries, assistant),
        policy=policy,
        publisher=publisher,
        large=large,
        now=_now,
    )
    hooks = Hooks(HookRunner(client, discovery, watches, retries), watches, finder, accounts)
    explainer = Explainer(client, lambda name: dispatcher.objects_changed(name, urgent=False))
    contested = ContestedWatches(lookout, discovery, dispatcher.contested_changed)
    appraiser = Appraiser(watches, explainer)
    holdings = Holdings(finder=finder, revisions=revisions, watches=watches, discovery=discovery, reader=applier.reader)
    installer = Installer(
        watches=watches,
        finder=finder,
        applier=applier,
        remover=remover,
        hooks=hooks,
        holdings=holdings,
        accounts=accounts,
        appraiser=appraiser,
        publisher=publisher,
        retries=retries,
        contested=contested,
        now=_now,
        observer=metrics,
    )
    reconciler = Reconciler(
        watches=watches,
        finder=finder,
        installer=installer,
        deleter=Deleter(
            watches=watches,
            finder=finder,
            accounts=accounts,
            remover=remover,
            hooks=hooks,
            holdings=holdings,
            revisions=revisions,
            publisher=publisher,
            retries=retries,
            now=_now,
        ),
        hooks=hooks,
        accounts=accounts,
        registrar=Registrar(accounts, holdings, publisher),
        publisher=publisher,
        retries=retries,
        appraiser=appraiser,
        contested=contested,
        abandoned=sweeper.ask,
        large=large,
        now=_now,
    )
    dispatcher.reconciler = reconciler
    workers = Workers(queue, reconciler.reconcile, settings.workers, supervisor=supervisor, on_pass=metrics.pass_ended)
    lost = partial(_end_at_once, quarantine)
    election = _make_election(settings, own_client, store, fence, (elected.set, lost)) if fence else None
    metrics.serve(
        State(
            queue=queue.stats,
            workers=settings.workers,
            leading=elected.is_set,
            deployments=watches.deployments,
            store_bytes=store.bytes_used,
            preparations=preparations.counts,
            version=version("rukpak"),
            confinement=Mechanisms.found().counted(),
        )
    )
    probes = Probes(
        watches=watches, workers=workers, queue=queue.stats, election=election, activity=activity, client=own_client
    )
    return Manager(
        queue=queue,
        watches=watches,
        events=events,
        workers=workers,
        preparations=preparations,
        quarantine=quarantine,
        applier=applier,
        explainer=explainer,
        reconciler=reconciler,
        sweeper=sweeper,
        elected=elected,
        election=election,
        servers=tuple(_make_servers(settings, metrics, probes, own_client)),
        supervisor=supervisor,
        settings=settings,
    )


def _share_of(deployment: BundleDeployment | None, policy: AccountPolicy) -> str:
    """Return whose share of the workers a pass takes; what is gone, or cannot be read, is soon done."""
    return share_of(policy.complete(deployment)) if deployment else ""


def _connect(settings: Settings, pool: int, fence: Fence | None = None) -> Client:
    return connect(
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        pool=pool,
        user_agent=f"rukpak/{version('rukpak')}",
        fence=fence,
    )


def _listen_to_requests(metrics: Metrics, activity: Activity) -> RequestHook:
    def request_ended(method: str, host: str, status: int) -> None:
        metrics.request_ended(method, host, status)
        activity.request_ended(status)

    return request_ended


def _make_servers(settings: Settings, metrics: Metrics, probes: Probes, client: Client) -> Iterator[Server]:
    if address := parse_address("metrics_address", settings.metrics_address):
        secure = settings.serves_securely(address[0])
        yield Server(
            "--metrics-address",
            address,
            metrics_routes(metrics),
            places=METRICS,
            supervisor=client.supervisor,
            context=Certificate(settings.certificate_files()).context if secure else None,
            review=Reviewer(client).review if secure else None,
        )
    if address := parse_address("probe_address", settings.probe_address):
        yield Server("--probe-address", address, probe_routes(probes), places=PROBES, supervisor=client.supervisor)


def _make_election(
    settings: Settings, client: Client, store: ContentStore, fence: Fence, told: tuple[_Told, _Told]
) -> Election:
    return Election(
        client=client,
        namespace=settings.namespace,
        name=names.LEASE,
        identity=make_identity(store.lock),
        times=settings.lease_times(),
        fence=fence,
        on_elected=told[0],
        on_lost=told[1],
    )
