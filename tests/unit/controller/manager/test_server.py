from __future__ import annotations

import http.client
import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from rukpak.controller.certificates import Certificate
from rukpak.controller.manager.serving import (
    METRICS,
    PROBES,
    Address,
    ConnectionLimits,
    ListenError,
    Protection,
    Reply,
    Route,
    Server,
)
from rukpak.controller.processes.supervision import Supervisor


def fail() -> Reply:
    raise ValueError("a bug")


ROUTES = {"/metrics": lambda: Reply(HTTPStatus.OK, b"up 1\n"), "/broken": fail}


def review(token: str, path: str, peer: str) -> HTTPStatus:
    assert ip_address(peer).is_loopback
    if not token:
        return HTTPStatus.UNAUTHORIZED
    return HTTPStatus.OK if token == f"may get {path}" else HTTPStatus.FORBIDDEN


@contextmanager
def serving(
    certificate: Certificate | None = None,
    *,
    is_reviewed: bool = False,
    limits: ConnectionLimits = METRICS,
    routes: Mapping[str, Route] = ROUTES,
) -> Iterator[Server]:
    server = Server(
        Address("--metrics-address", "127.0.0.1", 0),
        routes,
        Protection(
            context=certificate.context if certificate else None,
            review=review if is_reviewed else None,
            limits=limits,
        ),
        Supervisor(),
    )
    server.start()
    yield server
    server.stop()


def get(server: Server, path: str, *, method: str = "GET", trust: ssl.SSLContext | None = None, **headers: str) -> str:
    connection = (
        http.client.HTTPSConnection("localhost", server.port, timeout=60, context=trust)
        if trust
        else http.client.HTTPConnection("localhost", server.port, timeout=60)
    )
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return f"{reply.status} {reply.read().decode()}".strip()
    finally:
        connection.close()


class Case(NamedTuple):
    name: str
    path: str
    expect: str
    method: str = "GET"


CASES = [
    Case("what there is", "/metrics", "200 up 1"),
    Case("a query changes nothing", "/metrics?a=b", "200 up 1"),
    Case("its head alone", "/metrics", "200", "HEAD"),
    Case("what there is not", "/", "404 Not Found"),
    Case("a bug is not shown", "/broken", "500 internal error, see the log of the controller"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_answered(case: Case) -> None:
    with serving() as server:
        assert get(server, case.path, method=case.method) == case.expect


class Asked(NamedTuple):
    name: str
    authorization: str
    expect: str


ASKED = [
    Asked("nobody", "", "401 Unauthorized"),
    Asked("somebody who may", "Bearer may get /metrics", "200 up 1"),
    Asked("somebody who may not", "Bearer other", "403 Forbidden"),
    Asked("somebody with a password", "Basic bWU6c2VjcmV0", "401 Unauthorized"),
]


@pytest.mark.parametrize("case", ASKED, ids=attrgetter("name"))
def test_who_is_answered(case: Asked) -> None:
    with serving(is_reviewed=True) as server:
        assert get(server, "/metrics", Authorization=case.authorization) == case.expect


def test_nobody_learns_which_paths_there_are() -> None:
    with serving(is_reviewed=True) as server:
        assert get(server, "/nothing") == get(server, "/metrics") == "401 Unauthorized"


def test_a_port_in_use_is_named() -> None:
    with (
        serving() as server,
        pytest.raises(ListenError, match=rf"--probe-address 127.0.0.1:{server.port}: the port is in use; choose"),
    ):
        Server(Address("--probe-address", "127.0.0.1", server.port), ROUTES, Protection(limits=PROBES), Supervisor())


def test_an_address_of_somebody_else_is_named() -> None:
    with pytest.raises(ListenError, match=r"--probe-address 192\.0\.2\.1:0: Cannot assign"):
        Server(Address("--probe-address", "192.0.2.1", 0), ROUTES, Protection(limits=PROBES), Supervisor())


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")])
def test_an_address_of_either_family_is_listened_to_and_told(
    host: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        pytest.skip(f"this machine has no {host}: {error}")
    server = Server(Address("--probe-address", host, 0), ROUTES, Protection(limits=PROBES), Supervisor())
    server.start()
    try:
        socket.create_connection((host, server.port), timeout=60).close()
        assert vars(caplog.records[0])["address"] == f"{shown}{server.port}"
    finally:
        server.stop()


def test_every_address_is_every_address() -> None:
    server = Server(Address("--metrics-address", "", 0), ROUTES, Protection(limits=METRICS), Supervisor())
    server.start()
    assert get(server, "/metrics") == "200 up 1"
    server.stop()


# https


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def issue(authority: trustme.CA, folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    issued, files = authority.issue_cert(name), (folder / "tls.crt", folder / "tls.key")
    issued.cert_chain_pems[0].write_to_path(files[0])
    issued.private_key_pem.write_to_path(files[1])
    return files


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_a_given_certificate_is_shown(authority: trustme.CA, tmp_path: Path) -> None:
    with serving(Certificate(issue(authority, tmp_path))) as server:
        assert get(server, "/metrics", trust=trusting(authority)) == "200 up 1"


def test_a_renewed_certificate_is_shown_without_a_restart(authority: trustme.CA, tmp_path: Path) -> None:
    with serving(Certificate(issue(authority, tmp_path, "other"))) as server:
        with pytest.raises(ssl.SSLError):
            get(server, "/metrics", trust=trusting(authority))
        issue(authority, tmp_path)
        assert get(server, "/metrics", trust=trusting(authority)) == "200 up 1"


def test_half_of_a_new_pair_leaves_the_old_one_in_use(authority: trustme.CA, tmp_path: Path) -> None:
    certificate = Certificate(issue(authority, tmp_path))
    before = certificate.context()
    (tmp_path / "tls.key").write_text("")
    assert certificate.context() is before


def test_files_that_are_no_certificate_are_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Certificate((tmp_path / "tls.crt", tmp_path / "tls.key"))


def test_without_files_one_is_made() -> None:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    with serving(Certificate(None)) as server:
        assert get(server, "/metrics", trust=trust) == "200 up 1"


def test_who_connects_and_says_nothing_holds_nobody_up(authority: trustme.CA, tmp_path: Path) -> None:
    with (
        serving(Certificate(issue(authority, tmp_path))) as server,
        socket.create_connection(("localhost", server.port)),
    ):
        assert get(server, "/metrics", trust=trusting(authority)) == "200 up 1"
