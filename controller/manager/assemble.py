"""Assembles a controller from its settings: the one place that knows which part is made of which others.

Nothing is started here, and no request is sent. Not here: starting and stopping (manager.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib.metadata import version

from rukpak.api import names
from rukpak.api.plugins import Limits
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.execute import Applier
from rukpak.controller.apply.hooks import HookRunner
from rukpak.controller.apply.removal import Remover
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.entry_points import find_installed
from rukpak.controller.building.request import BuildSettings
from rukpak.controller.certificates import Certificate
from rukpak.controller.content.limits import DiskShares
from rukpak.controller.content.store import ContentStore, StoreInUseError
from rukpak.controller.kube.client import Client, Fence, connect
from rukpak.controller.kube.configuration import is_in_pod
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.events import EventRecorder
from rukpak.controller.kube.lease import Election
from rukpak.controller.kube.resources import lease_of
from rukpak.controller.manager.manager import Manager, Probes, ServerProbe
from rukpak.controller.manager.metrics import CONTENT_TYPE, Metrics, ProcessState
from rukpak.controller.manager.process import DIED, LOST, exit_at_once, make_identity
from rukpak.controller.manager.queue import WorkQueue
from rukpak.controller.manager.serving import METRICS, PROBES, Address, ListenError, Protection, Reply, Reviewer, Server
from rukpak.controller.manager.workers import Dispatcher, Workers
from rukpak.controller.observe.explanations import Explainer
from rukpak.controller.observe.following import ObjectFollower, Topic
from rukpak.controller.observe.watches import Watches
from rukpak.controller.processes.memory_limit import MemoryLimit
from rukpak.controller.processes.programs import Mechanisms
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.reconcile.context import Services
from rukpak.controller.reconcile.reconciler import Reconciler
from rukpak.controller.revisions.accounts import Accounts
from rukpak.controller.revisions.background import BackgroundWork, Quarantine
from rukpak.controller.revisions.polling import Poller
from rukpak.controller.revisions.references import find_waiting, look_up, read_config
from rukpak.controller.revisions.source_access import SecretReader, SourceAccess
from rukpak.controller.revisions.store import LargeRevisions, RevisionSecrets, RevisionStore, Sweeper, remove_orphans
from rukpak.controller.settings import Settings, parse_address
from rukpak.controller.sharing import Admission, share_of
from rukpak.controller.status.writer import StatusWriter

log = logging.getLogger(__name__)

WATCHES = 60
"""Connections for watches of kinds, grants and single objects."""
UNFENCED = 8
"""Connections for the Lease, reviews and the probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """What all other parts are made of."""

    settings: Settings
    metrics: Metrics
    client: Client
    """For passes and watches."""
    unfenced: Client
    """For the Lease, reviews and the probe, which neither fence nor a full pool may block."""
    probe: ServerProbe
    fence: Fence | None
    """What every write of `client` must pass; None: without leader election."""
    store: ContentStore
    memory: MemoryLimit
    limits: Limits
    admission: Admission
    quarantine: Quarantine


def assemble(settings: Settings) -> Manager:
    """Create all parts of a controller, not started.

    Raises: ConfigurationError without a usable cluster configuration; ListenError if an address cannot be listened on;
        any other OSError, or StoreInUseError, if the content store cannot be opened.
    """
    process = _make_process(settings)
    client, metrics, policy = process.client, process.metrics, settings.accounts()

    def _share(name: str) -> str:
        found = services.watches.deployments.outline(name)
        return share_of(policy.complete(found)) if found else ""  # deleted or unreadable: done quickly

    queue = WorkQueue(workers=settings.workers, share=_share, on_waited=metrics.waited, on_worked=metrics.worked)
    dispatcher = Dispatcher(queue)
    follower = ObjectFollower(client, {topic: partial(dispatcher.followed_changed, topic) for topic in Topic})
    events = EventRecorder(client, f"{names.GROUP}/rukpak")
    sweeper = Sweeper(
        partial(remove_orphans, client, settings.namespace), partial(client.supervisor.note, Kind.OTHER, "sweep")
    )
    services = _make_services(process, dispatcher, follower, events)
    reconciler = dispatcher.reconciler = Reconciler(services, sweeper.request)

    def _start_over() -> None:
        follower.drop()
        dispatcher.cluster_restored()

    client.on_restored = process.unfenced.on_restored = _start_over
    workers = Workers(queue, reconciler, client.supervisor, metrics.pass_ended)
    elected = threading.Event()
    election = _make_election(process, elected)
    _measure(process, services, queue, elected)
    probes = Probes(services.watches, workers, election, process.probe)
    return Manager(
        settings=settings,
        supervisor=client.supervisor,
        services=services,
        workers=workers,
        events=events,
        sweeper=sweeper,
        quarantine=process.quarantine,
        elected=elected,
        election=election,
        servers=listen(settings, metrics, probes, process.unfenced),
        scratch=process.store.scratch,
    )


