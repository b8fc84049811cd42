"""The real Helm of the development environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.bundles import ROOT

CHART = ROOT / "config/chart"
HELM = Path(sys.executable).with_name("helm")


def helm(*arguments: str, kubeconfig: Path | None = None, status: int = 0) -> str:
    """Run helm and return its output; of a failure, which is expected with a status above 0, its error."""
    variables = os.environ | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})
    done = subprocess.run([HELM, *arguments], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout
