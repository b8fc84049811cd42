"""Wiring: metrics, probes and their listeners."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from importlib.metadata import version

from controller.kube.client import Client
from controller.manager.metrics import CONTENT_TYPE, Metrics, ProcessState
from controller.manager.serving.activity import Activity
from controller.manager.serving.certificate import Certificate
from controller.manager.serving.probes import Probes
from controller.manager.serving.reviews import Reviewer
from controller.manager.serving.server import METRICS, PROBES, ListenError, Reply, Server
from controller.manager.wiring.building import Building
from controller.manager.wiring.cluster import Cluster
from controller.manager.wiring.connections import Connections
from controller.manager.wiring.leadership import Leadership
from controller.manager.wiring.resources import Resources
from controller.manager.workers import Workers
from controller.processes.confinement import Mechanisms
from controller.settings import Settings, parse_address

Address = tuple[str, int]


def make_process_state(
    settings: Settings,
    resources: Resources,
    cluster: Cluster,
    building: Building,
    leadership: Leadership,
) -> ProcessState:
    """Return the state that a scrape reads."""
    return ProcessState(
        queue=cluster.queue.stats,
        workers=settings.workers,
        leading=leadership.elected.is_set,
        deployments=cluster.watches.outlines,
        store_bytes=resources.store.bytes_used,
        preparations=building.background.counts,
        version=version("rukpak"),
        confinement=Mechanisms.found().counted(),
        only_problems=settings.condition_metrics == "problems",
        shard=settings.served_shard(),
        unserved=leadership.survey.unserved,
    )


def make_probes(
    connections: Connections,
    cluster: Cluster,
    workers: Workers,
    leadership: Leadership,
    activity: Activity,
) -> Probes:
    """Create the health and readiness checks."""
    return Probes(
        watches=cluster.watches,
        workers=workers,
        queue=cluster.queue.stats,
        election=leadership.election,
        activity=activity,
        client=connections.unfenced,
    )


def make_servers(settings: Settings, metrics: Metrics, probes: Probes, client: Client) -> tuple[Server, ...]:
    """Listen at the addresses of the settings, unless `off`; the client is for reviews and must not be fenced.

    Raises: ListenError if an address cannot be listened on; OSError if a certificate cannot be loaded.
    """
    servers = (_make_metrics_server(settings, metrics, client), _make_probe_server(settings, probes, client))
    return tuple(server for server in servers if server)


def _make_metrics_server(settings: Settings, metrics: Metrics, client: Client) -> Server | None:
    def _make(address: Address) -> Server:
        secure = settings.serves_securely(address[0])
        return Server(
            "--metrics-address",
            address,
            {"/metrics": lambda: Reply(HTTPStatus.OK, metrics.scrape(), CONTENT_TYPE)},
            limits=METRICS,
            supervisor=client.supervisor,
            context=Certificate(settings.certificate_files()).context if secure else None,
            review=Reviewer(client).review if secure else None,
        )

    return _listen(settings, "metrics_address", _make)


def _make_probe_server(settings: Settings, probes: Probes, client: Client) -> Server | None:
    def _make(address: Address) -> Server:
        return Server("--probe-address", address, probes.routes(), limits=PROBES, supervisor=client.supervisor)

    return _listen(settings, "probe_address", _make)


def _listen(settings: Settings, option: str, make: Callable[[Address], Server]) -> Server | None:
    """Return a server at the address of an option, or at a free port if the default one is in use; None: off."""
    address = parse_address(option, getattr(settings, option))
    if address is None:
        return None
    try:
        return make(address)
    except ListenError:
        if not settings.is_default(option):
            raise
        return make((address[0], 0))