def _make_process(settings: Settings) -> _Process:
    metrics, fence = Metrics(), Fence() if settings.leader_elect else None
    client = _connect(settings, settings.workers + settings.apply_workers + WATCHES, fence)
    unfenced = _connect(settings, UNFENCED)
    client.relist_seconds = settings.relist_interval
    probe = ServerProbe(unfenced)

    def _request_ended(method: str, host: str, status: int) -> None:
        metrics.request_ended(method, host, status)
        probe.request_ended(status)

    client.transport.on_request = unfenced.transport.on_request = _request_ended
    store, memory = _open_store(settings), settings.memory_limit()
    circumstances = f"{version('rukpak')} {memory.bytes}"
    quarantine = Quarantine(lambda: store.folder and store.folder / "quarantine", circumstances)
    supervisor = Supervisor(metrics.thread_died, lambda _why: exit_at_once(quarantine, DIED))
    client.supervisor = unfenced.supervisor = supervisor
    return _Process(
        settings=settings,
        metrics=metrics,
        client=client,
        unfenced=unfenced,
        probe=probe,
        fence=fence,
        store=store,
        memory=memory,
        limits=memory.limits(Limits()),
        admission=Admission(memory.work_bytes),
        quarantine=quarantine,
    )


def _connect(settings: Settings, pool: int, fence: Fence | None = None) -> Client:
    return connect(
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        pool=pool,
        user_agent=f"rukpak/{version('rukpak')}{f' shard/{settings.shard}' if settings.shard else ''}",
        fence=fence,
    )


def _open_store(settings: Settings) -> ContentStore:
    *others, last = settings.store_folders()
    for folder in others:
        try:
            return ContentStore(folder)
        except StoreInUseError:
            log.info("content store is in use by another process, trying the next one", extra={"folder": str(folder)})
    return ContentStore(last)


def _make_services(
    process: _Process, dispatcher: Dispatcher, follower: ObjectFollower, events: EventRecorder
) -> Services:
    settings, client = process.settings, process.client
    discovery = Discovery(client)
    accounts = settings.accounts()
    watches = Watches(
        client,
        discovery,
        dispatcher,
        settings.shard,
        share=lambda deployment: share_of(accounts.complete(deployment)),
    )
    applier = Applier(client, discovery, watches, settings.apply_workers)
    builder = _make_builder(process)
    ended = dispatcher.deployment_changed
    background = BackgroundWork(settings.fetch_workers, ended, dispatcher.progressed, process.metrics)
    access = SourceAccess(
        SecretReader(client, settings.readable_namespaces(), settings.network(in_pod=is_in_pod()).registry_mirrors),
        ended,
        process.admission,
        process.quarantine,
    )
    return Services(
        watches=watches,
        discovery=discovery,
        revisions=RevisionStore(
            client, _watch_revisions(process, watches, dispatcher), settings.revision_mebibytes << 20
        ),
        large=LargeRevisions(process.admission, process.limits, ended),
        signatures=settings.signatures(),
        accounts=Accounts(client, accounts, follower),
        follower=follower,
        find_waiting=partial(find_waiting, client, discovery, watches),
        writer=StatusWriter(client, watches.deployments, events),
        builder=builder,
        background=background,
        access=access,
        read_config=partial(read_config, client),
        poller=Poller(builder, background, access),
        look_up=partial(look_up, client, discovery.resource) if settings.lookup == "allow" else None,
        applier=applier,
        remover=Remover(client, discovery, applier.pool, watches.served.at_storage_version),
        hook_runner=HookRunner(client, discovery, watches.objects),
        explainer=Explainer(client, partial(dispatcher.objects_changed, urgent=False)),
        observer=process.metrics,
        now=lambda: datetime.now(UTC).replace(microsecond=0),
    )


