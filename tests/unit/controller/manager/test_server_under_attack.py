"""Whoever can reach the ports of probes and metrics tries to shut out the kubelet, and Prometheus."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
import trustme

from rukpak.controller.certificates import Certificate
from rukpak.controller.manager import serving as connection_module
from rukpak.controller.manager import serving as module
from rukpak.controller.manager.serving import (
    HEAD_BYTES,
    METRICS,
    PROBES,
    Address,
    ConnectionLimits,
    Protection,
    Reply,
    Server,
)
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.processes.supervision import Kind, Supervisor

PROBE_SECONDS = 5.0
"""A kubelet waits no longer (config/manager)."""
KUBELET = "127.0.0.1"
LARGE = b"x" * (32 << 20)
"""More than sockets take of themselves."""
ROUTES = {
    "/healthz": lambda: Reply(HTTPStatus.OK, b"ok\n"),
    "/large": lambda: Reply(HTTPStatus.OK, LARGE),
}


class Attack:
    """A server, and sockets to it from any loopback address, all of which end with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.died: list[Kind] = []

    def serve(self, context: Callable[[], ssl.SSLContext] | None = None, limits: ConnectionLimits = PROBES) -> Server:
        supervisor = Supervisor(self.died.append, sleep=lambda _: None)
        made = Server(
            Address("--probe-address", "127.0.0.1", 0),
            ROUTES,
            Protection(context=context, limits=limits),
            supervisor,
        )
        made.start()
        self.stack.callback(made.stop)
        return made

    def connect(self, server: Server, address: str = "127.0.0.66") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", server.port), PROBE_SECONDS, source_address=(address, 0))
        return self.stack.enter_context(made)


@pytest.fixture
def attack() -> Iterator[Attack]:
    with ExitStack() as stack:
        yield Attack(stack)


def probe(server: Server, address: str = KUBELET) -> float:
    """Probe as a kubelet does; return the seconds that it took."""
    started = time.monotonic()
    connection = http.client.HTTPConnection(
        "127.0.0.1", server.port, timeout=PROBE_SECONDS, source_address=(address, 0)
    )
    with ExitStack() as stack:
        stack.callback(connection.close)
        connection.request("GET", "/healthz")
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, b"ok\n")
    return time.monotonic() - started


def is_over(connection: socket.socket) -> bool:
    """Return whether the server has ended a connection."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1 << 16) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def count_heard(server: Server) -> int:
    """Return how many connections have said what they want."""
    return len(server._limiter._peers) - len(server._limiter._silent)


def test_two_hundred_silent_connections_of_one_peer(attack: Attack) -> None:
    server = attack.serve()
    for number in range(200):
        attack.connect(server)
        if number % 20 == 0:
            assert probe(server) < PROBE_SECONDS
    assert probe(server) < PROBE_SECONDS
    assert len(server._limiter._peers) <= PROBES.per_peer + 1


def test_two_hundred_silent_connections_of_forty_peers(attack: Attack) -> None:
    server = attack.serve()
    for number in range(200):
        attack.connect(server, f"127.0.1.{number % 40 + 1}")
        if number % 20 == 0:
            assert probe(server) < PROBE_SECONDS
    assert probe(server) < PROBE_SECONDS
    assert len(server._limiter._peers) <= PROBES.total


def test_who_has_the_address_of_the_kubelet(attack: Attack) -> None:
    """A pod in the network of the node, or one whose packets are masqueraded."""
    server = attack.serve()
    for _ in range(200):
        attack.connect(server, KUBELET)
    assert all(probe(server) < PROBE_SECONDS for _ in range(20))


def test_headers_that_come_byte_by_byte(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 1.0)
    server = attack.serve()
    slow = [attack.connect(server, f"127.0.1.{number + 1}") for number in range(50)]
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.05):
            for connection in slow:
                with suppress(OSError):
                    connection.send(b"X")

    for connection in slow:
        connection.send(b"GET /healthz HTTP/1.1\r\nX: ")
    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert all(probe(server) < PROBE_SECONDS for _ in range(10))
        wait_for(lambda: len(server._limiter._peers) == 0, 60, "all slow requests are over")
    finally:
        stop.set()
        dripping.join()


def test_heads_without_end(attack: Attack) -> None:
    server = attack.serve()
    endless = attack.connect(server)
    with suppress(OSError):
        endless.send(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(HEAD_BYTES // 1000 + 1):
            endless.send(b"X: " + b"x" * 995 + b"\r\n")
    wait_for(lambda: is_over(endless), 60, "it is cut")
    assert probe(server) < PROBE_SECONDS


def test_who_never_reads_the_answer(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 1.0)
    server = attack.serve(limits=METRICS)
    for number in range(METRICS.total - 1):
        attack.connect(server, f"127.0.1.{number + 1}").send(b"GET /large HTTP/1.1\r\n\r\n")
    assert probe(server) < PROBE_SECONDS
    wait_for(lambda: len(server._limiter._peers) == 0, 60, "all are over")


def test_who_reads_the_answer_byte_by_byte(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 1.0)
    server = attack.serve()
    reader = attack.connect(server)
    reader.send(b"GET /large HTTP/1.1\r\n\r\n")
    wait_for(lambda: reader.recv(1) and len(server._limiter._peers) == 0, 60, "it is over")


def test_handshakes_that_do_not_go_on(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 2.0)
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    files = (tmp_path / "tls.crt", tmp_path / "tls.key")
    issued.cert_chain_pems[0].write_to_path(files[0])
    issued.private_key_pem.write_to_path(files[1])
    server = attack.serve(Certificate(files).context, METRICS)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    for number in range(100):
        attack.connect(server, f"127.0.1.{number % 20 + 1}").send(b"\x16\x03\x01\x02\x00\x01")
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=PROBE_SECONDS, context=trust)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    connection.close()
    wait_for(lambda: len(server._limiter._peers) == 0, 60, "all are over")


def test_metrics_that_are_full_leave_the_probes_alone(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 120.0)
    metrics, probes = attack.serve(limits=METRICS), attack.serve()
    for number in range(METRICS.total):
        attack.connect(metrics, f"127.0.1.{number + 1}").send(b"GET /large HTTP/1.1\r\n\r\n")
    # One whose request has not been read yet would make room for the probe.
    wait_for(lambda: count_heard(metrics) == METRICS.total, 60, "the requests of all places have been read")
    with pytest.raises((OSError, http.client.HTTPException)):
        probe(metrics)
    assert probe(probes) < PROBE_SECONDS


def test_without_a_thread_or_a_descriptor_it_goes_on_later(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    server = attack.serve()
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no thread")))
    with pytest.raises((OSError, http.client.HTTPException)):
        probe(server)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert probe(server) < PROBE_SECONDS
    assert attack.died == []


def test_a_bug_in_one_connection_ends_no_other(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    server = attack.serve()
    with monkeypatch.context() as patch:
        patch.setattr(module, "_Handler", lambda *_: 1 / 0)
        with pytest.raises((OSError, http.client.HTTPException)):
            probe(server)
        wait_for(lambda: attack.died == [Kind.SERVER], 60, "it is counted")
    assert probe(server) < PROBE_SECONDS


def test_who_goes_away_is_not_worth_a_line(attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    server = attack.serve()
    for said in (
        b"",
        b"GET",
        b"GET /large HTTP/1.1\r\n\r\n",
        b"\x00\xff\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nA\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.send(said)
    wait_for(lambda: len(server._limiter._peers) == 0, 60, "all are gone")
    assert (attack.died, [entry for entry in caplog.records if entry.levelname != "INFO"]) == ([], [])
