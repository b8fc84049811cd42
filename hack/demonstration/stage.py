"""The environment of the demonstration: a cluster, a registry and a controller, all recorded in one folder.

A control plane started for it is deleted with that folder, also by `hack/cluster down`. In an existing cluster, only
objects that the demonstration has created are deleted.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hack.control_plane.builds import BUILDS
from hack.control_plane.images import TINY
from hack.demonstration.shell import CommandError, Shell
from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import Registry
from rukpak.controller.playground.processes import (
    OWNER,
    Process,
    make_owned_folder,
    running_process,
    take_away,
    write_note,
)
from rukpak.controller.playground.programs import CONTROL_PLANE, NODE, Settings
from rukpak.controller.processes.programs import Mechanisms
from tests.support.controller import STOP_SECONDS
from tests.support.private_sources import PrivateSources, serve_private_sources
from tests.support.registry import LocalRegistry

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = "crd/bundledeployments.core.rukpak.io"
NAMESPACE = "demo"
STORE_NAMESPACE = "rukpak-system"
NAMES = ("demo", "three", "shop", "greeter", "legacy", "search", "billing")
"""Of the BundleDeployments."""
PAUSE_OF_BUNDLES = "registry.k8s.io/pause:3.10"
PLUGIN = f"export PATH={shlex.quote(str(ROOT / '.venv' / 'bin'))}:$PATH"
"""The command that makes `kubectl rukpak` available in a shell."""


class RefusedError(Exception):
    """The demonstration cannot run here; the message says why, in one line."""


class Stage(ABC):
    """Where the demonstration runs.

    Args:
        settings: versions and folders.
    """

    has_real_node = False
    """Whether containers run here of which the demonstration knows what they do."""

    def __init__(self, settings: Settings) -> None:
        self.shell = Shell(ROOT, {})
        self._settings = settings
        self._binaries = Binaries(settings, builds=BUILDS)
        self._registry: Registry | None = None
        self._controller: Process | None = None

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder of all running processes."""

    @abstractmethod
    def set_up(self) -> None:
        """Make a cluster available to `shell`.

        Raises: MissingError, CommandError, RefusedError.
        """

    @abstractmethod
    def take_down(self) -> None:
        """Delete everything that the demonstration has created, in any state."""

    @property
    @abstractmethod
    def brought(self) -> str:
        """A description of what `take_down` deletes."""

    @property
    @abstractmethod
    def has_brought_the_api(self) -> bool:
        """Whether the cluster did not serve BundleDeployments before."""

    @abstractmethod
    def explain_use(self) -> str:
        """Return the lines by which a shell uses the cluster."""

    @abstractmethod
    def explain_end(self) -> str:
        """Return the command that stops everything that is still running."""

    def start_registry(self) -> str:
        """Start a registry, and return its host and port."""
        self._registry = Registry(self.folder, self._binaries.obtain(["registry"])["registry"])
        self._registry.start()
        return self.registry_host

    @property
    def registry_host(self) -> str:
        """Host and port of the registry, which was started before."""
        assert self._registry is not None  # noqa: S101 -- for the type checker
        return self._registry.host

    @contextmanager
    def serve_private_sources(self) -> Iterator[PrivateSources]:
        """Serve a registry, git repositories and files that want credentials, until the end of the block."""
        assert self._registry is not None  # noqa: S101 -- for the type checker: it was started first
        folder = self.folder / "private"
        folder.mkdir()
        program = self._binaries.obtain(["registry"])["registry"]
        with serve_private_sources(folder, program, LocalRegistry(self._registry)) as sources:
            yield sources

    def add_plugin(self) -> None:
        """Let the shell find `kubectl rukpak`."""
        self.shell.tell(f"$ {PLUGIN}")
        path = self.shell.environment.get("PATH", os.environ.get("PATH", os.defpath))
        self.shell.environment["PATH"] = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{path}"

    def start_controller(self) -> None:
        """Start the controller from source, as a user would in a second terminal."""
        environment = self.shell.environment | {
            "RUKPAK_STORE": str(self.folder / "store"),
            "RUKPAK_METRICS_ADDRESS": "127.0.0.1:0",  # several may be given at a time
            "RUKPAK_PROBE_ADDRESS": "127.0.0.1:0",
        }
        if lack := Mechanisms.found().lack():
            self.shell.tell(f"{lack}: git and helm run unconfined in this demonstration")
            environment["RUKPAK_CONFINEMENT"] = "best-effort"
        controller = Process("controller", self.folder, [ROOT / "hack" / "run"], environment)
        self.shell.tell(f"$ hack/run 2> {controller.log} &")
        controller.start()
        self._controller = controller

    def last_words(self) -> str:
        """Return what the controller said last."""
        return self._controller.last_words() if self._controller else ""

    def keep(self) -> None:
        """Leave everything running, whatever becomes of this process."""
        (self.folder / OWNER).unlink()


