"""What happens around a controller: each fault begins, and ends some seconds later."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hack.bench.soak.churn import Manifest, Sources
from hack.bench.testbed import Testbed
from rukpak.controller.kube.client import ApiError, Client
from tests.support.weather import Weather

SERVICE = "v1.soak.example.com"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
LARGEST_SEED = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that begins and ends."""

    begin: Callable[[], object]
    end: Callable[[], object]
    kills: bool = False
    """Whether the controller does not run until the end."""


def _nothing() -> None:
    """End a fault that is over."""


class Faults:
    """Faults of the API server, etcd, the sources, the disk and the controller, at random.

    Attributes:
        done: how often each was begun.
    """

    def __init__(self, testbed: Testbed, weather: Weather, sources: Sources, client: Client, seed: int) -> None:
        self._testbed, self._client = testbed, client
        self._dice = random.Random(seed)  # noqa: S311 - chance, not secrecy
        cluster = testbed.cluster
        self._harmless = {
            "requests and watches fail": Fault(begin=lambda: weather.storm(self._roll()), end=weather.calm),
            "watches fall silent": Fault(begin=weather.hush, end=weather.calm),
            "sources fail": Fault(begin=lambda: sources.fail(failing=True), end=lambda: sources.fail(failing=False)),
            "the API server is killed": Fault(begin=self._restart_api_server, end=_nothing),
            "etcd is killed": Fault(begin=self._restart_etcd, end=_nothing),
            "the store is deleted": Fault(begin=self._delete_store, end=_nothing),
            "an API has no backend": Fault(begin=self._add_api, end=self._remove_api),
        }
        self._restarting = {
            "the controller is killed": Fault(begin=testbed.kill_controller, end=self.start_controller, kills=True),
            "the API server is away": Fault(
                begin=lambda: cluster.stop("kube-apiserver"), end=lambda: cluster.start("kube-apiserver")
            ),
            "etcd is set back": Fault(begin=cluster.back_up_etcd, end=cluster.restore_etcd),
        }
        self._environment = {"KUBECONFIG": str(weather.write_kubeconfig(cluster.folder / "weather"))}
        self.done: Counter[str] = Counter()

    def begin(self, *, restarting: bool) -> Fault:
        """Begin any fault.

        Args:
            restarting: whether it may be one that restarts the controller or makes it fill its caches again.
        """
        possible = self._harmless | (self._restarting if restarting else {})
        title = self._dice.choice(list(possible))
        self.done[title] += 1
        possible[title].begin()
        return possible[title]

    def start_controller(self) -> None:
        """Start the controller where requests to the API server may fail."""
        self._testbed.launch_controller(self._environment)

    def _roll(self) -> int:
        return self._dice.randrange(1, LARGEST_SEED)

    def _restart_api_server(self) -> None:
        self._testbed.cluster.stop("kube-apiserver")
        self._testbed.cluster.start("kube-apiserver")

    def _restart_etcd(self) -> None:
        self._testbed.cluster.stop("etcd")
        self._testbed.cluster.start("etcd")

    def _delete_store(self) -> None:
        shutil.rmtree(self._testbed.store, ignore_errors=True)

    def _add_api(self) -> None:
        self._client.apply(f"{SERVICES}/{SERVICE}", _api_service(), manager="soak", force=True)

    def _remove_api(self) -> None:
        with suppress(ApiError):  # etcd may have been set back to when it did not exist
            self._client.delete(f"{SERVICES}/{SERVICE}")


def _api_service() -> Manifest:
    service = {"namespace": "default", "name": "nobody"}
    version, _, group = SERVICE.partition(".")
    spec = {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 10, "service": service}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": SERVICE},
        "spec": {**spec, "insecureSkipTLSVerify": True},
    }
