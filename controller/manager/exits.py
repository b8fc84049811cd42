"""Exit immediately, since threads cannot be stopped, when the Lease is lost or a thread keeps dying.

The bundles being prepared did not cause the exit, so their marks in the quarantine are removed first.
"""

from __future__ import annotations

import logging
import os

from controller.revisions.quarantine import Quarantine

LOST = 1
"""Exit status of a leader that lost its Lease."""
DIED = 3
"""Exit status of a process with a thread that dies repeatedly."""


def exit_after_loss(quarantine: Quarantine) -> None:
    """Exit because another process leads from now on."""
    quarantine.end()
    os._exit(LOST)


def exit_after_deaths(quarantine: Quarantine, _why: str) -> None:
    """Exit because of a thread that keeps dying; the log ends with the reason."""
    quarantine.end()
    logging.shutdown()
    os._exit(DIED)
