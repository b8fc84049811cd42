"""Wiring: the clients of the API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from controller.kube import client as kube
from controller.kube.client import Client
from controller.kube.fence import Fence
from controller.manager.metrics import Metrics
from controller.manager.serving.activity import Activity
from controller.processes.supervision import Kind, Supervisor
from controller.settings import Settings

WATCHES = 60
"""Connections for watches of kinds, grants and single objects."""
UNFENCED = 8
"""Connections for the Lease, reviews and the probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The clients of one process."""

    client: Client
    """For passes and watches."""
    unfenced: Client
    """For the Lease, reviews and the probe, which neither fence nor a full pool may block."""
    fence: Fence | None
    """What every write of `client` must pass; None: without leader election."""

    def supervise(self, on_death: Callable[[Kind], None], end: Callable[[str], None]) -> None:
        """Supervise threads created from now on; see Supervisor for the arguments."""
        self.client.supervisor = self.unfenced.supervisor = Supervisor(on_death, end)

    def report_restored(self, handler: Callable[[], None]) -> None:
        """Call a handler when any reply shows that etcd was restored from a backup."""
        self.client.on_restored = self.unfenced.on_restored = handler


def connect(settings: Settings, metrics: Metrics, activity: Activity) -> Connections:
    """Create the clients, without sending a request.

    Raises: ConfigurationError without a usable cluster configuration.
    """
    fence = Fence() if settings.leader_elect else None
    client = _connect(settings, settings.workers + settings.apply_workers + WATCHES, fence)
    client.relist_seconds = settings.relist_interval
    unfenced = _connect(settings, UNFENCED)

    def _request_ended(method: str, host: str, status: int) -> None:
        metrics.request_ended(method, host, status)
        activity.request_ended(status)

    client.on_request = unfenced.on_request = _request_ended
    return Connections(client=client, unfenced=unfenced, fence=fence)


def _connect(settings: Settings, pool: int, fence: Fence | None = None) -> Client:
    return kube.connect(
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        pool=pool,
        user_agent=f"rukpak/{version('rukpak')}{f' shard/{settings.shard}' if settings.shard else ''}",
        fence=fence,
    )