def _make_builder(process: _Process) -> Builder:
    settings, store_bytes = process.settings, process.settings.store_mebibytes << 20
    return Builder(
        process.store,
        BuildSettings(
            store_bytes=store_bytes,
            limits=process.limits,
            timeout=settings.fetch_timeout,
            network=settings.network(in_pod=is_in_pod()),
            means=settings.means(process.memory),
        ),
        lambda: datetime.now(UTC),
        shares=DiskShares.of_store(store_bytes, process.limits),
        observer=process.metrics,
    )


def _watch_revisions(process: _Process, watches: Watches, dispatcher: Dispatcher) -> RevisionSecrets:
    # A pass runs where status names a damaged revision.
    def _reconcile_damaged(deployments: Iterable[BundleDeployment]) -> None:
        for each in deployments:
            name, status = each.metadata.name, each.status
            named = {status.revision, status.installed_revision, *(entry.revision for entry in status.history)}
            if any(digest and secrets.is_lost(name, digest) for digest in named):
                dispatcher.deployment_changed(name)

    def _damaged(name: str) -> None:
        found = watches.deployments.outline(name)
        _reconcile_damaged([found] if found else [])

    secrets = RevisionSecrets(
        process.client, process.settings.namespace, _damaged, lambda: _reconcile_damaged(watches.deployments.outlines())
    )
    watches.include(secrets.reflector)
    return secrets


def _make_election(process: _Process, elected: threading.Event) -> Election | None:
    if process.fence is None:
        return None
    return Election(
        client=process.unfenced,
        namespace=process.settings.namespace,
        name=lease_of(process.settings.shard),
        identity=make_identity(process.store.lock),
        annotations={names.VERSION: version("rukpak")},
        times=process.settings.lease_times(),
        fence=process.fence,
        on_elected=elected.set,
        on_lost=partial(exit_at_once, process.quarantine, LOST),
    )


def _measure(process: _Process, services: Services, queue: WorkQueue, elected: threading.Event) -> None:
    settings = process.settings
    process.metrics.serve(
        ProcessState(
            queue=queue.stats,
            workers=settings.workers,
            leading=elected.is_set,
            deployments=services.watches.deployments.outlines,
            store_bytes=process.store.bytes_used,
            preparations=services.background.counts,
            version=version("rukpak"),
            confinement=Mechanisms.found().counted(),
            plugins=find_installed(),
            only_problems=settings.condition_metrics == "problems",
            shard=settings.shard,
        )
    )


def listen(settings: Settings, metrics: Metrics, probes: Probes, client: Client) -> tuple[Server, ...]:
    """Listen at the addresses of the settings, unless `off`; the client is for reviews and must not be fenced.

    Raises: ListenError if an address cannot be listened on; OSError if a certificate cannot be loaded.
    """

    def _serve_metrics(address: Address) -> Server:
        protection = Protection(limits=METRICS)
        if settings.serves_securely(address.host):
            context = Certificate(settings.certificate_files()).context
            protection = replace(protection, context=context, review=Reviewer(client).review)
        routes = {"/metrics": lambda: Reply(HTTPStatus.OK, metrics.scrape(), CONTENT_TYPE)}
        return Server(address, routes, protection, client.supervisor)

    plain = Protection(limits=PROBES)
    servers = (
        _listen(settings, "metrics_address", _serve_metrics),
        _listen(settings, "probe_address", lambda address: Server(address, probes.routes(), plain, client.supervisor)),
    )
    return tuple(server for server in servers if server)


def _listen(settings: Settings, option: str, make: Callable[[Address], Server]) -> Server | None:
    found = parse_address(option, getattr(settings, option))
    if found is None:
        return None
    address = Address(f"--{option.replace('_', '-')}", *found)
    try:
        return make(address)
    except ListenError:
        if not settings.is_default(option):
            raise
        return make(replace(address, port=0))
