"""Sweeping: what BundleDeployments leave behind whose finalizer somebody has taken off.

At the start of a leader, every ten hours, and soon after one was seen to be gone before its teardown was over.
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
"""How long to wait for others that go at the same time."""


class Sweeper:
    """Calls `sweep` again and again, on the thread that runs it.

    Args:
        sweep: raises ApiError.
        died: told of anything else that it raises.
        lull: seconds between being asked for and beginning.
        period: seconds between two sweeps that nobody asks for.
    """

    def __init__(
        self,
        sweep: Callable[[], None],
        died: Callable[[Exception], None],
        *,
        lull: float = LULL_SECONDS,
        period: float = PERIOD_SECONDS,
    ) -> None:
        self._sweep, self._died, self._lull, self._period = sweep, died, lull, period
        self._asked, self._stopped = threading.Event(), threading.Event()

    def ask(self) -> None:
        """Ask for a sweep soon; returns at once."""
        self._asked.set()

    def stop(self) -> None:
        """Begin no other sweep, and end `run`."""
        self._stopped.set()
        self._asked.set()

    def run(self) -> None:
        """Sweep until `stop`."""
        while True:
            self._asked.clear()
            if self._stopped.is_set():
                return
            seconds = self._period if self._try() else FAILED_SECONDS
            if self._asked.wait(seconds):
                self._stopped.wait(self._lull)

    def _try(self) -> bool:
        try:
            self._sweep()
        except ApiError as error:
            log.warning("revisions of removed BundleDeployments stay for now", extra={"reply": str(error)})
            return False
        except Exception as error:  # noqa: BLE001 - it must not be the last one
            self._died(error)
            return False
        return True
