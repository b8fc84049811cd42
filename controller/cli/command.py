"""Shared by the verbs: options, reading of files, the client of the cluster, exit statuses."""

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
    """The command line is invalid or names a file that cannot be read; the message is one line."""


def make_parser(verb: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a verb; on a mistake it prints an error and exits with status 2."""
    return argparse.ArgumentParser(prog=f"rukpak {verb}", description=description)


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add `--kubeconfig` and `--context`."""
    add_options(parser, os.environ, only=("kubeconfig", "context"))


def add_output(parser: argparse.ArgumentParser, choices: Sequence[str], default: str = "") -> None:
    """Add `-o`; the default "" is human-readable text."""
    text = f"output format [default: {default or 'text'}]"
    parser.add_argument("-o", "--output", choices=choices, default=default, help=text)


def connect(options: argparse.Namespace) -> Client:
    """Return a client for the cluster that the options select, with the user's credentials.

    Raises: ConfigurationError.
    """
    from controller.kube import client  # noqa: PLC0415 - slow to import, and render may not need it

    return client.connect(
        kubeconfig=options.kubeconfig or None,
        context=options.context or None,
        pool=8,
        user_agent=f"rukpak-cli/{version('rukpak')}",
    )


def read_file(name: str) -> bytes:
    """Return the content of a file; `-` is stdin.

    Raises: MisuseError.
    """
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise MisuseError(f'"{name}": {error.strerror or "cannot be read"}') from error


def tell(line: str) -> None:
    """Print a line that is not a result to stderr, with control characters escaped."""
    print(visible(line), file=sys.stderr, flush=True)
