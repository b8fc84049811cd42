"""How the process ends without being asked to: its threads cannot be stopped, so it goes at once.

A bundle that is being prepared at that moment is not to blame for it, so its mark in the quarantine is removed first.
"""

from __future__ import annotations

import logging
import os

from controller.revisions.quarantine import Quarantine

LOST = 1
"""Exit status of a leader that lost its Lease."""
DIED = 3
"""Exit status of a process one of whose threads dies again and again."""


def exit_after_loss(quarantine: Quarantine) -> None:
    """End the process: another one acts from now on."""
    quarantine.end()
    os._exit(LOST)


def exit_after_deaths(quarantine: Quarantine, _why: str) -> None:
    """End the process; the reason stays the last thing in its log."""
    quarantine.end()
    logging.shutdown()
    os._exit(DIED)
