"""Control planes with real nodes: containerd, kubelet and kube-proxy, each node in namespaces of its own.

The control plane is in the network of the first node, where it reaches pods and Services; relay.py makes its ports
reachable at 127.0.0.1 outside. Only the control groups below `rukpak-…` are outside the folder and the namespaces, and
`take_away` removes them, too. Pods reach each other, Services and the API server, and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hack.control_plane.images import PAUSE
from hack.control_plane.packages import install_packages
from rukpak.controller.playground.cluster import is_ready, make_control_plane
from rukpak.controller.playground.processes import Process, record_control_groups, running_process, wait_for
from rukpak.controller.playground.programs import CONTROL_PLANE

ROOT = Path(__file__).resolve().parents[2]
CONTAINERD = "RUKPAK_CONTAINERD"
"""Names a containerd other than that of PATH; its shim, ctr and runc are searched beside it first."""
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "pivot_root": "util-linux",
}
"""By program the package of Debian and Ubuntu that has it."""
PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
"""Where packages put the CNI plug-ins."""
PLUGINS_PACKAGE = "containernetworking-plugins"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTEAD = "--kwok has pods that become Ready without running"
NETWORK, PODS = "10.90.0", "10.244"
"""Nodes are 10.90.0.1 and so on, and the pods of the first one 10.244.1.0/24."""
SERVICES = "10.0.0.0/20"
CONTROL_GROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpuset", "cpu", "memory", "pids")
SECONDS = 120.0
CONTAINERD_CONFIGURATION = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "/etc/cni/net.d"
"""


class NodeError(Exception):
    """A node cannot be started or used; the message says why, in one line."""


def find_lacks() -> list[str]:
    """Return what a node needs and this machine lacks, programs by their packages; empty if nothing."""
    if os.geteuid() != 0:
        return ["root"]
    missing = {package for program, package in PACKAGES.items() if _find(program) is None}
    if _plugins() is None:
        missing.add(PLUGINS_PACKAGE)
    return sorted(missing)


def install_needs(cache: Path) -> None:
    """Install what a node needs. Raises: MissingError, which says what is missing."""
    install_packages(cache, find_lacks, f"a node needs {{}}; {INSTEAD}")


def _find(program: str) -> str | None:
    return shutil.which(program, path=_path())


def _path() -> str:
    own = os.environ.get(CONTAINERD)
    return f"{Path(own).absolute().parent}:{SYSTEM_PATH}" if own else SYSTEM_PATH


def _containerd() -> str:
    return os.environ.get(CONTAINERD) or "containerd"


def _plugins() -> Path | None:
    return next((folder for folder in PLUGINS if (folder / "bridge").exists()), None)


