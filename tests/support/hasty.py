"""A controller that gives up on a silent watch after seconds instead of minutes, and is otherwise unchanged.

Run as `PROGRAM`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from rukpak.controller.cli import main
from rukpak.controller.kube.watch import Pace, Reflector

ROOT = Path(__file__).parents[2]
PROGRAM = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.support.hasty")
QUIET_SECONDS = 4.0

if __name__ == "__main__":
    cast("Any", Pace.__init__).__kwdefaults__["quiet"] = QUIET_SECONDS
    defaults: dict[str, Any] = cast("Any", Reflector.__init__).__kwdefaults__
    defaults["pace"] = Pace()
    sys.exit(main(sys.argv[1:]))
