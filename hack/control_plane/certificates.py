"""The certificates and keys of one control plane: CA, server, clients and ServiceAccounts."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=365)
CLIENTS = ("kube-controller-manager", "kube-scheduler", "kwok")
SERVICE_ADDRESS = "10.0.0.1"
"""Of the Service `kubernetes`: the first address of the range in components.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def write_certificates(folder: Path) -> None:
    """Write `ca`, `kube-apiserver` and one for each client (.crt and .key), and `service-accounts` (.key and .pub)."""
    authority = make_authority()
    _write_pair(folder / "ca", authority.certificate, authority.key)
    _write_server(folder / "kube-apiserver", authority)
    for client in CLIENTS:
        # Separate names, to tell them from users in the audit log; all permissions, since they are not under test.
        _write_client(folder / client, authority, user=f"system:{client}", group="system:masters")
    key = _new_key()
    (folder / "service-accounts.key").write_bytes(_private_bytes(key))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "service-accounts.pub").write_bytes(public)


def make_authority() -> Authority:
    """Create a certificate authority with a new key."""
    key = _new_key()
    name = _name("kubernetes-ca")
    usage = _key_usage(signs_certificates=True)
    certificate = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key=key, certificate=certificate)


def _write_server(stem: Path, authority: Authority) -> None:
    names: list[x509.GeneralName] = [
        *(x509.DNSName(name) for name in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", SERVICE_ADDRESS)),
    ]
    key = _new_key()
    builder = _builder(_name("kube-apiserver"), authority.certificate.subject, key)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    _write_pair(stem, _issue(builder, authority, ExtendedKeyUsageOID.SERVER_AUTH), key)


def _write_client(stem: Path, authority: Authority, *, user: str, group: str) -> None:
    key = _new_key()
    builder = _builder(_name(user, group), authority.certificate.subject, key)
    _write_pair(stem, _issue(builder, authority, ExtendedKeyUsageOID.CLIENT_AUTH), key)


def _issue(builder: x509.CertificateBuilder, authority: Authority, purpose: x509.ObjectIdentifier) -> x509.Certificate:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(identifier, critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Processes share a clock, but times are truncated to seconds.
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + VALID)
        # Python 3.13 and newer refuse certificates without it (RFC 5280, 4.2.1.2).
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _write_pair(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    stem.with_suffix(".crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    stem.with_suffix(".key").write_bytes(_private_bytes(key))


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
