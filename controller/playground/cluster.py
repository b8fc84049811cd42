"""A control plane in a folder, whose components can be killed and restarted one by one, and a registry beside it.

First the command lines of the components, and the files that they read. With kwok there is a fake node, on which pods
run; stages.yaml says what it does to them. A pod on the node is only an object: no container is ever started.

Ports, data and certificates survive every restart. Components are always stopped with SIGKILL: kube-apiserver takes up
to a minute to exit on SIGTERM while watches are open, and tests are about what a crash leaves behind. `take_away`
of processes.py deletes a control plane.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shlex
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rukpak.controller.playground.processes import Process, free_ports

ADMIN = "admin"
CLIENTS = ("kube-controller-manager", "kube-scheduler", "kwok", "node")
VALID = timedelta(days=365)
"""For so long the certificates are valid."""
SERVICE_ADDRESS = "10.0.0.1"
"""Address of the Service `kubernetes`: the first address of its range."""
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", SERVICE_ADDRESS)
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def write_certificates(folder: Path) -> None:
    """Write `ca` and `kube-apiserver` (.crt and .key), and `service-accounts.key`."""
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "kube-apiserver", "service-accounts")}
    for name, key in keys.items():
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (folder / f"{name}.key").write_bytes(pem)
    issuer, server = keys["ca"].public_key(), keys["kube-apiserver"].public_key()
    names = [*map(x509.DNSName, _NAMES), *(x509.IPAddress(ip_address(address)) for address in _ADDRESSES)]
    certificates = {
        "ca": _describe("kubernetes-ca", issuer)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_use("digital_signature", "key_cert_sign", "crl_sign"), critical=True),
        "kube-apiserver": _describe("kube-apiserver", server)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_use("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False),
    }
    for name, certificate in certificates.items():
        signed = certificate.sign(keys["ca"], hashes.SHA256())
        (folder / f"{name}.crt").write_bytes(signed.public_bytes(Encoding.PEM))


def _describe(name: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer_name=_name("kubernetes-ca"), subject_name=_name(name), public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))  # as a real one, which a wrong clock finds invalid
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _use(*uses: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in uses for use in _USES})


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster: {{server: "{server}", certificate-authority: "{folder}/ca.crt"}}
users:
- name: "{user}"
  user: {{token: "{token}"}}
contexts:
- name: {name}
  context: {{cluster: {name}, user: "{user}"}}
current-context: {name}
"""
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of a control plane, all on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    server: int


def server_address(ports: Ports) -> str:
    """Return the address of kube-apiserver."""
    return f"https://127.0.0.1:{ports.server}"


def write_files(folder: Path, ports: Ports) -> None:
    """Write the kubeconfigs, `tokens.csv` with their tokens, and the audit policy.

    Users have separate names, to tell them apart in the audit log, and all permissions, since they are not under test.
    """
    users = {ADMIN: "kubeconfig"} | {f"system:{client}": f"{client}.kubeconfig" for client in CLIENTS}
    tokens = {user: secrets.token_urlsafe(32) for user in users}
    for user, file in users.items():
        text = KUBECONFIG.format(
            name=folder.name, server=server_address(ports), folder=folder, user=user, token=tokens[user]
        )
        (folder / file).write_text(text, encoding="utf-8")
        (folder / file).chmod(0o600)
    lines = (f'{token},{user},{user},"system:masters"\n' for user, token in tokens.items())
    (folder / "tokens.csv").write_text("".join(lines), encoding="utf-8")
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY, encoding="utf-8")


def read_token(folder: Path) -> str:
    """Return the token of the admin."""
    return (folder / "tokens.csv").read_text(encoding="utf-8").partition(",")[0]


