from __future__ import annotations

import queue
import time
from collections.abc import Iterator

import pytest

from controller.observe.secrets import SecretWatches, WatchedSecret
from tests.support.fake_api import FakeApi

SECRETS = "/api/v1/namespaces/ns/secrets"
SECRET = WatchedSecret("ns", "login")
SECONDS = 10.0


class Room:
    """An API server with one namespace, and who was told of a change."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.told: queue.Queue[str] = queue.Queue()
        self.watches = SecretWatches(api.client(), self.told.put)

    def put(self, name: str, value: str) -> str:
        """Write a Secret; return its version."""
        self.api.put(SECRETS, name, namespace="ns", data={"x": value})
        return str(self.api.collections[SECRETS].objects[name]["metadata"]["resourceVersion"])

    def wait_watched(self, count: int) -> None:
        deadline = time.monotonic() + SECONDS
        while self.api.watches() != count:
            assert time.monotonic() < deadline, f"{self.api.watches()} watches"
            time.sleep(0.005)

    def wait_told(self) -> str:
        return self.told.get(timeout=SECONDS)


@pytest.fixture
def room() -> Iterator[Room]:
    with FakeApi(SECRETS) as api:
        made = Room(api)
        yield made
        made.watches.watch("shop", {})
