"""A control plane, a registry and one controller, which can be stopped and started again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hack.bench.api import Api, Requests, requests_of
from hack.bench.rows import Peak, Usage, read_usage
from hack.bench.workloads import Bundle, Manifest
from hack.control_plane.builds import BUILDS
from rukpak.controller.kube.client import Client, connect
from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import ControlPlane, Registry, make_control_plane
from rukpak.controller.playground.processes import Process, make_owned_folder, running_process, take_away, wait_for
from rukpak.controller.playground.programs import CONTROL_PLANE, read_settings
from tests.support.registry import RegistryClient

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 10.0
QUIET_SECONDS = 1.0
"""After this time without a request, the controller is idle."""


class Testbed:
    """The environment of a scenario. The controller is not started yet.

    Args:
        folder: for the log and the content store of the controller.
    """

    def __init__(self, folder: Path, cluster: ControlPlane, registry: Registry) -> None:
        self._folder, self.cluster = folder, cluster
        self.store = folder / "store"
        self.registry = registry
        self._pushes = RegistryClient(registry.host)
        self._controller = self._make_controller({})
        self.api = self._connect()

    def push(self, bundles: Iterable[Bundle], tag: str = "") -> list[Manifest]:
        """Push the images of bundles, and return the BundleDeployments that install them: by digest, or by a tag."""
        found = []
        for bundle in bundles:
            digest = self._pushes.push_image(bundle.name, tag, [bundle.files()])
            found.append(bundle.deployment(self._pushes.host, f":{tag}" if tag else f"@{digest}"))
        return found

    def _make_controller(self, environment: Mapping[str, str]) -> Process:
        options = {
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "RUKPAK_STORE": str(self.store),
            "RUKPAK_METRICS_ADDRESS": "127.0.0.1:0",
            "RUKPAK_PROBE_ADDRESS": "127.0.0.1:0",
        }
        command = [sys.executable, "-m", "rukpak", "run"]
        return Process("controller", self._folder, command, {**options, **environment})

    def start_controller(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the controller, perhaps with more variables, and wait until it is idle.

        Raises: TimeoutError; RuntimeError if it ends on its own.
        """
        since = self.position()
        self.launch_controller(environment or {})
        self.wait_until_quiet(since)

    @contextmanager
    def running_controller(self, environment: Mapping[str, str] | None = None) -> Iterator[None]:
        """Start the controller as `start_controller` does, and stop it at the end."""
        self.start_controller(environment)
        try:
            yield
        finally:
            self.stop_controller()

    def launch_controller(self, environment: Mapping[str, str]) -> None:
        """Start the controller with more variables, without waiting for it."""
        self._controller = self._make_controller(environment)
        self._controller.start()
        self._peak = Peak(self.controller_id())

    def is_controller_running(self) -> bool:
        """Return whether the controller was started and has not exited."""
        return self._controller.is_running()

    def kill_controller(self) -> None:
        """Stop the controller with SIGKILL."""
        self._controller.kill()

    def log_of_controller(self) -> str:
        """Return what all controllers of this environment have logged."""
        return self._controller.log.read_text(encoding="utf-8", errors="replace")

    def stop_controller(self) -> None:
        self._controller.terminate(STOP_SECONDS)

    def restart_api_server(self) -> None:
        """Restart the API server, so that its caches hold what was written to etcd."""
        self.cluster.stop("kube-apiserver")
        self.cluster.start("kube-apiserver")
        self.api = self._connect()

    def _connect(self) -> Api:
        return Api(self.cluster.server, self.cluster.folder)

    def stop_workloads(self) -> None:
        """Freeze all workloads: only the scenario writes their status from now on."""
        self.cluster.stop("kube-controller-manager")

    def usage(self) -> Usage:
        """Return the resources that the controller has used."""
        return read_usage(self.controller_id())

    def peak(self) -> float:
        """Return the most memory that the controller has had since its start, in MiB."""
        return max(self._peak.mebibytes, self.usage().resident)

    def controller_id(self) -> int:
        """Return the process id of the controller.

        Raises: RuntimeError if it has exited.
        """
        process = running_process(self._folder / "controller.pid")
        if process is None:
            raise RuntimeError(f"the controller exited: {self._controller.last_words()}")
        return process

    def server_usage(self, name: str = "kube-apiserver") -> Usage:
        """Return the resources that a component of the control plane has used.

        Raises: RuntimeError if it has exited.
        """
        process = running_process(self.cluster.folder / f"{name}.pid")
        if process is None:
            raise RuntimeError(f"{name} exited")
        return read_usage(process)

    def server_cpu(self) -> float:
        """Return the CPU time that API server and etcd have used."""
        return sum(self.server_usage(name).cpu for name in ("kube-apiserver", "etcd"))

    def apply_finalizer_policy(self) -> None:
        """Have the API server set the finalizer of BundleDeployments: `config/finalizer`."""
        self.cluster.kubectl("apply", "-k", str(ROOT / "config" / "finalizer"))

    def connect(self) -> Client:
        """Return a client such as the controller's."""
        return connect(kubeconfig=str(self.cluster.kubeconfig), user_agent="bench")

    def position(self) -> int:
        """Return the current end of the audit log."""
        return self.cluster.audit_position()

    def requests(self, since: int) -> Requests:
        """Return the requests of the controller since a position in the audit log."""
        return requests_of(self.cluster.audit_requests(since))

    def wait_until_quiet(self, since: int) -> None:
        """Wait until the controller has sent requests since a position, and then none for a second.

        Raises: TimeoutError; RuntimeError if it ends on its own.
        """
        count, changed = 0, time.monotonic()

        def is_quiet() -> bool:
            nonlocal count, changed
            self.controller_id()
            before, count = count, self.requests(since).total
            if count != before:
                changed = time.monotonic()
            return count > 0 and time.monotonic() - changed >= QUIET_SECONDS

        wait_for(is_quiet, START_SECONDS, "the controller becomes idle")


@contextmanager
def make_testbed() -> Iterator[Testbed]:
    """Start a control plane with the CRD, and a registry; delete everything at the end.

    Raises: MissingError if a program cannot be obtained.
    """
    settings = read_settings()
    programs = Binaries(settings, builds=BUILDS).obtain([*CONTROL_PLANE, "registry"])
    folders = [make_owned_folder(settings.running, prefix) for prefix in ("cluster", "registry", "controller")]
    try:
        cluster = make_control_plane(folders[0], programs, audit=True)
        cluster.start()
        cluster.kubectl("apply", "-k", str(ROOT / "config" / "crd"))
        registry = Registry(folders[1], programs["registry"])
        registry.start()
        yield Testbed(folders[2], cluster, registry)
    finally:
        for folder in reversed(folders):
            take_away(folder)
