"""Who this process is in the election of a leader: the same as the one before it, once that is surely gone.

Whoever has the content store's lock is the only process that uses this folder. So an identity that is made from the
lock belongs to one living process at a time, and a controller that was killed and starts again there goes on at once
instead of waiting for the end of its own Lease. The boot is part of it, as another machine may have the same names.
"""

from __future__ import annotations

import hashlib
import socket
import uuid
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def make_identity(lock: Path | None) -> str:
    """Return an identity that no other living process has.

    Args:
        lock: a file that this process holds a lock on; None: it holds none, and nobody has been this process before.
    """
    host = socket.gethostname()
    try:
        seen = lock.stat() if lock else None
        boot = BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        seen, boot = None, ""
    if seen is None:
        return f"{host}_{uuid.uuid4()}"
    place = hashlib.sha256(f"{boot} {seen.st_dev} {seen.st_ino}".encode()).hexdigest()
    return f"{host}_{place[:32]}"
