"""Wiring: what is known about the cluster, and the queue that its changes fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from api import names
from api.v1alpha2.types import BundleDeployment
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.events import EventRecorder
from controller.manager.dispatcher import Dispatcher
from controller.manager.metrics import Metrics
from controller.manager.queue import WorkQueue
from controller.observe.following.object_follower import ObjectFollower
from controller.observe.watches import Watches
from controller.retries import Retries
from controller.settings import Settings
from controller.sharing.shares import share_of
from controller.status.writer import StatusWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What all parts of a pass share."""

    queue: WorkQueue
    dispatcher: Dispatcher
    client: Client
    discovery: Discovery
    watches: Watches
    follower: ObjectFollower
    """Watches of single objects."""
    events: EventRecorder
    writer: StatusWriter
    retries: Retries
    now: Callable[[], datetime]
    """The current time in whole seconds, as written to status."""

    def start_over(self) -> None:
        """Forget everything that is known of the cluster: etcd was restored from a backup."""
        self.follower.drop()
        self.dispatcher.cluster_restored()


def make_cluster(settings: Settings, client: Client, metrics: Metrics) -> Cluster:
    """Create the watches, not started, and the queue that they fill through the dispatcher."""
    queue = _make_queue(settings, metrics, lambda name: watches.outline(name))  # noqa: PLW0108 - created below
    discovery, dispatcher = Discovery(client), Dispatcher(queue)
    watches = Watches(client, discovery, dispatcher, settings.served_shard())
    events = EventRecorder(client, f"{names.GROUP}/rukpak")
    return Cluster(
        queue=queue,
        dispatcher=dispatcher,
        client=client,
        discovery=discovery,
        watches=watches,
        follower=ObjectFollower(client),
        events=events,
        writer=StatusWriter(client, watches, events),
        retries=Retries(),
        now=lambda: datetime.now(UTC).replace(microsecond=0),
    )


def _make_queue(settings: Settings, metrics: Metrics, find: Callable[[str], BundleDeployment | None]) -> WorkQueue:
    policy = settings.accounts()

    def _share(name: str) -> str:
        deployment = find(name)
        return share_of(policy.complete(deployment)) if deployment else ""  # deleted or unreadable: done quickly

    return WorkQueue(workers=settings.workers, share=_share, on_waited=metrics.waited, on_worked=metrics.worked)
