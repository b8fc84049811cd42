"""A world whose controller is killed at single writes: it is reached through a proxy, and started in no time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hack.control_plane.cluster import ControlPlane
from hack.control_plane.processes import make_owned_folder, take_away
from hack.control_plane.settings import Settings
from hack.control_plane.waiting import wait_for
from tests.support.bundles import DEPLOYMENTS, ROOT, SECONDS, World, is_answered
from tests.support.forking import ForkedController
from tests.support.inside import connect
from tests.support.registry import LocalRegistry
from tests.support.weather import Weather

ALONE = ("--leader-elect=no", "--workers=1", "--apply-workers=1")
"""So that writes come one after the other, and the n-th is the same one each time."""
LOG_CHARACTERS = 50_000


@contextmanager
def new_mortal_world(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, severing: Weather
) -> Iterator[World]:
    """Run a controller on a cluster, through `severing`."""
    cluster.kubectl("apply", "--server-side", "-k", str(ROOT / "config" / "crd"))
    folder = make_owned_folder(settings.running, "mortal")
    controller = ForkedController(folder, severing.write_kubeconfig(folder / "kubeconfig"), *ALONE)
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="tests")
    wait_for(lambda: is_answered(client, DEPLOYMENTS), SECONDS, "BundleDeployments served")
    try:
        controller.start()
        made = World(cluster=cluster, registry=registry, controller=controller, store=folder / "store", client=client)
        made.wait_until_looked_at()  # the first revision of all makes the namespace of the store
        yield made
        print(controller.log[-LOG_CHARACTERS:])
    finally:
        controller.close()
        take_away(folder)
