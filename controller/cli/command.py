"""What verbs have in common: their options, how they read files and find the cluster, and their exit statuses."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from controller.content.limits import visible
from controller.options import add_options

if TYPE_CHECKING:
    from controller.kube.client import Client

FAILED = 1
MISUSE = 2


class MisuseError(Exception):
    """The command line means nothing, or names a file that cannot be read; the message is one line."""


def make_parser(verb: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a verb; on a mistake it prints one and exits with status 2."""
    return argparse.ArgumentParser(prog=f"rukpak {verb}", description=description)


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add kubectl's flags for the cluster that is meant."""
    add_options(parser, os.environ, only=("kubeconfig", "context"))


def add_output(parser: argparse.ArgumentParser, choices: Sequence[str], default: str = "") -> None:
    """Add `-o`; without a default the result is text for people."""
    shown = f" [{default}]" if default else "; default: plain text"
    parser.add_argument("-o", "--output", choices=choices, default=default, help=f"output format{shown}")


def connect(options: argparse.Namespace) -> Client:
    """Return a client for the cluster that the options name, with the rights of the user.

    Raises: ConfigurationError.
    """
    from controller.kube import client  # noqa: PLC0415 - takes long to load, and a rendering needs none

    return client.connect(
        kubeconfig=options.kubeconfig or None,
        context=options.context or None,
        pool=8,
        user_agent=f"rukpak-cli/{version('rukpak')}",
    )


def read_file(name: str) -> bytes:
    """Return what a file holds; `-` is stdin.

    Raises: MisuseError.
    """
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise MisuseError(f'"{name}": {error.strerror or "cannot be read"}') from error


def tell(line: str) -> None:
    """Say something that is no result."""
    print(visible(line), file=sys.stderr, flush=True)
