from __future__ import annotations

import csv
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from rukpak.controller.playground.cluster import CLIENTS, Ports, read_token, write_certificates, write_files

PORTS = Ports(etcd=1, etcd_peer=2, server=3)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Return the side of the client, in memory; raises if it does not trust the server."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for side in sides * 2:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return sides[0]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1"])
def test_the_certificate_of_the_server_is_valid_by_the_strictest_rules(name: str, tmp_path: Path) -> None:
    write_certificates(tmp_path)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(tmp_path / "kube-apiserver.crt", tmp_path / "kube-apiserver.key")
    trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 does by default
    shown = shake_hands(trusting, served, name).getpeercert() or {}
    assert shown["subject"] == ((("commonName", "kube-apiserver"),),)


def test_each_client_has_a_token_of_its_own_that_nobody_can_guess(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder in (tmp_path, other):
        write_files(folder, PORTS)
    with (tmp_path / "tokens.csv").open(encoding="utf-8") as file:
        tokens = {user: token for token, user, *_ in csv.reader(file)}
    assert tokens.keys() == {"admin", *(f"system:{client}" for client in CLIENTS)}
    assert len({*tokens.values(), read_token(other)}) == len(tokens) + 1
    assert read_token(tmp_path) == tokens["admin"]
    for client in CLIENTS:
        config = yaml.safe_load((tmp_path / f"{client}.kubeconfig").read_text())  # noqa: TID251
        assert config["users"] == [{"name": f"system:{client}", "user": {"token": tokens[f"system:{client}"]}}]
