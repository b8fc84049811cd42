"""What is generated from the API is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_files_are_those_that_would_be_written() -> None:
    command = [sys.executable, str(ROOT / "hack/generate"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
