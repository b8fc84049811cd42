"""What a tenant reaches over the network of the controller: servers that he names, and nothing by way of them.

The tenant runs servers of his own, which redirect, drip and ask for passwords; beside them there is a service inside of
the cluster that is not for him. Where plain http is meant, loopback stands for it.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.bundles import Deployed, Manifest
from tests.support.faulty_registry import Faults, FaultyRegistry
from tests.support.private_sources import Authority
from tests.support.tenants import ANN, OWN, Tenants
from tests.support.web_servers import FaultyServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
DRIPPING_SECONDS = 90.0
"""For a server that is given up after 30 s of waiting for it, where the timeout is 600 s."""
SECRET = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "internal"}, "data": {"token": "marked"}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """All on this machine; `denied` is at an address of its own."""

    authority: Authority
    plain: FaultyServer
    """Of the tenant, as are `secured` and `registry`."""
    secured: FaultyServer
    registry: FaultyRegistry
    internal: FaultyServer
    internal_secured: FaultyServer
    denied: socket.socket

    @property
    def denied_host(self) -> str:
        return f"127.0.0.2:{self.denied.getsockname()[1]}"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    authority = Authority.make(tmp_path_factory.mktemp("authority"))
    with ExitStack() as stack:
        denied = stack.enter_context(socket.create_server(("127.0.0.2", 0)))
        denied.settimeout(0)
        yield Servers(
            authority=authority,
            plain=stack.enter_context(FaultyServer()),
            secured=stack.enter_context(FaultyServer(authority.server_context())),
            registry=stack.enter_context(FaultyRegistry(authority.server_context())),
            internal=stack.enter_context(FaultyServer()),
            internal_secured=stack.enter_context(FaultyServer(authority.server_context())),
            denied=denied,
        )


@pytest.fixture(scope="module")
def controller_options(servers: Servers) -> tuple[str, ...]:
    hosts = (
        servers.plain.host,
        servers.secured.host,
        servers.registry.host,
        servers.denied_host,
        "*.254",
        "168.63.129.16",
    )
    return ("--denied-networks=127.0.0.2/32", f"--allowed-hosts={','.join(hosts)},[64:ff9b::a9fe:a9fe]")


def http(url: str, **fields: Any) -> Manifest:
    return {"kind": "http", "http": {"url": url, **fields}}


def apply(tenants: Tenants, name: str, source: Manifest) -> Deployed:
    return tenants.apply(ANN, name, "unused", **OWN, sources=[source])


def test_plain_http_leads_to_no_other_service(tenants: Tenants, servers: Servers) -> None:
    servers.internal.add("/secret.json", SECRET)
    servers.plain.add("/a.json", redirect=f"{servers.internal.address}/secret.json")
    deployed = apply(tenants, "redirected", http(f"{servers.plain.address}/a.json"))
    message = deployed.wait_for("Unpacked", "False", "InsecureRefused")["message"]
    assert servers.internal.host not in message
    assert servers.internal.requests == []


STATUSES = [401, 404, 418, 503]


@pytest.fixture(scope="module")
def answering(tenants: Tenants, servers: Servers) -> dict[int, Deployed]:
    """What is redirected to an inner service, by its answer; at once, since each takes ten seconds."""
    found = {}
    for status in STATUSES:
        servers.internal_secured.add(f"/{status}.json", status=status)
        servers.secured.add(f"/{status}.json", redirect=f"{servers.internal_secured.address}/{status}.json")
        source = http(f"{servers.secured.address}/{status}.json", certificateData=servers.authority.pem)
        found[status] = apply(tenants, f"answers-{status}", source)
    return found


@pytest.mark.parametrize("status", STATUSES)
def test_what_an_inner_service_answers_is_not_told(
    answering: dict[int, Deployed], servers: Servers, status: int
) -> None:
    found = answering[status].wait_for("Unpacked", "False", "Unreachable")
    assert found["message"] == (
        f'spec.sources[0].http.url: "{servers.secured.host}" redirects to an address that cannot be used; check that '
        "server"
    )


def test_guessed_bytes_of_an_inner_service_look_like_wrong_ones_and_like_none(
    tenants: Tenants, servers: Servers
) -> None:
    page = b"<!doctype html><title>Vault</title>"
    servers.internal_secured.add("/page.tgz", page)
    guesses = {"right": page, "wrong": page[1:], "missing": page}
    found = {}
    for name, guess in guesses.items():
        path = "/none.tgz" if name == "missing" else "/page.tgz"
        servers.secured.add(f"/{name}.tgz", redirect=f"{servers.internal_secured.address}{path}")
        parameters = {"sha256": hashlib.sha256(guess).hexdigest(), "certificateData": servers.authority.pem}
        found[name] = apply(tenants, f"guess-{name}", http(f"{servers.secured.address}/{name}.tgz", **parameters))
    told = [each.wait_for("Unpacked", "False", "Unreachable")["message"] for each in found.values()]
    assert len(set(told)) == 1
    assert [len(each.status()["sources"]) for each in found.values()] == [1, 1, 1]


def test_a_token_server_is_no_way_inside(tenants: Tenants, servers: Servers) -> None:
    """What it gave would be sent to the tenant's registry."""
    servers.internal.add("/token", b'{"token": "marked"}')
    servers.registry.wants_token, servers.registry.realm = True, f"{servers.internal.address}/token"
    image = {"ref": f"{servers.registry.host}/bundle:v1", "insecureSkipTLSVerify": True}
    deployed = apply(tenants, "token", {"kind": "image", "image": image})
    deployed.wait_for("Unpacked", "False", "InsecureRefused")
    assert servers.internal.sent("Host") == []
    servers.registry.wants_token = False


