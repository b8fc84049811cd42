"""Wiring: what changes the cluster, and as which account."""

from __future__ import annotations

from dataclasses import dataclass

from controller.apply.execute import Applier
from controller.apply.hooks.runner import HookRunner
from controller.apply.prune import Remover
from controller.manager.wiring.cluster import Cluster
from controller.observe.explanations import Explainer
from controller.observe.following.contested import ContestedWatches
from controller.observe.following.grants import GrantWatches
from controller.observe.following.named import NamedWatches
from controller.revisions.accounts.service_accounts import Accounts
from controller.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Applying:
    """What carries out plans, and what it consults first."""

    applier: Applier
    remover: Remover
    hook_runner: HookRunner
    accounts: Accounts
    contested: ContestedWatches
    explainer: Explainer
    elsewhere: NamedWatches
    givers: NamedWatches


def make_applying(settings: Settings, cluster: Cluster) -> Applying:
    """Create what applies and removes objects, runs hooks, and watches what blocks them."""
    client, discovery, watches, retries = cluster.client, cluster.discovery, cluster.watches, cluster.retries
    dispatcher = cluster.dispatcher
    applier = Applier(client, discovery, watches, retries, settings.apply_workers)
    absent, grants = NamedWatches(cluster.follower, dispatcher.ended), GrantWatches(client, dispatcher.rights_changed)
    accounts = Accounts(client, settings.accounts(), absent, grants)
    return Applying(
        applier=applier,
        remover=Remover(client, discovery, applier.pool, watches.served.at_storage_version),
        hook_runner=HookRunner(client, discovery, watches, retries),
        accounts=accounts,
        contested=ContestedWatches(cluster.follower, discovery, dispatcher.contested_changed),
        explainer=Explainer(client, dispatcher.health_explained),
        elsewhere=NamedWatches(cluster.follower, dispatcher.deployment_changed),
        givers=NamedWatches(cluster.follower, dispatcher.contested_changed),
    )
