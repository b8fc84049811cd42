"""Sweeping: delete what BundleDeployments leave behind when their finalizer was removed by hand.

Runs when a process starts to lead, every ten hours, and shortly after a BundleDeployment vanished during its teardown.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from controller.kube.client import ApiError

log = logging.getLogger(__name__)

PERIOD_SECONDS = 36_000.0
FAILED_SECONDS = 300.0
LULL_SECONDS = 5.0
"""Delay before a requested sweep, so that deletions at the same time share it."""


class Sweeper:
    """Calls `sweep` repeatedly, on the thread that calls `run`; `died` gets its exceptions other than ApiError."""

    def __init__(
        self,
        sweep: Callable[[], None],
        died: Callable[[Exception], None],
        *,
        lull: float = LULL_SECONDS,
        period: float = PERIOD_SECONDS,
    ) -> None:
        self._sweep, self._died, self._lull, self._period = sweep, died, lull, period
        self._requested, self._stopped = threading.Event(), threading.Event()

    def request(self) -> None:
        """Request a sweep; returns immediately."""
        self._requested.set()

    def stop(self) -> None:
        """Start no other sweep, and let `run` return."""
        self._stopped.set()
        self._requested.set()

    def run(self) -> None:
        """Sweep until `stop`."""
        while True:
            self._requested.clear()
            if self._stopped.is_set():
                return
            seconds = self._period if self._try() else FAILED_SECONDS
            if self._requested.wait(seconds):
                self._stopped.wait(self._lull)

    def _try(self) -> bool:
        try:
            self._sweep()
        except ApiError as error:
            log.warning("failed to delete revisions of removed BundleDeployments", extra={"reply": str(error)})
            return False
        except Exception as error:  # noqa: BLE001 - the next sweep must run
            self._died(error)
            return False
        return True