def test_credentials_do_not_go_where_nobody_is_verified(tenants: Tenants, servers: Servers) -> None:
    unverified = {"auth": {"secret": {"name": "login"}}, "insecureSkipTLSVerify": True}
    servers.secured.add("/private.json", SECRET, authorization="Basic asked-for")
    servers.registry.logins = {"tenant": "secret"}
    seen, asked = len(servers.secured.requests), len(servers.registry.requests)
    image = {"kind": "image", "image": {"ref": f"{servers.registry.host}/bundle:v1", **unverified}}
    for name, source in (("file", http(f"{servers.secured.address}/private.json", **unverified)), ("image", image)):
        deployed = apply(tenants, f"unverified-{name}", source)
        deployed.wait_for("Unpacked", "False", "InsecureRefused", saying="insecureSkipTLSVerify")
    assert not any(servers.secured.sent("Authorization")[seen:])
    assert not any("Authorization" in headers for _, _, headers in servers.registry.requests[asked:])


@pytest.mark.parametrize("kind", ["http", "git", "image"])
def test_denied_networks_are_not_even_knocked_at(tenants: Tenants, servers: Servers, kind: str) -> None:
    sources = {
        "http": http(f"http://{servers.denied_host}/a.json"),
        "git": {"kind": "git", "git": {"repository": f"http://{servers.denied_host}/a.git"}},
        "image": {"kind": "image", "image": {"ref": f"{servers.denied_host}/a:v1"}},
    }
    deployed = apply(tenants, f"denied-{kind}", sources[kind])
    deployed.wait_for("Unpacked", "False", "InsecureRefused", saying="--denied-networks")
    with pytest.raises(BlockingIOError):
        servers.denied.accept()


def test_git_is_redirected_to_no_denied_network(tenants: Tenants, servers: Servers) -> None:
    """Git would connect to wherever the server sends it: only the address that the spec names has been judged."""
    target = f"https://{servers.denied_host}/marked/repo.git/info/refs?service=git-upload-pack"
    servers.secured.add("/repo.git/info/refs", redirect=target)
    repository = {"repository": f"{servers.secured.address}/repo.git", "certificateData": servers.authority.pem}
    deployed = apply(tenants, "redirected-git", {"kind": "git", "git": repository})
    message = deployed.wait_for("Unpacked", "False", saying="redirects")["message"]
    assert "marked" not in message
    assert servers.denied_host not in message
    with pytest.raises(BlockingIOError):
        servers.denied.accept()


METADATA = ["https://169.254.169.254/latest", "https://[64:ff9b::a9fe:a9fe]/latest", "http://168.63.129.16/machine"]


@pytest.mark.parametrize("url", METADATA)
def test_no_cloud_tells_its_secrets(tenants: Tenants, url: str) -> None:
    deployed = apply(tenants, f"metadata-{METADATA.index(url)}", http(url))
    deployed.wait_for("Unpacked", "False", "InsecureRefused", saying="metadata")


def test_hosts_that_are_not_allowed_are_not_asked(tenants: Tenants, servers: Servers) -> None:
    before = len(servers.internal.requests)
    sources = {
        "http": http(f"{servers.internal.address}/a.json"),
        "git": {"kind": "git", "git": {"repository": f"{servers.internal.address}/a.git"}},
        "image": {"kind": "image", "image": {"ref": f"{servers.internal.host}/a:v1"}},
    }
    for kind, source in sources.items():
        deployed = apply(tenants, f"foreign-{kind}", source)
        deployed.wait_for("Unpacked", "False", "InsecureRefused", saying="--allowed-hosts")
    assert len(servers.internal.requests) == before


def test_dripping_servers_are_given_up(tenants: Tenants, servers: Servers) -> None:
    servers.plain.add("/drip.json", bytes(100_000), trickle=True)
    servers.registry.logins = {}
    servers.registry.add_document("v1", "application/json", bytes(100_000))
    servers.registry.faults = Faults(trickle="body", no_digest=True)
    pem = servers.authority.pem
    image = {"ref": f"{servers.registry.host}/bundle:v1", "certificateData": pem}
    dripping = [
        apply(tenants, "drips-file", http(f"{servers.plain.address}/drip.json")),
        apply(tenants, "drips-image", {"kind": "image", "image": image}),
    ]

    def are_given_up() -> bool:
        found = [each.conditions().get("Unpacked", {}) for each in dripping]
        return all("sends less than 16 KiB/s" in each.get("message", "") for each in found)

    tenants.world.wait(are_given_up, "both given up", DRIPPING_SECONDS)
