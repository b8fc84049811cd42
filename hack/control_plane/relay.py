"""Make ports inside a network namespace reachable at 127.0.0.1 outside, without an interface or a route there.

    relay.py NAMESPACE PORT…

NAMESPACE is a file such as /proc/PID/ns/net. A socket belongs to the namespace in which it was made: those that listen
are made before the process changes its own, those that connect are made afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial

HOST = "127.0.0.1"
CLONE_NEWNET = 0x40000000
PIECE = 1 << 16


def main(namespace: str, ports: Sequence[int]) -> None:
    listening = {port: socket.create_server((HOST, port), backlog=1024) for port in ports}
    enter(namespace)
    asyncio.run(_serve(listening))


def enter(namespace: str) -> None:
    """Change the network namespace of this process. Raises: OSError."""
    file = os.open(namespace, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns is new in Python 3.12
    if libc.setns(file, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"{namespace} cannot be entered")
    os.close(file)


async def _serve(listening: dict[int, socket.socket]) -> None:
    servers = [await asyncio.start_server(partial(_relay, port), sock=each) for port, each in listening.items()]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def _relay(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        there_reader, there_writer = await asyncio.open_connection(HOST, port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_pass(reader, there_writer), _pass(there_reader, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


if __name__ == "__main__":
    main(sys.argv[1], [int(port) for port in sys.argv[2:]])
