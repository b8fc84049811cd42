"""Checks of this machine, where `rukpak run` and `rukpak render` start git and helm; the image has its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from api.errors import BundleError
from api.plugins import Means
from controller.cli.installation.findings import Finding, ok, warning
from controller.formats.helm.program import ProgramFinder
from controller.processes.confinement import Mechanisms

SECONDS = 10.0
_HERE = "only for rukpak run and rukpak render on this machine"


def run(helm: str) -> Iterator[Finding]:
    """Yield what was found; `helm` is the option --helm."""
    yield _check_helm(helm)
    yield _check_git()
    lack = Mechanisms.found().lack()
    if lack:
        yield warning("confinement", f"{lack}; use another kernel, or --confinement=best-effort ({_HERE})")
    else:
        yield ok("confinement", ", ".join(Mechanisms.found().described().values()))


def _check_helm(named: str) -> Finding:
    with tempfile.TemporaryDirectory(prefix="rukpak-") as scratch:
        programs = {"helm": named} if named else {}
        means = Means(programs=programs, confinement_required=False, scratch=Path(scratch))
        try:
            program = ProgramFinder().find(means)
        except BundleError as error:
            return warning("helm", f"{error.message.partition(': ')[2]} ({_HERE})")
    return ok("helm", f"{program.version} ({program.path})")


def _check_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        return warning("git", f"no git on PATH; install it ({_HERE})")
    return ok("git", f"{_version_of_git(path).removeprefix('git version ')} ({path})")


def _version_of_git(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown version"
    return (done.stdout.splitlines() or ["unknown version"])[0]
