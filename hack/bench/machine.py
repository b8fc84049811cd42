"""The machine that figures are from, for the titles of tables."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

from hack.control_plane.settings import read_settings


def describe_machine() -> dict[str, str]:
    """Return processors, versions and date."""
    return {
        "processors": f"{len(os.sched_getaffinity(0))} processors, {platform.machine()}",
        "python": f"Python {platform.python_version()}",
        "kubernetes": f"Kubernetes {read_settings().kubernetes_version}",
        "date": datetime.now(UTC).date().isoformat(),
    }