def etcd_flags(folder: Path, ports: Ports) -> list[str]:
    """Return the flags of etcd. It does not sync its files, because test data is worthless."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--quota-backend-bytes=4294967296",
        "--log-level=error",
    ]


def server_flags(folder: Path, ports: Ports, *, audit: bool) -> list[str]:
    """Return the flags of kube-apiserver, with RBAC, and optionally an audit log of metadata."""
    audited = [
        f"--audit-policy-file={folder / 'audit-policy.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-maxsize=2000",
    ]
    return [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        f"--secure-port={ports.server}",
        "--bind-address=127.0.0.1",
        # The Service `kubernetes` cannot have a loopback address as its endpoint.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={folder / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={folder / 'kube-apiserver.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'service-accounts.key'}",  # of which it takes the public half
        f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/20",
        "--allow-privileged=true",
        *(audited if audit else []),
    ]


def controller_manager_flags(folder: Path) -> list[str]:
    """Return the flags of kube-controller-manager."""
    return [
        f"--kubeconfig={folder / 'kube-controller-manager.kubeconfig'}",
        f"--service-account-private-key-file={folder / 'service-accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--cluster-signing-cert-file={folder / 'ca.crt'}",
        f"--cluster-signing-key-file={folder / 'ca.key'}",
        "--use-service-account-credentials=false",
        *_ALONE_AND_FAST,
    ]


_ALONE_AND_FAST = ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000"]


STAGES = Path(__file__).parent / "stages.yaml"
NODE_NAME = "node-0"
MARK = "kwok.x-k8s.io/node"
CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "256Gi", "pods": "1000"}
NODE: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": NODE_NAME,
        "annotations": {MARK: "fake"},
        "labels": {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
    },
    "status": {"allocatable": CAPACITY, "capacity": CAPACITY},
}


def kwok_flags(folder: Path) -> list[str]:
    """Return the flags of kwok. It manages only nodes with its annotation."""
    return [
        f"--kubeconfig={folder / 'kwok.kubeconfig'}",
        f"--config={STAGES}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={MARK}=fake",
        "--node-lease-duration-seconds=40",  # renews them, or the node would be NotReady every 55 s
    ]


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether pods are scheduled to a node: it is Ready and has no taint left."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node["spec"].get("taints")


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

    @cached_property
    def server(self) -> str:
        """The address of the API server."""
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
        self.programs = programs
        self.server = server_address(ports)
        self.etcd = f"http://127.0.0.1:{ports.etcd}"
        self._audit_log = folder / "audit.log" if audit else None
        flags = {
            "etcd": etcd_flags(folder, ports),
            "kube-apiserver": server_flags(folder, ports, audit=audit),
            "kube-controller-manager": controller_manager_flags(folder),
            "kube-scheduler": [f"--kubeconfig={folder / 'kube-scheduler.kubeconfig'}", *_ALONE_AND_FAST],
            **({"kwok": kwok_flags(folder)} if "kwok" in programs else {}),
        }
        self.components = {name: Process(name, folder, [programs[name], *each]) for name, each in flags.items()}
        """By name, in the order in which they are started."""

    def exports(self) -> str:
        """Return the lines by which a shell uses it, with the `rukpak` of this virtual environment."""
        programs = [self.folder / "bin", *([Path(sys.prefix) / "bin"] if sys.prefix != sys.base_prefix else [])]
        # The shell expands the rest of PATH when it evaluates its line.
        path = f'{shlex.quote(os.pathsep.join(map(str, programs)))}:"$PATH"'
        variables = {"KUBECONFIG": shlex.quote(str(self.kubeconfig)), "KUBECACHEDIR": shlex.quote(str(self._cache))}
        variables |= {"PATH": path, **({"REGISTRY": host} if (host := registry_of(self.folder)) else {})}
        return "".join(f"export {name}={value}\n" for name, value in variables.items())

    def start(self, *names: str) -> None:
        """Start components that do not run; return when etcd and kube-apiserver, if they are among these, answer.

        Args:
            names: of the components; none: all. Then objects can be created on return and, with a node, pods run.

        Raises: TimeoutError; RuntimeError with the end of its log if a component exits.
        """
        for name in names or self.components:
            if not self.components[name].is_running():
                self.components[name].start()
            if name == "etcd":
                self._wait(name, "etcd healthy", lambda: _fetch(f"{self.etcd}/health") is not None)
            elif name == "kube-apiserver":
                self._wait(name, "API server ready", lambda: self._get("/readyz") == b"ok")
        if names:
            return
        has_node = "kwok" in self.components
        if has_node and self._get(f"/api/v1/nodes/{NODE_NAME}") is None and self._get("/api/v1/nodes", NODE) is None:
            raise RuntimeError("the API server refused a request to /api/v1/nodes")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait("kube-controller-manager", "ServiceAccount default", lambda: self._get(account) is not None)
        if has_node:
            self._wait("kwok", f"node {NODE_NAME} Ready", self._has_ready_node)

    def stop(self, *names: str) -> None:
        """Kill components, by default all; `start` continues with their data.

        Without kube-apiserver, every watch and request is interrupted; without kube-controller-manager, garbage is not
        collected, and workloads do not progress.
        """
        for name in names or tuple(reversed(self.components)):
            self.components[name].kill()

    def back_up_etcd(self) -> None:
        """Copy the data of etcd, which is stopped for that."""
        self.stop("etcd")
        shutil.rmtree(self.folder / "etcd.backup", ignore_errors=True)
        shutil.copytree(self.folder / "etcd", self.folder / "etcd.backup")
        self.start("etcd")

    def restore_etcd(self) -> None:
        """Restore the backup of etcd and restart everything that has cached newer data, as Kubernetes requires."""
        self.stop("kube-controller-manager", "kube-apiserver", "etcd")
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / "etcd.backup", self.folder / "etcd")
        self.start("etcd", "kube-apiserver", "kube-controller-manager")

    def is_running(self) -> bool:
        """Return whether the API server is running."""
        return self.components["kube-apiserver"].is_running()

    def audit_position(self) -> int:
        """Return the current end of the audit log, for `audit_requests`."""
        return self._audited().stat().st_size

    def audit_requests(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the requests that were answered since a position, as `Event` of audit.k8s.io/v1, without bodies.

        A watch is listed twice: when it is opened (stage ResponseStarted) and when it ends (ResponseComplete).
        """
        with self._audited().open("rb") as log:
            log.seek(max(since - 1, 0))
            written = log.read()
        # The lines at that position and at the end may be incomplete.
        return [json.loads(line) for line in written.split(b"\n")[1 if since else 0 : -1]]

    def _audited(self) -> Path:
        if self._audit_log is None:
            raise RuntimeError("this control plane has no audit log")
        return self._audit_log

    def _has_ready_node(self) -> bool:
        return is_ready(json.loads(self._get(f"/api/v1/nodes/{NODE_NAME}") or b'{"spec": {}}'))

    def _get(self, path: str, created: Mapping[str, Any] | None = None) -> bytes | None:
        headers = {"Authorization": f"Bearer {read_token(self.folder)}", "Content-Type": "application/json"}
        body = json.dumps(created).encode() if created else None
        request = urllib.request.Request(self.server + path, body, headers)  # noqa: S310 -- our own address
        return _fetch(request, ssl.create_default_context(cafile=self.folder / "ca.crt"))

    def _wait(self, name: str, what: str, condition: Callable[[], bool]) -> None:
        self.components[name].wait_until(condition, START_SECONDS, f"{what}; {name} says")


