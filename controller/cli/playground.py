"""`rukpak playground`: a cluster, a registry and the controller on this machine, without root and without containers.

Everything is in one folder, with what runs recorded in it, so that another process can stop it. Pods are only objects:
a fake node reports them Ready. Programs that are missing are downloaded once (controller/playground/binaries.py), helm
among them: whoever has installed the package alone has none.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from rukpak.api import names
from rukpak.api.v1alpha2.schema import crd
from rukpak.controller.cli.command import FAILED, tell
from rukpak.controller.cli.install_controller import read_manifests
from rukpak.controller.cli.installation import DEFINITION, list_programs
from rukpak.controller.content.limits import one_line
from rukpak.controller.kube.client import Client, connect
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.playground.binaries import Binaries, MissingError
from rukpak.controller.playground.cluster import (
    ControlPlane,
    Registry,
    claim_address,
    load_control_plane,
    make_control_plane,
    registry_of,
)
from rukpak.controller.playground.processes import Process, kill_noted, running_process, take_away
from rukpak.controller.playground.programs import CONTROL_PLANE, Settings, read_settings
from rukpak.controller.processes.programs import Mechanisms
from rukpak.controller.views import FailedError
from rukpak.controller.views.access import read_holder
from rukpak.controller.views.texts import to_table

NAME = "playground"
PROGRAMS = (*CONTROL_PLANE, "kwok", "registry")
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "registry", "controller")
"""What runs, in the order in which it is started."""
METRICS = "metrics.host"
_WHOLE = "whole"
"""A file that is there once everything was started."""
CONTROLLER_SECONDS = 60.0
FIRST_STEPS = """\
Use it in this shell:  eval "$(rukpak playground env)"
Then install something:
  mkdir -p hello
  kubectl create deployment hello --image=nginx --dry-run=client -o yaml > hello/deployment.yaml
  rukpak install hello ./hello -n hello --yes --wait
  rukpak tree hello
See what runs:         rukpak playground status
Delete it:             rukpak playground down"""


def main(options: argparse.Namespace) -> int:
    """Start the playground, delete it, or say what runs; return the exit status: 1 if something has ended.

    Raises: FailedError.
    """
    if sys.platform != "linux":
        raise FailedError("the programs of a control plane are only published for Linux")
    settings = read_settings()
    try:
        return _ACTIONS[options.action](settings, settings.running / NAME)
    except (MissingError, OSError, RuntimeError, TimeoutError) as error:
        raise FailedError(one_line(str(error))) from None


def _up(settings: Settings, folder: Path) -> int:
    if (ended := find_ended(folder)) is None:
        if folder.exists():
            raise FailedError(f'{folder}: is being started, or was not; "rukpak playground down" deletes it')
        programs = obtain_programs(Binaries(settings, tell), needs_helm="helm" not in list_programs(""))
        folder.mkdir(mode=0o700, parents=True)
        try:
            cluster = make_control_plane(folder, programs, audit=False)
            if "helm" in programs:
                (folder / "bin" / "helm").symlink_to(programs["helm"])
            _run(cluster)
            (folder / _WHOLE).touch()
        except BaseException:
            take_away(folder)
            raise
        tell("The playground runs: a cluster whose pods are only objects, a registry, and the controller.")
        tell(f"Its log is {folder / 'controller.log'}")
    elif ended:
        tell(f"starting again what has ended: {', '.join(ended)}")
        _run(load_control_plane(folder))
    else:
        tell("the playground is running already")
    print(load_control_plane(folder).exports(), end="", flush=True)
    for line in FIRST_STEPS.splitlines():
        tell(line)
    return 0


def _restart(settings: Settings, folder: Path) -> int:
    if find_ended(folder) is None:
        raise FailedError(_MISSING)
    for name in reversed(COMPONENTS):
        kill_noted(folder / f"{name}.pid")
    return _up(settings, folder)


def _down(_settings: Settings, folder: Path) -> int:
    if folder.exists():
        take_away(folder)
        tell("the playground is deleted")
    else:
        tell("there is no playground")
    return 0


def _status(_settings: Settings, folder: Path) -> int:
    if (ended := find_ended(folder)) is None:
        raise FailedError(_MISSING)
    rows = [(name, "ended" if name in ended else "running", str(folder / f"{name}.log")) for name in COMPONENTS]
    print(to_table(("COMPONENT", "STATE", "LOG"), rows), end="", flush=True)
    tell(f"registry: {registry_of(folder)}; metrics: http://{claim_address(folder / METRICS)}/metrics")
    if ended:
        tell('"rukpak playground" starts again what has ended; what was installed is still there')
    return FAILED if ended else 0


def _env(_settings: Settings, folder: Path) -> int:
    ended = find_ended(folder)
    if ended is None or ended:
        raise FailedError(f"{', '.join(ended)} has ended; {_AGAIN}" if ended else _MISSING)
    print(load_control_plane(folder).exports(), end="", flush=True)
    return 0


_AGAIN = 'run "rukpak playground"'
_MISSING = f"the playground is not running; {_AGAIN}"
_ACTIONS: Mapping[str, Callable[[Settings, Path], int]] = {
    "up": _up,
    "restart": _restart,
    "status": _status,
    "env": _env,
    "down": _down,
}


def find_ended(folder: Path) -> list[str] | None:
    """Return which components of a playground have ended; None if it was never whole."""
    if not (folder / _WHOLE).exists():
        return None
    return [name for name in COMPONENTS if running_process(folder / f"{name}.pid") is None]


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


def _run(cluster: ControlPlane) -> None:
    tell("starting the cluster")
    cluster.start()
    tell("starting the registry and the controller")
    Registry(cluster.folder, cluster.programs["registry"]).start()
    if running_process(cluster.folder / "controller.pid") is None:
        _start_controller(cluster)


def _install_api(client: Client) -> None:
    client.apply(DEFINITION, crd(), manager=f"rukpak-{NAME}", force=True)
    discovery = Discovery(client)
    for manifest in read_manifests(restricted=False, image="", namespace=names.DEFAULT_NAMESPACE):
        if manifest["kind"] == "ClusterRole" and (resource := discovery.resource(GroupVersionKind.of(manifest))):
            path = resource.path(name=manifest["metadata"]["name"])
            client.apply(path, manifest, manager=f"rukpak-{NAME}", force=True)


def _start_controller(cluster: ControlPlane) -> None:
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent=f"rukpak-cli/{version('rukpak')}")
    _install_api(client)
    options = [
        f"--kubeconfig={cluster.kubeconfig}",
        f"--store={cluster.folder / 'store'}",
        f"--metrics-address={claim_address(cluster.folder / METRICS)}",
        *("--probe-address=off", "--log-format=text"),
    ]
    if lack := Mechanisms.found().lack():
        tell(f"{lack}: git and helm run unconfined in the playground")
        options.append("--confinement=best-effort")
    # -P: what lies in the working folder is not imported.
    path = os.pathsep.join([str(cluster.folder / "bin"), os.environ.get("PATH", os.defpath)])
    command = [sys.executable, "-P", "-m", "rukpak", "run", *options]
    process = Process("controller", cluster.folder, command, {"PATH": path})
    process.start()
    started = time.monotonic()

    def acts() -> bool:
        holder = read_holder(client, names.DEFAULT_NAMESPACE)
        # The Lease of one that was killed lasts for a while. Servers tell the time in whole seconds.
        return holder is not None and holder.seconds + 1 < time.monotonic() - started

    process.wait_until(acts, CONTROLLER_SECONDS, "the controller")
