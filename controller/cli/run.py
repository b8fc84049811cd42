"""`rukpak run`: the controller in this process, until it is told to stop."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import threading

from rukpak.controller.content.store import StoreInUseError
from rukpak.controller.kube.errors import ConfigurationError
from rukpak.controller.manager.assemble import assemble
from rukpak.controller.manager.process import return_freed_memory, set_up_log
from rukpak.controller.manager.serving import ListenError
from rukpak.controller.settings import settings_of
from rukpak.controller.views import FailedError, MisuseError


def main(options: argparse.Namespace) -> int:
    """Run the controller; return an exit status only if it cannot start. SIGTERM and SIGINT end the process with 0.

    Raises: MisuseError if options contradict each other.
    """
    gc.unfreeze()  # this process lives long: garbage of its imports is collected once
    return_freed_memory()
    settings = settings_of(options)
    if problem := settings.problem():
        raise MisuseError(problem)
    set_up_log(settings.log_format, settings.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        manager = assemble(settings)
    except (ConfigurationError, StoreInUseError, ListenError) as error:
        raise FailedError(str(error)) from None
    except OSError as error:
        where = f'--store "{settings.store_folders()[0]}": {error.strerror}'
        raise FailedError(f"{where}; choose a directory that can be created and written to") from None
    threading.excepthook = manager.supervisor.hook
    manager.run(stop)
    logging.shutdown()
    # Do not return: the interpreter would wait for all threads, and a source may block one for minutes.
    os._exit(0)
