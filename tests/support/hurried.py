"""A controller with shorter timers than it has for users, which need not be waited for; otherwise it is unchanged.

Run as `hurry({"rukpak.controller.apply.order:BLOCKED_AFTER_SECONDS": 8.0})`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]


def hurry(timers: Mapping[str, float]) -> tuple[str, ...]:
    """Return the command of a controller with these constants, in seconds by `module:NAME`."""
    chosen = (f"{name}={seconds}" for name, seconds in timers.items())
    return ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.support.hurried", *chosen)


if __name__ == "__main__":
    beginning = sys.argv.index("run")
    for argument in sys.argv[1:beginning]:
        place, _, value = argument.partition("=")
        module, _, constant = place.partition(":")
        owner = import_module(module)
        assert isinstance(getattr(owner, constant), float), place
        setattr(owner, constant, float(value))  # before whatever takes it from there is imported

    from rukpak.controller.cli import main

    sys.exit(main(sys.argv[beginning:]))
