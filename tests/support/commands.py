"""The command `rukpak` as a separate process, as users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Rukpak = Callable[..., subprocess.CompletedProcess[str]]


def command(kubeconfig: Path) -> Rukpak:
    """Return a function that runs `rukpak` against a cluster and asserts its exit status unless `status` is None."""

    def run(*words: str, status: int | None = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        line = [sys.executable, "-m", "controller", *words]
        done = subprocess.run(
            line, env=variables, input=stdin, capture_output=True, text=True, timeout=90, check=False,
            start_new_session=True,  # without a terminal, or questions would wait for an answer
        )  # fmt: skip
        assert status is None or done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run
