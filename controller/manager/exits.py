"""Exit immediately, since threads cannot be stopped, when the Lease is lost or a thread keeps dying.

The bundles being prepared did not cause the exit, so their marks in the quarantine are removed first, unless the disk
does not respond: nothing may keep a process alive that must not act.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from controller.revisions.quarantine import Quarantine

LOST = 1
"""Exit status of a leader that lost its Lease."""
DIED = 3
"""Exit status of a process with a thread that dies repeatedly, or must not die."""
LAST_SECONDS = 1.0


def exit_after_loss(quarantine: Quarantine) -> None:
    """Exit because another process leads from now on."""
    _exit(quarantine.end, LOST)


def exit_after_deaths(quarantine: Quarantine, _why: str) -> None:
    """Exit because of a thread that keeps dying; the log ends with the reason."""
    _exit(quarantine.end, DIED)


def _exit(tidy: Callable[[], None], status: int) -> None:
    def _finish() -> None:
        tidy()
        logging.shutdown()

    try:
        last = threading.Thread(target=_finish, name="exit", daemon=True)
        last.start()
        last.join(LAST_SECONDS)
    finally:
        os._exit(status)
