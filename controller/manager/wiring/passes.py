"""Wiring: the reconciler, and the workers that run its passes."""

from __future__ import annotations

from controller.manager.metrics import Metrics
from controller.manager.wiring.applying import Applying
from controller.manager.wiring.building import Building
from controller.manager.wiring.cluster import Cluster
from controller.manager.workers import Workers
from controller.reconcile.deletion import Deleter
from controller.reconcile.health import Appraiser
from controller.reconcile.holdings import Holdings
from controller.reconcile.install import Installer
from controller.reconcile.reconciler import Reconciler
from controller.reconcile.registration import Registrar
from controller.settings import Settings
from controller.telemetry import Observer


def make_workers(settings: Settings, cluster: Cluster, reconciler: Reconciler, metrics: Metrics) -> Workers:
    """Make the threads, not started, that run passes."""
    return Workers(
        cluster.queue,
        reconciler.reconcile,
        settings.workers,
        supervisor=cluster.client.supervisor,
        on_pass=metrics.pass_ended,
    )


def make_reconciler(cluster: Cluster, building: Building, applying: Applying, observer: Observer) -> Reconciler:
    """Make what runs one pass over one BundleDeployment."""
    holdings = Holdings(
        finder=building.finder,
        revisions=building.revisions,
        watches=cluster.watches,
        discovery=cluster.discovery,
        reader=applying.applier.reader,
    )
    appraiser = Appraiser(cluster.watches, applying.explainer)
    return Reconciler(
        watches=cluster.watches,
        finder=building.finder,
        installer=_make_installer(
            cluster=cluster,
            building=building,
            applying=applying,
            holdings=holdings,
            appraiser=appraiser,
            observer=observer,
        ),
        deleter=_make_deleter(cluster, building, applying, holdings),
        hooks=applying.hooks,
        accounts=applying.accounts,
        registrar=Registrar(applying.accounts, holdings, cluster.publisher),
        publisher=cluster.publisher,
        retries=cluster.retries,
        appraiser=appraiser,
        contested=applying.contested,
        abandoned=building.sweeper.ask,
        large=building.large,
        now=cluster.now,
    )


def _make_installer(
    *,
    cluster: Cluster,
    building: Building,
    applying: Applying,
    holdings: Holdings,
    appraiser: Appraiser,
    observer: Observer,
) -> Installer:
    return Installer(
        watches=cluster.watches,
        finder=building.finder,
        applier=applying.applier,
        remover=applying.remover,
        hooks=applying.hooks,
        holdings=holdings,
        accounts=applying.accounts,
        appraiser=appraiser,
        publisher=cluster.publisher,
        retries=cluster.retries,
        contested=applying.contested,
        now=cluster.now,
        observer=observer,
    )


def _make_deleter(cluster: Cluster, building: Building, applying: Applying, holdings: Holdings) -> Deleter:
    return Deleter(
        watches=cluster.watches,
        finder=building.finder,
        accounts=applying.accounts,
        remover=applying.remover,
        hooks=applying.hooks,
        holdings=holdings,
        revisions=building.revisions,
        publisher=cluster.publisher,
        retries=cluster.retries,
        now=cluster.now,
    )
