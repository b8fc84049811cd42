"""Wiring: whether this process may act."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from api import names
from controller.kube.fence import Fence
from controller.kube.lease import Election
from controller.kube.takeovers import Takeovers
from controller.manager.exits import exit_after_loss
from controller.manager.identity import make_identity
from controller.manager.survey import ShardSurvey
from controller.manager.wiring.cluster import Cluster
from controller.manager.wiring.connections import Connections
from controller.manager.wiring.resources import Resources
from controller.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Leader election, or none."""

    elected: threading.Event
    """Set when this process may act."""
    election: Election | None
    """None: there are no other replicas, so this process acts from the start."""

    takeovers: Takeovers | None
    """From shards that nobody serves."""
    survey: ShardSurvey
    """Of the shards that nobody serves."""
    is_shard: bool
    """Whether this process serves another shard than the default one."""

    @property
    def follows(self) -> bool:
        """Whether another process may have led before; of a named shard, what has left it since must be known."""
        return self.is_shard or bool(self.election and self.election.follows)

    def start(self) -> None:
        """Take part in the election."""
        if self.election:
            self.election.start()
        else:
            self.elected.set()

    def run_survey(self) -> None:
        """Look for shards that nobody serves, until `stop`; of these only the default shard reports."""
        if not self.is_shard:
            self.survey.run()

    def stop(self, seconds: float) -> None:
        """Release the Lease, after up to so many seconds for running writes to end."""
        self.survey.stop()
        if self.takeovers:
            self.takeovers.stop()
        if self.election:
            self.election.stop(seconds)


def make_leadership(
    settings: Settings, connections: Connections, resources: Resources, cluster: Cluster, takeovers: Takeovers | None
) -> Leadership:
    """Create the election, unless it is disabled; the process exits immediately if it loses the Lease."""
    elected, fence, shard = threading.Event(), connections.fence, settings.served_shard()
    election = None
    if fence:
        lost = partial(exit_after_loss, resources.quarantine)
        election = _make_elections(settings, connections, resources)(
            name=shard.lease, fence=fence, on_elected=elected.set, on_lost=lost
        )
    survey = ShardSurvey(
        connections.unfenced,
        settings.namespace,
        cluster.watches.count_foreign,
        cluster.watches.stand_in_for if takeovers else lambda _unserved, _abandoned: None,
        identity=make_identity(resources.store.lock),
        patience=2 * settings.lease_times().duration,
    )
    return Leadership(elected=elected, election=election, takeovers=takeovers, survey=survey, is_shard=bool(shard.name))


def make_takeovers(
    settings: Settings, connections: Connections, resources: Resources, notify: Callable[[str], None]
) -> Takeovers | None:
    """Create what takes over from shards that nobody serves; None without leader election."""
    if connections.fence is None:
        return None
    make = _make_elections(settings, connections, resources)

    def _take(lease: str, on_elected: Callable[[], None], on_lost: Callable[[], None]) -> Election:
        return make(name=lease, fence=Fence(), on_elected=on_elected, on_lost=on_lost)

    return Takeovers(_take, notify)


def _make_elections(settings: Settings, connections: Connections, resources: Resources) -> partial[Election]:
    return partial(
        Election,
        client=connections.unfenced,
        namespace=settings.namespace,
        identity=make_identity(resources.store.lock),
        annotations={names.VERSION: version("rukpak")},
        times=settings.lease_times(),
    )
