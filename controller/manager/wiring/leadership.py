"""Wiring: whether this process may act."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from api import names
from controller.kube.lease import Election
from controller.manager.exits import exit_after_loss
from controller.manager.identity import make_identity
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

    @property
    def follows(self) -> bool:
        """Whether another process led before."""
        return bool(self.election and self.election.follows)

    def start(self) -> None:
        """Take part in the election."""
        if self.election:
            self.election.start()
        else:
            self.elected.set()

    def stop(self, seconds: float) -> None:
        """Release the Lease, after up to so many seconds for running writes to end."""
        if self.election:
            self.election.stop(seconds)


def make_leadership(settings: Settings, connections: Connections, resources: Resources) -> Leadership:
    """Create the election, unless it is disabled; the process exits immediately if it loses the Lease."""
    elected, fence = threading.Event(), connections.fence
    if fence is None:
        return Leadership(elected=elected, election=None)
    election = Election(
        client=connections.unfenced,
        namespace=settings.namespace,
        name=names.LEASE,
        identity=make_identity(resources.store.lock),
        annotations={names.VERSION: version("rukpak")},
        times=settings.lease_times(),
        fence=fence,
        on_elected=elected.set,
        on_lost=partial(exit_after_loss, resources.quarantine),
    )
    return Leadership(elected=elected, election=election)
