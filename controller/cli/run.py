"""`rukpak run`: the controller itself."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from controller.cli.command import FAILED
from controller.content.store import StoreInUseError
from controller.kube.errors import ConfigurationError
from controller.manager import log
from controller.manager.allocator import return_freed_memory
from controller.manager.manager import make_manager
from controller.manager.serving.server import ListenError
from controller.options import parse_options


def main(arguments: Sequence[str]) -> int:
    """Run the controller; return an exit status only if it cannot start. SIGTERM and SIGINT end the process with 0."""
    return_freed_memory()
    options = parse_options(arguments, os.environ)
    log.set_up(options.log_format, options.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        manager = make_manager(options)
    except (ConfigurationError, StoreInUseError, ListenError) as error:
        print(f"rukpak run: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        where = f'--store "{options.store_folder()}": {error.strerror}'
        print(f"rukpak run: {where}; choose a directory that can be created and written to", file=sys.stderr)
        return FAILED
    threading.excepthook = manager.supervisor.hook
    manager.run(stop)
    logging.shutdown()
    # Do not return: the interpreter would wait for all threads, and a source may block one for minutes.
    os._exit(0)
