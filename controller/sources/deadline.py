"""How long a call of a source may go on: until its deadline, and while somebody waits for the result.

Not here: giving up a read that blocks (transport.py), and ending a git child (sources/git/process.py).
"""

from __future__ import annotations

import time

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason


def check_deadline(access: Access) -> None:
    """Raise BundleError (Unreachable) once the deadline of a call has passed, or nobody waits any more."""
    if access.cancelled.is_set():
        raise BundleError(Reason.UNREACHABLE, f"{access.path}: stopped: the result is not needed any more")
    if time.monotonic() >= access.deadline:
        message = f"{access.path}: not finished within the time allowed; it is tried again by itself"
        raise BundleError(Reason.UNREACHABLE, message)
