"""The story of a tenant whose servers say numbers that nobody can mean: everybody else's work goes on."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, config_map, exists
from tests.support.tenants import ANN, BEN, OWN, Tenants
from tests.support.web_servers import FaultyServer

pytestmark = pytest.mark.timeout(300)

HOSTILE = {
    "age": (429, "99999999999"),
    "longer": (503, "999999999999999"),
    "date": (503, "Fri, 31 Dec 9999 23:59:59 GMT"),
}
LONGEST_POLL = "999999h999999h99999h"
FROM_ANN = "/api/v1/namespaces/tenant/configmaps/from-ann"


def settings(name: str) -> bytes:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: from-{name}}}\n".encode()


def file_of(server: FaultyServer, name: str) -> Manifest:
    return {"kind": "http", "http": {"url": f"{server.address}/{name}.yaml"}}


def is_healthy(tenants: Tenants) -> bool:
    with urllib.request.urlopen(f"{tenants.world.controller.address('--probe-address')}/healthz", timeout=5) as reply:
        return bool(reply.status == 200)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as served:
        yield served


@pytest.fixture(scope="module")
def refused(tenants: Tenants, server: FaultyServer) -> dict[str, Deployed]:
    """What ANN has installed of servers that, when they are polled, ask to be left alone for ages.

    None has anything sooner to come back for: the next thing that the controller waits for lies ages ahead.
    """
    files = {name: server.add(f"/{name}.yaml", settings(name), tag='"1"') for name in HOSTILE}
    sources = {name: file_of(server, name) | {"pollInterval": "30s"} for name in HOSTILE}
    deployed = {name: tenants.apply(ANN, f"asks-{name}", "unused", **OWN, sources=[sources[name]]) for name in HOSTILE}
    for each in deployed.values():
        each.wait_ready()
    for name, (status, asked) in HOSTILE.items():
        files[name].headers, files[name].status = {"Retry-After": asked}, status
    for each in deployed.values():
        each.wait_for("Unpacked", "False", "Unreachable")
    return deployed


@pytest.mark.usefixtures("refused")
def test_another_tenant_installs(tenants: Tenants) -> None:
    for name in ("one", "two", "three", "four", "five"):
        theirs = tenants.apply(BEN, f"theirs-{name}", installNamespace="other", serviceAccountName="installer",
                               ref=tenants.push(f"theirs-{name}", config_map(name)))  # fmt: skip
        theirs.wait_ready()
    assert is_healthy(tenants)
    assert "thread died" not in tenants.world.controller.log


def test_after_a_restart_all_is_as_before(tenants: Tenants, refused: dict[str, Deployed]) -> None:
    tenants.world.restart()
    tenants.apply(BEN, "theirs-later", installNamespace="other", serviceAccountName="installer").wait_ready()
    for each in refused.values():
        each.wait_for("Unpacked", "False", "Unreachable")
    assert is_healthy(tenants)
    assert "thread died" not in tenants.world.controller.log


def test_who_asked_for_an_age_is_asked_at_once_when_the_tenant_says_so(
    tenants: Tenants, server: FaultyServer, refused: dict[str, Deployed]
) -> None:
    server.add("/age.yaml", settings("ann"), tag='"2"')
    tenants.annotate(ANN, refused["age"].name, **{names.RECONCILE_REQUESTED_AT: "now"})
    tenants.world.wait(lambda: exists(tenants.world.client, FROM_ANN), "what the server has now")
    refused["age"].wait_ready()
    tenants.delete(ANN, refused["age"].name)
    refused["age"].wait_gone()


def test_a_change_of_the_spec_is_tried_at_once(
    tenants: Tenants, server: FaultyServer, refused: dict[str, Deployed]
) -> None:
    server.add("/well.yaml", settings("well"), tag='"1"')
    tenants.apply(ANN, refused["date"].name, "unused", **OWN, sources=[file_of(server, "well")])
    refused["date"].wait_ready()


def test_a_poll_in_an_age_stops_nobody(tenants: Tenants, server: FaultyServer) -> None:
    server.add("/polled.yaml", settings("polled"), tag='"1"')
    source = file_of(server, "polled") | {"pollInterval": LONGEST_POLL}
    tenants.apply(ANN, "polled", "unused", **OWN, sources=[source]).wait_ready()
    assert is_healthy(tenants)
    assert "thread died" not in tenants.world.controller.log
