"""The way to a server, as a value: host, addresses, proxy and keys; and what there is no way to."""

from __future__ import annotations

import socket
import time
from collections import Counter
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Network
from rukpak.api.proxies import Proxies, Proxy
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources import routes
from rukpak.controller.sources.hosts import Location
from rukpak.controller.sources.routes import Route, find_route
from rukpak.controller.sources.trust import ClientCertificate
from tests.support.clock import Clock

PATH = "spec.sources[0].http.url"
NAMES = {
    "example.com": ["93.184.216.34", "2606:2800:220:1::1"],
    "mixed.example": ["10.0.0.1", "8.8.8.8", "169.254.169.254"],
    "metadata.example": ["169.254.169.254"],
    "rebinding.example": ["8.8.8.8", "169.254.169.254"],
    "ip6-loopback": ["::1"],
    "inside.example": ["10.0.0.1"],
    "build": ["192.168.1.7"],
    "git.corp": ["192.168.1.8"],
    "proxy.example": ["10.9.9.9"],
    "metadata.proxy.example": ["169.254.169.254"],
}
PROXY = Proxy(host="proxy.example", port=3128, username="robot", password="canary")
KEYS = ClientCertificate(certificate="a", key="canary", origins=frozenset({("https", "example.com", 443)}))


ASKED: Counter[str] = Counter()
"""How often names were looked up."""


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_absent", {})

    def resolve(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        ASKED[host] += 1
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in NAMES[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def at(host: str, port: int = 443, scheme: str = "https") -> Location:
    return Location(scheme=scheme, host=host, port=port)


def through(*direct: str, proxy: Proxy = PROXY, **options: Any) -> Network:
    return Network(proxies=Proxies(https=proxy, http=proxy, direct=direct), **options)


OUT = {
    "directly": (
        at("example.com"),
        Network(),
        Route(host="example.com", port=443, addresses=("93.184.216.34", "2606:2800:220:1::1"), keys=KEYS),
    ),
    "of several addresses those that are allowed": (
        at("mixed.example"),
        Network(denied_networks=("10.0.0.0/8",)),
        Route(host="mixed.example", port=443, addresses=("8.8.8.8",)),
    ),
    "through a proxy": (
        at("example.com"),
        through(),
        Route(host="proxy.example", port=3128, addresses=("10.9.9.9",), proxy=PROXY, keys=KEYS),
    ),
    "to a name that only the proxy knows": (
        at("git.acme.example", 8443),
        through(),
        Route(host="proxy.example", port=3128, addresses=("10.9.9.9",), proxy=PROXY),
    ),
    "to a private name that is resolved here": (
        at("git.corp"),
        through(),
        Route(host="proxy.example", port=3128, addresses=("10.9.9.9",), proxy=PROXY),
    ),
    "to a name without a domain that is resolved here": (
        at("build"),
        through(),
        Route(host="proxy.example", port=3128, addresses=("10.9.9.9",), proxy=PROXY),
    ),
    "a proxy at an address that is denied to sources": (
        at("example.com"),
        through(denied_networks=("10.0.0.0/8",)),
        Route(host="proxy.example", port=3128, addresses=("10.9.9.9",), proxy=PROXY, keys=KEYS),
    ),
    "past the proxy": (
        at("inside.example"),
        through("inside.example"),
        Route(host="inside.example", port=443, addresses=("10.0.0.1",)),
    ),
    "over ssh": (
        at("inside.example", 22, "ssh"),
        through(),
        Route(host="inside.example", port=22, addresses=("10.0.0.1",)),
    ),
}


@pytest.mark.parametrize("case", OUT)
def test_the_way_to_a_server(case: str) -> None:
    location, network, expected = OUT[case]
    assert find_route(PATH, location, network, keys=KEYS) == expected


REFUSED = {
    "a denied address": (at("inside.example"), Network(denied_networks=("10.0.0.0/8",)), "--denied-networks"),
    "a denied address through a proxy": (at("inside.example"), through(denied_networks=("10.0.0.0/8",)), "--denied-"),
    "one denied address among others through a proxy": (
        at("mixed.example"),
        through(denied_networks=("10.0.0.0/8",)),
        "not all of its addresses are allowed",
    ),
    "one address of metadata among others through a proxy": (at("rebinding.example"), through(), "not all of its"),
    "a name of this machine through a proxy": (at("ip6-loopback"), through(), "it is a loopback address"),
    "metadata through a proxy": (at("metadata.example"), through(), "it is link-local"),
    "an address": (at("10.0.0.1"), through(), "a proxy is asked for names only"),
    "an address of IPv6": (at("fd00::1"), through(), "a proxy is asked for names only"),
    "a number": (at("167772161"), through(), "a proxy is asked for names only"),
    "hexadecimal digits": (at("0xa000001"), through(), "a proxy is asked for names only"),
    "an address with a dot": (at("10.0.0.1."), through(), "a proxy is asked for names only"),
    "this machine": (at("a.localhost"), through(), "one of this machine or of the cluster"),
    "a Service": (at("git.forge.svc"), through(), "one of this machine or of the cluster"),
    "a Service with a dot": (at("git.forge.svc.cluster.local."), through(), "one of this machine or of the cluster"),
    "a name without a domain": (at("intranet"), through(), "its name is a local one"),
    "a cloud's metadata": (at("metadata.google.internal"), through(), "its name is a local one"),
    "a name of mDNS": (at("printer.local"), through(), "its name is a local one"),
    "a name of a home": (at("nas.home.arpa"), through(), "its name is a local one"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_attack_there_is_no_way(case: str) -> None:
    location, network, problem = REFUSED[case]
    with pytest.raises(BundleError, match=problem) as caught:
        find_route(PATH, location, network)
    assert caught.value.reason is Reason.INSECURE_REFUSED
    assert caught.value.message.startswith(f"{PATH}: ")
    assert "canary" not in caught.value.message


@pytest.mark.parametrize("network", [Network(), through()])
def test_plain_http_goes_beyond_loopback_only_if_tls_was_given_up(network: Network) -> None:
    assert find_route(PATH, at("inside.example", 80, "http"), network).addresses
    with pytest.raises(BundleError, match="plain http is allowed only to loopback addresses"):
        find_route(PATH, at("inside.example", 80, "http"), network, plain=True)


@pytest.mark.parametrize("host", ["exa mple.com", "example.com\r\nX: a", "exa/mple.com", "ex\u00e4mple.com", ".", ""])
def test_attack_a_proxy_is_asked_for_no_impossible_name(host: str) -> None:
    with pytest.raises(UnicodeError):
        find_route(PATH, at(host), through())


def test_a_name_that_only_the_proxy_knows_is_looked_up_here_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    ASKED.clear()
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    for _ in range(3):
        find_route(PATH, at("git.acme.example"), through())
        find_route(PATH, at("example.com"), through())
        with pytest.raises(BundleError, match="its name is a local one"):
            find_route(PATH, at("intranet"), through())
    assert (ASKED["git.acme.example"], ASKED["intranet"], ASKED["example.com"]) == (1, 1, 3)
    clock.now += routes.ABSENT_SECONDS
    find_route(PATH, at("git.acme.example"), through())
    assert ASKED["git.acme.example"] == 2


def test_a_name_that_a_proxy_was_asked_for_is_looked_up_where_there_is_no_proxy() -> None:
    find_route(PATH, at("git.acme.example"), through())
    ASKED.clear()
    with pytest.raises(OSError, match="unknown"):
        find_route(PATH, at("git.acme.example"), Network())
    assert ASKED["git.acme.example"] == 1


def test_names_that_are_not_resolved_take_a_bounded_memory() -> None:
    for number in range(3 * routes.MOST_ABSENT):
        find_route(PATH, at(f"a{number}.acme.example"), through())
    assert len(routes._absent) <= routes.MOST_ABSENT


def test_a_name_of_a_proxy_that_is_not_known() -> None:
    proxy = Proxy(host="nowhere.example", port=3128, password="canary")
    with pytest.raises(
        BundleError, match=r'through proxy "nowhere\.example:3128": the proxy cannot be reached'
    ) as caught:
        find_route(PATH, at("example.com"), through(proxy=proxy))
    assert caught.value.reason is Reason.UNREACHABLE


def test_keys_are_shown_to_their_server_only() -> None:
    for location in (at("mixed.example"), at("example.com", 8443), at("example.com", 443, "http")):
        assert find_route(PATH, location, Network(), keys=KEYS).keys is None


def test_no_repr_contains_a_secret() -> None:
    assert "canary" not in repr(find_route(PATH, at("example.com"), through(), keys=KEYS))
