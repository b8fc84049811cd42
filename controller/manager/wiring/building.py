"""Wiring: from a spec to a revision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from api.v1alpha2.types import BundleDeployment
from controller.build.builder import Builder
from controller.build.context import BuildSettings
from controller.content.shares import DiskShares
from controller.kube.configuration import is_in_pod
from controller.manager.sweeper import Sweeper
from controller.manager.wiring.cluster import Cluster
from controller.manager.wiring.resources import Resources
from controller.observe.named import NamedWatches
from controller.processes.supervision import Kind
from controller.revisions.background import BackgroundWork
from controller.revisions.credentials import SecretReader
from controller.revisions.finder import Finder
from controller.revisions.kept import KeptRevisions
from controller.revisions.large import LargeRevisions
from controller.revisions.making import Maker
from controller.revisions.polling import Poller
from controller.revisions.quarantine import Quarantine
from controller.revisions.secrets import RevisionSecrets
from controller.revisions.source_access import SourceAccess
from controller.revisions.store import RevisionStore
from controller.settings import Settings
from controller.telemetry import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """What finds the revision that a spec asks for, and deletes orphaned ones."""

    finder: Finder
    kept: KeptRevisions
    background: BackgroundWork
    revisions: RevisionStore
    secrets: RevisionSecrets
    """The watch of the revision store."""
    large: LargeRevisions
    sweeper: Sweeper
    quarantine: Quarantine


def make_building(settings: Settings, resources: Resources, cluster: Cluster, observer: Observer) -> Building:
    """Create the finder and its background work."""
    dispatcher = cluster.dispatcher
    builder = _make_builder(settings, resources, observer)
    background = BackgroundWork(settings.fetch_workers, dispatcher.ended, dispatcher.progressed, observer)
    secrets = _make_secrets(settings, cluster)
    revisions = RevisionStore(cluster.client, secrets, settings.revision_mebibytes << 20)
    access = _make_assistant(settings, resources, cluster)
    large = LargeRevisions(resources.admission, resources.limits, dispatcher.ended)
    kept = KeptRevisions(revisions, large)
    finder = Finder(
        maker=Maker(
            builder=builder,
            discovery=cluster.discovery,
            background=background,
            access=access,
            retries=cluster.retries,
            is_aggregated=cluster.watches.is_aggregated,
        ),
        kept=kept,
        poller=Poller(builder, background, cluster.retries, access),
        policy=settings.accounts(),
        writer=cluster.writer,
    )
    return Building(
        finder=finder,
        kept=kept,
        background=background,
        revisions=revisions,
        secrets=secrets,
        large=large,
        sweeper=Sweeper(revisions.remove_orphans, partial(cluster.client.supervisor.note, Kind.OTHER, "sweep")),
        quarantine=resources.quarantine,
    )


def _make_secrets(settings: Settings, cluster: Cluster) -> RevisionSecrets:
    """Create the watch of the revision store; a pass runs for each BundleDeployment that needs a damaged revision."""

    def _reconcile_damaged(deployments: Iterable[BundleDeployment]) -> None:
        for each in deployments:
            name, status = each.metadata.name, each.status
            if any(digest and secrets.is_lost(name, digest) for digest in (status.revision, status.installed_revision)):
                cluster.dispatcher.deployment_changed(name)

    def _damaged(name: str) -> None:
        found = cluster.watches.outline(name)
        _reconcile_damaged([found] if found else [])

    secrets = RevisionSecrets(
        cluster.client, settings.namespace, _damaged, lambda: _reconcile_damaged(cluster.watches.outlines())
    )
    return secrets


def _make_builder(settings: Settings, resources: Resources, observer: Observer) -> Builder:
    store_bytes = settings.store_mebibytes << 20
    return Builder(
        resources.store,
        BuildSettings(
            store_bytes=store_bytes,
            limits=resources.limits,
            timeout=settings.fetch_timeout,
            network=settings.network(in_pod=is_in_pod()),
            means=settings.means(resources.memory),
        ),
        lambda: datetime.now(UTC),
        shares=DiskShares.of_store(store_bytes, resources.limits),
        observer=observer,
    )


def _make_assistant(settings: Settings, resources: Resources, cluster: Cluster) -> SourceAccess:
    return SourceAccess(
        SecretReader(cluster.client, settings.readable_namespaces()),
        NamedWatches(cluster.follower, cluster.dispatcher.secret_changed),
        cluster.dispatcher.ended,
        resources.admission,
        resources.quarantine,
    )
