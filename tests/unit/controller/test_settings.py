from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from rukpak.api.plugins import Network
from rukpak.api.proxies import VARIABLES, Proxy
from rukpak.controller.settings import MOST_STORES, Settings, parse_address
from tests.support.controller import parse_options


class Address(NamedTuple):
    name: str
    text: str
    expect: tuple[str, int] | None


ADDRESSES = [
    Address("an address and a port", "127.0.0.1:8080", ("127.0.0.1", 8080)),
    Address("a port alone is on every address", ":8443", ("", 8443)),
    Address("an IPv6 address has brackets", "[::1]:8080", ("::1", 8080)),
    Address("nothing listens", "off", None),
]


@pytest.mark.parametrize("case", ADDRESSES, ids=attrgetter("name"))
def test_where_to_listen(case: Address) -> None:
    assert parse_address("metrics_address", case.text) == case.expect


def test_the_store_is_where_it_is_said_or_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Settings(store="~/there").store_folders() == (Path("/home/me/there"),)
    assert Settings().store_folders()[0] == Path("/home/me/.cache/rukpak/content")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    first, second, *others = Settings().store_folders()
    assert (first, second) == (Path("/cache/rukpak/content"), Path("/cache/rukpak/content-2"))
    assert len(others) == MOST_STORES - 2


class Readable(NamedTuple):
    name: str
    settings: Settings
    expect: tuple[str, ...]


READABLE = [
    Readable("by default the controller's own", Settings(), ("rukpak-system",)),
    Readable("wherever that is", Settings(namespace="there"), ("there",)),
    Readable("and what is allowed besides", Settings(secret_namespaces="ns, foo,"), ("rukpak-system", "ns", "foo")),
]


@pytest.mark.parametrize("case", READABLE, ids=attrgetter("name"))
def test_whose_secrets_sources_may_use(case: Readable) -> None:
    assert case.settings.readable_namespaces() == case.expect


class Way(NamedTuple):
    name: str
    arguments: list[str]
    in_pod: bool
    expect: Network


# fmt: off
WAYS = [
    Way("loopback is let through at a desk", [], False, Network(allow_loopback=True)),
    Way("and not in a pod", [], True, Network(allow_loopback=False)),
    Way("unless it is asked for", ["--allow-loopback=yes"], True, Network(allow_loopback=True)),
    Way("nobody has to have it", ["--allow-loopback=no"], False, Network(allow_loopback=False)),
    Way("networks that the guard would refuse", ["--allowed-networks=10.0.0.0/8, fd00::/8"], False,
         Network(allowed_networks=("10.0.0.0/8", "fd00::/8"))),
    Way("networks that no source may be in", ["--denied-networks=10.0.0.0/8,fd00::/8"], False,
         Network(denied_networks=("10.0.0.0/8", "fd00::/8"))),
    Way("hosts that sources may name", ["--allowed-hosts=Example.com, *.example.org:5000"], False,
         Network(allowed_hosts=("example.com", "*.example.org:5000"))),
    Way("how slow a server may be", ["--fetch-idle-timeout=10", "--min-fetch-rate=1"], False,
         Network(idle_seconds=10, bytes_per_second=1024)),
    Way("registries that are asked instead", ["--registry-mirror=docker.io=mirror.example.com/hub,quay.io=other:5000"],
         False, Network(registry_mirrors={"docker.io": "mirror.example.com/hub", "quay.io": "other:5000"})),
]
# fmt: on


@pytest.mark.parametrize("case", WAYS, ids=attrgetter("name"))
def test_how_sources_may_be_reached(case: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name in (*VARIABLES, *map(str.lower, VARIABLES)):
        monkeypatch.delenv(name, raising=False)
    assert parse_options(case.arguments, {}).network(in_pod=case.in_pod) == case.expect


def test_sources_are_read_through_the_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://robot:canary@proxy.example:3128")
    monkeypatch.setenv("no_proxy", ".svc, 10.0.0.0/8")
    for in_pod in (False, True):
        found = parse_options([], {}).network(in_pod=in_pod)
        assert found.proxies.https == Proxy(host="proxy.example", port=3128, username="robot", password="canary")
        assert (found.proxies.http, found.proxies.direct) == (None, (".svc", "10.0.0.0/8"))
        assert "canary" not in repr(found)


def test_a_proxy_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5h://robot:canary@proxy.example:1080")
    problem = Settings().problem()
    assert problem.startswith('HTTPS_PROXY: a proxy of type "socks5h" is not supported; use an http proxy')
    assert "canary" not in problem


@pytest.mark.parametrize(
    ("host", "in_pod", "expect"),
    [
        ("10.96.0.1", True, ("172.16.0.0/12", "10.96.0.1/32")),
        ("fd00::1", True, ("172.16.0.0/12", "fd00::1/128")),
        ("10.96.0.1", False, ("172.16.0.0/12",)),
        ("kubernetes.example.com", True, ("172.16.0.0/12",)),
    ],
)
def test_no_source_is_the_api_server_of_a_pod(
    host: str, in_pod: bool, expect: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    assert parse_options(["--denied-networks=172.16.0.0/12"], {}).network(in_pod=in_pod).denied_networks == expect


def test_an_interval_of_lists_that_is_too_short_is_refused() -> None:
    assert Settings(relist_interval=10).problem() == ""
    assert Settings(relist_interval=9).problem() == "--relist-interval: 9 is less than 10"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(Settings(shard="blue"), "", id="a name"),
        pytest.param(Settings(shard="Blue"), '--shard: "Blue" is not lowercase', id="no name"),
        pytest.param(Settings(shard="blue", leader_elect=False), "", id="a name without Lease"),
    ],
)
def test_which_shards_can_be_served(settings: Settings, problem: str) -> None:
    assert settings.problem().startswith(problem)
    assert bool(settings.problem()) is bool(problem)
