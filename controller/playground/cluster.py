"""A control plane in a folder, whose components can be killed and restarted one by one, and a registry beside it.

Ports, data and certificates survive every restart. Components are always stopped with SIGKILL: kube-apiserver takes up
to a minute to exit on SIGTERM while watches are open, and tests are about what a crash leaves behind. `take_away`
of processes.py deletes a control plane.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rukpak.controller.playground.components import (
    NODE,
    NODE_NAME,
    Ports,
    controller_manager_command,
    etcd_command,
    is_ready,
    kwok_command,
    read_token,
    scheduler_command,
    server_address,
    server_command,
    write_certificates,
    write_files,
)
from rukpak.controller.playground.processes import Process, free_ports, wait_for

KUBECTL_SECONDS = 120


class KubectlError(Exception):
    """kubectl failed.

    Attributes:
        stderr: its output.
    """

    def __init__(self, arguments: tuple[str, ...], stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip()}")
        self.stderr = stderr


class Cluster:
    """A cluster: a control plane of ours, or an existing one.

    Args:
        kubeconfig: with the current context to use.
        kubectl: the program.
        cache: folder for discovery of kubectl; not shared, because ports are reused.
    """

    def __init__(self, *, kubeconfig: Path, kubectl: Path, cache: Path) -> None:
        self.kubeconfig = kubeconfig
        self._kubectl = kubectl
        self._cache = cache

    @property
    def server(self) -> str:
        """Return the address of the API server."""
        return self.kubectl("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 -- as subprocess.run has it
        """Run kubectl with `input` on its standard input, and return what it printed.

        Raises: KubectlError.
        """
        done = subprocess.run(
            [self._kubectl, *arguments],
            # Variables instead of flags, because `kubectl diff` and plug-ins inherit them.
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self._cache)},
            input=input or "",
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
            check=False,
        )
        if done.returncode:
            raise KubectlError(arguments, done.stderr)
        return done.stdout


STATE = "cluster.json"
START_SECONDS = 150.0
"""A deadline, not an expectation: a control plane is ready in less than 5 s."""


class ControlPlane(Cluster):
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and kwok if pods are to become Ready.

    Args:
        folder: for all files; must exist.
        programs: paths by name, as `Binaries.obtain` returns them; with kwok, there is a fake node.
        ports: to listen on.
        audit: whether to write an audit log.
    """

    def __init__(self, folder: Path, programs: Mapping[str, Path], *, ports: Ports, audit: bool) -> None:
        super().__init__(kubeconfig=folder / "kubeconfig", kubectl=programs["kubectl"], cache=folder / "kubectl-cache")
        self.folder = folder
        self._address = server_address(ports)
        self.etcd = f"http://127.0.0.1:{ports.etcd}"
        self._audit = folder / "audit.log" if audit else None
        self._etcd = Process("etcd", folder, etcd_command(folder, ports, programs))
        self._api_server = Process("kube-apiserver", folder, server_command(folder, ports, programs, audit=audit))
        self._controllers = Process("kube-controller-manager", folder, controller_manager_command(folder, programs))
        self._scheduler = Process("kube-scheduler", folder, scheduler_command(folder, programs))
        self._kwok = Process("kwok", folder, kwok_command(folder, programs)) if "kwok" in programs else None

    def exports(self) -> str:
        """Return the lines by which a shell uses it, with the `rukpak` of this virtual environment."""
        programs = [self.folder / "bin", *([Path(sys.prefix) / "bin"] if sys.prefix != sys.base_prefix else [])]
        # The shell expands the rest of PATH when it evaluates its line.
        path = f'{shlex.quote(os.pathsep.join(map(str, programs)))}:"$PATH"'
        variables = {"KUBECONFIG": shlex.quote(str(self.kubeconfig)), "KUBECACHEDIR": shlex.quote(str(self._cache))}
        variables |= {"PATH": path, **({"REGISTRY": host} if (host := registry_of(self.folder)) else {})}
        return "".join(f"export {name}={value}\n" for name, value in variables.items())

    @property
    def server(self) -> str:
        """Return the address of the API server."""
        return self._address

    def start(self) -> None:
        """Start all components that do not run; return when objects can be created and, with a node, pods run.

        Raises: TimeoutError; RuntimeError with the end of its log if a component exits.
        """
        starts = {
            self._etcd: self.start_etcd,
            self._api_server: self.start_api_server,
            self._controllers: self.start_controller_manager,
            self._scheduler: self.start_scheduler,
            **({self._kwok: self._kwok.start} if self._kwok else {}),
        }
        for process, start in starts.items():
            if not process.is_running():
                start()
        if self._kwok and self._get(f"/api/v1/nodes/{NODE_NAME}") is None:
            self._request("/api/v1/nodes", NODE)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait(self._controllers, "ServiceAccount default", lambda: self._get(account) is not None)
        if self._kwok:
            self._wait(self._kwok, f"node {NODE_NAME} Ready", self._has_ready_node)

    def stop(self) -> None:
        """Kill all components; `start` continues with their data."""
        for process in (self._kwok, self._scheduler, self._controllers, self._api_server, self._etcd):
            if process:
                process.kill()

    def start_etcd(self) -> None:
        """Start etcd; return when it is healthy."""
        self._etcd.start()
        self._wait(self._etcd, "etcd healthy", lambda: self._answer(f"{self.etcd}/health") is not None)

    def stop_etcd(self) -> None:
        """Kill etcd."""
        self._etcd.kill()

    def back_up_etcd(self) -> None:
        """Copy the data of etcd, which is stopped for that."""
        self.stop_etcd()
        shutil.rmtree(self.folder / "etcd.backup", ignore_errors=True)
        shutil.copytree(self.folder / "etcd", self.folder / "etcd.backup")
        self.start_etcd()

    def restore_etcd(self) -> None:
        """Restore the backup of etcd and restart everything that has cached newer data, as Kubernetes requires."""
        self.stop_controller_manager()
        self.stop_api_server()
        self.stop_etcd()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / "etcd.backup", self.folder / "etcd")
        self.start_etcd()
        self.start_api_server()
        self.start_controller_manager()

    def start_api_server(self) -> None:
        """Start kube-apiserver; return when it is ready."""
        self._api_server.start()
        self._wait(self._api_server, "API server ready", lambda: self._get("/readyz") == b"ok")

    def stop_api_server(self) -> None:
        """Kill kube-apiserver, which interrupts every watch and request."""
        self._api_server.kill()

    def start_controller_manager(self) -> None:
        """Start kube-controller-manager, including the garbage collector."""
        self._controllers.start()

    def stop_controller_manager(self) -> None:
        """Kill kube-controller-manager: no garbage collection, no progress of workloads."""
        self._controllers.kill()

    def start_scheduler(self) -> None:
        """Start kube-scheduler."""
        self._scheduler.start()

    def is_running(self) -> bool:
        """Return whether the API server is running."""
        return self._api_server.is_running()

    def audit_position(self) -> int:
        """Return the current end of the audit log, for `audit_requests`."""
        return self._audit_log().stat().st_size

    def audit_requests(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the requests that were answered since a position, as `Event` of audit.k8s.io/v1, without bodies.

        A watch is listed twice: when it is opened (stage ResponseStarted) and when it ends (ResponseComplete).
        """
        with self._audit_log().open("rb") as log:
            log.seek(max(since - 1, 0))
            written = log.read()
        # The lines at that position and at the end may be incomplete.
        return [json.loads(line) for line in written.split(b"\n")[1 if since else 0 : -1]]

    def _audit_log(self) -> Path:
        if self._audit is None:
            raise RuntimeError("this control plane has no audit log")
        return self._audit

    def _has_ready_node(self) -> bool:
        return is_ready(json.loads(self._get(f"/api/v1/nodes/{NODE_NAME}") or b'{"spec": {}}'))

    def _get(self, path: str) -> bytes | None:
        return self._answer(self._api_request(path))

    def _request(self, path: str, body: Mapping[str, Any]) -> None:
        request = self._api_request(path)
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
        if self._answer(request) is None:
            raise RuntimeError(f"the API server refused a request to {path}")

    def _api_request(self, path: str) -> urllib.request.Request:
        headers = {"Authorization": f"Bearer {read_token(self.folder)}"}
        return urllib.request.Request(self._address + path, headers=headers)  # noqa: S310 -- our own address

    def _answer(self, request: urllib.request.Request | str) -> bytes | None:
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        # Proxies in the environment are not for two processes on one machine.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=5) as response:
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            error.close()
            return None
        except (OSError, http.client.HTTPException):
            return None

    def _wait(self, process: Process, what: str, condition: Callable[[], bool]) -> None:
        def is_fulfilled() -> bool:
            if not process.is_running():
                raise RuntimeError(f"{process.name} ended: {process.last_words()}")
            return condition()

        wait_for(is_fulfilled, START_SECONDS, lambda: f"{what}; {process.name} says: {process.last_words()}")


def make_control_plane(folder: Path, programs: Mapping[str, Path], *, audit: bool) -> ControlPlane:
    """Write the files of a control plane to a folder, without starting it."""
    etcd, etcd_peer, server = free_ports(3)
    ports = Ports(etcd=etcd, etcd_peer=etcd_peer, server=server)
    write_certificates(folder)
    write_files(folder, ports)
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").symlink_to(programs["kubectl"])
    state = {"ports": asdict(ports), "programs": {name: str(path) for name, path in programs.items()}, "audit": audit}
    (folder / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
    return ControlPlane(folder, programs, ports=ports, audit=audit)


def read_programs(folder: Path) -> dict[str, Path]:
    """Return the programs of the control plane in a folder, by name.

    Raises: FileNotFoundError.
    """
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    return {name: Path(path) for name, path in state["programs"].items()}


def load_control_plane(folder: Path) -> ControlPlane:
    """Return the control plane in a folder.

    Raises: FileNotFoundError.
    """
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    programs = read_programs(folder)
    return ControlPlane(folder, programs, ports=Ports(**state["ports"]), audit=state["audit"])


REGISTRY_SECONDS = 90.0
REGISTRY_HOST = "registry.host"
REGISTRY_CONFIGURATION = """\
version: 0.1
log: {{level: info, accesslog: {{disabled: false}}}}
storage:
  filesystem: {{rootdirectory: "{folder}/content"}}
  delete: {{enabled: true}}
http: {{addr: "127.0.0.1:{port}"}}
"""


def registry_of(folder: Path) -> str | None:
    """Return host and port of the registry that was made in a folder; None if there is none."""
    return (folder / REGISTRY_HOST).read_text(encoding="ascii") if (folder / REGISTRY_HOST).exists() else None


def claim_address(note: Path) -> str:
    """Return host and port that a file has recorded; a free port, which is recorded there, if there is none."""
    if not note.exists():
        (port,) = free_ports(1)
        note.write_text(f"127.0.0.1:{port}", encoding="ascii")
    return note.read_text(encoding="ascii")


class Registry:
    """A registry with plain http, without authentication, which allows pushes and deletions.

    Args:
        folder: for all files; must exist.
        program: the registry.
    """

    def __init__(self, folder: Path, program: Path) -> None:
        self._folder = folder
        self.host = claim_address(folder / REGISTRY_HOST)
        configuration, port = folder / "registry.yaml", self.host.rpartition(":")[2]
        configuration.write_text(REGISTRY_CONFIGURATION.format(folder=folder, port=port), encoding="utf-8")
        # Version 3 would send traces to a collector that does not exist.
        quiet = {"OTEL_TRACES_EXPORTER": "none"}
        self._process = Process("registry", folder, [program, "serve", configuration], quiet)

    @property
    def log(self) -> Path:
        """Return the log file, which has a line for each request."""
        return self._process.log

    @property
    def content(self) -> Path:
        """Return the folder of its content, which another registry may serve."""
        return self._folder / "content"

    def start(self) -> None:
        """Start it on the same port with the same content unless it runs, and wait until it responds.

        Raises: TimeoutError; RuntimeError with the end of its log if it exits.
        """
        if not self._process.is_running():
            self._process.start()
        wait_for(self._is_answering, REGISTRY_SECONDS, lambda: f"registry: {self._process.last_words()}")

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()

    def _is_answering(self) -> bool:
        if not self._process.is_running():
            raise RuntimeError(f"registry ended: {self._process.last_words()}")
        connection = http.client.HTTPConnection(self.host, timeout=5)
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
