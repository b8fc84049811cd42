"""`rukpak completion`, `rukpak __complete`, and the program `kubectl_complete-rukpak`, which kubectl runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise

from controller.cli.command import connect
from controller.cli.completion.candidates import complete
from controller.cli.completion.scripts import SCRIPTS


def main(options: argparse.Namespace) -> int:
    """Print the script of a shell; return the exit status."""
    print(SCRIPTS[options.shell], end="")
    return 0


def answer(words: Sequence[str] | None = None) -> int:
    """Print what the last word may become; return the exit status."""
    line = list(sys.argv[1:] if words is None else words)
    for each in complete(line, lambda: _find_names(line)).lines():
        print(each)
    return 0


def _find_names(line: Sequence[str]) -> Iterable[str]:
    """Return the names of all BundleDeployments; none if the cluster does not answer: a shell shows no errors."""
    from controller.cli.deployments.access import Deployments  # noqa: PLC0415 - slow, and rarely needed
    from controller.kube.errors import ApiError, ConfigurationError  # noqa: PLC0415

    options = argparse.Namespace(kubeconfig=_value(line, "--kubeconfig"), context=_value(line, "--context"))
    try:
        return sorted(value["metadata"]["name"] for value in Deployments(connect(options)).all())
    except (ApiError, ConfigurationError):
        return ()


def _value(line: Sequence[str], flag: str) -> str:
    """Return the value of a flag on the line, else of its variable."""
    apart = [value for word, value in pairwise(line) if word == flag]
    joined = [word.partition("=")[2] for word in line if word.startswith(f"{flag}=")]
    return next(iter(apart + joined), os.environ.get(f"RUKPAK_{flag[2:].upper()}", ""))
