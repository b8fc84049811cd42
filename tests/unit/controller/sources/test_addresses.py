"""Which addresses sources may be at."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from rukpak.api.plugins import Network
from rukpak.controller.sources.hosts import METADATA, embedded, forbidden

ADDRESSES = [
    ("169.254.169.254", True, False, "link-local"), ("::ffff:169.254.169.254", True, False, "link-local"),
    ("fe80::1", True, False, "link-local"), ("fe80::1%eth0", True, False, "link-local"),
    ("fd00:ec2::254", True, False, "metadata"), ("fd00:ec2::23", True, False, "metadata"),
    ("fd20:ce::254", True, False, "metadata"), ("168.63.129.16", True, False, "metadata"),
    ("100.100.100.200", True, False, "metadata"), ("192.0.0.192", True, False, "metadata"),
    ("::ffff:168.63.129.16", True, False, "metadata"), ("64:ff9b::a83f:8110", True, False, "metadata"),
    ("224.0.0.1", True, False, "a single host"), ("ff02::1", True, False, "a single host"),
    ("::", True, False, "a single host"),
    ("0.0.0.0", True, False, "a single host"), ("0.1.2.3", True, False, "a single host"),
    ("255.255.255.255", True, False, "a single host"), ("::ffff:0.0.0.0", True, False, "a single host"),
    ("127.0.0.1", False, False, "a loopback address"), ("::1", False, False, "a loopback address"),
    ("127.1.2.3", False, False, "a loopback address"), ("64:ff9b::127.0.0.1", False, False, "a loopback address"),
    ("::ffff:127.0.0.1", False, True, "a loopback address"), ("10.0.0.1", True, True, "plain http"),
    ("8.8.8.8", False, True, "plain http"), ("127.0.0.1", True, True, ""), ("10.0.0.1", False, False, ""),
    ("2606:4700::1", False, False, ""), ("64:ff9b::8.8.8.8", False, False, ""), ("2002:808:808::1", False, False, ""),
    ("64:ff9b:1::8.8.8.8", False, False, ""),
]  # fmt: skip


@pytest.mark.parametrize(("address", "loopback", "plain", "message"), ADDRESSES)
def test_which_addresses_are_talked_to(address: str, loopback: bool, plain: bool, message: str) -> None:
    problem = forbidden(address, Network(allow_loopback=loopback), plain=plain)
    assert message in problem
    assert bool(problem) is bool(message)


# 169.254.169.254 is a9fe:a9fe, and 5601:5601 with all bits the other way round.
CARRIED = [
    "::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
    "2001:0:808:808:8000:63bf:5601:5601", "2001:0:a9fe:a9fe:8000:63bf:3fff:fdd2",
    "2001:db8::5efe:169.254.169.254", "2001:db8::200:5efe:169.254.169.254",
    "64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:1a9:fe:a9fe::", "64:ff9b:1:1:a9:fea9:fe00:0",
]  # fmt: skip


@pytest.mark.parametrize("address", CARRIED)
def test_what_an_address_carries_is_judged(address: str) -> None:
    assert ip_address("169.254.169.254") in embedded(ip_address(address))
    everything = Network(allowed_networks=("0.0.0.0/0", "::/0", f"{address}/128"))
    assert "link-local" in forbidden(address, everything, plain=False)


@pytest.mark.parametrize("address", ["8.8.8.8", "::", "::1", "2606:4700::1", "fd00::1", "fe80::1"])
def test_what_carries_nothing(address: str) -> None:
    assert embedded(ip_address(address)) == ()


NETWORKS = [  # address, allowed, denied, whether it may be talked to
    ("127.0.0.1", ["127.0.0.0/8"], [], True), ("127.0.0.1", ["10.0.0.0/8"], [], False),
    ("::1", ["127.0.0.0/8"], [], False), ("::ffff:127.0.0.1", ["127.0.0.0/8"], [], True),
    ("224.0.0.1", ["224.0.0.0/4"], [], True), ("0.0.0.0", ["0.0.0.0/0"], [], True),
    ("10.1.2.3", [], ["10.0.0.0/8"], False), ("10.1.2.3", [], ["11.0.0.0/8"], True),
    ("10.1.2.3", [], ["0.0.0.0/0"], False), ("fd00::1", [], ["fd00::/8"], False), ("fd00::1", [], ["::/0"], False),
    ("::ffff:10.1.2.3", [], ["10.0.0.0/8"], False), ("64:ff9b::10.1.2.3", [], ["10.0.0.0/8"], False),
    ("2002:a01:203::1", [], ["10.0.0.0/8"], False), ("64:ff9b::10.1.2.3", ["64:ff9b::/96"], ["10.0.0.0/8"], False),
    ("10.1.2.3", ["10.1.2.3/32"], ["10.0.0.0/8"], True), ("10.1.2.4", ["10.1.2.3/32"], ["10.0.0.0/8"], False),
    ("10.1.2.3", ["10.0.0.0/8"], ["10.1.0.0/16"], False), ("10.2.2.3", ["10.0.0.0/8"], ["10.1.0.0/16"], True),
    ("10.1.2.3", ["10.1.0.0/16"], ["10.0.0.0/8", "10.1.2.0/24"], False),
    ("10.1.2.3", ["10.0.0.0/8"], ["10.0.0.0/8"], False), ("127.0.0.1", ["127.0.0.1/32"], ["127.0.0.0/8"], True),
    ("10.1.2.3", ["10.0.0.0/8"], ["fd00::/8"], True),
]  # fmt: skip


@pytest.mark.parametrize(("address", "allowed", "denied", "expect"), NETWORKS)
def test_of_allowed_and_denied_networks_the_narrower_counts(
    address: str, allowed: list[str], denied: list[str], expect: bool
) -> None:
    network = Network(allow_loopback=False, allowed_networks=tuple(allowed), denied_networks=tuple(denied))
    assert (forbidden(address, network, plain=False) == "") is expect


@pytest.mark.parametrize("address", ["169.254.1.1", "fe80::1", *map(str, METADATA)])
def test_metadata_is_never_let_through(address: str) -> None:
    network = Network(allowed_networks=("0.0.0.0/0", "::/0", address))
    assert forbidden(address, network, plain=False)


def test_denied_loopback_is_denied_at_a_desk() -> None:
    network = Network(allow_loopback=True, denied_networks=("127.0.0.2/32",))
    assert "--denied-networks" in forbidden("127.0.0.2", network, plain=False)
    assert forbidden("127.0.0.1", network, plain=False) == ""


def test_plain_http_to_an_admitted_network_is_still_for_loopback_only() -> None:
    network = Network(allowed_networks=("10.0.0.0/8",))
    assert "plain http" in forbidden("10.0.0.1", network, plain=True)
