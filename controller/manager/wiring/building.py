"""Wiring: from a spec to a revision."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from api.errors import BundleError
from api.v1alpha2.types import BundleDeployment
from controller.build.builder import Builder
from controller.build.context import BuildSettings
from controller.build.programs import find_programs
from controller.content.shares import DiskShares
from controller.kube.configuration import is_in_pod
from controller.manager.sweeper import Sweeper
from controller.manager.wiring.cluster import Cluster
from controller.manager.wiring.resources import Resources
from controller.observe.following.named import NamedWatches
from controller.processes.supervision import Kind
from controller.revisions.background import BackgroundWork
from controller.revisions.finder import Finder
from controller.revisions.inputs.config_objects import ConfigObjects
from controller.revisions.inputs.credentials import SecretReader
from controller.revisions.kept import KeptRevisions
from controller.revisions.large import LargeRevisions
from controller.revisions.making import Maker
from controller.revisions.polling import Poller
from controller.revisions.quarantine import Quarantine
from controller.revisions.source_access import SourceAccess
from controller.revisions.storage.orphans import remove_orphans
from controller.revisions.storage.secrets import RevisionSecrets
from controller.revisions.storage.store import RevisionStore
from controller.settings import Settings
from controller.telemetry import Observer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """What finds the revision that a spec asks for, and deletes orphaned ones."""

    finder: Finder
    kept: KeptRevisions
    background: BackgroundWork
    revisions: RevisionStore
    large: LargeRevisions
    sweeper: Sweeper
    quarantine: Quarantine
    log_programs: Callable[[], None]
    """Logs which programs rendering runs."""


def make_building(settings: Settings, resources: Resources, cluster: Cluster, observer: Observer) -> Building:
    """Create the finder and its background work."""
    dispatcher, note = cluster.dispatcher, cluster.client.supervisor.note
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
            configs=ConfigObjects(cluster.client, NamedWatches(cluster.follower, dispatcher.config_changed)),
            retries=cluster.retries,
            is_aggregated=cluster.watches.served.is_aggregated,
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
        large=large,
        sweeper=Sweeper(partial(remove_orphans, cluster.client, secrets.namespace), partial(note, Kind.OTHER, "sweep")),
        quarantine=resources.quarantine,
        log_programs=partial(_log_programs, settings, resources, partial(note, Kind.OTHER, "programs")),
    )


def _log_programs(settings: Settings, resources: Resources, note: Callable[[BaseException], None]) -> None:
    """Find the programs, which logs each of them, and log those that are missing. Never raises."""
    try:
        with resources.store.scratch() as scratch:
            found = find_programs(replace(settings.means(resources.memory), scratch=scratch))
    except BundleError as error:
        log.info("programs not checked", extra={"problem": error.message})
    except Exception as error:  # noqa: BLE001 - a bug of a plug-in that may not be in use
        note(error)
    else:
        for name, program in found.items():
            if isinstance(program, BundleError):
                log.info("format not available", extra={"format": name, "problem": program.message})


def _make_secrets(settings: Settings, cluster: Cluster) -> RevisionSecrets:
    """Create the watch of the revision store: a pass runs where status names a damaged revision."""

    def _reconcile_damaged(deployments: Iterable[BundleDeployment]) -> None:
        for each in deployments:
            name, status = each.metadata.name, each.status
            named = {status.revision, status.installed_revision, *(entry.revision for entry in status.history)}
            if any(digest and secrets.is_lost(name, digest) for digest in named):
                cluster.dispatcher.deployment_changed(name)

    def _damaged(name: str) -> None:
        found = cluster.watches.outline(name)
        _reconcile_damaged([found] if found else [])

    secrets = RevisionSecrets(
        cluster.client, settings.namespace, _damaged, lambda: _reconcile_damaged(cluster.watches.outlines())
    )
    cluster.watches.include(secrets.reflector)
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
