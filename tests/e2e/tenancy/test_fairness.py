"""The story of a tenant who takes all that there is, and of the neighbour who installs as if he were alone."""

from __future__ import annotations

import socket
import tarfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest

from tests.support.bundles import Deployed, Manifest
from tests.support.private_sources import secret_manifest
from tests.support.tenants import ANN, BEN, OWN, Tenants

pytestmark = pytest.mark.timeout(300)
BENS = {"installNamespace": "other", "serviceAccountName": "installer"}
DRIPPING = 24
HALF = 8
"""Of the fetch workers that there are by default."""
MISSING = 80
THREADS = 60
"""Those of 16 watches and of asking, besides those of pools that work on 200 BundleDeployments."""
SECONDS = 20.0
"""The neighbour's bundle takes about two on an idle machine; what drips would hold it up for ten minutes."""


SIZE = 100_000_000
HEADER = tarfile.TarInfo("data")
HEADER.size = SIZE


class Dripper:
    """A server whose answers do not end before --fetch-timeout, and are never so slow that they are given up."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._stopped = threading.Event()
        self.open = 0
        """Connections that are being dripped on."""
        self._lock = threading.Lock()
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._drip, args=(connection,), daemon=True).start()

    def _drip(self, connection: socket.socket) -> None:
        with connection, self._counted():
            try:
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {2 * SIZE}\r\n\r\n".encode())
                connection.sendall(HEADER.tobuf())
                while not self._stopped.wait(0.5):
                    connection.sendall(bytes(32768))
            except OSError:
                return

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self.open += 1
        try:
            yield
        finally:
            with self._lock:
                self.open -= 1

    def stop(self) -> None:
        self._stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # which wakes the thread that accepts
        self._listener.close()


@pytest.fixture
def dripper() -> Iterator[Dripper]:
    made = Dripper()
    yield made
    made.stop()


def apply_all(tenants: Tenants, specs: dict[str, Manifest]) -> list[Deployed]:
    """Apply BundleDeployments as ANN."""
    return [tenants.apply(ANN, name, "unused", **OWN, **spec) for name, spec in specs.items()]


def delete_all(tenants: Tenants, deployed: Collection[Deployed]) -> None:
    """Delete BundleDeployments as ANN: they are gone at once, also during the attack."""
    for each in deployed:
        tenants.delete(ANN, each.name)
    for each in deployed:
        each.wait_gone()


def dripping(dripper: Dripper, number: int) -> Manifest:
    url = f"http://127.0.0.1:{dripper.port}/{number}.tar"
    return {"sources": [{"kind": "http", "http": {"url": url}}]}


def behind_a_secret(number: int) -> Manifest:
    auth = {"secret": {"name": f"missing-{number}"}}
    return {"sources": [{"kind": "image", "image": {"ref": "localhost:1/a:v1", "auth": auth}}]}


def test_sources_that_never_end_hold_up_no_neighbour(tenants: Tenants, dripper: Dripper) -> None:
    attacking = apply_all(tenants, {f"drip-{number}": dripping(dripper, number) for number in range(DRIPPING)})
    tenants.world.wait(lambda: dripper.open >= HALF, "half of the fetch workers held")
    started = time.monotonic()
    deployed = tenants.apply(BEN, "bens", **BENS)
    deployed.wait_ready()
    assert time.monotonic() - started < SECONDS
    assert dripper.open <= HALF
    waiting = [waits(each) for each in attacking]
    assert sum(waiting) >= DRIPPING - HALF
    tenants.delete(BEN, "bens")
    deployed.wait_gone()
    delete_all(tenants, attacking)


def waits(deployed: Deployed) -> bool:
    """Wait until status says what is done for a BundleDeployment; return whether it waits for its turn."""
    return "queued for a fetch worker" in deployed.wait_for("Unpacked", "False", "Fetching")["message"]


def test_secrets_that_are_missing_cost_few_threads_and_each_is_noticed(tenants: Tenants) -> None:
    before = tenants.world.controller.threads()
    attacking = apply_all(tenants, {f"secret-{number}": behind_a_secret(number) for number in range(MISSING)})
    for each in attacking:
        each.wait_for("Unpacked", "False", "SecretNotFound")
    bens = tenants.apply(BEN, "bens", **BENS, sources=behind_a_secret(0)["sources"])
    bens.wait_for("Unpacked", "False", "SecretNotFound")
    assert tenants.world.controller.threads() < before + THREADS
    started = time.monotonic()
    for namespace, number in (("other", 0), ("tenant", 0), ("tenant", MISSING - 1)):
        login = {"username": "somebody", "password": "secret"}
        tenants.put(namespace, "secrets", secret_manifest(namespace, f"missing-{number}", login))
    bens.wait_for("Unpacked", "False", "Unreachable")
    assert time.monotonic() - started < SECONDS
    for number in (0, MISSING - 1):
        attacking[number].wait_for("Unpacked", "False", "Unreachable")
    tenants.delete(BEN, "bens")
    bens.wait_gone()
    delete_all(tenants, attacking)
