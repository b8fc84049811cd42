"""Wiring: one function makes all parts from the settings, one object starts and stops them."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from api import names
from api.plugins import Limits
from controller.apply.execute import Applier
from controller.apply.hook_runner import HookRunner
from controller.apply.prune import Remover
from controller.assistance import Assistant
from controller.content.store import ContentStore
from controller.deletion import Deleter
from controller.desired import Builder
from controller.hooks import Hooks
from controller.kube.client import ApiError, connect
from controller.kube.configuration import is_in_pod
from controller.kube.discovery import Discovery
from controller.kube.events import EventRecorder
from controller.manager.queue import WorkQueue
from controller.manager.workers import Workers
from controller.observe.secrets import SecretWatches
from controller.observe.watches import Watches
from controller.polling import Poller
from controller.preparations import Preparations
from controller.publisher import Publisher
from controller.reconciler import Reconciler
from controller.retries import Retries
from controller.revisions import RevisionStore
from controller.secrets import SecretReader
from controller.settings import Settings
from controller.wanted import Finder

log = logging.getLogger(__name__)

HEALTH_SECONDS = 0.1
"""How long a change of health alone may wait, so that a rollout of many objects is one pass and not many."""
SERVED_SECONDS = (0.2, 3.0)
"""How long discovery may be behind a CustomResourceDefinition or APIService that has changed."""
WATCHES = 24
DRAIN_SECONDS = 4.0


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

    def cluster_changed(self, kind: str) -> None:
        waiting = self.reconciler.end_waits() if self.reconciler else []
        for name in waiting:
            self._queue.add(name)
            for seconds in SERVED_SECONDS if kind in ("CustomResourceDefinition", "APIService") else ():
                self._queue.add_after(name, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """A controller that can be started and stopped once."""

    queue: WorkQueue
    watches: Watches
    events: EventRecorder
    workers: Workers
    preparations: Preparations
    applier: Applier
    reconciler: Reconciler
    settings: Settings

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then finish what is under way, within 5 s."""
        log.info("starting", extra={"version": version("rukpak"), "namespace": self.settings.namespace})
        self.events.start()
        self.watches.start()
        self.workers.start()
        threading.Thread(target=self._remove_orphans, args=(stop,), name="orphans", daemon=True).start()
        stop.wait()
        log.info("stopping")
        self.queue.close()
        self.preparations.stop()
        self.watches.stop()
        self.workers.join(DRAIN_SECONDS)
        self.applier.stop()

    def _remove_orphans(self, stop: threading.Event) -> None:
        while not self.watches.synced:
            if stop.wait(0.2):
                return
        try:
            self.reconciler.remove_orphans()
        except ApiError as error:
            log.warning("revisions of removed BundleDeployments stay until the next start", extra={"reply": str(error)})


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def make_manager(settings: Settings) -> Manager:
    """Make all parts of a controller.

    Raises: ConfigurationError if there is no cluster to talk to; OSError or StoreInUseError if the
        content store cannot be opened.
    """
    client = connect(
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        pool=settings.workers + settings.apply_workers + WATCHES,
        user_agent=f"rukpak/{version('rukpak')}",
    )
    discovery, queue, retries = Discovery(client), WorkQueue(), Retries()
    dispatcher = _Dispatcher(queue)
    watches = Watches(client, discovery, dispatcher)
    store = ContentStore(settings.store_folder())
    builder = Builder(
        store,
        settings.store_mebibytes << 20,
        Limits(),
        settings.fetch_timeout,
        lambda: datetime.now(UTC),
        network=settings.network(in_pod=is_in_pod()),
    )
    preparations = Preparations(settings.fetch_workers, queue.add)
    revisions = RevisionStore(client, settings.namespace)
    applier = Applier(client, discovery, watches, retries, settings.apply_workers)
    secret_watches = SecretWatches(client, dispatcher.secret_changed)
    assistant = Assistant(SecretReader(client, settings.readable_namespaces()), secret_watches, queue.add)
    events = EventRecorder(client, f"{names.GROUP}/rukpak")
    publisher = Publisher(client, watches, events)
    remover = Remover(client, discovery)
    finder = Finder(
        builder=builder,
        preparations=preparations,
        revisions=revisions,
        discovery=discovery,
        retries=retries,
        assistant=assistant,
        poller=Poller(builder, preparations, retries, assistant),
        publisher=publisher,
        now=_now,
    )
    hooks = Hooks(HookRunner(client, discovery, watches, retries), watches, finder)
    reconciler = Reconciler(
        watches=watches,
        finder=finder,
        applier=applier,
        remover=remover,
        deleter=Deleter(
            watches=watches, remover=remover, hooks=hooks, revisions=revisions, publisher=publisher, now=_now
        ),
        hooks=hooks,
        publisher=publisher,
        revisions=revisions,
        retries=retries,
        now=_now,
    )
    dispatcher.reconciler = reconciler
    return Manager(
        queue=queue,
        watches=watches,
        events=events,
        workers=Workers(queue, reconciler.reconcile, settings.workers),
        preparations=preparations,
        applier=applier,
        reconciler=reconciler,
        settings=settings,
    )
