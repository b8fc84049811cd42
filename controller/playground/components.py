"""The command lines of a control plane's components, and the files that they read. Starts nothing.

With kwok there is a fake node, on which pods run; stages.yaml says what it does to them. A pod on the node is only an
object: no container is ever started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme

CLIENTS = ("kube-controller-manager", "kube-scheduler", "kwok")
VALID = timedelta(days=365)
"""For so long the certificate of the API server is valid."""
SERVICE_ADDRESS = "10.0.0.1"
"""Of the Service `kubernetes`: the first address of its range."""
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")


def write_certificates(folder: Path) -> None:
    """Write `ca`, `kube-apiserver` and one for each client (.crt and .key), and `service-accounts.key`."""
    authority = trustme.CA(organization_name="kubernetes-ca")
    authority.cert_pem.write_to_path(folder / "ca.crt")
    authority.private_key_pem.write_to_path(folder / "ca.key")
    now = datetime.now(UTC)
    leaves = {
        "kube-apiserver": authority.issue_cert(
            "127.0.0.1",
            "localhost",
            SERVICE_ADDRESS,
            *_SERVICE_NAMES,
            not_before=now - timedelta(minutes=1),  # as a real one, which a wrong clock finds invalid
            not_after=now + VALID,
        )
    }
    for client in CLIENTS:
        # Separate names, to tell them from users in the audit log; all permissions, since they are not under test.
        leaves[client] = authority.issue_cert(
            client, common_name=f"system:{client}", organization_name="system:masters"
        )
    for name, leaf in leaves.items():
        leaf.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")
        leaf.private_key_pem.write_to_path(folder / f"{name}.key")
    authority.issue_cert("service-accounts").private_key_pem.write_to_path(folder / "service-accounts.key")


TOKEN = "admin"  # noqa: S105 -- the API server listens on loopback, for as long as somebody develops
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster: {{server: "{server}", certificate-authority: "{folder}/ca.crt"}}
users:
- name: {user}
  user: {credential}
contexts:
- name: {name}
  context: {{cluster: {name}, user: {user}}}
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
    """Write the kubeconfigs, the admin's token and the audit policy."""
    credentials = {"kubeconfig": ("admin", f"{{token: {TOKEN}}}")} | {
        f"{client}.kubeconfig": (client, _client_certificate(folder / client)) for client in CLIENTS
    }
    for file, (user, credential) in credentials.items():
        text = KUBECONFIG.format(
            name=folder.name, server=server_address(ports), folder=folder, user=user, credential=credential
        )
        (folder / file).write_text(text, encoding="utf-8")
        (folder / file).chmod(0o600)
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n', encoding="utf-8")
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY, encoding="utf-8")


def _client_certificate(stem: Path) -> str:
    return f'{{client-certificate: "{stem}.crt", client-key: "{stem}.key"}}'


def etcd_command(folder: Path, ports: Ports, programs: Mapping[str, Path]) -> list[str | Path]:
    """Return the command line of etcd. It does not sync its files, because test data is worthless."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        programs["etcd"],
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


def server_command(folder: Path, ports: Ports, programs: Mapping[str, Path], *, audit: bool) -> list[str | Path]:
    """Return the command line of kube-apiserver, with RBAC, and optionally an audit log of metadata."""
    audited = [
        f"--audit-policy-file={folder / 'audit-policy.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-maxsize=2000",
    ]
    return [
        programs["kube-apiserver"],
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


def controller_manager_command(folder: Path, programs: Mapping[str, Path]) -> list[str | Path]:
    """Return the command line of kube-controller-manager."""
    return [
        programs["kube-controller-manager"],
        f"--kubeconfig={folder / 'kube-controller-manager.kubeconfig'}",
        f"--service-account-private-key-file={folder / 'service-accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--cluster-signing-cert-file={folder / 'ca.crt'}",
        f"--cluster-signing-key-file={folder / 'ca.key'}",
        "--use-service-account-credentials=false",
        *_ALONE_AND_FAST,
    ]


def scheduler_command(folder: Path, programs: Mapping[str, Path]) -> list[str | Path]:
    """Return the command line of kube-scheduler."""
    return [programs["kube-scheduler"], f"--kubeconfig={folder / 'kube-scheduler.kubeconfig'}", *_ALONE_AND_FAST]


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


def kwok_command(folder: Path, programs: Mapping[str, Path]) -> list[str | Path]:
    """Return the command line of kwok. It manages only nodes with its annotation."""
    return [
        programs["kwok"],
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