class Node:
    """One node.

    Args:
        plane: the folder of the control plane.
        number: 1 and up.
        count: of all nodes.
        programs: kubelet, kube-proxy and tiny.
    """

    def __init__(self, plane: Path, number: int, count: int, programs: Mapping[str, Path]) -> None:
        self.name = f"node-{number}"
        self.address = f"{NETWORK}.{number}"
        self._plane = plane
        self._folder = plane / self.name
        self._number = number
        self._count = count
        self._programs = programs
        self._init = plane / f"{self.name}-init.pid"
        self._processes: list[Process] = []

    @property
    def pid(self) -> int:
        """The process id of its PID 1. Raises: NodeError if the node is not running."""
        pid = running_process(self._init)
        if pid is None:
            raise NodeError(f"{self.name} is not running; see {self._plane}/{self.name}.log")
        return pid

    def start(self) -> None:
        """Make the namespaces and start containerd; return when it has the images of pods.

        Raises: TimeoutError; NodeError.
        """
        self._write_files()
        self._make_control_groups()
        shared = [self._plane, ROOT, Path(sys.prefix), Path(sys.base_prefix), *self._folders_of_programs()]
        spaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--propagation=private", "--fork", "--kill-child"]
        script = [Path(__file__).parent / "node.sh", self._folder, self._init, self._programs["tiny"]]
        command: list[str | Path] = ["unshare", *spaces, "/bin/sh", *script, self.name, *dict.fromkeys(shared)]
        process = self._start(Process(self.name, self._plane, command, {"PATH": _path()}))

        def is_made() -> bool:
            if not process.is_running():
                raise NodeError(f"{self.name} ended: {process.last_words()}")
            return (self._folder / "ready").exists()

        wait_for(is_made, SECONDS, lambda: f"{self.name}: {process.last_words()}")
        containerd = self.run_program("containerd", [_containerd(), f"--config={self._folder}/containerd.toml"])
        wait_for(lambda: self.call(["ctr", "version"], quiet=True) == 0, SECONDS, containerd.last_words)

    def connect(self, first: Node) -> None:
        """Give the node its address: on a bridge if it is the first one, else on a link to that."""
        if self is first:
            self.run("ip", "link", "add", "nodes", "type", "bridge")
            link = "nodes"
        else:
            link = "eth0"
            pair = ["ip", "link", "add", self.name, "type", "veth", "peer", "name", link, "netns", str(self.pid)]
            # Not inside: that process id is one of the machine.
            _run(["nsenter", f"--net=/proc/{first.pid}/ns/net", *pair])
            first.run("ip", "link", "set", self.name, "master", "nodes", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", link)
        self.run("ip", "link", "set", link, "up")
        # Services have no route of their own: kube-proxy changes the address of what is sent to them.
        self.run("ip", "route", "add", SERVICES, "dev", "lo", "src", self.address)
        for number in range(1, self._count + 1):
            if number != self._number:
                self.run("ip", "route", "add", f"{PODS}.{number}.0/24", "via", f"{NETWORK}.{number}")

    def join(self) -> None:
        """Start kubelet and kube-proxy."""
        flags = {
            "config": f"{self._folder}/kubelet.yaml",
            "kubeconfig": f"{self._folder}/kubeconfig",
            "node-ip": self.address,
            "hostname-override": self.name,
        }
        command: list[str | Path] = [self._programs["kubelet"], *(f"--{flag}={value}" for flag, value in flags.items())]
        self.run_program("kubelet", command)
        self.run_program("kube-proxy", [self._programs["kube-proxy"], f"--config={self._folder}/kube-proxy.yaml"])

    def write_kubeconfig(self, server: str) -> None:
        """Write how kubelet and kube-proxy reach the API server, whose address outside is given."""
        text = (self._plane / "node.kubeconfig").read_text(encoding="utf-8")
        inside = f"https://{NETWORK}.1:{server.rpartition(':')[2]}"
        kubeconfig = text.replace(f'"{server}"', f'"{inside}", tls-server-name: localhost')
        (self._folder / "kubeconfig").write_text(kubeconfig, encoding="utf-8")

    def import_images(self, archive: Path) -> None:
        """Add the images of an OCI or Docker archive. Raises: NodeError."""
        with archive.open("rb") as file:
            _run(self._inside("ctr", "--namespace=k8s.io", "images", "import", "--no-unpack", "-"), stdin=file)

    def run(self, *command: str | Path) -> str:
        """Run a command on the node, as root, and return what it printed. Raises: NodeError."""
        return _run(self._inside(*command))

    def call(self, command: Sequence[str], *, quiet: bool = False) -> int:
        """Run a command on the node, by default with the output of this process; return its exit status."""
        return subprocess.run(self._inside(*command), capture_output=quiet, check=False).returncode

    def run_program(self, name: str, command: Sequence[str | Path]) -> Process:
        """Start a program on the node, which ends with its process."""
        inside = self._inside("setpriv", "--pdeathsig=KILL", *command)
        return self._start(Process(f"{self.name}-{name}", self._plane, inside))

    def expose(self, *ports: int) -> Process:
        """Make servers at 127.0.0.1 of the machine reachable for nodes and pods, at the address of this node.

        Returns: the process that does so.
        """
        name = f"{self.name}-relay-{ports[0]}"
        return self._start(_relay(name, self._plane, self.name, "in", self.address, *map(str, ports)))

    def stop(self) -> None:
        """Kill the node with all that runs on it."""
        for process in self._processes:
            process.kill()

    def _start(self, process: Process) -> Process:
        process.start()
        self._processes.append(process)
        return process

    def _inside(self, *command: str | Path) -> list[str | Path]:
        entered = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", "--ipc"]
        return [*entered, "env", f"PATH={_path()}", *command]

    def _folders_of_programs(self) -> list[Path]:
        own = os.environ.get(CONTAINERD)
        paths = [*self._programs.values(), *([Path(own)] if own else [])]
        return [path.resolve().parent for path in paths]

    def _write_files(self) -> None:
        for name in ("memory", "root", "etc/cni/net.d"):
            (self._folder / name).mkdir(parents=True)
        files: dict[str, str] = {
            "resolv.conf": f"nameserver {self.address}\n",
            "containerd.toml": CONTAINERD_CONFIGURATION.format(pause=PAUSE, plugins=_plugins()),
            "kubelet.yaml": json.dumps(_kubelet_configuration(self._control_group, self.address), indent=1),
            "kube-proxy.yaml": json.dumps(_proxy_configuration(self.name, self.address, self._folder), indent=1),
            "etc/cni/net.d/10-pods.conflist": json.dumps(_network(f"{PODS}.{self._number}.0/24"), indent=1),
        }
        for name, text in files.items():
            (self._folder / name).write_text(text, encoding="utf-8")

    @property
    def _control_group(self) -> str:
        return f"rukpak-{self._plane.name}-{self.name}"

    def _make_control_groups(self) -> None:
        """Make the group of the node: one in each hierarchy, or in the only one of version 2."""
        unified = (CONTROL_GROUPS / "cgroup.controllers").exists()
        hierarchies = [CONTROL_GROUPS] if unified else _hierarchies()
        groups = [hierarchy / self._control_group for hierarchy in hierarchies]
        record_control_groups(self._plane / f"{self.name}.cgroups", groups)
        if unified:
            for controller in CONTROLLERS:
                (CONTROL_GROUPS / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
        for group in groups:
            group.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not unified and (group / name).exists():
                    (group / name).write_text((group.parent / name).read_text(encoding="ascii"), encoding="ascii")


class NodePlane:
    """A control plane with real nodes in a folder, which must exist. `take_away` ends all of it, too.

    Args:
        folder: for all files.
        programs: those of CONTROL_PLANE and NODE.
        tiny: the folder of `obtain_tiny`.
        count: how many nodes.
        audit: whether to write an audit log.
    """

    def __init__(self, folder: Path, programs: Mapping[str, Path], tiny: Path, *, count: int, audit: bool) -> None:
        programs = {**programs, "tiny": tiny / "tiny"}
        self.nodes = [Node(folder, number, count, programs) for number in range(1, count + 1)]
        self.plane = make_control_plane(folder, _move_into(self.nodes[0], folder, programs), audit=audit)
        self._images = tiny / "tiny.tar"
        ports = [address.rpartition(":")[2] for address in (self.plane.server, self.plane.etcd)]
        self._relay = _relay("relay", folder, self.nodes[0].name, "out", *ports)

    def start(self) -> None:
        """Start all of it; return when all nodes are Ready.

        Raises: TimeoutError; RuntimeError; NodeError.
        """
        for node in self.nodes:
            node.start()
            node.import_images(self._images)
            node.connect(self.nodes[0])
        self._relay.start()
        self.plane.start()
        for node in self.nodes:
            node.write_kubeconfig(self.plane.server)
            node.join()
        wait_for(self._are_ready, SECONDS, lambda: f"nodes: {self.plane.kubectl('get', 'nodes') or 'none'}")

    def stop(self) -> None:
        """Kill all of it."""
        for node in self.nodes:
            node.stop()
        self.plane.stop()
        self._relay.kill()

    def _are_ready(self) -> bool:
        found = json.loads(self.plane.kubectl("get", "nodes", "--output=json"))["items"]
        return len(found) == len(self.nodes) and all(is_ready(node) for node in found)


def _relay(name: str, folder: Path, node: str, *arguments: str) -> Process:
    script = Path(__file__).parent / "relay.py"
    return Process(name, folder, [sys.executable, script, folder / f"{node}-init.pid", *arguments])


def find_node(folder: Path, name: str) -> Node:
    """Return a node of a running control plane. Raises: NodeError."""
    if not (folder / name).is_dir():
        raise NodeError(f"{folder.name} has no {name}; hack/cluster up {folder.name} --node starts one that has")
    return Node(folder, int(name.rpartition("-")[2]), 0, {})


def _move_into(node: Node, folder: Path, programs: Mapping[str, Path]) -> dict[str, Path]:
    """Return programs of the control plane, of which those that serve run in the network of a node."""
    flags = {
        "kube-apiserver": [
            "--bind-address=0.0.0.0",
            f"--advertise-address={node.address}",
            # The Service `kubernetes`, for pods.
            "--endpoint-reconciler-type=lease",
            "--kubelet-preferred-address-types=InternalIP",
        ]
    }
    moved = dict(programs)
    (folder / "inside").mkdir()
    for name in CONTROL_PLANE:
        if name != "kubectl":
            moved[name] = folder / "inside" / name
            more = " ".join(flags.get(name, []))
            lines = ["#!/bin/sh", f"read -r pid _ < {folder}/{node.name}-init.pid"]
            lines += [f'exec nsenter --net=/proc/$pid/ns/net {programs[name]} "$@" {more}'.rstrip(), ""]
            moved[name].write_text("\n".join(lines), encoding="utf-8")
            moved[name].chmod(0o755)
    return moved


def _hierarchies() -> list[Path]:
    """Return where the hierarchies of version 1 are mounted."""
    folders = [each for each in CONTROL_GROUPS.iterdir() if each.is_dir() and not each.is_symlink()]
    return [each for each in folders if (each / "cgroup.procs").exists()]


def _kubelet_configuration(control_group: str, address: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{control_group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Only the API server reaches its port.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": "/etc/resolv.conf",
        "clusterDNS": [address],  # where nothing answers
        # The disk is that of the machine, and often nearly full.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
    }


def _proxy_configuration(name: str, address: str, folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": f"{folder}/kubeconfig"},
        "hostnameOverride": name,
        "bindAddress": address,
        "clusterCIDR": f"{PODS}.0.0/16",
        # Of the whole machine: left as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _network(pods: str) -> dict[str, Any]:
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False, "hairpinMode": True}
    addresses = {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{**bridge, "ipam": addresses}, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def _run(command: Sequence[str | Path], stdin: Any = subprocess.DEVNULL) -> str:
    done = subprocess.run(
        command, stdin=stdin, capture_output=True, text=True, check=False, env=os.environ | {"PATH": _path()}
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise NodeError(f"{' '.join(map(str, command))}: {said[-1]}")
    return done.stdout
