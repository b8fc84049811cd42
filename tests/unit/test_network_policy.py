"""The NetworkPolicy of config/manager lets out what the controller needs, and not to what it refuses."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.sources.hosts import METADATA

FILE = Path(__file__).parents[2] / "config/manager/network_policy.yaml"
PORTS = (22, 80, 1338, 5000, 8080, 32526)
"""No metadata are served at those of DNS and of API servers, which are let out everywhere."""


@pytest.fixture(scope="module")
def policy() -> dict[str, Any]:
    [document] = read_documents(FILE.read_bytes(), FILE.name)
    spec: dict[str, Any] = document.value["spec"]
    return spec


def is_let_out(policy: dict[str, Any], address: str, port: int) -> bool:
    return any(
        ("ports" not in rule or port in {each["port"] for each in rule["ports"]})
        and ("to" not in rule or any(holds(peer["ipBlock"], address) for peer in rule["to"] if "ipBlock" in peer))
        for rule in policy["egress"]
    )


def holds(block: dict[str, Any], address: str) -> bool:
    within = [ip_address(address) in ip_network(each) for each in (block["cidr"], *block["except"])]
    return within[0] and not any(within[1:])


@pytest.mark.parametrize("address", ["169.254.169.254", "169.254.170.2", "fe80::1", *map(str, METADATA)])
def test_metadata_are_out_of_reach(policy: dict[str, Any], address: str) -> None:
    assert not any(is_let_out(policy, address, port) for port in PORTS)


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("8.8.8.8", 443),
        ("2606:4700::1", 443),
        ("10.0.0.1", 5000),
        ("8.8.8.8", 22),
        ("169.254.20.10", 53),
        ("::1", 6443),
    ],
)
def test_sources_dns_and_the_api_server_are_within_reach(policy: dict[str, Any], address: str, port: int) -> None:
    assert is_let_out(policy, address, port)


def test_nothing_is_let_in_without_a_selector(policy: dict[str, Any]) -> None:
    assert [(rule["from"], rule["ports"]) for rule in policy["ingress"]] == [
        ([{"namespaceSelector": {"matchLabels": {"core.rukpak.io/metrics": "true"}}}], [{"port": "metrics"}])
    ]
