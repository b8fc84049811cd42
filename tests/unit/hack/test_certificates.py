from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from hack.control_plane.certificates import CLIENTS, make_authority, write_certificates


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("certificates")
    write_certificates(path)
    return path


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1"])
def test_the_server_is_trusted_at_its_addresses(folder: Path, address: str) -> None:
    policy = PolicyBuilder().store(Store([certificate(folder / "ca.crt")]))
    subject = x509.IPAddress(ipaddress.ip_address(address))
    policy.build_server_verifier(subject).verify(certificate(folder / "kube-apiserver.crt"), [])


def test_another_authority_does_not_vouch_for_it(folder: Path) -> None:
    policy = PolicyBuilder().store(Store([make_authority().certificate]))
    subject = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    with pytest.raises(VerificationError):
        policy.build_server_verifier(subject).verify(certificate(folder / "kube-apiserver.crt"), [])


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_has_a_name_of_its_own(folder: Path, client: str) -> None:
    subject = certificate(folder / f"{client}.crt").subject.rfc4514_string()
    assert subject == f"O=system:masters,CN=system:{client}"


@pytest.mark.parametrize("stem", ["ca", "kube-apiserver", *CLIENTS])
def test_key_and_certificate_belong_together(folder: Path, stem: str) -> None:
    key = load_pem_private_key((folder / f"{stem}.key").read_bytes(), None).public_key()
    form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert key.public_bytes(*form) == certificate(folder / f"{stem}.crt").public_key().public_bytes(*form)
