"""The identity of this process in leader election: that of its predecessor, if the predecessor is certainly gone.

Only one process at a time holds the lock of a content store. An identity derived from the lock is therefore unique
among living processes, and a killed controller that restarts with the same store continues immediately instead of
waiting for its own Lease to expire. The boot ID is included, since other machines may have the same host name.
"""

from __future__ import annotations

import hashlib
import socket
import uuid
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def make_identity(lock: Path | None) -> str:
    """Return an identity that no other living process has, derived from a file that this process has locked, if any."""
    host = socket.gethostname()
    try:
        found = lock.stat() if lock else None
        boot = BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        found, boot = None, ""
    if found is None:
        return f"{host}_{uuid.uuid4()}"
    digest = hashlib.sha256(f"{boot} {found.st_dev} {found.st_ino}".encode()).hexdigest()
    return f"{host}_{digest[:32]}"
