"""Pass connections between a network namespace and the one outside, without an interface or a route there.

    relay.py RECORD out PORT…
    relay.py RECORD in ADDRESS PORT…

RECORD is the file with the id of a process in the namespace. `out` listens at 127.0.0.1 outside for what listens at
127.0.0.1 inside, and `in` at ADDRESS inside for what listens at 127.0.0.1 outside, each on the same port. A socket
belongs to the namespace in which it was made: so the process listens in one, and then connects in the other.
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
from pathlib import Path

HOST = "127.0.0.1"
CLONE_NEWNET = 0x40000000
PIECE = 1 << 16


def main(record: str, arguments: Sequence[str]) -> None:
    process = Path(record).read_text(encoding="ascii").split()[0]
    outside, inside = (os.open(f"/proc/{each}/ns/net", os.O_RDONLY) for each in ("self", process))
    match arguments:
        case ["out", *ports]:
            listening = [_listen(HOST, port) for port in ports]
            enter(inside)
        case ["in", address, *ports]:
            enter(inside)
            listening = [_listen(address, port) for port in ports]
            enter(outside)
        case _:
            raise SystemExit("usage: relay.py RECORD out PORT…, or relay.py RECORD in ADDRESS PORT…")
    asyncio.run(_serve(listening))


def enter(namespace: int) -> None:
    """Change the network namespace of this process. Raises: OSError."""
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns is new in Python 3.12
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")


def _listen(address: str, port: str) -> socket.socket:
    return socket.create_server((address, int(port)), backlog=1024)


async def _serve(listening: Sequence[socket.socket]) -> None:
    servers = [await asyncio.start_server(partial(_relay, each.getsockname()[1]), sock=each) for each in listening]
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
    main(sys.argv[1], sys.argv[2:])