class OwnStage(Stage):
    """A control plane on this machine, with a fake node on which pods become Ready.

    Args:
        settings: versions and folders.
        has_real_node: whether its node is a real one, on which pods run.
    """

    def __init__(self, settings: Settings, *, has_real_node: bool = False) -> None:
        super().__init__(settings)
        self.has_real_node = has_real_node

    @property
    def folder(self) -> Path:
        """The folder of the control plane."""
        return self._settings.running / f"demo-{os.getpid()}"

    def set_up(self) -> None:
        """Start a control plane."""
        # Obtained first, because it can take minutes.
        kind = "node" if self.has_real_node else "kwok"
        self._binaries.obtain([*CONTROL_PLANE, "registry", *(NODE if self.has_real_node else ["kwok"])])
        self.shell.run(f'eval "$(hack/cluster up {self.folder.name} --{kind})"')
        write_note(self.folder / OWNER, os.getpid())
        self.shell.environment |= self._variables()
        if self.has_real_node:
            # No registry can be reached from there: another image that only waits has the name.
            tag = f"ctr -n k8s.io images tag {TINY} {PAUSE_OF_BUNDLES}"
            self.shell.look(f"hack/cluster exec {self.folder.name} {tag}")

    def _variables(self) -> dict[str, str]:
        words = shlex.split(self.explain_use())
        return dict(word.split("=", 1) for word in words if "=" in word) | {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        }

    def take_down(self) -> None:
        """Delete the control plane and everything that runs with it."""
        take_away(self.folder)

    @property
    def brought(self) -> str:
        return "cluster, registry and controller"

    @property
    def has_brought_the_api(self) -> bool:
        """Whether the cluster did not serve BundleDeployments before: it is new."""
        return True

    def explain_use(self) -> str:
        return self.shell.look(f"hack/cluster env {self.folder.name} 2> /dev/null")

    def explain_end(self) -> str:
        return f"hack/cluster down {self.folder.name}"


class UserStage(Stage):
    """An existing cluster.

    Args:
        settings: versions and folders.
        kubeconfig: with the current context to use.
    """

    def __init__(self, settings: Settings, kubeconfig: Path) -> None:
        super().__init__(settings)
        self._kubeconfig = kubeconfig
        self._folder: Path | None = None
        self._new: list[str] = []

    @property
    def folder(self) -> Path:
        """A folder for registry and controller."""
        if self._folder is None:
            self._folder = make_owned_folder(self._settings.running, "demo")
        return self._folder

    def set_up(self) -> None:
        """Check whether the cluster can be used, and which objects exist."""
        kubectl = self._binaries.obtain(["kubectl", "registry"])["kubectl"]
        self.shell.environment |= {
            "KUBECONFIG": str(self._kubeconfig),
            "PATH": f"{kubectl.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }
        self.shell.tell(f"$ {self.explain_use()}")
        self._refuse_what_is_used()
        names = (DEFINITION, f"namespace/{NAMESPACE}", f"namespace/{STORE_NAMESPACE}")
        self._new = [name for name in names if not self._exists(name)]

    def _refuse_what_is_used(self) -> None:
        # The controller of the demonstration would act on them.
        if self._exists(DEFINITION) and (found := self.shell.look("kubectl get bundledeployments -o name")):
            raise RefusedError(f"the cluster already has BundleDeployments ({found.splitlines()[0]}); use another one")
        if self._exists(f"namespace/{NAMESPACE}"):
            raise RefusedError(f'the cluster already has a namespace "{NAMESPACE}"; use another one')

    def _exists(self, name: str) -> bool:
        return bool(self.shell.look(f"kubectl get {name} --ignore-not-found -o name"))

    def take_down(self) -> None:
        """Delete the objects that the demonstration created, then stop the controller."""
        for command in self._deletions():
            try:
                self.shell.run(command)
            except CommandError as error:
                self.shell.tell(f"left behind: {error}")
        if self._controller:
            with suppress(subprocess.TimeoutExpired):
                self._controller.terminate(STOP_SECONDS)  # which releases the Lease
        if self._folder:
            take_away(self._folder)

    def _deletions(self) -> list[str]:
        if not self._new:
            return []
        deployment = (
            [] if DEFINITION in self._new else [f"kubectl delete bd {' '.join(NAMES)} --ignore-not-found --timeout=60s"]
        )
        return [*deployment, f"kubectl delete {' '.join(self._new)} --ignore-not-found --timeout=60s"]

    @property
    def brought(self) -> str:
        """Objects that did not exist before."""
        return "registry, controller, and everything that they created in the cluster"

    @property
    def has_brought_the_api(self) -> bool:
        """Whether the cluster did not serve BundleDeployments before."""
        return DEFINITION in self._new

    def explain_use(self) -> str:
        return f"export KUBECONFIG={shlex.quote(str(self._kubeconfig))}"

    def explain_end(self) -> str:
        noted = [running_process(self.folder / f"{name}.pid") for name in ("controller", "registry")]
        running = " ".join(str(process) for process in noted if process)
        return " && ".join([*self._deletions(), f"kill {running}", f"rm -r {shlex.quote(str(self.folder))}"])
