"""A controller with a bug in each pass, or in each rendering, while its store has a file `bug` that says where.

Run as `PROGRAM`; otherwise it is unchanged.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from rukpak.controller.building.builder import _Renderings
from rukpak.controller.cli import main
from rukpak.controller.reconcile import reconciler

ROOT = Path(__file__).parents[2]
PROGRAM = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.support.buggy")
PASS, RENDERING = "pass", "rendering"


def break_method(owner: type | ModuleType, name: str, place: str) -> None:
    """Make a method or function fail while the file names its place."""
    intact = getattr(owner, name)
    switch = Path(os.environ["RUKPAK_STORE"]) / "bug"

    def method(*positional: Any, **named: Any) -> Any:
        if switch.exists() and switch.read_text() == place:
            raise ZeroDivisionError("of a secret")
        return intact(*positional, **named)

    setattr(owner, name, method)


if __name__ == "__main__":
    break_method(reconciler, "make_work", PASS)
    break_method(reconciler, "plan_repair", PASS)
    break_method(_Renderings, "_render", RENDERING)
    sys.exit(main(sys.argv[1:]))