def _fetch(request: urllib.request.Request | str, context: ssl.SSLContext | None = None) -> bytes | None:
    # Proxies in the environment are not for two processes on one machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=5) as response:
            body: bytes = response.read()
            return body
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (OSError, http.client.HTTPException):
        return None


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


def load_control_plane(folder: Path) -> ControlPlane:
    """Return the control plane in a folder.

    Raises: FileNotFoundError.
    """
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    programs = {name: Path(path) for name, path in state["programs"].items()}
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
        self.host = claim_address(folder / REGISTRY_HOST)
        self.content = folder / "content"
        """The folder of its content, which another registry may serve."""
        configuration, port = folder / "registry.yaml", self.host.rpartition(":")[2]
        configuration.write_text(REGISTRY_CONFIGURATION.format(folder=folder, port=port), encoding="utf-8")
        # Version 3 would send traces to a collector that does not exist.
        quiet = {"OTEL_TRACES_EXPORTER": "none"}
        self._process = Process("registry", folder, [program, "serve", configuration], quiet)
        self.log = self._process.log
        """It has a line for each request."""

    def start(self) -> None:
        """Start it on the same port with the same content unless it runs, and wait until it responds.

        Raises: TimeoutError; RuntimeError with the end of its log if it exits.
        """
        if not self._process.is_running():
            self._process.start()
        address = f"http://{self.host}/v2/"
        self._process.wait_until(lambda: _fetch(address) is not None, REGISTRY_SECONDS, "registry")

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()
