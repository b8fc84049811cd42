"""Nodes on which pods run: what their kubelets would do, and a host for each, which its pods may enter.

A host is a root folder, with the programs of this machine, in namespaces of its own: all that processes there can
reach, as root of a user namespace. A pod is one container: a process with a root folder, the volumes, variables and
account that its spec names, and what a kubelet reports of it. It sees the processes of its host, as with `hostPID`. Not
here: images, limits and security contexts; of probes only those that read a file.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rukpak.controller.playground.cluster import CAPACITY
from tests.support.bundles import Manifest
from tests.support.inside import ApiError, Client

_LOOK_SECONDS = 0.3
_HEARTBEAT_SECONDS = 10
_BACKOFF_SECONDS = 1.5
"""Before a container is started again; a kubelet waits from 10 s to 5 min."""
_SPACES = ("--user", "--map-root-user", "--mount", "--pid", "--uts", "--ipc", "--net")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = """
for each in usr bin sbin lib lib64; do
  if [ -L "/$each" ]; then
    [ -L "$ROOT/$each" ] || ln -s "$(readlink "/$each")" "$ROOT/$each"
  elif [ -d "/$each" ]; then
    mkdir -p "$ROOT/$each"
    mount --rbind "/$each" "$ROOT/$each"
    mount -o remount,bind,ro "$ROOT/$each"
  fi
done
mkdir -p "$ROOT/proc" "$ROOT/dev" "$ROOT/tmp"
mount -t proc proc "$ROOT/proc"
for each in null urandom; do
  touch "$ROOT/dev/$each"
  mount --bind "/dev/$each" "$ROOT/dev/$each"
