"""`rukpak playground`: a cluster, a registry and the controller on this machine, without root and without containers.

Everything is in one folder, with what runs recorded in it, so that another process can stop it. Pods are only objects:
a fake node reports them Ready. Programs that are missing are downloaded once (controller/playground/binaries.py), helm
among them: whoever has installed the package alone has none.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from rukpak.api import names
from rukpak.api.v1alpha2.schema import crd
from rukpak.controller.cli.command import tell
from rukpak.controller.cli.deployments import read_holder
from rukpak.controller.cli.installation import DEFINITION, list_programs
from rukpak.controller.content.limits import one_line
from rukpak.controller.kube.client import connect
from rukpak.controller.playground.binaries import Binaries, MissingError
from rukpak.controller.playground.cluster import ControlPlane, Registry, load_control_plane, make_control_plane
from rukpak.controller.playground.processes import Process, running_process, take_away, wait_for
from rukpak.controller.playground.programs import CONTROL_PLANE, Settings, read_settings
from rukpak.controller.processes.programs import Mechanisms
from rukpak.controller.views import FailedError

NAME = "playground"
PROGRAMS = (*CONTROL_PLANE, "kwok", "registry")
CONTROLLER_SECONDS = 60.0
FIRST_STEPS = """\
Use it in this shell:  eval "$(rukpak playground env)"
Then install something:
  mkdir -p hello
  kubectl create deployment hello --image=nginx --dry-run=client -o yaml > hello/deployment.yaml
  rukpak install hello ./hello -n hello --yes --wait
  rukpak tree hello
Delete it:             rukpak playground down"""


def main(options: argparse.Namespace) -> int:
    """Start the playground, delete it, or print its environment; return the exit status.

    Raises: FailedError.
    """
    if sys.platform != "linux":
        raise FailedError("the programs of a control plane are only published for Linux")
    settings = read_settings()
    try:
        _ACTIONS[options.action](settings, settings.running / NAME)
    except (MissingError, OSError, RuntimeError, TimeoutError) as error:
        raise FailedError(one_line(str(error))) from None
    return 0


def _up(settings: Settings, folder: Path) -> None:
    if is_complete(folder):
        tell("the playground is running already")
    elif folder.exists():
        raise FailedError(f'{folder}: is being started, or was not stopped; "rukpak playground down" deletes it')
    else:
        programs = obtain_programs(Binaries(settings, tell), needs_helm="helm" not in list_programs(""))
        folder.mkdir(mode=0o700, parents=True)
        try:
            _start(folder, programs)
        except BaseException:
            take_away(folder)
            raise
        tell("The playground runs: a cluster whose pods are only objects, a registry, and the controller.")
        tell(f"Its log is {folder / 'controller.log'}")
    print(load_control_plane(folder).exports(), end="", flush=True)
    for line in FIRST_STEPS.splitlines():
        tell(line)


def _down(_settings: Settings, folder: Path) -> None:
    if not folder.exists():
        tell("there is no playground")
        return
    take_away(folder)
    tell("the playground is deleted")


def _env(_settings: Settings, folder: Path) -> None:
    if not is_complete(folder):
        raise FailedError('the playground is not running; run "rukpak playground"')
    print(load_control_plane(folder).exports(), end="", flush=True)


_ACTIONS: Mapping[str, Callable[[Settings, Path], None]] = {"up": _up, "down": _down, "env": _env}


def is_complete(folder: Path) -> bool:
    """Return whether everything that was started in a folder is still running."""
    recorded = [*folder.glob("*.pid")]
    return (folder / "controller.pid") in recorded and all(map(running_process, recorded))


def obtain_programs(binaries: Binaries, *, needs_helm: bool) -> dict[str, Path]:
    """Return the programs by name; without helm, everything works but charts.

    Raises: MissingError.
    """
    programs = binaries.obtain(PROGRAMS)
    if needs_helm:
        try:
            programs |= binaries.obtain(["helm"])
        except MissingError as error:
            tell(f"no chart can be installed: {error}")
    return programs


def _start(folder: Path, programs: Mapping[str, Path]) -> None:
    cluster = make_control_plane(folder, programs, audit=False)
    if "helm" in programs:
        (folder / "bin" / "helm").symlink_to(programs["helm"])
    tell("starting the cluster")
    cluster.start()
    tell("starting the registry and the controller")
    Registry(folder, programs["registry"]).start()
    _start_controller(cluster)


def _start_controller(cluster: ControlPlane) -> None:
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent=f"rukpak-cli/{version('rukpak')}")
    client.apply(DEFINITION, crd(), manager=f"rukpak-{NAME}", force=True)
    options = [
        f"--kubeconfig={cluster.kubeconfig}",
        f"--store={cluster.folder / 'store'}",
        *("--metrics-address=off", "--probe-address=off", "--log-format=text"),
    ]
    if lack := Mechanisms.found().lack():
        tell(f"{lack}: git and helm run unconfined in the playground")
        options.append("--confinement=best-effort")
    # -P: what lies in the working folder is not imported.
    path = os.pathsep.join([str(cluster.folder / "bin"), os.environ.get("PATH", os.defpath)])
    command = [sys.executable, "-P", "-m", "rukpak", "run", *options]
    process = Process("controller", cluster.folder, command, {"PATH": path})
    process.start()

    def acts() -> bool:
        if not process.is_running():
            raise RuntimeError(f"the controller ended: {process.last_words()}")
        return read_holder(client, names.DEFAULT_NAMESPACE) is not None

    wait_for(acts, CONTROLLER_SECONDS, lambda: f"the controller: {process.last_words()}")
