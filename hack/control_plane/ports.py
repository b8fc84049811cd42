"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket

# Below Linux' range for outgoing connections (ip_local_port_range): our port must still be free when the
# program that listens on it is restarted.
FIRST, LAST = 10_000, 32_000


def free_ports(count: int) -> list[int]:
    """Return free ports, chosen at random because other processes look for some at the same time.

    Raises: RuntimeError if there are none.
    """
    candidates = random.sample(range(FIRST, LAST), 50 * count)
    found = [port for port in candidates if _is_free(port)]
    if len(found) < count:
        raise OSError("no free ports on 127.0.0.1")
    return found[:count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