done
"""
_HOST = f"""
mount --rbind "$ROOT" "$ROOT"
{_PROGRAMS}
cd "$ROOT"
mkdir -p old
pivot_root . old
umount -l old
rmdir old
echo started
exec sleep infinity
"""
_CONTAINER = f"""
{_PROGRAMS}
exec chroot "$ROOT" "$@"
"""
_FILE_OF_PROBE = re.compile(r"os\.stat\('/([^']*)'\)")


def skip_without_namespaces() -> None:
    """Skip the test where a user may not make namespaces, or pods would have no Python."""
    try_out = ["unshare", *_SPACES, "--fork", "mount", "-t", "proc", "proc", "/proc"]
    is_missing = not (shutil.which("nsenter") and shutil.which("python3", path=_PATH))
    if is_missing or subprocess.run(try_out, check=False, capture_output=True).returncode:
        pytest.skip("needs user namespaces, nsenter, and a python3 of the system")


class Host:
    """The host of a node.

    Args:
        root: its root folder; is made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "etc").mkdir(parents=True)
        (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n', encoding="utf-8")
        self._process = subprocess.Popen(
            ["unshare", *_SPACES, "--fork", "--kill-child", "sh", "-ec", _HOST],
            env={"PATH": _PATH, "ROOT": str(root)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"started\n"

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        """Return the text of a file; nothing if it is missing."""
        return (self.root / path).read_text(encoding="utf-8") if (self.root / path).exists() else ""

    def start(self, root: Path, command: list[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a process of a container, with its output in the file `log` beside its root folder."""
        spaces = f"/proc/{self._process.pid}/ns"
        enter = ["nsenter", f"--user={spaces}/user", f"--pid={spaces}/pid_for_children", "--preserve-credentials"]
        with root.with_name("log").open("ab") as log:
            return subprocess.Popen(
                [*enter, "unshare", "--mount", "sh", "-ec", _CONTAINER, "sh", *command],
                env={"PATH": _PATH, **variables, "ROOT": str(root)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def stop(self) -> None:
        """End all of its processes, at once, as without power."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@dataclass(slots=True, kw_only=True)
class _Pod:
    """A pod that was seen on a node."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    ended: Manifest | None = None
    """How its container ended last."""
    again: float = 0.0
    """When that is started again."""
    is_stopping: bool = False
    reported: Manifest = field(default_factory=dict)


class Nodes:
    """Nodes of a cluster, with one thread in place of their kubelets.

    Args:
        client: with all rights.
        server: the URL of the API server, as pods reach it.
        folder: for all files; exists.
    """

    def __init__(self, client: Client, server: str, folder: Path) -> None:
        self._client, self._folder = client, folder
        self.changes: dict[str, str] = {}
        """Texts to replace in what ConfigMaps bring to pods, as somebody does who replaces a ConfigMap."""
        address = urlsplit(server)
        self.variables = {
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
        }
        """How processes of pods find the API server."""
        self.hosts: dict[str, Host] = {}
        self._pods: dict[str, _Pod] = {}
        self._beaten = float("-inf")
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[Nodes]:
        """Run until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()
            for host in self.hosts.values():
                host.stop()
            for pod in self._pods.values():
                if pod.process:
                    pod.process.wait()

    def add(self, name: str) -> Host:
        """Add a node."""
        with self._lock:
            host = self.hosts[name] = Host(self._folder / "hosts" / name)
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        self._client.create("/api/v1/nodes", body)
        self._report(name)
        return host

    def cut_off(self, name: str) -> None:
        """Let a node lose its power: its processes end, and nobody reports that."""
        with self._lock:
            self.hosts.pop(name).stop()

    def logs(self) -> str:
        """Return what all containers have printed."""
        logs = sorted(self._folder.glob("pods/*/log"))
        return "\n".join(f"{log}:\n{log.read_text(encoding='utf-8')}" for log in logs)

    # what kubelets do

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with self._lock, suppress(ApiError):  # on a busy machine, the API server may not answer in time
                self._look()

    def _look(self) -> None:
        if time.monotonic() > self._beaten + _HEARTBEAT_SECONDS:
            for name in self.hosts:
                self._renew_lease(name)
                with suppress(ApiError):  # a node that somebody has deleted
                    self._report(name)
            self._beaten = time.monotonic()  # not before: what fails is tried again at the next look
        for manifest in self._client.list("/api/v1/pods"):
            if manifest["spec"].get("nodeName") in self.hosts:
                with suppress(ApiError):  # not there yet, changed, or gone: it is looked at again
                    self._sync(manifest)

    def _report(self, name: str) -> None:
        """Say that a node works, again and again: what takes the taint off a new one does not try that twice."""
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        ready["lastHeartbeatTime"] = f"{datetime.now(UTC):%FT%TZ}"
        status = {"allocatable": CAPACITY, "capacity": CAPACITY, "conditions": [ready]}
        self._client.merge_patch(f"/api/v1/nodes/{name}/status", {"status": status})

    def _renew_lease(self, name: str) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": f"{datetime.now(UTC):%FT%T.%fZ}"}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        self._client.apply(path, body, manager="kubelet", force=True)

    def _sync(self, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        pod = self._pods.setdefault(metadata["uid"], _Pod(folder=self._folder / "pods" / metadata["name"]))
        if pod.process and pod.process.poll() is not None:
            self._note_end(pod)
        if metadata.get("deletionTimestamp"):
            self._end(manifest, pod)
            return
        is_over = pod.ended and manifest["spec"]["restartPolicy"] == "Never"
        if not pod.process and not is_over and time.monotonic() > pod.again:
            self._start(manifest, pod)
        status = self._describe(manifest, pod)
        if status != pod.reported:
            self._client.merge_patch(f"{_path_of(manifest)}/status", {"status": status})
            pod.reported = status

    def _note_end(self, pod: _Pod) -> None:
        code = pod.process.returncode if pod.process else 0
        message = (pod.folder / "root/dev/termination-log").read_text(encoding="utf-8")
        pod.ended = {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Error" if code else "Completed",
            "finishedAt": f"{datetime.now(UTC):%FT%TZ}",
            "message": message,
        }
        pod.process, pod.again = None, time.monotonic() + _BACKOFF_SECONDS

    def _end(self, manifest: Manifest, pod: _Pod) -> None:
        if not pod.process:
            query = [("gracePeriodSeconds", "0")]
            self._client.request("DELETE", _path_of(manifest), query=query)
        elif not pod.is_stopping:
            # nsenter waits for its child, which is not there yet or any more at some moments.
            for child in Path(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children").read_text().split():
                pod.is_stopping = True
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGTERM)

    def _start(self, manifest: Manifest, pod: _Pod) -> None:
        spec, root = manifest["spec"], pod.folder / "root"
        [container] = spec["containers"]
        (root / "dev").mkdir(parents=True, exist_ok=True)
        (root / "dev/termination-log").write_text("", encoding="utf-8")
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for mount in container["volumeMounts"]:
            folder = root / mount["mountPath"].removeprefix("/")
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in self._read_volume(manifest, volumes[mount["name"]]):
                (folder / name).write_bytes(data)
        variables = {each["name"]: _value_of(each, manifest) for each in container.get("env", [])}
        pod.restarts += bool(pod.ended)
        command = [*container["command"], *container.get("args", [])]
        pod.process = self.hosts[spec["nodeName"]].start(root, command, {**self.variables, **variables})

    def _read_volume(self, manifest: Manifest, volume: Manifest) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a volume."""
        namespace = manifest["metadata"]["namespace"]
        for source in volume.get("projected", {}).get("sources", [volume]):
            if "serviceAccountToken" in source:
                path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{manifest['spec']['serviceAccountName']}/token"
                body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
                yield "token", self._client.create(path, body).value["status"]["token"].encode()
            if "configMap" in source:
                yield from self._read_config_map(namespace, source["configMap"])

    def _read_config_map(self, namespace: str, source: Manifest) -> Iterator[tuple[str, bytes]]:
        found = self._client.get(f"/api/v1/namespaces/{namespace}/configmaps/{source['name']}").value
        data = {key: self._change(text).encode() for key, text in found.get("data", {}).items()}
        data |= {key: base64.b64decode(text) for key, text in found.get("binaryData", {}).items()}
        for item in source.get("items", [{"key": key, "path": key} for key in data]):
            yield item["path"], data[item["key"]]

    def _change(self, text: str) -> str:
        for before, after in self.changes.items():
            text = text.replace(before, after)
        return text

    def _describe(self, manifest: Manifest, pod: _Pod) -> Manifest:
        """Return the status of a pod."""
        [container] = manifest["spec"]["containers"]
        is_over = bool(pod.ended) and manifest["spec"]["restartPolicy"] == "Never"
        is_ready = bool(pod.process) and _is_ready(container, pod.folder / "root")
        state: Manifest = {"running": {}, "waiting": None, "terminated": None}
        if is_over:
            state = {**state, "running": None, "terminated": pod.ended}
        elif not pod.process:
            state = {**state, "running": None, "waiting": {"reason": "CrashLoopBackOff"}}
        failed = is_over and pod.ended and pod.ended["exitCode"]
        return {
            "phase": "Running" if not is_over else "Failed" if failed else "Succeeded",
            "conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": is_ready,
                    "restartCount": pod.restarts,
                    "state": state,
                    "lastState": {"terminated": pod.ended} if pod.ended and not is_over else {},
                }
            ],
        }


def _path_of(pod: Manifest) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _value_of(variable: Manifest, pod: Manifest) -> str:
    value: Any = pod
    for name in variable["valueFrom"]["fieldRef"]["fieldPath"].split("."):
        value = value[name]
    return str(value)


def _is_ready(container: Manifest, root: Path) -> bool:
    probe = container.get("readinessProbe")
    found = _FILE_OF_PROBE.search(probe["exec"]["command"][-1]) if probe else None
    return found is None or (root / found[1]).exists()
