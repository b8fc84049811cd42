"""`hack/demo --node`: the demonstration with pods that run, and a release that crashes and is rolled back."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hack.control_plane.nodes import install_needs
from rukpak.controller.playground.binaries import MissingError
from rukpak.controller.playground.programs import Settings

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.thorough, pytest.mark.long, pytest.mark.timeout(600)]


def test_it_shows_a_release_that_crashes_and_is_rolled_back(settings: Settings) -> None:
    try:
        install_needs(settings.cache)
    except MissingError as error:
        pytest.skip(str(error))
    done = subprocess.run([ROOT / "hack/demo", "--node"], capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    row = r"^[0-9a-f]{12} +kept +RolledBack .* Deployment demo/web: CrashLoopBackOff"
    assert re.search(row, done.stdout, re.MULTILINE), done.stdout
    assert "== Cleaned up: cluster, registry and controller are gone" in done.stdout
