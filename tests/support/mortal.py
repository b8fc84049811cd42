"""A world whose controller is killed at single writes: a proxy cuts it off, and it is started again in no time.

The proxy counts the writes whose path names one BundleDeployment: those to itself, its revisions and its objects, if
all of these have its name in theirs. It does not count Events: they are sent concurrently, and nothing depends on
them. Or one write fails, and the controller goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import DEPLOYMENTS, SECONDS, World, apply_definition, is_answered
from tests.support.controller import Controller
from tests.support.inside import connect
from tests.support.registry import LocalRegistry
from tests.support.weather import Fault, Seen, Weather

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a controller is cut off."""

    name: str
    """In the paths of the writes that count."""
    nth: int
    """Write, from 1."""
    fault: Fault
    """CUT: before it is carried out; LOST: after that, so that only the reply is missing."""
    severs: bool = True
    """Whether nothing gets through after it."""


class Severing(Weather):
    """Lets everything through until a cut, and nothing after it."""

    def __init__(self, server: str, authority: Path) -> None:
        super().__init__(server, authority)
        self._cut: Cut | None = None
        self._counted = 0
        self.severed = threading.Event()
        """Set once the last request that reaches the API server is finished."""

    def arm(self, cut: Cut) -> None:
        """Cut off what comes from now on."""
        with self._lock:
            self._cut, self._counted, self.requests = cut, 0, []

    def restore(self) -> None:
        """Let everything through from now on."""
        with self._lock:
            self._cut = None
        self.severed.clear()

    def written(self, name: str) -> list[str]:
        """Return the writes about a BundleDeployment that were carried out since `arm`: method and path."""
        seen = [each for each in list(self.requests) if is_counted(each.verb, each.path, name)]
        return [f"{each.verb} {each.path}" for each in seen if each.fault is not Fault.CUT]

    def meet(self, verb: str, path: str) -> Fault | None:
        with self._lock:
            fault = self._judge(verb, path)
            self.requests.append(Seen(verb=verb, path=path, fault=fault))
        return fault

    def _judge(self, verb: str, path: str) -> Fault | None:
        if self._cut is None:
            return None
        if self._counted >= self._cut.nth:
            return Fault.CUT if self._cut.severs else None
        if not is_counted(verb, path, self._cut.name):
            return None
        self._counted += 1
        return self._cut.fault if self._counted == self._cut.nth else None

    def leave(self, verb: str, path: str, fault: Fault | None) -> None:
        cut = self._cut
        if cut and cut.severs and fault and is_counted(verb, path, cut.name) and not self.severed.is_set():
            self._cut_watches()
            self.severed.set()


def is_counted(verb: str, path: str, name: str) -> bool:
    return verb in WRITES and name in path and "/events" not in path


ALONE = ("--leader-elect=no", "--workers=1", "--apply-workers=1")
"""So that writes come one after the other, and the n-th is the same one each time."""
LOG_CHARACTERS = 50_000


@contextmanager
def new_mortal_world(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, severing: Weather
) -> Iterator[World]:
    """Run a controller on a cluster, through `severing`."""
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="tests")
    apply_definition(client)
    folder = make_owned_folder(settings.running, "mortal")
    controller = Controller(folder, severing.write_kubeconfig(folder / "kubeconfig"), *ALONE, environment={})
    wait_for(lambda: is_answered(client, DEPLOYMENTS), SECONDS, "BundleDeployments served")
    try:
        controller.start()
        made = World(cluster=cluster, registry=registry, controller=controller, store=folder / "store", client=client)
        made.wait_until_looked_at()  # the first revision of all makes the namespace of the store
        yield made
        print(controller.log[-LOG_CHARACTERS:])
    finally:
        controller.kill()
        take_away(folder)
