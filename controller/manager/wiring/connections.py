"""Wiring: the clients of the API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from controller.kube import client as kube
from controller.kube.client import Client, RequestHook
from controller.kube.fence import Fence
from controller.manager.metrics import Metrics
from controller.manager.serving.activity import Activity
from controller.processes.supervision import Kind, Supervisor
from controller.settings import Settings

WATCHES = 60
"""Connections of kinds and grants, and of object_follower.py."""
UNFENCED = 8
"""Connections for the Lease, reviews and the probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The clients of one process."""

    client: Client
    """For everything that passes and watches do."""
    unfenced: Client
    """For the Lease, reviews and the probe: no fence and no full pool holds these up."""
    fence: Fence | None
    """What every write of `client` has to pass; None: there is no election."""

    def supervise(self, on_death: Callable[[Kind], None], end: Callable[[str], None]) -> None:
        """Have threads that are made from now on supervised; see Supervisor for the arguments."""
        self.client.supervisor = self.unfenced.supervisor = Supervisor(on_death, end)


def connect(settings: Settings, metrics: Metrics, activity: Activity) -> Connections:
    """Make the clients; nothing is requested yet.

    Raises: ConfigurationError if there is no cluster to talk to.
    """
    fence = Fence() if settings.leader_elect == "yes" else None
    client = _connect(settings, settings.workers + settings.apply_workers + WATCHES, fence)
    unfenced = _connect(settings, UNFENCED)
    client.on_request = unfenced.on_request = _listen_to_requests(metrics, activity)
    return Connections(client=client, unfenced=unfenced, fence=fence)


def _connect(settings: Settings, pool: int, fence: Fence | None = None) -> Client:
    return kube.connect(
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
