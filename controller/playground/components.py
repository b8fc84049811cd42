"""The command lines of a control plane's components, and the files that they read. Starts nothing.

With kwok there is a fake node, on which pods run; stages.yaml says what it does to them. A pod on the node is only an
object: no container is ever started.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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
