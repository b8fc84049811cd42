"""A network that fails between the controller and a server of sources, whatever protocol they speak."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import closing, suppress
from typing import Self

PIECE = 64 * 1024
MOST_BYTES = 4096
SLOW_SECONDS = 2.0


class FailingNetwork:
    """A TCP proxy on a free loopback port between `with` and its end.

    While it fails, a connection is refused, is cut after some bytes, or is slow, each with the same probability as
    that nothing happens to it.

    Args:
        host: `address:port` that is connected to.
        seed: of what happens to a connection.
    """

    def __init__(self, host: str, seed: int) -> None:
        address, _, port = host.rpartition(":")
        self._upstream = (address, int(port))
        self._dice = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._is_failing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def fail(self, *, failing: bool) -> None:
        """Let connections that are opened from now on fail, or none of them."""
        (self._is_failing.set if failing else self._is_failing.clear)()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection, self._roll()), daemon=True).start()

    def _roll(self) -> str:
        return self._dice.choice(("refuse", "cut", "slow", "relay")) if self._is_failing.is_set() else "relay"

    def _serve(self, connection: socket.socket, fate: str) -> None:
        with closing(connection), suppress(OSError):
            if fate == "refuse":
                return
            if fate == "slow":
                threading.Event().wait(SLOW_SECONDS)
            with closing(socket.create_connection(self._upstream)) as upstream:
                threading.Thread(target=_copy, args=(connection, upstream, None), daemon=True).start()
                _copy(upstream, connection, random.Random().randrange(MOST_BYTES) if fate == "cut" else None)  # noqa: S311


def _copy(source: socket.socket, target: socket.socket, most: int | None) -> None:
    """Copy until one side hangs up, or until that many bytes."""
    with suppress(OSError):
        while data := source.recv(PIECE):
            target.sendall(data[:most])
            if most is not None:
                most -= min(most, len(data))
                if not most:
                    break
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
