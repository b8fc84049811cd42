"""Wiring: the reconciler, and the workers that run its passes."""

from __future__ import annotations

from controller.kube.takeovers import Takeovers
from controller.manager.metrics import Metrics
from controller.manager.wiring.applying import Applying
from controller.manager.wiring.building import Building
from controller.manager.wiring.cluster import Cluster
from controller.manager.workers import Workers
from controller.reconcile import wiring
from controller.reconcile.reconciler import Reconciler
from controller.settings import Settings
from controller.telemetry import Observer


def make_workers(settings: Settings, cluster: Cluster, reconciler: Reconciler, metrics: Metrics) -> Workers:
    """Create the threads that run passes, not started."""
    return Workers(
        cluster.queue,
        reconciler.reconcile,
        settings.workers,
        supervisor=cluster.client.supervisor,
        report=reconciler.report_bug,
        on_pass=metrics.pass_ended,
    )


def make_reconciler(
    cluster: Cluster, building: Building, applying: Applying, observer: Observer, takeovers: Takeovers | None
) -> Reconciler:
    """Create the reconciler, which runs one pass over one BundleDeployment."""
    return wiring.make_reconciler(
        wiring.Parts(
            watches=cluster.watches,
            discovery=cluster.discovery,
            finder=building.finder,
            kept=building.kept,
            revisions=building.revisions,
            large=building.large,
            accounts=applying.accounts,
            applier=applying.applier,
            remover=applying.remover,
            hook_runner=applying.hook_runner,
            contested=applying.contested,
            explainer=applying.explainer,
            elsewhere=applying.elsewhere,
            givers=applying.givers,
            writer=cluster.writer,
            retries=cluster.retries,
            observer=observer,
            takeovers=takeovers,
            abandoned=building.sweeper.request,
            now=cluster.now,
        )
    )
